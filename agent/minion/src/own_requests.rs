//! [`OwnRequests`]: the requests that the daemon answers itself, no matter who sends them.

use std::sync::Arc;

use value::Value;
use wire::Request;

use crate::beacon_loop::BeaconLoop;
use crate::jobs::Jobs;
use crate::refresh::Refresher;
use crate::scheduled_jobs::ScheduledJobs;

/// The parts of the daemon that masters and the processes of this machine ask. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct OwnRequests {
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) scheduled: Arc<ScheduledJobs>,
    pub(crate) beacons: Arc<BeaconLoop>,
    pub(crate) refresher: Refresher,
}

impl OwnRequests {
    /// Answers a request. Returns `None` for a request that the daemon does not answer itself.
    pub(crate) async fn answer(&self, request: &Request) -> Option<Value> {
        Some(match request {
            Request::FindJob(asked) => self.jobs.find(&asked.jid).map_or(Value::Null, Value::Map),
            Request::Running(_) => self.jobs.to_value(),
            Request::SignalJob(asked) => {
                let sent = self.jobs.signal(&asked.jid, asked.signal);
                sent.unwrap_or_default().into()
            }
            Request::Beacons(asked) => self.beacons.manage(asked).into(),
            Request::Schedule(asked) => self.scheduled.manage(asked).into(),
            Request::Refresh(asked) => {
                self.refresher.refreshed(asked).await;
                true.into()
            }
            _ => return None,
        })
    }
}
