//! [`Upstream`]: a connection to a master, or to one of several, with the events and returns that
//! it has not received yet.
//!
//! Several masters that are served at the same time (`master:` as a list) have one `Upstream` each,
//! so that a master that is away does not delay the others. With `master_type: failover` there is a
//! single one, whose master changes. So it is for the masters of a cluster ([`cluster`]).
//!
//! This folder is the only place that names the protocol in which a master is spoken to
//! ([`protocol`]): [`Session`] connects, [`Link`] receives, [`Handle`] sends. A Salt master is the
//! folder `salt`.

mod cluster;
mod connection;
mod deliver;
mod enroll;
mod minority;
pub(crate) mod next_key;
mod part;
mod protocol;
#[cfg(feature = "salt-master")]
mod salt;
mod session;
mod settings;
mod takeover;
mod upstreams;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::wait::{pause, unblock};
use link::{Master, MasterList, PublicKey};
use smol::Task;
use state::opts::Opts;
use value::{Map, jid, log};
use wire::{Event, Masters, Request, Return, Welcome, bound_grains};

use crate::error::Error;
use crate::jobs::Jobs;
use crate::spool::{self, Entry, Spool};
use crate::wakeup::Wakeup;
use cluster::Cluster;
use deliver::{Delivery, DurableUpTo, deliver, forget};
use minority::Minority;
use protocol::Protocols;
use session::Setup;

pub(crate) use connection::{Answerer, ConnectionError, Handle, Incoming, Link, PendingRequest};
pub(crate) use session::{Session, connect_once, take_masters};
pub use settings::know_token;
pub(crate) use settings::{alive_interval, startup_delay};
pub use takeover::Takeover;
pub(crate) use upstreams::Upstreams;

/// The time that is left for the goodbye message to be sent.
const GOODBYE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Upstream {
    masters: Vec<Master>,
    /// The first master, by which the cluster knows the session.
    name: String,
    cluster: Arc<Cluster>,
    jobs: Arc<Jobs>,
    protocols: Arc<Protocols>,
    minority: Mutex<Minority>,
    spool: Arc<Spool>,
    filled: Wakeup,
    /// The jobs whose returns are in the spool, or were until a moment ago, and the numbers of the
    /// returns.
    returns: Arc<Mutex<Vec<(String, u64)>>>,
    /// The connection, while there is one.
    handle: Mutex<Option<Handle>>,
    /// The grains that the key is bound to, as the master stated them last.
    bound: Mutex<Map>,
    /// The reason why there is no connection.
    problem: Mutex<Option<String>>,
}

/// Returns the folder of an upstream's spool. If there are several upstreams, the folder is named
/// after the first master.
fn folder(opts: &Opts, masters: &[Master], is_only: bool) -> PathBuf {
    let cache = opts.cachedir();
    match masters.first().filter(|_| !is_only) {
        None => cache.join("spool"),
        Some(master) => {
            let plain = |letter: char| match letter {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => letter,
                _ => '_',
            };
            let name: String = master.to_string().chars().map(plain).collect();
            cache.join("spools").join(name)
        }
    }
}

impl Upstream {
    /// Opens the upstreams of the configuration. `jobs` are those of the daemon.
    fn all(opts: &Opts, jobs: &Arc<Jobs>) -> Result<Vec<Arc<Self>>, Error> {
        let groups = settings::groups(opts)?;
        let protocols = Arc::new(Protocols::open(opts)?);
        let is_only = groups.len() == 1;
        let name = |masters: &Vec<Master>| masters.first().map(Master::to_string);
        let names = groups.iter().filter_map(name).collect();
        let cluster = Arc::new(Cluster::open(opts, names));
        if !spool::LASTS {
            log::warning(format_args!(
                "this build has no persistent spool: events and returns that wait for a master are kept in memory, and are lost when the daemon stops"
            ));
        }
        let open = |masters: Vec<Master>| {
            let folder = folder(opts, &masters, is_only);
            Ok(Arc::new(Self {
                name: name(&masters).unwrap_or_default(),
                cluster: cluster.clone(),
                jobs: jobs.clone(),
                protocols: protocols.clone(),
                minority: Mutex::default(),
                spool: Arc::new(Spool::open(&folder, spool::Limits::default())?),
                masters,
                filled: Wakeup::new(),
                returns: Arc::default(),
                handle: Mutex::default(),
                bound: Mutex::default(),
                problem: Mutex::default(),
            }))
        };
        groups.into_iter().map(open).collect()
    }

    /// Creates the session with the masters. `program` is the version of this program.
    pub(crate) fn session(&self, opts: &Opts, program: &str) -> Result<Session, Error> {
        let setup = Setup {
            opts,
            epoch: self.spool.epoch(),
            program,
            jobs: self.jobs.clone(),
            protocols: self.protocols.clone(),
            serves: true,
        };
        Session::new(&setup, self.masters.clone())
    }

    /// Returns the masters of the cluster, if this connection is with one of them.
    fn list(&self) -> Option<Arc<MasterList>> {
        self.cluster.list(&self.name)
    }

    /// Returns whether another connection serves the minion in place of this one.
    pub(crate) fn is_replaced(&self) -> bool {
        self.cluster.is_replaced(&self.name)
    }

    /// Returns whether this connection is needed no more: another one serves the minion, and the
    /// master has everything in the spool.
    pub(crate) fn is_over(&self) -> bool {
        self.is_replaced() && self.spool.is_empty()
    }

    fn minority(&self) -> MutexGuard<'_, Minority> {
        self.minority.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a master of a cluster does not answer any more, so that the minion connects to the
    /// next one within seconds. Never returns for any other master, whose loss QUIC notices.
    pub(crate) async fn silence(&self, handle: &Handle, every: Duration) -> ConnectionError {
        while self.list().is_none() {
            pause(every).await;
        }
        handle.silence(every).await
    }

    /// Stores the masters of the cluster, which a master has sent.
    async fn take_masters(&self, master: Option<PublicKey>, masters: Masters) {
        let Some(master) = master else { return };
        let (cluster, name) = (self.cluster.clone(), self.name.clone());
        unblock(move || cluster.take(Some(&name), &master, masters)).await;
    }

    /// Records a new connection, and removes what the master has from the spool. Returns the number
    /// up to which the master has everything on its disk.
    pub(crate) fn connected(&self, link: &Link, welcome: &Welcome) -> u64 {
        let is_known = welcome.epoch == self.spool.epoch();
        let durable = if is_known { welcome.durable } else { 0 };
        forget(&self.spool, durable);
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = bound_grains(&welcome.bound);
        self.has_handle(Some(link.handle()));
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
        durable
    }

    /// Records that the connection is lost. Returns true if it was of no use, and no other master is
    /// better.
    pub(crate) fn disconnected(&self) -> bool {
        self.has_handle(None);
        self.minority().ended()
    }

    /// Records why there is no connection.
    pub(crate) fn failed(&self, problem: String) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
    }

    /// Returns why there is no connection, if that is known.
    pub(crate) fn problem(&self) -> Option<String> {
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.clone()
    }

    fn has_handle(&self, handle: Option<Handle>) {
        *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    }

    /// Returns the sending side of the connection, while there is one.
    pub(crate) fn handle(&self) -> Option<Handle> {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        handle.clone()
    }

    /// Returns the grains that the key is bound to.
    pub(crate) fn bound_grains(&self) -> Map {
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.clone()
    }

    fn returns(&self) -> MutexGuard<'_, Vec<(String, u64)>> {
        self.returns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true while the master has not confirmed a job's return. On a bad link this may last
    /// long.
    pub(crate) fn has_return(&self, jid: &str) -> bool {
        let waits = |(of, sequence): &(String, u64)| of == jid && self.spool.is_waiting(*sequence);
        self.returns().iter().any(waits)
    }

    /// Stores an event or a return on disk, from where it is sent. Returns its number.
    async fn push(&self, entry: Entry) -> Result<u64, spool::Error> {
        let spool = self.spool.clone();
        let sequence = unblock(move || spool.push(entry)).await?;
        self.filled.ring();
        Ok(sequence)
    }

    /// Stores an event on disk, from where it is sent. Returns true on success.
    pub(crate) async fn keep(&self, event: Event) -> bool {
        let pushed = self.push(event.into()).await;
        pushed
            .map_err(|error| log::error(format_args!("{error}")))
            .is_ok()
    }

    /// Stores a return on disk, from where it is sent. If the disk fails, the return is sent to the
    /// master at once.
    pub(crate) async fn keep_return(&self, answer: Return) {
        let error = match self.push(answer.clone().into()).await {
            Ok(sequence) => {
                let mut returns = self.returns();
                returns.retain(|(_, sequence)| self.spool.is_waiting(*sequence));
                returns.push((answer.jid, sequence));
                return;
            }
            Err(error) => error,
        };
        log::error(format_args!("{error}"));
        let Some(master) = self.handle() else { return };
        if let Err(error) = sent_at_once(&master, answer).await {
            log::error(format_args!(
                "cannot send the return, which is lost: {error}"
            ));
        }
    }

    /// Speaks with a master until the connection is lost, and returns the reason of the loss.
    /// `durable` is the number up to which the master has everything, and `take` receives its
    /// requests.
    pub(crate) async fn speak(
        &self,
        mut link: Link,
        durable: u64,
        take: impl Fn(Request, Answerer),
    ) -> ConnectionError {
        let safe = Arc::new(DurableUpTo::new(durable));
        let sender = self.send(link.handle(), safe.clone());
        let error = loop {
            // No deadline: the link has its own (`idle`).
            match link.next().await {
                Ok(Incoming::Ack(sequence)) => {
                    safe.is(sequence);
                    forget(&self.spool, sequence);
                }
                Ok(Incoming::Request(request, answerer)) => take(*request, answerer),
                Ok(Incoming::Masters(masters)) => self.take_masters(link.key(), masters).await,
                Ok(Incoming::Bye(reason)) => {
                    log::warning(format_args!(
                        "the master is closing the connection: {reason}"
                    ));
                    let has_no_majority = reason == wire::NO_MAJORITY;
                    if let Some(key) = link.key().filter(|_| has_no_majority)
                        && self.minority().stated(key)
                    {
                        link.handle().close(&reason);
                    }
                }
                Err(error) => break error,
            }
            // If returns are still to be delivered, the connection ends later.
            if self.is_over() {
                link.handle().close("replaced");
            }
        };
        sender.cancel().await;
        error
    }

    /// Begins to send what the spool has over a connection. The connection is closed when that
    /// fails.
    fn send(&self, handle: Handle, safe: Arc<DurableUpTo>) -> Task<()> {
        let (spool, filled) = (self.spool.clone(), self.filled.clone());
        let returns = self.returns.clone();
        smol::spawn(async move {
            let moved = |jid: &str, sequence| {
                let mut returns = returns.lock().unwrap_or_else(PoisonError::into_inner);
                returns.retain(|(of, _)| of != jid);
                returns.push((jid.to_owned(), sequence));
            };
            let delivery = Delivery {
                spool: &spool,
                handle: &handle,
                safe: &safe,
                moved: &moved,
            };
            if let Err(error) = deliver(delivery, &filled).await {
                log::debug(format_args!("{error}"));
                handle.close("delivery failed");
            }
        })
    }

    /// Says goodbye to the master, and closes the connection.
    pub(crate) async fn drain(&self) {
        if let Some(master) = self.handle() {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "the connection is closed in any case"
            )]
            let _ = master.bye("the minion is stopping").await;
            master.close("the minion is stopping");
            // The packet that closes the connection needs a moment to be sent.
            pause(GOODBYE).await;
        }
    }
}

/// Creates an event of this moment.
pub(crate) fn event(tag: &str, data: Map) -> Event {
    Event {
        sequence: 0,
        tag: tag.to_owned(),
        stamp: jid::stamp(),
        data,
    }
}

/// The number of attempts to send a return that is in memory only to a master that has no room for
/// it, and (`AGAIN`) the time between them.
const TRIES: u32 = 6;
const AGAIN: Duration = Duration::from_secs(5);

/// Sends the master a return that the spool could not store. If the master has no room for it, this
/// is repeated a few times.
async fn sent_at_once(master: &Handle, answer: Return) -> Result<(), ConnectionError> {
    let mut tries = 1;
    loop {
        let sent = async { master.ask(answer.clone()).await?.done().await };
        match sent.await {
            Err(error) if matches!(error.answered(), Some(("busy", _))) && tries < TRIES => {
                tries += 1;
                pause(AGAIN).await;
            }
            done => return done.map(|_| ()),
        }
    }
}
