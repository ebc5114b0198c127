//! Reads times in cron's notation: five fields, a sixth for seconds, and aliases such as `@daily`.
//! It reads them as croniter does.

use jiff::civil::{Date, DateTime, Time};

/// One field of an expression: its values as bits, and flags for what bits cannot say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    bits: u64,
    /// True if the field has a star: it matches all values, and does not restrict the days.
    star: bool,
    /// True if the field has `l`: it matches the last day of the month.
    last: bool,
}

impl Field {
    /// The field that matches only the first value.
    const FIRST: Self = Self {
        bits: 1,
        star: false,
        last: false,
    };

    fn has(self, value: i8) -> bool {
        self.star || self.bits >> value & 1 == 1
    }

    /// Returns the first matching value that is at least `value` and less than `end`.
    fn from(self, value: i8, end: i8) -> Option<i8> {
        (value..end).find(|value| self.has(*value))
    }
}

/// A weekday's place in its month: `5#2` is the second Friday, `l5` the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Nth {
    weekday: i8,
    /// The number of the weekday in the month; `None` for the last one.
    number: Option<i8>,
}

impl Nth {
    fn is(self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset() == self.weekday;
        weekday
            && match self.number {
                Some(number) => (date.day() - 1) / 7 + 1 == number,
                None => date.day() + 7 > date.days_in_month(),
            }
    }
}

/// A cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
    /// The field of seconds; `None` if the expression has only five fields.
    second: Option<Field>,
    nth: Vec<Nth>,
    /// The day of `15w`: the working day nearest to the 15th.
    nearest: Option<i8>,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The values of a field, and their names.
struct Unit {
    min: i8,
    max: i8,
    names: &'static [&'static str],
}

const fn unit(min: i8, max: i8, names: &'static [&'static str]) -> Unit {
    Unit { min, max, names }
}

const UNITS: [Unit; 6] = [
    unit(0, 59, &[]),
    unit(0, 23, &[]),
    unit(1, 31, &[]),
    unit(1, 12, &MONTHS),
    unit(0, 6, &WEEKDAYS),
    unit(0, 59, &[]),
];
const DAY: usize = 2;
const WEEKDAY: usize = 4;

fn alias(text: &str) -> &str {
    match text {
        "@midnight" | "@daily" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        other => other,
    }
}

impl Unit {
    fn number(&self, text: &str) -> Option<i8> {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().ok();
        }
        let at = self.names.iter().position(|name| *name == text)?;
        i8::try_from(at).ok().map(|at| at + self.min)
    }

    /// Returns a value with Sunday as 0, which may also be written as 7.
    fn folded(&self, value: i8) -> i8 {
        match (self.max, value) {
            (6, 7) => 0,
            (_, value) => value,
        }
    }

    fn value(&self, text: &str) -> Option<i8> {
        let value = self.folded(self.number(text)?);
        (self.min..=self.max).contains(&value).then_some(value)
    }

    /// Reads `low-high/step`, `low/step`, `*/step` or `low-high`.
    fn range(&self, text: &str) -> Option<Vec<i8>> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        let step: i8 = step.map_or(Some(1), |step| {
            let digits = step.bytes().all(|byte| byte.is_ascii_digit());
            digits
                .then(|| step.parse::<u32>().ok())
                .flatten()
                .map(|step| step.min(100) as i8)
        })?;
        let (low, high) = match (range, range.split_once('-')) {
            ("*", _) => (self.min, self.max),
            (_, Some((low, high))) => (self.bound(low)?, self.bound(high)?),
            (low, None) => return self.stepped(self.value(low)?, self.max, step),
        };
        match low == high {
            // As in croniter, a range that is written with the same ends is the whole cycle.
            true => self.stepped(self.min, self.max, step),
            false => self.stepped(low, high, step),
        }
    }

    fn bound(&self, text: &str) -> Option<i8> {
        match (text, self.max) {
            ("l", 31) => Some(31),
            _ => self.value(text),
        }
    }

    fn stepped(&self, low: i8, high: i8, step: i8) -> Option<Vec<i8>> {
        let step = usize::try_from(step).ok().filter(|step| *step > 0)?;
        if low <= high {
            return Some((low..=high).step_by(step).collect());
        }
        // The range continues beyond the maximum: count the steps as croniter does.
        let mut values: Vec<i8> = (low..=self.max).step_by(step).collect();
        let left = usize::try_from(self.max - values.last()?).ok()?;
        let length = usize::try_from(self.max - self.min + 1).ok()?;
        let skip = match length - 1 - left + step > length && left < step {
            true => step - left,
            false => 0,
        };
        let first = self.min + i8::try_from(skip).ok()?;
        values.extend((first..=high).step_by(step));
        Some(values)
    }
}

/// Reads `15w` or `w15`.
fn nearest(text: &str) -> Option<i8> {
    let day = text.strip_suffix('w').or_else(|| text.strip_prefix('w'))?;
    day.parse().ok().filter(|day| (1..=31).contains(day))
}

/// Returns the working day that is nearest to a day, within the month of a date.
fn working_day(date: Date, day: i8) -> i8 {
    let last = date.days_in_month();
    let day = day.min(last);
    let weekday = date.first_of_month().weekday().to_monday_zero_offset();
    match (weekday + day - 1) % 7 {
        5 if day > 1 => day - 1,
        5 => day + 2,
        6 if day < last => day + 1,
        6 => day - 2,
        _ => day,
    }
}

/// Reads a weekday's place in the month: `5#2`, `fri#2`, `l5`.
fn nth(text: &str) -> Option<Nth> {
    let unit = UNITS.get(WEEKDAY)?;
    if let Some((weekday, number)) = text.split_once('#') {
        let number = number
            .parse()
            .ok()
            .filter(|number| (1..=5).contains(number));
        return Some(Nth {
            weekday: unit.value(weekday)?,
            number: Some(number?),
        });
    }
    let weekday = text.strip_prefix('l').filter(|rest| !rest.is_empty())?;
    Some(Nth {
        weekday: unit.value(weekday)?,
        number: None,
    })
}

fn field(index: usize, text: &str, places: &mut Vec<Nth>) -> Option<Field> {
    let unit = UNITS.get(index)?;
    let mut field = Field::default();
    if text == "?" && [DAY, WEEKDAY].contains(&index) {
        return Some(Field {
            star: true,
            ..field
        });
    }
    for part in text.split(',') {
        if index == WEEKDAY
            && let Some(place) = nth(part)
        {
            places.push(place);
            continue;
        }
        match part {
            "*" => field.star = true,
            "l" if index == DAY => field.last = true,
            _ => {
                let values = match part.contains(['-', '/']) {
                    true => unit.range(part)?,
                    false => vec![unit.value(part)?],
                };
                values.iter().for_each(|value| field.bits |= 1 << value);
            }
        }
    }
    // Weekdays and places of weekdays cannot be combined.
    let both = index == WEEKDAY && !places.is_empty() && field != Field::default();
    (!both).then_some(field)
}

impl Cron {
    /// Reads an expression. Returns `None` if it is invalid.
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let fields: Vec<&str> = alias(&text).split_ascii_whitespace().collect();
        let mut nth = Vec::new();
        let nearest = fields.get(DAY).and_then(|day| nearest(day));
        let mut read = |index: usize| match nearest {
            Some(_) if index == DAY => Some(Field {
                star: true,
                ..Field::default()
            }),
            _ => field(index, fields.get(index)?, &mut nth),
        };
        let mut cron = Self {
            minute: read(0)?,
            hour: read(1)?,
            day: read(2)?,
            month: read(3)?,
            weekday: read(WEEKDAY)?,
            second: match fields.len() {
                5 => None,
                6 => Some(read(5)?),
                _ => return None,
            },
            nearest,
            nth,
        };
        // As in croniter, a field with all its days as numbers is a star if the other field has a
        // star anywhere.
        let starred = |index: usize| fields.get(index).is_some_and(|text| text.contains('*'));
        cron.day.star |= cron.day.bits == 0xffff_fffe && starred(WEEKDAY);
        cron.weekday.star |= cron.weekday.bits == 0x7f && starred(DAY);
        Some(cron)
    }

    fn is_day(&self, date: Date) -> bool {
        if !self.month.has(date.month()) {
            return false;
        }
        if let Some(day) = self.nearest {
            return working_day(date, day) == date.day();
        }
        if !self.nth.is_empty() {
            return self.nth.iter().any(|nth| nth.is(date));
        }
        let last = self.day.last && date.day() == date.days_in_month();
        let day = self.day.has(date.day()) || last;
        let weekday = self.weekday.has(date.weekday().to_sunday_zero_offset());
        match self.day.star || self.weekday.star {
            true => day && weekday,
            false => day || weekday,
        }
    }

    /// Returns the first time of a day that is not before `from`.
    fn time(&self, from: Time) -> Option<Time> {
        let seconds = self.second.unwrap_or(Field::FIRST);
        let (mut minute, mut second) = (from.minute(), from.second());
        let mut hour = from.hour();
        loop {
            let found = self.hour.from(hour, 24)?;
            if found != hour {
                (hour, minute, second) = (found, 0, 0);
            }
            while let Some(found) = self.minute.from(minute, 60) {
                if found != minute {
                    (minute, second) = (found, 0);
                }
                if let Some(second) = seconds.from(second, 60) {
                    return Time::new(hour, minute, second, 0).ok();
                }
                (minute, second) = (minute + 1, 0);
            }
            (hour, minute, second) = (hour + 1, 0, 0);
        }
    }

    /// Returns the next time after `now`, or `None` if there is none within fifty years.
    pub(super) fn after(&self, now: DateTime) -> Option<DateTime> {
        let whole = now.with().subsec_nanosecond(0).build().ok()?;
        let from = whole.checked_add(jiff::Span::new().seconds(1)).ok()?;
        let (mut date, mut time) = (from.date(), from.time());
        let end = date.year().saturating_add(50);
        while date.year() <= end {
            if self.is_day(date)
                && let Some(time) = self.time(time)
            {
                return Some(date.to_datetime(time));
            }
            (date, time) = (date.tomorrow().ok()?, Time::midnight());
        }
        None
    }
}
