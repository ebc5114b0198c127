//! `parallel`: chunks that run at the same time, each in a thread.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use value::{Map, channel, secret, watch};

use super::call;
use super::clock::Stamp;
use super::engine::Run;
use super::retry;
use crate::exec::Exec;
use crate::low::LowChunk;
use crate::module::StateFunction;

/// The work of a thread.
pub(super) type Job = Box<dyn FnOnce() -> Map + Send>;

const STARTED: &str = "Started in a separate process";
const WAITING: &str = "Waiting to be started in a separate process, max_parallel hit";

/// The parallel chunks that have no return yet.
#[derive(Debug)]
pub(super) struct Parallel {
    most: usize,
    /// The threads by chunk. A thread that could not be started has no handle; its return is
    /// already in the channel.
    threads: HashMap<usize, Option<JoinHandle<()>>>,
    waiting: VecDeque<Waiting>,
    sender: Sender<(usize, Map)>,
    receiver: Receiver<(usize, Map)>,
}

struct Waiting {
    index: usize,
    job: Job,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.index.fmt(f)
    }
}

impl Parallel {
    /// Limits the number of concurrent jobs. `None`, or a number that is not positive, means no
    /// limit.
    pub(super) fn new(most: Option<i64>) -> Self {
        let most = most.and_then(|most| usize::try_from(most).ok());
        let (sender, receiver) = channel();
        Self {
            most: most.filter(|most| *most > 0).unwrap_or(usize::MAX),
            threads: HashMap::new(),
            waiting: VecDeque::new(),
            sender,
            receiver,
        }
    }

    /// Returns true if a chunk is running, or waits to be started.
    pub(super) fn holds(&self, index: usize) -> bool {
        self.threads.contains_key(&index) || self.waiting.iter().any(|w| w.index == index)
    }

    /// Returns true if no chunk is running or waiting.
    pub(super) fn is_idle(&self) -> bool {
        self.threads.is_empty() && self.waiting.is_empty()
    }

    /// Starts a job, or queues it, and returns the comment that says which.
    pub(super) fn start(&mut self, index: usize, job: Job) -> &'static str {
        if self.threads.len() >= self.most {
            self.waiting.push_back(Waiting { index, job });
            return WAITING;
        }
        self.spawn(index, job);
        STARTED
    }

    fn spawn(&mut self, index: usize, job: Job) {
        let sender = self.sender.clone();
        let watcher = watch::watcher();
        let thread = Builder::new().spawn(move || {
            let ret = watch::looked_on(watcher, job);
            // The receiver only disappears together with the run.
            channel::if_open(sender.send((index, ret)));
        });
        if let Err(error) = &thread {
            let lost = lost(&format!("Parallel process failed to start: {error}"));
            channel::if_open(self.sender.send((index, lost)));
        }
        self.threads.insert(index, thread.ok());
    }

    /// Starts waiting jobs as far as the limit permits, and returns their chunks.
    fn start_waiting(&mut self) -> Vec<usize> {
        let mut started = Vec::new();
        while self.threads.len() < self.most
            && let Some(Waiting { index, job }) = self.waiting.pop_front()
        {
            self.spawn(index, job);
            started.push(index);
        }
        started
    }

    /// Returns the returns that have arrived. With `wait`, it waits for at least one.
    fn finished(&mut self, wait: bool) -> Vec<(usize, Map)> {
        let mut finished: Vec<_> = self.receiver.try_iter().collect();
        while wait && finished.is_empty() && !self.threads.is_empty() {
            match self.receiver.recv_timeout(Duration::from_millis(200)) {
                Ok(one) => finished.push(one),
                Err(_) => finished.extend(self.dead()),
            }
        }
        for (index, _) in &finished {
            if let Some(Some(thread)) = self.threads.remove(index) {
                #[expect(
                    clippy::let_underscore_must_use,
                    reason = "a thread that panicked has sent nothing, and its chunk is already lost"
                )]
                let _ = thread.join();
            }
        }
        finished
    }

    /// Returns a return for a thread that ended without one.
    fn dead(&self) -> Option<(usize, Map)> {
        let ended =
            |thread: &Option<JoinHandle<()>>| thread.as_ref().is_none_or(JoinHandle::is_finished);
        let (index, _) = self.threads.iter().find(|(_, thread)| ended(thread))?;
        // The thread may have sent its return in the meantime.
        match self.receiver.try_recv() {
            Ok(one) => Some(one),
            Err(_) => Some((*index, lost("Parallel process failed to return"))),
        }
    }
}

fn lost(comment: &str) -> Map {
    Map::new()
        .with("result", false)
        .with("comment", comment)
        .with("changes", Map::new())
}

/// Returns the work of a parallel chunk whose guards permit it to run.
pub(super) fn job(cx: Exec, low: Arc<LowChunk>, function: StateFunction) -> Job {
    Box::new(move || {
        super::tell_started(&cx, &low, false);
        let _hush = secret::mask_logs(low.options.no_log);
        let once = || {
            let stamp = Stamp::now();
            let ret = call::acted(&cx, &low, function);
            call::checked(&cx, &low, function, ret)
                .with("start_time", stamp.start_time())
                .with("duration", stamp.duration())
                .with("__parallel__", true)
        };
        retry::repeated_beside(once(), &low, cx.test, once)
    })
}

impl Run<'_> {
    /// Stores the returns that have arrived, and starts waiting jobs.
    pub(super) fn collect_parallel(&mut self) {
        if !self.parallel.is_idle() {
            self.collect(false);
        }
    }

    /// Like [`Run::collect_parallel`], but waits for at least one return.
    pub(super) fn wait_for_one(&mut self) {
        self.collect(true);
    }

    fn collect(&mut self, wait: bool) {
        for (index, ret) in self.parallel.finished(wait) {
            self.parallel_returned(index, ret);
        }
        for index in self.parallel.start_waiting() {
            self.comment(index, STARTED);
        }
    }
}
