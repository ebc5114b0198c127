//! [`Leading`]: the work that one master of a cluster does for all of them: reactions, and events for
//! returners. A master that belongs to no cluster does it always.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use link::wait::pause;
use smol::Task;
use value::log;

use crate::cluster::Cluster;
use crate::event_return::{EventReturn, Following};
use crate::reactor::Reactor;
use crate::store::Error;

/// The time after which a leader that could not begin tries it again.
const AGAIN: Duration = Duration::from_millis(200);

/// The work in a term.
type Running = (u64, Arc<Reactor>, Vec<Task<()>>);

/// The work of a leader.
pub(super) struct Leading {
    pub(super) event_return: EventReturn,
    pub(super) returners: Vec<Following>,
}

impl Leading {
    /// Begins the work of a master that is alone. It lasts until the returned tasks are dropped.
    pub(super) async fn alone(&self, reactor: &Arc<Reactor>) -> Result<Vec<Task<()>>, Error> {
        reactor.begin().await?;
        self.event_return.begin(&self.returners).await
    }

    /// Begins the work of the leader of this term.
    async fn lead(&self, reactor: &Reactor, term: u64) -> Result<Running, Error> {
        let reactor = reactor.in_term(term).await?;
        match self.alone(&reactor).await {
            Ok(tasks) => Ok((term, reactor, tasks)),
            Err(error) => {
                reactor.stop().await;
                Err(error)
            }
        }
    }

    /// Works while this master leads the cluster, for as long as it runs.
    pub(super) async fn follow(&self, cluster: &Cluster, reactor: Arc<Reactor>) -> Infallible {
        reactor.set_leader(false);
        let mut running: Option<Running> = None;
        loop {
            let term = cluster.led();
            let runs_in = |running: &Option<Running>| running.as_ref().map(|(term, ..)| *term);
            if term != runs_in(&running) {
                if let Some((term, reactor, tasks)) = running.take() {
                    log::warning(format_args!(
                        "This master does not lead the cluster any more (term {term}): another one reacts to events"
                    ));
                    drop(tasks);
                    reactor.stop().await;
                }
                if let Some(term) = term {
                    log::info(format_args!(
                        "This master leads the cluster (term {term}) and reacts to events"
                    ));
                    match self.lead(&reactor, term).await {
                        Ok(begun) => running = Some(begun),
                        // It leads no more, or leads again in a moment.
                        Err(error) => {
                            log::warning(format_args!("cannot begin to react to events: {error}"));
                        }
                    }
                }
            }
            match term == runs_in(&running) {
                true => cluster.led_changes().await,
                false => pause(AGAIN).await,
            }
        }
    }
}
