//! The `ps` execution module: reports processes, read from `/proc`.

use machine::accounts::users;
use machine::process::{Process, which};
use rustix::process::{Pid, Signal};
use state::exec::Exec;
use state::module::Error;
use value::pyre::{Flags, Regex};
use value::{Map, Value};

state::exec_module! {
    /// Report processes and their use of resources.
    mod ps;

    /// Return the IDs of all processes.
    ///
    ///     salt-call ps.get_pid_list
    fn get_pid_list(GetPidList {});

    /// Send a signal to a process.
    ///
    ///     salt-call ps.kill_pid 123456 signal=15
    fn kill_pid(KillPid {
        /// The ID of the process.
        pid: i64,
        /// The number of the signal.
        signal: i64 = 15,
    });

    /// Send a signal to all processes whose name contains a text.
    ///
    ///     salt-call ps.pkill firefox user=alice
    fn pkill(Pkill {
        /// The text to look for.
        pattern: String,
        /// The user whose processes are searched; all users if not given.
        user: Option<String> = None,
        /// The number of the signal.
        signal: i64 = 15,
        /// True to search the arguments too.
        full: bool = false,
    });

    /// Return the IDs of the processes whose name contains a text.
    ///
    ///     salt-call ps.pgrep nginx
    fn pgrep(Pgrep {
        /// The text or regular expression to look for.
        pattern: String,
        /// The user whose processes are searched; all users if not given.
        user: Option<String> = None,
        /// True to search the arguments too.
        full: bool = false,
        /// True if the pattern is a regular expression.
        pattern_is_regex: bool = false,
    });

    /// Return the lines of `ps aux` that match a regular expression.
    ///
    ///     salt-call ps.psaux nginx
    fn psaux(Psaux {
        /// The regular expression.
        name: String,
    });

    /// Return the lines of `ss -neap` that contain a text.
    ///
    ///     salt-call ps.ss nginx
    fn ss(Ss {
        /// The text to look for.
        name: String,
    });

    /// Return the lines of `netstat -nap` that contain a text.
    ///
    ///     salt-call ps.netstat nginx
    fn netstat(Netstat {
        /// The text to look for.
        name: String,
    });

    /// Return the number of processors.
    ///
    ///     salt-call ps.num_cpus
    fn num_cpus(NumCpus {});

    /// Return the time when the machine was started.
    ///
    ///     salt-call ps.boot_time
    fn boot_time(BootTime {
        /// A format of strftime; seconds since 1970 if not given.
        time_format: Option<String> = None,
    });

    /// Return the size of the memory in bytes.
    ///
    ///     salt-call ps.total_physical_memory
    fn total_physical_memory(TotalPhysicalMemory {});

    /// Return the usage of the memory.
    ///
    ///     salt-call ps.virtual_memory
    fn virtual_memory(VirtualMemory {});

    /// Return the usage of the swap space.
    ///
    ///     salt-call ps.swap_memory
    fn swap_memory(SwapMemory {});

    /// Return the usage of a file system.
    ///
    ///     salt-call ps.disk_usage /srv
    fn disk_usage(DiskUsage {
        /// A path on the file system.
        path: String,
    });
}

/// A process.
pub(super) struct Running {
    pub(super) pid: u32,
    /// The name of the user, or the ID if it has no name.
    pub(super) user: String,
    /// The name of the program.
    pub(super) name: String,
    /// The program and its arguments.
    pub(super) words: Vec<String>,
}

impl Running {
    pub(super) fn find(pid: u32) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let folder = format!("/proc/{pid}");
        let owner = std::fs::metadata(&folder).ok()?.uid();
        let name = machine::procfs::text_or_none(format!("{folder}/comm"))?
            .trim_end()
            .to_owned();
        let words = machine::procfs::bytes(format!("{folder}/cmdline"));
        let words = String::from_utf8_lossy(&words)
            .trim_end_matches('\0')
            .to_owned();
        let words: Vec<String> = words
            .split('\0')
            .filter(|_| !words.is_empty())
            .map(str::to_owned)
            .collect();
        Some(Self {
            pid,
            user: users::of_uid(owner).to_text(),
            name: full_name(&name, &words),
            words,
        })
    }

    /// Returns the command line as ps shows it: a kernel process in brackets.
    pub(super) fn command_line(&self) -> String {
        if self.words.is_empty() {
            format!("[{}]", self.name)
        } else {
            self.words.join(" ")
        }
    }

    fn has(&self, pattern: &str, user: Option<&str>, full: bool) -> bool {
        let found = if full {
            self.words.join(" ").contains(pattern)
        } else {
            self.name.contains(pattern)
        };
        found && user.is_none_or(|user| self.user == user)
    }
}

/// Returns the full name of a process. The kernel cuts names at 15 bytes; the first argument may
/// contain the rest.
fn full_name(name: &str, words: &[String]) -> String {
    let first = words.first().map(|word| python::path::basename(word));
    match first {
        Some(first) if name.len() >= 15 && first.starts_with(name) => first.to_owned(),
        _ => name.to_owned(),
    }
}

pub(super) fn pids() -> Vec<u32> {
    let entries = machine::procfs::list("/proc");
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    value::sorted::sort(&mut pids);
    pids
}

/// Returns all processes.
pub(super) fn all() -> Vec<Running> {
    pids().into_iter().filter_map(Running::find).collect()
}

fn get_pid_list(_cx: &Exec, _args: GetPidList) -> Result<Value, Error> {
    Ok(Value::list(pids().into_iter().map(Value::from)))
}

/// Sends a signal. Returns false if there is no such process.
fn send(pid: i64, signal: i64) -> Result<bool, Error> {
    // 0 and negative numbers address groups of processes.
    let target = i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 0)
        .and_then(Pid::from_raw);
    let target = target.ok_or_else(|| Error::refused(format!("invalid process ID {pid}")))?;
    let named = i32::try_from(signal).ok();
    let done = match named {
        Some(0) => rustix::process::test_kill_process(target),
        Some(number) => {
            let signal = Signal::from_named_raw(number)
                .ok_or_else(|| Error::refused(format!("invalid signal number {signal}")))?;
            rustix::process::kill_process(target, signal)
        }
        None => return Err(format!("invalid signal number {signal}").into()),
    };
    match done {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(format!("cannot send signal {signal} to process {pid}: {error}").into()),
    }
}

fn kill_pid(_cx: &Exec, args: KillPid) -> Result<Value, Error> {
    send(args.pid, args.signal).map(Value::from)
}

fn pkill(_cx: &Exec, args: Pkill) -> Result<Value, Error> {
    let mut killed = Vec::new();
    for process in all() {
        // This program has the pattern in its own arguments.
        let own = process.pid == std::process::id();
        if !own
            && process.has(&args.pattern, args.user.as_deref(), args.full)
            && send(process.pid.into(), args.signal)?
        {
            killed.push(Value::from(process.pid));
        }
    }
    Ok(if killed.is_empty() {
        Value::Null
    } else {
        Map::new().with("killed", Value::list(killed)).into()
    })
}

fn pgrep(_cx: &Exec, args: Pgrep) -> Result<Value, Error> {
    let regex = if args.pattern_is_regex {
        Some(Regex::new(&args.pattern, Flags::default())?)
    } else {
        None
    };
    let mut found = Vec::new();
    for process in all() {
        let text = if args.full {
            process.words.join(" ")
        } else {
            process.name.clone()
        };
        let matches = match &regex {
            Some(regex) => regex.is_match(&text)?,
            None => text.contains(&args.pattern),
        };
        if matches && args.user.as_ref().is_none_or(|user| *user == process.user) {
            found.push(Value::from(process.pid));
        }
    }
    Ok(if found.is_empty() {
        Value::Null
    } else {
        Value::list(found)
    })
}

fn output(cx: &Exec, words: &[&str]) -> Result<String, Error> {
    let program = words.first().copied().unwrap_or_default();
    if which(program).is_none() {
        return Err(format!("The '{program}' binary was not found in $PATH.").into());
    }
    Ok(Process::words(words.iter().copied())
        .quiet()
        .run(cx)?
        .into_stdout_regardless())
}

fn psaux(cx: &Exec, args: Psaux) -> Result<Value, Error> {
    let pattern = Regex::new(&args.name, Flags::default())?;
    let mut found = Vec::new();
    for line in output(cx, &["ps", "aux"])?.lines() {
        if pattern.is_match(line)? && !line.contains("ps.psaux ") {
            found.push(Value::from(line));
        }
    }
    let count = format!("{} occurrence(s).", found.len());
    Ok(Value::list([
        args.name.into(),
        Value::list(found),
        count.into(),
    ]))
}

/// Returns the lines of a program's output that contain a text.
fn lines_with(cx: &Exec, words: &[&str], name: String) -> Result<Value, Error> {
    let out = output(cx, words)?;
    let found = Value::list(
        out.lines()
            .filter(|line| line.contains(&name))
            .map(Value::from),
    );
    Ok(Value::list([name.into(), found]))
}

fn ss(cx: &Exec, args: Ss) -> Result<Value, Error> {
    lines_with(cx, &["ss", "-neap"], args.name)
}

fn netstat(cx: &Exec, args: Netstat) -> Result<Value, Error> {
    lines_with(cx, &["netstat", "-nap"], args.name)
}

fn num_cpus(_cx: &Exec, _args: NumCpus) -> Result<Value, Error> {
    let text = machine::procfs::text("/proc/stat");
    let cpu = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    Ok(text.lines().filter(cpu).count().into())
}

/// Returns the time when the machine was started, in seconds since 1970.
pub(super) fn booted() -> Result<i64, Error> {
    let text = machine::procfs::text("/proc/stat");
    let seconds = text
        .lines()
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse::<i64>().ok());
    seconds.ok_or_else(|| "/proc/stat has no btime".into())
}

fn boot_time(_cx: &Exec, args: BootTime) -> Result<Value, Error> {
    let seconds = booted()?;
    let Some(format) = args.time_format.filter(|format| !format.is_empty()) else {
        return Ok(seconds.into());
    };
    let wrong = |error: jiff::Error| Error::refused(format!("Invalid format string: {error}"));
    let moment = jiff::Timestamp::from_second(seconds)
        .map_err(wrong)?
        .to_zoned(jiff::tz::TimeZone::system());
    let shown = jiff::fmt::strtime::BrokenDownTime::from(&moment)
        .to_string(&format)
        .map_err(wrong)?;
    Ok(shown.into())
}

/// Returns the value of an entry of `/proc/meminfo` in bytes.
pub(super) fn memory(name: &str) -> i64 {
    let text = machine::procfs::text("/proc/meminfo");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

fn total_physical_memory(_cx: &Exec, _args: TotalPhysicalMemory) -> Result<Value, Error> {
    Ok(memory("MemTotal").into())
}

/// Returns a part of a whole in percent, rounded to one decimal.
pub(super) fn percent(part: i64, whole: i64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        (part as f64 / whole as f64 * 1000.0).round() / 10.0
    }
}

fn virtual_memory(_cx: &Exec, _args: VirtualMemory) -> Result<Value, Error> {
    let (total, available, free) = (
        memory("MemTotal"),
        memory("MemAvailable"),
        memory("MemFree"),
    );
    let cached = memory("Cached") + memory("SReclaimable");
    Ok(Map::new()
        .with("total", total)
        .with("available", available)
        .with("percent", percent(total - available, total))
        .with("used", total - available)
        .with("free", free)
        .with("active", memory("Active"))
        .with("inactive", memory("Inactive"))
        .with("buffers", memory("Buffers"))
        .with("cached", cached)
        .with("shared", memory("Shmem"))
        .with("slab", memory("Slab"))
        .into())
}

fn swap_memory(_cx: &Exec, _args: SwapMemory) -> Result<Value, Error> {
    let (total, free) = (memory("SwapTotal"), memory("SwapFree"));
    let text = machine::procfs::text("/proc/vmstat");
    let pages = |name: &str| {
        let number = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<i64>().ok());
        // The kernel counts in pages of 4 KiB.
        number.unwrap_or(0).saturating_mul(4096)
    };
    Ok(Map::new()
        .with("total", total)
        .with("used", total - free)
        .with("free", free)
        .with("percent", percent(total - free, total))
        .with("sin", pages("pswpin "))
        .with("sout", pages("pswpout "))
        .into())
}

fn disk_usage(_cx: &Exec, args: DiskUsage) -> Result<Value, Error> {
    Ok(disk_usage_of(&args.path)?.into())
}

/// Returns the usage of the file system that contains the path.
pub(super) fn disk_usage_of(path: &str) -> Result<Map, Error> {
    let found = rustix::fs::statvfs(path).map_err(|error| Error::io(path)(error.into()))?;
    let bytes =
        |blocks: u64| i64::try_from(blocks.saturating_mul(found.f_frsize)).unwrap_or(i64::MAX);
    let (total, free, left) = (
        bytes(found.f_blocks),
        bytes(found.f_bavail),
        bytes(found.f_bfree),
    );
    let used = total - left;
    Ok(Map::new()
        .with("total", total)
        .with("used", used)
        .with("free", free)
        .with("percent", percent(used, used + free)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_found() {
        let own = Running::find(std::process::id()).unwrap();
        assert!(
            own.command_line()
                .contains(python::path::basename(&own.name))
        );
        assert!(own.has(&own.name, Some(&own.user), false));
        assert!(!own.has(&own.name, Some("no such user"), false));
        assert!(pids().contains(&own.pid));
        assert!(send(0, 15).is_err());
        assert!(send(1, 99_999).is_err());
        assert!(send(own.pid.into(), 0).unwrap());
    }

    #[test]
    fn memory_is_counted_in_bytes() {
        assert!(memory("MemTotal") > 1024 * 1024);
        assert_eq!(percent(1, 3), 33.3);
        assert_eq!(percent(1, 0), 0.0);
    }
}
