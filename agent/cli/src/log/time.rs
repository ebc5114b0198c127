//! The time of a log line, in the machine's own time zone.

use jiff::Zoned;
use jiff::fmt::strtime::{BrokenDownTime, Config};

/// Now.
pub(super) fn now() -> Zoned {
    Zoned::now()
}

/// A time as Python's `strftime` writes it; a field that is none stays as it is.
pub(super) fn strftime(layout: &str, moment: &Zoned) -> String {
    let lenient = Config::new().lenient(true);
    // A layout that cannot be written is shown, so that a message is never lost for it.
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
