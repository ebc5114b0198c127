//! [`Upstream`]: a way to a master, or to one of several, with what that end has not got yet.
//!
//! Masters that are served side by side (`master:` as a list) have one each, so that one that is away holds nothing up for the
//! others. With `master_type: failover` there is one, whose master changes.

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
use crate::deliver::{Bell, Delivery, Safe, deliver, forget};
use crate::error::Error;
use crate::settings::{self, Failover};
use crate::spool::{self, Entry, Spool};
use crate::{enroll, orphans};

/// How long it takes to say goodbye.
const GOODBYE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Upstream {
    masters: Vec<Master>,
    spool: Arc<Spool>,
    filled: Bell,
    /// The jobs whose returns wait in the spool, or waited there a moment ago, and where.
    returns: Arc<Mutex<Vec<(String, u64)>>>,
    /// The way, while there is one.
    handle: Mutex<Option<Handle>>,
    /// The grains that the key is bound to, by the master's last word.
    bound: Mutex<Map>,
}

/// Where an upstream's spool lies: of one among several the name says whose it is.
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
    /// The ways that the configuration says.
    pub(crate) fn all(opts: &Opts) -> Result<Vec<Self>, Error> {
        let groups = settings::groups(opts)?;
        let is_only = groups.len() == 1;
        if !spool::LASTS {
            log::warning(format_args!(
                "This build has no store: events and returns that wait for a master are kept in memory, and are lost when the daemon ends"
            ));
        }
        let open = |masters: Vec<Master>| {
            let folder = folder(opts, &masters, is_only);
            Ok(Self {
                spool: Arc::new(Spool::open(&folder, spool::Limits::default())?),
                masters,
                filled: Bell::new(),
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

    /// The grains that the key is bound to.
    pub(crate) fn bound_grains(&self) -> Map {
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.clone()
    }

    fn returns(&self) -> MutexGuard<'_, Vec<(String, u64)>> {
        self.returns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a job's return is on its way to the master, which may take long on a bad link.
    pub(crate) fn has_return(&self, jid: &str) -> bool {
        let waits = |(of, sequence): &(String, u64)| of == jid && self.spool.is_waiting(*sequence);
        self.returns().iter().any(waits)
    }

    /// Puts an event or a return on the disk, from where it is sent; its number comes back.
    async fn push(&self, entry: Entry) -> Result<u64, spool::Error> {
        let spool = self.spool.clone();
        let sequence = smol::unblock(move || spool.push(entry)).await?;
        self.filled.ring();
        Ok(sequence)
    }

    /// The same for an event; whether it is there.
    pub(crate) async fn keep(&self, event: Event) -> bool {
        let pushed = self.push(event.into()).await;
        pushed
            .map_err(|error| log::error(format_args!("{error}")))
            .is_ok()
    }

    /// The same for a return; where the disk takes nothing, the master gets it at once.
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
            log::error(format_args!("The return is lost: {error}"));
        }
    }

    /// Says goodbye.
    pub(crate) async fn drain(&self) {
        if let Some(master) = self.handle() {
            let _ = master.bye("the minion ends", None).await;
            master.close("the minion ends");
            // The packet that says so is on its way in a moment.
            pause(GOODBYE).await;
        }
    }
}

/// How often a return is tried that only memory has, where the master has no room for it, and how long there is in between.
const TRIES: u32 = 6;
const AGAIN: Duration = Duration::from_secs(5);

/// Gives the master a return that the spool does not take. A master without room for it now is asked again a few times.
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

/// What a session does, for the log.
fn tell(status: Status<'_>) {
    match status {
        Status::Trying(master, address) => {
            log::debug(format_args!("Trying the master {master} at {address}"));
        }
        Status::Remembered(who) => log::warning(format_args!(
            "The master's key is seen for the first time and trusted from now on: {who}"
        )),
        Status::Pending(who, reason) => log::warning(format_args!(
            "The master {who} has this minion's key and has not accepted it yet: {reason}"
        )),
        Status::Failed(error) => log::error(format_args!("{error}")),
        Status::Waiting(wait) => log::info(format_args!("The next try is in {wait:.1?}")),
    }
}

/// Waits until the first master can be gone back to; for ever where that is not wanted, or it is the one that is served.
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
    /// Connects a way for as long as the daemon runs.
    pub(crate) async fn serve(self: &Arc<Self>, at: usize, mut session: Session) {
        let Some(upstream) = self.upstreams().get(at) else {
            return;
        };
        let failover = Failover::of(self.opts());
        let mut is_first = true;
        let delay = settings::startup_delay(self.opts());
        if !delay.is_zero() {
            log::info(format_args!(
                "The first try is in {delay:.1?} (random_startup_delay)"
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
            // What it is greeted with may be there before the link is read.
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
                    log::warning(format_args!("The connection is lost: {error}"));
                    if failover.leaves {
                        session.skip_master();
                    }
                }
                None => {
                    log::info("The first master is there again: it is gone back to");
                    let _ = handle.bye("its first master is there again", None).await;
                    handle.close("failback");
                }
            }
        }
    }

    /// Speaks with a master until the connection is lost; why it was.
    async fn speak(
        self: &Arc<Self>,
        at: usize,
        upstream: &Upstream,
        mut link: Link,
        durable: u64,
    ) -> link::Error {
        let handle = link.handle();
        let safe = Arc::new(Safe::new(durable));
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
                handle.close("not delivered");
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
                    log::warning(format_args!("The master says goodbye: {}", bye.reason));
                }
                Ok(Incoming::Event(_)) => {}
                Err(error) => break error,
            }
        };
        sender.cancel().await;
        error
    }

    /// Takes in what jobs have left that outlived their daemon. Which master asked is not known any more: every one gets it.
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
