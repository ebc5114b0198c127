//! The session of an accepted minion: its events, its returns and its requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use link::wait::pause;
use link::{Error, Handle, Incoming, Link, Listener, Question};
use smol::future::{FutureExt, pending};
use value::{Map, jid, log, secret};
use wire::{Event, Fire, Id, Request, Runner, tag};

use crate::access::Access;
use crate::admit::{Admission, Admitted};
use crate::cluster::Cluster;
use crate::daemon::connections::Connections;
use crate::data::Data;
use crate::jobs::Jobs;
use crate::jobs::minions::Minion;
use crate::keys::Rotation;
use crate::metrics::Metrics;
use crate::refusals::Refusals;
use crate::runs::Runners;
use crate::store::{self, Applied, Command, Store, now_ms};

/// The maximum number of one minion's events that are being written to the disk. At this number,
/// nothing more is read from the minion until one of them is durable.
const UNACKED: usize = 128;
/// The number of events after which an ack is sent even while more arrive.
const ACK_AFTER: usize = 64;
/// The interval of looks whether a majority of the cluster is in contact again.
const LOOK: Duration = Duration::from_millis(500);

/// Serves the sessions of minions.
pub(crate) struct Session {
    pub(crate) store: Store,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) rotation: Rotation,
    pub(crate) jobs: Jobs,
    pub(crate) access: Access,
    pub(crate) data: Data,
    pub(crate) admission: Arc<Admission>,
    pub(crate) runners: Runners,
    /// The cluster, if this master belongs to one.
    pub(crate) cluster: Option<Cluster>,
}

impl Session {
    /// Decides on the peers that connect, and serves those that are accepted.
    pub(crate) async fn run(self: &Arc<Self>, listener: &Listener) {
        // No deadline: peers connect at any time.
        while let Some(peer) = listener.next().await {
            self.metrics.hellos.add();
            let session = self.clone();
            let served = async move {
                if let Some(admitted) = session.admission.admit(peer).await {
                    // A separate task: this one ends, so the memory that admission took is freed
                    // while the session lasts.
                    smol::spawn(session.serve(admitted)).detach();
                }
            };
            smol::spawn(served).detach();
        }
    }

    /// Serves a minion until its connection ends.
    async fn serve(self: Arc<Self>, admitted: Admitted) {
        let Admitted {
            mut link,
            minion,
            is_call,
        } = admitted;
        let handle = link.handle();
        let number = self.connections.begin(&minion, &handle, is_call).await;
        log::info(format_args!("{} is connected", link.who()));
        self.rotation.announce_to(&minion, &handle);
        if let Some(cluster) = &self.cluster {
            cluster.introduce(&handle).await;
        }
        let mut unacked = Unacked::default();
        let (mut said, mut has_skipped) = (None, false);
        let error = loop {
            let kept_or_came = self.next(&mut link, &unacked, has_skipped).await;
            let incoming = match kept_or_came {
                Ok(Ok(applied)) => {
                    if let Some(durable) = unacked.take(&applied) {
                        #[expect(
                            clippy::let_underscore_must_use,
                            reason = "the session itself reports that it is lost"
                        )]
                        let _ = handle.ack(durable).await;
                    }
                    continue;
                }
                Ok(Err(store::Error::Minority(_))) => {
                    has_skipped = true;
                    unacked = Unacked::default();
                    continue;
                }
                Ok(Err(error)) => {
                    log::error(format_args!("cannot store an event: {error}"));
                    handle.close("cannot store an event");
                    unacked = Unacked::default();
                    continue;
                }
                Err(incoming) => incoming,
            };
            match incoming {
                Ok(Incoming::Event(event)) => {
                    match Box::pin(self.take_event(&minion, event)).await {
                        Ok(begun) => unacked.begun.extend(begun),
                        // The minion keeps the event, and sends it again over its next connection.
                        Err(store::Error::Minority(_)) => has_skipped = true,
                        Err(error) => {
                            log::error(format_args!("cannot store an event: {error}"));
                            handle.close("cannot store an event");
                        }
                    }
                }
                Ok(Incoming::Question(question)) => {
                    let (session, minion) = (self.clone(), minion.clone());
                    smol::spawn(async move { session.answer(&minion, *question).await }).detach();
                }
                Ok(Incoming::Bye(bye)) => {
                    log::info(format_args!("{} disconnects: {}", link.who(), bye.reason));
                    said = Some(bye.reason);
                }
                Ok(Incoming::Ack(_) | Incoming::Masters(_)) => {}
                Err(error) => break error,
            }
        };
        let ended = self.connections.end(&minion, number, &handle, &error, said);
        ended.await;
        log::info(format_args!("{error}"));
    }

    /// Waits for the next stored event (`Ok`) or message (`Err`) of a minion.
    async fn next(
        &self,
        link: &mut Link,
        unacked: &Unacked,
        has_skipped: bool,
    ) -> Result<Result<Applied, store::Error>, Result<Incoming, Error>> {
        let (is_full, handle) = (unacked.is_full(), link.handle());
        // No deadline: the store answers each event.
        let kept = async { Ok(unacked.next().await) };
        let came = async {
            match is_full {
                // No deadline: the link has its own (`idle`).
                false => Err(link.next().await),
                true => pending().await,
            }
        };
        let ends = self.ends_when_majority_is_back(&handle, has_skipped);
        kept.or(came).or(ends).await
    }

    /// Starts to store an event. If the minion may not use its tag, the refusal is logged, and
    /// stored in place of a numbered event: that one is acked, since it would be refused each time.
    async fn take_event(
        &self,
        minion: &Minion,
        event: Event,
    ) -> Result<Option<store::PendingWrite>, store::Error> {
        // The minion masks the secrets that it knows. This master may know others.
        let (mut name, mut data) = (event.tag, secret::map(event.data));
        if let Err(refused) = self.may_fire(minion, &name) {
            let why = format!("key {}: {refused}", minion.key);
            self.refusals.log(minion.id.as_str(), why);
            if event.sequence == 0 {
                return Ok(None);
            }
            data = Map::new().with("error", refused);
            name = format!("pinch/refused/{}", minion.id);
        }
        let at_ms = now_ms();
        let data = data.with("id", minion.id.as_str());
        // A beacon's data is already in the form of Salt's event.
        let data = match tag::Tag::parse(&name) {
            tag::Tag::Beacon { .. } => data,
            _ => data
                .with("tag", name.as_str())
                .with("cmd", "_minion_event")
                .with("ts", at_ms / 1000),
        };
        let begun = self.store.begin(Command::Event {
            tag: name,
            data,
            stamp: event.stamp,
            at_ms,
            origin: minion.origin(event.sequence),
        });
        begun.await.map(Some)
    }

    /// Closes a session in which this master has ignored events, once it is in contact with a majority
    /// again. The minion then connects again, and sends them. Never returns.
    async fn ends_when_majority_is_back<T>(&self, handle: &Handle, has_skipped: bool) -> T {
        if let Some(cluster) = self.cluster.as_ref().filter(|_| has_skipped) {
            while cluster.minority().is_some() {
                pause(LOOK).await;
            }
            handle.close("a majority of the cluster is in contact again");
        }
        // No deadline: it races with the next message of the link.
        pending().await
    }

    /// Checks that a minion may fire an event. It may fire one about a job if it may return that
    /// job.
    fn may_fire(&self, minion: &Minion, name: &str) -> Result<(), String> {
        tag::may_send(&minion.id, name).map_err(|refused| refused.to_string())?;
        match tag::Tag::parse(name) {
            tag::Tag::JobOf { jid, .. } | tag::Tag::StateResult { jid, .. } => {
                let known = self.jobs.answerable(minion, jid);
                known.map(drop).map_err(|(_, text)| text)
            }
            _ => Ok(()),
        }
    }

    /// Fires an event, and answers once it is stored.
    async fn fire_for(
        &self,
        minion: &Minion,
        question: Question,
        asked: Fire,
    ) -> Result<(), Error> {
        let event = Event {
            sequence: 0,
            tag: asked.tag,
            stamp: jid::stamp(),
            data: asked.data,
        };
        let begun = match self.take_event(minion, event).await {
            Ok(Some(begun)) => begun,
            Ok(None) => {
                let text = "this minion may not send the event";
                return question.fail("refused", text).await;
            }
            Err(error) => return question.fail("failed", error.to_string()).await,
        };
        match begun.done().await {
            Ok(applied) if !applied.is_void() => question.done(true).await,
            _ => question.fail("failed", "cannot store the event").await,
        }
    }

    /// Returns why nothing is served, if this master lacks contact to its cluster for too long: a key
    /// that was deleted elsewhere must stop to work.
    fn staleness(&self) -> Option<String> {
        let cluster = self.cluster.as_ref()?;
        cluster.is_stale().then(|| {
            let why = cluster.minority().unwrap_or_default();
            format!("{why}; files, pillar and mine are not served any more (cluster_stale_max)")
        })
    }

    async fn answer(&self, minion: &Minion, question: Question) {
        if let Some(why) = self.staleness() {
            if let Err(error) = question.fail("failed", why).await {
                log::info(format_args!("{error}"));
            }
            return;
        }
        let (access, data, id) = (&self.access, &self.data, &minion.id);
        let answered = match question.request.clone() {
            Request::Return(asked) => self.jobs.store_return(minion, question, asked).await,
            Request::Grains(asked) => data.store_grains(minion, question, asked).await,
            Request::Pillar(asked) => data.pillar(minion, question, asked).await,
            Request::Tops(asked) => data.tops(minion, question, asked).await,
            Request::Options(_) => data.options(minion, question).await,
            Request::MineGet(asked) => data.mine_get(minion, question, asked).await,
            Request::MinePut(asked) => data.mine_put(minion, question, asked).await,
            Request::MineDelete(asked) => data.mine_delete(minion, question, asked).await,
            Request::List(asked) => data.files.list(question, asked).await,
            Request::Stat(asked) => data.files.stat(question, asked).await,
            Request::File(asked) => data.files.file(question, asked).await,
            Request::Push(asked) => data.take_file(id, question, asked).await,
            Request::Publish(asked) => access.publish_for_peer(id, question, asked).await,
            Request::Runner(asked) => self.run_for(id, question, asked).await,
            Request::Fire(asked) => self.fire_for(minion, question, asked).await,
            Request::Ping(_) => question.done(true).await,
            other => {
                let text = format!(
                    "this master does not support the request `{}`",
                    other.kind()
                );
                question.fail("refused", text).await
            }
        };
        if let Err(error) = answered {
            log::info(format_args!("{error}"));
        }
    }

    /// Calls a runner's function if `peer_run` allows it.
    async fn run_for(&self, id: &Id, question: Question, asked: Runner) -> Result<(), Error> {
        match self.access.may_run(id, &asked.fun) {
            Ok(()) => {
                let done = self.runners.run(asked, None).await;
                question.done(done).await
            }
            Err(text) => question.fail("refused", text).await,
        }
    }
}

/// The events that are being written to the disk, in order.
#[derive(Default)]
struct Unacked {
    begun: VecDeque<store::PendingWrite>,
    unsaid: usize,
}

impl Unacked {
    fn is_full(&self) -> bool {
        self.begun.len() >= UNACKED
    }

    /// Waits for the result of the oldest event. It may be dropped at any time without losing a
    /// result.
    async fn next(&self) -> Result<Applied, store::Error> {
        match self.begun.front() {
            Some(begun) => begun.done().await,
            // No deadline: it races with the next message of the link.
            None => pending().await,
        }
    }

    /// Removes the oldest event. Returns the number up to which all events are durable, if an ack
    /// is due: one ack covers many events.
    fn take(&mut self, applied: &Applied) -> Option<u64> {
        self.begun.pop_front();
        self.unsaid += 1;
        let is_last = self.begun.is_empty();
        if is_last {
            // Frees the memory of the queue while the minion is idle.
            self.begun = VecDeque::new();
        }
        let durable = match applied {
            Applied::Event { durable, .. } | Applied::Duplicate { durable } => *durable,
            _ => 0,
        };
        let is_due = durable > 0 && (is_last || self.unsaid >= ACK_AFTER);
        is_due.then(|| {
            self.unsaid = 0;
            durable
        })
    }
}
