//! The part of the `ps` execution module that reports single processes.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::ps::{self, Running};
use super::ps_counters::TICKS;

state::exec_module! {
    /// Report single processes.
    mod ps;

    /// Return information about a process.
    ///
    ///     salt-call ps.proc_info 1
    fn proc_info(ProcInfo {
        /// The ID of the process.
        pid: i64,
        /// The attributes to return; all if not given.
        attrs: Option<Vec<String>> = None,
    });

    /// Return the processes that are in a state.
    ///
    ///     salt-call ps.status sleeping
    fn status(Status {
        /// The state: running, sleeping, disk-sleep, stopped, tracing-stop, zombie, dead,
        /// wake-kill, waking, idle or parked.
        status: String,
    });

    /// Return the processes that use the most processor time.
    ///
    ///     salt-call ps.top num_processes=3
    fn top(Top {
        /// The maximum number of processes.
        num_processes: i64 = 5,
        /// The time in seconds over which the usage is measured.
        interval: f64 = 3.0,
    });
}

/// The indexes of fields in `/proc/PID/stat`, counted after the name of the process.
const STATE: usize = 0;
const PARENT: usize = 1;
const TERMINAL: usize = 4;
const SPENT: [usize; 5] = [11, 12, 13, 14, 39];
const NICE: usize = 16;
const STARTED: usize = 19;
const PROCESSOR: usize = 36;

const STATES: [(&str, &str); 12] = [
    ("R", "running"),
    ("S", "sleeping"),
    ("D", "disk-sleep"),
    ("T", "stopped"),
    ("t", "tracing-stop"),
    ("Z", "zombie"),
    ("X", "dead"),
    ("x", "dead"),
    ("K", "wake-kill"),
    ("W", "waking"),
    ("I", "idle"),
    ("P", "parked"),
];

/// A process and the fields of its `stat` file.
struct Process {
    running: Running,
    stat: Vec<String>,
}

/// Returns the fields after the name, which may contain any character.
fn fields(stat: &str) -> Option<Vec<String>> {
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

impl Process {
    fn find(pid: u32) -> Option<Self> {
        let stat = machine::procfs::text_or_none(format!("/proc/{pid}/stat"))?;
        Some(Self {
            running: Running::find(pid)?,
            stat: fields(&stat)?,
        })
    }

    fn place(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.running.pid)
    }

    fn read(&self, name: &str) -> Option<String> {
        let bytes = machine::procfs::bytes_or_none(self.place(name))?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn number(&self, at: usize) -> i64 {
        let number = self.stat.get(at).and_then(|text| text.parse().ok());
        number.unwrap_or(0)
    }

    fn seconds(&self, at: usize) -> f64 {
        self.number(at) as f64 / TICKS
    }

    fn state(&self) -> &'static str {
        let letter = self.stat.get(STATE).map(String::as_str);
        let known = STATES.iter().find(|(known, _)| Some(*known) == letter);
        known.map_or("?", |(_, name)| name)
    }

    fn created(&self) -> Option<f64> {
        Some(self.seconds(STARTED) + ps::booted().ok()? as f64)
    }

    /// Returns the numbers in a line of the `status` file.
    fn line(&self, key: &str) -> Option<Vec<i64>> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace()
            .map(|word| word.parse().ok())
            .collect()
    }

    /// Returns the sizes in bytes: resident, virtual, shared, code, libraries, data, dirty.
    fn memory(&self) -> Option<[i64; 7]> {
        let text = self.read("statm")?;
        let mut pages = text.split_whitespace().map(|word| word.parse::<i64>().ok());
        let mut next = || Some(pages.next()?? * page_size());
        let (all, resident) = (next()?, next()?);
        Some([resident, all, next()?, next()?, next()?, next()?, next()?])
    }

    /// Returns times in seconds: own user time, own system time, both times of the children,
    /// waiting for disks.
    fn spent(&self) -> [f64; 5] {
        SPENT.map(|at| self.seconds(at))
    }

    /// Returns the sorted names in a folder of the process, or `None` if it may not be read.
    fn names(&self, folder: &str) -> Option<Vec<String>> {
        let entries = machine::procfs::list_or_none(self.place(folder))?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        Some(names)
    }
}

/// Returns the size of a page, which the kernel passes to each program as entry 6 of the auxiliary
/// vector.
fn page_size() -> i64 {
    const WORD: usize = size_of::<usize>();
    let told = machine::procfs::bytes("/proc/self/auxv");
    let word = |bytes: &[u8]| Some(usize::from_ne_bytes(bytes.try_into().ok()?));
    let size = told.chunks(2 * WORD).find_map(|pair| {
        let (key, size) = pair.split_at_checked(WORD)?;
        (word(key)? == 6).then(|| word(size))?
    });
    size.and_then(|size| i64::try_from(size).ok())
        .unwrap_or(4096)
}

fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
    Value::list(items.into_iter().map(Into::into))
}

/// Returns the target of a link of the process, or an empty text if there is none, as for kernel
/// processes.
fn link(known: &Process, name: &str) -> Option<Value> {
    match machine::fs::raw::link_target(known.place(name)) {
        Ok(path) => Some(path.display().to_string().into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some("".into()),
        Err(_) => None,
    }
}

/// Expands a list of ranges such as `0-3,8`.
fn ranges(text: &str) -> Option<Value> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        all.extend(from.parse::<i64>().ok()?..=to.parse::<i64>().ok()?);
    }
    Some(list(all))
}

fn affinity(known: &Process) -> Option<Value> {
    let text = known.read("status")?;
    let mut lines = text.lines();
    ranges(lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

fn environ(known: &Process) -> Option<Value> {
    let text = known.read("environ")?;
    let pairs = text.split('\0').take_while(|pair| !pair.is_empty());
    Some(pairs.filter_map(|pair| pair.split_once('=')).collect())
}

fn io_counters(known: &Process) -> Option<Value> {
    let text = known.read("io")?;
    let count = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix(": ")?
                .parse::<i64>()
                .ok()
        })
    };
    let names = [
        "syscr",
        "syscw",
        "read_bytes",
        "write_bytes",
        "rchar",
        "wchar",
    ];
    let counts: Option<Vec<i64>> = names.into_iter().map(count).collect();
    Some(counts?.into())
}

fn memory_full_info(known: &Process) -> Option<Value> {
    let text = known.read("smaps_rollup")?;
    let sum = |start: &str| {
        let lines = text.lines().filter(|line| line.starts_with(start));
        let size = |line: &str| line.split_whitespace().nth(1)?.parse::<i64>().ok();
        lines.filter_map(size).sum::<i64>() * 1024
    };
    let own = ["Private_", "Pss:", "Swap:"].map(sum);
    Some(list(known.memory()?.into_iter().chain(own)))
}

fn memory_percent(known: &Process) -> Option<Value> {
    let [resident, ..] = known.memory()?;
    Some((resident as f64 / ps::memory("MemTotal") as f64 * 100.0).into())
}

/// Returns the percentage of the time since the start of the process that processors spent on it,
/// as ps does.
fn cpu_percent(known: &Process) -> Option<Value> {
    let uptime = machine::procfs::text_or_none("/proc/uptime")?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    let [user, system, ..] = known.spent();
    let lived = (uptime - known.seconds(STARTED)).max(1.0 / TICKS);
    Some((((user + system) / lived * 1000.0).round() / 10.0).into())
}

/// Returns the mode in which a file is open, in the notation of Python's `open`.
fn mode(flags: i64) -> &'static str {
    const APPEND: i64 = 0o2000;
    match (flags & 3, flags & APPEND != 0) {
        (0, _) => "r",
        (1, false) => "w",
        (1, true) => "a",
        (_, false) => "r+",
        (_, true) => "a+",
    }
}

/// Returns the files that a process has open: path, descriptor, position, mode and flags.
fn open_files(known: &Process) -> Option<Value> {
    let open = |number: &String| {
        let path = machine::procfs::link_target(known.place(&format!("fd/{number}")))?;
        let is_file = path.is_absolute() && path.is_file();
        let info = known
            .read(&format!("fdinfo/{number}"))
            .filter(|_| is_file)?;
        let mut lines = info
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        let place: i64 = lines.next()?.parse().ok()?;
        let flags = i64::from_str_radix(lines.next()?, 8).ok()?;
        let number: i64 = number.parse().ok()?;
        Some(Value::list([
            path.display().to_string().into(),
            number.into(),
            place.into(),
            mode(flags).into(),
            flags.into(),
        ]))
    };
    Some(Value::list(known.names("fd")?.iter().filter_map(open)))
}

fn threads(known: &Process) -> Option<Value> {
    let thread = |id: &String| {
        let stat = fields(&known.read(&format!("task/{id}/stat"))?)?;
        let [user, system, ..] = SPENT;
        let seconds = |at: usize| Some(stat.get(at)?.parse::<f64>().ok()? / TICKS);
        let id: i64 = id.parse().ok()?;
        Some(Value::list([
            id.into(),
            seconds(user)?.into(),
            seconds(system)?.into(),
        ]))
    };
    Some(Value::list(known.names("task")?.iter().filter_map(thread)))
}

/// Returns the path of the controlling terminal.
fn terminal(known: &Process) -> Option<Value> {
    let number = u64::try_from(known.number(TERMINAL))
        .ok()
        .filter(|number| *number > 0)?;
    let devices = ["/dev", "/dev/pts"]
        .into_iter()
        .flat_map(machine::procfs::list);
    let paths = devices.map(|entry| entry.path());
    let mut terminals = paths.filter(|path| {
        let path = path.to_string_lossy();
        path.starts_with("/dev/tty") || path.starts_with("/dev/pts/")
    });
    let found = terminals.find(|path| path.metadata().is_ok_and(|found| found.rdev() == number));
    found.map(|path| path.display().to_string().into())
}

/// A function that reads an attribute. Returns `None` if it may not be read.
type Tell = fn(&Process) -> Option<Value>;
const ATTRIBUTES: &[(&str, Tell)] = &[
    ("cmdline", |known| Some(known.running.words.clone().into())),
    ("cpu_affinity", affinity),
    ("cpu_num", |known| Some(known.number(PROCESSOR).into())),
    ("cpu_percent", cpu_percent),
    ("cpu_times", |known| Some(list(known.spent()))),
    ("create_time", |known| Some(known.created()?.into())),
    ("cwd", |known| link(known, "cwd")),
    ("environ", environ),
    ("exe", |known| link(known, "exe")),
    ("gids", |known| {
        Some(list(known.line("Gid:")?.into_iter().take(3)))
    }),
    ("io_counters", io_counters),
    ("memory_full_info", memory_full_info),
    ("memory_info", |known| Some(list(known.memory()?))),
    ("memory_percent", memory_percent),
    ("name", |known| Some(known.running.name.as_str().into())),
    ("nice", |known| Some(known.number(NICE).into())),
    ("num_ctx_switches", |known| {
        let own = known.line("voluntary_ctxt_switches:")?;
        Some(list(
            own.into_iter()
                .chain(known.line("nonvoluntary_ctxt_switches:")?),
        ))
    }),
    ("num_fds", |known| Some(known.names("fd")?.len().into())),
    ("num_threads", |known| {
        known.line("Threads:")?.first().copied().map(Value::from)
    }),
    ("open_files", open_files),
    ("pid", |known| Some(known.running.pid.into())),
    ("ppid", |known| Some(known.number(PARENT).into())),
    ("status", |known| Some(known.state().into())),
    ("terminal", terminal),
    ("threads", threads),
    ("uids", |known| {
        Some(list(known.line("Uid:")?.into_iter().take(3)))
    }),
    ("username", |known| Some(known.running.user.as_str().into())),
];

fn proc_info(_cx: &Exec, args: ProcInfo) -> Result<Value, Error> {
    let wanted = args.attrs.filter(|wanted| !wanted.is_empty());
    if let Some(wanted) = &wanted {
        let known = |name: &String| ATTRIBUTES.iter().any(|(known, _)| known == name);
        if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
            let all: Vec<&str> = ATTRIBUTES.iter().map(|(name, _)| *name).collect();
            return Err(Error::refused(format!(
                "invalid attr name '{unknown}': expected one of {}",
                all.join(", ")
            )));
        }
    }
    let pid = args.pid;
    let known = u32::try_from(pid).ok().and_then(Process::find);
    let known =
        known.ok_or_else(|| Error::refused(format!("process PID not found (pid={pid})")))?;
    let is_wanted = |name: &str| {
        wanted
            .as_ref()
            .is_none_or(|all| all.iter().any(|one| one == name))
    };
    let told = ATTRIBUTES.iter().filter(|(name, _)| is_wanted(name));
    Ok(told.map(|(name, tell)| (*name, tell(&known))).collect())
}

fn all() -> impl Iterator<Item = Process> {
    ps::pids().into_iter().filter_map(Process::find)
}

fn status(_cx: &Exec, args: Status) -> Result<Value, Error> {
    if args.status.is_empty() {
        return Err(Error::unexpected("Filter is required for ps.status".into()));
    }
    let found = all().filter(|known| known.state() == args.status);
    let shown = |known: Process| {
        let name = known.running.name;
        Map::new()
            .with("pid", known.running.pid)
            .with("name", name)
            .into()
    };
    Ok(Value::list(found.map(shown)))
}

/// Returns one entry of the result of `ps.top`.
fn described(known: Process) -> Option<Value> {
    const SPENT: [&str; 5] = [
        "user",
        "system",
        "children_user",
        "children_system",
        "iowait",
    ];
    const MEMORY: [&str; 7] = ["rss", "vms", "shared", "text", "lib", "data", "dirty"];
    let (cpu, mem) = (known.spent(), known.memory()?);
    let (state, created) = (known.state(), known.created());
    let Running {
        pid,
        user,
        name,
        words,
    } = known.running;
    let cmd: Value = if words.is_empty() {
        name.into()
    } else {
        words.into()
    };
    let told = Map::new()
        .with("cmd", cmd)
        .with("user", user)
        .with("status", state)
        .with("pid", pid)
        .with("create_time", created)
        .with("cpu", SPENT.into_iter().zip(cpu).collect::<Map>())
        .with("mem", MEMORY.into_iter().zip(mem).collect::<Map>());
    Some(told.into())
}

fn top(_cx: &Exec, args: Top) -> Result<Value, Error> {
    let interval = Duration::try_from_secs_f64(args.interval)
        .map_err(|_| Error::refused(format!("invalid interval {}", args.interval)))?;
    let ticks = |known: &Process| known.number(SPENT[0]) + known.number(SPENT[1]);
    let before: Vec<(u32, i64, i64)> = all()
        .map(|known| (known.running.pid, known.number(STARTED), ticks(&known)))
        .collect();
    std::thread::sleep(interval);
    let since = |known: Process| {
        let same = |(pid, started, _): &&(u32, i64, i64)| {
            *pid == known.running.pid && *started == known.number(STARTED)
        };
        let (_, _, spent) = before.iter().find(same)?;
        Some((ticks(&known) - spent, known))
    };
    let mut busy: Vec<(i64, Process)> = all().filter_map(since).collect();
    value::sorted::sort_by_key(&mut busy, |(spent, _)| std::cmp::Reverse(*spent));
    let most = usize::try_from(args.num_processes).unwrap_or(0);
    let told = busy.into_iter().filter_map(|(_, known)| described(known));
    Ok(Value::list(told.take(most)))
}
