//! `file.symlink` and `file.hardlink`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use machine::accounts;
use machine::accounts::users;
use machine::fs;
use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, log};

use super::{gate, owner};
use crate::exec::file::stat::{self, normalized};
use crate::exec::file::{links, makedirs};

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Trees(&["name"]))]
    mod file;

    /// Make a symbolic link.
    ///
    ///     /usr/local/bin/app:
    ///       file.symlink:
    ///         - target: /opt/app/bin/app
    fn symlink(Symlink {
        /// The link.
        name: String,
        /// The target of the link.
        target: String,
        /// True to replace whatever exists at the path.
        force: bool = false,
        /// The new name of an existing file at the link's path.
        backupname: Option<String> = None,
        /// True to create the parent folders.
        makedirs: bool = false,
        /// The user that owns the link.
        user: Value = Value::Null,
        /// The group that owns the link.
        group: Value = Value::Null,
        /// The mode of new folders.
        mode: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_owner: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_perms: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_deny_perms: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_inheritance: Value = Value::Null,
        /// True to replace an existing object in one step.
        atomic: bool = false,
        /// True to never make the backup by copying to another file system.
        disallow_copy_and_unlink: bool = false,
        /// True to keep the owner of an existing link.
        inherit_user_and_group: bool = false,
        /// True to examine the targets of links.
        follow_symlinks: bool = true,
        ..kwargs
    });

    /// Make a hard link.
    ///
    ///     /srv/mirror/app.tar.gz:
    ///       file.hardlink:
    ///         - target: /srv/builds/app.tar.gz
    #[facts(effects = Effects::Files(&["name"]))]
    fn hardlink(Hardlink {
        /// The new name.
        name: String,
        /// The file.
        target: String,
        /// True to replace an existing file.
        force: bool = false,
        /// True to create the parent folders.
        makedirs: bool = false,
        /// The user that owns new folders.
        user: Value = Value::Null,
        /// The group that owns new folders.
        group: Value = Value::Null,
        /// The mode of new folders.
        dir_mode: Value = Value::Null,
        ..kwargs
    });
}

/// The wanted state of a link.
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) force: bool,
    pub(crate) backupname: Option<String>,
    pub(crate) makedirs: bool,
    pub(crate) user: Value,
    pub(crate) group: Value,
    pub(crate) mode: Option<String>,
    pub(crate) atomic: bool,
    pub(crate) copies: bool,
    pub(crate) inherit: bool,
    pub(crate) follow: bool,
}

fn symlink(cx: &Exec, args: Symlink) -> Result<Ret, Error> {
    Link {
        user: owner(args.user, &args.kwargs),
        name: path::expanduser(&args.name),
        target: args.target,
        force: args.force,
        backupname: args.backupname,
        makedirs: args.makedirs,
        group: args.group,
        mode: normalized(&args.mode),
        atomic: args.atomic,
        copies: !args.disallow_copy_and_unlink,
        inherit: args.inherit_user_and_group,
        follow: args.follow_symlinks,
    }
    .run(cx)
}

/// Returns the name of a user's primary group, or `root`'s group if the user does not exist.
pub(crate) fn first_group(user: &Value) -> Value {
    let name = match user.as_int().and_then(|uid| u32::try_from(uid).ok()) {
        Some(uid) => users::of_uid(uid).to_text(),
        None => user.to_text(),
    };
    users::of_gid(accounts::user(&name).map_or(0, |user| user.gid))
}

/// Returns the user that the configuration names, or the current user.
pub(crate) fn default_user(cx: &Exec) -> Value {
    cx.opts()
        .text("user")
        .map_or_else(users::current, Value::from)
}

/// Checks the owner, the group and the paths before anything is changed.
fn preflight(name: &str, user: &Value, group: &Value, target: Option<&str>) -> Result<(), Error> {
    let mut problems = Vec::new();
    if users::uid(user).is_none() {
        problems.push(format!("User {} does not exist", user.to_text()));
    }
    if users::gid(group).is_none() {
        problems.push(format!("Group {} does not exist", group.to_text()));
    }
    if !path::isabs(name) {
        problems.push(format!("Specified file {name} is not an absolute path"));
    }
    if let Some(target) = target.filter(|target| !path::isabs(target)) {
        problems.push(format!("Specified target {target} is not an absolute path"));
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err(problems.concat().into()),
        _ => Err(format!("{}.", problems.join(". ")).into()),
    }
}

/// Returns the target of a link exactly in its stored form.
fn points_to(name: &str) -> Result<Option<String>, Error> {
    let target = fs::link_target_or_none(name)?;
    Ok(target.map(|target| target.to_string_lossy().into_owned()))
}

impl Link {
    /// Brings the link to the wanted state.
    pub(crate) fn run(mut self, cx: &Exec) -> Result<Ret, Error> {
        if self.name.is_empty() {
            return Err("Must provide name to file.symlink".into());
        }
        if self.inherit && path::islink(&self.name) {
            let now = stat::read(&self.name, false)?;
            if self.user.is_null() {
                self.user = now.user();
            }
            if self.group.is_null() {
                self.group = now.group();
            }
        }
        if self.user.is_null() {
            self.user = default_user(cx);
        }
        if self.group.is_null() {
            self.group = first_group(&self.user);
        }
        preflight(&self.name, &self.user, &self.group, None)?;
        let mut ret = gate(cx, || self.would(), || self.change(cx))?;
        ret.name = Some(self.name);
        Ok(ret)
    }

    fn exists(&self) -> bool {
        if self.follow {
            path::exists(&self.name)
        } else {
            path::lexists(&self.name)
        }
    }

    fn owned(&self) -> bool {
        stat::read(&self.name, false).is_ok_and(|now| {
            (now.user() == self.user || users::uid(&self.user) == Some(now.uid))
                && (now.group() == self.group || users::gid(&self.group) == Some(now.gid))
        })
    }

    fn owners(&self) -> String {
        format!("{}:{}", self.user.to_text(), self.group.to_text())
    }

    fn would(&self) -> Result<Ret, Error> {
        let mut ret = self.checked()?;
        let folder = path::dirname(&self.name);
        if !path::isdir(folder) {
            if self.makedirs {
                ret.comment.push_str(&format!("\n{folder} will be created"));
            } else {
                let text = format!("\nDirectory {folder} for symlink is not present");
                ret.comment.push_str(&text);
            }
        }
        Ok(ret)
    }

    fn checked(&self) -> Result<Ret, Error> {
        let (name, target) = (&self.name, &self.target);
        if !path::islink(name) {
            if !self.exists() {
                let text = format!("Symlink {name} to {target} is set for creation");
                return Ok(Ret::would(text).change("new", name));
            }
            if self.force {
                return Ok(Ret::would(format!(
                    "The file or directory {name} is set for removal to make way for a new symlink targeting {target}"
                )));
            }
            return Ok(Ret::failed(format!(
                "File or directory exists where the symlink {name} should be. Did you mean to use force?"
            )));
        }
        if points_to(name)?.as_ref() != Some(target) {
            let text = format!("Link {name} target is set to be changed to {target}");
            return Ok(Ret::would(text).change("change", name));
        }
        let text = format!("The symlink {name} is present");
        if self.owned() {
            return Ok(Ret::ok(text));
        }
        let now = stat::read(name, false)?;
        let now = format!("{}:{}", now.user().to_text(), now.group().to_text());
        let owners = self.owners();
        Ok(Ret::would(format!(
            "{text}, but the ownership of the symlink would be changed from {now} to {owners}"
        ))
        .change("ownership", now))
    }

    fn change(&self, cx: &Exec) -> Result<Ret, Error> {
        let (name, target) = (&self.name, &self.target);
        let folder = path::dirname(name);
        if !path::isdir(folder) {
            if !self.makedirs {
                return Err(format!("Directory {folder} for symlink is not present").into());
            }
            makedirs::above(cx, name, &self.user, &self.group, self.mode.clone())?;
        }
        if path::islink(name) {
            let now = points_to(name)?.unwrap_or_default();
            if path::normpath(&now) == path::normpath(target) {
                return Ok(self.give(cx));
            }
        } else if self.exists() {
            self.clear(cx)?;
        }
        self.make(cx).map_err(|error| {
            Error::refused(format!(
                "Unable to create new symlink {name} -> {target}: {error}"
            ))
        })?;
        let ret = Ret::ok(format!("Created new symlink {name} -> {target}")).change("new", name);
        if self.owned() || self.set_owner(cx) {
            return Ok(ret);
        }
        let comment = format!(
            "{}, but was unable to set ownership to {}",
            ret.comment,
            self.owners()
        );
        Ok(Ret {
            result: Some(false),
            comment,
            ..ret
        })
    }

    /// Creates the link. An existing link is replaced in one step.
    fn make(&self, cx: &Exec) -> Result<(), Error> {
        let (name, target) = (Path::new(&self.name), Path::new(&self.target));
        let could_not = || Error::refused(format!("Could not create '{}'", self.name));
        if path::islink(&self.name) || self.atomic {
            return fs::replace_with_symlink(cx, target, name).map_err(|_| could_not());
        }
        if self.exists() {
            std::fs::symlink_metadata(name)
                .and_then(|found| {
                    if found.is_dir() {
                        Err(std::io::Error::from_raw_os_error(21))
                    } else {
                        Ok(())
                    }
                })
                .map_err(|_| {
                    Error::refused(format!("[Errno 21] Is a directory: '{}'", self.name))
                })?;
            return fs::replace_with_symlink(cx, target, name).map_err(|_| could_not());
        }
        fs::symlink(cx, target, name).map_err(|_| could_not())
    }

    fn give(&self, cx: &Exec) -> Ret {
        let (name, owners) = (&self.name, self.owners());
        if self.owned() {
            Ret::ok(format!("Symlink {name} is present and owned by {owners}"))
        } else if self.set_owner(cx) {
            Ret::ok(format!("Set ownership of symlink {name} to {owners}"))
                .change("ownership", owners)
        } else {
            Ret::failed(format!(
                "Failed to set ownership of symlink {name} to {owners}"
            ))
        }
    }

    fn set_owner(&self, cx: &Exec) -> bool {
        let (uid, gid) = (users::uid(&self.user), users::gid(&self.group));
        let name = &self.name;
        if let Err(error) = fs::chown(cx, Path::new(name), uid, gid, false) {
            log::error(format_args!("cannot change the owner of {name}: {error}"));
        }
        self.owned()
    }

    /// Renames an existing object at the link's path to `backupname`. Without `backupname`, fails
    /// unless the object may be replaced.
    fn clear(&self, cx: &Exec) -> Result<(), Error> {
        let (name, target) = (&self.name, &self.target);
        let Some(backup) = &self.backupname else {
            if self.force || self.atomic {
                return Ok(());
            }
            let kind = if path::isfile(name) {
                "File"
            } else if path::isdir(name) {
                "Directory"
            } else {
                "File system entry"
            };
            return Err(format!("{kind} exists where the symlink {name} should be").into());
        };
        let backup = if path::isabs(backup) {
            backup.clone()
        } else if path::basename(backup) == backup {
            path::join(path::dirname(&path::normpath(name)), backup)
        } else {
            return Err(
                format!("Backupname must be an absolute path or a file name: {backup}").into(),
            );
        };
        if path::lexists(&backup) {
            if !self.force {
                return Err(format!(
                    "Symlink & backup dest exists and Force not set. {name} -> {target} - backup: {backup}"
                )
                .into());
            }
            fs::remove(cx, Path::new(&backup)).map_err(Error::io(&backup))?;
        }
        links::moved(cx, name, &backup, self.copies).map_err(|error| {
            Error::refused(format!(
                "Unable to rename {name} to backup {backup} -> : {error}"
            ))
        })
    }
}

fn hardlink(cx: &Exec, args: Hardlink) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    let target = args.target.clone();
    if name.is_empty() {
        return Err("Must provide name to file.hardlink".into());
    }
    let mut user = owner(args.user.clone(), &args.kwargs);
    if user.is_null() {
        user = default_user(cx);
    }
    let group = if args.group.is_null() {
        first_group(&user)
    } else {
        args.group.clone()
    };
    preflight(&name, &user, &group, Some(&target))?;
    let mut ret = gate(
        cx,
        || Ok(hardlink_would(&name, &target, args.force)),
        || hardlink_change(cx, &name, &args, &user, &group),
    )?;
    ret.name = Some(name);
    Ok(ret)
}

fn inode(path: &str) -> Option<(u64, u64)> {
    let found = Path::new(path).symlink_metadata().ok()?;
    Some((found.dev(), found.ino()))
}

fn is_hardlink(path: &str) -> bool {
    Path::new(path)
        .symlink_metadata()
        .is_ok_and(|found| found.nlink() > 1)
}

fn hardlink_would(name: &str, target: &str, force: bool) -> Ret {
    if !path::exists(target) {
        return Ret::failed(format!("Target {target} for hard link does not exist"));
    }
    if path::isdir(target) {
        return Ret::failed(format!("Unable to hard link from directory {target}"));
    }
    if path::isdir(name) {
        return Ret::failed(format!("Unable to hard link to directory {name}"));
    }
    if !path::exists(name) {
        let text = format!("Hard link {name} to {target} is set for creation");
        return Ret::would(text).change("new", name);
    }
    if is_hardlink(name) {
        if inode(name) == inode(target) {
            return Ret::ok(format!(
                "The hard link {name} is presently targetting {target}"
            ));
        }
        let text = format!("Link {name} target is set to be changed to {target}");
        return Ret::would(text).change("change", name);
    }
    if force {
        return Ret::would(format!(
            "The file or directory {name} is set for removal to make way for a new hard link targeting {target}"
        ));
    }
    Ret::failed(format!(
        "File or directory exists where the hard link {name} should be. Did you mean to use force?"
    ))
}

fn hardlink_change(
    cx: &Exec,
    name: &str,
    args: &Hardlink,
    user: &Value,
    group: &Value,
) -> Result<Ret, Error> {
    let target = &args.target;
    for (direction, path) in [("to", name), ("from", target)] {
        if path::isdir(path) {
            return Err(format!("Unable to hard link {direction} directory {path}").into());
        }
    }
    if !path::exists(target) {
        return Err(format!("Target {target} for hard link does not exist").into());
    }
    let folder = path::dirname(name);
    if !path::isdir(folder) {
        if !args.makedirs {
            return Err(format!("Directory {folder} for hard link is not present").into());
        }
        makedirs::above(cx, name, user, group, normalized(&args.dir_mode))?;
    }
    let mut changes = Map::new();
    let place = Path::new(name);
    let linked = is_hardlink(name);
    if linked && inode(name) == inode(target) {
        let text = format!("Target of hard link {name} is already pointing to {target}");
        return Ok(Ret::ok(text));
    }
    if path::isfile(name) && !linked {
        if !args.force {
            return Err(format!("File exists where the hard link {name} should be").into());
        }
        changes.insert("forced", "File for hard link was forcibly replaced");
    }
    if path::lexists(name) {
        fs::remove(cx, place).map_err(Error::io(name))?;
    }
    let what = if linked {
        "set target of"
    } else {
        "create new"
    };
    fs::hard_link(cx, Path::new(target), place).map_err(|error| {
        Error::refused(format!(
            "Unable to {what} hard link {name} -> {target}: Could not create '{name}': {error}"
        ))
    })?;
    let done = if linked {
        "Set target of"
    } else {
        "Created new"
    };
    changes.insert("new", name);
    Ok(Ret::ok(format!("{done} hard link {name} -> {target}")).changes(changes))
}
