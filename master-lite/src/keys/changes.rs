//! [`Changes`]: batches changes of keys. Changes that arrive while others are being written wait
//! for these, and are then written together: with one sync of the store and of the files, however
//! many minions connect at once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use smol::channel::{Receiver, Sender, bounded};
use value::channel;

use super::{Changed, KeyFiles, Outcome};
use crate::store::{Applied, Command, Store, now_ms};

/// The maximum number of changes that are written together.
const TOGETHER_MAX: usize = 256;

/// The result of a change, or the reason why it failed.
pub(crate) type Answer = Result<Applied, String>;

/// The queue of changes.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// The changes, each with the channel for its answer. `None` instead of a command asks for a
    /// look at the files.
    calls: Vec<(Option<Command>, Sender<Answer>)>,
    /// True while a thread writes changes.
    busy: bool,
}

impl Changes {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a change, or with `None` a look at the files. Returns the channel for the answer, and
    /// true if no thread writes: the caller must then call [`write`](Self::write).
    pub(crate) fn put(&self, command: Option<Command>) -> (Receiver<Answer>, bool) {
        let (sender, answer) = bounded(1);
        let mut waiting = self.waiting();
        waiting.calls.push((command, sender));
        (answer, !std::mem::replace(&mut waiting.busy, true))
    }

    fn take(&self) -> Vec<(Option<Command>, Sender<Answer>)> {
        let mut waiting = self.waiting();
        let count = waiting.calls.len().min(TOGETHER_MAX);
        waiting.busy = count > 0;
        waiting.calls.drain(..count).collect()
    }

    /// Makes the queued changes until none is left. Passes the keys that have changed to `changed`
    /// before it answers the callers.
    pub(crate) fn write(&self, files: &KeyFiles, store: &Store, changed: impl Fn(&[Changed])) {
        loop {
            let calls = self.take();
            if calls.is_empty() {
                return;
            }
            let is_look = |call: &(Option<Command>, _)| call.0.is_none();
            let (looks, calls): (Vec<_>, Vec<_>) = calls.into_iter().partition(is_look);
            if !looks.is_empty() {
                let looked = files.refresh(store, now_ms()).map(|keys| changed(&keys));
                let looked = looked.map_err(|error| error.to_string());
                for (_, sender) in looks {
                    channel::if_open(sender.try_send(looked.clone().map(|()| Applied::Done)));
                }
            }
            let (commands, senders): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
            let commands = commands.into_iter().flatten().collect();
            let answers = made(files, store, commands, &changed);
            for (sender, answer) in senders.into_iter().zip(answers) {
                channel::if_open(sender.try_send(answer));
            }
        }
    }
}

/// Makes changes together. If that fails, makes each separately, so that a faulty one does not
/// affect the others.
fn made(
    files: &KeyFiles,
    store: &Store,
    commands: Vec<Command>,
    changed: &impl Fn(&[Changed]),
) -> Vec<Answer> {
    let alone = match commands.len() {
        0 => return Vec::new(),
        1 => None,
        _ => Some(commands.clone()),
    };
    let mut outcome = Outcome::default();
    let made_all = files.apply_to(store, commands, now_ms(), &mut outcome);
    changed(&outcome.changed);
    match (made_all, alone) {
        (Ok(()), _) => outcome.applied.into_iter().map(Ok).collect(),
        (Err(error), None) => vec![Err(error.to_string())],
        (Err(_), Some(commands)) => {
            let one = |command| made(files, store, vec![command], changed);
            commands.into_iter().flat_map(one).collect()
        }
    }
}
