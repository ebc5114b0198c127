//! Finds paths by pattern, as Python's `glob.glob` does.

use std::fs;
use std::path::{Path, PathBuf};

/// Reports whether a path has wildcards.
pub(super) fn has_magic(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Returns the matching paths, sorted. A path without wildcards matches if it exists.
#[must_use]
pub(super) fn glob(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = part.as_os_str().to_string_lossy();
        if has_magic(&name) {
            found = found
                .iter()
                .flat_map(|folder| entries(folder, &name))
                .collect();
        } else {
            found.iter_mut().for_each(|path| path.push(part));
        }
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    value::sorted::sort(&mut found);
    found
}

/// Returns the entries of a folder that match. Hidden names match only if the pattern starts with a
/// dot.
fn entries(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let listed = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let Ok(entries) = fs::read_dir(listed) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            (pattern.starts_with('.') || !name.starts_with('.')) && matches(pattern, name)
        })
        .map(|name| folder.join(name))
        .collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    matches_rest(&pattern, &name)
}

fn matches_rest(pattern: &[char], name: &[char]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        (['*', rest @ ..], _) => {
            (0..=name.len()).any(|skip| matches_rest(rest, name.get(skip..).unwrap_or_default()))
        }
        (['?', rest @ ..], [_, tail @ ..]) => matches_rest(rest, tail),
        (['[', rest @ ..], [c, tail @ ..]) => match class(rest, *c) {
            Some((inside, rest)) => inside && matches_rest(rest, tail),
            None => *c == '[' && matches_rest(rest, tail),
        },
        ([p, rest @ ..], [c, tail @ ..]) => p == c && matches_rest(rest, tail),
        _ => false,
    }
}

/// Reports whether a character is in `[…]`, and returns the pattern after the bracket; `None` if
/// the bracket is never closed.
fn class(pattern: &[char], c: char) -> Option<(bool, &[char])> {
    let negated = pattern.first() == Some(&'!');
    let body = pattern.get(usize::from(negated)..)?;
    // A closing bracket directly after the opening one is a member of the set.
    let close = body.iter().skip(1).position(|c| *c == ']')? + 1;
    let (members, rest) = body.split_at(close);
    let mut inside = false;
    let mut members = members;
    while let [first, tail @ ..] = members {
        members = match tail {
            ['-', last, tail @ ..] => {
                inside |= (*first..=*last).contains(&c);
                tail
            }
            _ => {
                inside |= *first == c;
                tail
            }
        };
    }
    Some((inside != negated, rest.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_the_shell_matches_them() {
        let cases = [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
        ];
        for (pattern, name, want) in cases.into_iter().chain([
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[", "[", true),
            ("a*b*c", "aXbYc", true),
        ]) {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}
