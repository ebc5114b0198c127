//! [`Clock`]: compares the clock of this machine with those of the other masters.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use value::log;

use super::lock;
use super::notes::Others;
use crate::store::clock::{self, Compared};

/// The time for which a clock must differ to be wrong: a master that was paused reads old notes first.
const LASTS: Duration = Duration::from_secs(2);

/// The clock of this machine.
#[derive(Debug, Default)]
pub(super) struct Clock(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The time since which it differs.
    differs: Option<Instant>,
    is_wrong: bool,
    /// True once this master has a time that most masters agree with.
    has_time: bool,
}

impl Clock {
    /// Makes the time of this master follow the clocks of most masters, and logs when this machine's
    /// becomes wrong or right. While no majority of the `voters` agrees, the time continues from the last
    /// comparison.
    pub(super) fn follow(&self, others: &Others, voters: usize) {
        let own = value::clock::now_ms();
        let mut state = lock(&self.0);
        let clocks: Vec<u64> = others.clocks().into_values().collect();
        match clock::compared(own, &clocks, voters) {
            Compared::Unknown => {}
            Compared::Right => {
                clock::set(own);
                state.note_right();
            }
            Compared::Wrong(ahead_ms) => {
                if state.has_lasted() {
                    clock::set(own.saturating_add_signed(-ahead_ms));
                    state.note_wrong(ahead_ms);
                }
            }
        }
    }
}

impl State {
    /// Returns true if the clock has differed for long enough, or this master has no time yet.
    fn has_lasted(&mut self) -> bool {
        let since = *self.differs.get_or_insert_with(Instant::now);
        !self.has_time || since.elapsed() >= LASTS
    }

    fn note_right(&mut self) {
        let before = std::mem::replace(
            self,
            Self {
                has_time: true,
                ..Self::default()
            },
        );
        if before.is_wrong {
            log::info("The clock of this machine agrees with those of most masters again");
        }
    }

    fn note_wrong(&mut self, ahead_ms: i64) {
        self.has_time = true;
        if !std::mem::replace(&mut self.is_wrong, true) {
            log::warning(format_args!(
                "The clock of this machine is wrong: it is {} s {} those of most masters of the cluster, whose time is used instead. Set it, and synchronize it (NTP)",
                ahead_ms.unsigned_abs() / 1000,
                if ahead_ms > 0 { "ahead of" } else { "behind" },
            ));
        }
    }
}
