//! What is in the spool goes to the master, in order and once: events many at a time, a return when everything before it is safe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::{Error, Handle};
use smol::channel::{Receiver, Sender, bounded};
use value::log;
use wire::Return;

use crate::spool::{Entry, Spool};

/// How many records are read from the spool together.
const BATCH: usize = 64;

/// Something that happened and needs no more than one look: many of them before that look are one.
#[derive(Clone, Debug)]
pub(crate) struct Bell(Sender<()>, Receiver<()>);

impl Bell {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = bounded(1);
        Self(sender, receiver)
    }

    pub(crate) fn ring(&self) {
        let _ = self.0.try_send(());
    }

    pub(crate) async fn rung(&self) {
        // No deadline: who waits for a bell is ended with its connection.
        let _ = self.1.recv().await;
    }
}

/// Up to where the master has everything on its disk.
#[derive(Debug)]
pub(crate) struct Safe {
    /// Not every machine has an atomic number so large.
    upto: Mutex<u64>,
    moved: Bell,
}

impl Safe {
    pub(crate) fn new(upto: u64) -> Self {
        Self {
            upto: Mutex::new(upto),
            moved: Bell::new(),
        }
    }

    /// The master has said so.
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
            // No deadline: who waits for a bell is ended with its connection.
            self.moved.rung().await;
        }
    }
}

/// Sends what the spool has and will have, until the connection is lost.
pub(crate) async fn deliver(
    spool: &Arc<Spool>,
    filled: &Bell,
    handle: &Handle,
    safe: &Safe,
) -> Result<(), Error> {
    let mut next = *safe.upto() + 1;
    // The last event that was sent: a return comes after it.
    let mut sent = 0;
    loop {
        let (from, records) = (next, spool.clone());
        let batch = smol::unblock(move || records.from(from, BATCH)).await;
        let batch = batch.unwrap_or_else(|error| {
            log::error(format_args!("{error}"));
            Vec::new()
        });
        if batch.is_empty() {
            // No deadline: who waits for a bell is ended with its connection.
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
                    hand_over(handle, answer).await?;
                    safe.is(sequence);
                    forget(spool, sequence);
                }
            }
            next = sequence + 1;
        }
    }
}

/// What the master has is not needed here any more.
pub(crate) fn forget(spool: &Spool, upto: u64) {
    if let Err(error) = spool.acked(upto) {
        log::error(format_args!("{error}"));
    }
}

/// Hands a return over. One that the master does not take, whenever it comes, must not stand in the way of the others for ever.
async fn hand_over(handle: &Handle, answer: Return) -> Result<(), Error> {
    let jid = answer.jid.clone();
    match handle.ask(answer).await?.done().await {
        Err(Error::Failed { reason, text, .. })
            if matches!(reason.as_str(), "invalid" | "refused") =>
        {
            log::error(format_args!(
                "The master does not take the return of job {jid}, which is dropped: {text}"
            ));
            Ok(())
        }
        done => done.map(|_| ()),
    }
}
