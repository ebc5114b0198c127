//! The `disk` execution module: health, parameters and statistics of disks.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, python};

state::exec_module! {
    /// Manage file systems and block devices.
    mod disk;

    /// Set parameters of a device: `read-ahead`, `filesystem-read-ahead`, `read-only: True` or
    /// `read-write: True`.
    ///
    ///     salt-call disk.tune /dev/vdb1 read-ahead=1024
    fn tune(Tune {
        /// The path of the device.
        device: String,
        ..kwargs
    });

    /// Return the parameters of disks that hdparm reports.
    ///
    ///     salt-call disk.hdparms /dev/sda
    fn hdparms(Hdparms {
        /// The paths or names of the disks.
        disks: Vec<String>,
        /// The option letters of hdparm, which select the parameters.
        args: Value = "aAbBcCdgHiJkMmNnQrRuW".into(),
    });

    /// Return how many sectors of disks are hidden from the system (host protected area). With
    /// `size`, hide sectors.
    ///
    ///     salt-call disk.hpa /dev/sda
    fn hpa(Hpa {
        /// The paths or names of the disks.
        disks: Vec<String>,
        /// The size of the hidden area: a number of sectors or a percentage such as `10%`.
        size: Option<String> = None,
    });

    /// Return the SMART attributes of a disk, with which it records its health.
    ///
    ///     salt-call disk.smart_attributes /dev/sda
    fn smart_attributes(SmartAttributes {
        /// The path or name of the disk.
        dev: String,
        /// The numbers of the attributes to return. The default is all attributes.
        attributes: Option<Vec<i64>> = None,
        /// The columns to return. The default is all columns.
        values: Option<Vec<String>> = None,
    });

    /// Return the average usage statistics of disks over a period.
    ///
    ///     salt-call disk.iostat interval=1 count=2
    fn iostat(Iostat {
        /// The interval between two measurements, in seconds.
        interval: i64 = 1,
        /// The number of measurements.
        count: i64 = 5,
        /// The disks to measure. The default is all disks.
        disks: Option<Vec<String>> = None,
    });
}

/// The settings of `disk.tune`: name, option of `blockdev` that reads it, and option that sets it.
const TUNED: [(&str, &str, &str); 4] = [
    ("read-ahead", "getra", "--setra"),
    ("filesystem-read-ahead", "getfra", "--setfra"),
    ("read-only", "getro", "--setro"),
    ("read-write", "getro", "--setrw"),
];

fn plain(device: &str) -> Result<&str, Error> {
    match device.starts_with('-') {
        true => Err(format!("'{device}' is not a device").into()),
        false => Ok(device),
    }
}

fn output(cx: &Exec, words: &[&str]) -> Result<String, Error> {
    let done = Process::words(words.iter().copied()).quiet().run(cx)?;
    done.into_success().map_err(|failed| failed.stderr.into())
}

fn tune(cx: &Exec, args: Tune) -> Result<Value, Error> {
    let (mut words, mut questions) = (vec!["blockdev".to_owned()], Vec::new());
    let mut invalid = Vec::new();
    for (key, value) in &args.kwargs {
        let (key, text) = (key.to_text(), python::str(value));
        let known = TUNED.iter().find(|(name, ..)| *name == key);
        let is_switch = key.starts_with("read-") && key != "read-ahead";
        match known {
            Some(_) if is_switch && text != "True" => invalid.push(format!("{key}={text}")),
            Some((_, question, option)) => {
                questions.push(Value::from(*question));
                words.push((*option).to_owned());
                words.extend(Some(text).filter(|_| !is_switch));
            }
            None if !key.starts_with("__") => invalid.push(format!("{key}={text}")),
            None => {}
        }
    }
    if !invalid.is_empty() {
        return Err(format!("Invalid keyword arguments: {}", invalid.join(", ")).into());
    }
    words.push(plain(&args.device)?.to_owned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    output(cx, &words)?;
    cx.call_internal(
        "disk.dump",
        vec![args.device.into(), questions.into()],
        Map::new(),
    )
}

/// Returns the parameters of a disk that hdparm reports.
fn hdparm_parameters(cx: &Exec, letters: &str, disk: &str) -> Result<Map, Error> {
    let option = format!("-{letters}");
    let words = ["hdparm", option.as_str(), plain(disk)?];
    let done = Process::words(words).quiet().run(cx)?;
    if !done.success() {
        log::warning(format_args!("hdparm {option} {disk}: {}", done.stderr));
    }
    let pair = |line: &str| {
        let (key, values) = line.split_once(':').or_else(|| line.split_once('='))?;
        let key = key
            .trim_end_matches(" is")
            .trim()
            .to_lowercase()
            .replace(' ', "_");
        Some((Value::from(key), of_hdparm(values.trim())?))
    };
    let title = format!("{disk}:");
    let lines = done
        .stdout_regardless()
        .lines()
        .map(str::trim)
        .filter(|line| *line != title);
    Ok(lines.filter_map(pair).collect())
}

fn number_or_text(text: &str) -> Value {
    text.parse::<i64>()
        .map_or_else(|_| text.into(), Value::from)
}

/// Parses values such as `1024/16`, `256 (on)` or `a=1, b=2`. Returns `None` if there is no value.
fn of_hdparm(values: &str) -> Option<Value> {
    let pair = values.split_once(' ');
    let pair = pair.filter(|(_, word)| word.starts_with('(') && word.ends_with(')'));
    let pair = pair.and_then(|(number, word)| Some((number.parse::<i64>().ok()?, word)));
    if let Some((number, word)) = pair {
        let word = word.split(' ').next().unwrap_or_default();
        let word = word.trim_matches(['(', ')']);
        return Some(Value::list([number.into(), word.into()]));
    }
    let (mut all, mut named) = (Vec::new(), Map::new());
    for part in values.split(['/', ',']).map(str::trim) {
        match part.split_once('=') {
            Some((key, value)) if !value.trim().is_empty() => {
                named.insert(key.trim(), value.trim());
            }
            None if !part.is_empty() => all.push(number_or_text(part)),
            _ => {}
        }
    }
    all.extend(Some(Value::from(named)).filter(Value::is_true));
    match all.len() {
        0 | 1 => all.pop(),
        _ => Some(all.into()),
    }
}

fn disk_of(name: &str) -> String {
    match name.starts_with("/dev") {
        true => name.to_owned(),
        false => format!("/dev/{name}"),
    }
}

fn hdparms(cx: &Exec, args: Hdparms) -> Result<Value, Error> {
    let letters = match args.args.as_str() {
        Some(letters) => letters.to_owned(),
        None => args.args.texts().concat(),
    };
    let mut all = Map::new();
    for disk in args.disks.iter().map(|disk| disk_of(disk)) {
        let about = hdparm_parameters(cx, &letters, &disk)?;
        all.insert(disk, about);
    }
    Ok(all.into())
}

fn hpa(cx: &Exec, args: Hpa) -> Result<Value, Error> {
    let mut all = Map::new();
    for disk in args.disks.iter().map(|disk| disk_of(disk)) {
        let about = hdparm_parameters(cx, "N", &disk)?;
        let values = about.first().and_then(|(_, values)| values.as_list());
        let Some([visible, total, status, ..]) = values else {
            return Err(format!("cannot parse the output of hdparm -N for {disk}").into());
        };
        let (seen, whole) = visible.as_int().zip(total.as_int()).ok_or_else(|| {
            format!("cannot parse the sector counts of {disk} in the output of hdparm -N")
        })?;
        if let Some(size) = &args.size {
            let size = sectors(size, whole)?;
            output(
                cx,
                &[
                    "hdparm",
                    "--yes-i-know-what-i-am-doing",
                    &format!("-Np{size}"),
                    &disk,
                ],
            )?;
            continue;
        }
        let about = Map::new().with("total", whole);
        all.insert(
            disk,
            match seen == whole || status.to_text().contains("disabled") {
                true => about,
                false => about.with("visible", seen).with("hidden", whole - seen),
            },
        );
    }
    match args.size {
        Some(_) => Ok(Value::Null),
        None => Ok(all.into()),
    }
}

/// Returns the number of sectors that stay visible if the given number or percentage is hidden.
fn sectors(size: &str, total: i64) -> Result<i64, Error> {
    let wrong = || {
        Error::argument(
            "size",
            format!("expected a number of sectors or a percentage, got {size}"),
        )
    };
    let left = match size.strip_suffix('%') {
        Some(share) => {
            (100 - share.parse::<i64>().map_err(|_| wrong())?).saturating_mul(total) / 100
        }
        None => total - size.parse::<i64>().map_err(|_| wrong())?,
    };
    Ok(if left <= 0 { total } else { left })
}

fn smart_attributes(cx: &Exec, args: SmartAttributes) -> Result<Value, Error> {
    let disk = disk_of(&args.dev);
    let said = output(cx, &["smartctl", "--attributes", plain(&disk)?])?;
    let mut lines = said.lines();
    let head = lines
        .by_ref()
        .find(|line| line.starts_with("ID#"))
        .unwrap_or_default();
    let fields: Vec<String> = head
        .split_whitespace()
        .skip(1)
        .map(str::to_lowercase)
        .collect();
    let rows = lines.map_while(|line| {
        let mut words = line.split_whitespace();
        let number: i64 = words.next()?.parse().ok()?;
        Some((number, words.collect::<Vec<_>>()))
    });
    let wanted = |number: &i64| {
        args.attributes
            .as_ref()
            .is_none_or(|wanted| wanted.contains(number))
    };
    let shown = |field: &str| {
        args.values
            .as_ref()
            .is_none_or(|wanted| wanted.iter().any(|one| one == field))
    };
    let rows = rows
        .filter(|(number, _)| wanted(number))
        .map(|(number, words)| {
            let about = fields
                .iter()
                .enumerate()
                .filter(|(_, field)| shown(field))
                .filter_map(|(at, field)| {
                    let rest = words.get(at..)?;
                    let text = if at + 1 == fields.len() {
                        rest.join(" ")
                    } else {
                        (*rest.first()?).to_owned()
                    };
                    Some((Value::from(field), numbers(&text)))
                });
            (Value::from(number), about.collect::<Value>())
        });
    Ok(rows.collect())
}

/// Returns a number, a list of numbers, or the text itself.
fn numbers(text: &str) -> Value {
    let all: Result<Vec<i64>, _> = text.split(' ').map(str::parse).collect();
    match all.as_deref() {
        Ok([one]) => (*one).into(),
        Ok(all) => all.to_vec().into(),
        Err(_) => text.into(),
    }
}

fn iostat(cx: &Exec, args: Iostat) -> Result<Value, Error> {
    let (interval, count) = (args.interval.to_string(), args.count.to_string());
    let option = if args.disks.is_some() { "-xd" } else { "-x" };
    let mut words = vec!["iostat", option, &interval, &count];
    for disk in args.disks.iter().flatten() {
        words.push(plain(disk)?);
    }
    let said = output(cx, &words)?;
    Ok(averages(&said))
}

/// Returns the average of each column for the processors (`sys`) and for each disk.
fn averages(text: &str) -> Value {
    let mut head: Vec<&str> = Vec::new();
    let mut sums: Vec<(String, Vec<&str>, Vec<f64>, f64)> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, row) = match words.split_first() {
            Some((first, rest)) if ["avg-cpu:", "Device", "Device:"].contains(first) => {
                head = rest.to_vec();
                continue;
            }
            Some(_) if head.first() == Some(&"%user") => ("sys", words.as_slice()),
            Some((name, rest)) if !head.is_empty() => (*name, rest),
            _ => continue,
        };
        let row: Vec<f64> = row.iter().map_while(|word| word.parse().ok()).collect();
        if row.len() != head.len() {
            continue;
        }
        match sums.iter_mut().find(|(known, ..)| known == name) {
            Some((_, _, sum, count)) => {
                sum.iter_mut().zip(row).for_each(|(sum, more)| *sum += more);
                *count += 1.0;
            }
            None => sums.push((name.to_owned(), head.clone(), row, 1.0)),
        }
    }
    let average = |(name, head, sum, count): (String, Vec<&str>, Vec<f64>, f64)| {
        let mean = sum
            .iter()
            .map(|sum| Value::from((sum / count * 100.0).round_ties_even() / 100.0));
        (name, head.into_iter().zip(mean).collect::<Value>())
    };
    sums.into_iter().map(average).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disks_tell_is_read() {
        let shown = |text| python::repr(&of_hdparm(text).unwrap());
        assert_eq!(
            shown("976773168/976773168, HPA is disabled"),
            "[976773168, 976773168, 'HPA is disabled']"
        );
        assert_eq!(shown("256 (on)"), "[256, 'on']");
        assert_eq!(shown("a=1, b=2"), "{'a': '1', 'b': '2'}");
        assert!(of_hdparm("").is_none());
        assert_eq!(
            (sectors("10%", 1000).unwrap(), sectors("10", 1000).unwrap()),
            (900, 990)
        );
    }

    #[test]
    fn what_iostat_tells_is_averaged() {
        let once = |busy: &str| {
            format!(
                "avg-cpu:  %user   %idle\n           {busy}   90.00\n\nDevice  r/s  w/s\nvda     {busy}  2.00\n\n"
            )
        };
        let text = format!("Linux 6.1 (box)\n\n{}{}", once("1.00"), once("2.00"));
        let shown = python::repr(&averages(&text));
        assert_eq!(
            shown,
            "{'sys': {'%user': 1.5, '%idle': 90.0}, 'vda': {'r/s': 1.5, 'w/s': 2.0}}"
        );
    }
}
