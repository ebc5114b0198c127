//! The `group` execution module.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::account_files as files;
use crate::account_tools::{self as tools, path};
use crate::accounts::{self, Group};
use crate::process;

state::exec_module! {
    /// Groups of this machine.
    mod group;

    /// Return what is known of a group; nothing when there is none of that name.
    fn info(Info {
        /// Its name.
        name: String,
        /// Another root, whose file alone is read.
        root: Option<String> = None,
    });

    /// Return what is known of all groups.
    fn getent(Getent {
        /// Accepted: nothing is kept between calls.
        refresh: bool = false,
        /// As of `group.info`.
        root: Option<String> = None,
    });

    /// Add a group.
    fn add(Add {
        /// Its name.
        name: String,
        /// Its number.
        gid: Option<String> = None,
        /// Make a system group.
        system: bool = false,
        /// Another root.
        root: Option<String> = None,
        /// Allow a number that another group has.
        non_unique: bool = false,
        /// Add it with lgroupadd, to the files of this machine.
        local: bool = false,
    });

    /// Remove a group.
    fn delete(Delete {
        /// Its name.
        name: String,
        /// Another root.
        root: Option<String> = None,
        /// Remove it with lgroupdel.
        local: bool = false,
    });

    /// Change the number of a group.
    fn chgid(Chgid {
        /// The group.
        name: String,
        /// The new number.
        gid: Value,
        /// Another root.
        root: Option<String> = None,
        /// Allow a number that another group has.
        non_unique: bool = false,
    });

    /// Put a user into a group.
    fn adduser(Adduser {
        /// The group.
        name: String,
        /// The user.
        username: String,
        /// Another root.
        root: Option<String> = None,
    });

    /// Take a user out of a group.
    fn deluser(Deluser {
        /// The group.
        name: String,
        /// The user.
        username: String,
        /// Another root.
        root: Option<String> = None,
    });

    /// Give a group these members and no others.
    fn members(Members {
        /// The group.
        name: String,
        /// The users, with commas between.
        members_list: Vec<String>,
        /// Another root.
        root: Option<String> = None,
    });
}

/// What is known of a group, as `group.info` returns it; nothing when there is none of that name.
pub(crate) fn known(name: &str, root: Option<&str>) -> Option<Map> {
    let group = match root {
        None => accounts::group(name),
        Some(root) => accounts::groups_below(Path::new(root))
            .into_iter()
            .find(|group| group.name == name),
    };
    group.as_ref().map(of)
}

fn of(group: &Group) -> Map {
    Map::new()
        .with("name", group.name.as_str())
        .with("passwd", group.passwd.as_str())
        .with("gid", group.gid)
        .with("members", group.members.clone())
}

fn info(_cx: &Exec, args: Info) -> Result<Value, Error> {
    let known = known(&args.name, args.root.as_deref());
    Ok(known.unwrap_or_default().into())
}

fn getent(_cx: &Exec, args: Getent) -> Result<Value, Error> {
    let groups = match args.root {
        None => accounts::groups(),
        Some(root) => accounts::groups_below(Path::new(&root)),
    };
    Ok(Value::list(groups.iter().map(|group| of(group).into())))
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    Ok(create(cx, &args)?.into())
}

/// Adds a group; false when the program said no.
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
            return Err("busybox's addgroup knows no `non_unique`".into());
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

/// Removes a group; false when the program said no.
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

/// Changes the number of a group, and tells whether it is so now.
pub(crate) fn set_gid(
    cx: &Exec,
    name: &str,
    gid: &Value,
    root: Option<&str>,
    non_unique: bool,
) -> Result<bool, Error> {
    let is_so = || known(name, root).is_some_and(|group| group.get("gid") == Some(gid));
    if is_so() || known(name, root).is_none() {
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

/// Puts a user into a group; false when the program said no.
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

/// Takes a user out of a group; true where it is not in it, or there is no such group.
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

/// Gives a group these members and no others; false when the program said no.
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

/// Changes the members of a group with gpasswd, or in the files where there is none.
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
