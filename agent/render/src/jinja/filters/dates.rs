//! The filters `strftime` and `date_format`.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use minijinja::{Error, State, Value};

use super::super::args::Args;
use super::super::errors::value_error;
use super::super::print;
use super::Table;

/// The filters of this topic.
pub(super) const FILTERS: Table = &[("strftime", strftime), ("date_format", strftime)];

fn strftime(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let value = args.subject()?;
    let format = args.text_or(1, "format", "%Y-%m-%d")?;
    let fail = || value_error(format!("Unable to parse {}", print::str(value)));
    let date = match value.as_str() {
        None if value.is_none() => Some(Zoned::now()),
        None => f64::try_from(value.clone()).ok().and_then(at),
        Some(text) => parse(text.trim()),
    };
    let date = date.ok_or_else(fail)?;
    let text = jiff::fmt::strtime::BrokenDownTime::from(&date)
        .to_string(&format)
        .map_err(|error| value_error(error.to_string()))?;
    Ok(Value::from(text))
}

/// Returns the local time of a number of seconds since 1970.
fn at(seconds: f64) -> Option<Zoned> {
    let stamp = Timestamp::from_microsecond((seconds * 1e6).round() as i64).ok()?;
    Some(stamp.to_zoned(TimeZone::system()))
}

fn parse(text: &str) -> Option<Zoned> {
    if let Ok(seconds) = text.trim_start_matches('@').parse::<f64>() {
        return at(seconds);
    }
    let now = Zoned::now();
    match text {
        "now" => return Some(now),
        "today" => return now.start_of_day().ok(),
        "tomorrow" => return now.tomorrow().ok()?.start_of_day().ok(),
        "yesterday" => return now.yesterday().ok()?.start_of_day().ok(),
        _ => {}
    }
    let text = text.replace('/', "-");
    let date = text
        .parse::<DateTime>()
        .or_else(|_| text.parse::<Date>().map(|date| date.at(0, 0, 0, 0)));
    // A time with an explicit zone is shown in UTC, as with timelib.
    let zoned = || {
        text.parse::<Timestamp>()
            .ok()
            .map(|stamp| stamp.to_zoned(TimeZone::UTC))
    };
    date.ok()
        .and_then(|date| date.to_zoned(TimeZone::system()).ok())
        .or_else(zoned)
}
