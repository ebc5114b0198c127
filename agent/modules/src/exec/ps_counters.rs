//! The part of the `ps` execution module that reports the kernel's counters of the whole machine.

use std::time::Duration;

use machine::process::{Process, Stderr, which};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::ps::disk_usage_of;

state::exec_module! {
    /// Report the kernel's counters.
    mod ps;

    /// Return the usage of the processors in percent.
    ///
    ///     salt-call ps.cpu_percent
    fn cpu_percent(CpuPercent {
        /// The time in seconds over which the usage is measured.
        interval: f64 = 0.1,
        /// True to return one entry for each processor.
        per_cpu: bool = false,
    });

    /// Return the seconds that the processors have spent, for each kind of use.
    ///
    ///     salt-call ps.cpu_times
    fn cpu_times(CpuTimes {
        /// True to return one entry for each processor.
        per_cpu: bool = false,
    });

    /// Return the counters of reads and writes of the disks, or False if the given disk does not
    /// exist.
    ///
    ///     salt-call ps.disk_io_counters
    fn disk_io_counters(DiskIoCounters {
        /// The name of a disk; the sum of all disks if not given.
        device: Option<String> = None,
    });

    /// Return the mounted file systems.
    ///
    ///     salt-call ps.disk_partitions
    fn disk_partitions(DiskPartitions {
        /// True to include file systems that are on no disk.
        all: bool = false,
    });

    /// Return the mounted file systems with their usage.
    ///
    ///     salt-call ps.disk_partition_usage
    fn disk_partition_usage(DiskPartitionUsage {
        /// True to include file systems that are on no disk.
        all: bool = false,
    });

    /// Return the counters of network traffic, or False if the given interface does not exist.
    ///
    ///     salt-call ps.network_io_counters
    fn network_io_counters(NetworkIoCounters {
        /// The name of an interface; the sum of the interfaces if not given.
        interface: Option<String> = None,
    });

    /// Return the users who are logged in.
    ///
    ///     salt-call ps.get_users
    fn get_users(GetUsers {});

    /// Return the output of lsof for processes.
    ///
    ///     salt-call ps.lsof nginx
    fn lsof(Lsof {
        /// The beginning of the names of the processes.
        name: String,
    });
}

/// The number of ticks a second in which the kernel reports times.
pub(super) const TICKS: f64 = 100.0;

const TIMES: [&str; 10] = [
    "user",
    "nice",
    "system",
    "idle",
    "iowait",
    "irq",
    "softirq",
    "steal",
    "guest",
    "guest_nice",
];

pub(super) fn read(path: &str) -> Result<String, Error> {
    machine::fs::text(path)
}

/// Returns the ticks of all processors together, followed by those of each processor.
fn ticks() -> Result<Vec<[i64; 10]>, Error> {
    let line = |line: &str| {
        let mut counted = [0; 10];
        let words = line.strip_prefix("cpu")?.split_whitespace();
        // The line of the sum begins with a bare `cpu`, without a number.
        let words = words.skip(usize::from(!line.starts_with("cpu ")));
        for (place, word) in counted.iter_mut().zip(words) {
            *place = word.parse().ok()?;
        }
        Some(counted)
    };
    let text = read("/proc/stat")?;
    let all: Vec<[i64; 10]> = text.lines().map_while(line).collect();
    match all.is_empty() {
        true => Err("no processors found in /proc/stat".into()),
        false => Ok(all),
    }
}

/// Returns the first entry, for all processors, or a list with the entry of each processor.
fn each_or_all<T: Into<Value>>(per_cpu: bool, told: impl Iterator<Item = T>) -> Value {
    let mut told = told.map(Into::into);
    match per_cpu {
        true => Value::list(told.skip(1)),
        false => told.next().unwrap_or_default(),
    }
}

fn cpu_times(_cx: &Exec, args: CpuTimes) -> Result<Value, Error> {
    let seconds = |ticks: [i64; 10]| {
        let seconds = ticks.map(|ticks| ticks as f64 / TICKS);
        TIMES.into_iter().zip(seconds).collect::<Map>()
    };
    Ok(each_or_all(args.per_cpu, ticks()?.into_iter().map(seconds)))
}

/// Returns the part of the time between two samples that was not idle, in percent with one decimal.
fn busy(before: &[i64; 10], after: &[i64; 10]) -> f64 {
    let mut spent = *after;
    for (spent, before) in spent.iter_mut().zip(before) {
        *spent = (*spent - before).max(0);
    }
    // The time of guests is already included in the time of users.
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = spent;
    let busy = user + nice + system + irq + softirq + steal;
    super::ps::percent(busy, busy + idle + iowait)
}

fn cpu_percent(_cx: &Exec, args: CpuPercent) -> Result<Value, Error> {
    let interval = Duration::try_from_secs_f64(args.interval)
        .map_err(|_| Error::refused(format!("interval is not positive (got {})", args.interval)))?;
    let before = ticks()?;
    std::thread::sleep(interval);
    let after = ticks()?;
    let told = before.iter().zip(&after).map(|(one, two)| busy(one, two));
    Ok(each_or_all(args.per_cpu, told))
}

/// Returns the numbers of a line by name. Sectors are converted to bytes (512 bytes each).
fn named(counts: &[i64], names: &[(&str, usize)]) -> Map {
    let value = |(name, place): &(&str, usize)| {
        let unit = if name.ends_with("_bytes") { 512 } else { 1 };
        let count = counts.get(*place).copied().unwrap_or(0);
        (Value::from(*name), Value::from(count.saturating_mul(unit)))
    };
    names.iter().map(value).collect()
}

/// The name of a device and its counters.
type Row<'a> = (&'a str, Vec<i64>);

/// Returns the row with the given name, or the sum of the rows that `counts` accepts.
fn one_or_sum(
    rows: Vec<Row<'_>>,
    wanted: Option<&str>,
    counts: impl Fn(&str) -> bool,
) -> Option<Vec<i64>> {
    if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
        let mut rows = rows.into_iter();
        return rows.find(|(name, _)| *name == wanted).map(|(_, row)| row);
    }
    let rows = rows.into_iter().filter(|(name, _)| counts(name));
    rows.map(|(_, row)| row).reduce(|mut sum, row| {
        for (sum, count) in sum.iter_mut().zip(row) {
            *sum += count;
        }
        sum
    })
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Vec<i64> {
    words.map_while(|word| word.parse().ok()).collect()
}

fn disk_io_counters(_cx: &Exec, args: DiskIoCounters) -> Result<Value, Error> {
    const NAMES: [(&str, usize); 9] = [
        ("read_count", 0),
        ("write_count", 4),
        ("read_bytes", 2),
        ("write_bytes", 6),
        ("read_time", 3),
        ("write_time", 7),
        ("read_merged_count", 1),
        ("write_merged_count", 5),
        ("busy_time", 9),
    ];
    let text = read("/proc/diskstats")?;
    let row = |line| {
        let mut words = str::split_whitespace(line).skip(2);
        Some((words.next()?, numbers(words)))
    };
    // The counters of a disk already include those of its partitions.
    let is_disk = |name: &str| {
        let name = name.replace('/', "!");
        python::path::exists(&format!("/sys/block/{name}"))
    };
    let rows = text.lines().filter_map(row).collect();
    match one_or_sum(rows, args.device.as_deref(), is_disk) {
        Some(counts) => Ok(named(&counts, &NAMES).into()),
        None if args.device.is_some() => Ok(false.into()),
        None => Err("This machine has no disk".into()),
    }
}

fn network_io_counters(_cx: &Exec, args: NetworkIoCounters) -> Result<Value, Error> {
    const NAMES: [(&str, usize); 8] = [
        ("bytes_sent", 8),
        ("bytes_recv", 0),
        ("packets_sent", 9),
        ("packets_recv", 1),
        ("errin", 2),
        ("errout", 10),
        ("dropin", 3),
        ("dropout", 11),
    ];
    let text = read("/proc/net/dev")?;
    let row = |line| {
        let (name, counts) = str::rsplit_once(line, ':')?;
        Some((name.trim(), numbers(counts.split_whitespace())))
    };
    let rows = text.lines().skip(2).filter_map(row).collect();
    match one_or_sum(rows, args.interface.as_deref(), |_| true) {
        Some(counts) => Ok(named(&counts, &NAMES).into()),
        None => Ok(false.into()),
    }
}

/// Returns the types of file systems that are on disks.
fn on_disks(filesystems: &str) -> Vec<&str> {
    let line = |line| match str::trim(line).strip_prefix("nodev") {
        Some(kind) => Some(kind.trim()).filter(|kind| *kind == "zfs"),
        None => Some(line.trim()),
    };
    filesystems.lines().filter_map(line).collect()
}

/// Returns the device of the root file system, which early mounts list without a usable name.
fn root_device() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let device = std::fs::metadata("/").ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let text = machine::procfs::text_or_none(format!("/sys/dev/block/{major}:{minor}/uevent"))?;
    let mut lines = text.lines();
    let name = lines.find_map(|line| line.strip_prefix("DEVNAME="))?;
    Some(format!("/dev/{name}"))
}

/// Returns the device, mount point, type and options of each mounted file system.
pub(super) fn mounts() -> Result<Vec<[String; 4]>, Error> {
    let codes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    let plain = |word: &str| {
        let word = word.to_owned();
        codes
            .iter()
            .fold(word, |word, (code, sign)| word.replace(code, sign))
    };
    let line = |line: &str| {
        let mut words = line.split(' ').map(plain);
        Some([words.next()?, words.next()?, words.next()?, words.next()?])
    };
    Ok(read("/proc/self/mounts")?
        .lines()
        .filter_map(line)
        .collect())
}

fn partitions(all: bool) -> Result<Vec<Map>, Error> {
    let filesystems = read("/proc/filesystems")?;
    let kinds = on_disks(&filesystems);
    let mut found = Vec::new();
    for [device, mountpoint, fstype, opts] in mounts()? {
        let device = match device.as_str() {
            "none" => String::new(),
            "/dev/root" | "rootfs" => root_device().unwrap_or(device),
            _ => device,
        };
        if all || (!device.is_empty() && kinds.contains(&fstype.as_str())) {
            found.push(
                Map::new()
                    .with("device", device)
                    .with("mountpoint", mountpoint)
                    .with("fstype", fstype)
                    .with("opts", opts),
            );
        }
    }
    Ok(found)
}

fn disk_partitions(_cx: &Exec, args: DiskPartitions) -> Result<Value, Error> {
    Ok(partitions(args.all)?.into())
}

fn disk_partition_usage(_cx: &Exec, args: DiskPartitionUsage) -> Result<Value, Error> {
    let mut found = partitions(args.all)?;
    for one in &mut found {
        let path = one.get("mountpoint").map(Value::to_text);
        one.update(disk_usage_of(&path.unwrap_or_default())?);
    }
    Ok(found.into())
}

/// True on processors on which glibc's utmp entry has wider times, which moves its fields.
const WIDE: bool = cfg!(any(
    target_arch = "aarch64",
    target_arch = "s390x",
    target_arch = "loongarch64"
));
const ENTRY: usize = if WIDE { 400 } else { 384 };
const STARTED: usize = if WIDE { 344 } else { 340 };

/// Returns the entry of a logged-in user, or `None` for other entries of utmp.
fn user(entry: &[u8]) -> Option<Map> {
    const USER_PROCESS: i16 = 7;
    let number = |at: usize| Some(i32::from_ne_bytes(entry.get(at..at + 4)?.try_into().ok()?));
    let text = |at: usize, length: usize| {
        let bytes = entry
            .get(at..at + length)?
            .split(|byte| *byte == 0)
            .next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let kind = i16::from_ne_bytes(entry.get(..2)?.try_into().ok()?);
    let host = match text(76, 256)?.as_str() {
        ":0" | ":0.0" => "localhost".to_owned(),
        host => host.to_owned(),
    };
    let user = Map::new()
        .with("name", text(44, 32)?)
        .with(
            "terminal",
            Some(text(8, 32)?).filter(|line| !line.is_empty()),
        )
        .with("host", host)
        .with("started", f64::from(number(STARTED)?))
        .with("pid", number(4)?);
    (kind == USER_PROCESS).then_some(user)
}

fn get_users(_cx: &Exec, _args: GetUsers) -> Result<Value, Error> {
    let path = "/var/run/utmp";
    // If the file does not exist, no users are reported.
    let data = machine::fs::read_or_none(path)?.unwrap_or_default();
    let users: Vec<Map> = data.chunks(ENTRY).filter_map(user).collect();
    Ok(users.into())
}

fn lsof(cx: &Exec, args: Lsof) -> Result<Value, Error> {
    if which("lsof").is_none() {
        return Err("The 'lsof' binary was not found in $PATH.".into());
    }
    let process = Process {
        stderr: Stderr::Merged,
        ..Process::words(["lsof", "-c", &args.name]).quiet()
    };
    let said = process.run(cx)?.into_stdout_regardless();
    Ok(Value::list([args.name.into(), said.into()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_comes_under_its_name() {
        let rows = vec![
            ("sda", vec![1, 2, 3]),
            ("sda1", vec![1, 1, 1]),
            ("sdb", vec![4, 5, 6]),
        ];
        let disks = |name: &str| name != "sda1";
        assert_eq!(one_or_sum(rows.clone(), None, disks).unwrap(), [5, 7, 9]);
        assert_eq!(
            one_or_sum(rows.clone(), Some("sda1"), disks).unwrap(),
            [1, 1, 1]
        );
        assert!(one_or_sum(rows, Some("sdc"), disks).is_none());
        let found = named(&[5, 7, 9], &[("read_count", 0), ("read_bytes", 2)]);
        let wanted = "{'read_count': 5, 'read_bytes': 4608}";
        assert_eq!(value::python::repr(&found.into()), wanted);
    }

    #[test]
    fn idle_time_is_not_busy() {
        let before = [0; 10];
        assert_eq!(busy(&before, &[10, 0, 20, 60, 10, 0, 0, 0, 10, 0]), 30.0);
        assert_eq!(busy(&before, &before), 0.0);
        assert!(ticks().unwrap().len() > 1);
    }

    #[test]
    fn file_systems_on_disks_are_told_from_others() {
        assert_eq!(
            on_disks("nodev\tproc\n\text4\nnodev\tzfs\n"),
            ["ext4", "zfs"]
        );
    }
}
