//! The `system` execution module: date and time, taking the machine down, and up again.

use jiff::Zoned;
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Date and time, taking the machine down, and up again.
    mod system;

    /// Return the date, such as `Tue 11/24/2026`.
    fn get_system_date(Date {
        /// The zone's distance from UTC, as `+0200`; that of the machine where this is none.
        utc_offset: Value = Value::Null,
    });

    /// Return date and time, such as `2026-11-24 13:05:00`.
    fn get_system_date_time(DateTime {
        /// The zone's distance from UTC, as `+0200`; that of the machine where this is none.
        utc_offset: Value = Value::Null,
    });

    /// Return the time, such as `01:05:00 PM`.
    fn get_system_time(Time {
        /// The zone's distance from UTC, as `+0200`; that of the machine where this is none.
        utc_offset: Value = Value::Null,
    });

    /// Halt the machine.
    fn halt(Halt {});

    /// Change the runlevel, where there are any.
    fn init(Init {
        /// The runlevel.
        runlevel: Value,
    });

    /// Switch the machine off.
    fn poweroff(Poweroff {});

    /// Start the machine anew. In an orchestration on this machine the run goes on when it is up again.
    fn reboot(Reboot {
        /// In so many minutes; now where this is none.
        at_time: Value = Value::Null,
    });

    /// Shut the machine down.
    fn shutdown(Shutdown {
        /// In so many minutes; now where this is none.
        at_time: Value = Value::Null,
    });
}

/// The time now in a layout of strftime.
fn now(layout: &str, utc_offset: &Value) -> Result<Value, Error> {
    let mut moment = Zoned::now();
    if !utc_offset.is_null() {
        let offset = offset(&utc_offset.to_text()).ok_or("Invalid UTC offset")?;
        moment = moment.with_time_zone(TimeZone::fixed(offset));
    }
    let shown = strtime::format(layout, &moment);
    let shown = shown.map_err(|error| Error::refused(error.to_string()))?;
    Ok(shown.into())
}

/// Reads `+HHMM`, `-HHMM` and `HHMM`.
fn offset(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = digits.split_at(2);
    let minutes = hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?;
    Offset::from_seconds(sign * minutes * 60).ok()
}

fn get_system_date(_cx: &Exec, args: Date) -> Result<Value, Error> {
    now("%a %m/%d/%Y", &args.utc_offset)
}

fn get_system_date_time(_cx: &Exec, args: DateTime) -> Result<Value, Error> {
    now("%Y-%m-%d %H:%M:%S", &args.utc_offset)
}

fn get_system_time(_cx: &Exec, args: Time) -> Result<Value, Error> {
    now("%I:%M:%S %p", &args.utc_offset)
}

/// What the machine's own program says.
fn told(cx: &Exec, words: &[&str]) -> Result<Value, Error> {
    let words = Value::list(words.iter().map(|word| (*word).into()));
    cx.call_internal(
        "cmd.run",
        vec![words],
        Map::new().with("python_shell", false),
    )
}

fn time(given: &Value) -> String {
    match given.is_true() {
        true => given.to_text(),
        false => "now".to_owned(),
    }
}

fn halt(cx: &Exec, _: Halt) -> Result<Value, Error> {
    told(cx, &["halt"])
}

fn init(cx: &Exec, args: Init) -> Result<Value, Error> {
    told(cx, &["init", &args.runlevel.to_text()])
}

fn poweroff(cx: &Exec, _: Poweroff) -> Result<Value, Error> {
    told(cx, &["poweroff"])
}

fn reboot(cx: &Exec, args: Reboot) -> Result<Value, Error> {
    told(cx, &["shutdown", "-r", &time(&args.at_time)])
}

fn shutdown(cx: &Exec, args: Shutdown) -> Result<Value, Error> {
    told(cx, &["shutdown", "-h", &time(&args.at_time)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_told_by_its_distance_from_utc() {
        let seconds = |text| offset(text).map(Offset::seconds);
        assert_eq!(seconds("+0130"), Some(5400));
        assert_eq!(seconds("-0500"), Some(-18000));
        assert_eq!(seconds("0000"), Some(0));
        for wrong in ["", "+1", "5:00", "+05a0", "+9900"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
