//! [`Templates`]: the context that reactors' templates are rendered in, made once in a while.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use state::exec::Exec;
use value::Map;

/// The context, and since when. Reading the grains takes longer than all else of a reaction.
#[derive(Default)]
pub struct Templates(Mutex<Option<(Instant, Exec)>>);

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").finish_non_exhaustive()
    }
}

impl Templates {
    /// The context, made anew when it is older than `refresh`.
    pub fn context(&self, refresh: Duration, make: impl FnOnce() -> Exec) -> Exec {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, cx)) = &*known
            && since.elapsed() < refresh
        {
            return cx.apart();
        }
        drop(known);
        let cx = make();
        cx.set_pillar(Map::new());
        let _ = cx.grains();
        let made = Some((Instant::now(), cx.clone()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = made;
        cx
    }
}
