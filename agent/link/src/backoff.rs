//! Computes the wait before the next try: it doubles up to a maximum, and is random so that
//! machines do not retry in step.

use std::time::Duration;

use value::random;

/// The upper bound of every wait that the settings ask for. Only a master can ask for a longer one.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// Salt's settings for reconnecting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// `recon_default`: the first wait after a lost connection.
    pub recon_default: Duration,
    /// `recon_max`: the longest wait after a lost connection.
    pub recon_max: Duration,
    /// `recon_randomize`: true if the waits are random.
    pub recon_randomize: bool,
    /// `random_reauth_delay`: the maximum of one random wait before the first try after a lost
    /// connection, so that the minions of a fleet do not reconnect at the same moment. Salt's
    /// default of 10 s is not needed here.
    pub random_reauth_delay: Duration,
    /// `acceptance_wait_time`: the wait after a refusal that names no time.
    pub acceptance_wait_time: Duration,
    /// `acceptance_wait_time_max`: the wait after refusals grows up to this; 0 keeps it constant.
    pub acceptance_wait_time_max: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            recon_default: Duration::from_secs(1),
            recon_max: Duration::from_secs(10),
            recon_randomize: true,
            random_reauth_delay: Duration::from_secs(1),
            acceptance_wait_time: Duration::from_secs(10),
            acceptance_wait_time_max: Duration::ZERO,
        }
    }
}

/// Counts the failed tries since the last connection, and computes the waits from them.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    losses: u32,
    refusals: u32,
}

impl Backoff {
    /// Forgets all failed tries.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns the wait after a try that reached no master. `lot` is a random number below 2^32.
    pub fn lost(&mut self, waits: &Waits, lot: u32) -> Duration {
        let longest = waits.recon_max.min(WAIT_MAX);
        let wait = doubled(waits.recon_default, self.losses).min(longest);
        self.losses = self.losses.saturating_add(1);
        if waits.recon_randomize {
            part(wait, lot)
        } else {
            wait
        }
    }

    /// Returns the wait after a refusal. `said` is the wait that the master asked for.
    pub fn refused(&mut self, waits: &Waits, said: Option<Duration>, lot: u32) -> Duration {
        let first = waits.acceptance_wait_time;
        let longest = waits.acceptance_wait_time_max.max(first);
        let own = doubled(first, self.refusals).min(longest).min(WAIT_MAX);
        self.refusals = self.refusals.saturating_add(1);
        // The master's own wait is limited to an hour. Up to a fifth is added at random, because
        // other minions received the same number.
        let wait = said.map_or(own, |said| said.min(Duration::from_secs(3600)));
        wait + part(wait / 5, lot)
    }
}

fn doubled(wait: Duration, times: u32) -> Duration {
    wait.saturating_mul(2_u32.saturating_pow(times.min(16)))
}

/// Returns a duration between half of `wait` and all of it.
fn part(wait: Duration, lot: u32) -> Duration {
    let half = wait / 2;
    half + half.mul_f64(f64::from(lot) / f64::from(u32::MAX))
}

/// Returns the random number for a wait. It protects no secret, so a failure is only logged.
#[must_use]
pub fn lot() -> u32 {
    u32::try_from(random::jitter(u32::MAX.into())).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_longest_and_are_drawn_by_lot() {
        let waits = Waits::default();
        let mut backoff = Backoff::default();
        let all: Vec<u64> = (0..6)
            .map(|_| backoff.lost(&waits, u32::MAX).as_secs())
            .collect();
        assert_eq!(all, [1, 2, 4, 8, 10, 10]);
        assert_eq!(backoff.lost(&waits, 0).as_secs(), 5);
        for _ in 0..100 {
            assert!(backoff.lost(&waits, lot()) <= Duration::from_secs(10));
        }
        backoff.reset();
        assert_eq!(backoff.lost(&waits, u32::MAX).as_secs(), 1);
        let long = Waits {
            recon_max: Duration::from_secs(3600),
            ..waits
        };
        for _ in 0..100 {
            assert!(backoff.lost(&long, lot()) <= WAIT_MAX);
        }
    }

    #[test]
    fn a_refusal_says_when_to_ask_again() {
        let waits = Waits::default();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.refused(&waits, None, 0).as_secs(), 11);
        assert_eq!(backoff.refused(&waits, None, 0).as_secs(), 11);
        let said = Some(Duration::from_secs(100));
        assert_eq!(backoff.refused(&waits, said, u32::MAX).as_secs(), 120);
        let growing = Waits {
            acceptance_wait_time_max: Duration::from_secs(25),
            ..waits
        };
        backoff.reset();
        let all: Vec<u64> = (0..4)
            .map(|_| backoff.refused(&growing, None, 0).as_secs())
            .collect();
        assert_eq!(all, [11, 22, 27, 27]);
    }
}
