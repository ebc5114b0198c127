//! Times that users write: `2h`, `yesterday`, `2026-11-23`, `2026-11-23 10:30`. They are in UTC, as
//! job ids and stamps are, unless they name an offset.

use crate::jid;

/// The microseconds of a second.
const SECOND: u64 = 1_000_000;
/// The microseconds of a day.
const DAY: u64 = 86_400 * SECOND;
/// The maximum length of a time.
const LENGTH_MAX: usize = 40;

/// A text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a time: write 2h, 30m or 7d (before now), today, yesterday, 2026-11-23, or 2026-11-23 10:30 (UTC)"
)]
pub struct Invalid(String);

/// The first and the last microsecond since 1970 that a written time means. A date means its whole
/// day, and `10:30` its whole minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first microsecond.
    pub first: u64,
    /// The last microsecond.
    pub last: u64,
}

/// Reads a time. `now` is the current time in microseconds since 1970.
///
/// # Errors
/// Returns an error if the text is not a time.
pub fn parse(text: &str, now: u64) -> Result<Span, Invalid> {
    let given = text.trim();
    let invalid = || Invalid(given.chars().take(LENGTH_MAX).collect());
    if given.len() > LENGTH_MAX {
        return Err(invalid());
    }
    let day = |first: u64| Span {
        first,
        last: first + DAY - 1,
    };
    let today = now - now % DAY;
    match given {
        "now" => Ok(Span {
            first: now,
            last: now,
        }),
        "today" => Ok(day(today)),
        "yesterday" => Ok(day(today.saturating_sub(DAY))),
        _ => ago(given, now)
            .or_else(|| moment(given))
            .ok_or_else(invalid),
    }
}

/// Reads a number with a unit, which is a time before now.
fn ago(text: &str, now: u64) -> Option<Span> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ago = number.parse::<u64>().ok()?.saturating_mul(seconds);
    let at = now.saturating_sub(ago.saturating_mul(SECOND));
    Some(Span {
        first: at,
        last: at,
    })
}

/// Reads a date, with or without a time of the day. Separators may be missing, as in a job id.
fn moment(text: &str) -> Option<Span> {
    let (text, offset) = offset(text)?;
    let is_separator = |sign: char| matches!(sign, '-' | ':' | '.' | ' ' | 'T');
    if !text
        .chars()
        .all(|sign| sign.is_ascii_digit() || is_separator(sign))
    {
        return None;
    }
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let length = match digits.len() {
        8 => DAY,
        10 => 3600 * SECOND,
        12 => 60 * SECOND,
        count @ 14..=20 => 10_u64.pow(20 - u32::try_from(count).ok()?),
        _ => return None,
    };
    let padded = format!("{digits:0<20}");
    let micros = jid::to_micros(&padded)?;
    // A date such as 2026-02-30 would become another one.
    if jid::from_micros(micros) != padded {
        return None;
    }
    let first = micros.checked_add_signed(-offset)?;
    Some(Span {
        first,
        last: first + length - 1,
    })
}

/// Splits off `Z` or an offset such as `+01:00`, and returns it in microseconds.
fn offset(text: &str) -> Option<(&str, i64)> {
    if let Some(text) = text.strip_suffix('Z') {
        return Some((text, 0));
    }
    // The signs of a date are before this position.
    let Some((at, sign)) = text
        .char_indices()
        .rev()
        .find(|(at, sign)| *at > "2026-11-23".len() && matches!(sign, '+' | '-'))
    else {
        return Some((text, 0));
    };
    let (time, offset) = text.split_at_checked(at)?;
    let digits: String = offset.chars().filter(char::is_ascii_digit).collect();
    let (hours, minutes) = (digits.get(..2)?, digits.get(2..)?);
    let minutes: i64 = match minutes.len() {
        0 => 0,
        2 => minutes.parse().ok()?,
        _ => return None,
    };
    let hours: i64 = hours.parse().ok()?;
    if hours > 14 || minutes > 59 {
        return None;
    }
    let micros = (hours * 60 + minutes) * 60 * i64::try_from(SECOND).ok()?;
    Some((time, if sign == '-' { -micros } else { micros }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first and last second of a time as job ids, as of 2026-11-25 12:00.
    fn read(text: &str) -> Option<(String, String)> {
        let now = jid::to_micros("20261125120000000000").unwrap();
        let span = parse(text, now).ok()?;
        let seconds = |micros| jid::from_micros(micros)[..14].to_owned();
        Some((seconds(span.first), seconds(span.last)))
    }

    #[test]
    fn each_form_is_read() {
        for (text, first, last) in [
            ("now", "20261125120000", "20261125120000"),
            ("90s", "20261125115830", "20261125115830"),
            ("30m", "20261125113000", "20261125113000"),
            ("2h", "20261125100000", "20261125100000"),
            ("7d", "20261118120000", "20261118120000"),
            ("1w", "20261118120000", "20261118120000"),
            ("today", "20261125000000", "20261125235959"),
            ("yesterday", "20261124000000", "20261124235959"),
            ("2026-11-23", "20261123000000", "20261123235959"),
            ("20261123", "20261123000000", "20261123235959"),
            ("2026-11-23 10:30", "20261123103000", "20261123103059"),
            ("2026-11-23T10:30:05", "20261123103005", "20261123103005"),
            ("2026-11-23T10:30:05.5Z", "20261123103005", "20261123103005"),
            (
                "2026-11-23T10:30:05+01:00",
                "20261123093005",
                "20261123093005",
            ),
            ("2026-11-23T10:30-0530", "20261123160000", "20261123160059"),
            ("20261123103005123456", "20261123103005", "20261123103005"),
            ("999999999999d", "19700101000000", "19700101000000"),
        ] {
            let expected = (first.to_owned(), last.to_owned());
            assert_eq!(read(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "h",
            "10",
            "2 h",
            "-2h",
            "2y",
            "tomorrow",
            "2026",
            "2026-11",
            "2026-02-30",
            "2026-13-01",
            "2026-11-23 25:00",
            "2026-11-23T10:30+99:00",
            "2026-11-23 10:30 CET",
            "99999999999999999999999999h",
            "12345678901234567890123456789012345678901",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let text = parse("tomorrow", 0).unwrap_err().to_string();
        assert!(
            text.starts_with("\"tomorrow\" is not a time: write 2h"),
            "{text}"
        );
    }
}
