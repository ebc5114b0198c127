//! Checks of the machine: its clock, its disks, its file permissions and its locks.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{StatVfs, StatVfsMountFlags, statvfs};
use state::lock;
use state::record;

use machine::procfs;

use super::{Lines, Look};

/// The time 2020-01-01. A clock that shows an earlier time was never set.
const NEVER_SET: Duration = Duration::from_secs(1_577_836_800);

/// The maximum time by which a file may be newer than the clock. The clocks of file servers differ
/// a little.
const AHEAD: Duration = Duration::from_secs(120);

/// The minimum free space in bytes. With less, a run fails soon.
const LITTLE: u64 = 16 << 20;

/// The free space in bytes below which large packages do not fit.
const SCARCE: u64 = 200 << 20;

/// The minimum number of free inodes. With fewer, a run fails soon.
const FEW: u64 = 1_000;

/// Paths that exist while a time service sets the clock.
const TIME_SERVICES: [&str; 5] = [
    "/run/systemd/timesync/synchronized",
    "/run/chrony",
    "/run/chronyd.pid",
    "/run/ntpd.pid",
    "/run/openntpd",
];

/// The lock files of package managers.
const PACKAGE_LOCKS: [&str; 8] = [
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/apt/lists/lock",
    "/var/lib/rpm/.rpm.lock",
    "/usr/lib/sysimage/rpm/.rpm.lock",
    "/lib/apk/db/lock",
    "/var/lock/opkg.lock",
    "/run/zypp.pid",
];

pub(super) fn clock(look: &Look, lines: &mut Lines) {
    let now = SystemTime::now();
    let set =
        "set it (timedatectl, ntpd, chronyd): run times, certificates and job ids depend on it";
    if now < UNIX_EPOCH + NEVER_SET {
        lines.problem("the clock is not set: it is before 2020", set);
        return;
    }
    let own = std::env::current_exe().ok();
    let files = look.loaded.files.iter().cloned().chain(own);
    let newest = files
        .chain([look.opts.cachedir()])
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max();
    if let Some((time, path)) = newest
        && time > now + AHEAD
    {
        let what = format!(
            "the clock is behind: {} is newer than the current time",
            path.display()
        );
        lines.problem(what, set);
        return;
    }
    let is_set = TIME_SERVICES.iter().any(|sign| Path::new(sign).exists());
    if is_set || !machine::systemd::booted() {
        lines.ok("the clock looks right");
    } else {
        let todo = "enable one: systemctl enable --now systemd-timesyncd, or chronyd";
        lines.warning(
            "the clock looks right, but no time service has set it",
            todo,
        );
    }
}

pub(super) fn disk(look: &Look, lines: &mut Lines) {
    let mut seen = Vec::new();
    for wanted in [look.opts.cachedir(), "/".into(), "/tmp".into()] {
        let Some(path) = wanted.ancestors().find(|path| path.exists()) else {
            continue;
        };
        let device = path.metadata().map(|data| data.dev()).ok();
        if seen.contains(&device) {
            continue;
        }
        seen.push(device);
        match statvfs(path) {
            Ok(stat) => one_disk(path, &stat, lines),
            Err(error) => lines.problem(
                format!("{}: {error}", path.display()),
                "check its mount: runs read and write there",
            ),
        }
    }
}

fn one_disk(path: &Path, stat: &StatVfs, lines: &mut Lines) {
    let shown = path.display();
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let megabytes = free >> 20;
    if stat.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let todo = format!("remount it: mount -o remount,rw {shown}");
        lines.warning(format!("{shown} is mounted read-only"), todo);
    } else if free < LITTLE {
        lines.problem(
            format!("{shown} has {megabytes} MB free"),
            "free some space there",
        );
    } else if free < SCARCE {
        let todo = "free some space before you install packages";
        lines.warning(format!("{shown} has {megabytes} MB free"), todo);
    } else if stat.f_files > 0 && stat.f_favail < FEW {
        let what = format!("{shown} has {} inodes free", stat.f_favail);
        lines.problem(what, "delete folders with many small files there");
    } else {
        lines.ok(format!("{shown} has {megabytes} MB free"));
    }
}

pub(super) fn permissions(look: &Look, lines: &mut Lines) {
    let before = lines.all.len();
    let user = rustix::process::geteuid().as_raw();
    let keys = keys(&look.opts.path("pki_dir")).unwrap_or_else(|error| {
        lines.problem(error.to_string(), "run as root");
        Vec::new()
    });
    for key in keys {
        if let Ok(data) = key.metadata() {
            let shown = key.display();
            if data.mode() & 0o077 != 0 {
                let what = format!("{shown} is readable by other users");
                lines.problem(
                    what,
                    format!("chmod 600 {shown}; replace the key if other users could read it"),
                );
            }
            if data.uid() != 0 && data.uid() != user {
                lines.problem(
                    format!("{shown} is owned by uid {}", data.uid()),
                    format!("chown root {shown}"),
                );
            }
        }
    }
    let folders = [
        look.config_dir.clone(),
        look.opts.cachedir(),
        record::folder(&look.opts),
    ];
    for folder in folders {
        if let Ok(data) = folder.metadata() {
            // In a folder with the sticky bit, users cannot remove the files of other users.
            if data.mode() & 0o002 != 0 && data.mode() & 0o1000 == 0 {
                let shown = folder.display();
                lines.problem(
                    format!("{shown} is writable by all users"),
                    format!("chmod o-w {shown}"),
                );
            }
        }
    }
    if let Err(error) = writable(&look.opts.cachedir()) {
        let what = format!(
            "cannot write to {}: {error}",
            look.opts.cachedir().display()
        );
        lines.problem(what, "run as root, or set cachedir to another folder");
    }
    if lines.all.len() == before {
        lines.ok("keys and caches are private");
    }
}

/// Returns the private keys in a folder.
fn keys(folder: &Path) -> Result<Vec<PathBuf>, state::module::Error> {
    let entries = machine::fs::list_or_none(folder)?.unwrap_or_default();
    let entries = entries.into_iter();
    let mut keys: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    keys.retain(|path| path.extension().is_some_and(|end| end == "pem"));
    keys.sort();
    Ok(keys)
}

/// Checks that this process can write to a folder, or to its nearest ancestor that exists.
fn writable(folder: &Path) -> rustix::io::Result<()> {
    let there = folder.ancestors().find(|path| path.exists());
    let there = there.unwrap_or_else(|| Path::new("/"));
    rustix::fs::access(there, rustix::fs::Access::WRITE_OK)
}

pub(super) fn locks(look: &Look, lines: &mut Lines) {
    match lock::holder(&look.opts) {
        Ok(None) => lines.ok("no state run is in progress"),
        Ok(Some(holder)) => lines.warning(
            holder.sentence(),
            "wait for it, or use queue=True; state.soft_kill stops it after its current state",
        ),
        Err(error) => lines.problem(error.to_string(), "run as root, or fix the file"),
    }
    let held = procfs::text("/proc/locks");
    for path in PACKAGE_LOCKS.map(Path::new) {
        if let Some(pid) = path
            .metadata()
            .ok()
            .and_then(|data| holder_of(&held, data.ino()))
        {
            let name = procfs::text(format!("/proc/{pid}/comm"));
            let what = format!(
                "{} is locked by process {pid} ({})",
                path.display(),
                name.trim()
            );
            lines.warning(
                what,
                "wait for it: a state run waits up to pkg_lock_timeout seconds",
            );
        }
    }
}

/// Returns the process that holds a lock on the file with the given inode number. `locks` is the
/// text of `/proc/locks`, with lines such as `1: POSIX  ADVISORY  WRITE 1234 08:01:131085 0 EOF`.
fn holder_of(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line
            .split_whitespace()
            .filter(|word| *word != "->")
            .collect();
        let [_, _, _, _, pid, file, ..] = words.as_slice() else {
            return None;
        };
        let number = file.rsplit(':').next()?;
        (number.parse() == Ok(inode)).then(|| pid.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_read() {
        let locks = "1: POSIX  ADVISORY  WRITE 1234 08:01:131085 0 EOF\n1: -> POSIX  ADVISORY  WRITE 99 08:01:131085 0 EOF\n2: FLOCK  ADVISORY  WRITE 77 00:1b:5 0 EOF\n";
        assert_eq!(holder_of(locks, 131_085), Some(1234));
        assert_eq!(holder_of(locks, 5), Some(77));
        assert_eq!(holder_of(locks, 6), None);
    }
}
