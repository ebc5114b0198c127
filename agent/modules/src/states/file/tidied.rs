//! `file.pruned`, `file.tidied`, `file.retention_schedule`: states that remove old files and
//! folders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use machine::fs;
use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::{absolute, gate};
use crate::exec::file::{links, stat};
use value::pyre::{Anchor, Flags, Regex, Subject};

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Trees(&["name"]))]
    mod file;

    /// Remove an empty folder, with `recurse` also the empty folders below it.
    ///
    ///     /var/cache/app:
    ///       file.pruned:
    ///         - recurse: True
    fn pruned(Pruned {
        /// The folder.
        name: String,
        /// True to include the folders below.
        recurse: bool = false,
        /// True to succeed even if a folder is not empty.
        ignore_errors: bool = false,
        /// The minimum number of days since the last change of a folder.
        older_than: Value = Value::Null,
    });

    /// Remove files below a folder by their age, size and name.
    ///
    ///     /var/log/app:
    ///       file.tidied:
    ///         - matches: ['.*\.log']
    ///         - age: 30
    fn tidied(Tidied {
        /// The folder.
        name: String,
        /// The minimum age in days.
        age: i64 = 0,
        /// Regular expressions. At least one of them must match the name.
        matches: Option<Vec<String>> = None,
        /// True to remove folders too.
        rmdirs: bool = false,
        /// The minimum size in bytes, or with a unit such as `10M`.
        size: Value = 0.into(),
        /// Regular expressions. None of them may match the name.
        exclude: Option<Vec<String>> = None,
        /// True to match the whole path instead of the name.
        full_path_match: bool = false,
        /// True to follow links to folders.
        followlinks: bool = false,
        /// The time to use: `atime`, `mtime` or `ctime`.
        time_comparison: Value = "atime".into(),
        /// Whether both the age and the size must fit (`AND`) or one of them (`OR`).
        age_size_logical_operator: String = "OR".into(),
        /// The only criterion to use: `age` or `size`.
        age_size_only: Option<String> = None,
        /// True to remove links too.
        rmlinks: bool = true,
        ..kwargs
    });

    /// Keep some backups of each age in a folder, and remove the others.
    ///
    ///     /srv/backups:
    ///       file.retention_schedule:
    ///         - retain:
    ///             most_recent: 7
    ///             first_of_week: 4
    ///         - strptime_format: backup-%Y-%m-%d.tar.gz
    fn retention_schedule(RetentionSchedule {
        /// The folder.
        name: String,
        /// The number of backups to keep for each rule: `most_recent`, `first_of_hour`,
        /// `first_of_day`, `first_of_week`, `first_of_month`, `first_of_year`.
        retain: Map,
        /// The format of the time in the file names. Default: the time of the last change is used.
        strptime_format: Option<String> = None,
        /// The time zone for the times of the last change.
        timezone: Option<String> = None,
    });
}

fn pruned(cx: &Exec, args: Pruned) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    let recurse = args.recurse || args.ignore_errors;
    if !path::isdir(&name) {
        return Ok(named(
            &name,
            Ret::ok(format!("Directory {name} is not present")),
        ));
    }
    let would = Ret::would(format!("Directory {name} is set for removal"));
    let ret = cx.apply(would.change("deleted", name.as_str()), || {
        let done = links::prune(cx, &name, recurse, &args.older_than)?;
        let mut deleted = done.deleted.clone();
        deleted.sort();
        let below = Ret::ok(format!(
            "Recursively removed empty directories under {name}"
        ));
        let excused = args.ignore_errors && !deleted.is_empty();
        if !done.result && !excused {
            let text = format!("Failed to remove directory {name}");
            return Ok(Ret::failed(text).changes(done.to_map()));
        }
        Ok(if !done.result || (recurse && !deleted.is_empty()) {
            below.change("deleted", deleted)
        } else if recurse {
            Ret::ok("")
        } else {
            Ret::ok(format!("Removed directory {name}")).change("deleted", name.as_str())
        })
    })?;
    Ok(named(&name, ret))
}

fn named(name: &str, ret: Ret) -> Ret {
    Ret {
        name: Some(name.to_owned()),
        ..ret
    }
}

/// Returns the number of bytes for a text such as `10M` or `1.5 GiB`. The unit `MB` counts by
/// thousands.
fn bytes(size: &Value) -> i64 {
    if let Some(number) = size.as_int() {
        return number;
    }
    let text = size.to_text();
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let Ok(number) = number.parse::<f64>() else {
        return 0;
    };
    let mut letters = unit.chars();
    let power = match letters.next() {
        None => 0,
        Some(letter) => match "bkmgtpezy".find(letter) {
            Some(power) => power,
            None => return 0,
        },
    };
    let base: f64 = match letters.as_str() {
        "" | "ib" => 1024.0,
        "b" if power > 0 => 1000.0,
        _ => return 0,
    };
    (number * base.powi(i32::try_from(power).unwrap_or_default())) as i64
}

/// The criteria of `file.tidied`.
struct Search {
    matches: Vec<Regex>,
    exclude: Vec<Regex>,
    size: i64,
    today: jiff::civil::Date,
    /// The index of the time to use among the three times of a file.
    time: usize,
}

fn compiled(patterns: &[String]) -> Result<Vec<Regex>, Error> {
    patterns
        .iter()
        .map(|pattern| {
            Regex::compiled(pattern, Flags::NONE, Subject::Text, Anchor::Start)
                .map_err(|error| Error::refused(error.to_string()))
        })
        .collect()
}

impl Search {
    fn new(args: &Tidied) -> Result<Self, Error> {
        let every = [".*".to_owned()];
        let time = args.time_comparison.to_text().to_ascii_lowercase();
        Ok(Self {
            matches: compiled(args.matches.as_deref().unwrap_or(&every))?,
            exclude: compiled(args.exclude.as_deref().unwrap_or_default())?,
            size: bytes(&args.size),
            today: jiff::Zoned::now().date(),
            time: match time.as_str() {
                "mtime" => 1,
                "ctime" => 2,
                _ => 0,
            },
        })
    }

    fn named(&self, name: &str) -> bool {
        let any = |list: &[Regex]| {
            list.iter()
                .any(|regex| regex.is_match(name).unwrap_or(false))
        };
        any(&self.matches) && !any(&self.exclude)
    }

    fn takes(&self, args: &Tidied, path: &str) -> bool {
        let link = path::islink(path);
        let Ok(found) = stat::read(path, !link) else {
            return false;
        };
        if (link && !args.rmlinks) || (found.kind == "dir" && !args.rmdirs) {
            return false;
        }
        let counts = !link && found.kind != "dir";
        let size = if counts { found.size } else { 0 };
        let large = i64::try_from(size).unwrap_or(i64::MAX) >= self.size;
        let time = found.times.get(self.time).copied().unwrap_or_default();
        let old = self.age(time) >= args.age;
        let fits = match args
            .age_size_only
            .as_deref()
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
            Some("age") => old,
            Some("size") => large,
            _ if args.age_size_logical_operator.eq_ignore_ascii_case("and") => large && old,
            _ => large || old,
        };
        let name = if args.full_path_match {
            path
        } else {
            path::basename(path)
        };
        fits && self.named(name)
    }

    /// Returns the number of whole days between a time and today. It is never negative.
    fn age(&self, time: f64) -> i64 {
        let day = local(time).map(|time| time.date());
        day.map_or(0, |day| (self.today - day).get_days().abs().into())
    }
}

fn local(time: f64) -> Option<DateTime> {
    zoned(time, &TimeZone::system())
}

fn zoned(time: f64, zone: &TimeZone) -> Option<DateTime> {
    let stamp = jiff::Timestamp::from_microsecond((time * 1e6) as i64).ok()?;
    Some(stamp.to_zoned(zone.clone()).datetime())
}

/// Collects every path below a folder. The contents of a folder come before the folder.
fn bottom_up(top: &str, follow: bool, depth: usize, out: &mut Vec<String>) -> Result<(), Error> {
    let Some(here) = fs::here(top)? else {
        return Ok(());
    };
    for name in &here.dirs {
        let path = path::join(top, name);
        if depth > 0 && (follow || !path::islink(&path)) {
            bottom_up(&path, follow, depth - 1, out)?;
        }
    }
    out.extend(
        here.files
            .iter()
            .chain(&here.dirs)
            .map(|name| path::join(top, name)),
    );
    Ok(())
}

fn tidied(cx: &Exec, args: Tidied) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    absolute(cx, &name)?;
    if !path::isdir(&name) {
        return Err(format!("{name} does not exist or is not a directory.").into());
    }
    let search = Search::new(&args)?;
    let mut paths = Vec::new();
    bottom_up(&name, args.followlinks, 64, &mut paths)?;
    paths.retain(|path| search.takes(&args, path));
    if paths.is_empty() {
        let text = format!("Nothing to remove from directory {name}");
        return Ok(named(&name, Ret::ok(text)));
    }
    let would = Ret::would(format!("{name} is set for tidy")).change("removed", paths.clone());
    let ret = gate(cx, || Ok(would), || take_away(cx, &name, &paths))?;
    Ok(named(&name, ret))
}

fn take_away(cx: &Exec, name: &str, paths: &[String]) -> Result<Ret, Error> {
    let mut removed: Vec<&str> = Vec::new();
    for path in paths {
        if path::lexists(path)
            && let Err(error) = fs::remove(cx, Path::new(path))
        {
            let text = format!("Could not remove '{path}': {error}");
            return Ok(Ret::failed(text).change("removed", removed));
        }
        removed.push(path);
    }
    let text = format!(
        "Removed {} files or directories from directory {name}",
        paths.len()
    );
    Ok(Ret::ok(text).change("removed", removed))
}

/// The files of a folder by their time, for the retention rules.
#[derive(Default)]
struct Schedule {
    /// The files by year, month, day, hour and microsecond.
    by_day: BTreeMap<[i64; 5], String>,
    /// The files by year, week, day of the week and microsecond.
    by_week: BTreeMap<[i64; 5], String>,
    relevant: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

impl Schedule {
    fn add(&mut self, name: String, time: Option<(DateTime, i64)>) {
        let Some((at, epoch)) = time else {
            self.ignored.insert(name);
            return;
        };
        let year = i64::from(at.year());
        let week = at.date().iso_week_date();
        let day = i64::from(week.weekday().to_monday_zero_offset());
        let [month, of_month, hour] = [at.month(), at.day(), at.hour()].map(i64::from);
        self.by_day
            .insert([year, month, of_month, hour, epoch], name.clone());
        self.by_week
            .insert([year, i64::from(week.week()), day, epoch, 0], name.clone());
        self.relevant.insert(name);
    }

    /// Returns the files that one rule keeps: the earliest file of each of the latest `count`
    /// groups.
    fn kept(&self, rule: &str, count: usize) -> Result<Vec<String>, Error> {
        let (files, depth, count) = match rule {
            "first_of_year" => (&self.by_day, 1, count),
            "first_of_month" => (&self.by_day, 2, count),
            "first_of_day" => (&self.by_day, 3, count),
            "first_of_hour" => (&self.by_day, 4, count),
            "most_recent" => (&self.by_day, 5, count),
            // As in Salt, one more is kept: the week in which the year changes may count twice.
            "first_of_week" => (&self.by_week, 2, count.saturating_add(1)),
            other => {
                return Err(format!(
                    "Unknown rule '{other}' in retain: use most_recent, first_of_hour, first_of_day, first_of_week, \
                     first_of_month or first_of_year"
                )
                .into());
            }
        };
        let mut groups: BTreeMap<Vec<i64>, &String> = BTreeMap::new();
        for (time, name) in files {
            let group = time.iter().take(depth).copied().collect();
            groups.entry(group).or_insert(name);
        }
        Ok(groups.into_values().rev().take(count).cloned().collect())
    }
}

fn retention_schedule(cx: &Exec, args: RetentionSchedule) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.retention_schedule".into());
    }
    if !path::isdir(&name) {
        return Err("Name provided to file.retention must be a directory".into());
    }
    let zone = match &args.timezone {
        Some(zone) => TimeZone::get(zone).map_err(|error| Error::refused(error.to_string()))?,
        None => TimeZone::system(),
    };
    let mut schedule = Schedule::default();
    let here = fs::here(&name)?.unwrap_or_default();
    let dots = [".", ".."].map(str::to_owned);
    for file in dots.into_iter().chain(here.dirs).chain(here.files) {
        let time = match &args.strptime_format {
            Some(format) => named_time(format, &file),
            None => changed_time(&name, &file, &zone),
        };
        schedule.add(file, time);
    }
    let mut retained = BTreeSet::new();
    for (rule, count) in args.retain.iter() {
        let count = match count.as_str() {
            Some("all") => usize::MAX,
            _ => count.to_text().parse().map_err(|_| {
                Error::refused(format!(
                    "retain: expected a number or all, got {}",
                    count.to_text()
                ))
            })?,
        };
        retained.extend(schedule.kept(&rule.to_text(), count)?);
    }
    let ret = swept(cx, &name, &schedule, &retained)?;
    Ok(named(&name, ret))
}

fn swept(
    cx: &Exec,
    name: &str,
    schedule: &Schedule,
    retained: &BTreeSet<String>,
) -> Result<Ret, Error> {
    let reversed = |names: &BTreeSet<String>| -> Value {
        names.iter().rev().cloned().collect::<Vec<String>>().into()
    };
    let deletable: BTreeSet<String> = schedule.relevant.difference(retained).cloned().collect();
    let count = deletable.len();
    if deletable.is_empty() {
        let verb = if cx.test { "would have been" } else { "were" };
        return Ok(Ret::ok(format!(
            "{count} backups {verb} removed from {name}.\n"
        )));
    }
    let changes = Map::new()
        .with("retained", reversed(retained))
        .with("deleted", reversed(&deletable))
        .with("ignored", reversed(&schedule.ignored));
    let would = Ret::would(format!(
        "{count} backups would have been removed from {name}.\n"
    ));
    cx.apply(would.changes(changes.clone()), || {
        for file in &deletable {
            let path = path::join(name, file);
            fs::remove(cx, Path::new(&path)).map_err(Error::io(&path))?;
        }
        Ok(Ret::ok(format!("{count} backups were removed from {name}.\n")).changes(changes))
    })
}

/// Returns the time in a file's name, and the same time in microseconds since 1970, as if it were
/// UTC.
fn named_time(format: &str, name: &str) -> Option<(DateTime, i64)> {
    let parsed = jiff::fmt::strtime::parse(format, name).ok()?;
    let at = parsed.to_datetime().ok().or_else(|| {
        let date = parsed.to_date().ok()?;
        Some(date.at(0, 0, 0, 0))
    })?;
    let epoch = at.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some((at, epoch.as_microsecond()))
}

fn changed_time(folder: &str, name: &str, zone: &TimeZone) -> Option<(DateTime, i64)> {
    if matches!(name, "." | "..") {
        return None;
    }
    let [_, changed, _] = stat::read(&path::join(folder, name), false).ok()?.times;
    Some((zoned(changed, zone)?, (changed * 1e6) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(bytes(&"10M".into()), 10 << 20);
        assert_eq!(bytes(&"10MB".into()), 10_000_000);
        assert_eq!(bytes(&"1.5KiB".into()), 1536);
        assert_eq!(bytes(&"5".into()), 5);
        assert_eq!(bytes(&"5x".into()), 0);
    }

    #[test]
    fn a_rule_keeps_the_first_of_the_latest_groups() -> Result<(), Error> {
        let mut schedule = Schedule::default();
        for day in ["2024-01-01", "2024-01-20", "2024-02-03", "2024-02-28"] {
            schedule.add(day.into(), named_time("%Y-%m-%d", day));
        }
        assert_eq!(schedule.kept("first_of_month", 1)?, ["2024-02-03"]);
        assert_eq!(
            schedule.kept("most_recent", 2)?,
            ["2024-02-28", "2024-02-03"]
        );
        assert!(schedule.kept("bogus", 1).is_err());
        Ok(())
    }
}
