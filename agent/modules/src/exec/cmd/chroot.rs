//! `cmd.run_chroot`: runs a command in another root directory.

use std::path::Path;

use machine::process::Process;
use python::shlex;
use rustix::process::{Pid, Signal};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::run_all_with;

/// The file systems that programs expect, as (folder, device, type).
const KERNEL: [(&str, &str, &str); 3] = [
    ("dev", "devtmpfs", "devtmpfs"),
    ("proc", "proc", "proc"),
    ("sys", "sysfs", "sysfs"),
];

/// Runs `cmd.run_chroot` with its options in a dictionary.
pub(crate) fn run_chroot_with(
    cx: &Exec,
    root: &str,
    cmd: &Value,
    binds: &[String],
    options: Map,
) -> Result<Map, Error> {
    let mut mounted = Vec::new();
    for (folder, device, kind) in KERNEL {
        let place = format!("{root}/{folder}");
        mount(cx, &["-t", kind, device, &place], &place, &mut mounted)?;
    }
    for bind in binds {
        let place = format!("{root}/{}", bind.trim_start_matches('/'));
        mount(cx, &["--bind", bind, &place], &place, &mut mounted)?;
    }
    let line = line(root, cmd, &options);
    let result = run_all_with(cx, &line.into(), &inside(options));
    end(root);
    for place in mounted.iter().rev() {
        // A failure of the program itself is in the log already.
        if let Err(error) = Process::words(["umount", place]).run(cx) {
            log::error(format_args!("cannot unmount {place}: {error}"));
        }
    }
    result
}

fn mount(cx: &Exec, args: &[&str], place: &str, mounted: &mut Vec<String>) -> Result<(), Error> {
    let words = ["mount"].iter().chain(args).copied();
    if Process::words(words).run(cx)?.success() {
        mounted.push(place.to_owned());
    }
    Ok(())
}

fn line(root: &str, cmd: &Value, options: &Map) -> String {
    let bash = Path::new(root).join("bin/bash").is_file();
    let shell = if bash { "/bin/bash" } else { "/bin/sh" };
    let command = match cmd.as_list() {
        Some(words) => words
            .iter()
            .map(Value::to_text)
            .collect::<Vec<_>>()
            .join(" "),
        None => cmd.to_text(),
    };
    let text = |name| {
        options
            .get(name)
            .filter(|v| v.is_true())
            .map(Value::to_text)
    };
    let user = text("runas")
        .map(|user| format!("--userspec {user}:{}", text("group").unwrap_or_default()))
        .unwrap_or_default();
    format!("chroot {user} {root} {shell} -c {}", shlex::quote(&command))
}

/// The user and group apply only inside of the root directory.
fn inside(mut options: Map) -> Map {
    for name in ["runas", "group"] {
        options.remove(name);
    }
    if !options.contains("output_loglevel") {
        options.insert("output_loglevel", "quiet");
    }
    options
}

/// Kills the processes that still run in the root directory, because they keep the mounts busy.
fn end(root: &str) {
    for attempt in 0..6 {
        let pids = pids(root);
        if pids.is_empty() {
            return;
        }
        let signal = if attempt < 3 {
            Signal::TERM
        } else {
            Signal::KILL
        };
        for pid in pids {
            let killed = rustix::process::kill_process(pid, signal);
            if let Err(error) = killed
                && error != rustix::io::Errno::SRCH
            {
                let pid = pid.as_raw_pid();
                log::warning(format_args!("cannot end the process {pid}: {error}"));
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    if !pids(root).is_empty() {
        log::error(
            "Processes running in chroot could not be killed, filesystem will remain mounted",
        );
    }
}

fn pids(root: &str) -> Vec<Pid> {
    let inside = |path: &Path| {
        machine::procfs::link_target(path.join("root"))
            .is_some_and(|link| link.starts_with(root) && root != "/")
    };
    machine::procfs::list("/proc")
        .filter(|entry| inside(&entry.path()))
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}
