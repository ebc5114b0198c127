//! Undoing of changes to things other than files: how a run records such a change, how the present
//! state is read, and how the old state is restored.
//!
//! A run records the old and the new state of a thing under the word of its [`Inverse`]. `pinch
//! undo` finds the inverse by that word.

use machine::fs;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::{cron, group, user};

/// The functions that read and restore one kind of thing.
#[derive(Debug)]
pub struct Inverse {
    /// The name of the kind, in records and messages.
    pub word: &'static str,
    /// True if files that its states write are part of it.
    pub owns_files: bool,
    /// Returns the present state of a thing.
    pub now: fn(&Exec, &str) -> Result<Value, Error>,
    /// Checks that the given state can be restored, as far as that is known before.
    pub can: fn(&Exec, &str, &Value) -> Result<(), Error>,
    /// Restores the given state.
    pub make: fn(&Exec, &str, &Value) -> Result<(), Error>,
}

/// A user's crontab: its text.
pub(crate) const CRONTAB: &str = "crontab";
/// A group: its properties, or false.
pub(crate) const GROUP: &str = "group";
/// A package: its version; an empty text if it is not installed.
pub(crate) const PACKAGE: &str = "package";
/// True if a service starts with the system.
pub(crate) const SERVICE_ENABLED: &str = "service enabled";
/// True if a service runs.
pub(crate) const SERVICE_RUNNING: &str = "service running";
/// The value of a kernel setting.
pub(crate) const SYSCTL: &str = "sysctl";
/// A user: its properties, or false.
pub(crate) const USER: &str = "user";

const ALL: [Inverse; 7] = [
    Inverse {
        word: CRONTAB,
        owns_files: false,
        now: |cx, user| cron::raw(cx, user).map(Value::from),
        can: always,
        make: |cx, user, text| match cron::install(cx, user, &text.to_text())? {
            done if done.success() => Ok(()),
            done => Err(Error::refused(done.stderr)),
        },
    },
    Inverse {
        word: GROUP,
        owns_files: true,
        now: |_, name| Ok(group_now(name)),
        can: always,
        make: make_group,
    },
    Inverse {
        word: PACKAGE,
        owns_files: true,
        now: |cx, name| called(cx, "pkg.version", name, Map::new()),
        can: can_package,
        make: make_package,
    },
    Inverse {
        word: SERVICE_ENABLED,
        owns_files: true,
        now: |cx, name| called(cx, "service.enabled", name, Map::new()),
        can: always,
        make: |cx, name, on| {
            let verb = if on.is_true() { "enable" } else { "disable" };
            done(cx, &format!("service.{verb}"), name, Map::new())
        },
    },
    Inverse {
        word: SERVICE_RUNNING,
        owns_files: true,
        now: |cx, name| {
            called(cx, "service.status", name, Map::new()).map(|runs| runs.is_true().into())
        },
        can: always,
        make: |cx, name, on| {
            let verb = if on.is_true() { "start" } else { "stop" };
            done(cx, &format!("service.{verb}"), name, Map::new())
        },
    },
    Inverse {
        word: SYSCTL,
        owns_files: false,
        now: |cx, name| called(cx, "sysctl.get", name, Map::new()),
        can: always,
        make: |cx, name, value| {
            let value = Map::new().with("value", value.clone());
            called(cx, "sysctl.assign", name, value).map(drop)
        },
    },
    Inverse {
        word: USER,
        owns_files: true,
        now: |_, name| Ok(user_now(name)),
        can: always,
        make: make_user,
    },
];

/// Returns the inverse with this word.
#[must_use]
pub fn of(word: &str) -> Option<&'static Inverse> {
    ALL.iter().find(|inverse| inverse.word == word)
}

/// Records a change that is about to be made, or the rest of one that has been made.
pub(crate) fn note(cx: &Exec, word: &str, name: &str, was: impl Into<Value>, is: impl Into<Value>) {
    fs::inverse(cx, word, name, was, is);
}

/// Records that an account was created, with its present state.
pub(crate) fn note_made(cx: &Exec, word: &str, name: &str) {
    let is = if word == USER {
        user_now(name)
    } else {
        group_now(name)
    };
    note(cx, word, name, false, is);
}

fn always(_: &Exec, _: &str, _: &Value) -> Result<(), Error> {
    Ok(())
}

fn called(cx: &Exec, function: &str, name: &str, kwargs: Map) -> Result<Value, Error> {
    cx.call_internal(function, vec![name.into()], kwargs)
}

/// Calls a function that reports a failure with `False`.
fn done(cx: &Exec, function: &str, name: &str, kwargs: Map) -> Result<(), Error> {
    match called(cx, function, name, kwargs)? {
        Value::Bool(false) => Err(Error::refused(format!("{function} {name} failed"))),
        _ => Ok(()),
    }
}

/// Returns the properties of an account that are compared and restored.
fn account(known: Option<Map>, keys: &[&str]) -> Value {
    known.map_or(Value::Bool(false), |known| {
        let all = keys
            .iter()
            .filter_map(|key| Some((*key, known.get(key)?.clone())));
        all.collect::<Map>().into()
    })
}

fn user_now(name: &str) -> Value {
    account(
        user::known(name, None),
        &["uid", "gid", "home", "shell", "fullname"],
    )
}

fn group_now(name: &str) -> Value {
    account(group::known(name, None), &["gid", "members"])
}

/// Removes a user but not the home directory, or creates the user again.
fn make_user(cx: &Exec, name: &str, was: &Value) -> Result<(), Error> {
    let Some(was) = was.as_map() else {
        return done(cx, "user.delete", name, Map::new());
    };
    let mut kwargs = was.clone();
    let gid = kwargs.remove("gid").and_then(|gid| gid.as_int());
    let gid = gid.and_then(|gid| u32::try_from(gid).ok());
    match gid.and_then(machine::accounts::group_of) {
        Some(group) => kwargs.insert("gid", group.gid),
        None => kwargs.insert("usergroup", true),
    };
    done(cx, "user.add", name, kwargs)
}

fn make_group(cx: &Exec, name: &str, was: &Value) -> Result<(), Error> {
    let Some(was) = was.as_map() else {
        // The removal of a user has removed the group of its name.
        return match group::known(name, None) {
            Some(_) => done(cx, "group.delete", name, Map::new()),
            None => Ok(()),
        };
    };
    let kwargs = Map::new().with("gid", was.get("gid").cloned());
    done(cx, "group.add", name, kwargs)?;
    match was.get("members").filter(|members| members.is_true()) {
        Some(members) => {
            let list = Map::new().with("members_list", members.clone());
            done(cx, "group.members", name, list)
        }
        None => Ok(()),
    }
}

/// Checks that the old version of a package is still available.
fn can_package(cx: &Exec, name: &str, was: &Value) -> Result<(), Error> {
    let version = was.to_text();
    if version.is_empty() || !cx.has_function("pkg.list_repo_pkgs") {
        return Ok(());
    }
    let all = called(cx, "pkg.list_repo_pkgs", name, Map::new())?;
    let known = match all.get(name) {
        Some(Value::Map(versions)) => versions.contains(&version),
        Some(versions) => versions.texts().contains(&version),
        None => false,
    };
    match known {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "its version {version} is no longer in any repository"
        ))),
    }
}

fn make_package(cx: &Exec, name: &str, was: &Value) -> Result<(), Error> {
    match was.to_text() {
        version if version.is_empty() => called(cx, "pkg.remove", name, Map::new()).map(drop),
        version => {
            let kwargs = Map::new().with("version", version).with("refresh", false);
            called(cx, "pkg.install", name, kwargs).map(drop)
        }
    }
}
