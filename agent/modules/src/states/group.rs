//! The `group` state module.

use machine::accounts;
use machine::fs;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::group::{self, Add};

state::state_module! {
    /// Management of user groups.
    mod group;

    /// Ensure that a group exists.
    ///
    ///     developers:
    ///       group.present:
    ///         - addusers: [alice, bob]
    fn present(Present {
        /// The group.
        name: String,
        /// The number of the group.
        gid: Value = Value::Null,
        /// True to make it a system group.
        system: bool = false,
        /// Users to add to the group.
        addusers: Option<Vec<String>> = None,
        /// Users to remove from the group.
        delusers: Option<Vec<String>> = None,
        /// The exact list of the group's members.
        members: Option<Vec<String>> = None,
        /// True to allow a number that another group uses.
        non_unique: bool = false,
        /// True to create it with lgroupadd in the files of this machine.
        local: bool = false,
    });

    /// Ensure that a group does not exist.
    ///
    ///     developers:
    ///       group.absent
    fn absent(Absent {
        /// The group.
        name: String,
        /// True to remove it with lgroupdel.
        local: bool = false,
    });
}

/// The differences between an existing group and the wanted one.
#[derive(Default)]
struct Changes {
    gid: Option<i64>,
    members: Option<Vec<String>>,
    addusers: Vec<String>,
    delusers: Vec<String>,
}

fn root(local: bool) -> Option<&'static str> {
    local.then_some("/")
}

impl Present {
    fn gid(&self) -> Result<Option<i64>, ()> {
        match &self.gid {
            gid if !gid.is_true() => Ok(None),
            Value::Str(text) => text.trim().parse().map(Some).map_err(drop),
            gid => gid.as_int().map(Some).ok_or(()),
        }
    }
}

impl Changes {
    /// Returns the differences, or `None` if the group does not exist.
    fn compare(args: &Present, gid: Option<i64>) -> Option<Self> {
        let now = group::find(&args.name, root(args.local))?;
        let current = now.get("members").and_then(Value::as_list);
        let current: Vec<String> = current
            .unwrap_or_default()
            .iter()
            .map(Value::to_text)
            .collect();
        let mut changes = Self {
            gid: gid.filter(|gid| now.get("gid") != Some(&(*gid).into())),
            ..Self::default()
        };
        if let Some(members) = &args.members {
            let added = members.iter().any(|user| !current.contains(user));
            let removed = current.iter().any(|user| !members.contains(user));
            if members.is_empty() {
                changes.delusers.clone_from(&current);
            } else if added || removed {
                changes.members = Some(members.clone());
            }
        }
        let users = args.addusers.iter().flatten();
        changes.addusers = users
            .filter(|user| !current.contains(user))
            .cloned()
            .collect();
        let users = args.delusers.iter().flatten();
        changes
            .delusers
            .extend(users.filter(|user| current.contains(user)).cloned());
        Some(changes)
    }

    fn to_map(&self, args: &Present) -> Map {
        let mut map = Map::new();
        if let Some(gid) = self.gid {
            map.insert("gid", gid);
        }
        if args.members.as_ref().is_some_and(Vec::is_empty) && !self.delusers.is_empty() {
            let users = self
                .delusers
                .iter()
                .map(|user| (Value::from(user.as_str()), Value::Null));
            map.insert("delusers", Value::Set(users.collect()));
            return map;
        }
        if let Some(members) = &self.members {
            map.insert("members", members.clone());
        }
        for (key, users) in [("addusers", &self.addusers), ("delusers", &self.delusers)] {
            if !users.is_empty() {
                map.insert(key, users.clone());
            }
        }
        map
    }

    fn make(&self, cx: &Exec, args: &Present) -> Result<(), Error> {
        let name = &args.name;
        if let Some(gid) = self.gid {
            group::set_gid(cx, name, &gid.into(), None, args.non_unique)?;
        }
        if let Some(members) = &self.members {
            group::set_members(cx, name, members, None)?;
        }
        for user in &self.addusers {
            group::add_member(cx, name, user, None)?;
        }
        for user in &self.delusers {
            group::remove_member(cx, name, user, None)?;
        }
        Ok(())
    }
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    accounts::check()?;
    if let Some(why) = conflict(&args) {
        return Ok(Ret::would(why));
    }
    let gid = args.gid();
    let Some(changes) = Changes::compare(&args, gid.unwrap_or(None)) else {
        return add(cx, &args);
    };
    if gid.is_err() {
        return Ok(Ret::failed("Invalid gid"));
    }
    let map = changes.to_map(&args);
    if map.is_empty() {
        let name = &args.name;
        return Ok(Ret::ok(format!("Group {name} is present and up to date")));
    }
    let mut text = "The following group attributes are set to be changed:\n".to_owned();
    for (key, value) in &map {
        text.push_str(&format!("{}: {}\n", key.to_text(), python::str(value)));
    }
    cx.apply(Ret::would(text.clone()), || {
        changes.make(cx, &args)?;
        Ok(match left(&args) {
            Some(left) => Ret::failed(format!("{text}Some changes could not be applied"))
                .change("Failed", left),
            None => Ret::ok(text).change("Final", "All changes applied successfully"),
        })
    })
}

fn conflict(args: &Present) -> Option<&'static str> {
    let (add, del) = (args.addusers.as_ref(), args.delusers.as_ref());
    if args.members.is_some() && (add.is_some() || del.is_some()) {
        return Some(
            "Error: Conflicting options \"members\" with \"addusers\" and/or \"delusers\" can not be used together. ",
        );
    }
    let both = add?
        .iter()
        .any(|user| del.is_some_and(|del| del.contains(user)));
    both.then_some("Error. Same user(s) can not be added and deleted simultaneously")
}

/// Returns the changes that are still to be made, or `None` if there are none.
fn left(args: &Present) -> Option<Map> {
    let changes = Changes::compare(args, args.gid().unwrap_or(None))?.to_map(args);
    Some(changes).filter(|changes| !changes.is_empty())
}

fn add(cx: &Exec, args: &Present) -> Result<Ret, Error> {
    let name = &args.name;
    let would = Ret::would(format!("Group {name} set to be added"));
    cx.apply(would, || {
        let number = args.gid.as_int().and_then(|gid| u32::try_from(gid).ok());
        let taken = number
            .filter(|_| !args.non_unique)
            .and_then(accounts::group_of);
        if let (Some(gid), Some(taken)) = (number, taken) {
            let taken = taken.name;
            return Ok(Ret::failed(format!(
                "Group {name} is not present but gid {gid} is already taken by group {taken}"
            )));
        }
        fs::inverse(cx, &group::GROUP, name, false, true);
        if !group::create(cx, &creation(args))? {
            return Ok(Ret::failed(format!("Failed to create new group {name}")));
        }
        let users = args.addusers.as_ref().or(args.members.as_ref());
        if let Some(users) = users.filter(|users| !users.is_empty()) {
            group::set_members(cx, name, users, None)?;
        }
        fs::inverse(cx, &group::GROUP, name, false, group::present(name));
        Ok(match left(args) {
            Some(left) => Ret::failed(format!(
                "Group {name} has been created but, some changes could not be applied"
            ))
            .change("Failed", left),
            None => Ret::ok(format!("New group {name} created"))
                .changes(group::find(name, root(args.local)).unwrap_or_default()),
        })
    })
}

fn creation(args: &Present) -> Add {
    Add {
        name: args.name.clone(),
        gid: Some(&args.gid)
            .filter(|gid| gid.is_true())
            .map(Value::to_text),
        system: args.system,
        root: None,
        non_unique: args.non_unique,
        local: args.local,
    }
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    accounts::check()?;
    let name = &args.name;
    if group::find(name, root(args.local)).is_none() {
        return Ok(Ret::ok("Group not present"));
    }
    let would = Ret::would(format!("Group {name} is set for removal"));
    cx.apply(would, || {
        Ok(if group::remove(cx, name, None, args.local)? {
            Ret::ok(format!("Removed group {name}")).change(name, "")
        } else {
            Ret::failed(format!("Failed to remove group {name}"))
        })
    })
}
