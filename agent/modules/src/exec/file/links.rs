//! Links and names: `file.link`, `file.symlink`, `file.rename`, `file.move`, `file.copy`, `file.remove`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::perms::{self, Wanted};
use super::stat::{self, absolute};
use crate::fs;

state::exec_module! {
    /// Link, move, copy and remove files.
    mod file;

    /// Make a hard link.
    fn link(Link {
        /// The file.
        src: String,
        /// The new name.
        path: String,
    });

    /// Make a symbolic link.
    fn symlink(Symlink {
        /// What it points to.
        src: String,
        /// The link.
        path: String,
        /// Put it in the place of a file or link that is there.
        force: bool = false,
        /// Put it there in one step.
        atomic: bool = false,
        /// Look at what links point to.
        follow_symlinks: bool = true,
    });

    /// Return what a symbolic link points to.
    fn readlink(Readlink {
        /// The link.
        path: String,
        /// Resolve it to the end.
        canonicalize: bool = false,
    });

    /// Test whether a path is a symbolic link.
    fn is_link(IsLink {
        /// The path.
        path: String,
        /// Accepted; looking does not touch the file either way.
        nostat: bool = false,
    });

    /// Test whether a file has more than one name.
    fn is_hardlink(IsHardlink {
        /// The path.
        path: String,
    });

    /// Give a path another name.
    fn rename(Rename {
        /// The path.
        src: String,
        /// Its new name.
        dst: String,
    });

    /// Move a path, also to another file system.
    fn r#move(Move {
        /// The path.
        src: String,
        /// Where it goes.
        dst: String,
        /// Fail rather than copy to another file system.
        disallow_copy_and_unlink: bool = false,
    });

    /// Copy a file, or with `recurse` a folder.
    fn copy(Copy {
        /// The path.
        src: String,
        /// Its copy.
        dst: String,
        /// Copy folders.
        recurse: bool = false,
        /// Remove a folder that is there first.
        remove_existing: bool = false,
    });

    /// Remove a file, or a folder with all that is in it.
    fn remove(Remove {
        /// The path.
        path: String,
        ..kwargs
    });

    /// Remove an empty folder, or with `recurse` the empty folders below it too.
    fn rmdir(Rmdir {
        /// The folder.
        path: String,
        /// Go through the folders below.
        recurse: bool = false,
        /// Return what was removed and what could not be.
        verbose: bool = false,
        /// Only folders that were not changed for so many days.
        older_than: Value = Value::Null,
    });
}

/// Moves a path into a folder that is there or to a new name, as Python's `shutil.move` does.
///
/// # Errors
/// When the system refuses.
pub(crate) fn moved(cx: &Exec, src: &str, dst: &str, copies: bool) -> Result<(), Error> {
    let (src, mut dst) = (path::expanduser(src), path::expanduser(dst));
    if copies && path::isdir(&dst) {
        dst = path::join(&dst, path::basename(src.trim_end_matches('/')));
    }
    let (from, to) = (Path::new(&src), Path::new(&dst));
    if copies {
        fs::move_path(cx, from, to)
            .map_err(|error| Error::refused(format!("Unable to move '{src}' to '{dst}': {error}")))
    } else {
        fs::rename(cx, from, to)
            .map_err(|_| Error::refused(format!("Could not rename '{src}' to '{dst}'")))
    }
}

fn link(cx: &Exec, args: Link) -> Result<Value, Error> {
    let src = absolute(&args.src, "File path must be absolute.")?;
    let path = &args.path;
    fs::hard_link(cx, Path::new(&src), Path::new(path))
        .map_err(|error| Error::refused(format!("Could not create '{path}': {error}")))?;
    Ok(true.into())
}

fn symlink(cx: &Exec, args: Symlink) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    if !path::isabs(&path) {
        return Err(format!("Link path must be absolute: {path}").into());
    }
    let instead = args.force || args.atomic;
    if path::islink(&path) {
        let now = fs::link_target(&path)?;
        if path::normpath(&now.to_string_lossy()) == path::normpath(&args.src) {
            return Ok(true.into());
        }
        if !instead {
            return Err(format!("Found existing symlink: {path}").into());
        }
    } else if path::exists(&path) && !instead {
        return Err(format!("Existing path is not a symlink: {path}").into());
    }
    let (target, place) = (Path::new(&args.src), Path::new(&path));
    let made = if path::lexists(&path) {
        fs::replace_with_symlink(cx, target, place)
    } else {
        fs::symlink(cx, target, place)
    };
    made.map_err(|_| Error::refused(format!("Could not create '{path}'")))?;
    Ok(true.into())
}

fn readlink(_cx: &Exec, args: Readlink) -> Result<Value, Error> {
    let path = path::expandvars(&path::expanduser(&args.path));
    if !path::isabs(&path) {
        return Err(format!("Path to link must be absolute: {path}").into());
    }
    let Some(target) = fs::link_target_or_none(&path)? else {
        return Err(format!("A valid link was not specified: {path}").into());
    };
    if args.canonicalize {
        return Ok(path::realpath(&path).into());
    }
    Ok(target.to_string_lossy().into_owned().into())
}

fn is_link(_cx: &Exec, args: IsLink) -> Result<Value, Error> {
    Ok(path::islink(&path::expanduser(&args.path)).into())
}

fn is_hardlink(_cx: &Exec, args: IsHardlink) -> Result<Value, Error> {
    let path = absolute(&args.path, "Path to file must be absolute.")?;
    Ok(match Path::new(&path).symlink_metadata() {
        Ok(found) => (found.nlink() > 1).into(),
        Err(_) => Map::new().into(),
    })
}

fn rename(cx: &Exec, args: Rename) -> Result<Value, Error> {
    let src = absolute(&args.src, "File path must be absolute.")?;
    moved(cx, &src, &args.dst, false)?;
    Ok(true.into())
}

fn r#move(cx: &Exec, args: Move) -> Result<Value, Error> {
    if args.disallow_copy_and_unlink {
        let src = absolute(&args.src, "File path must be absolute.")?;
        moved(cx, &src, &args.dst, false)?;
        return Ok(true.into());
    }
    let src = absolute(&args.src, "Source path must be absolute.")?;
    let dst = absolute(&args.dst, "Destination path must be absolute.")?;
    moved(cx, &src, &dst, true)?;
    Ok(Map::new()
        .with("result", true)
        .with("comment", format!("'{src}' moved to '{dst}'"))
        .into())
}

fn copy(cx: &Exec, args: Copy) -> Result<Value, Error> {
    let src = absolute(&args.src, "File path must be absolute.")?;
    let dst = path::expanduser(&args.dst);
    if !path::exists(&src) {
        return Err(format!("No such file or directory '{src}'").into());
    }
    let before = stat::of(&src, true)?;
    if (path::isdir(&dst) || path::isdir(&src)) && !args.recurse {
        return Err("Cannot copy overwriting a directory without recurse flag set to true!".into());
    }
    let (from, to) = (Path::new(&src), Path::new(&dst));
    let copied = || -> std::io::Result<()> {
        if args.remove_existing && path::isdir(&dst) {
            fs::remove(cx, to)?;
        }
        if from.is_dir() {
            fs::copy_tree(cx, from, to)
        } else {
            fs::copy_file(cx, from, to)
        }
    };
    copied().map_err(|_| Error::refused(format!("Could not copy '{src}' to '{dst}'")))?;
    let wanted = Wanted::new(&before.user(), &before.group(), Some(before.mode));
    perms::check(cx, &dst, &mut Ret::ok(""), &wanted, None)?;
    Ok(true.into())
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    if !path::isabs(&path) {
        return Err(format!("File path must be absolute: {path}").into());
    }
    if !path::lexists(&path) {
        return Ok(false.into());
    }
    fs::remove(cx, Path::new(&path))
        .map_err(|error| Error::refused(format!("Could not remove '{path}': {error}")))?;
    Ok(true.into())
}

/// What [`prune`] removed, what it could not, and whether all went well.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pruned {
    /// The folders that are gone.
    pub(crate) deleted: Vec<String>,
    /// Folders and why they are still there.
    pub(crate) errors: Vec<(String, String)>,
    /// Whether all went well.
    pub(crate) result: bool,
}

impl Pruned {
    /// Salt's lists of both.
    pub(crate) fn shown(&self) -> Map {
        let pair = |(path, why): &(String, String)| Value::from(vec![path.as_str(), why.as_str()]);
        Map::new()
            .with("deleted", self.deleted.clone())
            .with("errors", Value::list(self.errors.iter().map(pair)))
    }
}

/// Removes empty folders.
pub(crate) fn prune(
    cx: &Exec,
    path: &str,
    recurse: bool,
    older_than: &Value,
) -> Result<Pruned, Error> {
    let days = older_than
        .as_int()
        .or_else(|| older_than.as_str()?.parse().ok());
    let days = days.filter(|days| *days != 0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0.0, |now| now.as_secs_f64());
    let old = |path: &str| match days {
        Some(days) => stat::of(path, true).is_ok_and(|s| s.times[1] < now - days as f64 * 86400.0),
        None => true,
    };
    let mut out = Pruned::default();
    let drop = |path: &str, out: &mut Pruned| -> bool {
        match fs::rmdir(cx, Path::new(path)) {
            Ok(()) => {
                out.deleted.push(path.to_owned());
                true
            }
            Err(error) => {
                let why = python_error(&error, path);
                out.errors.push((path.to_owned(), why));
                false
            }
        }
    };
    if recurse {
        for folder in bottom_up(path)? {
            if old(&folder) {
                drop(&folder, &mut out);
            }
        }
        out.result = out.errors.is_empty();
    }
    if old(path) {
        out.result = drop(path, &mut out) && (out.result || !recurse);
    }
    Ok(out)
}

/// The folders below a folder, the deepest first.
fn bottom_up(path: &str) -> Result<Vec<String>, Error> {
    let mut all: Vec<String> = Vec::new();
    for folder in fs::walk(path, None)? {
        all.extend(
            folder
                .dirs
                .iter()
                .map(|name| path::join(&folder.root, name)),
        );
    }
    value::sorted::sort_by_key(&mut all, |path| {
        std::cmp::Reverse(path.matches('/').count())
    });
    Ok(all)
}

/// A system's refusal as Python prints it: `[Errno 39] Directory not empty: '/x'`.
pub(crate) fn python_error(error: &std::io::Error, path: &str) -> String {
    let Some(code) = error.raw_os_error() else {
        return error.to_string();
    };
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    format!(
        "[Errno {code}] {text}: {}",
        value::python::repr(&path.into())
    )
}

fn rmdir(cx: &Exec, args: Rmdir) -> Result<Value, Error> {
    let path = absolute(&args.path, "File path must be absolute.")?;
    if !path::isdir(&path) {
        return Err(format!("A valid directory was not specified: {path}").into());
    }
    let pruned = prune(cx, &path, args.recurse, &args.older_than)?;
    if args.verbose {
        return Ok(pruned.shown().with("result", pruned.result).into());
    }
    Ok(pruned.result.into())
}
