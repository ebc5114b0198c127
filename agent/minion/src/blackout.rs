//! [`Blackout`]: with `minion_blackout` in its pillar or grains, a minion refuses the jobs of its
//! masters, except those that `minion_blackout_whitelist` names.

use std::sync::{Mutex, MutexGuard, PoisonError};

use value::{Map, Value};
use wire::Job;

/// The option of a job that lists the functions that may run, once for each source of a blackout. Only
/// the daemon sets it.
const ALLOWED: &str = "minion_blackout";
/// The function that always runs, because it can end a blackout.
const REFRESH: &str = "saltutil.refresh_pillar";
/// The text of a refused call, which is Salt's.
pub(crate) const REFUSED: &str = "Minion in blackout mode. Set 'minion_blackout' to False in pillar or grains to resume operations. Only saltutil.refresh_pillar allowed in blackout mode.";

/// The blackouts of the pillar and of the grains that the daemon had last. As in Salt, calls of
/// `salt-call` and jobs of the schedule run.
#[derive(Debug, Default)]
pub(crate) struct Blackout {
    of_pillar: Mutex<Option<Value>>,
    of_grains: Mutex<Option<Value>>,
}

/// Returns the functions that a blackout allows; `None` if there is no blackout.
fn allowed(data: &Map) -> Option<Value> {
    let is_on = data.get("minion_blackout").is_some_and(Value::is_true);
    let names = data.get("minion_blackout_whitelist").map(Value::texts);
    is_on.then(|| Value::list(names.unwrap_or_default().into_iter().map(Value::from)))
}

impl Blackout {
    /// Applies a pillar that was compiled again.
    pub(crate) fn has_pillar(&self, pillar: &Map) {
        *lock(&self.of_pillar) = allowed(pillar);
    }

    /// Applies grains that were collected again.
    pub(crate) fn has_grains(&self, grains: &Map) {
        *lock(&self.of_grains) = allowed(grains);
    }

    /// Sets in the options of a master's job what may run. Replaces what the master has set.
    pub(crate) fn mark(&self, job: &mut Job) {
        let lists = [&self.of_pillar, &self.of_grains].map(|list| lock(list).clone());
        let lists: Vec<Value> = lists.into_iter().flatten().collect();
        job.options.remove(ALLOWED);
        if !lists.is_empty() {
            job.options.insert(ALLOWED, lists);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a blackout refuses that a job calls a function.
pub(crate) fn refuses(job: &Job, fun: &str) -> bool {
    let lists = job.options.get(ALLOWED).and_then(Value::as_list);
    let has = |list: &Value| list.texts().iter().any(|name| name == fun);
    fun != REFRESH && !lists.unwrap_or_default().iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduled_jobs::own_job;

    fn data(whitelist: &[&str]) -> Map {
        let names = whitelist.iter().copied().map(Value::from);
        Map::new()
            .with("minion_blackout", true)
            .with("minion_blackout_whitelist", Value::list(names))
    }

    fn marked(blackout: &Blackout) -> Job {
        let of_master = Map::new().with(ALLOWED, Value::list([]));
        let mut job = own_job("test.ping", Vec::new(), of_master);
        blackout.mark(&mut job);
        job
    }

    #[test]
    fn a_blackout_refuses_all_functions_that_it_does_not_name() {
        let blackout = Blackout::default();
        assert!(!refuses(&marked(&blackout), "test.ping"));
        blackout.has_pillar(&data(&["test.version"]));
        let job = marked(&blackout);
        assert!(refuses(&job, "test.ping"));
        assert!(!refuses(&job, "test.version"));
        assert!(!refuses(&job, REFRESH));
        blackout.has_pillar(&Map::new().with("minion_blackout", false));
        assert!(!refuses(&marked(&blackout), "test.ping"));
    }

    #[test]
    fn blackouts_of_pillar_and_grains_must_both_allow_a_function() {
        let blackout = Blackout::default();
        blackout.has_pillar(&data(&["test.ping", "test.version"]));
        blackout.has_grains(&data(&["test.ping"]));
        let job = marked(&blackout);
        assert!(!refuses(&job, "test.ping"));
        assert!(refuses(&job, "test.version"));
    }
}
