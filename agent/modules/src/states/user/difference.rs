//! Determines the differences between a user and its wanted state.

use std::path::Path;

use machine::accounts;
use state::module::Error;
use value::{Map, Value};

use super::{NUMBERS, Present};
use crate::exec::shadow;
use crate::exec::user;
use crate::exec::user::change::GECOS;

/// The wanted state of a user.
pub(super) struct Wanted<'a> {
    /// The arguments of the state.
    pub(super) args: &'a Present,
    /// The primary group: the group in the state, or the group with the user's name if `usergroup`
    /// is set.
    pub(super) gid: Value,
}

impl Wanted<'_> {
    /// Returns the reason why the changes are not made, if the state does not allow them.
    pub(super) fn rejection(&self, changes: &Map) -> Option<String> {
        let user = user::find(&self.args.name, self.args.root()).unwrap_or_default();
        let allowed = [
            ("uid", self.args.allow_uid_change),
            ("gid", self.args.allow_gid_change),
        ];
        let refused = allowed
            .iter()
            .filter(|(key, allowed)| !allowed && changes.contains(key));
        let faults: Vec<String> = refused
            .map(|(key, _)| {
                let text = |map: &Map| map.get(key).map_or_else(String::new, Value::to_text);
                format!(
                    "Changing {key} ({} -> {}) not permitted, set allow_{key}_change to True to force this change. Note that this will not change file ownership.",
                    text(&user),
                    text(changes)
                )
            })
            .collect();
        let head = "Encountered error checking for needed changes. Additional info follows:";
        (!faults.is_empty()).then(|| format!("{head}\n\n- {}", faults.join("\n- ")))
    }

    fn gid(&self) -> Option<&Value> {
        Some(&self.gid).filter(|gid| !gid.is_null())
    }
}

/// Returns the attributes to change with their new values, or `None` if the user does not exist.
///
/// # Errors
/// When the shadow file cannot be read.
pub(super) fn difference(wanted: &Wanted<'_>) -> Result<Option<Map>, Error> {
    let args = wanted.args;
    let Some(user) = user::find(&args.name, args.root()) else {
        return Ok(None);
    };
    let mut change = Map::new();
    if let Some(uid) = args.uid.filter(|uid| *uid != 0) {
        differ(&mut change, "uid", user.get("uid"), uid.into());
    }
    if let Some(gid) = wanted.gid() {
        let now = user.get("gid");
        if now != Some(gid) && now != Some(&number_of(gid)) {
            change.insert("gid", gid.clone());
        }
    }
    if let Some(groups) = groups(wanted, &user) {
        change.insert("groups", groups);
    }
    places(args, &user, &mut change);
    passwords(args, &mut change)?;
    for (key, value) in GECOS.into_iter().zip(args.gecos()) {
        if let Some(value) = value {
            differ(&mut change, key, user.get(key), value.into());
        }
    }
    Ok(Some(change))
}

fn differ(change: &mut Map, key: &str, now: Option<&Value>, wanted: Value) {
    if now != Some(&wanted) {
        change.insert(key, wanted);
    }
}

fn places(args: &Present, user: &Map, change: &mut Map) {
    let home = args.home.as_deref().filter(|home| !home.is_empty());
    let now = user.get("home").and_then(Value::as_str).unwrap_or_default();
    if let Some(home) = home {
        differ(change, "home", user.get("home"), home.into());
    }
    let home = home.unwrap_or(now);
    if args.createhome && !Path::new(home).is_dir() {
        change.insert("homeDoesNotExist", home);
    }
    if let Some(shell) = args.shell.as_deref().filter(|shell| !shell.is_empty()) {
        differ(change, "shell", user.get("shell"), shell.into());
    }
}

fn passwords(args: &Present, change: &mut Map) -> Result<(), Error> {
    let info = shadow::lookup(&args.name, None)?;
    let hash = info
        .get("passwd")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let password = args.password.as_deref().unwrap_or_default();
    let may_change = hash == shadow::UNSET || args.enforce_password;
    if !password.is_empty() && !args.empty_password && may_change {
        differ(change, "passwd", info.get("passwd"), password.into());
    }
    if args.empty_password && !hash.is_empty() {
        change.insert("empty_password", true);
    }
    for ((key, number, _), value) in NUMBERS.iter().zip(args.numbers()) {
        if let Some(value) = value.filter(|value| *value != 0 || *key != "expire") {
            differ(change, key, info.get(number.key), value.into());
        }
    }
    if let Some(lock) = args
        .password_lock
        .filter(|lock| hash.starts_with('!') != *lock)
    {
        change.insert("password_lock", lock);
    }
    Ok(())
}

/// Returns the wanted groups if the user's groups differ from them. The primary group is not
/// counted in either list.
fn groups(wanted: &Wanted<'_>, user: &Map) -> Option<Vec<String>> {
    let args = wanted.args;
    let mut now = user.get("groups").map(Value::texts).unwrap_or_default();
    let all = now.clone();
    let mut groups: Vec<String> = args.groups.clone().unwrap_or_default();
    let optional = args.optional_groups.clone().unwrap_or_default();
    if !args.remove_groups || args.groups.is_none() && optional.is_empty() {
        groups.extend(now.iter().cloned());
    }
    groups.extend(optional);
    groups.sort();
    groups.dedup();
    let primary = user.get("gid").cloned().unwrap_or_default();
    let old = name_of(&primary);
    let new = name_of(wanted.gid().unwrap_or(&primary));
    let drop = |list: &mut Vec<String>, name: &str| {
        let same = namesakes(&all, name);
        list.retain(|group| !same.contains(group));
    };
    drop(&mut now, &new);
    drop(&mut groups, &new);
    if old != new {
        drop(&mut now, &old);
    }
    if !groups.contains(&args.name) {
        drop(&mut now, &args.name);
    }
    let needed = needs_change(&now, &groups, args.remove_groups);
    (needed && (!groups.is_empty() || args.remove_groups)).then_some(groups)
}

/// Returns the groups of a user that have the same number as the named group.
fn namesakes(groups: &[String], name: &str) -> Vec<String> {
    let gid = |name: &str| accounts::group(name).map(|group| group.gid);
    let others = groups.iter().filter(|group| {
        *group == name || groups.iter().any(|g| g == name) && gid(group) == gid(name)
    });
    others.cloned().chain([name.to_owned()]).collect()
}

fn needs_change(now: &[String], wanted: &[String], remove: bool) -> bool {
    let gid = |name: &str| accounts::group(name).map(|group| group.gid);
    let has_namesake = |group: &String| {
        let mut others = now.iter().chain(wanted).filter(|other| *other != group);
        others.any(|other| gid(other).is_some() && gid(other) == gid(group))
    };
    let added = wanted.iter().filter(|group| !now.contains(group));
    let removed = now.iter().filter(|group| remove && !wanted.contains(group));
    added.chain(removed).any(|group| !has_namesake(group))
}

/// Returns the number of a group that is given by name or number.
fn number_of(group: &Value) -> Value {
    match group {
        Value::Str(name) => accounts::group(name).map_or_else(|| "".into(), |g| g.gid.into()),
        other => other.clone(),
    }
}

/// Returns the name of a group that is given by name or number, or its number if it has no name.
fn name_of(group: &Value) -> String {
    let number = number_of(group);
    let gid = number.as_int().and_then(|gid| u32::try_from(gid).ok());
    let group = gid.and_then(accounts::group_of);
    group.map_or_else(|| number.to_text(), |group| group.name)
}
