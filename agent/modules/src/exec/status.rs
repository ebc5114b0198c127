//! The `status` execution module: the general state of the machine.

use std::path::Path;

use machine::accounts::users;
use machine::process::{Process, which};
use state::exec::Exec;
use state::module::Error;
use value::pyre::{Flags, Regex};
use value::sorted::sort;
use value::{Map, Value};

state::exec_module! {
    /// Report the general state of this machine.
    mod status;

    /// Return the formatted local time.
    ///
    ///     salt-call status.time
    fn time(Time {
        /// The format of strftime.
        format: String = "%A, %d. %B %Y %I:%M%p".into(),
    });

    /// Return the uptime of the machine.
    ///
    ///     salt-call status.uptime
    fn uptime(Uptime {});

    /// Return the load averages over 1, 5 and 15 minutes.
    ///
    ///     salt-call status.loadavg
    fn loadavg(Loadavg {});

    /// Return the contents of `/proc/meminfo`.
    ///
    ///     salt-call status.meminfo
    fn meminfo(Meminfo {});

    /// Return the IDs of the processes whose line in the output of `ps` matches a pattern, one on
    /// each line.
    ///
    ///     salt-call status.pid nginx
    fn pid(Pid {
        /// The regular expression to match.
        sig: String,
    });

    /// Return the number of processors.
    ///
    ///     salt-call status.nproc
    fn nproc(Nproc {});

    /// Return the version of the kernel.
    ///
    ///     salt-call status.version
    fn version(Version {});
}

fn read(path: &str) -> Result<String, Error> {
    machine::fs::text(path).map_err(|_| Error::refused(format!("File {path} was not found.")))
}

fn time(_cx: &Exec, args: Time) -> Result<Value, Error> {
    jiff::fmt::strtime::BrokenDownTime::from(&jiff::Zoned::now())
        .to_string(&args.format)
        .map(Value::from)
        .map_err(|error| Error::refused(error.to_string()))
}

fn uptime(cx: &Exec, _args: Uptime) -> Result<Value, Error> {
    let text = read("/proc/uptime")?;
    let seconds = text
        .split(['.', ' '])
        .next()
        .and_then(|text| text.parse::<i64>().ok());
    let seconds = seconds.ok_or("no number found in /proc/uptime")?;
    let now = value::clock::since_epoch();
    let since = i64::try_from(now.as_secs()).unwrap_or(0) - seconds;
    let of_day = seconds % 86_400;
    let mut answer = Map::new()
        .with("seconds", seconds)
        .with(
            "since_iso",
            format!("{}.{:06}", iso(since), now.subsec_micros()),
        )
        .with("since_t", since)
        .with("days", seconds / 86_400)
        .with("time", format!("{}:{}", of_day / 3600, of_day % 3600 / 60));
    if which("who").is_some() {
        let who = Process::words(["who", "-s"]).quiet().run(cx)?;
        answer.insert("users", who.stdout_regardless().split('\n').count());
    }
    Ok(answer.into())
}

/// Returns a time in UTC. The calculation counts the days of a year from March, so that a leap day
/// is the last day of its year.
fn iso(seconds: i64) -> String {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day % 3600 / 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

fn loadavg(_cx: &Exec, _args: Loadavg) -> Result<Value, Error> {
    let text = read("/proc/loadavg")?;
    let loads = text
        .split_whitespace()
        .filter_map(|text| text.parse::<f64>().ok());
    Ok(["1-min", "5-min", "15-min"]
        .into_iter()
        .zip(loads)
        .collect())
}

fn meminfo(_cx: &Exec, _args: Meminfo) -> Result<Value, Error> {
    let text = machine::procfs::text("/proc/meminfo");
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.replace(':', "");
        let mut entry = Map::new().with("value", words.next()?);
        if let Some(unit) = words.next() {
            entry.insert("unit", unit);
        }
        Some((name, entry))
    };
    Ok(text.lines().filter_map(entry).collect())
}

fn pid(_cx: &Exec, args: Pid) -> Result<Value, Error> {
    pids(&args.sig).map(Value::from)
}

/// Returns the IDs of the processes whose line matches a pattern, except this process.
pub(crate) fn pids(pattern: &str) -> Result<String, Error> {
    let pattern = Regex::new(pattern, Flags::default())?;
    let mut found = Vec::new();
    for entry in machine::procfs::list("/proc") {
        let number = entry.file_name().to_string_lossy().parse::<u32>();
        let Ok(number) = number else {
            continue;
        };
        let line = ps_line(&entry.path(), number);
        if number != std::process::id() && pattern.is_match(&line)? {
            found.push(number);
        }
    }
    sort(&mut found);
    let found: Vec<String> = found.iter().map(u32::to_string).collect();
    Ok(found.join("\n"))
}

/// Returns the line of a process in the form of `ps -ef`: user, ID, ID of the parent, and command
/// line, or the name of a kernel process.
fn ps_line(folder: &Path, number: u32) -> String {
    let status = machine::procfs::text(folder.join("status"));
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let word = line.and_then(|line| line.split_whitespace().next());
        word.unwrap_or_default().to_owned()
    };
    let uid = field("Uid:").parse().unwrap_or(u32::MAX);
    let words = machine::procfs::bytes(folder.join("cmdline"));
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    let words = match words.trim_end() {
        "" => format!("[{}]", field("Name:")),
        words => words.to_owned(),
    };
    let user = users::of_uid(uid).to_text();
    format!("{user} {number} {} {words}", field("PPid:"))
}

fn nproc(_cx: &Exec, _args: Nproc) -> Result<Value, Error> {
    Ok(std::thread::available_parallelism()
        .map_or(0, usize::from)
        .into())
}

fn version(_cx: &Exec, _args: Version) -> Result<Value, Error> {
    Ok(read("/proc/version")?.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::exec;

    #[test]
    fn moments_are_dated() {
        assert_eq!(iso(0), "1970-01-01T00:00:00");
        assert_eq!(iso(1_795_176_364), "2026-11-20T12:06:04");
        assert_eq!(iso(951_827_696), "2000-02-29T12:34:56");
        assert_eq!(iso(-1), "1969-12-31T23:59:59");
    }

    #[test]
    fn the_machine_says_how_it_does() {
        let call = |function: &str, args: &[&str]| {
            let args = args.iter().map(|arg| Value::from(*arg)).collect();
            exec()
                .call(&format!("status.{function}"), args, Map::new())
                .unwrap()
        };
        assert_eq!(call("time", &["%Y"]).to_text().len(), 4);
        assert_eq!(
            call("meminfo", &[]).traverse("MemTotal:unit", ":"),
            Some(&"kB".into())
        );
        assert_eq!(call("loadavg", &[]).as_map().unwrap().len(), 3);
        assert!(call("uptime", &[]).get("seconds").is_some());
        assert_eq!(call("pid", &["no such pro[c]ess"]), "".into());
        assert!(call("pid", &["^root 1 0 "]).to_text().starts_with('1'));
    }
}
