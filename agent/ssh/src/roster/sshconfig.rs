//! The roster `sshconfig`: the hosts that a configuration of OpenSSH names.

use std::path::Path;

use value::glob::fnmatch;
use value::{Map, Value};

use super::check;

/// The keywords that become values of an entry. The ssh program reads the others itself, because the
/// entry's host is the name in the configuration.
const KEYWORDS: [(&str, &str); 3] = [("user", "user"), ("port", "port"), ("identityfile", "priv")];

/// Returns the entries of a configuration, by the names after `Host`.
///
/// # Errors
/// When the file cannot be read, or another user can change it.
pub(super) fn entries(file: &Path) -> Result<Map, String> {
    let text = check::trusted_text(file)?;
    Ok(parsed(&text))
}

/// Parses a configuration as Salt does: the values of patterns apply to the names that they match.
fn parsed(text: &str) -> Map {
    let mut blocks: Vec<(Vec<String>, Map)> = Vec::new();
    for line in text.lines() {
        let mut words = line.split([' ', '\t', '=']).filter(|word| !word.is_empty());
        let Some(keyword) = words.next().map(str::to_lowercase) else {
            continue;
        };
        if keyword == "host" {
            let names = words.map(|name| name.trim_matches('"').to_owned());
            blocks.push((names.collect(), Map::new()));
            continue;
        }
        // The ssh program decides whether a block `Match` applies.
        if keyword == "match" {
            blocks.push((Vec::new(), Map::new()));
            continue;
        }
        let known = KEYWORDS.iter().find(|(known, _)| *known == keyword);
        if let (Some((_, key)), Some((_, values))) = (known, blocks.last_mut()) {
            let value = words.collect::<Vec<_>>().join(" ");
            values.entry(*key, || value.into());
        }
    }
    let is_pattern = |name: &str| name.contains(['*', '?', '!']);
    let mut entries = Map::new();
    let names = blocks.iter().flat_map(|(names, _)| names);
    for name in names.filter(|name| !is_pattern(name)) {
        let mut entry = Map::new().with("host", name.as_str());
        for (_, values) in blocks.iter().filter(|(names, _)| applies(names, name)) {
            for (key, value) in values {
                entry.entry(key.clone(), || value.clone());
            }
        }
        entries.insert(name.as_str(), Value::Map(entry));
    }
    entries
}

/// Returns whether the patterns after `Host` match a name: one does, and none with `!` does.
fn applies(patterns: &[String], name: &str) -> bool {
    let is_refused = |pattern: &&String| {
        let refused = pattern.strip_prefix('!');
        refused.is_some_and(|refused| fnmatch(refused, name))
    };
    patterns.iter().any(|pattern| fnmatch(pattern, name))
        && !patterns.iter().any(|pattern| is_refused(&pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_the_values_of_their_block_and_of_patterns() {
        let text = "# mine\nHost web1 web2\n  User admin\n  Port=2222\nHost db?\n  User dba\nHost db1\n  IdentityFile ~/.ssh/db\nHost * !web2\n  user root\n  Port 22\nMatch host web1\n  User other\n";
        let entries = parsed(text);
        let shown = |id: &str| entries.get(id).map(Value::to_text).unwrap_or_default();
        assert_eq!(
            shown("web1"),
            "{'host': 'web1', 'user': 'admin', 'port': '2222'}"
        );
        assert_eq!(
            shown("web2"),
            "{'host': 'web2', 'user': 'admin', 'port': '2222'}"
        );
        assert_eq!(
            shown("db1"),
            "{'host': 'db1', 'user': 'dba', 'priv': '~/.ssh/db', 'port': '22'}"
        );
        assert_eq!(entries.len(), 3);
    }
}
