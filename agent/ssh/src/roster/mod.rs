//! [`Roster`]: the hosts without an agent, and how each is reached.

mod added;
mod ansible;
mod cache;
mod check;
mod dir;
mod flat;
mod host;
mod known_hosts;
mod scan;
mod sshconfig;

pub use host::{Host, Secret};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ansible::{Inventory, Members};
use host::Origin;
use scan::Scan;
use state::custom::Kind;
use state::exec::Exec;
use value::hint::nearest;
use value::target::{self, Facts};
use value::{Map, Value, log};
use wire::Id;

/// A callback that returns the grains of a host.
pub type Grains<'a> = &'a dyn Fn(&Id) -> Map;

/// The hosts of a configuration, by id.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    hosts: Vec<Host>,
    /// The position of each host.
    places: HashMap<Id, usize>,
    /// The names or addresses of the hosts by id, for each roster with its file or name.
    sources: Vec<(String, Map)>,
    /// The groups of inventories and of `ssh_list_nodegroups`.
    groups: Members,
    /// The roster `scan`, whose hosts are those of a target.
    scan: Option<Scan>,
    scanned: Arc<Mutex<BTreeMap<Id, Host>>>,
}

/// The maximum number of hosts in a roster.
const HOSTS_MAX: usize = 100_000;
/// The maximum number of rosters.
const ROSTERS_MAX: usize = 32;
/// The rosters of this program.
const KINDS: [&str; 7] = [
    "flat",
    "sshconfig",
    "ansible",
    "cache",
    "dir",
    "scan",
    "sshknownhosts",
];

/// Returns the path of the roster file: the option `roster_file`, or `roster` next to the
/// configuration. A name is looked for in the folders of `rosters` first.
fn file(cx: &Exec) -> PathBuf {
    let opts = cx.opts();
    match given(cx, "roster_file") {
        Some(path) => {
            let is_name = !path.contains('/') && path != "..";
            let folders = opts.texts("rosters").into_iter();
            let mut files = folders.map(|folder| Path::new(&folder).join(path));
            let found = files.find(|file| is_name && file.is_file());
            found.unwrap_or_else(|| path.into())
        }
        None => {
            let configuration = opts.text("conf_file").unwrap_or("/etc/salt/minion");
            let folder = Path::new(configuration).parent();
            folder
                .unwrap_or_else(|| "/etc/salt".as_ref())
                .join("roster")
        }
    }
}

/// Returns a path of the configuration.
fn given<'a>(cx: &'a Exec, option: &str) -> Option<&'a str> {
    cx.opts().text(option).filter(|path| !path.is_empty())
}

/// Returns a path of the configuration, or one below the user's home.
fn at_home(cx: &Exec, option: &str, path: &str) -> PathBuf {
    match given(cx, option) {
        Some(path) => path.into(),
        None => {
            let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
            PathBuf::from(home).join(path)
        }
    }
}

/// Replaces each text `sdb://…` in a value.
///
/// # Errors
/// When a secret cannot be read, or the values are too deep.
pub fn revealed(cx: &Exec, value: &Value) -> Result<Value, String> {
    flat::revealed(cx, value, 0)
}

/// Returns the entries of a custom roster, `_roster` of the tree.
fn custom(cx: &Exec, name: &str) -> Result<Map, String> {
    let function = format!("{name}.targets");
    let (args, kwargs) = (vec!["*".into()], Map::new().with("tgt_type", "glob"));
    let custom = &cx.shared.custom;
    let is_word = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let called = is_word.then(|| custom.call_client(cx, Kind::Roster, &function, args, kwargs));
    match called.flatten() {
        Some(Ok(Value::Map(entries))) => Ok(entries),
        Some(Ok(other)) => Err(format!(
            "it must return a dictionary of hosts, but returned a {}",
            other.type_name()
        )),
        Some(Err(error)) => Err(error.to_string()),
        None => {
            let hint = nearest(name, KINDS).map(|near| format!("; did you mean {near}?"));
            Err(format!(
                "no such roster; expected {}, or a file of _roster that saltutil.sync_roster has copied{}",
                KINDS.join(", "),
                hint.unwrap_or_default()
            ))
        }
    }
}

/// The entries of one roster.
struct Source {
    /// The file or the name.
    label: String,
    entries: Map,
    origin: Origin,
    groups: Members,
    /// The configuration of OpenSSH that the hosts are from, if it is not the user's own one.
    ssh_config: Option<PathBuf>,
}

impl Source {
    fn of_file(file: &Path, entries: Result<Map, String>) -> Result<Self, String> {
        let label = file.display().to_string();
        let entries =
            entries.map_err(|error| format!("cannot read the roster {label}: {error}"))?;
        Ok(Self {
            label,
            entries,
            origin: Origin::File,
            groups: Members::new(),
            ssh_config: None,
        })
    }

    fn of_data(name: &str, entries: Result<Map, String>) -> Result<Self, String> {
        let entries = entries.map_err(|error| format!("cannot read the roster {name}: {error}"))?;
        Ok(Self {
            label: name.to_owned(),
            entries,
            origin: Origin::Data,
            groups: Members::new(),
            ssh_config: None,
        })
    }

    fn read(cx: &Exec, name: &str) -> Result<Self, String> {
        if cx.shared.custom.has_file(Kind::Roster, name) {
            return Self::of_data(name, custom(cx, name));
        }
        let path = match name {
            "sshconfig" => at_home(cx, "ssh_config_file", ".ssh/config"),
            "sshknownhosts" => at_home(cx, "ssh_known_hosts_file", ".ssh/known_hosts"),
            "dir" => dir::folder(cx),
            _ => file(cx),
        };
        match name {
            "flat" => Self::of_file(&path, flat::dictionary(cx, &path)),
            "dir" => Self::of_file(&path, dir::entries(cx, &path)),
            "sshconfig" => Ok(Self {
                ssh_config: given(cx, "ssh_config_file").map(PathBuf::from),
                ..Self::of_file(&path, sshconfig::entries(&path))?
            }),
            "sshknownhosts" => Ok(Self {
                origin: Origin::Data,
                ..Self::of_file(&path, known_hosts::entries(&path))?
            }),
            "ansible" => Self::of_inventory(cx, &path)
                .map_err(|error| format!("cannot read the roster {}: {error}", path.display())),
            "cache" => Self::of_data(name, cache::entries(cx)),
            other => Self::of_data(name, custom(cx, other)),
        }
    }

    fn of_inventory(cx: &Exec, path: &Path) -> Result<Self, String> {
        let (inventory, origin) = Inventory::load(cx, path)?;
        let groups = inventory.members()?;
        Ok(Self {
            label: path.display().to_string(),
            entries: inventory.entries(&groups)?,
            origin,
            groups,
            ssh_config: None,
        })
    }
}

/// Returns the names of a target that is no pattern.
fn names_by_hand(tgt: &Value) -> Vec<String> {
    match tgt.as_list() {
        Some(_) => tgt.texts(),
        None => tgt.to_text().split(',').map(str::to_owned).collect(),
    }
}

impl Roster {
    /// Reads the rosters that the option `roster` names: `flat` if it is not set.
    ///
    /// # Errors
    /// As [`Roster::load_named`].
    pub fn load(cx: &Exec) -> Result<Self, String> {
        Self::load_named(cx, cx.opts().get("roster").unwrap_or(&Value::Null))
    }

    /// Reads the rosters for a target. The file may be missing if the target names its hosts by hand,
    /// as `user@host`.
    ///
    /// # Errors
    /// As [`Roster::load_named`].
    pub fn load_for(cx: &Exec, tgt: &Value) -> Result<Self, String> {
        let loaded = Self::load(cx);
        let is_by_hand = names_by_hand(tgt).iter().all(|name| name.contains('@'));
        match loaded {
            Err(error) if is_by_hand && !file(cx).exists() => {
                log::debug(error);
                Ok(Self::default())
            }
            loaded => loaded,
        }
    }

    /// Reads the rosters with these names: a list, or a text with commas. If several have a host,
    /// the entry of the last one counts.
    ///
    /// # Errors
    /// When there is no roster with a name, it cannot be read, or a host is not well formed.
    pub fn load_named(cx: &Exec, names: &Value) -> Result<Self, String> {
        let mut roster = Self {
            groups: list_nodegroups(cx)?,
            ..Self::default()
        };
        for name in named(names)? {
            match name.as_str() {
                name if cx.is_disabled(Kind::Roster, name) => {
                    return Err(format!("the roster {name} is disabled by disable_rosters"));
                }
                "scan" if !cx.shared.custom.has_file(Kind::Roster, "scan") => {
                    roster.scan = Some(Scan::from_opts(cx.opts())?);
                }
                name => roster.add(cx, Source::read(cx, name)?)?,
            }
        }
        Ok(roster)
    }

    /// Adds the hosts of a source, with `roster_defaults` below each entry.
    fn add(&mut self, cx: &Exec, source: Source) -> Result<(), String> {
        let label = source.label;
        if self.hosts.len() + source.entries.len() > HOSTS_MAX {
            return Err(format!("roster {label}: more than {HOSTS_MAX} hosts"));
        }
        let (defaults, mut names) = (defaults(cx), Map::new());
        for (id, entry) in &source.entries {
            let id = id.to_text();
            let host = match source.origin {
                Origin::File => Host::from_entry(&id, entry, &defaults),
                Origin::Data => Host::from_data(&id, entry, &defaults),
            };
            let host = match host {
                Ok(host) => Host {
                    ssh_config: source.ssh_config.clone(),
                    ..host
                },
                // The entries of the cache come from minions: one must not stop the others.
                Err(error) if label == "cache" => {
                    log::warning(format_args!("roster cache: an entry is skipped: {error}"));
                    continue;
                }
                Err(error) => return Err(format!("roster {label}: {error}")),
            };
            names.insert(id, host.host.as_str());
            self.put(host);
        }
        self.groups.extend(source.groups);
        self.sources.push((label, names));
        Ok(())
    }

    fn put(&mut self, host: Host) {
        match self
            .places
            .get(&host.id)
            .and_then(|place| self.hosts.get_mut(*place))
        {
            Some(known) => *known = host,
            None => {
                self.places.insert(host.id.clone(), self.hosts.len());
                self.hosts.push(host);
            }
        }
    }

    /// Returns the ids of all hosts. Those of the roster `scan` are known only by their target.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.id.to_string()).collect()
    }

    /// Returns the hosts with these ids.
    #[must_use]
    pub fn with_ids(&self, ids: &[String]) -> Vec<Host> {
        let scanned = self.scanned.lock().unwrap_or_else(PoisonError::into_inner);
        let host = |id: &String| {
            let id: Id = id.parse().ok()?;
            let place = self.places.get(&id);
            let known = place.and_then(|place| self.hosts.get(*place));
            known.or_else(|| scanned.get(&id)).cloned()
        };
        ids.iter().filter_map(host).collect()
    }

    /// Returns the names or addresses of the hosts by id, for each roster with its file or name.
    ///
    /// # Errors
    /// When the only roster is `scan`, which knows no hosts without a target.
    pub fn by_source(&self) -> Result<Map, String> {
        if self.sources.is_empty() {
            return Err(
                "the roster scan has no list of hosts: its hosts are those of a target".into(),
            );
        }
        let sources = self.sources.iter();
        Ok(sources
            .map(|(label, hosts)| (Value::from(label.as_str()), Value::Map(hosts.clone())))
            .collect())
    }

    /// Returns the hosts that a list of names gives by hand: `host` or `user@host`, without an entry
    /// in the roster. A pattern gives none.
    ///
    /// # Errors
    /// When a name is not well formed.
    pub fn by_hand(cx: &Exec, tgt: &Value) -> Result<Vec<Host>, String> {
        let names = names_by_hand(tgt);
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
            Host::from_data(host, &entry.into(), &defaults)
        };
        names.iter().map(host).collect()
    }

    /// Adds hosts to the file of the roster `flat`.
    ///
    /// # Errors
    /// When the option `roster` names other rosters, another user can change the file, or it cannot
    /// be read or written.
    pub fn add_by_hand(cx: &Exec, hosts: &[Host]) -> Result<(), String> {
        let rosters = cx.opts().get("roster").filter(|name| name.is_true());
        if rosters.is_some_and(|name| name.to_text() != "flat") {
            return Err("--update-roster adds to the roster flat alone".to_owned());
        }
        let file = file(cx);
        added::add(cx, &file, hosts)
            .map_err(|error| format!("cannot add to the roster {}: {error}", file.display()))
    }

    /// Returns the hosts that a target matches: by glob, regular expression (`pcre`), list, or
    /// nodegroup, and by `grain`, `grain_pcre`, `ipcidr` or `compound` if the grains of hosts are known. A
    /// group of an inventory is a nodegroup. The roster `scan` tries the addresses of the target.
    ///
    /// # Errors
    /// When the target is not well formed, or of a type that needs other facts about the hosts.
    pub fn matched(
        &self,
        cx: &Exec,
        tgt: &Value,
        tgt_type: &str,
        grains: Option<Grains<'_>>,
    ) -> Result<Vec<Host>, String> {
        let known = match tgt_type {
            "glob" | "pcre" | "list" | "nodegroup" => true,
            "grain" | "grain_pcre" | "ipcidr" | "compound" => grains.is_some(),
            _ => false,
        };
        if !known {
            return Err(format!("hosts of a roster cannot be matched by {tgt_type}"));
        }
        let group = self.groups.get(&tgt.to_text());
        if let Some(group) = group.filter(|_| tgt_type == "nodegroup") {
            let hosts = self.hosts.iter();
            let members = hosts.filter(|host| group.contains(host.id.as_str()));
            return Ok(members.cloned().collect());
        }
        let groups = cx.opts().get("nodegroups").and_then(Value::as_map);
        let groups = groups.cloned().unwrap_or_default();
        let mut matched = Vec::new();
        for host in &self.hosts {
            let facts = OfHost {
                host,
                groups: &groups,
                grains,
            };
            if target::matches(&facts, tgt, tgt_type)? {
                matched.push(host.clone());
            }
        }
        if matches!(tgt_type, "glob" | "list") {
            matched.extend(self.scanned(cx, tgt)?);
        }
        Ok(matched)
    }

    /// Returns the hosts that the roster `scan` finds at the addresses of a target, and remembers
    /// them.
    fn scanned(&self, cx: &Exec, tgt: &Value) -> Result<Vec<Host>, String> {
        let Some(scan) = &self.scan else {
            return Ok(Vec::new());
        };
        let defaults = defaults(cx);
        let entries = scan
            .entries(tgt)
            .map_err(|error| format!("roster scan: {error}"))?;
        let hosts = entries
            .iter()
            .map(|(id, entry)| Host::from_data(&id.to_text(), entry, &defaults))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("roster scan: {error}"))?;
        let hosts = hosts.into_iter();
        let hosts: Vec<Host> = hosts
            .filter(|host| !self.places.contains_key(&host.id))
            .collect();
        let mut known = self.scanned.lock().unwrap_or_else(PoisonError::into_inner);
        for host in &hosts {
            known.insert(host.id.clone(), host.clone());
        }
        Ok(hosts)
    }
}

/// Returns the names of rosters: a list, or a text with commas; `flat` without any.
fn named(names: &Value) -> Result<Vec<String>, String> {
    let mut all: Vec<String> = Vec::new();
    for name in names.texts().iter().flat_map(|text| text.split(',')) {
        let name = name.trim();
        if !name.is_empty() && !all.iter().any(|known| known == name) {
            all.push(name.to_owned());
        }
    }
    match all.len() {
        0 if names.is_true() && names.texts().is_empty() => {
            Err("roster must be a name, or a list of names".to_owned())
        }
        0 => Ok(vec!["flat".to_owned()]),
        count if count > ROSTERS_MAX => Err(format!("roster has more than {ROSTERS_MAX} names")),
        _ => Ok(all),
    }
}

/// Returns the groups of `ssh_list_nodegroups`: lists of ids, or texts with commas.
fn list_nodegroups(cx: &Exec) -> Result<Members, String> {
    let mut groups = Members::new();
    let Some(given) = cx.opts().get("ssh_list_nodegroups") else {
        return Ok(groups);
    };
    let given = given
        .as_map()
        .ok_or("ssh_list_nodegroups must be a dictionary")?;
    for (name, ids) in given {
        let ids = ids.texts().into_iter().flat_map(|text| {
            let ids = text.split(',').map(|id| id.trim().to_owned());
            ids.collect::<Vec<_>>()
        });
        groups.insert(name.to_text(), ids.collect::<BTreeSet<_>>());
    }
    Ok(groups)
}

/// Returns the values for entries that lack them: `roster_defaults` over the options of the
/// configuration and the command line.
fn defaults(cx: &Exec) -> Map {
    const OPTIONS: [(&str, &str); 9] = [
        ("ssh_user", "user"),
        ("ssh_passwd", "passwd"),
        ("ssh_port", "port"),
        ("ssh_priv", "priv"),
        ("ssh_priv_passwd", "priv_passwd"),
        ("ssh_sudo", "sudo"),
        ("ssh_sudo_user", "sudo_user"),
        ("ssh_identities_only", "identities_only"),
        ("ssh_remote_port_forwards", "remote_port_forwards"),
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

/// The facts about a host that need no connection.
struct OfHost<'a> {
    host: &'a Host,
    groups: &'a Map,
    grains: Option<Grains<'a>>,
}

impl Facts for OfHost<'_> {
    fn id(&self) -> &str {
        self.host.id.as_str()
    }

    fn grains(&self) -> Map {
        self.grains
            .map(|grains| grains(&self.host.id))
            .unwrap_or_default()
    }

    fn pillar(&self) -> Result<Map, String> {
        Err("hosts of a roster cannot be matched by pillar".to_owned())
    }

    fn nodegroups(&self) -> Map {
        self.groups.clone()
    }
}

#[cfg(test)]
mod tests;
