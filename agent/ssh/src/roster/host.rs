//! [`Host`]: an entry of a roster.

use std::path::PathBuf;
use std::time::Duration;

use value::hint::nearest;
use value::{Map, Value, secret};
use wire::Id;

use super::check::{self, named};

/// A host, and how it is reached.
#[derive(Clone, Debug)]
pub struct Host {
    /// The id, by which targets, pillar and returns name the host.
    pub id: Id,
    /// The name or address.
    pub host: String,
    /// The user to log in as; `None` leaves the choice to the ssh program.
    pub user: Option<String>,
    /// The password of the user, for the login and for `sudo`.
    pub passwd: Option<Secret>,
    /// The port; `None` leaves the choice to the ssh program.
    pub port: Option<u16>,
    /// The private key.
    pub key: Option<PathBuf>,
    /// The passphrase of the private key.
    pub priv_passwd: Option<Secret>,
    /// True if only the given key may be offered.
    pub identities_only: bool,
    /// The only accepted key of the host, as in `known_hosts`: `ssh-ed25519 AAAA…`.
    pub host_key: Option<String>,
    /// More options of OpenSSH: `Name=value`.
    pub options: Vec<String>,
    /// Ports of the host that lead to this machine: `[BIND:]PORT:HOST:PORT`.
    pub remote_port_forwards: Vec<String>,
    /// The seconds between keep-alive messages; 0 sends none.
    pub keepalive_interval: Option<u32>,
    /// The number of unanswered keep-alive messages after which the link counts as lost.
    pub keepalive_count_max: Option<u32>,
    /// True if the commands need a terminal on the host.
    pub tty: bool,
    /// True if the program runs by `sudo` on the host.
    pub sudo: bool,
    /// The user that `sudo` changes to; `None` means root.
    pub sudo_user: Option<String>,
    /// The `PATH` of the program on the host; it may contain `$PATH` and `$HOME`.
    pub set_path: Option<String>,
    /// The umask of the program on the host.
    pub cmd_umask: Option<u32>,
    /// The maximum time to connect.
    pub timeout: Option<Duration>,
    /// The folder for the program on the host; `None` lets the host's probe choose.
    pub folder: Option<String>,
    /// A command that runs on this machine before the first connection.
    pub ssh_pre_hook: Option<String>,
    /// A script of this machine that runs on the host before the program is placed there.
    pub ssh_pre_flight: Option<PathBuf>,
    /// The arguments of that script.
    pub ssh_pre_flight_args: Vec<String>,
    /// Options of the host's configuration.
    pub minion_opts: Map,
    /// The configuration of OpenSSH that the host is from, if it is not the user's own one.
    pub ssh_config: Option<PathBuf>,
}

/// A secret of an entry. It is masked in all output, and its debug form does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret. From now on, it is masked in all output.
    #[must_use]
    pub fn new(text: String) -> Self {
        secret::keep(&[], &text.as_str().into());
        Self(text)
    }

    /// Returns the secret itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The source of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file that only root or the caller can change.
    File,
    /// Data that others may have written, such as a cache or the output of a program.
    Data,
}

/// The keys of an entry.
const KEYS: [&str; 27] = [
    "cmd_umask",
    "host",
    "host_key",
    "identities_only",
    "keepalive",
    "keepalive_count_max",
    "keepalive_interval",
    "mine_functions",
    "minion_opts",
    "passwd",
    "port",
    "priv",
    "priv_passwd",
    "relenv",
    "remote_port_forwards",
    "set_path",
    "ssh_options",
    "ssh_pre_flight",
    "ssh_pre_flight_args",
    "ssh_pre_hook",
    "sudo",
    "sudo_user",
    "thin_dir",
    "timeout",
    "tty",
    "user",
    "winrm",
];

/// The keys that run commands on this machine, or open it to others.
const OF_FILES: [&str; 5] = [
    "remote_port_forwards",
    "ssh_options",
    "ssh_pre_flight",
    "ssh_pre_flight_args",
    "ssh_pre_hook",
];

/// Checks that a word is a key of an entry.
///
/// # Errors
/// When it is not, with the key that was probably meant.
pub(super) fn known(key: &str) -> Result<(), String> {
    if KEYS.contains(&key) {
        return Ok(());
    }
    let hint = match nearest(key, KEYS) {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    let key = key.chars().take(64).collect::<String>();
    Err(format!("unknown key {key:?}{hint}"))
}

impl Host {
    /// Reads an entry of a file that only root or the caller can change: a dictionary, or only the
    /// name of the host.
    ///
    /// # Errors
    /// When the id or a value is not well formed, or a key is unknown.
    pub fn from_entry(id: &str, entry: &Value, defaults: &Map) -> Result<Self, String> {
        let parsed: Id = id.parse().map_err(|error| format!("{error}"))?;
        let mut map = defaults.clone();
        match entry {
            Value::Map(own) => map.update(own.clone()),
            Value::Str(_) => {
                map.insert("host", entry.clone());
            }
            other => {
                return Err(format!(
                    "{id}: the entry must be a dictionary or a host name, but is a {}",
                    other.type_name()
                ));
            }
        }
        Self::from_map(parsed, &Entry(&map)).map_err(|error| format!("{id}: {error}"))
    }

    /// Reads an entry of data that others may have written, such as a cache or the output of a
    /// program.
    ///
    /// # Errors
    /// As [`Host::from_entry`], and when the entry would run commands on this machine.
    pub(super) fn from_data(id: &str, entry: &Value, defaults: &Map) -> Result<Self, String> {
        let own = entry.as_map().into_iter().flatten();
        let mut keys = own.map(|(key, _)| key.to_text());
        match keys.find(|key| OF_FILES.contains(&key.as_str())) {
            Some(key) => Err(format!(
                "{id}: {key} is only accepted from a roster file or from roster_defaults"
            )),
            None => Self::from_entry(id, entry, defaults),
        }
    }

    fn from_map(id: Id, entry: &Entry<'_>) -> Result<Self, String> {
        for key in entry.0.keys() {
            known(&key.to_text())?;
        }
        if entry.truth("winrm")? {
            return Err("winrm is not supported".into());
        }
        let host = match entry.text("host", |_| true)? {
            Some(host) => host.trim_matches(['[', ']']).to_owned(),
            None => id.to_string(),
        };
        named("host", &host, check::is_host)?;
        let sudo_user = entry.text("sudo_user", check::is_user)?;
        let key = entry.text("priv", check::is_line)?;
        let (keepalive_interval, keepalive_count_max) = entry.keepalive()?;
        Ok(Self {
            host,
            user: entry.text("user", check::is_user)?,
            passwd: entry.secret("passwd")?,
            port: entry.number("port", 1, u16::MAX)?,
            // Salt's word for the agent's keys.
            key: key.filter(|key| key != "agent-forwarding").map(Into::into),
            priv_passwd: entry.secret("priv_passwd")?,
            identities_only: entry.truth("identities_only")?,
            host_key: entry.host_key()?,
            options: entry.texts("ssh_options", check::is_option)?,
            remote_port_forwards: entry.forwards()?,
            keepalive_interval,
            keepalive_count_max,
            tty: entry.truth("tty")?,
            sudo: entry.truth("sudo")? || sudo_user.is_some(),
            sudo_user,
            set_path: entry.text("set_path", check::is_search_path)?,
            cmd_umask: entry.umask()?,
            timeout: entry
                .number("timeout", 1, 86_400_u32)?
                .map(|seconds| Duration::from_secs(seconds.into())),
            folder: entry.text("thin_dir", check::is_folder)?,
            ssh_pre_hook: entry.text("ssh_pre_hook", check::is_line)?,
            ssh_pre_flight: entry
                .text("ssh_pre_flight", check::is_path)?
                .map(Into::into),
            ssh_pre_flight_args: entry.texts("ssh_pre_flight_args", check::is_line)?,
            minion_opts: entry.minion_opts()?,
            ssh_config: None,
            id,
        })
    }
}

/// The keys and values of an entry, over the defaults.
struct Entry<'a>(&'a Map);

impl Entry<'_> {
    /// Returns a value; `None` if it is absent, null or empty, as Salt's defaults are.
    fn get(&self, key: &str) -> Option<&Value> {
        let value = self.0.get(key)?;
        (!value.is_null() && value.as_str() != Some("")).then_some(value)
    }

    fn text(&self, key: &str, fits: fn(&str) -> bool) -> Result<Option<String>, String> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let text = match value {
            Value::Str(_) | Value::Int(_) => value.to_text(),
            other => {
                return Err(format!(
                    "{key} must be a text, but is a {}",
                    other.type_name()
                ));
            }
        };
        named(key, &text, fits)?;
        Ok(Some(text))
    }

    /// Returns a list of texts; a text alone is a list of one.
    fn texts(&self, key: &str, fits: fn(&str) -> bool) -> Result<Vec<String>, String> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        if !matches!(value, Value::Str(_)) && value.as_list().is_none() {
            return Err(format!(
                "{key} must be a list, but is a {}",
                value.type_name()
            ));
        }
        let texts = value.texts();
        for text in &texts {
            named(key, text, fits)?;
        }
        Ok(texts)
    }

    fn truth(&self, key: &str) -> Result<bool, String> {
        let Some(value) = self.get(key) else {
            return Ok(false);
        };
        value
            .as_bool()
            .ok_or_else(|| format!("{key} must be True or False"))
    }

    fn number<N: TryFrom<i64> + PartialOrd>(
        &self,
        key: &str,
        least: N,
        most: N,
    ) -> Result<Option<N>, String> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let read = match value {
            Value::Str(text) => text.parse().ok(),
            other => other.as_int(),
        };
        let number = read.and_then(|number: i64| N::try_from(number).ok());
        let number = number.filter(|number| *number >= least && *number <= most);
        let shown = value.to_text().chars().take(64).collect::<String>();
        number
            .map(Some)
            .ok_or_else(|| format!("invalid {key} {shown:?}"))
    }

    /// Returns a password. Errors do not contain it.
    fn secret(&self, key: &str) -> Result<Option<Secret>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Str(text)) if check::is_line(text) => {
                Ok(Some(Secret::new(text.to_string())))
            }
            Some(Value::Str(_)) => Err(format!("{key} is too long or has a control character")),
            Some(value) => {
                secret::keep(&[], &value.to_text().into());
                Err(format!("{key} must be a text: put it in quotes"))
            }
        }
    }

    fn umask(&self) -> Result<Option<u32>, String> {
        match self.get("cmd_umask") {
            Some(Value::Str(text)) => {
                let mask = u32::from_str_radix(text.trim_start_matches("0o"), 8).ok();
                let mask = mask.filter(|mask| *mask <= 0o777);
                let shown = text.chars().take(64).collect::<String>();
                mask.map(Some)
                    .ok_or_else(|| format!("invalid cmd_umask {shown:?}"))
            }
            _ => self.number("cmd_umask", 0, 0o777_u32),
        }
    }

    /// Returns the interval of keep-alive messages, and how many may go unanswered.
    fn keepalive(&self) -> Result<(Option<u32>, Option<u32>), String> {
        let interval = self.number("keepalive_interval", 0, 86_400_u32)?;
        let count = self.number("keepalive_count_max", 1, 1_000_u32)?;
        match self.get("keepalive").is_some() && !self.truth("keepalive")? {
            true => Ok((Some(0), count)),
            false => Ok((interval, count)),
        }
    }

    /// Returns the forwarded ports: a list, or a text with commas.
    fn forwards(&self) -> Result<Vec<String>, String> {
        const KEY: &str = "remote_port_forwards";
        let listed = self.texts(KEY, check::is_line)?;
        let forwards: Vec<String> = listed
            .iter()
            .flat_map(|text| text.split(','))
            .map(|text| text.trim().to_owned())
            .collect();
        for forward in &forwards {
            named(KEY, forward, check::is_forward)?;
        }
        Ok(forwards)
    }

    /// Returns the pinned key as its type and its base64, without the comment.
    fn host_key(&self) -> Result<Option<String>, String> {
        let Some(text) = self.text("host_key", check::is_line)? else {
            return Ok(None);
        };
        let words: Vec<&str> = text.split_whitespace().take(2).collect();
        let key = words.join(" ");
        match words.as_slice() {
            [kind, base64] if check::is_key(kind, base64) => Ok(Some(key)),
            _ => Err(format!(
                "invalid host_key {:?}; expected a type and a key: ssh-ed25519 AAAA…",
                text.chars().take(64).collect::<String>()
            )),
        }
    }

    /// Returns the options of the host's configuration. Those that are named like passwords are
    /// masked.
    fn minion_opts(&self) -> Result<Map, String> {
        let mut options = match self.get("minion_opts") {
            None => Map::new(),
            Some(Value::Map(options)) => options.clone(),
            Some(other) => {
                return Err(format!(
                    "minion_opts must be a dictionary, but is a {}",
                    other.type_name()
                ));
            }
        };
        for (key, value) in &options {
            if key.to_text().contains("pass") {
                secret::keep(&[], value);
            }
        }
        if let Some(functions) = self.get("mine_functions") {
            options.entry("mine_functions", || functions.clone());
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests;
