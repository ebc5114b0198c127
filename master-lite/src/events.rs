//! [`Events`]: the events that the master itself fires.

use state::module;
use value::{Map, jid, log, secret};

use crate::store::{self, Applied, Command, Store, now_ms};
use crate::unstored;

/// The event log, for events of the master itself.
#[derive(Clone)]
pub(crate) struct Events(Store);

impl Events {
    /// Returns a handle that appends to the log of this store.
    pub(crate) fn new(store: Store) -> Self {
        Self(store)
    }

    /// Fires an event of the master itself. A failure is only logged.
    pub(crate) async fn fire(&self, tag: &str, data: Map) {
        is_kept(tag, self.0.apply(own_event(tag, data)).await).ok();
    }

    /// Appends an event of the master itself, and returns its number.
    ///
    /// # Errors
    /// When it is not stored, which is logged too.
    pub(crate) async fn append(&self, tag: &str, data: Map) -> Result<u64, String> {
        match self.0.apply(own_event(tag, data)).await {
            Ok(Applied::Event { sequence, .. }) => Ok(sequence),
            other => {
                is_kept(tag, other)?;
                Err(format!("the event {tag} has no number"))
            }
        }
    }

    /// Like [`Events::fire`], for a module on a thread that may block.
    ///
    /// # Errors
    /// When it is not stored.
    pub(crate) fn fire_for_module(&self, tag: &str, data: Map) -> Result<(), module::Error> {
        let kept = smol::block_on(self.0.apply(own_event(tag, data)));
        is_kept(tag, kept)
            .map_err(|why| module::Error::refused(format!("Cannot store the event {tag}: {why}")))
    }

    /// Appends an event of the master itself to the event log, without waiting for the disk.
    pub(crate) async fn fire_behind(&self, tag: &str, data: Map) {
        let begun = self.0.begin(own_event(tag, data)).await;
        let tag = tag.to_owned();
        let kept = async move {
            let kept = match begun {
                Ok(begun) => begun.done().await,
                Err(error) => Err(error),
            };
            // A failure is logged.
            is_kept(&tag, kept).ok();
        };
        smol::spawn(kept).detach();
    }
}

fn own_event(tag: &str, data: Map) -> Command {
    Command::Event {
        tag: secret::text(tag).into_owned(),
        data: secret::event(data),
        stamp: jid::stamp(),
        at_ms: now_ms(),
        origin: None,
    }
}

/// Returns why an event is not stored, and logs it.
fn is_kept(tag: &str, kept: Result<Applied, store::Error>) -> Result<(), String> {
    match kept {
        Ok(Applied::Refused(refusal)) => {
            log::error(format_args!("cannot store the event {tag}: {refusal}"));
            Err(refusal.to_string())
        }
        Ok(_) => Ok(()),
        Err(error) => {
            unstored::log(format_args!("the event {tag}"), &error);
            Err(error.to_string())
        }
    }
}
