//! The patterns of `include_pat`, `exclude_pat` and `clean`.

use value::Value;
use value::glob::fnmatch;
use value::pyre::{Flags, Regex};

/// Returns true if a path matches a pattern or one of a list of patterns. A pattern is a glob, or a
/// regular expression after `E@`.
fn fits(path: &str, patterns: &Value) -> bool {
    let one = |pattern: &str| match pattern.strip_prefix("E@") {
        Some(regex) => {
            Regex::new(regex, Flags::NONE).is_ok_and(|regex| regex.is_match(path).unwrap_or(false))
        }
        None => fnmatch(pattern, path),
    };
    match patterns.as_list() {
        Some(list) => list.iter().any(|pattern| one(&pattern.to_text())),
        None => one(&patterns.to_text()),
    }
}

/// Returns true if a path matches `exclude_pat`.
pub(crate) fn excluded(path: &str, exclude_pat: &Value) -> bool {
    exclude_pat.is_true() && fits(path, exclude_pat)
}

/// Returns whether a path is included, like Salt's `check_include_exclude`.
pub(crate) fn included(path: &str, include_pat: &Value, exclude_pat: &Value) -> bool {
    (!include_pat.is_true() || fits(path, include_pat)) && !excluded(path, exclude_pat)
}
