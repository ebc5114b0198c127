//! The clock of the machine: reads dates and times, and sets the clock through `date` and `hwclock`.

use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use machine::process::{Process, which};
use state::exec::Exec;
use state::module::Error;
use value::log;

/// Year, month, day, hour, minute and second. Those that are `None` stay.
pub(super) type Fields = [Option<i64>; 6];

/// Sets the clock, and the hardware clock if there is one. `offset` is the time zone of the fields;
/// `None` means that of the machine.
///
/// # Errors
/// When the fields are no date and time, or `date` fails.
pub(super) fn set(cx: &Exec, fields: Fields, offset: Option<Offset>) -> Result<(), Error> {
    let now = Zoned::now();
    let now = match offset {
        Some(offset) => now.with_time_zone(TimeZone::fixed(offset)),
        None => now,
    };
    let mut new = filled(fields, now.datetime())?;
    if let Some(offset) = offset {
        let moment = offset.to_timestamp(new).map_err(refused)?;
        new = Offset::UTC.to_datetime(moment);
    }
    let utc: &[&str] = if offset.is_some() { &["-u"] } else { &[] };
    run_date(cx, utc, new)?;
    if has_hardware(cx)? {
        let set = Process::words(["hwclock", "--systohc"]).run(cx)?;
        if !set.success() {
            log::warning(format_args!(
                "cannot set the hardware clock: hwclock failed: {}",
                set.stderr.trim()
            ));
        }
    }
    Ok(())
}

fn refused(error: jiff::Error) -> Error {
    Error::unexpected(error.to_string())
}

/// Returns a date and time with the given fields, and the other ones of `now`.
fn filled(fields: Fields, now: DateTime) -> Result<DateTime, Error> {
    let [year, month, day, hour, minute, second] = fields;
    let wrong = |name: &str, given: i64| Error::unexpected(format!("{given} is no {name}"));
    let small = |name: &str, given: Option<i64>, now: i8| match given {
        Some(given) => i8::try_from(given).map_err(|_| wrong(name, given)),
        None => Ok(now),
    };
    let year = match year {
        Some(year) if (1..=9999).contains(&year) => {
            i16::try_from(year).map_err(|_| wrong("year", year))?
        }
        Some(year) => return Err(wrong("year", year)),
        None => now.year(),
    };
    DateTime::new(
        year,
        small("month", month, now.month())?,
        small("day", day, now.day())?,
        small("hour", hour, now.hour())?,
        small("minute", minute, now.minute())?,
        small("second", second, now.second())?,
        0,
    )
    .map_err(refused)
}

/// Runs `date`. One that cannot set seconds, which POSIX does not have, gets the time without them.
fn run_date(cx: &Exec, options: &[&str], new: DateTime) -> Result<(), Error> {
    let minutes = format!(
        "{:02}{:02}{:02}{:02}{:04}",
        new.month(),
        new.day(),
        new.hour(),
        new.minute(),
        new.year()
    );
    let seconds = format!("{minutes}.{:02}", new.second());
    let run = |time: &str| {
        let words = ["date"].iter().chain(options).chain([&time]);
        Process::words(words.copied()).run(cx)
    };
    let first = run(&seconds)?;
    if first.success() || run(&minutes)?.success() {
        return Ok(());
    }
    Err(Error::refused(format!(
        "date failed: {}",
        first.stderr.trim_end()
    )))
}

/// Returns whether `hwclock` can set the hardware clock.
///
/// # Errors
/// When `hwclock` cannot be started.
pub(super) fn has_hardware(cx: &Exec) -> Result<bool, Error> {
    if which("hwclock").is_none() {
        return Ok(false);
    }
    let tried = Process::words(["hwclock", "--test", "--systohc"]).quiet();
    Ok(tried.run(cx)?.success())
}

/// Returns the year, the month and the day of a date in one of Salt's formats.
pub(super) fn date_of(text: &str) -> Option<[i64; 3]> {
    let separator = if text.contains('/') { '/' } else { '-' };
    let parts: Vec<&str> = text.split(separator).collect();
    let &[first, second, third] = parts.as_slice() else {
        return None;
    };
    let (year, month, day) = if first.len() == 4 {
        (first, second, third)
    } else {
        (third, first, second)
    };
    let year = match year.len() {
        4 => number(year, 1..=9999)?,
        2 if first.len() <= 2 => match number(year, 0..=99)? {
            year @ 0..=68 => 2000 + year,
            year => 1900 + year,
        },
        _ => return None,
    };
    let (month, day) = (short(month, 1..=12)?, short(day, 1..=31)?);
    let fits = jiff::civil::Date::new(
        i16::try_from(year).ok()?,
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
    );
    fits.ok().map(|_| [year, month, day])
}

/// Returns the hour, the minute and the second of a time in one of Salt's formats.
pub(super) fn time_of(text: &str) -> Option<[i64; 3]> {
    let (time, half) = match text.split_once(char::is_whitespace) {
        Some((time, half)) => (time, Some(half.trim_start())),
        None => (text, None),
    };
    let mut parts = time.split(':');
    let hour = parts.next()?;
    let minute = short(parts.next()?, 0..=59)?;
    let second = parts.next().map_or(Some(0), |part| short(part, 0..=59))?;
    if parts.next().is_some() {
        return None;
    }
    let hour = match half.map(str::to_ascii_uppercase).as_deref() {
        None => short(hour, 0..=23)?,
        Some("AM") => short(hour, 1..=12)? % 12,
        Some("PM") => short(hour, 1..=12)? % 12 + 12,
        Some(_) => return None,
    };
    Some([hour, minute, second])
}

/// Parses a number with one or two digits.
fn short(text: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    (text.len() <= 2).then(|| number(text, range))?
}

fn number(text: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_formats_of_salt() {
        let dates = [
            ("2026-11-24", [2026, 11, 24]),
            ("11-24-2026", [2026, 11, 24]),
            ("11-24-26", [2026, 11, 24]),
            ("1-2-68", [2068, 1, 2]),
            ("1-2-69", [1969, 1, 2]),
            ("11/24/2026", [2026, 11, 24]),
            ("11/24/26", [2026, 11, 24]),
            ("2026/11/24", [2026, 11, 24]),
            ("2024-2-29", [2024, 2, 29]),
        ];
        for (text, date) in dates {
            assert_eq!(date_of(text), Some(date), "{text}");
        }
        let wrong = [
            "",
            "2026-11",
            "24-11-2026",
            "2026-02-29",
            "26-11-24",
            "2026-11-24-1",
            "2026/11-24",
            "0000-1-1",
            "+1-1-2026",
            "1-1-2",
            "2026-011-1",
        ];
        for text in wrong {
            assert_eq!(date_of(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_read_in_the_formats_of_salt() {
        let times = [
            ("13:05", [13, 5, 0]),
            ("1:05:09", [1, 5, 9]),
            ("01:05 PM", [13, 5, 0]),
            ("12:00:01 am", [0, 0, 1]),
            ("12:00 PM", [12, 0, 0]),
        ];
        for (text, time) in times {
            assert_eq!(time_of(text), Some(time), "{text}");
        }
        for text in [
            "", "13", "24:00", "13:00 PM", "0:10 AM", "1:2:3:4", "1:60", "1:00 XM",
        ] {
            assert_eq!(time_of(text), None, "{text}");
        }
    }

    #[test]
    fn fields_that_are_not_given_stay() {
        let now = jiff::civil::datetime(2026, 11, 24, 13, 5, 7, 0);
        let new = filled([None, None, Some(1), None, Some(0), None], now).unwrap();
        assert_eq!(new, jiff::civil::datetime(2026, 11, 1, 13, 0, 7, 0));
        for (at, wrong) in [
            (0, 0),
            (0, 10_000),
            (1, 13),
            (1, 300),
            (2, 31),
            (3, 24),
            (5, 60),
        ] {
            let mut fields = [None; 6];
            fields[at] = Some(wrong);
            assert!(filled(fields, now).is_err(), "{at}: {wrong}");
        }
    }
}
