//! Inventories as YAML: groups with `hosts`, `vars` and `children`.

use value::hint::nearest;
use value::{Map, Value};

use super::ini::named;
use super::{DEPTH_MAX, Inventory};

/// Reads an inventory.
///
/// # Errors
/// When it is not well formed.
pub(super) fn read(text: &str) -> Result<Inventory, String> {
    match render::yaml::load(text).map_err(|error| error.to_string())? {
        Value::Map(groups) => of_groups(&groups),
        other => Err(format!(
            "it must be a dictionary of groups, but is a {}",
            other.type_name()
        )),
    }
}

/// Reads the groups of an inventory.
///
/// # Errors
/// As [`read`].
pub(super) fn of_groups(groups: &Map) -> Result<Inventory, String> {
    let mut inventory = Inventory::default();
    for (name, group) in groups {
        add(&mut inventory, &name.to_text(), group, 0)?;
    }
    Ok(inventory)
}

fn add(inventory: &mut Inventory, name: &str, group: &Value, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("groups are more than {DEPTH_MAX} deep"));
    }
    inventory.group(name)?;
    for (key, value) in &entries(&format!("the group {name:?}"), group)? {
        let key = key.to_text();
        let place = format!("{key} of the group {name:?}");
        match key.as_str() {
            "hosts" => add_hosts(inventory, name, &place, value)?,
            "vars" => {
                let variables = entries(&place, value)?;
                inventory.group(name)?.variables.update(variables);
            }
            "children" => {
                for (child, group) in &entries(&place, value)? {
                    let child = child.to_text();
                    inventory.group(name)?.children.push(child.clone());
                    add(inventory, &child, group, depth + 1)?;
                }
            }
            other => {
                let near = nearest(other, ["hosts", "vars", "children"]);
                let hint = near.map(|near| format!("; did you mean {near}?"));
                return Err(format!(
                    "the group {name:?}: unknown key {other:?}{}",
                    hint.unwrap_or_default()
                ));
            }
        }
    }
    Ok(())
}

fn add_hosts(
    inventory: &mut Inventory,
    group: &str,
    place: &str,
    hosts: &Value,
) -> Result<(), String> {
    let hosts = match hosts {
        Value::Str(name) => Map::new().with(name, Value::Null),
        hosts => entries(place, hosts)?,
    };
    for (pattern, variables) in &hosts {
        let pattern = pattern.to_text();
        let own = entries(&format!("the host {pattern:?}"), variables)?;
        let (names, port) = named(&pattern)?;
        let mut variables = Map::new();
        if let Some(port) = port {
            variables.insert("ansible_port", port);
        }
        variables.update(own);
        for name in names {
            inventory.add_to(group, name, variables.clone())?;
        }
    }
    Ok(())
}

/// Returns the entries of a dictionary; none if it is null.
fn entries(place: &str, value: &Value) -> Result<Map, String> {
    match value {
        Value::Map(map) => Ok(map.clone()),
        Value::Null => Ok(Map::new()),
        other => Err(format!(
            "{place} must be a dictionary, but is a {}",
            other.type_name()
        )),
    }
}
