//! [`Clock`]: compares the clock of this machine with those of the other masters.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use value::log;

use super::lock;
use super::notes::Others;
use crate::store::clock;

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
}

impl Clock {
    /// Makes the time of this master follow the clocks of most masters, and logs when this machine's
    /// becomes wrong or right.
    pub(super) fn follow(&self, others: &Others) {
        let own = clock::machine_ms();
        let mut state = lock(&self.0);
        let Some(ahead_ms) = clock::ahead(own, others.clocks().into_values().collect()) else {
            clock::set(own);
            if std::mem::take(&mut *state).is_wrong {
                log::info(format_args!(
                    "The clock of this machine agrees with those of most masters again"
                ));
            }
            return;
        };
        if state.differs.get_or_insert_with(Instant::now).elapsed() < LASTS {
            return;
        }
        clock::set(own.saturating_add_signed(-ahead_ms));
        if !std::mem::replace(&mut state.is_wrong, true) {
            log::warning(format_args!(
                "The clock of this machine is wrong: it is {} s {} those of most masters of the cluster, whose time is used instead. Set it, and synchronize it (NTP)",
                ahead_ms.unsigned_abs() / 1000,
                if ahead_ms > 0 { "ahead of" } else { "behind" },
            ));
        }
    }
}
