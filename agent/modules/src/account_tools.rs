//! Changing accounts with the machine's own programs; where a small machine has only busybox's, which cannot change what is there,
//! the files are edited.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, Mode, OFlags};
use state::exec::Exec;
use state::module::Error;
use value::log;

use crate::fs::{self, Owner};
use crate::process::{self, Output, Process};

/// A program that is to be there, by its full path.
pub(crate) fn find(program: &str) -> Result<String, Error> {
    process::which(program)
        .ok_or_else(|| Error::refused(format!("Command '{program}' cannot be found")))
}

/// True where one of shadow's programs is missing and busybox is there.
pub(crate) fn is_small(program: &str) -> bool {
    process::which(program).is_none() && process::which("busybox").is_some()
}

/// Runs a program on accounts. A name among the `names`, which stand last, never becomes an option.
pub(crate) fn run(
    cx: &Exec,
    program: &str,
    root: Option<&str>,
    options: &[&str],
    names: &[&str],
) -> Result<Output, Error> {
    names.iter().try_for_each(|name| check_name(name))?;
    let mut words = vec![find(program)?];
    if let Some(root) = root {
        words.extend(["-R".to_owned(), root.to_owned()]);
    }
    words.extend(options.iter().chain(names).map(|&word| word.to_owned()));
    Process::words(words).run(cx)
}

/// Refuses what cannot be the name of an account, or would be taken for something else.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.starts_with('-') || name.contains([':', '\n', '/']) {
        let shown = value::python::repr(&name.into());
        return Err(Error::refused(format!(
            "{shown} cannot be the name of a user or group"
        )));
    }
    Ok(())
}

/// Today in days since 1970, as the shadow file counts.
pub(crate) fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() / 86_400).to_string()
}

/// A file of accounts below a root.
pub(crate) fn path(root: Option<&str>, name: &str) -> PathBuf {
    Path::new(root.unwrap_or("/")).join("etc").join(name)
}

/// Changes the lines of a file of accounts, split at colons, while no other program changes it. Mode and owner stay. A file that is
/// not there is left so.
pub(crate) fn edit(
    cx: &Exec,
    path: &Path,
    change: &mut dyn FnMut(&mut Vec<Vec<String>>),
) -> Result<(), Error> {
    if !path.is_file() {
        return Ok(());
    }
    let _lock = locked(path);
    let bytes = fs::read(path)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::refused(format!("{} is not text", path.display())))?;
    let split = |line: &str| line.split(':').map(str::to_owned).collect();
    let mut lines: Vec<Vec<String>> = text.lines().map(split).collect();
    change(&mut lines);
    let mut new = String::new();
    for line in lines {
        new.push_str(&line.join(":"));
        new.push('\n');
    }
    if new == text {
        return Ok(());
    }
    fs::write(cx, path, new.as_bytes(), Owner::default())
}

/// What shadow's own programs lock. A machine on which it cannot be locked has none that would care.
fn locked(path: &Path) -> Option<OwnedFd> {
    let file = path.parent()?.join(".pwd.lock");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let lock = rustix::fs::open(&file, flags, Mode::RUSR | Mode::WUSR).ok()?;
    if rustix::fs::fcntl_lock(&lock, FlockOperation::LockExclusive).is_err() {
        log::debug(format_args!("{} cannot be locked", file.display()));
    }
    Some(lock)
}

/// Sets one field of the line of an account.
pub(crate) fn set_field(
    cx: &Exec,
    path: &Path,
    name: &str,
    field: usize,
    value: &str,
) -> Result<(), Error> {
    if value.contains([':', '\n']) {
        let file = path.display();
        return Err(Error::refused(format!(
            "A field of {file} has no colon and no end of line in it"
        )));
    }
    edit(cx, path, &mut |lines| {
        for line in lines.iter_mut().filter(|line| is_of(line, name)) {
            if let Some(field) = line.get_mut(field) {
                value.clone_into(field);
            }
        }
    })
}

/// True for the line of an account.
pub(crate) fn is_of(line: &[String], name: &str) -> bool {
    line.first().is_some_and(|first| first == name)
}

/// Changes the members of groups, which stand last in the lines of both files.
pub(crate) fn edit_members(
    cx: &Exec,
    root: Option<&str>,
    change: &dyn Fn(&str, &mut Vec<String>),
) -> Result<(), Error> {
    for name in ["group", "gshadow"] {
        edit(cx, &path(root, name), &mut |lines| {
            for line in lines.iter_mut().filter(|line| line.len() > 3) {
                let group = line.first().cloned().unwrap_or_default();
                if let Some(last) = line.get_mut(3) {
                    let members = last.split(',').filter(|member| !member.is_empty());
                    let mut members: Vec<String> = members.map(str::to_owned).collect();
                    change(&group, &mut members);
                    *last = members.join(",");
                }
            }
        })?;
    }
    Ok(())
}
