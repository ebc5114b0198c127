//! Paths as text, with the rules of Python's `os.path`. The results are the paths that Salt shows.

use std::path::{Path, PathBuf};

use value::log;

/// `os.path.expanduser`.
pub fn expanduser(path: &str) -> String {
    expand_user(path).to_string_lossy().into_owned()
}

const PASSWD: &str = "/etc/passwd";

/// Replaces `~` or `~user` at the beginning, as Python's `os.path.expanduser` does.
#[must_use]
pub fn expand_user(path: &str) -> PathBuf {
    let Some(rest) = path.strip_prefix('~') else {
        return PathBuf::from(path);
    };
    let (user, below) = rest
        .split_once('/')
        .map_or((rest, None), |(u, b)| (u, Some(b)));
    let home = match user {
        "" => std::env::var("HOME").ok().or_else(|| home_of("root")),
        user => home_of(user),
    };
    match (home, below) {
        (Some(home), Some(below)) => {
            PathBuf::from(format!("{}/{below}", home.trim_end_matches('/')))
        }
        (Some(home), None) => PathBuf::from(home),
        (None, _) => PathBuf::from(path),
    }
}

fn home_of(user: &str) -> Option<String> {
    let accounts = std::fs::read_to_string(PASSWD)
        .inspect_err(|error| log::warning(format_args!("Cannot read {PASSWD}: {error}")))
        .ok()?;
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user))
            .then(|| fields.nth(4).map(str::to_owned))
            .flatten()
    })
}

/// `os.path.expandvars`. Unknown variables are kept.
pub fn expandvars(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, length) = variable(after);
        match std::env::var(name) {
            Ok(value) if length > 0 => out.push_str(&value),
            _ => {
                out.push('$');
                out.push_str(after.get(..length).unwrap_or_default());
            }
        }
        rest = after.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Returns the name after a `$`, and the length of its notation.
fn variable(text: &str) -> (&str, usize) {
    if let Some(braced) = text.strip_prefix('{') {
        return braced
            .split_once('}')
            .map_or(("", 0), |(name, _)| (name, name.len() + 2));
    }
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    (text.get(..end).unwrap_or_default(), end)
}

/// `os.path.isabs`.
pub fn isabs(path: &str) -> bool {
    path.starts_with('/')
}

/// `os.path.join`.
pub fn join(head: &str, tail: &str) -> String {
    if tail.starts_with('/') || head.is_empty() {
        tail.to_owned()
    } else if head.ends_with('/') {
        format!("{head}{tail}")
    } else {
        format!("{head}/{tail}")
    }
}

/// `os.path.split`.
pub fn split(path: &str) -> (&str, &str) {
    let (head, tail) = match path.rfind('/') {
        Some(slash) => path.split_at(slash + 1),
        None => ("", path),
    };
    let trimmed = head.trim_end_matches('/');
    (if trimmed.is_empty() { head } else { trimmed }, tail)
}

/// `os.path.dirname`.
pub fn dirname(path: &str) -> &str {
    split(path).0
}

/// `os.path.basename`.
pub fn basename(path: &str) -> &str {
    split(path).1
}

/// `os.path.normpath`.
pub fn normpath(path: &str) -> String {
    if path.is_empty() {
        return ".".into();
    }
    let slashes = match path.bytes().take_while(|b| *b == b'/').count() {
        0 => "",
        2 => "//",
        _ => "/",
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        let above = parts.last().is_none_or(|last| *last == "..");
        if part != ".." || (slashes.is_empty() && above) {
            parts.push(part);
        } else {
            parts.pop();
        }
    }
    let joined = format!("{slashes}{}", parts.join("/"));
    if joined.is_empty() {
        ".".into()
    } else {
        joined
    }
}

/// `os.path.abspath`.
pub fn abspath(path: &str) -> String {
    if isabs(path) {
        return normpath(path);
    }
    let here = std::env::current_dir().unwrap_or_default();
    normpath(&join(&here.to_string_lossy(), path))
}

/// `os.path.relpath` of two paths that are both absolute or both relative.
pub fn relpath(path: &str, start: &str) -> String {
    let (path, start) = (normpath(path), normpath(start));
    let parts = |text: &str| -> Vec<String> {
        text.split('/')
            .filter(|part| !matches!(*part, "" | "."))
            .map(str::to_owned)
            .collect()
    };
    let (path, start) = (parts(&path), parts(&start));
    let common = path.iter().zip(&start).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), start.len() - common);
    let all: Vec<String> = up.chain(path.into_iter().skip(common)).collect();
    if all.is_empty() {
        ".".into()
    } else {
        all.join("/")
    }
}

/// `os.path.realpath`. Parts of the path that do not exist are kept.
pub fn realpath(path: &str) -> String {
    let mut here = abspath(path);
    let mut below = String::new();
    loop {
        if let Ok(real) = Path::new(&here).canonicalize() {
            let real = real.to_string_lossy();
            return if below.is_empty() {
                real.into_owned()
            } else {
                join(&real, &below)
            };
        }
        if let Ok(target) = std::fs::read_link(&here) {
            let target = join(dirname(&here), &target.to_string_lossy());
            return normpath(&join(&target, &below));
        }
        let (head, tail) = split(&here);
        if tail.is_empty() {
            return abspath(path);
        }
        below = if below.is_empty() {
            tail.to_owned()
        } else {
            join(tail, &below)
        };
        here = head.to_owned();
    }
}

/// `os.path.isdir`.
pub fn isdir(path: &str) -> bool {
    Path::new(path).is_dir()
}

/// `os.path.isfile`.
pub fn isfile(path: &str) -> bool {
    Path::new(path).is_file()
}

/// `os.path.islink`.
pub fn islink(path: &str) -> bool {
    Path::new(path).is_symlink()
}

/// `os.path.exists`.
pub fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

/// `os.path.lexists`.
pub fn lexists(path: &str) -> bool {
    Path::new(path).symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_come_apart_and_together_as_in_python() {
        assert_eq!(normpath("/a/./b//../c/"), "/a/c");
        assert_eq!(normpath("../a/.."), "..");
        assert_eq!(split("/a/b"), ("/a", "b"));
        assert_eq!(split("/a"), ("/", "a"));
        assert_eq!(dirname("a"), "");
        assert_eq!(join("/a", "/b"), "/b");
        assert_eq!(relpath("/a/b/c", "/a/d"), "../b/c");
        assert_eq!(
            expandvars("/x/$NO_SUCH_VAR/${NO_SUCH}"),
            "/x/$NO_SUCH_VAR/${NO_SUCH}"
        );
    }
}
