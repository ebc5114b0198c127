//! [`Clock`]: compares the clock of this machine with those of the other masters.

use std::sync::atomic::{AtomicBool, Ordering};

use value::log;

use super::notes::Others;
use crate::store::clock;

/// Whether the clock of this machine is wrong.
#[derive(Debug, Default)]
pub(super) struct Clock(AtomicBool);

impl Clock {
    /// Makes the time of this master follow the clocks of most masters, and logs when this machine's
    /// becomes wrong or right.
    pub(super) fn follow(&self, others: &Others) {
        let ahead_ms = clock::follow(others.clocks().into_values().collect());
        let was_wrong = self.0.swap(ahead_ms.is_some(), Ordering::Relaxed);
        match ahead_ms {
            Some(ahead_ms) if !was_wrong => log::warning(format_args!(
                "The clock of this machine is wrong: it is {} s {} those of most masters of the cluster, whose time is used instead. Set it, and synchronize it (NTP)",
                ahead_ms.unsigned_abs() / 1000,
                if ahead_ms > 0 { "ahead of" } else { "behind" },
            )),
            None if was_wrong => log::info(format_args!(
                "The clock of this machine agrees with those of most masters again"
            )),
            _ => {}
        }
    }
}
