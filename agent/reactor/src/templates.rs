//! [`Templates`]: the context that reactors' templates are rendered in, which is renewed at
//! intervals.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use state::exec::Exec;
use value::Map;

/// The context and the time when it was made. It is kept because reading the grains takes longer
/// than the rest of a reaction.
#[derive(Default)]
pub struct Templates(Mutex<Option<(Instant, Exec)>>);

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").finish_non_exhaustive()
    }
}

impl Templates {
    fn lock(&self) -> MutexGuard<'_, Option<(Instant, Exec)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the context. If it is older than `refresh`, the first caller renews it, while all
    /// others get the old one.
    pub fn context(&self, refresh: Duration, make: impl FnOnce() -> Exec) -> Exec {
        if let Some((since, cx)) = &mut *self.lock() {
            let now = Instant::now();
            if now.duration_since(*since) < refresh {
                return cx.apart();
            }
            *since = now;
        }
        let cx = make();
        cx.set_pillar(Map::new());
        drop(cx.grains());
        *self.lock() = Some((Instant::now(), cx.clone()));
        cx
    }
}
