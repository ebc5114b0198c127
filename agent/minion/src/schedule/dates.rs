//! Reads times as people write them: `5:00pm`, `Monday 17:30`, `2026-11-20 17:00`, `20 Nov 2026`.
//! It reads them as dateutil does: parts that are left out are those of the day that the text is
//! read for.

use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// A time, and the offset of its clock from UTC if the text has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub local: DateTime,
    pub offset: Option<Offset>,
}

impl Moment {
    /// Returns the timestamp. A time without an offset is a time of `zone`.
    pub(super) fn at(self, zone: &TimeZone) -> Option<Timestamp> {
        match self.offset {
            Some(offset) => offset.to_timestamp(self.local).ok(),
            None => Some(zone.to_zoned(self.local).ok()?.timestamp()),
        }
    }
}

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const JUMPS: [&str; 18] = [
    " ", ".", ",", ";", "-", "/", "'", "at", "on", "and", "ad", "m", "t", "of", "st", "nd", "rd",
    "th",
];

fn jump(token: &str) -> bool {
    JUMPS.contains(&token.to_lowercase().as_str())
}

/// Returns the position of a name, which may be given by its first three letters.
fn named(names: &[&str], token: &str) -> Option<i64> {
    let token = token.to_lowercase();
    let is = |name: &&str| *name == token || name.get(..3) == Some(token.as_str());
    names
        .iter()
        .position(is)
        .and_then(|at| i64::try_from(at).ok())
}

fn month(token: &str) -> Option<i64> {
    match token.eq_ignore_ascii_case("sept") {
        true => Some(9),
        false => named(&MONTHS, token).map(|at| at + 1),
    }
}

fn weekday(token: &str) -> Option<i64> {
    let token = token.to_lowercase();
    let short = match token.as_str() {
        "tuesday" => "tue",
        "wednesday" => "wed",
        "thursday" => "thu",
        "saturday" => "sat",
        other => other.strip_suffix("day").unwrap_or(other),
    };
    named(&WEEKDAYS, short).filter(|_| short.len() == 3)
}

/// Returns true for the afternoon, false for the morning, and `None` for other tokens.
fn afternoon(token: &str) -> Option<bool> {
    match token.to_lowercase().as_str() {
        "am" | "a" => Some(false),
        "pm" | "p" => Some(true),
        _ => None,
    }
}

/// Returns 0 for hours, 1 for minutes, 2 for seconds, and `None` for other tokens.
fn unit(token: &str) -> Option<u8> {
    match token.to_lowercase().as_str() {
        "h" | "hour" | "hours" => Some(0),
        "m" | "minute" | "minutes" => Some(1),
        "s" | "second" | "seconds" => Some(2),
        _ => None,
    }
}

fn is_utc(token: &str) -> bool {
    ["utc", "gmt", "z"].contains(&token.to_lowercase().as_str())
}

/// Splits a text into words, numbers and signs. A dot belongs to a number only if it is the only
/// one.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().filter(|char| *char != '\0').peekable();
    while let Some(first) = rest.next() {
        if first.is_whitespace() {
            tokens.push(" ".to_owned());
            continue;
        }
        let mut token = String::from(first);
        if !first.is_alphabetic() && !first.is_ascii_digit() {
            tokens.push(token);
            continue;
        }
        let mut word = first.is_alphabetic();
        let (mut letters, mut dotted) = (false, false);
        while let Some(next) = rest.peek().copied() {
            letters |= word;
            let after_dot = token.ends_with('.');
            match next {
                '.' => dotted = true,
                ',' if !word && !dotted && token.len() >= 2 => dotted = true,
                _ if word && next.is_alphabetic() => {}
                _ if !word && next.is_ascii_digit() => {}
                _ if dotted && after_dot && next.is_ascii_digit() => word = false,
                _ if dotted && after_dot && next.is_alphabetic() => word = true,
                _ => break,
            }
            token.push(next);
            rest.next();
        }
        let apart = letters || token.matches('.').count() > 1 || token.ends_with(['.', ',']);
        if dotted && apart {
            let parts = token.split_inclusive(['.', ',']);
            for part in parts {
                let (start, end) = part.split_at(part.trim_end_matches(['.', ',']).len());
                let parts = [start, end].into_iter().filter(|part| !part.is_empty());
                tokens.extend(parts.map(str::to_owned));
            }
        } else {
            tokens.push(match dotted && !word && !token.contains('.') {
                true => token.replace(',', "."),
                false => token,
            });
        }
    }
    tokens
}

/// The numbers of a text that may be its year, month and day.
#[derive(Default)]
struct Ymd {
    values: Vec<i64>,
    century: bool,
    year: Option<usize>,
    month: Option<usize>,
    day: Option<usize>,
}

/// Year, month and day, as far as they are known.
type Days = (Option<i64>, Option<i64>, Option<i64>);

impl Ymd {
    fn year(&mut self, value: i64) -> Option<()> {
        if self.year.is_some() {
            return None;
        }
        self.year = Some(self.values.len());
        self.values.push(value);
        Some(())
    }

    fn month(&mut self, value: i64) -> Option<()> {
        if self.month.is_some() {
            return None;
        }
        self.month = Some(self.values.len());
        self.values.push(value);
        Some(())
    }

    fn text(&mut self, text: &str) -> Option<()> {
        let value = text.parse().ok()?;
        if text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() > 2 {
            self.century = true;
            return self.year(value);
        }
        self.values.push(value);
        Some(())
    }

    fn number(&mut self, value: f64) -> Option<()> {
        if value > 100.0 {
            self.century = true;
            return self.year(value as i64);
        }
        self.values.push(value as i64);
        Some(())
    }

    fn at(&self, index: usize) -> Option<i64> {
        self.values.get(index).copied()
    }

    fn could_be_day(&self, value: f64) -> bool {
        let of = |place: Option<usize>| place.and_then(|place| self.at(place));
        let month = of(self.month).map(|month| month as i8);
        let year = of(self.year).unwrap_or(2000) as i16;
        let days = month.map_or(31, |month| {
            Date::new(year, month, 1).map_or(31, Date::days_in_month)
        });
        self.day.is_none() && (1.0..=f64::from(days)).contains(&value)
    }

    /// Decides which number is the year, the month and the day.
    fn resolved(&self) -> Option<Days> {
        let mut places = [self.year, self.month, self.day];
        let known = places.iter().flatten().count();
        if self.values.len() == 3 && known == 2 {
            let free = (0..3).find(|place| !places.contains(&Some(*place)));
            let unknown = places.iter_mut().find(|place| place.is_none());
            *unknown? = free;
        }
        let known = places.iter().flatten().count();
        if known > 0 && known == self.values.len() {
            let [year, month, day] = places.map(|place| place.and_then(|place| self.at(place)));
            return Some((year, month, day));
        }
        self.guessed()
    }

    fn guessed(&self) -> Option<Days> {
        let at = |index| self.at(index);
        let day_or_year = |month: Option<i64>, other: i64| match other > 31 {
            true => (Some(other), month, None),
            false => (None, month, Some(other)),
        };
        Some(match (self.values.as_slice(), self.month) {
            ([], _) => (None, None, None),
            ([only], Some(_)) => (None, Some(*only), None),
            ([only], None) => day_or_year(None, *only),
            ([first, second], Some(0)) => day_or_year(Some(*first), *second),
            ([first, second], Some(_)) => day_or_year(Some(*second), *first),
            ([first, second], None) if *first > 31 => (Some(*first), Some(*second), None),
            ([first, second], None) if *second > 31 => (Some(*second), Some(*first), None),
            ([first, second], None) => (None, Some(*first), Some(*second)),
            ([_, second, _], Some(0)) if *second > 31 => (at(1), at(0), at(2)),
            ([..], Some(0)) if self.values.len() == 3 => (at(2), at(0), at(1)),
            ([first, _, _], Some(1)) if *first > 31 => (at(0), at(1), at(2)),
            ([..], Some(1)) if self.values.len() == 3 => (at(2), at(1), at(0)),
            ([_, second, _], Some(2)) if *second > 31 => (at(1), at(2), at(0)),
            ([..], Some(2)) if self.values.len() == 3 => (at(0), at(2), at(1)),
            ([first, _, _], None) if *first > 31 || self.year == Some(0) => (at(0), at(1), at(2)),
            ([first, _, _], None) if *first > 12 => (at(2), at(1), at(0)),
            ([_, _, _], None) => (at(2), at(0), at(1)),
            _ => return None,
        })
    }
}

/// The values that were read so far.
#[derive(Default)]
struct Reading {
    tokens: Vec<String>,
    ymd: Ymd,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    nanosecond: Option<i64>,
    weekday: Option<i64>,
    zone: Option<String>,
    /// The offset from UTC in seconds.
    offset: Option<i64>,
    anything: bool,
}

/// Reads a time for a day. Returns `None` if the text is no time.
pub(super) fn read(text: &str, day: Date) -> Option<Moment> {
    let mut reading = Reading {
        tokens: tokens(text),
        ..Reading::default()
    };
    let mut at = 0;
    while at < reading.tokens.len() {
        at = reading.token(at)? + 1;
    }
    reading.moment(day)
}

impl Reading {
    fn get(&self, at: usize) -> Option<&str> {
        self.tokens.get(at).map(String::as_str)
    }

    /// Returns the token that is `by` places before `at`, or `None` if there is none.
    fn before(&self, at: usize, by: usize) -> Option<&str> {
        self.get(at.checked_sub(by)?)
    }

    /// Reads a token, and returns the position of the last token that belongs to it.
    fn token(&mut self, at: usize) -> Option<usize> {
        let token = self.get(at)?.to_owned();
        if token.starts_with(|char: char| char.is_ascii_digit()) {
            return self.numeric(at, &token);
        }
        if let Some(day) = weekday(&token) {
            self.weekday = Some(day);
            return Some(at);
        }
        if let Some(number) = month(&token) {
            return self.month(at, number);
        }
        if let Some(afternoon) = afternoon(&token) {
            let hour = self.hour.filter(|hour| (0..=12).contains(hour))?;
            self.hour = Some(of_day(hour, afternoon));
            return Some(at);
        }
        if self.could_be_zone(&token) {
            return Some(self.named_zone(at, token));
        }
        if self.hour.is_some() && ["+", "-"].contains(&token.as_str()) {
            return self.numbered_zone(at, &token);
        }
        jump(&token).then_some(at)
    }

    /// Reads `Jan-01-99`, `Jan of 01` or `Jan`.
    fn month(&mut self, at: usize, number: i64) -> Option<usize> {
        self.ymd.month(number)?;
        let next = self.get(at + 1).map(str::to_owned);
        match next.as_deref() {
            Some(sep @ ("-" | "/")) => {
                let other = self.get(at + 2)?.to_owned();
                self.ymd.text(&other)?;
                if self.get(at + 3) != Some(sep) {
                    return Some(at + 2);
                }
                let third = self.get(at + 4)?.to_owned();
                self.ymd.text(&third)?;
                Some(at + 4)
            }
            Some(" ") if self.get(at + 2) == Some("of") && self.get(at + 3) == Some(" ") => {
                let Some(year) = self.get(at + 4).map(str::to_owned) else {
                    return Some(at);
                };
                if let Ok(year) = year.parse::<i64>() {
                    self.ymd.century |= year > 99;
                    self.ymd.year(year)?;
                }
                Some(at + 4)
            }
            _ => Some(at),
        }
    }

    fn could_be_zone(&self, token: &str) -> bool {
        let upper = token.bytes().all(|byte| byte.is_ascii_uppercase());
        let none = self.zone.is_none() && self.offset.is_none();
        self.hour.is_some() && none && token.len() <= 5 && (upper || token == "z")
    }

    /// Reads `UTC`, `EST`, or `GMT+3`, which means that UTC is three hours later.
    fn named_zone(&mut self, at: usize, token: String) -> usize {
        let turned = match self.get(at + 1) {
            Some("+") => Some("-"),
            Some("-") => Some("+"),
            _ => None,
        };
        let utc = is_utc(&token);
        self.zone = Some(token);
        if let (Some(turned), Some(sign)) = (turned, self.tokens.get_mut(at + 1)) {
            *sign = turned.to_owned();
            if utc {
                self.zone = None;
            }
        }
        at
    }

    /// Reads `-0300`, `-03:00` or `-3`.
    fn numbered_zone(&mut self, at: usize, sign: &str) -> Option<usize> {
        let sign = if sign == "+" { 1 } else { -1 };
        let digits = self.get(at + 1)?;
        let (hours, minutes, last) = match (digits.len(), self.get(at + 2)) {
            (4, _) => (digits.get(..2)?, digits.get(2..)?, at + 1),
            (_, Some(":")) => (digits, self.get(at + 3)?, at + 3),
            (1 | 2, _) => (digits, "0", at + 1),
            _ => return None,
        };
        let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
        self.offset = Some(sign * (hours * 3600 + minutes * 60));
        Some(last)
    }

    fn numeric(&mut self, at: usize, token: &str) -> Option<usize> {
        let value: f64 = token.parse().ok().filter(|value: &f64| value.is_finite())?;
        let length = token.len();
        let next = self.get(at + 1).map(str::to_owned);
        let next = next.as_deref();
        let digits = |range: std::ops::Range<usize>| token.get(range)?.parse::<i64>().ok();
        let no_time_follows = next.is_none_or(|next| next != ":" && unit(next).is_none());
        if self.ymd.values.len() == 3
            && [2, 4].contains(&length)
            && self.hour.is_none()
            && no_time_follows
        {
            self.hour = Some(digits(0..2)?);
            if length == 4 {
                self.minute = Some(digits(2..4)?);
            }
            return Some(at);
        }
        if length == 6 || length > 6 && token.find('.') == Some(6) {
            if self.ymd.values.is_empty() && !token.contains('.') {
                for part in [token.get(..2)?, token.get(2..4)?, token.get(4..)?] {
                    self.ymd.text(part)?;
                }
            } else {
                (self.hour, self.minute) = (Some(digits(0..2)?), Some(digits(2..4)?));
                self.seconds(token.get(4..)?)?;
            }
            return Some(at);
        }
        if [8, 12, 14].contains(&length) {
            self.ymd.century = true;
            self.ymd.year(digits(0..4)?)?;
            self.ymd.text(token.get(4..6)?)?;
            self.ymd.text(token.get(6..8)?)?;
            if length > 8 {
                (self.hour, self.minute) = (Some(digits(8..10)?), Some(digits(10..12)?));
            }
            if length > 12 {
                self.second = Some(digits(12..14)?);
            }
            return Some(at);
        }
        if let Some((unit, last)) = self.unit_of(at) {
            self.of_unit(unit, token, value)?;
            return Some(last);
        }
        self.time_or_date(at, token, value, next)
    }

    fn time_or_date(
        &mut self,
        at: usize,
        token: &str,
        value: f64,
        next: Option<&str>,
    ) -> Option<usize> {
        match next {
            Some(":") if self.get(at + 2).is_some() => self.clock(at, value),
            Some(sep @ ("-" | "/" | ".")) => self.separated(at, token, sep),
            None => {
                self.ymd.number(value)?;
                Some(at + 1)
            }
            Some(next) if jump(next) => match self.get(at + 2).and_then(afternoon) {
                Some(afternoon) => {
                    self.hour = Some(of_day(value as i64, afternoon));
                    Some(at + 2)
                }
                None => {
                    self.ymd.number(value)?;
                    Some(at + 1)
                }
            },
            Some(next) if afternoon(next).is_some() && (0.0..24.0).contains(&value) => {
                self.hour = Some(of_day(value as i64, afternoon(next)?));
                Some(at + 1)
            }
            Some(_) if self.ymd.could_be_day(value) => {
                self.ymd.number(value)?;
                Some(at)
            }
            Some(_) => None,
        }
    }

    /// Reads `HH:MM[:SS[.ss]]`.
    fn clock(&mut self, at: usize, hour: f64) -> Option<usize> {
        self.hour = Some(hour as i64);
        let minutes: f64 = self.get(at + 2)?.parse().ok()?;
        self.minutes(minutes);
        if self.get(at + 3) != Some(":") || self.get(at + 4).is_none() {
            return Some(at + 2);
        }
        let seconds = self.get(at + 4)?.to_owned();
        self.seconds(&seconds)?;
        Some(at + 4)
    }

    /// Reads `01-02-03` or `20-Nov-2026`.
    fn separated(&mut self, at: usize, first: &str, sep: &str) -> Option<usize> {
        self.ymd.text(first)?;
        let Some(second) = self
            .get(at + 2)
            .map(str::to_owned)
            .filter(|second| !jump(second))
        else {
            return Some(at + 1);
        };
        match second.bytes().all(|byte| byte.is_ascii_digit()) {
            true => self.ymd.text(&second)?,
            false => self.ymd.month(month(&second)?)?,
        }
        if self.get(at + 3) != Some(sep) {
            return Some(at + 2);
        }
        let third = self.get(at + 4)?.to_owned();
        match month(&third) {
            Some(number) => self.ymd.month(number)?,
            None => self.ymd.text(&third)?,
        }
        Some(at + 4)
    }

    /// Returns the unit of a number, and the position of the last token that belongs to it: `12h`,
    /// `12 h`, and the 04 of `12h04`.
    fn unit_of(&self, at: usize) -> Option<(u8, usize)> {
        if let Some(unit) = self.get(at + 1).and_then(unit) {
            return Some((unit, at + 1));
        }
        if self.get(at + 1) == Some(" ")
            && let Some(unit) = self.get(at + 2).and_then(unit)
        {
            return Some((unit, at + 2));
        }
        if let Some(unit) = self.before(at, 1).and_then(unit) {
            return Some((unit + 1, at));
        }
        let is_last = at > 1 && at + 1 == self.tokens.len();
        if is_last
            && self.before(at, 1) == Some(" ")
            && let Some(unit) = self.before(at, 2).and_then(unit)
        {
            return Some((unit + 1, at));
        }
        None
    }

    fn of_unit(&mut self, unit: u8, token: &str, value: f64) -> Option<()> {
        match unit {
            0 => {
                self.hour = Some(value as i64);
                if value.fract() > 0.0 {
                    self.minute = Some(sixtieths(value));
                }
            }
            1 => self.minutes(value),
            2 => self.seconds(token)?,
            _ => {}
        }
        Some(())
    }

    fn minutes(&mut self, value: f64) {
        self.minute = Some(value as i64);
        self.second = (value.fract() > 0.0).then(|| sixtieths(value));
    }

    fn seconds(&mut self, text: &str) -> Option<()> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        self.second = Some(whole.parse().ok()?);
        let micro = format!("{part:0<6}");
        self.nanosecond = Some(micro.get(..6)?.parse::<i64>().ok()? * 1000);
        Some(())
    }

    fn moment(mut self, today: Date) -> Option<Moment> {
        let (year, month, day) = self.ymd.resolved()?;
        let parts = [
            year,
            month,
            day,
            self.hour,
            self.minute,
            self.second,
            self.weekday,
            self.offset,
        ];
        self.anything = parts.iter().any(Option::is_some) || self.zone.is_some();
        if !self.anything {
            return None;
        }
        let year = year.map(|year| whole_year(year, self.ymd.century, i64::from(today.year())));
        let date = dated(year, month, day, today)?;
        let part = |part: Option<i64>| i8::try_from(part.unwrap_or(0)).ok();
        let nanosecond = i32::try_from(self.nanosecond.unwrap_or(0)).ok()?;
        let time = jiff::civil::Time::new(
            part(self.hour)?,
            part(self.minute)?,
            part(self.second)?,
            nanosecond,
        );
        let date = match self.weekday {
            Some(wanted) if day.is_none_or(|day| day == 0) => {
                let on = i64::from(date.weekday().to_monday_zero_offset());
                date.checked_add((wanted - on).rem_euclid(7).days()).ok()?
            }
            _ => date,
        };
        let seconds = match self.zone.as_deref() {
            Some(zone) if is_utc(zone) => Some(0),
            _ => self.offset,
        };
        let offset = match seconds {
            Some(seconds) => Some(Offset::from_seconds(i32::try_from(seconds).ok()?).ok()?),
            None => None,
        };
        Some(Moment {
            local: date.to_datetime(time.ok()?),
            offset,
        })
    }
}

/// Returns the decimal fraction of a number as sixtieths.
fn sixtieths(value: f64) -> i64 {
    (value.fract() * 60.0 + 1e-9) as i64
}

fn of_day(hour: i64, afternoon: bool) -> i64 {
    match (hour, afternoon) {
        (..12, true) => hour + 12,
        (12, false) => 0,
        _ => hour,
    }
}

/// Returns the full year. A year of two digits is the one within fifty years of today.
fn whole_year(year: i64, century: bool, today: i64) -> i64 {
    if year >= 100 || century {
        return year;
    }
    let year = year + today / 100 * 100;
    match () {
        () if year >= today + 50 => year - 100,
        () if year < today - 50 => year + 100,
        () => year,
    }
}

/// Returns the date of the given parts. Missing parts are today's. If the month has fewer days than
/// today's day, its last day is taken.
fn dated(year: Option<i64>, month: Option<i64>, day: Option<i64>, today: Date) -> Option<Date> {
    let year = i16::try_from(year.unwrap_or_else(|| today.year().into())).ok()?;
    let month = i8::try_from(month.unwrap_or_else(|| today.month().into())).ok()?;
    let first = Date::new(year, month, 1).ok()?;
    let day = match day {
        Some(day) => i8::try_from(day).ok()?,
        None => today.day().min(first.days_in_month()),
    };
    Date::new(year, month, day).ok()
}
