//! The roster `ansible`: an inventory of Ansible, as INI or as a program that prints JSON for
//! `--list`.

use std::collections::BTreeMap;
use std::path::Path;

use machine::fs;
use state::exec::Exec;
use value::{Map, Value, json, trust};

/// The variables of Ansible that become values of an entry. The others become options of the host.
const VARIABLES: [(&str, &str); 9] = [
    ("ansible_host", "host"),
    ("ansible_ssh_host", "host"),
    ("ansible_port", "port"),
    ("ansible_ssh_port", "port"),
    ("ansible_user", "user"),
    ("ansible_ssh_user", "user"),
    ("ansible_ssh_private_key_file", "priv"),
    ("ansible_private_key_file", "priv"),
    ("ansible_become", "sudo"),
];

/// The maximum depth of groups that contain groups.
const DEPTH_MAX: usize = 32;

/// The hosts and groups of an inventory.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// The variables of each host, in the order of the inventory.
    hosts: Vec<(String, Map)>,
    groups: BTreeMap<String, Group>,
}

#[derive(Debug, Default)]
struct Group {
    hosts: Vec<String>,
    children: Vec<String>,
    variables: Map,
}

impl Inventory {
    /// Reads an inventory. An executable file is run with `--list`.
    ///
    /// # Errors
    /// When it cannot be read or run, another user can change it, or it is not well formed.
    pub(super) fn load(cx: &Exec, file: &Path) -> Result<Self, String> {
        let shown = file.display();
        trust::path(file, trust::user()).map_err(|error| error.sentence())?;
        let is_program = rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
        if !is_program {
            let text = fs::text(file);
            let text = text.map_err(|error| format!("cannot read the roster {shown}: {error}"))?;
            return Self::from_ini(&text).map_err(|error| format!("roster {shown}: {error}"));
        }
        let words = Value::list([shown.to_string().into(), "--list".into()]);
        let options = Map::new().with("python_shell", false);
        let done = cx.call("cmd.run_all", vec![words], options);
        let done = done.map_err(|error| format!("cannot run the roster {shown}: {error}"))?;
        if done.get("retcode") != Some(&Value::Int(0)) {
            let said = done.get("stderr").map(Value::to_text).unwrap_or_default();
            return Err(format!("the roster {shown} failed: {said}"));
        }
        let text = done.get("stdout").map(Value::to_text).unwrap_or_default();
        let listed = json::read(&text);
        let listed =
            listed.map_err(|error| format!("the roster {shown} printed no JSON: {error}"))?;
        Ok(Self::from_list(&listed))
    }

    /// Reads the output of `--list`.
    fn from_list(listed: &Value) -> Self {
        let mut inventory = Self::default();
        let variables = listed.get("_meta").and_then(|meta| meta.get("hostvars"));
        let of_host = |host: &str| {
            let own = variables
                .and_then(|all| all.get(host))
                .and_then(Value::as_map);
            own.cloned().unwrap_or_default()
        };
        for (name, group) in listed.as_map().into_iter().flatten() {
            let name = name.to_text();
            if name == "_meta" {
                continue;
            }
            let texts = |key: &str| group.get(key).map(Value::texts).unwrap_or_default();
            let hosts = match group.as_list() {
                Some(_) => group.texts(),
                None => texts("hosts"),
            };
            for host in &hosts {
                inventory.add(host, of_host(host));
            }
            let variables = group.get("vars").and_then(Value::as_map);
            let group = Group {
                hosts,
                children: texts("children"),
                variables: variables.cloned().unwrap_or_default(),
            };
            inventory.groups.insert(name, group);
        }
        inventory
    }

    fn from_ini(text: &str) -> Result<Self, String> {
        let mut inventory = Self::default();
        let (mut group, mut kind) = ("ungrouped".to_owned(), String::new());
        for (at, line) in text.lines().enumerate() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                let (name, of) = section.split_once(':').unwrap_or((section, ""));
                (group, kind) = (name.to_owned(), of.to_owned());
                continue;
            }
            let into = inventory.groups.entry(group.clone()).or_default();
            match kind.as_str() {
                "" => inventory.host(&group, line, at + 1)?,
                "children" => into.children.push(line.to_owned()),
                "vars" => {
                    let (key, value) = assigned(line, at + 1)?;
                    into.variables.insert(key, value);
                }
                other => return Err(format!("line {}: unknown section {other}", at + 1)),
            }
        }
        Ok(inventory)
    }

    /// Adds the host of a line: its name, and variables.
    fn host(&mut self, group: &str, line: &str, at: usize) -> Result<(), String> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default().to_owned();
        if name.contains('[') {
            return Err(format!(
                "line {at}: ranges of hosts are not supported: {name}"
            ));
        }
        let mut variables = Map::new();
        for word in words {
            let (key, value) = assigned(word, at)?;
            variables.insert(key, value);
        }
        self.add(&name, variables);
        self.groups
            .entry(group.to_owned())
            .or_default()
            .hosts
            .push(name);
        Ok(())
    }

    fn add(&mut self, host: &str, variables: Map) {
        match self.hosts.iter_mut().find(|(known, _)| known == host) {
            Some((_, known)) => known.update(variables),
            None => self.hosts.push((host.to_owned(), variables)),
        }
    }

    /// Returns the entries of the hosts, by id.
    pub(super) fn entries(&self) -> Map {
        let mut entries = Map::new();
        for (host, own) in &self.hosts {
            let mut variables = Map::new();
            for (name, group) in &self.groups {
                if name == "all" || self.members(name, 0).contains(host) {
                    variables.update(group.variables.clone());
                }
            }
            variables.update(own.clone());
            entries.insert(host.as_str(), entry(variables));
        }
        entries
    }

    /// Returns the hosts of a group and of the groups in it.
    pub(super) fn members(&self, name: &str, depth: usize) -> Vec<String> {
        let Some(group) = self.groups.get(name).filter(|_| depth < DEPTH_MAX) else {
            return Vec::new();
        };
        let inner = group.children.iter();
        let inner = inner.flat_map(|child| self.members(child, depth + 1));
        group.hosts.iter().cloned().chain(inner).collect()
    }
}

/// Returns the entry of a host with these variables.
fn entry(mut variables: Map) -> Value {
    let mut entry = Map::new();
    for (variable, key) in VARIABLES {
        if let Some(value) = variables.remove(variable) {
            entry.entry(key, || value);
        }
    }
    entry.with("minion_opts", variables).into()
}

fn assigned(text: &str, at: usize) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("line {at}: expected NAME=VALUE, found {text}"))?;
    let value = value.trim().trim_matches(['"', '\'']);
    Ok((key.trim().to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inventory_has_hosts_with_the_variables_of_their_groups() {
        let text = "[web]\nweb1 ansible_host=10.0.0.1 color=red\nweb2\n[db]\ndb1 ansible_port=2222\n[site:children]\nweb\ndb\n[site:vars]\nansible_user=admin\n[all:vars]\nzone=eu\n";
        let inventory = Inventory::from_ini(text).unwrap();
        let entries = inventory.entries();
        let shown = |id: &str| entries.get(id).map(Value::to_text).unwrap_or_default();
        assert_eq!(
            shown("web1"),
            "{'host': '10.0.0.1', 'user': 'admin', 'minion_opts': {'zone': 'eu', 'color': 'red'}}"
        );
        assert_eq!(
            shown("db1"),
            "{'port': '2222', 'user': 'admin', 'minion_opts': {'zone': 'eu'}}"
        );
        assert_eq!(inventory.members("site", 0), ["web1", "web2", "db1"]);
        assert!(Inventory::from_ini("[web]\nweb[1:3]\n").is_err());
        assert!(Inventory::from_ini("[web:vars]\nx\n").is_err());
    }

    #[test]
    fn the_list_of_a_program_is_read() {
        let list = r#"{"web": {"hosts": ["a", "b"], "vars": {"ansible_user": "u"}}, "odd": ["c"], "_meta": {"hostvars": {"a": {"ansible_host": "h"}}}}"#;
        let inventory = Inventory::from_list(&json::read(list).unwrap());
        let entries = inventory.entries();
        assert_eq!(
            entries.get("a").map(Value::to_text).as_deref(),
            Some("{'host': 'h', 'user': 'u', 'minion_opts': {}}")
        );
        assert!(entries.contains("c"));
    }
}
