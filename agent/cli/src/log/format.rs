//! Formats log lines by Python's `%(field)s` layouts.

use jiff::Zoned;
use value::log::{Level, Record};

use super::time::strftime;

/// A layout of log lines.
#[derive(Clone, Debug)]
pub(super) struct Format {
    layout: String,
    dates: String,
    minion_id: String,
}

impl Format {
    pub(super) fn new(layout: &str, dates: &str, minion_id: &str) -> Self {
        Self {
            layout: layout.into(),
            dates: dates.into(),
            minion_id: minion_id.into(),
        }
    }

    /// Returns a message as a line.
    pub(super) fn line(&self, record: &Record<'_>, now: &Zoned) -> String {
        let mut out = String::new();
        let mut rest = self.layout.as_str();
        while let Some((text, tail)) = rest.split_once('%') {
            out.push_str(text);
            if let Some(after) = tail.strip_prefix('%') {
                out.push('%');
                rest = after;
                continue;
            }
            let Some((name, spec, after)) = field(tail) else {
                out.push('%');
                rest = tail;
                continue;
            };
            out.push_str(&padded(&self.value(name, record, now), spec));
            rest = after;
        }
        out + rest
    }

    fn value(&self, name: &str, record: &Record<'_>, now: &Zoned) -> String {
        let level = level_name(record.level);
        match name {
            "levelname" => level.into(),
            "levelno" => (record.level as u8).to_string(),
            "message" | "colormsg" => record.message.to_string(),
            "name" | "module" | "funcName" | "filename" | "pathname" => record.target.into(),
            "asctime" => strftime(&self.dates, now),
            "msecs" => now.millisecond().to_string(),
            "created" => format!("{}.{:03}", now.timestamp().as_second(), now.millisecond()),
            "process" => std::process::id().to_string(),
            "processName" => "MainProcess".into(),
            "threadName" => std::thread::current().name().unwrap_or("MainThread").into(),
            "lineno" | "thread" | "relativeCreated" => "0".into(),
            "minion_id" => self.minion_id.clone(),
            "colorlevel" => format!("[{level:<8}]"),
            "colorname" => format!("[{:<17}]", record.target),
            "colorprocess" => format!("[{:>5}]", std::process::id()),
            _ => String::new(),
        }
    }
}

/// Splits `(name)-8s…` into the name, the `-8` and the rest.
fn field(text: &str) -> Option<(&str, &str, &str)> {
    let (name, tail) = text.strip_prefix('(')?.split_once(')')?;
    let end = tail.find(|c: char| c.is_ascii_alphabetic())?;
    let (spec, tail) = tail.split_at(end);
    Some((name, spec, tail.get(1..)?))
}

/// Pads text by a format spec: `-8` aligns it to the left in eight columns, `03` puts zeros before
/// it.
fn padded(text: &str, spec: &str) -> String {
    let left = spec.starts_with('-');
    let digits = spec.trim_start_matches('-');
    let width = digits
        .split('.')
        .next()
        .unwrap_or_default()
        .parse()
        .unwrap_or(0);
    if left {
        format!("{text:<width$}")
    } else if digits.starts_with('0') {
        format!("{text:0>width$}")
    } else {
        format!("{text:>width$}")
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Garbage => "GARBAGE",
        Level::Trace => "TRACE",
        Level::Debug => "DEBUG",
        Level::Profile => "PROFILE",
        Level::Info => "INFO",
        Level::Warning => "WARNING",
        Level::Error => "ERROR",
        Level::Critical => "CRITICAL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_look_as_salts_lines() {
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(2));
        let now = jiff::Timestamp::from_millisecond(1_600_000_000_007).unwrap();
        let now = now.to_zoned(zone);
        let line = |layout: &str, dates: &str| {
            let record = Record {
                level: Level::Info,
                target: "salt.state",
                message: format_args!("done {}", 1),
            };
            Format::new(layout, dates, "m1").line(&record, &now)
        };
        assert_eq!(
            line("[%(levelname)-8s] %(message)s", ""),
            "[INFO    ] done 1"
        );
        let file = "%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s] 100%% %(minion_id)s %(message)s";
        assert_eq!(
            line(file, "%Y-%m-%d %H:%M:%S"),
            "2020-09-13 14:26:40,007 [salt.state       :0   ][INFO    ] 100% m1 done 1"
        );
    }
}
