//! Paths as text, with the rules of Python's `os.path`: what Salt shows of a path is what comes out here.

use std::path::Path;

use state::module::Error;
use value::log;

use crate::text;

/// `os.path.expanduser`.
pub(crate) fn expanduser(path: &str) -> String {
    text::expand_user(path).to_string_lossy().into_owned()
}

/// `os.path.expandvars`: unknown variables stay as they are.
pub(crate) fn expandvars(path: &str) -> String {
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

/// The name that follows a `$`, and how long it is as it is written.
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
pub(crate) fn isabs(path: &str) -> bool {
    path.starts_with('/')
}

/// `os.path.join`.
pub(crate) fn join(head: &str, tail: &str) -> String {
    if tail.starts_with('/') || head.is_empty() {
        tail.to_owned()
    } else if head.ends_with('/') {
        format!("{head}{tail}")
    } else {
        format!("{head}/{tail}")
    }
}

/// `os.path.split`.
pub(crate) fn split(path: &str) -> (&str, &str) {
    let (head, tail) = match path.rfind('/') {
        Some(slash) => path.split_at(slash + 1),
        None => ("", path),
    };
    let trimmed = head.trim_end_matches('/');
    (if trimmed.is_empty() { head } else { trimmed }, tail)
}

/// `os.path.dirname`.
pub(crate) fn dirname(path: &str) -> &str {
    split(path).0
}

/// `os.path.basename`.
pub(crate) fn basename(path: &str) -> &str {
    split(path).1
}

/// `os.path.normpath`.
pub(crate) fn normpath(path: &str) -> String {
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
pub(crate) fn abspath(path: &str) -> String {
    if isabs(path) {
        return normpath(path);
    }
    let here = std::env::current_dir().unwrap_or_default();
    normpath(&join(&here.to_string_lossy(), path))
}

/// `os.path.relpath` of two paths that are both absolute or both relative.
pub(crate) fn relpath(path: &str, start: &str) -> String {
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

/// `os.path.realpath`: what is not there stays as it is written.
pub(crate) fn realpath(path: &str) -> String {
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
        if let Ok(target) = crate::fs::link_target(&here) {
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
pub(crate) fn isdir(path: &str) -> bool {
    Path::new(path).is_dir()
}

/// `os.path.isfile`.
pub(crate) fn isfile(path: &str) -> bool {
    Path::new(path).is_file()
}

/// `os.path.islink`.
pub(crate) fn islink(path: &str) -> bool {
    Path::new(path).is_symlink()
}

/// `os.path.exists`.
pub(crate) fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

/// `os.path.lexists`.
pub(crate) fn lexists(path: &str) -> bool {
    Path::new(path).symlink_metadata().is_ok()
}

/// One folder of a walk: its path, the names of the folders in it (links to folders too), the names of everything else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walked {
    /// The folder.
    pub(crate) root: String,
    /// Names of folders.
    pub(crate) dirs: Vec<String>,
    /// Names of files and whatever else.
    pub(crate) files: Vec<String>,
}

/// `os.walk`, links not followed, each folder's names sorted. What is no folder, or is not there, has nothing in it.
///
/// # Errors
/// When a folder is there and cannot be read; Python's takes it for empty.
pub(crate) fn walk(top: &str, max_depth: Option<usize>) -> Result<Vec<Walked>, Error> {
    let mut out = Vec::new();
    descend(top, false, max_depth.unwrap_or(usize::MAX), &mut out)?;
    Ok(out)
}

/// The same, links to folders followed.
///
/// # Errors
/// As of [`walk`].
pub(crate) fn walk_links(top: &str) -> Result<Vec<Walked>, Error> {
    let mut out = Vec::new();
    descend(top, true, 64, &mut out)?;
    Ok(out)
}

/// The folder itself, without those below it; none where it is not there.
///
/// # Errors
/// As of [`walk`].
pub(crate) fn here(folder: &str) -> Result<Option<Walked>, Error> {
    Ok(walk(folder, Some(1))?.into_iter().next())
}

/// The same for a search, which passes over a folder that cannot be read, with a warning.
pub(crate) fn here_if_readable(folder: &str) -> Option<Walked> {
    here(folder).unwrap_or_else(|error| {
        log::warning(error);
        None
    })
}

fn descend(root: &str, follow: bool, depth: usize, out: &mut Vec<Walked>) -> Result<(), Error> {
    if depth == 0 {
        return Ok(());
    }
    let Some(entries) = crate::fs::list_or_none(root)? else {
        return Ok(());
    };
    let mut here = Walked {
        root: root.to_owned(),
        ..Walked::default()
    };
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            here.dirs.push(name);
        } else {
            here.files.push(name);
        }
    }
    here.dirs.sort();
    here.files.sort();
    let below: Vec<String> = here.dirs.iter().map(|name| join(root, name)).collect();
    out.push(here);
    for path in below.iter().filter(|path| follow || !islink(path)) {
        descend(path, follow, depth - 1, out)?;
    }
    Ok(())
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

    #[test]
    fn a_folder_that_cannot_be_read_is_no_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        std::os::unix::fs::symlink(path("looped"), path("looped")).unwrap();
        let error = walk(&path("looped"), None).unwrap_err().to_string();
        assert!(error.starts_with("Cannot read "), "{error}");
        assert!(here_if_readable(&path("looped")).is_none());
        assert!(walk(&path("missing"), None).unwrap().is_empty());
        let top = folder.path().to_string_lossy();
        assert_eq!(here(&top).unwrap().unwrap().files, ["looped"]);
    }
}
