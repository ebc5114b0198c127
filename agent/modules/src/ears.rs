//! The ears of orchestrations on the event bus, for steps that wait for events.
//!
//! An orchestration that waits hears from its start on, so that an event is not missed that comes before its step.
//! What one step has waited for does not end the wait of a later one of the same orchestration; steps side by side share it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use state::exec::Exec;
use state::module::Error;
use state::targets::Hear;

use crate::bus::Event;

/// How often one who waits looks at what came.
const LOOK: Duration = Duration::from_millis(10);

/// How many events an orchestration keeps; what comes after them is not heard.
const EVENTS_MAX: usize = 100_000;

/// By the job ids of the runs.
static EARS: OnceLock<Mutex<HashMap<String, Ears>>> = OnceLock::new();

/// What an event was to one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Other,
    /// A part of what it waits for.
    Part,
    /// All that was missing.
    All,
}

/// What an orchestration hears and has heard.
struct Ears {
    hear: Box<dyn Hear>,
    events: Vec<Event>,
    /// The events that one of its steps has waited for.
    taken: BTreeSet<usize>,
}

impl Ears {
    /// Takes what has come in.
    fn hear(&mut self) {
        while self.events.len() < EVENTS_MAX
            && let Some((tag, data)) = self.hear.next(Instant::now())
        {
            self.events.push(Event { tag, data });
        }
    }
}

fn ears() -> MutexGuard<'static, HashMap<String, Ears>> {
    let ears = EARS.get_or_init(Mutex::default);
    ears.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens for one run until it is dropped.
#[derive(Debug)]
pub struct Listening<'a>(&'a str);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        ears().remove(self.0);
    }
}

/// Begins to listen for the run with this job id.
///
/// # Errors
/// When it cannot be listened.
pub fn listen<'a>(cx: &Exec, jid: &'a str) -> Result<Listening<'a>, Error> {
    begin(cx, jid)?;
    Ok(Listening(jid))
}

fn begin(cx: &Exec, jid: &str) -> Result<(), Error> {
    let mut ears = ears();
    if !ears.contains_key(jid) {
        let new = Ears {
            hear: cx.shared.targets.hear(cx)?,
            events: Vec::new(),
            taken: BTreeSet::new(),
        };
        ears.insert(jid.to_owned(), new);
    }
    Ok(())
}

/// Shows `look` the events since the start of the run until it has seen all, which is true, or the time is over.
///
/// # Errors
/// When it cannot listen.
pub fn wait(
    cx: &Exec,
    deadline: Instant,
    look: &mut dyn FnMut(&Event) -> Seen,
) -> Result<bool, Error> {
    let jid = cx.run.as_ref().map_or("", |run| run.jid.as_str());
    begin(cx, jid)?;
    let before = taken_of(jid);
    let (mut next, mut taken) = (0, BTreeSet::new());
    let complete = loop {
        let new = heard_from(jid, next);
        let mut complete = false;
        for (index, event) in (next..).zip(&new) {
            if before.contains(&index) {
                continue;
            }
            let seen = look(event);
            if seen != Seen::Other {
                taken.insert(index);
            }
            complete = seen == Seen::All;
            if complete {
                break;
            }
        }
        next += new.len();
        if complete || Instant::now() >= deadline {
            break complete;
        }
        std::thread::sleep(LOOK.min(deadline.saturating_duration_since(Instant::now())));
    };
    if let Some(ears) = ears().get_mut(jid) {
        ears.taken.extend(taken);
    }
    Ok(complete)
}

fn taken_of(jid: &str) -> BTreeSet<usize> {
    let ears = ears();
    let taken = ears.get(jid).map(|ears| ears.taken.clone());
    taken.unwrap_or_default()
}

fn heard_from(jid: &str, start: usize) -> Vec<Event> {
    let mut ears = ears();
    let Some(ears) = ears.get_mut(jid) else {
        return Vec::new();
    };
    ears.hear();
    ears.events.get(start..).unwrap_or_default().to_vec()
}
