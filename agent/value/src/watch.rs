//! What runs tell of themselves while they go on. Who starts one says who looks on, and a thread hands that on to those that it starts.
//!
//! Where nobody looks on, telling is one look at an empty place.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// A thread of a program, as onlookers tell them apart.
pub type Worker = usize;

type Look = dyn Fn(Worker, Event<'_>) + Send + Sync;

/// Somebody who looks on.
#[derive(Clone)]
pub struct Onlooker(Arc<Look>);

impl Onlooker {
    /// One who is told of each event and of the thread that it happened on.
    pub fn new(look: impl Fn(Worker, Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }
}

impl std::fmt::Debug for Onlooker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Onlooker")
    }
}

static WORKERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ONLOOKER: RefCell<Option<Onlooker>> = const { RefCell::new(None) };
    static WORKER: Worker = WORKERS.fetch_add(1, Ordering::Relaxed);
}

/// Says who looks on at what this thread does from now on; who did before.
pub fn set(onlooker: Option<Onlooker>) -> Option<Onlooker> {
    ONLOOKER.replace(onlooker)
}

/// Who looks on at this thread, for one that it starts.
#[must_use]
pub fn onlooker() -> Option<Onlooker> {
    ONLOOKER.with_borrow(Clone::clone)
}

/// Whether anybody looks on.
#[must_use]
pub fn is_on() -> bool {
    ONLOOKER.with_borrow(Option::is_some)
}

/// Does something at which nobody else looks on.
pub fn looked_on<T>(onlooker: Option<Onlooker>, work: impl FnOnce() -> T) -> T {
    let before = set(onlooker);
    let done = work();
    set(before);
    done
}

/// Does something that nobody is told of: the trial of a run that is told of afterwards.
pub fn hushed<T>(work: impl FnOnce() -> T) -> T {
    looked_on(None, work)
}

/// Tells what happened.
pub fn tell(event: Event<'_>) {
    if is_on() {
        match secret::is_any() {
            true => masked(event),
            false => relay(WORKER.with(|worker| *worker), event),
        }
    }
}

/// Tells what happened on a thread of another program.
pub fn relay(worker: Worker, event: Event<'_>) {
    if let Some(onlooker) = onlooker() {
        (onlooker.0)(worker, event);
    }
}

/// Tells it without secrets.
fn masked(event: Event<'_>) {
    let told = |event: Event<'_>| relay(WORKER.with(|worker| *worker), event);
    match event {
        Event::StateStarted(state) => {
            let [tag, id, name] = [state.tag, state.id, state.name].map(secret::text);
            let (tag, id, name) = (&*tag, &*id, &*name);
            told(Event::StateStarted(State {
                tag,
                id,
                name,
                ..state
            }));
        }
        Event::StateFinished { jid, tag, ret } => {
            let (tag, ret) = (&*secret::text(tag), &secret::map(ret.clone()));
            told(Event::StateFinished { jid, tag, ret });
        }
        Event::Waits(Some(what)) => told(Event::Waits(Some(&secret::text(what)))),
        other => told(other),
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
