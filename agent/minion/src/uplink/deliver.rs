//! Delivers the records of the spool to the master, in order and once. Events are sent many at a
//! time; a return is sent when everything before it is safe on the master.
//!
//! A return that the master has no room for now is moved to the end of the spool under a new
//! number, so that it does not delay the others. It is tried again after some time, and is never
//! dropped for lack of room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use link::wait::{pause, unblock};
use value::log;
use wire::Return;

use super::connection::{ConnectionError, Handle};
use crate::spool::{self, Entry, Spool};
use crate::wakeup::Wakeup;

/// The number of records that are read from the spool at once.
const BATCH: usize = 64;
/// The wait before a return that the master had no room for is tried again. Each further wait is
/// twice as long, up to `AGAIN_MAX`.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// The longest time that a return which is not due yet delays those behind it. After that it moves
/// to the end of the spool again.
const HELD_UP_MAX: Duration = Duration::from_secs(1);

/// The number up to which the master has everything on its disk.
#[derive(Debug)]
pub(crate) struct DurableUpTo {
    /// A mutex, because not every machine has 64-bit atomics.
    upto: Mutex<u64>,
    moved: Wakeup,
}

impl DurableUpTo {
    pub(crate) fn new(upto: u64) -> Self {
        Self {
            upto: Mutex::new(upto),
            moved: Wakeup::new(),
        }
    }

    /// Records that the master has confirmed everything up to `sequence`.
    pub(crate) fn is(&self, sequence: u64) {
        let mut upto = self.upto();
        *upto = sequence.max(*upto);
        drop(upto);
        self.moved.ring();
    }

    fn upto(&self) -> MutexGuard<'_, u64> {
        self.upto.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn reaches(&self, sequence: u64) {
        while *self.upto() < sequence {
            // No deadline: a task that waits for a bell is cancelled with its connection.
            self.moved.rung().await;
        }
    }
}

/// A return that was put off.
#[derive(Clone, Copy, Debug)]
struct PutOff {
    due: Instant,
    /// The length of the wait after the next attempt.
    wait: Duration,
}

/// The result of handing a return over.
enum HandedOver {
    /// The master has it, or will never take it.
    Done,
    /// The master has no room for it now.
    Busy,
}

/// The parts that delivering a spool over one connection needs.
pub(crate) struct Delivery<'a> {
    pub(crate) spool: &'a Arc<Spool>,
    pub(crate) handle: &'a Handle,
    pub(crate) safe: &'a DurableUpTo,
    /// A callback that receives the new number of a job's return.
    pub(crate) moved: &'a (dyn Fn(&str, u64) + Send + Sync),
}

/// Sends what the spool has and what is added to it, until the connection is lost.
pub(crate) async fn deliver(
    delivery: Delivery<'_>,
    filled: &Wakeup,
) -> Result<(), ConnectionError> {
    let Delivery {
        spool,
        handle,
        safe,
        ..
    } = delivery;
    let mut next = *safe.upto() + 1;
    // The number of the last event that was sent: a return waits until that event is safe.
    let mut sent = 0;
    let mut put_off = HashMap::new();
    loop {
        let (from, records) = (next, spool.clone());
        let batch = unblock(move || records.from(from, BATCH)).await;
        let batch = batch.unwrap_or_else(|error| {
            log::error(format_args!("{error}"));
            Vec::new()
        });
        if batch.is_empty() {
            // No deadline: a task that waits for a bell is cancelled with its connection.
            filled.rung().await;
        }
        for entry in batch {
            let sequence = entry.sequence();
            match entry {
                Entry::Event(event) => {
                    handle.event(event).await?;
                    sent = sequence;
                }
                Entry::Return(answer) => {
                    safe.reaches(sent).await;
                    delivery.give(answer, &mut put_off).await?;
                    safe.is(sequence);
                    forget(spool, sequence);
                }
            }
            next = sequence + 1;
        }
    }
}

impl Delivery<'_> {
    /// Hands a return over, or moves it to the end of the spool. In both cases its old place is not
    /// needed any more.
    async fn give(
        &self,
        answer: Return,
        all: &mut HashMap<u64, PutOff>,
    ) -> Result<(), ConnectionError> {
        let known = all.remove(&answer.sequence);
        let left = known.map_or(Duration::ZERO, |known| {
            known.due.saturating_duration_since(Instant::now())
        });
        if !left.is_zero() {
            pause(left.min(HELD_UP_MAX)).await;
        }
        let is_due = left <= HELD_UP_MAX;
        // If the return cannot be added at the end of the spool, it keeps its place and is tried
        // again after a pause.
        loop {
            if is_due && let HandedOver::Done = hand_over(self.handle, answer.clone()).await? {
                return Ok(());
            }
            let again = match known {
                Some(known) if !is_due => known,
                _ => later(known),
            };
            match self.to_the_end(answer.clone()).await {
                Ok(sequence) => {
                    all.insert(sequence, again);
                    return Ok(());
                }
                Err(error) => log::error(format_args!("{error}")),
            }
            pause(AGAIN_FIRST).await;
        }
    }

    async fn to_the_end(&self, answer: Return) -> Result<u64, spool::Error> {
        let (spool, jid) = (self.spool.clone(), answer.jid.clone());
        let sequence = unblock(move || spool.push(answer)).await?;
        (self.moved)(&jid, sequence);
        Ok(sequence)
    }
}

/// Returns when a return that was refused just now is tried again.
fn later(known: Option<PutOff>) -> PutOff {
    let wait = known.map_or(AGAIN_FIRST, |known| known.wait);
    PutOff {
        due: Instant::now() + wait,
        wait: wait.saturating_mul(2).min(AGAIN_MAX),
    }
}

/// Removes the records that the master has from the spool.
pub(crate) fn forget(spool: &Spool, upto: u64) {
    if let Err(error) = spool.acked(upto) {
        log::error(format_args!("{error}"));
    }
}

/// Hands a return over. A return that the master refuses is dropped, so that it does not block the
/// others for ever.
async fn hand_over(handle: &Handle, answer: Return) -> Result<HandedOver, ConnectionError> {
    let jid = answer.jid.clone();
    let answered = async { handle.ask(answer).await?.done().await };
    let Err(error) = answered.await else {
        return Ok(HandedOver::Done);
    };
    match error.answered() {
        Some(("busy", text)) => {
            log::warning(format_args!(
                "the master has no room for the return of job {jid}, retrying later: {text}"
            ));
            Ok(HandedOver::Busy)
        }
        Some(("invalid" | "refused", text)) => {
            log::error(format_args!(
                "dropping the return of job {jid}, because the master rejected it: {text}"
            ));
            Ok(HandedOver::Done)
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use link::pki::Pki;
    use link::{Incoming, KeyPair, Limits, Link, Listener, Master, Options, PORT, Session, Waits};
    use smol::future::FutureExt;
    use value::Map;
    use wire::{Hello, Request, Welcome};

    use super::*;

    fn hello() -> Hello {
        Hello {
            version_min: 1,
            version_max: 1,
            features: Vec::new(),
            id: "m1".parse().unwrap(),
            role: "minion".into(),
            program: "0".into(),
            started: String::new(),
            epoch: 1,
            token: None,
            grains: Map::new(),
            evidence: Map::new(),
        }
    }

    fn welcome() -> Welcome {
        Welcome {
            version: 0,
            features: Vec::new(),
            bound: Map::new(),
            epoch: 1,
            durable: 0,
            program: "0".into(),
            stamp: String::new(),
        }
    }

    fn returned(jid: &str, bytes: usize) -> Return {
        Return {
            sequence: 0,
            jid: jid.to_owned(),
            stamp: String::new(),
            data: Map::new().with("return", "x".repeat(bytes)),
        }
    }

    async fn connected(folder: &std::path::Path, listener: &Listener) -> (Link, Link) {
        let pki = Pki::open(&folder.join("pki")).unwrap();
        let options = Options {
            masters: vec![Master::parse(
                &listener.address().unwrap().to_string(),
                PORT,
            )],
            random: false,
            source: None,
            pair: pki.own("minion").unwrap().pair,
            pki,
            fingers: Vec::new(),
            hello: hello(),
            limits: Limits::default(),
            waits: Waits::default(),
        };
        let mut session = Session::new(options);
        let minion = smol::spawn(async move { session.connect(&mut |_| ()).await.0 });
        let peer = listener.next().await.unwrap();
        let master = peer.accept(welcome()).await.unwrap();
        (minion.await, master)
    }

    /// Waits for the next return, and accepts it.
    async fn next(master: &mut Link) -> String {
        loop {
            if let Incoming::Question(question) = master.next().await.unwrap()
                && let Request::Return(answer) = question.request.clone()
            {
                question.done(true).await.unwrap();
                return answer.jid;
            }
        }
    }

    #[test]
    fn a_return_that_the_master_has_no_room_for_waits_behind_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits {
            large_bytes_per_key: 100_000,
            ..Limits::default()
        };
        let pair = KeyPair::generate().unwrap();
        let listener = Listener::bind(([127, 0, 0, 1], 0).into(), &pair, limits).unwrap();
        let spool = spool::Limits::default();
        let spool = Arc::new(Spool::open(&dir.path().join("spool"), spool).unwrap());
        for (jid, bytes) in [("large", 300_000), ("small", 10), ("middle", 90_000)] {
            spool.push(returned(jid, bytes)).unwrap();
        }
        let moved = Mutex::new(Vec::new());
        smol::block_on(async {
            let (minion, mut master) = connected(dir.path(), &listener).await;
            let (handle, safe, bell) = (
                Handle::Pinch(minion.handle()),
                DurableUpTo::new(0),
                Wakeup::new(),
            );
            let note = |jid: &str, sequence| moved.lock().unwrap().push((jid.to_owned(), sequence));
            let delivery = Delivery {
                spool: &spool,
                handle: &handle,
                safe: &safe,
                moved: &note,
            };
            let delivering = async {
                let ended = deliver(delivery, &bell).await;
                panic!("{ended:?}")
            };
            let came = async {
                assert_eq!(next(&mut master).await, "small");
                assert_eq!(next(&mut master).await, "middle");
                let refused_again = async {
                    let until = Instant::now() + Duration::from_secs(60);
                    while moved.lock().unwrap().len() < 2 && Instant::now() < until {
                        pause(Duration::from_millis(20)).await;
                    }
                };
                let accepted = async { panic!("{} is accepted", next(&mut master).await) };
                refused_again.or(accepted).await;
            };
            came.or(delivering).await;
        });
        let moved = moved.into_inner().unwrap();
        assert_eq!(moved.first(), Some(&("large".to_owned(), 4)));
        assert!(moved.len() >= 2, "{moved:?}");
        // The large return is not lost.
        assert_eq!(spool.len(), 1);
    }
}
