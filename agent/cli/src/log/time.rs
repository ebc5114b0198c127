//! The time of a log line, in the machine's time zone.

use jiff::Zoned;
use jiff::fmt::strtime::{BrokenDownTime, Config};

/// Returns the current time.
pub(super) fn now() -> Zoned {
    Zoned::now()
}

/// Formats a time as Python's `strftime` does. An unknown field stays unchanged.
pub(super) fn strftime(layout: &str, moment: &Zoned) -> String {
    let lenient = Config::new().lenient(true);
    // If the layout cannot be formatted, the line shows the layout itself, so that no message is
    // lost.
    BrokenDownTime::from(moment)
        .to_string_with_config(&lenient, layout)
        .unwrap_or_else(|_| layout.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_python_writes_them() {
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::Offset::from_seconds(-5400).unwrap());
        let moment = jiff::Timestamp::UNIX_EPOCH.to_zoned(zone);
        assert_eq!(
            strftime("%d/%b/%y %T %z %! %%", &moment),
            "31/Dec/69 22:30:00 -0130 %! %"
        );
    }
}
