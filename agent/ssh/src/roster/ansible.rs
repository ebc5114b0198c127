//! The roster `ansible`: an inventory of Ansible, as INI, as YAML, or as a program that prints JSON
//! for `--list`. Salt calls `ansible-inventory` for it; this program reads the file itself.

mod folders;
mod ini;
mod list;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use machine::fs;
use state::exec::Exec;
use value::{Map, Value};

use super::HOSTS_MAX;
use super::check;
use super::host::Origin;

/// The maximum depth of groups that contain groups.
const DEPTH_MAX: usize = 32;
/// The maximum number of groups.
const GROUPS_MAX: usize = 20_000;
/// The maximum number of members of all groups together.
const MEMBERS_MAX: usize = 4_000_000;

/// The group of all hosts, and that of hosts without a group.
const ALL: &str = "all";
const UNGROUPED: &str = "ungrouped";

/// The variables of Ansible that become values of an entry; of several for one key, the first one
/// counts. The others become options of the host.
const VARIABLES: [(&str, &str); 11] = [
    ("ansible_host", "host"),
    ("ansible_ssh_host", "host"),
    ("ansible_port", "port"),
    ("ansible_ssh_port", "port"),
    ("ansible_user", "user"),
    ("ansible_ssh_user", "user"),
    ("ansible_ssh_private_key_file", "priv"),
    ("ansible_private_key_file", "priv"),
    ("ansible_password", "passwd"),
    ("ansible_ssh_pass", "passwd"),
    ("ansible_ssh_password", "passwd"),
];
/// The variables with the password of `sudo`. With one of them, the host needs `sudo`, as in Salt.
const SUDO_PASSWORDS: [&str; 3] = [
    "ansible_become_password",
    "ansible_become_pass",
    "ansible_sudo_pass",
];

/// The hosts and groups of an inventory.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// The own variables of each host.
    hosts: BTreeMap<String, Map>,
    groups: BTreeMap<String, Group>,
}

#[derive(Debug, Default)]
struct Group {
    hosts: Vec<String>,
    children: Vec<String>,
    /// The variables of the inventory.
    variables: Map,
    /// The variables of the folder `group_vars`, which are over those of the inventory.
    of_folder: Map,
}

/// The members of each group, with those of the groups in it.
pub(super) type Members = BTreeMap<String, BTreeSet<String>>;

impl Inventory {
    /// Reads an inventory. An executable file is run with `--list`. Also returns whether it is data
    /// of a program.
    ///
    /// # Errors
    /// When it cannot be read or run, another user can change it, or it is not well formed.
    pub(super) fn load(cx: &Exec, file: &Path) -> Result<(Self, Origin), String> {
        check::trusted(file)?;
        let (mut inventory, origin) = match rustix::fs::access(file, rustix::fs::Access::EXEC_OK) {
            Ok(()) => (list::load(cx, file)?, Origin::Data),
            Err(_) => (Self::read(file)?, Origin::File),
        };
        folders::add(&mut inventory, file)?;
        Ok((inventory, origin))
    }

    /// Reads a file that is no program.
    fn read(file: &Path) -> Result<Self, String> {
        let text = fs::raw::text(file).map_err(|error| error.to_string())?;
        let extension = file.extension().and_then(|name| name.to_str());
        match extension {
            Some("yml" | "yaml" | "json") => yaml::read(&text),
            // As in Ansible, a file without such a name is YAML if it is a dictionary.
            _ => match render::yaml::load(&text) {
                Ok(Value::Map(groups)) => yaml::of_groups(&groups),
                _ => ini::read(&text),
            },
        }
    }

    /// Adds a host, or variables to a host that is known.
    fn add(&mut self, host: &str, variables: Map) -> Result<(), String> {
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(host) {
            return Err(format!("the inventory has more than {HOSTS_MAX} hosts"));
        }
        self.hosts
            .entry(host.to_owned())
            .or_default()
            .update(variables);
        Ok(())
    }

    /// Adds the host to a group too.
    fn add_to(&mut self, group: &str, host: String, variables: Map) -> Result<(), String> {
        self.add(&host, variables)?;
        self.group(group)?.hosts.push(host);
        Ok(())
    }

    /// Returns a group, which is created if it is new.
    fn group(&mut self, name: &str) -> Result<&mut Group, String> {
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(name) {
            return Err(format!("the inventory has more than {GROUPS_MAX} groups"));
        }
        Ok(self.groups.entry(name.to_owned()).or_default())
    }

    /// Returns the members of all groups.
    ///
    /// # Errors
    /// When a group contains itself or an unknown one, or there are too many members.
    pub(super) fn members(&self) -> Result<Members, String> {
        let mut members = Members::new();
        for name in self.groups.keys() {
            self.collect(name, 0, &mut members)?;
            if members.values().map(BTreeSet::len).sum::<usize>() > MEMBERS_MAX {
                return Err(format!("the groups have more than {MEMBERS_MAX} members"));
            }
        }
        let grouped = members
            .iter()
            .filter(|(name, _)| *name != ALL && *name != UNGROUPED);
        let grouped: BTreeSet<&String> = grouped.flat_map(|(_, hosts)| hosts).collect();
        let alone = self.hosts.keys().filter(|host| !grouped.contains(host));
        let alone = alone.cloned().collect();
        members.insert(UNGROUPED.to_owned(), alone);
        members.insert(ALL.to_owned(), self.hosts.keys().cloned().collect());
        Ok(members)
    }

    fn collect(&self, name: &str, depth: usize, members: &mut Members) -> Result<(), String> {
        if members.contains_key(name) {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            return Err(format!(
                "the group {name:?} contains itself, or groups are more than {DEPTH_MAX} deep"
            ));
        }
        let Some(group) = self.groups.get(name) else {
            return match name {
                ALL | UNGROUPED => Ok(()),
                _ => Err(format!("the group {name:?} is not defined")),
            };
        };
        let mut hosts: BTreeSet<String> = group.hosts.iter().cloned().collect();
        for child in &group.children {
            self.collect(child, depth + 1, members)?;
            hosts.extend(members.get(child).into_iter().flatten().cloned());
        }
        members.insert(name.to_owned(), hosts);
        Ok(())
    }

    /// Returns the groups in the order in which their variables apply: the outer group first, and of
    /// groups at one depth in the order of their names.
    fn in_order(&self) -> Vec<(&str, &Group)> {
        let mut depths: BTreeMap<&str, usize> = BTreeMap::new();
        // A group is as deep as its deepest parent, plus one. `members` has excluded cycles.
        for _ in 0..DEPTH_MAX {
            for (name, group) in &self.groups {
                let below = depths.get(name.as_str()).copied().unwrap_or(1) + 1;
                for child in &group.children {
                    let depth = depths.entry(child).or_insert(1);
                    *depth = below.max(*depth).min(DEPTH_MAX);
                }
            }
        }
        let groups = self.groups.iter();
        let mut groups: Vec<_> = groups.map(|(name, group)| (name.as_str(), group)).collect();
        groups.sort_by_key(|(name, _)| match *name {
            ALL => (0, *name),
            name => (depths.get(name).copied().unwrap_or(1), name),
        });
        groups
    }

    /// Returns the variables of groups in the order in which they apply, as in Ansible: those of the
    /// group of all hosts, then those of the inventory, then those of `group_vars`.
    fn layers(&self) -> Vec<(&str, &Map)> {
        let (all, others): (Vec<_>, Vec<_>) = self
            .in_order()
            .into_iter()
            .partition(|(name, _)| *name == ALL);
        let mut layers = Vec::new();
        for groups in [all, others] {
            layers.extend(groups.iter().map(|(name, group)| (*name, &group.variables)));
            layers.extend(groups.iter().map(|(name, group)| (*name, &group.of_folder)));
        }
        layers.retain(|(_, variables)| !variables.is_empty());
        layers
    }

    /// Returns the entries of the hosts, by id.
    ///
    /// # Errors
    /// When a variable of Ansible has a value that an entry cannot have.
    pub(super) fn entries(&self, members: &Members) -> Result<Map, String> {
        let mut variables: BTreeMap<&str, Map> = BTreeMap::new();
        for (name, values) in self.layers() {
            for host in members.get(name).into_iter().flatten() {
                variables.entry(host).or_default().update(values.clone());
            }
        }
        let mut entries = Map::new();
        for (host, own) in &self.hosts {
            let mut all = variables.remove(host.as_str()).unwrap_or_default();
            all.update(own.clone());
            let entry = entry(all).map_err(|error| format!("{host}: {error}"))?;
            entries.insert(host.as_str(), entry);
        }
        Ok(entries)
    }
}

/// Returns the entry of a host with these variables.
fn entry(mut variables: Map) -> Result<Value, String> {
    let mut entry = Map::new();
    for (variable, key) in VARIABLES {
        if let Some(value) = variables.remove(variable) {
            entry.entry(key, || value);
        }
    }
    let mut is_sudo = false;
    for variable in SUDO_PASSWORDS {
        if let Some(password) = variables.remove(variable) {
            is_sudo = true;
            entry.entry("passwd", || password);
        }
    }
    if let Some(becomes) = variables.remove("ansible_become") {
        is_sudo = truth("ansible_become", &becomes)?;
    }
    if is_sudo {
        entry.insert("sudo", true);
        if let Some(user) = variables.remove("ansible_become_user") {
            entry.insert("sudo_user", user);
        }
    }
    Ok(entry.with("minion_opts", variables).into())
}

/// Reads a truth value as Ansible does.
fn truth(name: &str, value: &Value) -> Result<bool, String> {
    match value.to_text().to_lowercase().as_str() {
        "true" | "yes" | "on" | "1" | "y" | "t" => Ok(true),
        "false" | "no" | "off" | "0" | "n" | "f" => Ok(false),
        _ => Err(format!("{name} must be true or false")),
    }
}

/// Returns whether the value of a variable stays a text: a password of digits is no number.
fn is_text(variable: &str) -> bool {
    VARIABLES.iter().any(|(name, _)| *name == variable) || SUDO_PASSWORDS.contains(&variable)
}

#[cfg(test)]
mod tests;
