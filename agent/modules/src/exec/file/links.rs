//! Links and names of files: `file.link`, `file.symlink`, `file.rename`, `file.move`, `file.copy`
//! and `file.remove`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use machine::fs;
use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::perms::{self, Wanted};
use super::stat::{self, absolute};

state::exec_module! {
    /// Link, move, copy and remove files.
    mod file;

    /// Create a hard link.
    ///
    ///     salt-call file.link /srv/builds/app.tar.gz /srv/mirror/app.tar.gz
    fn link(Link {
        /// The path of the existing file.
        src: String,
        /// The path of the hard link.
        path: String,
    });

    /// Create a symbolic link.
    ///
    ///     salt-call file.symlink /opt/app/bin/app /usr/local/bin/app
    fn symlink(Symlink {
        /// The target of the link.
        src: String,
        /// The path of the link.
        path: String,
        /// True to replace an existing file or link.
        force: bool = false,
        /// True to replace an existing file or link in one step.
        atomic: bool = false,
        /// Accepted and ignored.
        follow_symlinks: bool = true,
    });

    /// Return the target of a symbolic link.
    ///
    ///     salt-call file.readlink /etc/localtime
    fn readlink(Readlink {
        /// The path of the link.
        path: String,
        /// True to resolve all symbolic links in the path.
        canonicalize: bool = false,
    });

    /// Return whether a path is a symbolic link.
    ///
    ///     salt-call file.is_link /etc/localtime
    fn is_link(IsLink {
        /// The path.
        path: String,
        /// Accepted and ignored: the check never opens the file.
        nostat: bool = false,
    });

    /// Return whether a file has more than one hard link.
    ///
    ///     salt-call file.is_hardlink /srv/mirror/app.tar.gz
    fn is_hardlink(IsHardlink {
        /// The path.
        path: String,
    });

    /// Rename a path.
    ///
    ///     salt-call file.rename /etc/app.cfg /etc/app.conf
    fn rename(Rename {
        /// The path of the source.
        src: String,
        /// The new path.
        dst: String,
    });

    /// Move a path, even to another file system.
    ///
    ///     salt-call file.move /srv/app /opt/app
    fn r#move(Move {
        /// The path of the source.
        src: String,
        /// The target: a new path, or a folder to move into.
        dst: String,
        /// True to fail instead of copying to another file system.
        disallow_copy_and_unlink: bool = false,
    });

    /// Copy a file; with `recurse`, also a folder.
    ///
    ///     salt-call file.copy /etc/app.conf /srv/app.conf
    fn copy(Copy {
        /// The path of the source.
        src: String,
        /// The path of the copy.
        dst: String,
        /// True to copy folders.
        recurse: bool = false,
        /// True to remove an existing folder first.
        remove_existing: bool = false,
    });

    /// Remove a file, or a folder with everything in it.
    ///
    ///     salt-call file.remove /srv/app.conf
    fn remove(Remove {
        /// The path.
        path: String,
        ..kwargs
    });

    /// Remove an empty folder. With `recurse`, remove the empty folders below it, too.
    ///
    ///     salt-call file.rmdir /srv/old
    fn rmdir(Rmdir {
        /// The path of the folder.
        path: String,
        /// True to include the folders below.
        recurse: bool = false,
        /// True to return the removed folders, and those that could not be removed.
        verbose: bool = false,
        /// The minimum age in days: only folders that have not changed for this time are removed.
        older_than: Value = Value::Null,
    });
}

/// Moves a path to a new path or into an existing folder, as Python's `shutil.move` does. If
/// `copies` is false, only renames it.
///
/// # Errors
/// When the kernel refuses.
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
    let before = stat::read(&src, true)?;
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

/// The result of [`prune`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Pruned {
    /// The removed folders.
    pub(crate) deleted: Vec<String>,
    /// The folders that could not be removed, each with the reason.
    pub(crate) errors: Vec<(String, String)>,
    /// True if every folder was removed.
    pub(crate) result: bool,
}

impl Pruned {
    /// Returns both lists as Salt does.
    pub(crate) fn to_map(&self) -> Map {
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
    let now = value::clock::since_epoch().as_secs_f64();
    let old = |path: &str| match days {
        Some(days) => {
            stat::read(path, true).is_ok_and(|s| s.times[1] < now - days as f64 * 86400.0)
        }
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

/// Returns the folders below a folder, the deepest first.
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

/// Returns an error of the kernel as Python prints it: `[Errno 39] Directory not empty: '/x'`.
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
        return Ok(pruned.to_map().with("result", pruned.result).into());
    }
    Ok(pruned.result.into())
}
