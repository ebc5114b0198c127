//! [`Startup`]: the work of the daemon when it begins, and when a master is connected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smol::Task;
use value::{Map, Value, jid};

use crate::refresh::Refresher;
use crate::scheduled_jobs::ScheduledJobs;
use crate::uplink::{Upstream, event};

/// The parts of the daemon that a new connection needs.
#[derive(Debug)]
pub(crate) struct Startup {
    /// The minion's id.
    id: String,
    scheduled: Arc<ScheduledJobs>,
    refresher: Refresher,
    /// True once the startup states have been started.
    has_begun: AtomicBool,
}

impl Startup {
    pub(crate) fn new(id: &str, scheduled: Arc<ScheduledJobs>, refresher: Refresher) -> Self {
        Self {
            id: id.to_owned(),
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
    /// after the first connection the minion's start events.
    pub(crate) async fn greet(&self, upstream: &Upstream, is_first: bool) {
        self.begin();
        self.scheduled.fill_mine();
        if is_first {
            let id = &self.id;
            let said = format!("Minion {id} started at {}", jid::asctime());
            for tag in [format!("salt/minion/{id}/start"), "minion_start".to_owned()] {
                let data = Map::new()
                    .with("pretag", Value::Null)
                    .with("data", said.as_str());
                upstream.keep(event(&tag, data)).await;
            }
        }
    }
}
