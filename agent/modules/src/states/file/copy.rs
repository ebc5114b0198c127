//! `file.copy`, `file.rename`, `file.touch`.

use std::path::Path;

use machine::accounts::users;
use machine::fs;
use machine::hashes;
use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, log};

use super::link::{default_user, first_group};
use super::{absolute, check_user, gate, owner};
use crate::exec::file::managed::searchable;
use crate::exec::file::perms::{self, Wanted};
use crate::exec::file::stat::{self, normalized};
use crate::exec::file::{links, makedirs, touch as times};

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Trees(&["name"]))]
    mod file;

    /// Copy a file or folder of this machine, unless the copy exists.
    ///
    ///     /etc/app/default.conf:
    ///       file.copy:
    ///         - source: /usr/share/app/default.conf
    fn copy(Copy {
        /// The copy.
        name: String,
        /// The file or folder.
        source: String,
        /// True to replace an existing file or folder.
        force: bool = false,
        /// True to create the parent folders.
        makedirs: bool = false,
        /// True to keep the owner and mode of the source.
        preserve: bool = false,
        /// The user that owns the copy.
        user: Value = Value::Null,
        /// The group that owns the copy.
        group: Value = Value::Null,
        /// The mode of the copy.
        mode: Value = Value::Null,
        /// The mode of new folders.
        dir_mode: Value = Value::Null,
        /// True to put the copy into the folder if `name` is a folder.
        subdir: bool = false,
        ..kwargs
    });

    /// Rename a file if it still exists under its old name.
    ///
    ///     /etc/app/new.conf:
    ///       file.rename:
    ///         - source: /etc/app/old.conf
    #[facts(effects = Effects::Trees(&["name", "source"]))]
    fn rename(Rename {
        /// The new name.
        name: String,
        /// The old name.
        source: String,
        /// True to replace an existing file or folder.
        force: bool = false,
        /// True to create the parent folders.
        makedirs: bool = false,
        ..kwargs
    });

    /// Create an empty file if it does not exist, and set its times.
    ///
    ///     /var/lib/app/ready:
    ///       file.touch:
    ///         - makedirs: True
    #[facts(effects = Effects::Files(&["name"]))]
    fn touch(Touch {
        /// The file.
        name: String,
        /// The time of the last access, in seconds since 1970.
        atime: Value = Value::Null,
        /// The time of the last change, in seconds since 1970.
        mtime: Value = Value::Null,
        /// True to create the parent folders.
        makedirs: bool = false,
    });
}

/// The owner and mode of a copy.
struct Like {
    user: Value,
    group: Value,
    mode: String,
}

fn copy(cx: &Exec, args: Copy) -> Result<Ret, Error> {
    let mut name = path::expanduser(&args.name);
    let shown = name.clone();
    let source = path::expanduser(&args.source);
    if name.is_empty() {
        return Err("Must provide name to file.copy".into());
    }
    absolute(cx, &name)?;
    if !path::exists(&source) {
        return Err(format!("Source file \"{source}\" is not present").into());
    }
    let like = owner_and_mode(cx, &args, &source)?;
    if path::isdir(&name) && args.subdir {
        name = path::join(&name, path::basename(&source));
    }
    let mut comment = format!("Copied \"{source}\" to \"{shown}\"");
    if path::lexists(&name) {
        if !args.force {
            let text = format!("The target file \"{name}\" exists and will not be overwritten");
            return Ok(named(shown, Ret::ok(text)));
        }
        let hash = |path: &str| hashes::of_file(path, "sha256").ok();
        if path::isfile(&name) && hash(&name) == hash(&source) {
            comment.push_str(" - files are identical but force flag is set");
        }
    }
    let would = Ret::would(format!(
        "File \"{source}\" is set to be copied to \"{name}\""
    ));
    let ret = gate(
        cx,
        || Ok(would),
        || copied(cx, &args, &like, &source, &name, comment),
    )?;
    Ok(named(shown, ret))
}

fn named(name: String, ret: Ret) -> Ret {
    Ret {
        name: Some(name),
        ..ret
    }
}

fn owner_and_mode(cx: &Exec, args: &Copy, source: &str) -> Result<Like, Error> {
    let of_source = stat::read(source, true)?;
    if args.preserve {
        return Ok(Like {
            user: of_source.user(),
            group: of_source.group(),
            mode: of_source.mode,
        });
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
    check_user(cx, &user, &group)?;
    let mode = normalized(&args.mode).unwrap_or(of_source.mode);
    Ok(Like { user, group, mode })
}

fn copied(
    cx: &Exec,
    args: &Copy,
    like: &Like,
    source: &str,
    name: &str,
    comment: String,
) -> Result<Ret, Error> {
    let folder = path::dirname(name);
    if !path::isdir(folder) {
        if !args.makedirs {
            return Err(format!("The target directory {folder} is not present").into());
        }
        let mode = normalized(&args.dir_mode).unwrap_or_else(|| searchable(&like.mode));
        makedirs::above(cx, name, &like.user, &like.group, Some(mode))?;
    }
    let mut ret = Ret::ok(comment).change(name, source);
    place(cx, source, name)
        .map_err(|_| Error::refused(format!("Failed to copy \"{source}\" to \"{name}\"")))?;
    if path::isdir(source) {
        own(cx, name, like)?;
    }
    if !args.preserve {
        let before = ret.comment.clone();
        let wanted = Wanted::new(&like.user, &like.group, Some(like.mode.clone()));
        perms::check(cx, name, &mut ret, &wanted, None)?;
        if ret.result == Some(true) {
            ret.comment = before;
        }
    }
    Ok(ret)
}

/// Copies a file or folder. A file replaces an existing file in one step; anything else that exists
/// is removed first.
fn place(cx: &Exec, source: &str, name: &str) -> std::io::Result<()> {
    let (from, to) = (Path::new(source), Path::new(name));
    if path::lexists(name) && (path::isdir(name) || path::isdir(source)) {
        fs::remove(cx, to)?;
    }
    if path::isdir(source) {
        let real = from.canonicalize()?;
        fs::copy_tree(cx, &real, to)
    } else {
        fs::copy_file(cx, from, to)
    }
}

fn own(cx: &Exec, name: &str, like: &Like) -> Result<(), Error> {
    let (uid, gid) = (users::uid(&like.user), users::gid(&like.group));
    for folder in fs::walk(name, None)? {
        for below in folder.dirs.iter().chain(&folder.files) {
            let path = path::join(&folder.root, below);
            if let Err(error) = fs::chown(cx, Path::new(&path), uid, gid, false) {
                log::error(format_args!("cannot change the owner of {path}: {error}"));
            }
        }
    }
    Ok(())
}

fn rename(cx: &Exec, args: Rename) -> Result<Ret, Error> {
    let expanded = |path: &str| path::expandvars(&path::expanduser(path));
    let (name, source) = (expanded(&args.name), expanded(&args.source));
    if name.is_empty() {
        return Err("Must provide name to file.rename".into());
    }
    absolute(cx, &name)?;
    if !path::lexists(&source) {
        let text = format!("Source file \"{source}\" has already been moved out of place");
        return Ok(named(name, Ret::ok(text)));
    }
    if path::lexists(&name) && !args.force {
        let text = format!("The target file \"{name}\" exists and will not be overwritten");
        return Ok(named(name, Ret::ok(text)));
    }
    let would = Ret::would(format!(
        "File \"{source}\" is set to be moved to \"{name}\""
    ));
    let ret = gate(cx, || Ok(would), || renamed(cx, &args, &source, &name))?;
    Ok(named(name, ret))
}

fn renamed(cx: &Exec, args: &Rename, source: &str, name: &str) -> Result<Ret, Error> {
    let folder = path::dirname(name);
    if !path::isdir(folder) {
        if !args.makedirs {
            return Err(format!("The target directory {folder} is not present").into());
        }
        makedirs::above(cx, name, &Value::Null, &Value::Null, None)?;
    }
    // A file replaces an existing file in one step, but an existing folder must be removed first.
    if path::isdir(name) || (path::lexists(name) && path::isdir(source)) {
        fs::remove(cx, Path::new(name)).map_err(|_| {
            Error::refused(format!(
                "Failed to delete \"{name}\" in preparation for forced move"
            ))
        })?;
    }
    links::moved(cx, source, name, true)
        .map_err(|_| Error::refused(format!("Failed to move \"{source}\" to \"{name}\"")))?;
    Ok(Ret::ok(format!("Moved \"{source}\" to \"{name}\"")).change(name, source))
}

fn touch(cx: &Exec, args: Touch) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.touch".into());
    }
    absolute(cx, &name)?;
    let ret = gate(
        cx,
        || touch_would(&name, &args),
        || touched(cx, &name, &args),
    )?;
    Ok(named(name, ret))
}

fn touch_would(name: &str, args: &Touch) -> Result<Ret, Error> {
    if !path::exists(name) {
        let text = format!("File {name} is set to be created");
        return Ok(Ret::would(text).change("new", name));
    }
    let [atime, mtime, _] = stat::read(name, false)?.times;
    let differs = |wanted: &Value, now: f64| {
        !wanted.is_null() && wanted.to_text() != value::python::float(now)
    };
    if differs(&args.atime, atime) || differs(&args.mtime, mtime) {
        let text = format!("Times set to be updated on file {name}");
        return Ok(Ret::would(text).change("touched", name));
    }
    Ok(
        Ret::ok(format!("File {name} exists and has the correct times"))
            .changes(Map::new().with("new", name)),
    )
}

fn touched(cx: &Exec, name: &str, args: &Touch) -> Result<Ret, Error> {
    if args.makedirs {
        makedirs::above(cx, name, &Value::Null, &Value::Null, None)?;
    }
    if !path::isdir(path::dirname(name)) {
        return Err(format!("Directory not present to touch file {name}").into());
    }
    let extant = path::exists(name);
    times::set(cx, name, &args.atime, &args.mtime)?;
    if !extant {
        return Ok(Ret::ok(format!("Created empty file {name}")).change("new", name));
    }
    let kind = if path::isdir(name) {
        "directory"
    } else {
        "file"
    };
    Ok(Ret::ok(format!("Updated times on {kind} {name}")).change("touched", name))
}
