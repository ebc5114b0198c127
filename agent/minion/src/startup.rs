//! [`Startup`]: the work of the daemon when it begins, and when a master is connected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use link::wait::unblock;
use smol::Task;
use state::opts::Opts;
use value::{Map, Value, jid};

use crate::beacon_loop::context;
use crate::refresh::Refresher;
use crate::scheduled_jobs::ScheduledJobs;
use crate::uplink::{Upstream, event};

/// The parts of the daemon that a new connection needs.
#[derive(Debug)]
pub(crate) struct Startup {
    /// The minion's id.
    id: String,
    /// `enable_legacy_startup_events`, which a Salt master's minion obeys.
    has_legacy_events: bool,
    /// `start_event_grains`: the names of the grains in the start events.
    event_grains: Vec<String>,
    opts: Opts,
    scheduled: Arc<ScheduledJobs>,
    refresher: Refresher,
    /// True once the startup states have been started.
    has_begun: AtomicBool,
}

impl Startup {
    pub(crate) fn new(opts: &Opts, scheduled: Arc<ScheduledJobs>, refresher: Refresher) -> Self {
        Self {
            id: opts.id().to_owned(),
            has_legacy_events: opts.flag("enable_legacy_startup_events"),
            event_grains: opts.texts("start_event_grains"),
            opts: opts.clone(),
            scheduled,
            refresher,
            has_begun: AtomicBool::new(false),
        }
    }

    /// Begins to collect the grains and the pillar, and applies the startup states the first time.
    /// Called when a master is connected, or when there will be no master.
    pub(crate) fn begin(&self) {
        let jobs = [
            self.refresher.refresh_grains(),
            self.refresher.refresh_pillar(),
        ];
        jobs.into_iter().flatten().for_each(Task::detach);
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.scheduled.apply_startup_states();
        }
    }

    /// Sends a master that has accepted this minion what it needs: the grains and the mine, and
    /// after the first connection the minion's start events. A Salt master gets these after each
    /// connection, because it does not notice one otherwise.
    pub(crate) async fn greet(&self, upstream: &Upstream, is_first: bool) {
        self.begin();
        self.scheduled.fill_mine();
        let is_salt = upstream.handle().is_some_and(|handle| handle.is_salt());
        if is_first || is_salt {
            let id = &self.id;
            let said = format!("Minion {id} started at {}", jid::asctime());
            let grains = self.event_grains().await;
            let legacy = (!is_salt || self.has_legacy_events).then(|| "minion_start".to_owned());
            for tag in [format!("salt/minion/{id}/start")]
                .into_iter()
                .chain(legacy)
            {
                let mut data = Map::new()
                    .with("pretag", Value::Null)
                    .with("data", said.as_str());
                if let Some(grains) = &grains {
                    data.insert("grains", grains.clone());
                }
                upstream.keep(event(&tag, data)).await;
            }
        }
    }

    /// Returns the grains of `start_event_grains`, if it names any.
    async fn event_grains(&self) -> Option<Map> {
        if self.event_grains.is_empty() {
            return None;
        }
        let (opts, names) = (self.opts.clone(), self.event_grains.clone());
        Some(unblock(move || selected(&context(&opts).grains(), &names)).await)
    }
}

/// Returns the grains with these names, as far as they exist.
fn selected(grains: &Map, names: &[String]) -> Map {
    let is_named = |name: &Value| names.contains(&name.to_text());
    let named = grains.iter().filter(|(name, _)| is_named(name));
    named
        .map(|(name, grain)| (name.clone(), grain.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_event_has_the_grains_that_are_named_and_exist() {
        let grains = Map::new().with("os", "Debian").with("id", "m1");
        let names = ["id", "none"].map(str::to_owned);
        assert_eq!(selected(&grains, &names), Map::new().with("id", "m1"));
    }
}
