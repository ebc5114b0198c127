//! Owners, modes and attributes: `file.check_perms` and related functions.

use std::path::Path;

use machine::accounts::users;
use machine::fs;
use machine::process::{self, Process};
use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, log};

use super::stat::{self, Stats, normalized};

state::exec_module! {
    /// Change the owners, modes and attributes of files.
    mod file;

    /// Set the mode of a file.
    ///
    ///     salt-call file.set_mode /etc/app.conf 0644
    fn set_mode(SetMode {
        /// The path of the file.
        path: String,
        /// The mode.
        mode: Value,
    });

    /// Set the user and the group of a file.
    ///
    ///     salt-call file.chown /srv/www root root
    fn chown(Chown {
        /// The path of the file.
        path: String,
        /// The name or number of the user.
        user: Value,
        /// The name or number of the group.
        group: Value,
    });

    /// Set the user and the group of a file. A symbolic link itself is changed, not its target.
    ///
    ///     salt-call file.lchown /srv/www root root
    fn lchown(Lchown {
        /// The path of the file.
        path: String,
        /// The name or number of the user.
        user: Value,
        /// The name or number of the group.
        group: Value,
    });

    /// Set the group of a file.
    ///
    ///     salt-call file.chgrp /srv/www www-data
    fn chgrp(Chgrp {
        /// The path of the file.
        path: String,
        /// The name or number of the group.
        group: Value,
    });

    /// Compare the owner, group, mode and attributes of a file with the desired ones, and change
    /// them if needed.
    ///
    ///     salt-call file.check_perms /etc/motd '{}' root root 644
    fn check_perms(CheckPerms {
        /// The path of the file.
        name: String,
        /// The return of a state, to which the result is added.
        ret: Value,
        /// The desired user.
        user: Value,
        /// The desired group.
        group: Value,
        /// The desired mode.
        mode: Value,
        /// The desired attributes, as lsattr(1) prints them.
        attrs: Option<String> = None,
        /// True to follow a symbolic link and change its target.
        follow_symlinks: bool = false,
        #[group] selinux: Selinux,
    });

    /// Return the attributes of a file on an ext file system.
    ///
    ///     salt-call file.lsattr /srv
    fn lsattr(Lsattr {
        /// The path of the file.
        path: String,
    });

    /// Change attributes of files on an ext file system.
    ///
    ///     salt-call file.chattr /etc/app.conf operator=add attributes=i
    fn chattr(Chattr {
        *files,
        ..kwargs
    });
}

state::argument_group! {
    /// The SELinux context of a file, which this module cannot set.
    pub(crate) struct Selinux {
        /// The SELinux user. Not supported by this function.
        seuser: Value = Value::Null,
        /// The SELinux role. Not supported by this function.
        serole: Value = Value::Null,
        /// The SELinux type. Not supported by this function.
        setype: Value = Value::Null,
        /// The SELinux range. Not supported by this function.
        serange: Value = Value::Null,
    }
}

impl Selinux {
    /// Returns an error if there is a context.
    pub(crate) fn refuse(&self) -> Result<(), Error> {
        let parts = [&self.seuser, &self.serole, &self.setype, &self.serange];
        if parts.iter().any(|part| part.is_true()) {
            return Err(SELINUX.into());
        }
        Ok(())
    }
}

/// The desired owner and mode of a file. A value that is null or `None` is not changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The user, by name or number.
    pub(crate) user: Value,
    /// The group, by name or number.
    pub(crate) group: Value,
    /// The mode, with four digits.
    pub(crate) mode: Option<String>,
    /// The attributes, as lsattr(1) prints them.
    pub(crate) attrs: Option<String>,
    /// True to follow a symbolic link and change its target.
    pub(crate) follow: bool,
}

impl Wanted {
    /// Returns the desired state with these owners and this mode.
    pub(crate) fn new(user: &Value, group: &Value, mode: Option<String>) -> Self {
        Self {
            user: user.clone(),
            group: group.clone(),
            mode,
            ..Self::default()
        }
    }

    /// Returns the desired state with another value of `follow`.
    pub(crate) fn following(self, follow: bool) -> Self {
        Self { follow, ..self }
    }
}

/// The state before [`check`] made any change: Salt's second return value.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    /// The mode.
    pub(crate) mode: String,
}

/// Parses a mode as an octal number.
pub(crate) fn mode_bits(mode: &str) -> Option<u32> {
    let digits = mode.trim_start_matches(['0', 'O', 'o']);
    if digits.is_empty() {
        Some(0)
    } else {
        u32::from_str_radix(digits, 8).ok()
    }
}

/// Compares the owner and mode of a file with the desired ones, and changes them. In test mode only
/// reports the changes.
///
/// For a file that was just written, `before` is the state to report changes from, instead of the
/// state on disk.
pub(crate) fn check(
    cx: &Exec,
    path: &str,
    ret: &mut Ret,
    wanted: &Wanted,
    before: Option<Stats>,
) -> Result<Before, Error> {
    let path = path::expanduser(path);
    let spot = Spot::Path(&path);
    check_spot(cx, spot, ret, wanted, before)
}

/// The file that [`check_spot`] works on.
#[derive(Clone, Copy)]
pub(crate) enum Spot<'a> {
    /// A path. A symbolic link at its end is followed if `follow` is set.
    Path(&'a str),
    /// A name in an open folder, and its path for messages. No symbolic link can redirect it.
    In(&'a fs::handle::Place, &'a str),
}

impl Spot<'_> {
    fn path(&self) -> &str {
        match self {
            Self::Path(path) | Self::In(_, path) => path,
        }
    }

    fn chmod(self, cx: &Exec, mode: u32, follow: bool) -> std::io::Result<()> {
        match self {
            Self::In(place, _) if !follow => fs::chmod_at(cx, place, mode),
            _ => fs::chmod(cx, Path::new(self.path()), mode, follow),
        }
    }

    fn chown(
        self,
        cx: &Exec,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: bool,
    ) -> std::io::Result<()> {
        match self {
            Self::In(place, _) if !follow => fs::chown_at(cx, place, uid, gid),
            _ => fs::chown(cx, Path::new(self.path()), uid, gid, follow),
        }
    }
}

/// Like [`check`], but for a path or for a name in an open folder.
pub(crate) fn check_spot(
    cx: &Exec,
    spot: Spot<'_>,
    ret: &mut Ret,
    wanted: &Wanted,
    before: Option<Stats>,
) -> Result<Before, Error> {
    let path = spot.path();
    let now = match before {
        Some(before) => before,
        None => stat::read(path, wanted.follow)?,
    };
    // A path that was not a symbolic link is not followed, since it may have become one since the
    // check.
    let follow = wanted.follow || !path::islink(path);
    let mut comments = Vec::new();
    let user = now.user_differs(&wanted.user);
    let group = now.group_differs(&wanted.group);
    if (user || group) && !cx.test {
        give(cx, spot, wanted, &now, ret, &mut comments);
    }
    let mode = wanted.mode.clone().filter(|_| follow);
    let new_mode = mode.clone().filter(|mode| *mode != now.mode);
    if let (Some(mode), false) = (&new_mode, cx.test)
        && let Some(bits) = mode_bits(mode)
    {
        set_bits(cx, spot, bits, wanted.follow);
    }
    let post = stat::read(path, wanted.follow).unwrap_or_else(|_| now.clone());
    let mut outcome = |key: &str, wanted: &Value, changed: bool, still: bool| {
        if still && !cx.test {
            ret.result = Some(false);
            comments.push(format!("Failed to change {key} to {}", wanted.to_text()));
        } else if still || changed {
            note(ret, key, wanted.clone());
        }
    };
    let still = post.user_differs(&wanted.user);
    outcome("user", &wanted.user, user, still);
    let still = post.group_differs(&wanted.group);
    outcome("group", &wanted.group, group, still);
    if let Some(mode) = mode {
        let still = mode != post.mode;
        outcome("mode", &mode.into(), new_mode.is_some(), still);
    }
    if follow && !path::isdir(path) {
        attributes(cx, path, wanted, ret, &mut comments)?;
    }
    finish(cx, ret, comments);
    Ok(Before { mode: now.mode })
}

/// Adds an entry to the changes of a return.
pub(crate) fn note(ret: &mut Ret, key: &str, value: impl Into<Value>) {
    if let Some(changes) = ret.changes.as_map_mut() {
        changes.insert(key, value);
    }
}

fn finish(cx: &Exec, ret: &mut Ret, comments: Vec<String>) {
    let first = (!ret.comment.is_empty()).then(|| ret.comment.clone());
    let all: Vec<String> = first.into_iter().chain(comments).collect();
    ret.comment = all.join("; ");
    if cx.test && ret.changes.is_true() {
        ret.result = None;
    }
}

fn give(
    cx: &Exec,
    spot: Spot<'_>,
    wanted: &Wanted,
    now: &Stats,
    ret: &mut Ret,
    comments: &mut Vec<String>,
) {
    let (uid, gid) = (users::uid(&wanted.user), users::gid(&wanted.group));
    let mut problems = String::new();
    if wanted.user.is_true() && uid.is_none() {
        problems.push_str("User does not exist\n");
    }
    if wanted.group.is_true() && gid.is_none() {
        problems.push_str("Group does not exist\n");
    }
    if !problems.is_empty() {
        ret.result = Some(false);
        comments.push(problems);
        return;
    }
    let uid = uid.or(Some(now.uid));
    let gid = gid.or(Some(now.gid));
    if spot.chown(cx, uid, gid, wanted.follow).is_err() {
        ret.result = Some(false);
    } else if !path::islink(spot.path())
        && let Some(bits) = mode_bits(&now.mode)
    {
        // Changing the owner clears the set-user-ID and set-group-ID bits.
        set_bits(cx, spot, bits, wanted.follow);
    }
}

/// Sets the permission bits. The caller compares the outcome with what was wanted.
fn set_bits(cx: &Exec, spot: Spot<'_>, bits: u32, follow: bool) {
    if let Err(error) = spot.chmod(cx, bits, follow) {
        let path = spot.path();
        log::error(format_args!("cannot change the mode of {path}: {error}"));
    }
}

/// The attributes to add, and the attributes to remove.
type Attributes = (String, String);

fn attribute_changes(cx: &Exec, path: &str, wanted: &str) -> Result<Option<Attributes>, Error> {
    let Some(has) = attributes_of(cx, path)? else {
        return Ok(None);
    };
    let without = |from: &str, what: &str| from.chars().filter(|c| !what.contains(*c)).collect();
    let wanted = if has.contains('e') {
        format!("{wanted}e")
    } else {
        wanted.to_owned()
    };
    Ok(Some((without(&wanted, &has), without(&has, &wanted))))
}

/// Returns true if the attributes of a file are known to differ from the desired ones.
pub(crate) fn attributes_differ(cx: &Exec, path: &str, wanted: &str) -> Result<bool, Error> {
    let changes = attribute_changes(cx, path, wanted)?;
    Ok(changes.is_some_and(|(add, drop)| !add.is_empty() || !drop.is_empty()))
}

fn attributes(
    cx: &Exec,
    path: &str,
    wanted: &Wanted,
    ret: &mut Ret,
    comments: &mut Vec<String>,
) -> Result<(), Error> {
    let Some(attrs) = &wanted.attrs else {
        return Ok(());
    };
    let Some((add, drop)) = attribute_changes(cx, path, attrs)? else {
        return Ok(());
    };
    if add.is_empty() && drop.is_empty() {
        return Ok(());
    }
    let old = attributes_of(cx, path)?.unwrap_or_default();
    let mut new = attrs.clone();
    if !cx.test {
        for (sign, what) in [("+", add), ("-", drop)] {
            if !what.is_empty() {
                run_chattr(cx, &[format!("{sign}{what}"), path.to_owned()])?;
            }
        }
        if attributes_differ(cx, path, attrs)? {
            ret.result = Some(false);
            comments.push(format!("Failed to change attributes to {attrs}"));
            new = attributes_of(cx, path)?.unwrap_or_default();
        }
    }
    if old != new {
        note(ret, "attrs", Map::new().with("old", old).with("new", new));
    }
    Ok(())
}

/// Returns the letters that lsattr(1) prints. They are empty if the file system has no attributes.
/// Returns `None` if the program is missing.
fn attributes_of(cx: &Exec, path: &str) -> Result<Option<String>, Error> {
    if process::which("lsattr").is_none() {
        return Ok(None);
    }
    let process = Process {
        ignore_retcode: true,
        ..Process::words(["lsattr", "-d", path])
    };
    let output = process.run(cx)?;
    if !output.success() {
        return Ok(Some(String::new()));
    }
    let text = output.stdout_regardless();
    let letters = text.split_whitespace().next();
    let known = |c: &char| "aAcCdDeijPsStTu".contains(*c);
    Ok(letters.map(|letters| letters.chars().filter(known).collect()))
}

fn run_chattr(cx: &Exec, args: &[String]) -> Result<bool, Error> {
    let words = std::iter::once("chattr").chain(args.iter().map(String::as_str));
    let output = Process::words(words).run(cx)?;
    Ok(output.stderr.is_empty() && output.stdout_regardless().is_empty())
}

fn set_mode(cx: &Exec, args: SetMode) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    let mode = args.mode.to_text();
    if !path::exists(&path) {
        return Err(format!("{path}: File not found").into());
    }
    let set = mode_bits(&mode).and_then(|bits| fs::chmod(cx, Path::new(&path), bits, true).ok());
    if set.is_none() {
        let digits = mode.trim_start_matches(['0', 'O', 'o']);
        return Ok(format!("Invalid Mode {digits}").into());
    }
    Ok(stat::read(&path, true)?.mode.into())
}

fn chown(cx: &Exec, args: Chown) -> Result<Value, Error> {
    change_owner(cx, &args.path, &args.user, &args.group, true)
}

fn lchown(cx: &Exec, args: Lchown) -> Result<Value, Error> {
    change_owner(cx, &args.path, &args.user, &args.group, false)
}

fn chgrp(cx: &Exec, args: Chgrp) -> Result<Value, Error> {
    change_owner(cx, &args.path, &Value::Null, &args.group, true)
}

fn change_owner(
    cx: &Exec,
    path: &str,
    user: &Value,
    group: &Value,
    follow: bool,
) -> Result<Value, Error> {
    let path = path::expanduser(path);
    let (uid, gid) = (users::uid(user), users::gid(group));
    let mut problems = String::new();
    if user.is_true() && uid.is_none() {
        problems.push_str("User does not exist\n");
    }
    if group.is_true() && gid.is_none() {
        problems.push_str("Group does not exist\n");
    }
    if follow && !path::lexists(&path) {
        problems.push_str("File not found");
    }
    if !problems.is_empty() {
        return Ok(problems.into());
    }
    let follow = follow && path::exists(&path);
    fs::chown(cx, Path::new(&path), uid, gid, follow).map_err(Error::io(&path))?;
    Ok(Value::Null)
}

fn check_perms(cx: &Exec, args: CheckPerms) -> Result<Value, Error> {
    args.selinux.refuse()?;
    let mut ret = Ret::ok("");
    if let Some(given) = args.ret.as_map().filter(|given| !given.is_empty()) {
        ret.comment = given.get("comment").map(Value::to_text).unwrap_or_default();
        ret.changes = given.get("changes").cloned().unwrap_or_default();
    }
    let wanted = Wanted {
        attrs: args.attrs,
        ..Wanted::new(&args.user, &args.group, normalized(&args.mode))
    };
    let path = path::expanduser(&args.name);
    let now = stat::read(&path, args.follow_symlinks)?;
    check(
        cx,
        &path,
        &mut ret,
        &wanted.following(args.follow_symlinks),
        None,
    )?;
    let shown = Map::new()
        .with("name", path)
        .with("changes", ret.changes)
        .with("comment", ret.comment)
        .with("result", ret.result);
    let perms = permissions(&args.user, &args.group, &normalized(&args.mode), &now);
    Ok(Value::list([shown.into(), perms.into()]))
}

/// Returns Salt's dictionary of the previous values (`l…`) and the changed values (`c…`).
fn permissions(user: &Value, group: &Value, mode: &Option<String>, now: &Stats) -> Map {
    let number = |wanted: &Value| wanted.as_int().is_some();
    let owner = |wanted: &Value, name: Value, id: u32| -> Value {
        if number(wanted) { id.into() } else { name }
    };
    let mut perms = Map::new()
        .with("luser", owner(user, now.user(), now.uid))
        .with("lgroup", owner(group, now.group(), now.gid))
        .with("lmode", now.mode.clone());
    if now.user_differs(user) {
        perms.insert("cuser", user.clone());
    }
    if now.group_differs(group) {
        perms.insert("cgroup", group.clone());
    }
    if let Some(mode) = mode.as_ref().filter(|mode| **mode != now.mode) {
        perms.insert("cmode", mode.clone());
    }
    perms
}

/// The error message for SELinux contexts, which this module does not support.
pub(crate) const SELINUX: &str = "SELinux contexts cannot be set by the file module. Leave `selinux` out and use a state of the selinux module.";

fn lsattr(cx: &Exec, args: Lsattr) -> Result<Value, Error> {
    if !path::exists(&args.path) {
        return Err(format!("File or directory does not exist: {}", args.path).into());
    }
    let Some(letters) = attributes_of(cx, &args.path)? else {
        return Ok(Value::Null);
    };
    let letters = letters.chars().map(|c| Value::from(c.to_string()));
    Ok(Map::new().with(&args.path, Value::list(letters)).into())
}

fn chattr(cx: &Exec, mut args: Chattr) -> Result<Value, Error> {
    let mut option = |name: &str| args.kwargs.remove(name).filter(|value| !value.is_null());
    let sign = match option("operator").as_ref().and_then(Value::as_str) {
        Some("add") => '+',
        Some("remove") => '-',
        _ => return Err("Need an operator: 'add' or 'remove' to modify attributes.".into()),
    };
    let Some(attributes) = option("attributes") else {
        return Err("Need attributes: [aAcCdDeijPsStTu]".into());
    };
    let mut line = vec![format!("{sign}{}", attributes.to_text())];
    line.extend(option("flags").map(|flags| format!("-{}", flags.to_text())));
    if let Some(version) = option("version") {
        line.extend(["-v".to_owned(), version.to_text()]);
    }
    line.extend(args.files.iter().map(Value::to_text));
    Ok(run_chattr(cx, &line)?.into())
}
