//! The master's regular chores, once a minute unless `loop_interval` is set: it removes old events
//! and jobs, expires keys, and fires presence events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::wait::pause;
use state::opts::Opts;
use value::{Map, Value, log};
use wire::{Id, tag};

use crate::access::Access;
use crate::admit::Admission;
use crate::admit::expire::Gone;
use crate::cluster::Cluster;
use crate::daemon::connections::Connections;
use crate::events::Events;
use crate::jobs::minions::Minions;
use crate::keys::Rotation;
use crate::store::{Retention, Store, now_ms};

const EVERY: Duration = Duration::from_secs(60);
/// The interval between checks whether the store exceeds its limits. Little is added in this time.
const LOOK: Duration = Duration::from_secs(1);
/// The pause between two steps of a removal that takes many.
const BREATH: Duration = Duration::from_millis(50);

/// Does the regular chores.
pub(crate) struct Maintenance {
    pub(crate) opts: Arc<Opts>,
    pub(crate) store: Store,
    pub(crate) events: Events,
    pub(crate) minions: Minions,
    pub(crate) connections: Arc<Connections>,
    pub(crate) rotation: Rotation,
    pub(crate) admission: Arc<Admission>,
    pub(crate) access: Access,
    /// The cluster, if this master belongs to one.
    pub(crate) cluster: Option<Cluster>,
}

impl Maintenance {
    /// Does the chores for as long as the master runs.
    pub(crate) async fn run(&self) {
        let (mut known, mut gone) = (BTreeSet::new(), Gone::new());
        loop {
            if self.leads() {
                self.forget_the_old().await;
                self.admission.expire_keys(&mut gone).await;
                self.admission.expire_waiting().await;
                self.admission.forget_instances().await;
                self.admission.forget_deleted().await;
                self.access.forget_expired().await;
            }
            if self.cluster.is_some() && self.leads() {
                self.notice_lost().await;
            }
            self.connections.settle().await;
            self.rotation.check().await;
            if self.opts.flag("presence_events") && self.leads() {
                self.tell_presence(&mut known).await;
            }
            self.until_due().await;
        }
    }

    /// Returns whether this master does the chores that one master of a cluster does for all.
    fn leads(&self) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_none_or(|cluster| cluster.leads().is_some())
    }

    /// Returns the time between two rounds (`loop_interval`).
    fn every(&self) -> Duration {
        let seconds = self.opts.get("loop_interval").and_then(Value::as_float);
        let seconds = seconds.filter(|seconds| *seconds >= 1.0);
        seconds.map_or(EVERY, |seconds| {
            Duration::from_secs_f64(seconds.min(86_400.0))
        })
    }

    fn retention(&self) -> Retention {
        let option = |name: &str, default: u64| {
            let number = self.opts.int(name);
            number.map_or(default, |number| u64::try_from(number).unwrap_or(default))
        };
        let default = Retention::default();
        Retention {
            jobs_seconds: option("keep_jobs_seconds", default.jobs_seconds),
            jobs_bytes: option("keep_jobs_bytes", default.jobs_bytes),
            events_bytes: option("keep_events_bytes", default.events_bytes),
            ..default
        }
    }

    /// Waits until the chores are due again. If the store exceeds its limits before, old rows are
    /// removed at once.
    async fn until_due(&self) {
        let keep = self.retention();
        let until = Instant::now() + self.every();
        while Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            pause(left.min(LOOK)).await;
            if self.leads() && self.store.is_over(keep) {
                self.forget_the_old().await;
            }
        }
    }

    async fn forget_the_old(&self) {
        let keep = self.retention();
        loop {
            match self.store.retain(keep, now_ms()).await {
                Ok(true) => {
                    pause(BREATH).await;
                }
                Ok(false) => return,
                Err(error) => {
                    return log::error(format_args!("cannot delete old jobs and events: {error}"));
                }
            }
        }
    }

    async fn notice_lost(&self) {
        let connections = self.connections.clone();
        if let Err(error) = smol::unblock(move || connections.notice_lost()).await {
            log::error(format_args!("cannot look for lost minions: {error}"));
        }
    }

    /// Fires `salt/presence/change` if the connected minions have changed, then
    /// `salt/presence/present`.
    async fn tell_presence(&self, known: &mut BTreeSet<Id>) {
        let now: BTreeSet<Id> = self.minions.ids().into_iter().collect();
        let listed =
            |ids: &mut dyn Iterator<Item = &Id>| Value::list(ids.map(|id| id.as_str().into()));
        let new = listed(&mut now.difference(known));
        let lost = listed(&mut known.difference(&now));
        if now != *known {
            let data = Map::new().with("new", new).with("lost", lost);
            self.events.fire(tag::CHANGE, data).await;
        }
        let present = listed(&mut now.iter());
        self.events
            .fire(tag::PRESENT, Map::new().with("present", present))
            .await;
        *known = now;
    }
}
