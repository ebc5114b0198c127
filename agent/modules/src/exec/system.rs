//! The `system` execution module: reports the time, and halts or reboots the machine.

use jiff::Zoned;
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Report the date and the time, and halt or reboot the machine.
    mod system;

    /// Return the date, such as `Tue 11/24/2026`.
    ///
    ///     salt-call system.get_system_date
    fn get_system_date(Date {
        /// The offset from UTC, such as `+0200`; the time zone of the machine if not given.
        utc_offset: Value = Value::Null,
    });

    /// Return the date and the time, such as `2026-11-24 13:05:00`.
    ///
    ///     salt-call system.get_system_date_time
    fn get_system_date_time(DateTime {
        /// The offset from UTC, such as `+0200`; the time zone of the machine if not given.
        utc_offset: Value = Value::Null,
    });

    /// Return the time, such as `01:05:00 PM`.
    ///
    ///     salt-call system.get_system_time
    fn get_system_time(Time {
        /// The offset from UTC, such as `+0200`; the time zone of the machine if not given.
        utc_offset: Value = Value::Null,
    });

    /// Halt the machine.
    ///
    ///     salt-call system.halt
    fn halt(Halt {});

    /// Change the runlevel, if the init system has runlevels.
    ///
    ///     salt-call system.init 3
    fn init(Init {
        /// The runlevel.
        runlevel: Value,
    });

    /// Power the machine off.
    ///
    ///     salt-call system.poweroff
    fn poweroff(Poweroff {});

    /// Reboot the machine. An orchestration on this machine continues after the reboot.
    ///
    ///     salt-call system.reboot
    fn reboot(Reboot {
        /// The delay in minutes; now if not given.
        at_time: Value = Value::Null,
    });

    /// Shut the machine down.
    ///
    ///     salt-call system.shutdown 5
    fn shutdown(Shutdown {
        /// The delay in minutes; now if not given.
        at_time: Value = Value::Null,
    });
}

/// Returns the current time in a format of strftime.
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

/// Parses an offset in the form `+HHMM`, `-HHMM` or `HHMM`.
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

/// Runs a program of the machine and returns its output.
fn output(cx: &Exec, words: &[&str]) -> Result<Value, Error> {
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
    output(cx, &["halt"])
}

fn init(cx: &Exec, args: Init) -> Result<Value, Error> {
    output(cx, &["init", &args.runlevel.to_text()])
}

fn poweroff(cx: &Exec, _: Poweroff) -> Result<Value, Error> {
    output(cx, &["poweroff"])
}

fn reboot(cx: &Exec, args: Reboot) -> Result<Value, Error> {
    output(cx, &["shutdown", "-r", &time(&args.at_time)])
}

fn shutdown(cx: &Exec, args: Shutdown) -> Result<Value, Error> {
    output(cx, &["shutdown", "-h", &time(&args.at_time)])
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
