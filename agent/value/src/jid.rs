//! Job ids: the time at which a job was created, as 20 digits.

use crate::clock::since_epoch;
use std::sync::{Mutex, PoisonError};

/// The microsecond of this process's last job id. It is in a mutex because not every platform has
/// 64-bit atomics.
static LAST: Mutex<u64> = Mutex::new(0);

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Returns a new job id, in Salt's form: `YYYYMMDDhhmmssffffff` of the current time in UTC. No two
/// job ids of a process are equal.
#[must_use]
pub fn new() -> String {
    let now = now();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    *last = now.max(*last + 1);
    from_micros(*last)
}

/// Returns the job id of a process that runs one job. Its milliseconds are those of the current time, and
/// its last three digits those of the process id: processes that start in the same microsecond have
/// different job ids.
#[must_use]
pub fn of_process() -> String {
    from_micros(at(now(), std::process::id()))
}

fn at(now: u64, pid: u32) -> u64 {
    now / 1000 * 1000 + u64::from(pid % 1000)
}

/// Returns the microseconds since 1970.
fn now() -> u64 {
    u64::try_from(since_epoch().as_micros()).unwrap_or_default()
}

/// Returns the current time in UTC, in the form of `_stamp` in events:
/// `2026-11-20T12:27:02.123456+00:00`.
#[must_use]
pub fn stamp() -> String {
    with_separators(&new())
}

/// Returns a time in microseconds since 1970 in the form of `_stamp`.
#[must_use]
pub fn stamp_of(micros: u64) -> String {
    with_separators(&from_micros(micros))
}

fn with_separators(jid: &str) -> String {
    let part = |from: usize, to: usize| jid.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}T{}:{}:{}.{}+00:00",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14),
        part(14, 20)
    )
}

/// Returns the current time in UTC, in the form of C's `asctime`, as in a minion's start event:
/// `Fri Nov 20 10:08:21 2026`.
#[must_use]
pub fn asctime() -> String {
    of_seconds(since_epoch().as_secs())
}

fn of_seconds(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let name = |names: &[&'static str], at: u64| {
        let at = usize::try_from(at).ok();
        at.and_then(|at| names.get(at).copied()).unwrap_or_default()
    };
    // The first day of 1970 was a Thursday.
    let weekday = name(&WEEKDAYS, (seconds / 86_400 + 3) % 7);
    let month = name(&MONTHS, month - 1);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// Returns the job id of a time in microseconds since 1970.
#[must_use]
pub fn from_micros(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let micros = micros % 1_000_000;
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}{micros:06}")
}

/// Returns the year, month and day of a number of days since 1970. The computation uses years that
/// begin in March.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Returns the time of a job id in microseconds since 1970.
#[must_use]
pub fn to_micros(jid: &str) -> Option<u64> {
    let part = |from: usize, to: usize| jid.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    // In years that begin in March, the leap day is the last day.
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month + 9),
        3..=12 => (year, month - 3),
        _ => return None,
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    // The days from the first of March of the year 0 to 1970, and one more because `day` counts
    // from 1.
    let days = days.checked_sub(719_469)?;
    let seconds = part(8, 10)? * 3600 + part(10, 12)? * 60 + part(12, 14)?;
    Some((days * 86_400 + seconds) * 1_000_000 + part(14, 20)?)
}

/// True for 20 digits, optionally followed by `_` and a process id.
#[must_use]
pub fn is_jid(text: &str) -> bool {
    let (digits, rest) = text.split_at_checked(20).unwrap_or_default();
    digits.len() == 20
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (rest.is_empty() || rest.len() > 1 && rest.starts_with('_'))
}

/// Returns the time of a job id in Salt's form: `2026, Nov 20 12:27:02.123456`; an empty text if it
/// is not a job id.
#[must_use]
pub fn to_time(jid: &str) -> String {
    let part = |from: usize, to: usize| jid.get(from..to).unwrap_or_default();
    let month = part(4, 6).parse::<usize>().unwrap_or_default();
    let Some(month) = month.checked_sub(1).and_then(|at| MONTHS.get(at)) else {
        return String::new();
    };
    if !is_jid(jid) {
        return String::new();
    }
    format!(
        "{}, {month} {} {}:{}:{}.{}",
        part(0, 4),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14),
        part(14, 20)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_becomes_twenty_digits() {
        assert_eq!(from_micros(0), "19700101000000000000");
        assert_eq!(from_micros(951_782_400_000_001), "20000229000000000001");
        assert_eq!(from_micros(1_763_641_622_123_456), "20251120122702123456");
        assert_eq!(from_micros(1_735_689_599_999_999), "20241231235959999999");
    }

    #[test]
    fn a_moment_is_told_as_c_tells_it() {
        assert_eq!(of_seconds(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(of_seconds(1_795_169_301), "Fri Nov 20 10:08:21 2026");
    }

    #[test]
    fn no_two_are_equal() {
        let mut jids: Vec<String> = (0..1000).map(|_| new()).collect();
        assert!(jids.is_sorted() && jids.iter().all(|jid| is_jid(jid)));
        jids.dedup();
        assert_eq!(jids.len(), 1000);
    }

    #[test]
    fn processes_that_start_at_the_same_time_have_different_ones() {
        assert_eq!(
            from_micros(at(951_782_400_123_456, 7)),
            "20000229000000123007"
        );
        assert_eq!(
            from_micros(at(951_782_400_123_456, 65_008)),
            "20000229000000123008"
        );
        assert!(is_jid(&of_process()));
    }

    #[test]
    fn their_time_is_shown_as_salt_shows_it() {
        assert_eq!(
            to_time("20251120122702123456"),
            "2025, Nov 20 12:27:02.123456"
        );
        assert_eq!(
            to_time("20251120122702123456_77"),
            "2025, Nov 20 12:27:02.123456"
        );
        for bad in [
            "",
            "2025",
            "20251120122702123456_",
            "2025112012270212345x",
            "20251320122702123456",
        ] {
            assert_eq!(to_time(bad), "", "{bad}");
        }
    }
}
