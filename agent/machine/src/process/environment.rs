//! The environment of a child: its home, its shell and its variables.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::Access;
use state::exec::Exec;
use state::module::Error;
use value::read::or_log;
use value::{Map, Value, log};

use super::{Process, Stderr};
use crate::accounts;

/// The complete environment of a child.
pub(super) type Environment = BTreeMap<OsString, OsString>;

/// The parts of the locale that Salt sets to `C`, because it understands only English output.
const LOCALE: &[&str] = &[
    "LC_CTYPE",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_COLLATE",
    "LC_MONETARY",
    "LC_MESSAGES",
    "LC_PAPER",
    "LC_NAME",
    "LC_ADDRESS",
    "LC_TELEPHONE",
    "LC_MEASUREMENT",
    "LC_IDENTIFICATION",
    "LANGUAGE",
];

/// Returns the shell of the user who started this program, as the grain `shell` does.
pub(super) fn default_shell() -> String {
    std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into())
}

/// Returns true if `/etc/shells` lists the shell; `None` when there is no such file.
pub(super) fn is_valid_shell(shell: &str) -> Option<bool> {
    let shells = or_log("/etc/shells", crate::fs::raw::text("/etc/shells"))?;
    Some(shells.lines().any(|line| line == shell))
}

pub(super) fn check_shell(shell: &str) -> Result<(), Error> {
    if runnable(shell) {
        Ok(())
    } else {
        Err(Error::refused(format!(
            "The shell {shell} is not available"
        )))
    }
}

fn runnable(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Returns the home of the user, or `/` if it cannot be entered.
pub(super) fn home(runas: Option<&str>) -> String {
    let home = match runas {
        Some(name) => accounts::user(name).map(|user| user.home),
        None => std::env::var("HOME")
            .ok()
            .filter(|home| !home.is_empty())
            .or_else(|| Some(accounts::user_of(rustix::process::getuid().as_raw())?.home)),
    };
    home.filter(|home| {
        Path::new(home).is_dir() && rustix::fs::access(home.as_str(), Access::READ_OK).is_ok()
    })
    .unwrap_or_else(|| "/".into())
}

pub(super) fn which(program: &str) -> Option<String> {
    if program.contains('/') {
        return runnable(program).then(|| program.to_owned());
    }
    let path = std::env::var("PATH").unwrap_or_default();
    // As in Salt, these are the folders that an environment without a login may lack.
    let usual = ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"];
    path.split(':')
        .chain(usual)
        .filter(|folder| !folder.is_empty())
        .map(|folder| format!("{}/{program}", folder.trim_end_matches('/')))
        .find(|path| runnable(path))
}

/// Returns all variables of the child.
pub(super) fn build(cx: &Exec, process: &Process, runas: Option<&str>) -> Environment {
    let mut added = match runas {
        Some(name) => login(cx, process, name),
        None => Environment::new(),
    };
    added.extend(pairs(&process.env));
    if let Some(user) = runas.and_then(accounts::user) {
        added.insert("USER".into(), user.name.into());
        added.insert("HOME".into(), user.home.into());
    }
    if process.reset_system_locale {
        for name in LOCALE {
            added.entry(name.into()).or_insert_with(|| "C".into());
        }
    }
    let notify = added.contains_key(OsStr::new("NOTIFY_SOCKET"));
    let mut all = if process.clean_env {
        Environment::new()
    } else {
        inherited(cx)
    };
    all.extend(added);
    if let Some(first) = &process.prepend_path {
        let path = all.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let mut whole = OsString::from(format!("{first}:"));
        whole.push(path);
        all.insert("PATH".into(), whole);
    }
    if !notify {
        all.remove(OsStr::new("NOTIFY_SOCKET"));
    }
    all
}

fn pairs(map: &Map) -> impl Iterator<Item = (OsString, OsString)> {
    map.iter()
        .map(|(key, value)| (key.to_text().into(), value.to_text().into()))
}

/// Returns our own variables, with the changes that `environ.setenv` made in this run.
fn inherited(cx: &Exec) -> Environment {
    let mut all: Environment = std::env::vars_os().collect();
    let set = cx.context(|context| context.get("environ").and_then(Value::as_map).cloned());
    for (key, value) in &set.unwrap_or_default() {
        let key = OsString::from(key.to_text());
        if value.is_null() {
            all.remove(&key);
        } else {
            all.insert(key, value.to_text().into());
        }
    }
    all
}

/// Returns the variables that the user has after logging in.
fn login(cx: &Exec, process: &Process, name: &str) -> Environment {
    const MARK: &str = "<<<pinch-environment>>>";
    if which("su").is_none() {
        return Environment::new();
    }
    let print = format!("printf %s '{MARK}'; env -0; printf %s '{MARK}'");
    let ask = Process {
        stderr: Stderr::Apart,
        rstrip: false,
        stdin: Some(String::new()),
        timeout: Some(Value::Int(10)),
        cwd: Some("/".into()),
        reset_system_locale: false,
        ..Process::words(["su", "-s", &process.shell, "-", name, "-c", &print]).quiet()
    };
    // This runs as our own user; `su` changes the user.
    let mut cx = cx.clone();
    cx.chunk = None;
    let output = ask.run(&cx).unwrap_or_default();
    let mut pieces = output.stdout.split(MARK);
    match (pieces.next(), pieces.next(), pieces.next()) {
        (Some(_), Some(variables), Some(_)) => variables
            .split('\0')
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
        _ => {
            log::error(format_args!(
                "Environment could not be retrieved for user '{name}': stderr={} stdout={}",
                value::python::repr(&output.stderr.into()),
                value::python::repr(&output.stdout.into()),
            ));
            Environment::new()
        }
    }
}

/// Returns true when the variable contains a null byte, which the kernel does not accept.
pub(super) fn has_null(text: &OsStr) -> bool {
    text.as_bytes().contains(&0)
}
