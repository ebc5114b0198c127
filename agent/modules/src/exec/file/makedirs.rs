//! Folders: `file.mkdir`, `file.makedirs`, `file.makedirs_perms`.

use std::path::Path;

use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use super::perms::{self, Wanted};
use super::stat::normalized;
use crate::fs;

state::exec_module! {
    /// Make folders.
    mod file;

    /// Make a folder, with those above it, if it is not there.
    fn mkdir(Mkdir {
        /// The folder.
        dir_path: String,
        /// The user that owns new folders.
        user: Value = Value::Null,
        /// The group that owns new folders.
        group: Value = Value::Null,
        /// The mode of new folders.
        mode: Value = Value::Null,
    });

    /// Make the folders above a path. The path itself is only made when it ends with a slash.
    fn makedirs(Makedirs {
        /// The path.
        path: String,
        /// The user that owns new folders.
        user: Value = Value::Null,
        /// The group that owns new folders.
        group: Value = Value::Null,
        /// The mode of new folders.
        mode: Value = Value::Null,
    });

    /// Make a folder, with those above it, and set owner and mode of those that are new.
    fn makedirs_perms(MakedirsPerms {
        /// The folder.
        name: String,
        /// The user that owns new folders.
        user: Value = Value::Null,
        /// The group that owns new folders.
        group: Value = Value::Null,
        /// The mode of new folders.
        mode: Value = "0755".into(),
    });
}

/// Makes a folder and those above it that are missing, each with owner and mode.
///
/// # Errors
/// When the system refuses.
pub(crate) fn all(
    cx: &Exec,
    path: &str,
    user: &Value,
    group: &Value,
    mode: Option<String>,
) -> Result<(), Error> {
    let path = path::normpath(path);
    let mut missing = Vec::new();
    let mut here = path.as_str();
    while !path::isdir(here) {
        missing.push(here.to_owned());
        let above = path::dirname(here);
        if above == here || above.is_empty() {
            break;
        }
        here = above;
    }
    let wanted = Wanted::new(user, group, mode);
    for folder in missing.iter().rev() {
        fs::mkdir(cx, Path::new(folder)).map_err(Error::io(folder))?;
        perms::check(cx, folder, &mut Ret::ok(""), &wanted, None)?;
    }
    Ok(())
}

/// Makes the folders above a path. Salt's `file.makedirs`: a sentence when they are there.
///
/// # Errors
/// When the system refuses.
pub(crate) fn above(
    cx: &Exec,
    path: &str,
    user: &Value,
    group: &Value,
    mode: Option<String>,
) -> Result<Option<String>, Error> {
    let path = path::expanduser(path);
    let folder = path::normpath(path::dirname(&path));
    if path::isdir(&folder) {
        return Ok(Some(format!("Directory '{folder}' already exists")));
    }
    if path::exists(&folder) {
        return Ok(Some(format!(
            "The path '{folder}' already exists and is not a directory"
        )));
    }
    all(cx, &folder, user, group, mode)?;
    Ok(None)
}

fn mkdir(cx: &Exec, args: Mkdir) -> Result<Value, Error> {
    let path = path::expanduser(&args.dir_path);
    all(cx, &path, &args.user, &args.group, normalized(&args.mode))?;
    Ok(true.into())
}

fn makedirs(cx: &Exec, args: Makedirs) -> Result<Value, Error> {
    Ok(above(
        cx,
        &args.path,
        &args.user,
        &args.group,
        normalized(&args.mode),
    )?
    .into())
}

fn makedirs_perms(cx: &Exec, args: MakedirsPerms) -> Result<Value, Error> {
    let path = path::expanduser(&args.name);
    if path::lexists(&path) {
        return Err(format!("[Errno 17] File exists: '{path}'").into());
    }
    all(cx, &path, &args.user, &args.group, normalized(&args.mode))?;
    Ok(Value::Null)
}
