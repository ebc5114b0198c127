//! Python's `fnmatch`: `*`, `?`, `[seq]`, `[!seq]`; `/` and a leading dot are not special.

use crate::pyre::{Anchor, Flags, Regex, Subject};

/// True when the text contains a character that is special in a pattern.
#[must_use]
pub fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Returns the result of Python's `fnmatch.fnmatchcase(text, pattern)`.
#[must_use]
pub fn fnmatch(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    matches(&pattern, &text)
}

/// Returns whether a pattern of Salt's whitelists and blacklists matches: a glob, or a regular
/// expression for the whole text.
#[must_use]
pub fn matches_expression(pattern: &str, text: &str) -> bool {
    if fnmatch(pattern, text) {
        return true;
    }
    let whole = format!("(?:{pattern})\\Z");
    let regex = Regex::compiled(&whole, Flags::NONE, Subject::Text, Anchor::Start);
    regex.is_ok_and(|regex| regex.is_match(text).unwrap_or(false))
}

/// Returns whether a name passes a whitelist and a blacklist of expressions. An empty whitelist has
/// no effect.
#[must_use]
pub fn passes_lists(name: &str, whitelist: &[String], blacklist: &[String]) -> bool {
    let is_on = |list: &[String]| list.iter().any(|pattern| matches_expression(pattern, name));
    !is_on(blacklist) && (whitelist.is_empty() || is_on(whitelist))
}

/// Matches with two cursors: on a mismatch, returns to the last `*` and lets it match one more
/// character.
fn matches(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(&c) = text.get(t) {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            Some(_) => one(pattern.get(p..).unwrap_or_default(), c),
            None => None,
        };
        if let Some(width) = step {
            p += width;
            t += 1;
        } else if let Some((star_p, star_t)) = star {
            star = Some((star_p, star_t + 1));
            p = star_p + 1;
            t = star_t + 1;
        } else {
            return false;
        }
    }
    pattern
        .get(p..)
        .unwrap_or_default()
        .iter()
        .all(|c| *c == '*')
}

/// Returns the number of pattern characters that match `c`, or `None` if they do not match.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['[', rest @ ..] => match class(rest, c) {
            Some((true, width)) => Some(width + 1),
            Some((false, _)) => None,
            None => (c == '[').then_some(1),
        },
        [first, ..] => (*first == c).then_some(1),
        [] => None,
    }
}

/// Returns whether `c` is in a class, and the number of pattern characters after `[` that the class
/// has; `None` if no `]` closes it.
fn class(pattern: &[char], c: char) -> Option<(bool, usize)> {
    let negated = pattern.first() == Some(&'!');
    let start = usize::from(negated);
    // A `]` directly after `[` or `[!` is a literal member of the class.
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|c| *c == ']')?;
    let mut set = pattern.get(start..end)?;
    let mut found = false;
    while let Some(first) = set.first() {
        if let [low, '-', high, rest @ ..] = set {
            found |= (*low..=*high).contains(&c);
            set = rest;
        } else {
            found |= *first == c;
            set = set.get(1..).unwrap_or_default();
        }
    }
    Some((found != negated, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_fnmatch_does() {
        for (pattern, text, want) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("[]]", "]", true),
            ("[x", "[x", true),
            ("*.example.org", ".example.org", true),
            ("a/*", "a/b/c", true),
            ("**b", "aab", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fnmatch(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn an_expression_is_a_glob_or_a_regular_expression_for_the_whole_text() {
        for (pattern, text, want) in [
            ("web*", "web1", true),
            (r"web\d+", "web12", true),
            (r"web\d+", "web12x", false),
            ("a|bc", "ax", false),
            ("(", "(", true),
            ("(", "a", false),
        ] {
            assert_eq!(matches_expression(pattern, text), want, "{pattern} {text}");
        }
    }
}
