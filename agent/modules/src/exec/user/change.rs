//! The part of the `user` execution module that adds, changes and removes users.

use machine::accounts;
use machine::accounts::files::{self as files, New};
use machine::accounts::tools::{self as tools, path};
use machine::process;
use state::exec::Exec;
use state::module::Error;
use value::{Value, log};

use super::{find, groups_of};

state::exec_module! {
    /// Manage the users of this machine.
    mod user;

    /// Add a user.
    ///
    ///     salt-call user.add alice groups=developers
    fn add(Add {
        /// The name of the user.
        name: String,
        /// The user ID.
        uid: Option<String> = None,
        /// The name or ID of the primary group.
        gid: Option<String> = None,
        /// The other groups of the user.
        groups: Option<Vec<String>> = None,
        /// The home directory.
        home: Option<String> = None,
        /// The login shell.
        shell: Option<String> = None,
        /// True to reject an ID that another user has.
        unique: bool = true,
        /// True to create a system account.
        system: bool = false,
        /// The full name.
        fullname: String = String::new(),
        /// The room number.
        roomnumber: String = String::new(),
        /// The work phone number.
        workphone: String = String::new(),
        /// The home phone number.
        homephone: String = String::new(),
        /// Other information in the GECOS field.
        other: String = String::new(),
        /// True to create the home directory.
        createhome: bool = true,
        /// The login class; only on OpenBSD.
        loginclass: Option<String> = None,
        /// True to add no entries to lastlog and faillog.
        nologinit: bool = false,
        /// The root folder of another system.
        root: Option<String> = None,
        /// True to create a primary group with the user's name; by default as in `login.defs`.
        usergroup: Option<bool> = None,
        /// True to add the user to the local files with `luseradd`.
        local: bool = false,
    });

    /// Remove a user.
    ///
    ///     salt-call user.delete bob remove=True
    fn delete(Delete {
        /// The name of the user.
        name: String,
        /// True to remove the home directory and the mail spool too.
        remove: bool = false,
        /// True to remove the user even if it is logged in.
        force: bool = false,
        /// The root folder of another system.
        root: Option<String> = None,
        /// True to remove the user with `luserdel`.
        local: bool = false,
    });

    /// Change the ID of a user.
    ///
    ///     salt-call user.chuid alice 2001
    fn chuid(Chuid {
        /// The name of the user.
        name: String,
        /// The new ID.
        uid: Value,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the primary group of a user.
    ///
    ///     salt-call user.chgid alice 2001
    fn chgid(Chgid {
        /// The name of the user.
        name: String,
        /// The new group.
        gid: Value,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the login shell of a user.
    ///
    ///     salt-call user.chshell alice /bin/bash
    fn chshell(Chshell {
        /// The name of the user.
        name: String,
        /// The new shell.
        shell: Value,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the home directory of a user.
    ///
    ///     salt-call user.chhome alice /srv/alice
    fn chhome(Chhome {
        /// The name of the user.
        name: String,
        /// The new home directory.
        home: Value,
        /// True to move the contents of the old home directory there.
        persist: bool = false,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the groups of a user.
    ///
    ///     salt-call user.chgroups alice developers append=True
    fn chgroups(Chgroups {
        /// The name of the user.
        name: String,
        /// The groups: a list, or a text with commas.
        groups: Vec<String>,
        /// True to add these groups and keep the others.
        append: bool = false,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the full name of a user.
    ///
    ///     salt-call user.chfullname alice 'Alice Miller'
    fn chfullname(Chfullname {
        /// The name of the user.
        name: String,
        /// The new name.
        fullname: Option<String>,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the room number of a user.
    ///
    ///     salt-call user.chroomnumber alice 12
    fn chroomnumber(Chroomnumber {
        /// The name of the user.
        name: String,
        /// The new room number.
        roomnumber: Option<String>,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the work phone number of a user.
    ///
    ///     salt-call user.chworkphone alice 555-0123
    fn chworkphone(Chworkphone {
        /// The name of the user.
        name: String,
        /// The new phone number.
        workphone: Option<String>,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the home phone number of a user.
    ///
    ///     salt-call user.chhomephone alice 555-0456
    fn chhomephone(Chhomephone {
        /// The name of the user.
        name: String,
        /// The new phone number.
        homephone: Option<String>,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the other information in the GECOS field of a user.
    ///
    ///     salt-call user.chother alice 'on leave'
    fn chother(Chother {
        /// The name of the user.
        name: String,
        /// The new text.
        other: Option<String>,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Change the login class of a user, which exists only on OpenBSD.
    ///
    ///     salt-call user.chloginclass alice staff
    fn chloginclass(Chloginclass {
        /// The name of the user.
        name: String,
        /// The new class.
        loginclass: String,
        /// The root folder of another system.
        root: Option<String> = None,
    });

    /// Rename a user.
    ///
    ///     salt-call user.rename alice amiller
    fn rename(Rename {
        /// The name of the user.
        name: String,
        /// The new name.
        new_name: String,
        /// The root folder of another system.
        root: Option<String> = None,
    });
}

/// The parts of the GECOS field of `/etc/passwd`, in order.
pub(crate) const GECOS: [&str; 5] = ["fullname", "roomnumber", "workphone", "homephone", "other"];

/// The options of usermod, with the field of `/etc/passwd` that each one sets.
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

/// Adds a user. Returns false if the program fails.
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

/// Sets the attributes that need an existing user. A failure is not an error, because the next run
/// shows the difference.
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

/// Returns whether `login.defs` enables a separate group for each user.
fn has_user_groups() -> Result<bool, Error> {
    let defs = machine::fs::text_or_none("/etc/login.defs")?.unwrap_or_default();
    let line = defs.lines().find(|line| {
        let head = line.char_indices().nth(15).map_or(line.len(), |(at, _)| at);
        line.get(..head)
            .is_some_and(|head| head.contains("USERGROUPS_ENAB"))
    });
    Ok(line.is_some_and(|line| line.contains("yes")))
}

/// Adds a user with busybox's `adduser`, which accepts a primary group only by name.
fn add_small(cx: &Exec, args: &Add) -> Result<bool, Error> {
    if args.root.is_some() || !args.unique {
        return Err("busybox's adduser supports neither `root` nor `unique: False`".into());
    }
    // Without this option, the full name would be `Linux User`.
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
        // With `-S` alone, `adduser` would put the user into `nogroup`.
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

/// Removes a user. Returns false if the program fails.
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
    // On Debian, userdel exits with this code if there is no mail to remove.
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
    // The output is logged, and callers verify the result by reading the user again.
    tools::run(cx, "usermod", root, options, &[name]).map(drop)
}

/// Makes the changes of usermod on a machine that does not have it.
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
    let old = find(name, root).and_then(|user| Some(user.get("home")?.to_text()));
    let below = |home: &str| format!("{}{home}", root.unwrap_or_default());
    match old.map(|old| below(&old)) {
        Some(old) if std::path::Path::new(&old).is_dir() => {
            let new = below(new);
            machine::fs::move_path(cx, old.as_ref(), new.as_ref()).map_err(Error::io(new))
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

/// Changes a field of a user in `/etc/passwd` and returns whether it has the value now.
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
        find(name, root).ok_or_else(|| Error::refused(format!("User '{name}' does not exist")))?;
    if user.get(key) == Some(value) {
        return Ok(true);
    }
    usermod(cx, root, option, &value.to_text(), persist, name)?;
    let name = if key == "name" {
        value.to_text()
    } else {
        name.to_owned()
    };
    let user = find(&name, root).unwrap_or_default();
    Ok(user.get(key) == Some(value))
}

/// Changes a part of a user's GECOS field and returns whether it has the value now.
pub(crate) fn set_gecos(
    cx: &Exec,
    name: &str,
    key: &str,
    value: &str,
    root: Option<&str>,
) -> Result<bool, Error> {
    let user =
        find(name, root).ok_or_else(|| Error::refused(format!("User '{name}' does not exist")))?;
    if user.get(key) == Some(&value.into()) {
        return Ok(true);
    }
    let user = user.with(key, value);
    let parts = GECOS.map(|key| user.get(key).map_or_else(String::new, Value::to_text));
    let whole = parts.join(",");
    usermod(cx, root, "-c", whole.trim_end_matches(','), false, name)?;
    let user = find(name, root).unwrap_or_default();
    Ok(user.get(key) == Some(&value.into()))
}

/// Adds a user to groups and, unless `append` is true, removes it from all others.
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
    // The user is not in the local files but comes from another source. gpasswd does not look the
    // user up in the files.
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
        log::error("cannot add the user to groups: one of the groups does not exist");
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

/// Changes a part of the GECOS field. Returns False if the user does not exist, as Salt's functions
/// for these fields do.
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

/// Returns False, as Salt does on all systems except OpenBSD.
fn chloginclass(_cx: &Exec, _args: Chloginclass) -> Result<Value, Error> {
    Ok(false.into())
}

fn rename(cx: &Exec, args: Rename) -> Result<Value, Error> {
    let root = args.root.as_deref();
    let new = args.new_name;
    if find(&new, root).is_some() {
        return Err(Error::refused(format!("User '{new}' already exists")));
    }
    tools::check_name(&new)?;
    Ok(set(cx, &args.name, ("name", "-l"), &new.into(), false, root)?.into())
}
