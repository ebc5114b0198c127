//! This process's ears on the event bus, for steps that wait for events.
//!
//! An orchestration that waits hears from its start on, so that an event is not missed that comes before its step.
//! What one step has waited for does not end the wait of a later one of the same orchestration; steps side by side share it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use state::exec::Exec;
use state::module::Error;

use crate::bus::{Event, Listener};

/// How often one who waits looks at what came.
const LOOK: Duration = Duration::from_millis(10);

static EARS: OnceLock<Mutex<Option<Ears>>> = OnceLock::new();

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

struct Ears {
    listener: Listener,
    events: Vec<Event>,
    runs: HashMap<String, Run>,
}

/// What an orchestration has heard.
#[derive(Clone, Default)]
struct Run {
    /// How many events came before it.
    start: usize,
    /// The events that one of its steps has waited for.
    taken: BTreeSet<usize>,
}

impl Ears {
    /// Takes what has come in.
    fn hear(&mut self) {
        while let Some(event) = self.listener.next(Instant::now(), |_| true) {
            self.events.push(event);
        }
    }
}

fn ears() -> MutexGuard<'static, Option<Ears>> {
    let ears = EARS.get_or_init(Mutex::default);
    ears.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to listen for the run with this job id.
///
/// # Errors
/// When the socket cannot be made.
pub fn listen(cx: &Exec, jid: &str) -> Result<(), Error> {
    let mut ears = ears();
    let ears = match &mut *ears {
        Some(ears) => ears,
        none => none.insert(Ears {
            listener: Listener::bind(cx.opts())?,
            events: Vec::new(),
            runs: HashMap::new(),
        }),
    };
    ears.hear();
    let start = ears.events.len();
    ears.runs.entry(jid.to_owned()).or_insert_with(|| Run {
        start,
        ..Run::default()
    });
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
    listen(cx, jid)?;
    let before = run_of(jid);
    let (mut next, mut taken) = (before.start, BTreeSet::new());
    let complete = loop {
        let new = heard_from(next);
        let mut complete = false;
        for (index, event) in (next..).zip(&new) {
            if before.taken.contains(&index) {
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
    if let Some(run) = ears().as_mut().and_then(|ears| ears.runs.get_mut(jid)) {
        run.taken.extend(taken);
    }
    Ok(complete)
}

fn run_of(jid: &str) -> Run {
    let ears = ears();
    let run = ears.as_ref().and_then(|ears| ears.runs.get(jid));
    run.cloned().unwrap_or_default()
}

fn heard_from(start: usize) -> Vec<Event> {
    let mut ears = ears();
    let Some(ears) = ears.as_mut() else {
        return Vec::new();
    };
    ears.hear();
    ears.events.get(start..).unwrap_or_default().to_vec()
}
