//! [`Upstream`]: a connection to a master, or to one of several, with the events and returns that
//! it has not received yet.
//!
//! Several masters that are served at the same time (`master:` as a list) have one `Upstream` each,
//! so that a master that is away does not delay the others. With `master_type: failover` there is a
//! single one, whose master changes.

pub(crate) mod deliver;
pub(crate) mod enroll;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::wait::pause;
use link::{Handle, Incoming, Link, Master, Session, Status};
use smol::future::FutureExt;
use state::opts::Opts;
use value::{Map, log};
use wire::{Event, Return, bound_grains};

use crate::daemon::Shared;
use crate::error::Error;
use crate::orphans;
use crate::settings::{self, Failover};
use crate::spool::{self, Entry, Spool};
use crate::uplink::deliver::{Delivery, DurableUpTo, Wakeup, deliver, forget};

/// The time that is left for the goodbye message to be sent.
const GOODBYE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Upstream {
    masters: Vec<Master>,
    spool: Arc<Spool>,
    filled: Wakeup,
    /// The jobs whose returns are in the spool, or were until a moment ago, and the numbers of the
    /// returns.
    returns: Arc<Mutex<Vec<(String, u64)>>>,
    /// The connection, while there is one.
    handle: Mutex<Option<Handle>>,
    /// The grains that the key is bound to, as the master stated them last.
    bound: Mutex<Map>,
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
    /// Opens the upstreams of the configuration.
    pub(crate) fn all(opts: &Opts) -> Result<Vec<Self>, Error> {
        let groups = settings::groups(opts)?;
        let is_only = groups.len() == 1;
        if !spool::LASTS {
            log::warning(format_args!(
                "this build has no persistent spool: events and returns that wait for a master are kept in memory, and are lost when the daemon stops"
            ));
        }
        let open = |masters: Vec<Master>| {
            let folder = folder(opts, &masters, is_only);
            Ok(Self {
                spool: Arc::new(Spool::open(&folder, spool::Limits::default())?),
                masters,
                filled: Wakeup::new(),
                returns: Arc::default(),
                handle: Mutex::default(),
                bound: Mutex::default(),
            })
        };
        groups.into_iter().map(open).collect()
    }

    pub(crate) fn session(&self, opts: &Opts, program: &str) -> Result<Session, Error> {
        let masters = self.masters.clone();
        let options = settings::session(opts, masters, self.spool.epoch(), program)?;
        let evidence = enroll::evidence(opts, &options.pair.public())?;
        let mut session = Session::new(options);
        session.show(evidence);
        Ok(session)
    }

    fn connected(&self, handle: Option<Handle>) {
        *self.handle.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    }

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
        let sequence = smol::unblock(move || spool.push(entry)).await?;
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

    /// Says goodbye to the master, and closes the connection.
    pub(crate) async fn drain(&self) {
        if let Some(master) = self.handle() {
            let _ = master.bye("the minion is stopping", None).await;
            master.close("the minion is stopping");
            // The packet that closes the connection needs a moment to be sent.
            pause(GOODBYE).await;
        }
    }
}

/// The number of attempts to send a return that is in memory only to a master that has no room for
/// it, and (`AGAIN`) the time between them.
const TRIES: u32 = 6;
const AGAIN: Duration = Duration::from_secs(5);

/// Sends the master a return that the spool could not store. If the master has no room for it, this
/// is repeated a few times.
async fn sent_at_once(master: &Handle, answer: Return) -> Result<(), link::Error> {
    let mut tries = 1;
    loop {
        let sent = async { master.ask(answer.clone()).await?.done().await };
        match sent.await {
            Err(link::Error::Failed { reason, .. }) if reason == "busy" && tries < TRIES => {
                tries += 1;
                pause(AGAIN).await;
            }
            done => return done.map(|_| ()),
        }
    }
}

/// Logs the status of a session.
fn tell(status: Status<'_>) {
    match status {
        Status::Trying(master, address) => {
            log::debug(format_args!(
                "Connecting to the master {master} at {address}"
            ));
        }
        Status::Remembered(who) => log::warning(format_args!(
            "trusting the key of a master that is seen for the first time: {who}"
        )),
        Status::Pending(who, reason) => log::warning(format_args!(
            "the master {who} has not accepted this minion's key yet: {reason}"
        )),
        Status::Failed(error) => log::error(format_args!("{error}")),
        Status::Waiting(wait) => log::info(format_args!("Retrying in {wait:.1?}")),
    }
}

/// Waits until the minion can go back to its first master. Waits for ever if that is not
/// configured, or if the first master is the connected one.
async fn first_is_back(session: &mut Session, failover: &Failover) {
    let Some(interval) = failover.failback.filter(|_| !session.is_with_first()) else {
        return smol::future::pending().await;
    };
    loop {
        pause(interval).await;
        if session.first_answers().await {
            return session.begin_with_first();
        }
    }
}

impl Shared {
    /// Keeps an upstream connected for as long as the daemon runs.
    pub(crate) async fn serve(self: &Arc<Self>, at: usize, mut session: Session) {
        let Some(upstream) = self.upstreams().get(at) else {
            return;
        };
        let failover = Failover::of(self.opts());
        let mut is_first = true;
        let delay = settings::startup_delay(self.opts());
        if !delay.is_zero() {
            log::info(format_args!(
                "Connecting in {delay:.1?} (random_startup_delay)"
            ));
            pause(delay).await;
        }
        loop {
            let (link, welcome) = session.connect(&mut tell).await;
            log::info(format_args!("Connected to the master {}", link.who()));
            let durable = if welcome.epoch == upstream.spool.epoch() {
                welcome.durable
            } else {
                0
            };
            forget(&upstream.spool, durable);
            *upstream
                .bound
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = bound_grains(&welcome.bound);
            // Set the handle first: the messages that greet the master may be ready before the link
            // is read.
            upstream.connected(Some(link.handle()));
            self.adopt().await;
            self.greet(upstream, std::mem::take(&mut is_first)).await;
            let handle = link.handle();
            let lost = async { Some(self.speak(at, upstream, link, durable).await) };
            let back = async {
                first_is_back(&mut session, &failover).await;
                None
            };
            let lost = lost.or(back).await;
            upstream.connected(None);
            match lost {
                Some(error) => {
                    log::warning(format_args!("lost the connection to the master: {error}"));
                    if failover.leaves {
                        session.skip_master();
                    }
                }
                None => {
                    log::info("The first master is available again, reconnecting to it");
                    let _ = handle
                        .bye("its first master is available again", None)
                        .await;
                    handle.close("failback");
                }
            }
        }
    }

    /// Speaks with a master until the connection is lost. Returns the reason of the loss.
    async fn speak(
        self: &Arc<Self>,
        at: usize,
        upstream: &Upstream,
        mut link: Link,
        durable: u64,
    ) -> link::Error {
        let handle = link.handle();
        let safe = Arc::new(DurableUpTo::new(durable));
        let (spool, filled) = (upstream.spool.clone(), upstream.filled.clone());
        let own = (handle.clone(), safe.clone());
        let returns = upstream.returns.clone();
        let sender = smol::spawn(async move {
            let (handle, safe) = own;
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
        });
        let error = loop {
            // No deadline: the link has its own (`idle`).
            match link.next().await {
                Ok(Incoming::Ack(sequence)) => {
                    safe.is(sequence);
                    forget(&upstream.spool, sequence);
                }
                Ok(Incoming::Question(question)) => {
                    let shared = self.clone();
                    smol::spawn(async move { shared.answer(at, *question).await }).detach();
                }
                Ok(Incoming::Bye(bye)) => {
                    log::warning(format_args!(
                        "the master is closing the connection: {}",
                        bye.reason
                    ));
                }
                Ok(Incoming::Event(_)) => {}
                Err(error) => break error,
            }
        };
        sender.cancel().await;
        error
    }

    /// Takes the returns of jobs that outlived their daemon. Every master gets them, because the
    /// one that asked is not known any more.
    pub(crate) async fn adopt(self: &Arc<Self>) {
        let shared = self.clone();
        let adopt = move || {
            let spools = shared.upstreams().iter().map(|upstream| &*upstream.spool);
            orphans::take(shared.opts(), &spools.collect::<Vec<_>>())
        };
        if smol::unblock(adopt).await {
            self.upstreams()
                .iter()
                .for_each(|upstream| upstream.filled.ring());
        }
    }
}
