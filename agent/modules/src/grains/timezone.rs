//! The current short name of the time zone (`UTC`, `CEST`).

use super::files::Root;

/// Returns the current name; `None` when the zone's file cannot be read.
pub(super) fn name(root: &Root) -> Option<String> {
    let now = i64::try_from(value::clock::since_epoch().as_secs()).ok()?;
    let zone = std::env::var("TZ").unwrap_or_default();
    let zone = zone.trim_start_matches(':');
    let path = match zone {
        "" => "etc/localtime".to_owned(),
        path if path.starts_with('/') => path.trim_start_matches('/').to_owned(),
        name => format!("usr/share/zoneinfo/{name}"),
    };
    match machine::fs::read(root.path(&path)) {
        Ok(bytes) => name_in(&bytes, now),
        Err(_) if zone.is_empty() => Some("UTC".to_owned()),
        Err(_) => rule_name(zone, now),
    }
}

/// The counts of a TZif header: UT flags, standard flags, leap seconds, transitions, types, letters.
struct Header {
    version: u8,
    counts: [usize; 6],
}

impl Header {
    const LENGTH: usize = 44;

    fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(b"TZif")?;
        let version = *rest.first()?;
        let mut counts = [0; 6];
        for (count, number) in counts.iter_mut().zip(rest.get(16..40)?.chunks_exact(4)) {
            *count = usize::try_from(u32::from_be_bytes(number.try_into().ok()?)).ok()?;
        }
        Some(Self { version, counts })
    }

    /// Returns the length of the data after the header when a time has `width` bytes.
    fn data_length(&self, width: usize) -> usize {
        let [ut, standard, leap, times, types, letters] = self.counts;
        times * (width + 1) + types * 6 + letters + leap * (width + 4) + standard + ut
    }
}

fn name_in(bytes: &[u8], now: i64) -> Option<String> {
    let old = Header::read(bytes)?;
    if old.version == 0 {
        return name_in_block(bytes.get(Header::LENGTH..)?, &old, 4, now);
    }
    let second = bytes.get(Header::LENGTH + old.data_length(4)..)?;
    let header = Header::read(second)?;
    let data = second.get(Header::LENGTH..)?;
    let last = last_time(data, &header, 8);
    if last.is_none_or(|last| now >= last) {
        let footer = data.get(header.data_length(8)..)?;
        let rule = std::str::from_utf8(footer).ok()?.trim();
        if let Some(name) = rule_name(rule, now) {
            return Some(name);
        }
    }
    name_in_block(data, &header, 8, now)
}

fn times(data: &[u8], header: &Header, width: usize) -> Vec<i64> {
    let [_, _, _, count, ..] = header.counts;
    let bytes = data.get(..count * width).unwrap_or_default();
    let number = |bytes: &[u8]| {
        let first = bytes.first().copied().unwrap_or_default();
        let start = if first >= 0x80 { -1 } else { 0 };
        bytes
            .iter()
            .fold(start, |number: i64, byte| number << 8 | i64::from(*byte))
    };
    bytes.chunks_exact(width).map(number).collect()
}

fn last_time(data: &[u8], header: &Header, width: usize) -> Option<i64> {
    times(data, header, width).last().copied()
}

fn name_in_block(data: &[u8], header: &Header, width: usize, now: i64) -> Option<String> {
    let [_, _, _, count, types, letters] = header.counts;
    let passed = times(data, header, width)
        .iter()
        .filter(|time| **time <= now)
        .count();
    let kinds = data.get(count * width..)?;
    let kind = match passed.checked_sub(1) {
        Some(index) => usize::from(*kinds.get(index)?),
        None => 0,
    };
    let record = kinds.get(count + kind * 6..)?;
    let name = usize::from(*record.get(5)?);
    let names = kinds.get(count + types * 6..count + types * 6 + letters)?;
    let name = names.get(name..)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Returns the name that a rule such as `CET-1CEST,M3.5.0,M10.5.0/3` gives for a time.
fn rule_name(rule: &str, now: i64) -> Option<String> {
    let (standard, rest) = zone_name(rule)?;
    let (offset, rest) = seconds(rest)?;
    let Some((summer, rest)) = zone_name(rest) else {
        return Some(standard.to_owned());
    };
    let (summer_offset, rest) = seconds(rest).unwrap_or((offset - 3600, rest));
    let (start, end) = rest.strip_prefix(',')?.split_once(',')?;
    let year = year_of(now - offset);
    let start = moment(start, year)? + offset;
    let end = moment(end, year)? + summer_offset;
    let is_summer = if start < end {
        (start..end).contains(&now)
    } else {
        !(end..start).contains(&now)
    };
    Some(if is_summer { summer } else { standard }.to_owned())
}

/// Splits a zone's name from the start of a rule: letters, or any text in angle brackets.
fn zone_name(rule: &str) -> Option<(&str, &str)> {
    if let Some(rest) = rule.strip_prefix('<') {
        return rest.split_once('>');
    }
    let end = rule
        .find(|sign: char| !sign.is_ascii_alphabetic())
        .unwrap_or(rule.len());
    rule.split_at_checked(end)
        .filter(|(name, _)| !name.is_empty())
}

/// Splits an offset or a time of day such as `-3:30`, in seconds, from the rest.
fn seconds(text: &str) -> Option<(i64, &str)> {
    let end = text
        .find(|sign: char| !(sign.is_ascii_digit() || "+-:".contains(sign)))
        .unwrap_or(text.len());
    let (time, rest) = text.split_at_checked(end)?;
    let unsigned = time.trim_start_matches(['+', '-']);
    let mut total = 0;
    for (part, unit) in unsigned.split(':').zip([3600, 60, 1]) {
        total += part.parse::<i64>().ok()? * unit;
    }
    let negative = time.starts_with('-');
    Some((if negative { -total } else { total }, rest))
}

/// Returns the time of a rule such as `M3.5.0/2` in a year, in seconds of local time since 1970.
fn moment(rule: &str, year: i64) -> Option<i64> {
    let (day, time) = rule.split_once('/').unwrap_or((rule, "2"));
    let (time, _) = seconds(time)?;
    let day = match (day.strip_prefix('M'), day.strip_prefix('J')) {
        (Some(day), _) => month_day(day, year)?,
        (_, Some(day)) => {
            let day: i64 = day.parse().ok()?;
            let leap = i64::from(is_leap(year) && day >= 60);
            days_before(year) + day - 1 + leap
        }
        _ => days_before(year) + day.parse::<i64>().ok()?,
    };
    Some(day * 86_400 + time)
}

/// Returns the day for `month.week.weekday`. Week 5 is the last of the month.
fn month_day(rule: &str, year: i64) -> Option<i64> {
    let mut parts = rule.split('.').map(str::parse::<i64>);
    let (month, week, weekday) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    let lengths = [
        31,
        28 + i64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let before = usize::try_from(month - 1).ok()?;
    let length = *lengths.get(before)?;
    let first = days_before(year) + lengths.iter().take(before).sum::<i64>();
    // 1970-01-01 was a Thursday.
    let first_weekday = (first + 4).rem_euclid(7);
    let mut day = (weekday - first_weekday).rem_euclid(7) + (week - 1) * 7;
    while day >= length {
        day -= 7;
    }
    Some(first + day)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the number of days from 1970 to the start of a year.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    (year - 1970) * 365 + (past / 4 - past / 100 + past / 400)
        - (1969 / 4 - 1969 / 100 + 1969 / 400)
}

fn year_of(time: i64) -> i64 {
    let days = time.div_euclid(86_400);
    let guess = 1970 + days / 366;
    (guess..)
        .find(|year| days_before(year + 1) > days)
        .unwrap_or(guess)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JULY: i64 = 1_782_864_000; // 2026-07-01
    const DECEMBER: i64 = 1_796_083_200; // 2026-12-01

    #[test]
    fn a_rule_knows_summer_on_both_halves_of_the_earth() {
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        assert_eq!(rule_name(berlin, JULY).as_deref(), Some("CEST"));
        assert_eq!(rule_name(berlin, DECEMBER).as_deref(), Some("CET"));
        let sydney = "AEST-10AEDT,M10.1.0,M4.1.0/3";
        assert_eq!(rule_name(sydney, JULY).as_deref(), Some("AEST"));
        assert_eq!(rule_name(sydney, DECEMBER).as_deref(), Some("AEDT"));
        assert_eq!(rule_name("<+0530>-5:30", JULY).as_deref(), Some("+0530"));
        // The last Sunday of October 2026 is the 25th. Summer time ends at 01:00 UTC.
        assert_eq!(
            rule_name(berlin, 1_792_890_000 - 1).as_deref(),
            Some("CEST")
        );
        assert_eq!(rule_name(berlin, 1_792_890_000).as_deref(), Some("CET"));
    }

    #[test]
    fn a_cut_file_has_no_name() {
        assert_eq!(name_in(b"TZif2", JULY), None);
        assert_eq!(name_in(b"", JULY), None);
    }
}
