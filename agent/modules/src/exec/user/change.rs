//! The `user` execution module: the functions that change.

use state::exec::Exec;
use state::module::Error;
use value::{Value, log};

use super::{groups_of, known};
use crate::account_files::{self as files, New};
use crate::account_tools::{self as tools, path};
use crate::{accounts, process};

state::exec_module! {
    /// Users of this machine.
    mod user;

    /// Add a user.
    fn add(Add {
        /// Its name.
        name: String,
        /// Its number.
        uid: Option<String> = None,
        /// The name or number of its primary group.
        gid: Option<String> = None,
        /// Its other groups.
        groups: Option<Vec<String>> = None,
        /// Its home.
        home: Option<String> = None,
        /// Its login shell.
        shell: Option<String> = None,
        /// False allows a number that another user has.
        unique: bool = true,
        /// Make a system account.
        system: bool = false,
        /// Its full name.
        fullname: String = String::new(),
        /// Its room.
        roomnumber: String = String::new(),
        /// Its telephone at work.
        workphone: String = String::new(),
        /// Its telephone at home.
        homephone: String = String::new(),
        /// What else the field holds.
        other: String = String::new(),
        /// Make the home.
        createhome: bool = true,
        /// Of OpenBSD only.
        loginclass: Option<String> = None,
        /// Keep it out of lastlog and faillog.
        nologinit: bool = false,
        /// Another root.
        root: Option<String> = None,
        /// Make a primary group of the same name; without it as login.defs says.
        usergroup: Option<bool> = None,
        /// Add it with luseradd, to the files of this machine.
        local: bool = false,
    });

    /// Remove a user.
    fn delete(Delete {
        /// Its name.
        name: String,
        /// Remove its home and mail as well.
        remove: bool = false,
        /// Remove it even where it is logged in.
        force: bool = false,
        /// Another root.
        root: Option<String> = None,
        /// Remove it with luserdel.
        local: bool = false,
    });

    /// Change the number of a user.
    fn chuid(Chuid {
        /// The user.
        name: String,
        /// The new number.
        uid: Value,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change the primary group of a user.
    fn chgid(Chgid {
        /// The user.
        name: String,
        /// The new group.
        gid: Value,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change the login shell of a user.
    fn chshell(Chshell {
        /// The user.
        name: String,
        /// The new shell.
        shell: Value,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change the home of a user.
    fn chhome(Chhome {
        /// The user.
        name: String,
        /// The new home.
        home: Value,
        /// Move the old home there.
        persist: bool = false,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change the groups of a user.
    fn chgroups(Chgroups {
        /// The user.
        name: String,
        /// The groups, a list or names with commas between.
        groups: Vec<String>,
        /// Add these groups and leave none.
        append: bool = false,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change the full name of a user.
    fn chfullname(Chfullname {
        /// The user.
        name: String,
        /// The new name.
        fullname: Option<String>,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change the room of a user.
    fn chroomnumber(Chroomnumber {
        /// The user.
        name: String,
        /// The new room.
        roomnumber: Option<String>,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change the telephone at work of a user.
    fn chworkphone(Chworkphone {
        /// The user.
        name: String,
        /// The new telephone.
        workphone: Option<String>,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change the telephone at home of a user.
    fn chhomephone(Chhomephone {
        /// The user.
        name: String,
        /// The new telephone.
        homephone: Option<String>,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change what else the field of a user's full name holds.
    fn chother(Chother {
        /// The user.
        name: String,
        /// The new text.
        other: Option<String>,
        /// Another root.
        root: Option<String> = None,
    });

    /// Change the login class of a user, which only OpenBSD has.
    fn chloginclass(Chloginclass {
        /// The user.
        name: String,
        /// The new class.
        loginclass: String,
        /// Another root.
        root: Option<String> = None,
    });

    /// Give a user another name.
    fn rename(Rename {
        /// The user.
        name: String,
        /// The new name.
        new_name: String,
        /// Another root.
        root: Option<String> = None,
    });
}

/// The fields that stand in one of `/etc/passwd`, in their order.
pub(crate) const GECOS: [&str; 5] = ["fullname", "roomnumber", "workphone", "homephone", "other"];

/// Of usermod's options the fields of `/etc/passwd` that they set.
const FIELDS: [(&str, usize); 6] = [
    ("-l", 0),
    ("-u", 2),
    ("-g", 3),
    ("-c", 4),
    ("-d", 5),
    ("-s", 6),
];

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    Ok(create(cx, &args)?.into())
}

/// Adds a user; false when the program said no.
pub(crate) fn create(cx: &Exec, args: &Add) -> Result<bool, Error> {
    let root = args.root.as_deref().filter(|_| !args.local);
    let made = if !args.local && tools::is_small("useradd") {
        add_small(cx, args)?
    } else {
        let program = if args.local { "luseradd" } else { "useradd" };
        let words = add_words(args)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        tools::run(cx, program, root, &words, &[&args.name])?.success()
    };
    if made {
        details(cx, args, root)?;
    }
    Ok(made)
}

/// What is set once the user is there: a failure shows in the next run.
fn details(cx: &Exec, args: &Add, root: Option<&str>) -> Result<(), Error> {
    if let Some(groups) = args.groups.as_ref().filter(|groups| !groups.is_empty()) {
        set_groups(cx, &args.name, groups, false, root)?;
    }
    let given = [
        &args.fullname,
        &args.roomnumber,
        &args.workphone,
        &args.homephone,
        &args.other,
    ];
    for (key, value) in GECOS.into_iter().zip(given) {
        if !value.is_empty() {
            set_gecos(cx, &args.name, key, value, root)?;
        }
    }
    Ok(())
}

fn add_words(args: &Add) -> Result<Vec<String>, Error> {
    let mut words = Vec::new();
    let mut option = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
    if let Some(shell) = args.shell.as_ref().filter(|shell| !shell.is_empty()) {
        option("-s", shell);
    }
    if let Some(uid) = args.uid.as_ref().filter(|uid| !uid.is_empty()) {
        option("-u", uid);
    }
    let own = args.groups.as_ref().is_some_and(|g| g.contains(&args.name));
    let mut flags = Vec::new();
    match (&args.gid, args.usergroup) {
        (Some(gid), _) if !gid.is_empty() => option("-g", gid),
        (_, Some(true)) if !args.local => flags.push("-U"),
        (_, Some(true)) => {}
        _ if own && has_user_groups()? => {
            let group = accounts::group(&args.name);
            option("-g", &group.map_or_else(String::new, |g| g.gid.to_string()));
        }
        _ => {}
    }
    if let Some(home) = &args.home {
        option("-d", home);
    }
    let no_group = if args.local { "-n" } else { "-N" };
    let kept = [
        (args.usergroup == Some(false), no_group),
        (args.createhome && !args.local, "-m"),
        (!args.createhome, "-M"),
        (args.nologinit, "-l"),
        (!args.unique, "-o"),
        (args.system, "-r"),
    ];
    flags.extend(kept.iter().filter(|flag| flag.0).map(|flag| flag.1));
    words.extend(flags.into_iter().map(str::to_owned));
    Ok(words)
}

/// Whether `login.defs` gives every user a group of its own.
fn has_user_groups() -> Result<bool, Error> {
    let defs = crate::fs::text_or_none("/etc/login.defs")?.unwrap_or_default();
    let line = defs.lines().find(|line| {
        let head = line.char_indices().nth(15).map_or(line.len(), |(at, _)| at);
        line.get(..head)
            .is_some_and(|head| head.contains("USERGROUPS_ENAB"))
    });
    Ok(line.is_some_and(|line| line.contains("yes")))
}

/// Adds a user with busybox's `adduser`, which knows a primary group by its name only.
fn add_small(cx: &Exec, args: &Add) -> Result<bool, Error> {
    if args.root.is_some() || !args.unique {
        return Err("busybox's adduser knows no `root` and no `unique: False`".into());
    }
    // It would call the user `Linux User`.
    let mut words = ["-D", "-g", ""].map(str::to_owned).to_vec();
    let mut option = |name: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            words.extend([name.to_owned(), value.to_owned()]);
        }
    };
    option("-s", args.shell.as_deref());
    option("-u", args.uid.as_deref());
    option("-h", args.home.as_deref());
    let group = match args.gid.as_deref().map(named_group) {
        Some(None) => return Ok(false),
        Some(group) => group,
        None if args.usergroup == Some(false) => Some("users".to_owned()),
        None => accounts::group(&args.name).map(|group| group.name),
    };
    option("-G", group.as_deref());
    let flags = [(!args.createhome, "-H"), (args.system, "-S")];
    words.extend(
        flags
            .iter()
            .filter(|flag| flag.0)
            .map(|flag| flag.1.to_owned()),
    );
    if process::which("adduser").is_none() {
        let new = New {
            name: &args.name,
            uid: args.uid.as_deref().filter(|uid| !uid.is_empty()),
            group: group.as_deref(),
            home: args.home.as_deref(),
            shell: args.shell.as_deref(),
            system: args.system,
            createhome: args.createhome,
        };
        return files::add_user(cx, &new);
    }
    if args.system && group.is_none() {
        // With -S it would put the user into `nogroup`.
        let made = tools::run(cx, "addgroup", None, &["-S"], &[&args.name])?;
        if !made.success() {
            return Ok(false);
        }
        words.extend(["-G".to_owned(), args.name.clone()]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(tools::run(cx, "adduser", None, &words, &[&args.name])?.success())
}

fn named_group(group: &str) -> Option<String> {
    let found = match group.parse() {
        Ok(gid) => accounts::group_of(gid),
        Err(_) => accounts::group(group),
    };
    Some(found?.name)
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(remove(cx, &args.name, args.remove, args.force, root, args.local)?.into())
}

/// Removes a user; false when the program said no.
pub(crate) fn remove(
    cx: &Exec,
    name: &str,
    purge: bool,
    force: bool,
    root: Option<&str>,
    local: bool,
) -> Result<bool, Error> {
    if !local && tools::is_small("userdel") {
        if process::which("deluser").is_none() {
            return files::remove_user(cx, name, purge);
        }
        let options: &[&str] = if purge { &["--remove-home"] } else { &[] };
        return Ok(tools::run(cx, "deluser", None, options, &[name])?.success());
    }
    let program = if local { "luserdel" } else { "userdel" };
    let mut options = Vec::new();
    if purge {
        options.push("-r");
    }
    if force && !local {
        options.push("-f");
    }
    let done = tools::run(cx, program, root.filter(|_| !local), &options, &[name])?;
    // Debian's userdel ends so where there was no mail to remove.
    let no_mail = done.retcode == Some(12)
        && (done.stderr.contains("var/mail") || done.stderr.contains("var/spool/mail"))
        && cx.grains().get("os_family") == Some(&"Debian".into());
    Ok(done.success() || no_mail)
}

fn usermod(
    cx: &Exec,
    root: Option<&str>,
    option: &str,
    value: &str,
    persist: bool,
    name: &str,
) -> Result<(), Error> {
    if tools::is_small("usermod") {
        return usermod_small(cx, root, option, value, persist, name);
    }
    let options: &[&str] = if persist {
        &["-m", option, value]
    } else {
        &[option, value]
    };
    // What it says is in the log, and what it did is looked up.
    tools::run(cx, "usermod", root, options, &[name]).map(drop)
}

/// Does usermod's work where there is none.
fn usermod_small(
    cx: &Exec,
    root: Option<&str>,
    option: &str,
    value: &str,
    persist: bool,
    name: &str,
) -> Result<(), Error> {
    let passwd = path(root, "passwd");
    let gid = (option == "-g").then(|| named_group(value)).flatten();
    let gid = gid.and_then(|name| accounts::group(&name));
    let value = gid.map_or_else(|| value.to_owned(), |group| group.gid.to_string());
    if persist {
        move_home(cx, root, name, &value)?;
    }
    if option == "-l" {
        rename_small(cx, root, name, &value)?;
    }
    match FIELDS.iter().find(|known| known.0 == option) {
        Some((_, field)) => tools::set_field(cx, &passwd, name, *field, &value),
        None => Ok(()),
    }
}

fn move_home(cx: &Exec, root: Option<&str>, name: &str, new: &str) -> Result<(), Error> {
    let old = known(name, root).and_then(|user| Some(user.get("home")?.to_text()));
    let below = |home: &str| format!("{}{home}", root.unwrap_or_default());
    match old.map(|old| below(&old)) {
        Some(old) if std::path::Path::new(&old).is_dir() => {
            let new = below(new);
            crate::fs::move_path(cx, old.as_ref(), new.as_ref()).map_err(Error::io(new))
        }
        _ => Ok(()),
    }
}

fn rename_small(cx: &Exec, root: Option<&str>, name: &str, new: &str) -> Result<(), Error> {
    tools::check_name(new)?;
    tools::set_field(cx, &path(root, "shadow"), name, 0, new)?;
    tools::edit_members(cx, root, &|_, members| {
        for member in members.iter_mut().filter(|member| *member == name) {
            new.clone_into(member);
        }
    })
}

/// Changes what `/etc/passwd` says of a user, and tells whether it is so now.
///
/// # Errors
/// When there is no such user.
pub(crate) fn set(
    cx: &Exec,
    name: &str,
    (key, option): (&str, &str),
    value: &Value,
    persist: bool,
    root: Option<&str>,
) -> Result<bool, Error> {
    let user =
        known(name, root).ok_or_else(|| Error::refused(format!("User '{name}' does not exist")))?;
    if user.get(key) == Some(value) {
        return Ok(true);
    }
    usermod(cx, root, option, &value.to_text(), persist, name)?;
    let name = if key == "name" {
        value.to_text()
    } else {
        name.to_owned()
    };
    let user = known(&name, root).unwrap_or_default();
    Ok(user.get(key) == Some(value))
}

/// Changes one of the fields that share one of `/etc/passwd`, and tells whether it is so now.
pub(crate) fn set_gecos(
    cx: &Exec,
    name: &str,
    key: &str,
    value: &str,
    root: Option<&str>,
) -> Result<bool, Error> {
    let user =
        known(name, root).ok_or_else(|| Error::refused(format!("User '{name}' does not exist")))?;
    if user.get(key) == Some(&value.into()) {
        return Ok(true);
    }
    let user = user.with(key, value);
    let parts = GECOS.map(|key| user.get(key).map_or_else(String::new, Value::to_text));
    let whole = parts.join(",");
    usermod(cx, root, "-c", whole.trim_end_matches(','), false, name)?;
    let user = known(name, root).unwrap_or_default();
    Ok(user.get(key) == Some(&value.into()))
}

/// Puts a user into groups, and out of the others unless `append` is true.
pub(crate) fn set_groups(
    cx: &Exec,
    name: &str,
    groups: &[String],
    append: bool,
    root: Option<&str>,
) -> Result<bool, Error> {
    let now = groups_of(name);
    if now.iter().all(|group| groups.contains(group)) && groups.iter().all(|g| now.contains(g)) {
        return Ok(true);
    }
    if tools::is_small("usermod") {
        return set_groups_small(cx, name, groups, append, root);
    }
    let list = groups.join(",");
    let options: &[&str] = if append {
        &["-a", "-G", &list]
    } else {
        &["-G", &list]
    };
    let done = tools::run(cx, "usermod", root, options, &[name])?;
    if done.success() || !done.stderr.contains("not found in") {
        return Ok(done.success());
    }
    // The user is of another source than the files: gpasswd does not look for it there.
    let mut all = true;
    for group in groups {
        all &= tools::run(cx, "gpasswd", None, &["-a", name], &[group])?.success();
    }
    Ok(all)
}

fn set_groups_small(
    cx: &Exec,
    name: &str,
    groups: &[String],
    append: bool,
    root: Option<&str>,
) -> Result<bool, Error> {
    if groups.iter().any(|group| accounts::group(group).is_none()) {
        log::error("A group to put the user into is not there");
        return Ok(false);
    }
    tools::edit_members(cx, root, &|group, members| {
        let wanted = groups.iter().any(|wanted| wanted == group);
        let is_in = members.iter().any(|member| member == name);
        if wanted && !is_in {
            members.push(name.to_owned());
        } else if !wanted && !append {
            members.retain(|member| member != name);
        }
    })?;
    Ok(true)
}

fn chuid(cx: &Exec, args: Chuid) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set(cx, &args.name, ("uid", "-u"), &args.uid, false, root)?.into())
}

fn chgid(cx: &Exec, args: Chgid) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set(cx, &args.name, ("gid", "-g"), &args.gid, false, root)?.into())
}

fn chshell(cx: &Exec, args: Chshell) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set(cx, &args.name, ("shell", "-s"), &args.shell, false, root)?.into())
}

fn chhome(cx: &Exec, args: Chhome) -> Result<Value, Error> {
    let root = args.root.as_deref();
    Ok(set(
        cx,
        &args.name,
        ("home", "-d"),
        &args.home,
        args.persist,
        root,
    )?
    .into())
}

fn chgroups(cx: &Exec, args: Chgroups) -> Result<Value, Error> {
    let groups: Vec<String> = args
        .groups
        .iter()
        .flat_map(|groups| groups.split(','))
        .map(str::to_owned)
        .collect();
    Ok(set_groups(cx, &args.name, &groups, args.append, args.root.as_deref())?.into())
}

/// False for a user that is not there: so Salt's functions for these fields answer.
fn gecos(
    cx: &Exec,
    name: &str,
    key: &str,
    value: Option<&str>,
    root: Option<&str>,
) -> Result<Value, Error> {
    Ok(set_gecos(cx, name, key, value.unwrap_or_default(), root)?.into())
}

fn chfullname(cx: &Exec, args: Chfullname) -> Result<Value, Error> {
    let value = args.fullname.as_deref();
    gecos(cx, &args.name, "fullname", value, args.root.as_deref())
}

fn chroomnumber(cx: &Exec, args: Chroomnumber) -> Result<Value, Error> {
    let value = args.roomnumber.as_deref();
    gecos(cx, &args.name, "roomnumber", value, args.root.as_deref())
}

fn chworkphone(cx: &Exec, args: Chworkphone) -> Result<Value, Error> {
    let value = args.workphone.as_deref();
    gecos(cx, &args.name, "workphone", value, args.root.as_deref())
}

fn chhomephone(cx: &Exec, args: Chhomephone) -> Result<Value, Error> {
    let value = args.homephone.as_deref();
    gecos(cx, &args.name, "homephone", value, args.root.as_deref())
}

fn chother(cx: &Exec, args: Chother) -> Result<Value, Error> {
    let value = args.other.as_deref();
    gecos(cx, &args.name, "other", value, args.root.as_deref())
}

/// This is of OpenBSD: Salt says False elsewhere.
fn chloginclass(_cx: &Exec, _args: Chloginclass) -> Result<Value, Error> {
    Ok(false.into())
}

fn rename(cx: &Exec, args: Rename) -> Result<Value, Error> {
    let root = args.root.as_deref();
    let new = args.new_name;
    if known(&new, root).is_some() {
        return Err(Error::refused(format!("User '{new}' already exists")));
    }
    tools::check_name(&new)?;
    Ok(set(cx, &args.name, ("name", "-l"), &new.into(), false, root)?.into())
}
