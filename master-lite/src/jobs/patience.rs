//! [`Patience`]: the time for which a caller waits for a silent minion before the master asks
//! whether it still works.

use std::time::Duration;

/// The shortest patience: the master asks a minion about its job no earlier than this.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);

/// The meaning of a job's `timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The caller wants the job id only.
    None,
    /// The caller wants the returns.
    Wait(Duration),
}

impl Patience {
    /// Reads the `timeout_s` of a caller. Zero, a negative number and NaN mean no patience; no
    /// number means `default`.
    pub(crate) fn from_timeout(timeout_s: Option<f64>, default: Duration) -> Self {
        let asked = match timeout_s {
            // A fraction of a nanosecond is still a patience, the shortest.
            Some(seconds) if seconds > 0.0 => link::wait::seconds(seconds),
            Some(_) => None,
            None => Some(default),
        };
        asked.map_or(Self::None, |time| Self::Wait(time.max(SHORTEST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_no_patience_or_one_that_a_minion_can_keep() {
        let default = Duration::from_secs(5);
        let of = |seconds| Patience::from_timeout(Some(seconds), default);
        for none in [0.0, -0.0, -1.0, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(of(none), Patience::None, "{none}");
        }
        for short in [f64::MIN_POSITIVE, 1e-9, 0.5, 1.0] {
            assert_eq!(of(short), Patience::Wait(SHORTEST), "{short}");
        }
        assert_eq!(of(7.5), Patience::Wait(Duration::from_millis(7500)));
        for long in [f64::INFINITY, f64::MAX, 1e7] {
            assert_eq!(of(long), Patience::Wait(link::wait::LONGEST), "{long}");
        }
        assert_eq!(
            Patience::from_timeout(None, default),
            Patience::Wait(default)
        );
        let zero = Patience::from_timeout(None, Duration::ZERO);
        assert_eq!(zero, Patience::Wait(SHORTEST));
    }
}
