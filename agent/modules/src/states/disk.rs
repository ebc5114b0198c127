//! The `disk` state module. It only checks, and changes nothing.

use std::path::Path;

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Check the usage of file systems.
    mod disk;

    /// Check that the usage of the file system of a mount point or folder is within limits.
    ///
    ///     /var:
    ///       disk.status:
    ///         - maximum: 90%
    fn status(Status {
        /// The mount point, or a folder.
        name: String,
        /// The maximum usage.
        maximum: Value = Value::Null,
        /// The minimum usage.
        minimum: Value = Value::Null,
        /// True if the limits are in kilobytes instead of percent.
        absolute: bool = false,
        /// True if the limits apply to the free space instead of the used space.
        free: bool = false,
    });
}

/// Returns a limit, or an error text if it is not valid.
fn limit(name: &str, given: &Value, absolute: bool) -> Result<Option<i64>, String> {
    if given.is_null() {
        return Ok(None);
    }
    let unit: &[char] = if absolute {
        &[' ', 'K', 'B']
    } else {
        &[' ', '%']
    };
    let number = match given.as_str() {
        Some(text) => text.trim_matches(unit).parse().ok(),
        None => given
            .as_int()
            .or_else(|| given.to_text().parse::<f64>().ok().map(truncated)),
    };
    match number {
        None => Err(format!("{name} must be an integer ")),
        Some(number) if !absolute && !(0..=100).contains(&number) => {
            Err(format!("{name} must be in the range [0, 100] "))
        }
        number => Ok(number),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "truncates as Python's int does; a limit beyond i64 has no effect"
)]
fn truncated(number: f64) -> i64 {
    number as i64
}

fn status(cx: &Exec, args: Status) -> Result<Ret, Error> {
    let failed = |comment: String| Ok(Ret::failed(comment).with("data", Map::new()));
    let maximum = limit("maximum", &args.maximum, args.absolute);
    let minimum = limit("minimum", &args.minimum, args.absolute);
    let (maximum, minimum) = match (maximum, minimum) {
        (Ok(maximum), Ok(minimum)) => (maximum, minimum),
        (one, other) => {
            let wrong = [one.err(), other.err()];
            return failed(wrong.into_iter().flatten().collect());
        }
    };
    if maximum.is_some() && minimum >= maximum {
        return failed("minimum must be less than maximum ".to_owned());
    }
    let name = args.name.as_str();
    let all = cx.call_internal("disk.usage", Vec::new(), Map::new())?;
    let (used, free, data) = match all.get(name) {
        Some(mount) => of_mount(mount, args.absolute)?,
        None if !Path::new(name).is_dir() => {
            return failed(format!(
                "Disk mount {name} not present. Directory {name} does not exist or is not a directory"
            ));
        }
        None => of_folder(cx, name, args.absolute)?,
    };
    let unit = if args.absolute { "KB" } else { "%" };
    let (what, now) = match args.free {
        true => ("available", &free),
        false => ("used", &used),
    };
    let number = number(now)?;
    let beyond = |limit: Option<i64>, side: &str, is_beyond: fn(f64, f64) -> bool| {
        let limit = limit?;
        is_beyond(number, as_float(limit)).then(|| {
            format!(
                "Disk {what} space is {side} of {limit} {unit} at {} {unit}",
                now.to_text()
            )
        })
    };
    let wrong = beyond(minimum, "below minimum", |now, limit| now < limit);
    let wrong = wrong.or_else(|| beyond(maximum, "above maximum", |now, limit| now > limit));
    Ok(match wrong {
        Some(wrong) => Ret::failed(wrong),
        None => Ret::ok("Disk used space in acceptable range"),
    }
    .with("data", data))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a float holds the kilobytes of a disk exactly"
)]
fn as_float(number: i64) -> f64 {
    number as f64
}

fn number(value: &Value) -> Result<f64, Error> {
    let text = value.to_text();
    text.trim_end_matches('%')
        .parse()
        .map_err(|_| format!("'{text}' is not a number").into())
}

fn field(data: &Value, name: &str) -> Result<f64, Error> {
    number(data.get(name).unwrap_or(&Value::Null))
}

/// Returns the used space, the free space and all data of a mount point.
fn of_mount(data: &Value, absolute: bool) -> Result<(Value, Value, Value), Error> {
    let (used, free) = match absolute {
        true => (field(data, "used")?, field(data, "available")?),
        false => {
            let used = field(data, "capacity")?;
            (used, 100.0 - used)
        }
    };
    Ok((truncated(used).into(), truncated(free).into(), data.clone()))
}

/// Like [`of_mount`], for the file system of a folder.
fn of_folder(cx: &Exec, name: &str, absolute: bool) -> Result<(Value, Value, Value), Error> {
    let all = cx.call_internal("status.diskusage", vec![name.into()], Map::new())?;
    let data = all
        .get(name)
        .ok_or_else(|| format!("status.diskusage does not list {name}"))?;
    let (total, free) = (field(data, "total")?, field(data, "available")?);
    let percent = |part: f64| Value::from((part / total * 1000.0).round_ties_even() / 10.0);
    Ok(match (absolute, total == 0.0) {
        (true, _) => (truncated(total - free).into(), truncated(free).into(), all),
        (_, true) => (0.into(), 0.into(), all),
        _ => (percent(total - free), percent(free), all),
    })
}
