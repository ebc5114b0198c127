//! The `system` execution module: reads and sets the clock and the names of the machine, and halts or
//! reboots it.

use jiff::Zoned;
use jiff::fmt::strtime;
use jiff::tz::{Offset, TimeZone};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::system_clock::{self, Fields, date_of, time_of};
use super::{network, system_computer};

state::exec_module! {
    /// Read and set the date, the time and the names of the machine, and halt or reboot it.
    mod system;

    /// Return the description of the machine, `PRETTY_HOSTNAME` in `/etc/machine-info`; `False` if
    /// there is none.
    ///
    ///     salt-call system.get_computer_desc
    fn get_computer_desc(GetComputerDesc {});

    /// Return the host name.
    ///
    ///     salt-call system.get_computer_name
    fn get_computer_name(GetComputerName {});

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

    /// Return whether the machine has a hardware clock that can be set.
    ///
    ///     salt-call system.has_settable_hwclock
    fn has_settable_hwclock(HasSettableHwclock {});

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

    /// Set the description of the machine, `PRETTY_HOSTNAME` in `/etc/machine-info`.
    ///
    ///     salt-call system.set_computer_desc 'Web server in room 5'
    fn set_computer_desc(SetComputerDesc {
        /// The description.
        desc: String,
    });

    /// Set the host name, as `network.mod_hostname` does.
    ///
    ///     salt-call system.set_computer_name web1.example.com
    fn set_computer_name(SetComputerName {
        /// The new name.
        hostname: String,
    });

    /// Set the date, and the hardware clock if there is one. The time of the day stays.
    ///
    ///     salt-call system.set_system_date 2026-11-24
    fn set_system_date(SetSystemDate {
        /// The date: `YYYY-MM-DD`, `MM-DD-YYYY`, `MM-DD-YY`, or one of these with slashes.
        newdate: String,
        /// The offset from UTC, such as `+0200`; the time zone of the machine if not given.
        utc_offset: Value = Value::Null,
    });

    /// Set the date and the time, and the hardware clock if there is one. A part that is not given
    /// stays.
    ///
    ///     salt-call system.set_system_date_time 2026 11 24 13 5 0
    fn set_system_date_time(SetSystemDateTime {
        /// The year.
        years: Option<i64> = None,
        /// The month, from 1 to 12.
        months: Option<i64> = None,
        /// The day of the month.
        days: Option<i64> = None,
        /// The hour, from 0 to 23.
        hours: Option<i64> = None,
        /// The minute.
        minutes: Option<i64> = None,
        /// The second.
        seconds: Option<i64> = None,
        /// The offset from UTC, such as `+0200`; the time zone of the machine if not given.
        utc_offset: Value = Value::Null,
    });

    /// Set the time, and the hardware clock if there is one. The date stays. Returns `False` if the
    /// text is not a time.
    ///
    ///     salt-call system.set_system_time "'13:05'"
    fn set_system_time(SetSystemTime {
        /// The time: `HH:MM` or `HH:MM:SS`, on a clock with 24 hours or with ` AM` or ` PM`.
        newtime: String,
        /// The offset from UTC, such as `+0200`; the time zone of the machine if not given.
        utc_offset: Value = Value::Null,
    });

    /// Shut the machine down.
    ///
    ///     salt-call system.shutdown 5
    fn shutdown(Shutdown {
        /// The delay in minutes; now if not given.
        at_time: Value = Value::Null,
    });
}

/// Returns the offset of an argument; `None` if it is not given.
fn given_offset(utc_offset: &Value) -> Result<Option<Offset>, Error> {
    if utc_offset.is_null() {
        return Ok(None);
    }
    let offset = offset(&utc_offset.to_text());
    let wrong = || Error::unexpected("Invalid UTC offset".to_owned());
    offset.ok_or_else(wrong).map(Some)
}

/// Returns the current time in a format of strftime.
fn now(layout: &str, utc_offset: &Value) -> Result<Value, Error> {
    let mut moment = Zoned::now();
    if let Some(offset) = given_offset(utc_offset)? {
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

fn has_settable_hwclock(cx: &Exec, _: HasSettableHwclock) -> Result<Value, Error> {
    Ok(system_clock::has_hardware(cx)?.into())
}

fn set_system_date(cx: &Exec, args: SetSystemDate) -> Result<Value, Error> {
    let wrong = || Error::unexpected("Invalid date format".to_owned());
    let [year, month, day] = date_of(&args.newdate).ok_or_else(wrong)?;
    let fields = [Some(year), Some(month), Some(day), None, None, None];
    set(cx, fields, &args.utc_offset)
}

fn set_system_time(cx: &Exec, args: SetSystemTime) -> Result<Value, Error> {
    let Some([hour, minute, second]) = time_of(&args.newtime) else {
        return Ok(false.into());
    };
    let fields = [None, None, None, Some(hour), Some(minute), Some(second)];
    set(cx, fields, &args.utc_offset)
}

fn set_system_date_time(cx: &Exec, args: SetSystemDateTime) -> Result<Value, Error> {
    let fields = [
        args.years,
        args.months,
        args.days,
        args.hours,
        args.minutes,
        args.seconds,
    ];
    set(cx, fields, &args.utc_offset)
}

fn set(cx: &Exec, fields: Fields, utc_offset: &Value) -> Result<Value, Error> {
    system_clock::set(cx, fields, given_offset(utc_offset)?)?;
    Ok(true.into())
}

fn get_computer_name(_cx: &Exec, _: GetComputerName) -> Result<Value, Error> {
    Ok(network::hostname().into())
}

fn set_computer_name(cx: &Exec, args: SetComputerName) -> Result<Value, Error> {
    Ok(network::rename(cx, &args.hostname)?.into())
}

fn get_computer_desc(cx: &Exec, _: GetComputerDesc) -> Result<Value, Error> {
    let desc = system_computer::description(cx)?;
    Ok(desc.map_or_else(|| false.into(), Value::from))
}

fn set_computer_desc(cx: &Exec, args: SetComputerDesc) -> Result<Value, Error> {
    Ok(system_computer::describe(cx, &args.desc)?.into())
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
