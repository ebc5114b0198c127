//! [`Roster`]: the hosts without an agent, and how each is reached.

mod ansible;
mod flat;
mod host;
mod sshconfig;

pub use host::Host;

use std::path::PathBuf;

use ansible::Inventory;
use state::custom::Kind;
use state::exec::Exec;
use value::target::{self, Facts};
use value::{Map, Value};

/// The hosts of a configuration, by id.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    hosts: Vec<Host>,
}

/// The maximum number of hosts in a roster.
const HOSTS_MAX: usize = 100_000;

/// Returns the path of the roster file: the option `roster_file`, or `roster` next to the
/// configuration.
#[must_use]
pub fn file(cx: &Exec) -> PathBuf {
    let opts = cx.opts();
    match opts.text("roster_file").filter(|path| !path.is_empty()) {
        Some(path) => path.into(),
        None => {
            let configuration = opts.text("conf_file").unwrap_or("/etc/salt/minion");
            let folder = std::path::Path::new(configuration).parent();
            folder
                .unwrap_or_else(|| "/etc/salt".as_ref())
                .join("roster")
        }
    }
}

/// Returns the path of OpenSSH's configuration: the option `ssh_config_file`, or that of the user.
fn configuration(cx: &Exec) -> PathBuf {
    let given = cx.opts().text("ssh_config_file");
    match given.filter(|path| !path.is_empty()) {
        Some(path) => path.into(),
        None => {
            let home = std::env::var_os("HOME").unwrap_or_default();
            PathBuf::from(home).join(".ssh/config")
        }
    }
}

/// Returns the entries of a custom roster, `_roster` of the tree.
fn custom(cx: &Exec, name: &str) -> Result<Map, String> {
    let function = format!("{name}.targets");
    let (args, kwargs) = (vec!["*".into()], Map::new().with("tgt_type", "glob"));
    let custom = &cx.shared.custom;
    match custom.call_client(cx, Kind::Roster, &function, args, kwargs) {
        Some(Ok(Value::Map(entries))) => Ok(entries),
        Some(Ok(other)) => Err(format!(
            "the roster {name} must return a dictionary of hosts, but returned a {}",
            other.type_name()
        )),
        Some(Err(error)) => Err(format!("the roster {name} failed: {error}")),
        None => Err(format!(
            "unknown roster {name:?}; expected flat, sshconfig, ansible or a file of _roster that saltutil.sync_roster has copied"
        )),
    }
}

impl Roster {
    /// Reads the roster that the option `roster` names: `flat` if it is not set.
    ///
    /// # Errors
    /// When the kind of roster is unknown, its file cannot be read, or a host is not well formed.
    pub fn load(cx: &Exec) -> Result<Self, String> {
        let kind = cx.opts().text("roster").unwrap_or("flat");
        let entries = match kind {
            "flat" => flat::entries(cx, &file(cx))?,
            "sshconfig" => sshconfig::entries(&configuration(cx))?,
            "ansible" => Inventory::load(cx, &file(cx))?.entries(),
            other => custom(cx, other)?,
        };
        Self::from_entries(cx, &entries)
    }

    /// Creates a roster from a dictionary of ids, with `roster_defaults` below each entry.
    ///
    /// # Errors
    /// When an id or an entry is not well formed.
    pub fn from_entries(cx: &Exec, entries: &Map) -> Result<Self, String> {
        if entries.len() > HOSTS_MAX {
            return Err(format!("the roster has more than {HOSTS_MAX} hosts"));
        }
        let defaults = defaults(cx);
        let mut hosts = Vec::new();
        for (id, entry) in entries {
            hosts.push(Host::from_entry(&id.to_text(), entry, &defaults)?);
        }
        Ok(Self { hosts })
    }

    /// Returns all hosts, in the order of the roster.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns the hosts that a list of names gives by hand: `host` or `user@host`, without an entry
    /// in the roster. A pattern gives none.
    ///
    /// # Errors
    /// When a name is not well formed.
    pub fn by_hand(cx: &Exec, tgt: &Value) -> Result<Vec<Host>, String> {
        let names = match tgt.as_list() {
            Some(_) => tgt.texts(),
            None => tgt.to_text().split(',').map(str::to_owned).collect(),
        };
        if names.iter().any(|name| name.contains(['*', '?', '['])) {
            return Ok(Vec::new());
        }
        let defaults = defaults(cx);
        let host = |name: &String| {
            let (user, host) = match name.split_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, name.as_str()),
            };
            let mut entry = Map::new().with("host", host);
            if let Some(user) = user {
                entry.insert("user", user);
            }
            Host::from_entry(host, &entry.into(), &defaults)
        };
        names.iter().map(host).collect()
    }

    /// Returns the hosts that a target matches: by glob, regular expression (`pcre`), list, or
    /// nodegroup.
    ///
    /// # Errors
    /// When the target is not well formed, or of a type that needs facts about the hosts.
    pub fn matched(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<&Host>, String> {
        let groups = cx.opts().get("nodegroups").and_then(Value::as_map);
        let groups = groups.cloned().unwrap_or_default();
        if !matches!(tgt_type, "glob" | "pcre" | "list" | "nodegroup") {
            return Err(format!(
                "hosts of a roster are matched by glob, pcre, list or nodegroup, not by {tgt_type}"
            ));
        }
        let mut matched = Vec::new();
        for host in &self.hosts {
            let facts = OfHost {
                host,
                groups: &groups,
            };
            if target::matches(&facts, tgt, tgt_type)? {
                matched.push(host);
            }
        }
        Ok(matched)
    }
}

/// Returns the values for entries that lack them: `roster_defaults` over the options of the
/// configuration and the command line.
fn defaults(cx: &Exec) -> Map {
    const OPTIONS: [(&str, &str); 6] = [
        ("ssh_user", "user"),
        ("ssh_port", "port"),
        ("ssh_priv", "priv"),
        ("ssh_sudo", "sudo"),
        ("ssh_sudo_user", "sudo_user"),
        ("ssh_identities_only", "identities_only"),
    ];
    let mut defaults = Map::new();
    for (option, key) in OPTIONS {
        if let Some(value) = cx.opts().get(option).filter(|value| value.is_true()) {
            defaults.insert(key, value.clone());
        }
    }
    let own = cx.opts().get("roster_defaults").and_then(Value::as_map);
    defaults.update(own.cloned().unwrap_or_default());
    defaults
}

/// What is known of a host without asking it.
struct OfHost<'a> {
    host: &'a Host,
    groups: &'a Map,
}

impl Facts for OfHost<'_> {
    fn id(&self) -> &str {
        self.host.id.as_str()
    }

    fn grains(&self) -> Map {
        Map::new()
    }

    fn pillar(&self) -> Result<Map, String> {
        Err("hosts of a roster cannot be matched by pillar".to_owned())
    }

    fn nodegroups(&self) -> Map {
        self.groups.clone()
    }
}
