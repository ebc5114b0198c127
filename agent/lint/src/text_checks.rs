//! Checks single lines of an SLS: values that YAML reads as something else, secrets, and forms that
//! Salt has replaced.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use render::Place;

use crate::codes::code;
use crate::finding::Finding;
use crate::samples::place;

/// A line `key: value` whose value is not a template, not a block and not quoted.
struct Pair<'a> {
    key: &'a str,
    value: &'a str,
    /// The column of the value, from 1.
    column: usize,
}

/// Checks each line of a file.
pub(crate) fn look(text: &str, shown: &str, findings: &mut Vec<Finding>) {
    let mut block: Option<usize> = None;
    for (at, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        // Lines inside a block of text are not YAML.
        if block.is_some_and(|outer| indent > outer || line.trim().is_empty()) {
            continue;
        }
        block = opens_block(line).then_some(indent);
        if line.contains("PRIVATE KEY-----") && line.contains("-----BEGIN") {
            secret(
                shown,
                at,
                line,
                line.len() - line.trim_start().len(),
                "a private key",
                findings,
            );
        }
        if let Some(pair) = pair(line) {
            of_pair(shown, at, line, &pair, findings);
        }
    }
}

fn of_pair(shown: &str, at: usize, line: &str, pair: &Pair<'_>, findings: &mut Vec<Finding>) {
    let here = || place(shown, at + 1, pair.column, line);
    let Pair { key, value, .. } = *pair;
    if let Some(problem) = number(key, value) {
        findings.push(Finding::at(code("W801"), here(), problem));
    }
    if is_mode(key) && is_octal(value) {
        let problem = format!("`{key}: {value}` is not quoted");
        findings.push(Finding {
            hint: Some(format!("put it in quotes: '{value}'")),
            ..Finding::at(code("I802"), here(), problem)
        });
    }
    if is_secret(key, value) {
        let what = format!("the value of `{key}`");
        secret(shown, at, line, pair.column - 1, &what, findings);
    }
}

fn secret(
    shown: &str,
    at: usize,
    line: &str,
    column: usize,
    what: &str,
    findings: &mut Vec<Finding>,
) {
    // Reports end up in logs, so the secret is not repeated.
    let kept: String = line.chars().take(column).collect();
    let allow = line
        .find("# pinch: allow")
        .and_then(|from| line.get(from..));
    let source = format!("{kept}‹secret› {}", allow.unwrap_or_default());
    let place = place(shown, at + 1, column + 1, source.trim_end());
    let message = format!("{what} is in plain text in a state file");
    findings.push(Finding::at(code("W803"), place, message));
}

/// True when the more deeply indented lines that follow are text: `key: |`.
fn opens_block(line: &str) -> bool {
    let line = line.trim_end();
    let last = line.rsplit(' ').next().unwrap_or_default();
    matches!(last, "|" | ">" | "|-" | ">-" | "|+" | ">+")
}

fn pair(line: &str) -> Option<Pair<'_>> {
    let rest = line.trim_start().trim_start_matches("- ").trim_start();
    let (key, value) = rest.split_once(": ")?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    let plain = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let is_plain = key.chars().all(plain) && !key.is_empty();
    let opaque = value.is_empty() || value.contains("{{") || value.contains("{%");
    let marks = ['{', '[', '&', '*', '|', '>', '#', '!'];
    if !is_plain || opaque || value.starts_with(marks) {
        return None;
    }
    let from = line.find(value.get(..)?)?;
    let from = line.find(&format!(": {value}")).map_or(from, |at| at + 2);
    Some(Pair {
        key,
        value,
        column: line.get(..from)?.chars().count() + 1,
    })
}

/// Describes a value that is meant as text but that YAML reads as a different number.
fn number(key: &str, value: &str) -> Option<String> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((hours, minutes)) = value.split_once(':') {
        let base60 = digits(hours) && !hours.starts_with('0') && digits(minutes);
        let minutes: u32 = minutes.parse().ok().filter(|m| *m < 60 && base60)?;
        let number = hours.parse::<u64>().ok()? * 60 + u64::from(minutes);
        return Some(format!("YAML reads `{value}` as the number {number}"));
    }
    let (whole, part) = value.split_once('.')?;
    let loses = digits(whole) && digits(part) && part.ends_with('0') && part.len() > 1;
    let short = format!("{whole}.{}", part.trim_end_matches('0'));
    (key.contains("version") && loses)
        .then(|| format!("YAML reads `{value}` as the number {short}"))
}

fn is_mode(key: &str) -> bool {
    matches!(key, "mode" | "file_mode" | "dir_mode")
}

fn is_octal(value: &str) -> bool {
    value.len() > 1 && value.starts_with('0') && value.bytes().all(|b| (b'0'..=b'7').contains(&b))
}

/// Keys whose values are secrets if they are in plain text.
const SECRETS: [&str; 12] = [
    "access_key",
    "api_key",
    "apikey",
    "auth_token",
    "client_secret",
    "db_password",
    "passwd",
    "password",
    "private_key",
    "secret",
    "secret_access_key",
    "secret_key",
];

/// Placeholders: a value with one of these words is not a secret.
const NO_SECRETS: [&str; 10] = [
    "changeme", "change", "example", "default", "none", "null", "false", "true", "xxx", "your",
];

fn is_secret(key: &str, value: &str) -> bool {
    let bare = value.trim_matches(['"', '\'']);
    let small = bare.to_lowercase();
    let is_path = bare.starts_with('/') || bare.contains("://");
    // The value is a hash, a locked account or a placeholder.
    let known = bare.starts_with(['$', '!', '*', '<', '%'])
        || NO_SECRETS.iter().any(|word| small.contains(word));
    let long = bare.len() >= 6 && !bare.contains(' ');
    SECRETS.contains(&key) && long && !is_path && !known
}

/// Returns the names of the files that templates include: the last parts of their paths.
pub(crate) fn included(texts: &BTreeMap<String, Arc<str>>) -> HashSet<String> {
    let mut all = HashSet::new();
    for text in texts.values() {
        for tag in text.split("{%").skip(1) {
            let tag = tag.split("%}").next().unwrap_or_default();
            let words = tag.trim_start_matches(['-', '+', ' ']);
            if ["include", "from", "import", "extends"]
                .iter()
                .any(|word| words.starts_with(word))
            {
                let quoted = words.split(['"', '\'']).skip(1).step_by(2);
                let names = quoted.filter_map(|path| path.rsplit('/').next());
                all.extend(names.map(str::to_owned));
            }
        }
    }
    all
}

/// Returns the place of the first line that contains a word which the message quotes, or names
/// after `SLS`.
pub(crate) fn naming(text: &str, shown: &str, sentence: &str) -> Option<Place> {
    let quoted = sentence.split('\'').skip(1).step_by(2);
    let after = sentence.split("SLS ").skip(1);
    let after = after.filter_map(|rest| rest.split_whitespace().next());
    let mut words = quoted.chain(after).filter(|word| *word != "base");
    words.find_map(|word| {
        let word = word.trim_matches(['\'', '"']);
        let mut lines = text.lines().enumerate();
        let (at, line, column) = lines.find_map(|(at, line)| Some((at, line, line.find(word)?)))?;
        Some(place(shown, at + 1, column + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_yaml_changes() {
        assert!(number("ports", "22:22").is_some());
        assert!(number("version", "1.10").is_some());
        assert!(number("version", "1.1.0").is_none());
        assert!(number("weight", "1.10").is_none());
        assert!(number("at", "08:30").is_none());
    }

    #[test]
    fn a_secret_is_one_in_plain() {
        assert!(is_secret("password", "hunter22"));
        for value in ["$6$a$b", "changeme", "/etc/key", "!", "none-given"] {
            assert!(!is_secret("password", value), "{value}");
        }
        assert!(!is_secret("name", "hunter22"));
    }
}
