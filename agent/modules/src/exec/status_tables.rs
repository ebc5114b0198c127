//! The part of the `status` execution module that reports tables of the kernel.

use machine::process::{Process, which};
use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value, log};

use super::ps;

state::exec_module! {
    /// Report the counters of the kernel.
    mod status;

    /// Return the counters of the processors.
    ///
    ///     salt-call status.cpustats
    fn cpustats(Cpustats {});

    /// Return the entries of `/proc/cpuinfo` for the last processor.
    ///
    ///     salt-call status.cpuinfo
    fn cpuinfo(Cpuinfo {});

    /// Return the counters of the disks.
    ///
    ///     salt-call status.diskstats
    fn diskstats(Diskstats {});

    /// Return the usage of file systems, which are given as paths or as globs of types.
    ///
    ///     salt-call status.diskusage /srv
    fn diskusage(Diskusage {
        *rest,
    });

    /// Return the counters of virtual memory.
    ///
    ///     salt-call status.vmstats
    fn vmstats(Vmstats {});

    /// Return the counters of the network for each protocol.
    ///
    ///     salt-call status.netstats
    fn netstats(Netstats {});

    /// Return the counters of the network for each interface.
    ///
    ///     salt-call status.netdev
    fn netdev(Netdev {});

    /// Return the processes with their users.
    ///
    ///     salt-call status.procs
    fn procs(Procs {});

    /// Return the users who are logged in and their processes.
    ///
    ///     salt-call status.w
    fn w(W {});

    /// Return the parts of this module's results that the options `status.FUNCTION.custom` select.
    ///
    ///     salt-call status.custom
    fn custom(Custom {});

    /// Return the results of all functions of this module.
    ///
    ///     salt-call status.all_status
    fn all_status(AllStatus {});
}

fn read(path: &str) -> String {
    machine::procfs::text(path)
}

/// Returns a number, or the text if it is not a number.
fn number(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) => Value::Int(number),
        Err(_) => text
            .parse::<f64>()
            .map_or_else(|_| text.into(), Value::Float),
    }
}

/// Returns columns of a line by name.
fn named(words: &[&str], columns: &[(&str, usize)]) -> Map {
    let cell = |at: usize| words.get(at).map_or(Value::Null, |word| number(word));
    columns
        .iter()
        .map(|(name, at)| (Value::from(*name), cell(*at)))
        .collect()
}

fn cpustats(_cx: &Exec, _args: Cpustats) -> Result<Value, Error> {
    const CPU: [(&str, usize); 8] = [
        ("idle", 4),
        ("iowait", 5),
        ("irq", 6),
        ("nice", 2),
        ("softirq", 7),
        ("steal", 8),
        ("system", 3),
        ("user", 1),
    ];
    let mut found = Map::new();
    for line in read("/proc/stat").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, first, rest @ ..] = words.as_slice() else {
            continue;
        };
        let list = || Value::list(rest.iter().map(|word| number(word)));
        let value: Value = match *name {
            "cpu" => named(&words, &CPU).into(),
            "intr" => Map::new()
                .with("total", number(first))
                .with("irqs", list())
                .into(),
            "softirq" => Map::new()
                .with("total", number(first))
                .with("softirqs", list())
                .into(),
            _ => number(first),
        };
        found.insert(*name, value);
    }
    Ok(found.into())
}

fn cpuinfo(_cx: &Exec, _args: Cpuinfo) -> Result<Value, Error> {
    let mut found = Map::new();
    for (name, value) in read("/proc/cpuinfo")
        .lines()
        .filter_map(|line| line.split_once(':'))
    {
        let (name, value) = (name.trim(), value.trim());
        if name == "flags" {
            found.insert(name, Value::list(value.split_whitespace().map(Value::from)));
        } else {
            found.insert(name, value.split(':').next().unwrap_or_default().trim());
        }
    }
    Ok(found.into())
}

fn diskstats(_cx: &Exec, _args: Diskstats) -> Result<Value, Error> {
    const COLUMNS: [&str; 14] = [
        "major",
        "minor",
        "device",
        "reads_issued",
        "reads_merged",
        "sectors_read",
        "ms_spent_reading",
        "writes_completed",
        "writes_merged",
        "sectors_written",
        "ms_spent_writing",
        "io_in_progress",
        "ms_spent_in_io",
        "weighted_ms_spent_in_io",
    ];
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let entry: Map = COLUMNS
            .iter()
            .zip(&words)
            .map(|(name, word)| (Value::from(*name), number(word)))
            .collect();
        Some((Value::from(*words.get(2)?), Value::from(entry)))
    };
    Ok(read("/proc/diskstats")
        .lines()
        .filter_map(entry)
        .collect::<Map>()
        .into())
}

fn diskusage(_cx: &Exec, args: Diskusage) -> Result<Value, Error> {
    let asked: Vec<String> = args.rest.iter().map(Value::to_text).collect();
    let (mut paths, mut types): (Vec<String>, Vec<String>) =
        asked.into_iter().partition(|word| word.starts_with('/'));
    if paths.is_empty() && types.is_empty() {
        types.push("*".into());
    }
    for line in read("/proc/mounts").lines() {
        let mut words = line.split(' ').skip(1);
        if let (Some(place), Some(kind)) = (words.next(), words.next())
            && types.iter().any(|glob| fnmatch(glob, kind))
            && !paths.iter().any(|path| path == place)
        {
            paths.push(place.to_owned());
        }
    }
    Ok(paths
        .into_iter()
        .filter(|path| std::path::Path::new(path).exists())
        .map(|path| usage(&path))
        .collect::<Map>()
        .into())
}

fn usage(path: &str) -> (Value, Value) {
    let (available, total) = match rustix::fs::statvfs(path) {
        Ok(found) => (
            bytes(found.f_bavail, found.f_bsize),
            bytes(found.f_blocks, found.f_bsize),
        ),
        Err(error) => {
            log::warning(format_args!("Cannot get stats from '{path}': {error}"));
            (Value::Null, Value::Null)
        }
    };
    (
        path.into(),
        Map::new()
            .with("available", available)
            .with("total", total)
            .into(),
    )
}

fn bytes(blocks: u64, size: u64) -> Value {
    i64::try_from(blocks.saturating_mul(size)).map_or(Value::Null, Value::Int)
}

fn vmstats(_cx: &Exec, _args: Vmstats) -> Result<Value, Error> {
    let text = read("/proc/vmstat");
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs
        .map(|(name, value)| (Value::from(name), number(value.trim())))
        .collect::<Map>()
        .into())
}

fn netstats(_cx: &Exec, _args: Netstats) -> Result<Value, Error> {
    Ok(protocols(&read("/proc/net/netstat")).into())
}

/// Parses two lines for each protocol: the names, followed by the numbers.
fn protocols(text: &str) -> Map {
    let lines: Vec<&str> = text.lines().collect();
    let protocol = |pair: &[&str]| {
        let [names, numbers] = pair else {
            return None;
        };
        let (name, names) = names.split_once(':')?;
        let (_, numbers) = numbers.split_once(':')?;
        let pairs = names.split_whitespace().zip(numbers.split_whitespace());
        let entry: Map = pairs
            .map(|(name, value)| (Value::from(name), number(value)))
            .collect();
        Some((Value::from(name), Value::from(entry)))
    };
    lines.chunks(2).filter_map(protocol).collect()
}

fn netdev(_cx: &Exec, _args: Netdev) -> Result<Value, Error> {
    const COLUMNS: [(&str, usize); 16] = [
        ("rx_bytes", 0),
        ("rx_compressed", 6),
        ("rx_drop", 3),
        ("rx_errs", 2),
        ("rx_fifo", 4),
        ("rx_frame", 5),
        ("rx_multicast", 7),
        ("rx_packets", 1),
        ("tx_bytes", 8),
        ("tx_carrier", 14),
        ("tx_colls", 13),
        ("tx_compressed", 15),
        ("tx_drop", 11),
        ("tx_errs", 10),
        ("tx_fifo", 12),
        ("tx_packets", 9),
    ];
    let entry = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let words: Vec<&str> = numbers.split_whitespace().collect();
        let mut entry = Map::new().with("iface", name.trim());
        entry.extend(named(&words, &COLUMNS));
        Some((Value::from(name.trim()), Value::from(entry)))
    };
    Ok(read("/proc/net/dev")
        .lines()
        .filter_map(entry)
        .collect::<Map>()
        .into())
}

fn procs(_cx: &Exec, _args: Procs) -> Result<Value, Error> {
    let entry = |process: &ps::Running| {
        let entry = Map::new()
            .with("user", process.user.as_str())
            .with("cmd", process.command_line());
        (Value::from(process.pid.to_string()), Value::from(entry))
    };
    Ok(ps::all().iter().map(entry).collect::<Map>().into())
}

fn w(cx: &Exec, _args: W) -> Result<Value, Error> {
    if which("w").is_none() {
        return Err("The program w is not installed".into());
    }
    let done = Process::words(["w", "-fh"]).quiet().run(cx)?;
    let entry = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (columns, what) = words.split_at_checked(6)?;
        let mut entry: Map = ["user", "tty", "login", "idle", "jcpu", "pcpu"]
            .into_iter()
            .zip(columns.iter().copied())
            .collect();
        entry.insert("what", what.join(" "));
        entry.sort_keys();
        Some(Value::from(entry))
    };
    Ok(Value::list(
        done.stdout_regardless().lines().filter_map(entry),
    ))
}

/// Returns the values that a function returns under the given names. Logs a warning for each
/// missing name.
fn picked(cx: &Exec, function: &str, names: &Value) -> Result<Map, Error> {
    if !cx.has_function(function) {
        log::warning(format_args!("custom status {function} isn't loaded"));
        return Ok(Map::new());
    }
    let found = cx.call_internal(function, Vec::new(), Map::new())?;
    let names = names.as_list().unwrap_or_default().iter();
    let value = |name: &Value| {
        let value = found.as_map().and_then(|found| found.get_value(name));
        value.cloned().unwrap_or_else(|| {
            let name = name.to_text();
            log::warning(format_args!("val {name} not in return of {function}"));
            "UNKNOWN".into()
        })
    };
    Ok(names.map(|name| (name.clone(), value(name))).collect())
}

fn custom(cx: &Exec, _args: Custom) -> Result<Value, Error> {
    let mut found = Map::new();
    let options = cx.call_internal("config.dot_vals", vec!["status".into()], Map::new())?;
    for (key, names) in options.as_map().into_iter().flatten() {
        let key = key.to_text();
        let function = key.rsplit_once('.').map_or("", |(function, _)| function);
        if function != "status.custom" {
            found.update(picked(cx, function, names)?);
        }
    }
    Ok(found.into())
}

fn all_status(cx: &Exec, _args: AllStatus) -> Result<Value, Error> {
    const ALL: [&str; 11] = [
        "cpuinfo",
        "cpustats",
        "diskstats",
        "diskusage",
        "loadavg",
        "meminfo",
        "netdev",
        "netstats",
        "uptime",
        "vmstats",
        "w",
    ];
    let mut found = Map::new();
    for name in ALL {
        found.insert(
            name,
            cx.call_internal(&format!("status.{name}"), Vec::new(), Map::new())?,
        );
    }
    Ok(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let found = protocols("TcpExt: a b\nTcpExt: 1 2\nIpExt: c\nIpExt: -3\n");
        assert_eq!(
            value::python::repr(&found.into()),
            "{'TcpExt': {'a': 1, 'b': 2}, 'IpExt': {'c': -3}}"
        );
        let cx = crate::testing::exec();
        for name in ["cpustats", "vmstats", "netdev", "procs"] {
            let found = cx
                .call(&format!("status.{name}"), Vec::new(), Map::new())
                .unwrap();
            assert!(found.is_true(), "{name}");
        }
        let found = cx
            .call("status.diskusage", vec!["/".into()], Map::new())
            .unwrap();
        assert!(
            found
                .get("/")
                .and_then(|usage| usage.get("total"))
                .is_some_and(Value::is_true)
        );
    }
}
