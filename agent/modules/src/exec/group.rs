//! The `group` execution module.

use std::path::Path;

use machine::accounts::files;
use machine::accounts::tools::{self as tools, path};
use machine::accounts::{self, Group};
use machine::process;
use state::exec::Exec;
use state::facts::Inverse;
use state::module::Error;
use value::{Map, Value};

use crate::exec::user;
use crate::loader::call::succeed;

state::exec_module! {
    /// Manage the groups of this machine.
    #[module(inverses = [&GROUP])]
    mod group;

    /// Return information about a group, or an empty result if it does not exist.
    ///
    ///     salt-call group.info developers
    fn info(Info {
        /// The name of the group.
        name: String,
        /// Another root directory. Only the group file below it is read.
        root: Option<String> = None,
    });

    /// Return information about all groups.
    ///
    ///     salt-call group.getent
    fn getent(Getent {
        /// Accepted for compatibility: nothing is cached between calls.
        refresh: bool = false,
        /// Another root directory. Only the group file below it is read.
        root: Option<String> = None,
    });

    /// Add a group.
    ///
    ///     salt-call group.add developers
    fn add(Add {
        /// The name of the group.
        name: String,
        /// The id of the group. By default the program chooses one.
        gid: Option<String> = None,
        /// Whether to create a system group.
        system: bool = false,
        /// Another root directory.
        root: Option<String> = None,
        /// Whether to allow an id that another group has.
        non_unique: bool = false,
        /// Whether to use `lgroupadd`, which changes the local files of this machine.
        local: bool = false,
    });

    /// Remove a group.
    ///
    ///     salt-call group.delete developers
    fn delete(Delete {
        /// The name of the group.
        name: String,
        /// Another root directory.
        root: Option<String> = None,
        /// Whether to use `lgroupdel`.
        local: bool = false,
    });

    /// Change the id of a group.
    ///
    ///     salt-call group.chgid developers 2000
    fn chgid(Chgid {
        /// The group.
        name: String,
        /// The new id.
        gid: Value,
        /// Another root directory.
        root: Option<String> = None,
        /// Whether to allow an id that another group has.
        non_unique: bool = false,
    });

    /// Add a user to a group.
    ///
    ///     salt-call group.adduser developers alice
    fn adduser(Adduser {
        /// The group.
        name: String,
        /// The user.
        username: String,
        /// Another root directory.
        root: Option<String> = None,
    });

    /// Remove a user from a group.
    ///
    ///     salt-call group.deluser developers alice
    fn deluser(Deluser {
        /// The group.
        name: String,
        /// The user.
        username: String,
        /// Another root directory.
        root: Option<String> = None,
    });

    /// Set the members of a group; other members are removed.
    ///
    ///     salt-call group.members developers alice,bob
    fn members(Members {
        /// The group.
        name: String,
        /// The users, with commas between them.
        members_list: Vec<String>,
        /// Another root directory.
        root: Option<String> = None,
    });
}

/// A group: its properties, or false.
pub(crate) static GROUP: Inverse = Inverse {
    word: "group",
    owns_files: true,
    now: |_, name| Ok(present(name)),
    can: Inverse::always,
    make: restore,
};

/// Returns the properties of a group that are compared and restored; false if it does not exist.
pub(crate) fn present(name: &str) -> Value {
    user::compared(find(name, None), &["gid", "members"])
}

/// Removes a group, or creates it again.
fn restore(cx: &Exec, name: &str, was: &Value) -> Result<(), Error> {
    let Some(was) = was.as_map() else {
        // The removal of a user has removed the group of its name.
        return match find(name, None) {
            Some(_) => succeed(cx, "group.delete", name, Map::new()),
            None => Ok(()),
        };
    };
    let kwargs = Map::new().with("gid", was.get("gid").cloned());
    succeed(cx, "group.add", name, kwargs)?;
    match was.get("members").filter(|members| members.is_true()) {
        Some(members) => {
            let list = Map::new().with("members_list", members.clone());
            succeed(cx, "group.members", name, list)
        }
        None => Ok(()),
    }
}

/// Returns information about a group, as `group.info` does; `None` if there is no such group.
pub(crate) fn find(name: &str, root: Option<&str>) -> Option<Map> {
    let group = match root {
        None => accounts::group(name),
        Some(root) => accounts::groups_below(Path::new(root))
            .into_iter()
            .find(|group| group.name == name),
    };
    group.as_ref().map(info_map)
}

fn info_map(group: &Group) -> Map {
    Map::new()
        .with("name", group.name.as_str())
        .with("passwd", group.passwd.as_str())
        .with("gid", group.gid)
        .with("members", group.members.clone())
}

fn info(_cx: &Exec, args: Info) -> Result<Value, Error> {
    let known = find(&args.name, args.root.as_deref());
    Ok(known.unwrap_or_default().into())
}

fn getent(_cx: &Exec, args: Getent) -> Result<Value, Error> {
    let groups = match args.root {
        None => accounts::groups(),
        Some(root) => accounts::groups_below(Path::new(&root)),
    };
    Ok(Value::list(
        groups.iter().map(|group| info_map(group).into()),
    ))
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    Ok(create(cx, &args)?.into())
}

/// Adds a group. Returns false if the program fails.
pub(crate) fn create(cx: &Exec, args: &Add) -> Result<bool, Error> {
    let small = !args.local && tools::is_small("groupadd");
    let program = match (small, args.local) {
        (true, _) => "addgroup",
        (_, true) => "lgroupadd",
        _ => "groupadd",
    };
    let system = if small { "-S" } else { "-r" };
    let gid = args
        .gid
        .as_deref()
        .filter(|gid| !gid.is_empty() && *gid != "0");
    let mut options: Vec<&str> = gid.into_iter().flat_map(|gid| ["-g", gid]).collect();
    if args.non_unique && gid.is_some() && !args.local {
        if small {
            return Err("busybox's addgroup does not support `non_unique`".into());
        }
        options.push("-o");
    }
    if small && process::which(program).is_none() {
        return files::add_group(cx, &args.name, gid, args.system);
    }
    if args.system {
        options.push(system);
    }
    let root = args.root.as_deref().filter(|_| !args.local && !small);
    Ok(tools::run(cx, program, root, &options, &[&args.name])?.success())
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    Ok(remove(cx, &args.name, args.root.as_deref(), args.local)?.into())
}

/// Removes a group. Returns false if the program fails.
pub(crate) fn remove(
    cx: &Exec,
    name: &str,
    root: Option<&str>,
    local: bool,
) -> Result<bool, Error> {
    let program = match local {
        true => "lgroupdel",
        false if tools::is_small("groupdel") => "delgroup",
        false => "groupdel",
    };
    if program == "delgroup" && process::which(program).is_none() {
        return files::remove_group(cx, name);
    }
    let root = root.filter(|_| program == "groupdel");
    Ok(tools::run(cx, program, root, &[], &[name])?.success())
}

fn chgid(cx: &Exec, args: Chgid) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set_gid(cx, &args.name, &args.gid, root, args.non_unique)?.into())
}

/// Changes the id of a group, and returns whether the group has it now.
pub(crate) fn set_gid(
    cx: &Exec,
    name: &str,
    gid: &Value,
    root: Option<&str>,
    non_unique: bool,
) -> Result<bool, Error> {
    let is_so = || find(name, root).is_some_and(|group| group.get("gid") == Some(gid));
    if is_so() || find(name, root).is_none() {
        return Ok(is_so());
    }
    let number = gid.to_text();
    if tools::is_small("groupmod") {
        let taken = number.parse().ok().and_then(accounts::group_of).is_some();
        if number.parse::<u32>().is_ok() && (non_unique || !taken) {
            tools::set_field(cx, &path(root, "group"), name, 2, &number)?;
        }
    } else {
        let option = if non_unique { "-og" } else { "-g" };
        tools::run(cx, "groupmod", root, &[option, &number], &[name])?;
    }
    Ok(is_so())
}

fn adduser(cx: &Exec, args: Adduser) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(add_member(cx, &args.name, &args.username, root)?.into())
}

/// Adds a user to a group. Returns false if the program fails.
pub(crate) fn add_member(
    cx: &Exec,
    name: &str,
    user: &str,
    root: Option<&str>,
) -> Result<bool, Error> {
    let change = |members: &mut Vec<String>| {
        if !members.iter().any(|member| member == user) {
            members.push(user.to_owned());
        }
    };
    gpasswd(cx, name, "--add", user, root, &change)
}

fn deluser(cx: &Exec, args: Deluser) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(remove_member(cx, &args.name, &args.username, root)?.into())
}

/// Removes a user from a group. Returns true also if the user is not a member or the group does not
/// exist.
pub(crate) fn remove_member(
    cx: &Exec,
    name: &str,
    user: &str,
    root: Option<&str>,
) -> Result<bool, Error> {
    let group = accounts::group(name).unwrap_or_default();
    if !group.members.iter().any(|member| member == user) {
        return Ok(true);
    }
    let change = |members: &mut Vec<String>| members.retain(|member| member != user);
    gpasswd(cx, name, "--del", user, root, &change)
}

fn members(cx: &Exec, args: Members) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set_members(cx, &args.name, &args.members_list, root)?.into())
}

/// Sets the members of a group. Returns false if the program fails.
pub(crate) fn set_members(
    cx: &Exec,
    name: &str,
    users: &[String],
    root: Option<&str>,
) -> Result<bool, Error> {
    let list = users.join(",");
    let change = |members: &mut Vec<String>| {
        let users = list.split(',').filter(|user| !user.is_empty());
        *members = users.map(str::to_owned).collect();
    };
    gpasswd(cx, name, "--members", &list, root, &change)
}

/// Changes the members of a group with `gpasswd`, or in the files if that program is missing.
fn gpasswd(
    cx: &Exec,
    name: &str,
    option: &str,
    users: &str,
    root: Option<&str>,
    change: &dyn Fn(&mut Vec<String>),
) -> Result<bool, Error> {
    if !tools::is_small("gpasswd") {
        return Ok(tools::run(cx, "gpasswd", root, &[option, users], &[name])?.success());
    }
    let is_there = |user: &str| user.is_empty() || accounts::user(user).is_some();
    if accounts::group(name).is_none() || (option != "--del" && !users.split(',').all(is_there)) {
        return Ok(false);
    }
    tools::edit_members(cx, root, &|group, members| {
        if group == name {
            change(members);
        }
    })?;
    Ok(true)
}
