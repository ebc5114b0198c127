//! Folders: `file.mkdir`, `file.makedirs` and `file.makedirs_perms`.

use std::path::Path;

use machine::fs;
use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use super::perms::{self, Wanted};
use super::stat::normalized;

state::exec_module! {
    /// Create folders.
    mod file;

    /// Create a folder and its missing parent folders.
    ///
    ///     salt-call file.mkdir /srv/www user=www-data
    fn mkdir(Mkdir {
        /// The path of the folder.
        dir_path: String,
        /// The user that owns new folders.
        user: Value = Value::Null,
        /// The group that owns new folders.
        group: Value = Value::Null,
        /// The mode of new folders.
        mode: Value = Value::Null,
    });

    /// Create the parent folders of a path. The path itself is created only if it ends with a
    /// slash.
    ///
    ///     salt-call file.makedirs /srv/www/shop/
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

    /// Create a folder and its missing parent folders, and set the owner and mode of the new
    /// folders.
    ///
    ///     salt-call file.makedirs_perms /srv/www/shop user=www-data mode=755
    fn makedirs_perms(MakedirsPerms {
        /// The path of the folder.
        name: String,
        /// The user that owns new folders.
        user: Value = Value::Null,
        /// The group that owns new folders.
        group: Value = Value::Null,
        /// The mode of new folders.
        mode: Value = "0755".into(),
    });
}

/// Creates a folder and its missing parent folders, and sets their owner and mode.
///
/// # Errors
/// When the kernel refuses.
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

/// Creates the parent folders of a path. Like Salt's `file.makedirs`, returns a message if the
/// folder already exists.
///
/// # Errors
/// When the kernel refuses.
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
