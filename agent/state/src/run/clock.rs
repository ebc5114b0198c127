//! The only code of a run that reads the clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use value::Value;

/// A moment at which something started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    wall: Timestamp,
    at: Instant,
}

impl Stamp {
    /// Returns the current moment.
    pub(super) fn now() -> Self {
        Self {
            wall: Timestamp::now(),
            at: Instant::now(),
        }
    }

    /// Returns the local time of day in the format of `start_time`: `12:34:56.789012`.
    pub(super) fn start_time(&self) -> Value {
        static ZONE: OnceLock<TimeZone> = OnceLock::new();
        let zone = ZONE.get_or_init(TimeZone::system);
        let time = zone.to_datetime(self.wall).time();
        let (hour, minute, second) = (time.hour(), time.minute(), time.second());
        let micros = time.subsec_nanosecond() / 1000;
        let mut text = String::with_capacity(15);
        for (mark, number) in [("", hour), (":", minute), (":", second)] {
            text.push_str(mark);
            two_digits(&mut text, i32::from(number));
        }
        // Like Python's `isoformat`, which omits zero microseconds.
        if micros > 0 {
            text.push('.');
            for number in [micros / 10_000, micros / 100 % 100, micros % 100] {
                two_digits(&mut text, number);
            }
        }
        text.into()
    }

    /// Returns the milliseconds since this moment, in the format of `duration`.
    pub(super) fn duration(&self) -> f64 {
        let micros = u32::try_from(self.at.elapsed().as_micros()).unwrap_or(u32::MAX);
        f64::from(micros) / 1000.0
    }
}

fn two_digits(out: &mut String, number: i32) {
    for digit in [number / 10, number % 10] {
        out.push(char::from(b'0' + digit as u8));
    }
}

/// Sleeps for a number of seconds. An invalid number means no sleep.
pub(super) fn sleep(seconds: f64) {
    std::thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default());
}
