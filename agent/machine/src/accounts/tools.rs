//! Changing accounts with the machine's own programs. A small machine may have only busybox's
//! programs, which cannot change existing accounts; there, the files are edited.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use state::exec::Exec;
use state::module::Error;
use value::log;

use crate::fs::{self, Owner};
use crate::process::{self, Output, Process};

/// Returns the full path of a program.
pub fn find(program: &str) -> Result<String, Error> {
    process::which(program)
        .ok_or_else(|| Error::refused(format!("Command '{program}' cannot be found")))
}

/// True when one of shadow's programs is missing and busybox is installed.
pub fn is_small(program: &str) -> bool {
    process::which(program).is_none() && process::which("busybox").is_some()
}

/// Runs a program that changes accounts. The `names` are the last arguments, and none of them can
/// be mistaken for an option.
pub fn run(
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

/// Refuses a text that cannot be the name of an account, or that a program would read as something
/// else.
pub fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.starts_with('-') || name.contains([':', '\n', '/']) {
        let shown = value::python::repr(&name.into());
        return Err(Error::refused(format!(
            "{shown} cannot be the name of a user or group"
        )));
    }
    Ok(())
}

/// Returns today's date in days since 1970, as the shadow file counts.
pub fn today() -> String {
    (value::clock::since_epoch().as_secs() / 86_400).to_string()
}

/// Returns the path of an account file below a root.
pub fn path(root: Option<&str>, name: &str) -> PathBuf {
    Path::new(root.unwrap_or("/")).join("etc").join(name)
}

/// Changes the lines of an account file, split at colons, while other programs are locked out. Mode
/// and owner stay the same. A missing file is not created.
pub fn edit(
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
        .map_err(|_| Error::refused(format!("{} is not valid UTF-8", path.display())))?;
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

/// Takes the lock that shadow's own programs take. Where the file cannot be opened or locked, no
/// program on the machine uses that lock either.
fn locked(path: &Path) -> Option<OwnedFd> {
    let file = path.parent()?.join(".pwd.lock");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let lock = rustix::fs::open(&file, flags, Mode::RUSR | Mode::WUSR).ok()?;
    if rustix::fs::fcntl_lock(&lock, FlockOperation::LockExclusive).is_err() {
        log::debug(format_args!("cannot lock {}", file.display()));
    }
    Some(lock)
}

/// Sets one field of an account's line.
pub fn set_field(
    cx: &Exec,
    path: &Path,
    name: &str,
    field: usize,
    value: &str,
) -> Result<(), Error> {
    if value.contains([':', '\n']) {
        let file = path.display();
        return Err(Error::refused(format!(
            "A field of {file} must not contain a colon or a line break"
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

/// True for the line of this account.
pub fn is_of(line: &[String], name: &str) -> bool {
    line.first().is_some_and(|first| first == name)
}

/// Changes the members of groups. They are the last field of the lines of both files.
pub fn edit_members(
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
