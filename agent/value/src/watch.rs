//! Reports the events of state runs while they are running. The code that starts a run sets an
//! watcher, and each thread passes it to the threads that it starts.
//!
//! Without a watcher, reporting an event only reads a thread-local that is not set.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Map, secret};

/// An event of a state run. An event that a thread reports belongs to the chunk that this thread
/// started last.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A run begins. A run inside another has a separate job id.
    Started {
        /// The run's job id.
        jid: &'a str,
        /// The function: `state.apply`.
        fun: &'a str,
        /// True for test mode, in which nothing is changed.
        test: bool,
        /// The number of chunks.
        chunks: usize,
    },
    /// A chunk is called.
    StateStarted(State<'a>),
    /// A chunk has its final return; this includes chunks that were never called.
    StateFinished {
        /// The run's job id.
        jid: &'a str,
        /// The chunk's key in the returns.
        tag: &'a str,
        /// The return.
        ret: &'a Map,
    },
    /// The thing that the chunk waits for from now on; `None` when the wait is over.
    Waits(Option<&'a str>),
    /// A run is over.
    Finished {
        /// The run's job id.
        jid: &'a str,
        /// True when every chunk succeeded.
        good: bool,
    },
}

/// A chunk that is called.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// The run's job id.
    pub jid: &'a str,
    /// The chunk's key in the returns.
    pub tag: &'a str,
    /// The id in the SLS.
    pub id: &'a str,
    /// The name.
    pub name: &'a str,
    /// The state module.
    pub state: &'a str,
    /// The function.
    pub fun: &'a str,
    /// The SLS.
    pub sls: &'a str,
    /// True when the chunk is only run as a trial for another one that has it as `prereq`.
    pub tried: bool,
}

/// The number of a thread, by which watchers distinguish the threads of a program.
pub type Worker = usize;

type Look = dyn Fn(Worker, Event<'_>) + Send + Sync;

/// A callback that receives the events of runs.
#[derive(Clone)]
pub struct Watcher(Arc<Look>);

impl Watcher {
    /// Creates a watcher that receives each event together with the thread that it happened on.
    pub fn new(look: impl Fn(Worker, Event<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    /// Passes an event of a thread to the callback.
    pub fn receive(&self, worker: Worker, event: Event<'_>) {
        (self.0)(worker, event);
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watcher")
    }
}

static WORKERS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WATCHER: RefCell<Option<Watcher>> = const { RefCell::new(None) };
    static WORKER: Worker = WORKERS.fetch_add(1, Ordering::Relaxed);
}

/// Sets the watcher of this thread, and returns the previous one.
pub fn set(watcher: Option<Watcher>) -> Option<Watcher> {
    WATCHER.replace(watcher)
}

/// Returns the watcher of this thread, to pass it to a thread that this one starts.
#[must_use]
pub fn watcher() -> Option<Watcher> {
    WATCHER.with_borrow(Clone::clone)
}

/// True when this thread has a watcher.
#[must_use]
pub fn is_on() -> bool {
    WATCHER.with_borrow(Option::is_some)
}

/// Runs `work` with this watcher, and restores the previous one.
pub fn looked_on<T>(watcher: Option<Watcher>, work: impl FnOnce() -> T) -> T {
    let before = set(watcher);
    let done = work();
    set(before);
    done
}

/// Runs `work` without a watcher, as for the trial of a run that is reported afterwards.
pub fn hushed<T>(work: impl FnOnce() -> T) -> T {
    looked_on(None, work)
}

/// Reports an event of this thread.
pub fn tell(event: Event<'_>) {
    if is_on() {
        match secret::is_any() {
            true => masked(event),
            false => relay(WORKER.with(|worker| *worker), event),
        }
    }
}

/// Reports an event of a thread of another program.
pub fn relay(worker: Worker, event: Event<'_>) {
    if let Some(watcher) = watcher() {
        (watcher.0)(worker, event);
    }
}

/// Reports an event with its secrets masked.
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

/// Reports what this thread waits for, until the returned value is dropped. `what` is called only
/// if there is a watcher.
#[must_use]
pub fn waits(what: impl FnOnce() -> String) -> Waiting {
    if is_on() {
        tell(Event::Waits(Some(&what())));
    }
    Waiting
}

/// A wait that is in progress; dropping it reports the end.
#[derive(Debug)]
pub struct Waiting;

impl Drop for Waiting {
    fn drop(&mut self) {
        tell(Event::Waits(None));
    }
}
