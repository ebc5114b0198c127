//! [`Through`]: requests for minions that are connected to other masters, and the master that passes
//! them on.

use std::time::Duration;

use link::PublicKey;
use value::Value;
use wire::{Id, Request};

use super::requests::Ask;
use super::{ASK_MAX, Cluster};
use crate::jobs::minions::{Answered, Relay, Unanswered};

/// The maximum time for the other master to apply what this one has applied.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);
/// The beginning of an answer that says that the minion itself refused.
const REFUSED: &str = "refused: ";
/// The answer about a minion that has left the master in the meantime.
const GONE: &str = "it is not connected to that master any more";

/// Another master, through which minions are reached.
pub(super) struct Through {
    cluster: Cluster,
    number: u64,
}

impl Through {
    pub(super) fn new(cluster: &Cluster, number: u64) -> Self {
        Self {
            cluster: cluster.clone(),
            number,
        }
    }
}

impl Relay for Through {
    fn ask(&self, id: Id, key: PublicKey, request: Request) -> Answered {
        let (cluster, number) = (self.cluster.clone(), self.number);
        Box::pin(async move {
            let index = cluster.status().applied;
            let ask = Ask::Minion {
                id: id.clone(),
                key,
                index,
                request,
            };
            let answer = cluster.ask(number, &ask, ASK_MAX + CATCH_UP_MAX).await;
            answer.map_err(|error| match error.strip_prefix(REFUSED) {
                Some(why) => Unanswered::Refused(why.to_owned()),
                None => {
                    Unanswered::Lost(format!("{id}, through {}: {error}", cluster.name(number)))
                }
            })
        })
    }
}

impl Cluster {
    /// Passes a request of another master on to a minion that is connected to this one.
    pub(super) async fn pass_on(
        &self,
        (id, key): (Id, PublicKey),
        index: u64,
        request: Request,
    ) -> Result<Value, String> {
        // The minion may answer at once, with the return of a job that must be known here.
        if !self.0.group.has_applied(index, CATCH_UP_MAX).await {
            return Err("that master is behind".to_owned());
        }
        let minion = self.0.minions.get_here(&id);
        let minion = minion.filter(|minion| minion.key == key).ok_or(GONE)?;
        let answer = link::wait::within(ASK_MAX, minion.ask(&id, request)).await;
        match answer.ok_or("no answer in time")? {
            Ok(value) => Ok(value),
            Err(Unanswered::Refused(why)) => Err(format!("{REFUSED}{why}")),
            Err(Unanswered::Lost(why)) => Err(why),
        }
    }
}
