//! Finds the minion id if the configuration does not set it.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use value::read::or_none;

use super::error::ConfigError;
use value::{Map, Value};

/// An id and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) name: String,
    /// True if the id was generated from the machine's names and is to be saved, false if it was
    /// read from its file or is not saved.
    pub(super) generated: bool,
}

/// Returns the file of a generated id: `etc/salt/minion_id` below the root.
pub(super) fn cache_file(root: &str) -> PathBuf {
    Path::new(root).join("etc/salt/minion_id")
}

/// Returns the saved id, or else one generated from the machine's names.
///
/// # Errors
/// When a file with names exists and cannot be read. Another id would be another minion.
pub(super) fn id(opts: &Map, root: &str) -> Result<Id, ConfigError> {
    let keeps = opts.get("minion_id_caching").is_none_or(Value::is_true);
    if let Some(name) = keeps
        .then(|| kept(&cache_file(root)))
        .transpose()?
        .flatten()
    {
        return Ok(Id {
            name,
            generated: false,
        });
    }
    let hostname = text("/proc/sys/kernel/hostname")?.unwrap_or_default();
    let mut name = generated(hostname.trim(), |path| text(path))?;
    if opts.get("minion_id_lowercase").is_some_and(Value::is_true) {
        name = name.to_lowercase();
    }
    if let Some(domain) = opts
        .get("minion_id_remove_domain")
        .filter(|domain| domain.is_true())
    {
        name = without_domain(&name, domain);
    }
    Ok(Id {
        name,
        generated: keeps,
    })
}

/// Returns the text of a file; `None` where it does not exist.
fn text(path: impl AsRef<Path>) -> Result<Option<String>, ConfigError> {
    let path = path.as_ref();
    let bytes = or_none(std::fs::read(path)).map_err(|source| ConfigError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn kept(file: &Path) -> Result<Option<String>, ConfigError> {
    let text = text(file)?.unwrap_or_default();
    let name = text.trim_start_matches('\u{feff}').lines().next();
    let name = name.map_or("", str::trim);
    Ok((!name.is_empty() && name != "localhost").then(|| name.to_owned()))
}

fn without_domain(name: &str, domain: &Value) -> String {
    let short = match domain {
        Value::Str(domain) => {
            let end = name.len().checked_sub(domain.len() + 1);
            end.and_then(|end| name.split_at_checked(end))
                .filter(|(_, tail)| tail.eq_ignore_ascii_case(&format!(".{domain}")))
                .map(|(head, _)| head)
        }
        _ => name.split_once('.').map(|(head, _)| head),
    };
    short.unwrap_or(name).to_owned()
}

/// Returns the first name of the machine that is not a local name. The candidates are its full name
/// in `/etc/hosts`, its host name, `/etc/hostname`, `/etc/nodename` and the loopback names of
/// `/etc/hosts`. No name server is queried.
fn generated(
    hostname: &str,
    read: impl Fn(&str) -> Result<Option<String>, ConfigError>,
) -> Result<String, ConfigError> {
    let hosts = read("/etc/hosts")?.unwrap_or_default();
    let mut names = vec![full_name(hostname, &hosts), hostname.to_owned()];
    for text in [read("/etc/hostname")?, read("/etc/nodename")?, Some(hosts)]
        .into_iter()
        .flatten()
    {
        for words in text.lines().map(words) {
            let local = words
                .first()
                .is_some_and(|word| word.starts_with("127.") || word.starts_with("::1"));
            if local || words.len() == 1 {
                names.extend(words.into_iter().map(str::to_owned));
            }
        }
    }
    Ok(names
        .into_iter()
        .find(|name| !name.is_empty() && !is_local(name))
        .unwrap_or_else(|| "localhost".into()))
}

fn words(line: &str) -> Vec<&str> {
    line.split('#')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect()
}

/// Returns the name that Python's `getfqdn` finds in `/etc/hosts`: the first name with a dot for
/// the address of this host name.
fn full_name(hostname: &str, hosts: &str) -> String {
    let lines: Vec<Vec<&str>> = hosts.lines().map(words).collect();
    let address = lines
        .iter()
        .find(|line| line.iter().skip(1).any(|name| *name == hostname))
        .and_then(|line| line.first());
    let Some(names) = lines
        .iter()
        .find(|line| line.len() > 1 && line.first() == address)
    else {
        return hostname.into();
    };
    let dotted = names.iter().skip(1).find(|name| name.contains('.'));
    dotted
        .or_else(|| names.get(1))
        .map_or_else(|| hostname.into(), |name| (*name).to_owned())
}

/// Reports whether a name or an address is one that every machine has.
fn is_local(name: &str) -> bool {
    const STARTS: [&str; 7] = [
        "localhost",
        "ip6-",
        "0.0.0.0",
        "::1",
        "ipv6-",
        "fe00::",
        "fe02::",
    ];
    STARTS.iter().any(|start| name.starts_with(start))
        || name
            .strip_prefix("127.")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        || (name.starts_with("1.0.0.") && name.contains(".ip6.arpa"))
}

/// Returns the id with `append_domain` added. The domain is not added to an IPv4 address, to an id
/// that already ends with it, or after a dot at the end.
pub(super) fn with_domain(id: &str, domain: &str) -> String {
    if id.parse::<Ipv4Addr>().is_ok() || id.ends_with(domain) || id.ends_with('.') {
        return id.to_owned();
    }
    format!("{id}.{domain}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated_from(hostname: &str, hosts: &str, etc_hostname: Option<&str>) -> String {
        let read = |path: &str| {
            Ok(match path {
                "/etc/hosts" => Some(hosts.to_owned()),
                "/etc/hostname" => etc_hostname.map(str::to_owned),
                _ => None,
            })
        };
        generated(hostname, read).unwrap()
    }

    #[test]
    fn the_id_is_the_first_name_that_is_not_local() {
        assert_eq!(
            generated_from(
                "web1",
                "127.0.0.1 localhost\n127.0.1.1 web1.example.org web1\n",
                None
            ),
            "web1.example.org"
        );
        assert_eq!(
            generated_from(
                "web1",
                "127.0.0.1 localhost localhost.localdomain web1\n",
                None
            ),
            "web1"
        );
        assert_eq!(generated_from("web1", "", None), "web1");
        assert_eq!(
            generated_from(
                "localhost",
                "127.0.0.1 localhost box # home\n",
                Some("# none\nkept\n")
            ),
            "kept"
        );
        assert_eq!(
            generated_from("localhost", "127.0.0.1 localhost box # home\n", None),
            "box"
        );
        assert_eq!(
            generated_from("localhost", "::1 ip6-localhost\n10.0.0.1 other\n", None),
            "localhost"
        );
    }

    #[test]
    fn domains_are_added_and_removed() {
        assert_eq!(with_domain("a", "x.org"), "a.x.org");
        assert_eq!(with_domain("a.x.org", "x.org"), "a.x.org");
        assert_eq!(with_domain("10.0.0.1", "x.org"), "10.0.0.1");
        assert_eq!(without_domain("a.X.org", &Value::from("x.ORG")), "a");
        assert_eq!(without_domain("a.b.c", &Value::from(true)), "a");
        assert_eq!(without_domain("a.b.c", &Value::from("x")), "a.b.c");
    }
}
