//! The roster `sshknownhosts`: the hosts whose keys a `known_hosts` file has.

use std::path::Path;

use value::{Map, Value, log};

use super::check;

/// Returns the entries of a file, by host.
///
/// # Errors
/// When the file cannot be read, another user can change it, or a line is not well formed.
pub(super) fn entries(file: &Path) -> Result<Map, String> {
    let text = check::trusted_text(file)?;
    let Found { entries, hidden } = parsed(&text)?;
    if hidden > 0 {
        log::warning(format_args!(
            "roster {}: {hidden} names of hosts are hashed, or have no id, and are skipped",
            file.display()
        ));
    }
    Ok(entries)
}

struct Found {
    entries: Map,
    /// The number of names that cannot be read.
    hidden: usize,
}

/// Reads the names of each line. Lines with a marker (`@revoked`) and patterns name no host.
fn parsed(text: &str) -> Result<Found, String> {
    let (mut entries, mut hidden) = (Map::new(), 0);
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '@']) {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        let [names, _, _] = words.as_slice() else {
            return Err(format!("line {}: expected names, a type and a key", at + 1));
        };
        for name in names.split(',') {
            if name.starts_with('!') || name.contains(['*', '?']) {
                continue;
            }
            // The ids of hosts contain no colons, so an address of IPv6 cannot be one.
            let (host, port) = split(name);
            if name.starts_with('|') || host.contains(':') {
                hidden += 1;
                continue;
            }
            let entry = Map::new().with("host", host);
            let entry = match port {
                Some(port) => entry.with("port", port),
                None => entry,
            };
            // A name without a port comes first.
            if port.is_none() || !entries.contains(host) {
                entries.insert(host, Value::Map(entry));
            }
        }
    }
    Ok(Found { entries, hidden })
}

/// Splits `[host]:port`.
fn split(name: &str) -> (&str, Option<&str>) {
    let inner = name.strip_prefix('[').and_then(|name| name.split_once(']'));
    match inner {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hosts_and_hashed_ones_are_counted() {
        let text = "# mine\n\nweb1,10.0.0.1 ssh-ed25519 AAAA me\n[gate]:2222 ssh-rsa AAAA\n\
                    [web1]:2200 ssh-rsa AAAA\n|1|abc=|def= ssh-rsa AAAA\n*.example.com,!x ssh-rsa AAAA\n\
                    @revoked bad ssh-rsa AAAA\nfe80::1 ssh-rsa AAAA\n";
        let found = parsed(text).unwrap();
        let shown = Value::Map(found.entries).to_text();
        assert_eq!(
            shown,
            "{'web1': {'host': 'web1'}, '10.0.0.1': {'host': '10.0.0.1'}, 'gate': {'host': 'gate', 'port': '2222'}}"
        );
        assert_eq!(found.hidden, 2);
        assert!(parsed("web1 ssh-rsa\n").is_err());
    }
}
