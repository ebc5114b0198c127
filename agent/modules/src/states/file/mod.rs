//! The `file` state module, in parts.

use std::path::Path;

use machine::accounts::users;
use machine::fs::handle::{self, Links};
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

pub(crate) mod absent;
pub(crate) mod accumulated;
pub(crate) mod append;
pub(crate) mod beacon;
pub(crate) mod blockreplace;
pub(crate) mod cached;
pub(crate) mod clean;
pub(crate) mod comment;
pub(crate) mod contents;
pub(crate) mod copy;
pub(crate) mod decode;
pub(crate) mod directory;
pub(crate) mod keyvalue;
pub(crate) mod line;
pub(crate) mod link;
pub(crate) mod managed;
pub(crate) mod mknod;
pub(crate) mod patch;
pub(crate) mod recurse;
pub(crate) mod replace;
pub(crate) mod serialize;
#[cfg(test)]
mod tests;
mod texts;
pub(crate) mod tidied;
pub(crate) mod tree;

/// Makes a change, or in test mode returns the result of `would`. Only a result of `None` goes to
/// [`Exec::apply`]; any other result of `would` (correct already, or failed) is final.
///
/// # Errors
/// Those of `would` and `change`.
pub(crate) fn gate(
    cx: &Exec,
    would: impl FnOnce() -> Result<Ret, Error>,
    change: impl FnOnce() -> Result<Ret, Error>,
) -> Result<Ret, Error> {
    if !cx.test {
        return cx.apply(Ret::default(), change);
    }
    let would = would()?;
    if would.result.is_some() {
        Ok(would)
    } else {
        cx.apply(would, change)
    }
}

/// Rejects users and groups that do not exist. In test mode they are accepted, since they may exist
/// by the time that the state runs.
pub(crate) fn check_user(cx: &Exec, user: &Value, group: &Value) -> Result<(), Error> {
    let mut problem = String::new();
    if user.is_true() && users::uid(user).is_none() {
        problem.push_str(&format!("User {} is not available ", user.to_text()));
    }
    if group.is_true() && users::gid(group).is_none() {
        problem.push_str(&format!("Group {} is not available", group.to_text()));
    }
    if problem.is_empty() || cx.test {
        Ok(())
    } else {
        Err(problem.into())
    }
}

/// Returns the user, or the argument `owner` if `user` is not given.
pub(crate) fn owner(user: Value, kwargs: &Map) -> Value {
    if user.is_true() {
        user
    } else {
        kwargs.get("owner").cloned().unwrap_or(user)
    }
}

/// Rejects a path that is not absolute, or that contains a symlink that must not be followed.
pub(crate) fn absolute(cx: &Exec, name: &str) -> Result<(), Error> {
    itself_absolute(cx, name)?;
    let permitted = handle::permitted(Path::new(name), Links::from_config(cx));
    permitted.map_err(|error| Error::refused(error.to_string()))
}

/// Like [`absolute`], but the last component of the path may be a symlink, since the symlink itself
/// is meant.
pub(crate) fn itself_absolute(cx: &Exec, name: &str) -> Result<(), Error> {
    if name.starts_with('/') {
        let above = Path::new(name).parent().unwrap_or_else(|| Path::new(name));
        let permitted = handle::permitted(above, Links::from_config(cx));
        permitted.map_err(|error| Error::refused(error.to_string()))
    } else {
        Err(format!("Specified file {name} is not an absolute path").into())
    }
}

/// Returns the texts that `file.accumulated` has collected in this run: by file, then by name.
pub(crate) fn accumulators(cx: &Exec) -> Map {
    cx.context(|context| {
        let collected = context.get("file.accumulators").and_then(Value::as_map);
        collected.cloned().unwrap_or_default()
    })
}
