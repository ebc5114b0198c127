//! What runs tell of themselves while they go on: a program that looks on says once what becomes of it, as it does with the log.
//!
//! Where nobody looks on, telling is one look at an empty place.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Map, secret};

/// Something that happened in a state run. What is told on a thread belongs to the chunk that this thread has started last.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A run begins. One inside another has a job id of its own.
    Started {
        /// Its job id.
        jid: &'a str,
        /// The function: `state.apply`.
        fun: &'a str,
        /// Whether nothing is to be changed.
        test: bool,
        /// How many chunks it has.
        chunks: usize,
    },
    /// A chunk is called.
    StateStarted(State<'a>),
    /// A chunk has its final return, or one that never was called.
    StateFinished {
        /// The run's job id.
        jid: &'a str,
        /// The chunk's key in the returns.
        tag: &'a str,
        /// The return.
        ret: &'a Map,
    },
    /// What the chunk waits for from now on; nothing where that is over.
    Waits(Option<&'a str>),
    /// A run is over.
    Finished {
        /// Its job id.
        jid: &'a str,
        /// Whether every chunk succeeded.
        good: bool,
    },
}

/// A chunk that is called.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// The run's job id.
    pub jid: &'a str,
    /// Its key in the returns.
    pub tag: &'a str,
    /// The id in the SLS.
    pub id: &'a str,
    /// The name.
    pub name: &'a str,
    /// The module.
    pub state: &'a str,
    /// The function.
    pub fun: &'a str,
    /// The SLS.
    pub sls: &'a str,
    /// Whether it is only tried out for another one that has it as `prereq`.
    pub tried: bool,
}

type Sink = Box<dyn Fn(Event<'_>) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Says who looks on, once for the life of the program; false when somebody does already.
pub fn set_sink(sink: impl Fn(Event<'_>) + Send + Sync + 'static) -> bool {
    SINK.set(Box::new(sink)).is_ok()
}

static HUSHED: AtomicBool = AtomicBool::new(false);

/// Whether anybody looks on.
#[must_use]
pub fn is_on() -> bool {
    SINK.get().is_some() && !HUSHED.load(Ordering::Relaxed)
}

/// Does something that nobody is told of: the trial of a run that is told of afterwards.
pub fn hushed<T>(work: impl FnOnce() -> T) -> T {
    HUSHED.store(true, Ordering::Relaxed);
    let done = work();
    HUSHED.store(false, Ordering::Relaxed);
    done
}

/// Tells what happened.
pub fn tell(event: Event<'_>) {
    if let Some(sink) = SINK.get().filter(|_| is_on()) {
        match secret::is_any() {
            true => masked(event, sink),
            false => sink(event),
        }
    }
}

/// Tells it without secrets.
fn masked(event: Event<'_>, sink: &Sink) {
    match event {
        Event::StateStarted(state) => {
            let [tag, id, name] = [state.tag, state.id, state.name].map(secret::text);
            let (tag, id, name) = (&*tag, &*id, &*name);
            sink(Event::StateStarted(State {
                tag,
                id,
                name,
                ..state
            }));
        }
        Event::StateFinished { jid, tag, ret } => {
            let (tag, ret) = (&*secret::text(tag), &secret::map(ret.clone()));
            sink(Event::StateFinished { jid, tag, ret });
        }
        Event::Waits(Some(what)) => sink(Event::Waits(Some(&secret::text(what)))),
        other => sink(other),
    }
}

/// Says what this thread waits for, until what is given back is dropped. The text is only made where somebody looks on.
#[must_use]
pub fn waits(what: impl FnOnce() -> String) -> Waiting {
    if is_on() {
        tell(Event::Waits(Some(&what())));
    }
    Waiting
}

/// A wait under way.
#[derive(Debug)]
pub struct Waiting;

impl Drop for Waiting {
    fn drop(&mut self) {
        tell(Event::Waits(None));
    }
}
