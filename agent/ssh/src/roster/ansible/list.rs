//! Inventories as programs: they print JSON for `--list`.

use std::path::Path;

use machine::process::Process;
use state::exec::Exec;
use value::{Map, Value, json};

use super::{Group, Inventory};

/// The maximum time of a program in seconds.
const TIME_MAX: i64 = if cfg!(test) { 2 } else { 60 };
/// The maximum size of its output in bytes.
const OUTPUT_MAX: usize = 16 << 20;
/// The maximum number of calls with `--host`, if the list has no variables of hosts.
const CALLS_MAX: usize = 1_000;

/// Runs a program, and reads its list.
///
/// # Errors
/// When it fails, takes too long, or its output is too large or not well formed.
pub(super) fn load(cx: &Exec, file: &Path) -> Result<Inventory, String> {
    let listed = printed(cx, file, &["--list"])?;
    let mut inventory = read(&listed)?;
    if listed.get("_meta").is_none() {
        let hosts: Vec<String> = inventory.hosts.keys().cloned().collect();
        if hosts.len() > CALLS_MAX {
            return Err(format!(
                "the list has no _meta with the variables of its {} hosts",
                hosts.len()
            ));
        }
        for host in hosts {
            let variables = printed(cx, file, &["--host", &host])?;
            inventory.add(&host, map(&host, &variables)?.clone())?;
        }
    }
    Ok(inventory)
}

fn printed(cx: &Exec, file: &Path, words: &[&str]) -> Result<Value, String> {
    let program = file.display().to_string();
    let all = std::iter::once(program.as_str()).chain(words.iter().copied());
    let process = Process {
        stdin: Some(String::new()),
        cwd: file.parent().map(|folder| folder.display().to_string()),
        timeout: Some(Value::Int(TIME_MAX)),
        ..Process::words(all).quiet()
    };
    let what = words.join(" ");
    let done = process
        .run(cx)
        .map_err(|error| format!("cannot run it with {what}: {error}"))?;
    if done.timed_out {
        return Err(format!("it took more than {TIME_MAX} s with {what}"));
    }
    let text = done.into_success().map_err(|failed| {
        let said = failed.stderr.chars().take(1000).collect::<String>();
        format!("it failed with {what}: {said}")
    })?;
    if text.len() > OUTPUT_MAX {
        return Err(format!(
            "it printed more than {OUTPUT_MAX} bytes with {what}"
        ));
    }
    json::read(&text).map_err(|error| format!("it printed no JSON with {what}: {error}"))
}

/// Reads the output of `--list`.
///
/// # Errors
/// When it is not well formed.
pub(super) fn read(listed: &Value) -> Result<Inventory, String> {
    let mut inventory = Inventory::default();
    for (name, group) in map("the list", listed)? {
        let name = name.to_text();
        if name == "_meta" {
            continue;
        }
        let group = read_group(&name, group)?;
        for host in &group.hosts {
            inventory.add(host, Map::new())?;
        }
        for child in &group.children {
            inventory.group(child)?;
        }
        *inventory.group(&name)? = group;
    }
    let variables = listed.get("_meta").and_then(|meta| meta.get("hostvars"));
    if let Some(variables) = variables {
        for (host, own) in map("hostvars", variables)? {
            let host = host.to_text();
            let own = map(&host, own)?.clone();
            inventory.add(&host, own)?;
        }
    }
    Ok(inventory)
}

/// Reads a group: a list of hosts, or a dictionary. One without any known key is a host with its
/// variables, as in Ansible.
fn read_group(name: &str, group: &Value) -> Result<Group, String> {
    if group.as_list().is_some() {
        return Ok(Group {
            hosts: texts(name, Some(group))?,
            ..Group::default()
        });
    }
    let entries = map(name, group)?;
    if !["hosts", "children", "vars"]
        .iter()
        .any(|key| entries.contains(key))
    {
        return Ok(Group {
            hosts: vec![name.to_owned()],
            variables: entries.clone(),
            ..Group::default()
        });
    }
    let variables = entries.get("vars").filter(|variables| !variables.is_null());
    let variables = variables
        .map(|variables| map(name, variables))
        .transpose()?;
    Ok(Group {
        hosts: texts(name, entries.get("hosts"))?,
        children: texts(name, entries.get("children"))?,
        variables: variables.cloned().unwrap_or_default(),
        ..Group::default()
    })
}

fn texts(name: &str, list: Option<&Value>) -> Result<Vec<String>, String> {
    match list {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(list) if list.as_list().is_some() => Ok(list.texts()),
        Some(other) => Err(format!(
            "the group {name:?}: expected a list, found a {}",
            other.type_name()
        )),
    }
}

fn map<'a>(place: &str, value: &'a Value) -> Result<&'a Map, String> {
    value.as_map().ok_or_else(|| {
        format!(
            "{place}: expected a dictionary, found a {}",
            value.type_name()
        )
    })
}
