//! [`Host`]: an entry of a roster.

use std::path::PathBuf;
use std::time::Duration;

use value::{Map, Value};
use wire::Id;

/// A host, and how it is reached.
#[derive(Clone, Debug)]
pub struct Host {
    /// The id, by which targets, pillar and returns name the host.
    pub id: Id,
    /// The name or address.
    pub host: String,
    /// The user to log in as; `None` leaves the choice to the ssh program.
    pub user: Option<String>,
    /// The port; `None` leaves the choice to the ssh program.
    pub port: Option<u16>,
    /// The private key.
    pub key: Option<PathBuf>,
    /// True if only the given key may be offered.
    pub identities_only: bool,
    /// More options of OpenSSH: `Name=value`.
    pub options: Vec<String>,
    /// True if the program runs by `sudo` on the host.
    pub sudo: bool,
    /// The user that `sudo` changes to; `None` means root.
    pub sudo_user: Option<String>,
    /// The maximum time to connect.
    pub timeout: Option<Duration>,
    /// The folder for the program on the host; `None` lets the host's probe choose.
    pub folder: Option<String>,
    /// Options of the host's configuration.
    pub minion_opts: Map,
}

/// The keys of an entry that this program obeys.
const KEYS: [&str; 12] = [
    "host",
    "user",
    "port",
    "priv",
    "identities_only",
    "ssh_options",
    "sudo",
    "sudo_user",
    "timeout",
    "thin_dir",
    "minion_opts",
    "winrm",
];

impl Host {
    /// Reads an entry: a dictionary, or only the name of the host.
    ///
    /// # Errors
    /// When the id or a value is not well formed, or a key is unknown.
    pub fn from_entry(id: &str, entry: &Value, defaults: &Map) -> Result<Self, String> {
        let parsed: Id = id.parse().map_err(|error| format!("roster: {error}"))?;
        let mut map = defaults.clone();
        match entry {
            Value::Map(own) => map.update(own.clone()),
            Value::Str(_) => {
                map.insert("host", entry.clone());
            }
            other => {
                return Err(format!(
                    "roster: the entry of {id} must be a dictionary or a host name, but is a {}",
                    other.type_name()
                ));
            }
        }
        Self::from_map(parsed, &map).map_err(|error| format!("roster: {id}: {error}"))
    }

    fn from_map(id: Id, map: &Map) -> Result<Self, String> {
        if let Some(key) = map
            .keys()
            .map(Value::to_text)
            .find(|key| !KEYS.contains(&key.as_str()))
        {
            return Err(format!("{key} is not supported"));
        }
        let text = |key: &str| {
            let value = map.get(key).filter(|value| !value.is_null());
            value.map(Value::to_text)
        };
        let truth = |key: &str| map.get(key).is_some_and(Value::is_true);
        if truth("winrm") {
            return Err("winrm is not supported".into());
        }
        let host = text("host").unwrap_or_else(|| id.to_string());
        let host = host.trim_matches(['[', ']']).to_owned();
        named("host", &host, is_host)?;
        for key in ["user", "sudo_user"] {
            if let Some(user) = text(key) {
                named(key, &user, is_user)?;
            }
        }
        let folder = text("thin_dir");
        if let Some(folder) = &folder {
            named("thin_dir", folder, is_folder)?;
        }
        let options = map.get("ssh_options").map(Value::texts).unwrap_or_default();
        for option in &options {
            named("ssh_options", option, is_option)?;
        }
        let minion_opts = map.get("minion_opts").and_then(Value::as_map);
        Ok(Self {
            host,
            user: text("user"),
            port: text("port").map(|port| read_port(&port)).transpose()?,
            // Salt's word for the agent's keys.
            key: text("priv")
                .filter(|key| key != "agent-forwarding")
                .map(PathBuf::from),
            identities_only: truth("identities_only"),
            options,
            sudo: truth("sudo") || text("sudo_user").is_some(),
            sudo_user: text("sudo_user"),
            timeout: seconds(map)?,
            folder,
            minion_opts: minion_opts.cloned().unwrap_or_default(),
            id,
        })
    }
}

fn seconds(map: &Map) -> Result<Option<Duration>, String> {
    let Some(value) = map.get("timeout").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let seconds = value
        .as_int()
        .and_then(|seconds| u64::try_from(seconds).ok());
    let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
    let seconds = seconds.ok_or_else(|| format!("invalid timeout {:?}", value.to_text()))?;
    Ok(Some(Duration::from_secs(seconds)))
}

fn read_port(port: &str) -> Result<u16, String> {
    let read = port.parse::<u16>().ok().filter(|port| *port > 0);
    read.ok_or_else(|| format!("invalid port {port:?}"))
}

fn named(key: &str, value: &str, fits: fn(&str) -> bool) -> Result<(), String> {
    match fits(value) {
        true => Ok(()),
        false => Err(format!(
            "invalid {key} {:?}",
            value.chars().take(64).collect::<String>()
        )),
    }
}

/// The maximum length of a value in bytes.
const LENGTH_MAX: usize = 255;

/// Returns whether a text is a name or an address. It is a word of the ssh program's command line.
fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:%".contains(&byte);
    is_word(text) && text.bytes().all(fits)
}

fn is_user(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@+$".contains(&byte);
    is_word(text) && text.bytes().all(fits)
}

/// Returns whether a text is an absolute path that a shell's double quotes leave as it is.
fn is_folder(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-@+".contains(&byte);
    text.starts_with('/') && text.len() <= LENGTH_MAX && text.bytes().all(fits)
}

fn is_option(text: &str) -> bool {
    let name = text.split(['=', ' ']).next().unwrap_or_default();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name && !text.chars().any(char::is_control)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.len() <= LENGTH_MAX && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(json: &str) -> Result<Host, String> {
        Host::from_entry("web1", &value::json::read(json).unwrap(), &Map::new())
    }

    #[test]
    fn an_entry_is_a_name_or_a_dictionary_over_the_defaults() {
        let defaults = Map::new().with("user", "admin").with("port", 2222);
        let entry = value::json::read(r#"{"host": "10.0.0.1", "port": 22, "sudo": true}"#).unwrap();
        let found = Host::from_entry("web1", &entry, &defaults).unwrap();
        assert_eq!((found.host.as_str(), found.port), ("10.0.0.1", Some(22)));
        assert_eq!(found.user.as_deref(), Some("admin"));
        assert!(found.sudo);
        assert_eq!(
            host(r#""web1.example.com""#).unwrap().host,
            "web1.example.com"
        );
        assert_eq!(
            host(r#"{"host": "[fe80::1%eth0]"}"#).unwrap().host,
            "fe80::1%eth0"
        );
        assert_eq!(host("{}").unwrap().host, "web1");
    }

    /// Attack: a roster from grains or an inventory may contain anything.
    #[test]
    fn a_value_that_could_be_an_option_or_a_command_is_refused() {
        let cases = [
            r#"{"host": "-oProxyCommand=id"}"#,
            r#"{"host": "a b"}"#,
            r#"{"host": "a\nb"}"#,
            r#"{"host": "a;id"}"#,
            r#"{"host": "a\u0000"}"#,
            r#"{"host": "a", "user": "-l"}"#,
            r#"{"host": "a", "user": "x`id`"}"#,
            r#"{"host": "a", "sudo_user": "x y"}"#,
            r#"{"host": "a", "port": 0}"#,
            r#"{"host": "a", "port": "22 -v"}"#,
            r#"{"host": "a", "port": 70000}"#,
            r#"{"host": "a", "thin_dir": "relative"}"#,
            r#"{"host": "a", "thin_dir": "/tmp/$(id)"}"#,
            r#"{"host": "a", "thin_dir": "/tmp/\"x"}"#,
            r#"{"host": "a", "ssh_options": ["A=b\nC=d"]}"#,
            r#"{"host": "a", "ssh_options": ["-v"]}"#,
            r#"{"host": "a", "timeout": -1}"#,
            r#"{"host": "a", "tty": true}"#,
            r#"{"host": "a", "hots": "b"}"#,
            "[1]",
            "7",
        ];
        for case in cases {
            assert!(host(case).is_err(), "{case}");
        }
        for id in ["", "-x", "a/b", "..", "a b"] {
            assert!(
                Host::from_entry(id, &"h".into(), &Map::new()).is_err(),
                "{id}"
            );
        }
    }
}
