//! The counters of the master's work, and the page that Prometheus reads (`metrics_listen`).

pub(crate) mod page;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use reactor::State;

use crate::store::{Applied, now_ms};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that grows and shrinks.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn number(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or_default()
    }
}

/// The upper bounds of a histogram's buckets, in milliseconds.
const BOUNDS_MS: [u64; 12] = [
    5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30_000, 120_000, 600_000,
];

/// A histogram of durations.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// The counts per bucket: up to its bound and above the one before it. The last bucket is above
    /// all bounds.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_ms: AtomicU64,
}

impl Histogram {
    /// Adds the duration from `began_ms` until now.
    pub(crate) fn since(&self, began_ms: u64) {
        self.took(now_ms().saturating_sub(began_ms));
    }

    fn took(&self, ms: u64) {
        let at = BOUNDS_MS.partition_point(|bound| *bound < ms);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

/// Counters by the value of a label.
#[derive(Debug)]
struct Family<const N: usize> {
    words: [&'static str; N],
    counters: [Counter; N],
}

impl<const N: usize> Family<N> {
    fn new(words: [&'static str; N]) -> Self {
        Self {
            words,
            counters: std::array::from_fn(|_| Counter::default()),
        }
    }

    /// Counts one. An unknown word is not counted.
    fn add(&self, word: &str) {
        let at = self.words.iter().position(|known| *known == word);
        if let Some(counter) = at.and_then(|at| self.counters.get(at)) {
            counter.add();
        }
    }

    fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let numbers = self.counters.iter().map(Counter::number);
        self.words.iter().copied().zip(numbers)
    }
}

/// The counters of a running master. Numbers that the store has are read from it when the page is
/// requested.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// The time at which the master started.
    began_ms: u64,
    /// The peers that have sent a hello.
    pub(crate) hellos: Counter,
    /// The jobs that were sent.
    pub(crate) jobs: Counter,
    /// The refused returns, such as those of jobs that were not sent to the minion.
    pub(crate) returns_refused: Counter,
    /// The events that a rule of the reactor has taken and not finished.
    pub(crate) reactions_waiting: Gauge,
    /// The time from an event to the end of a rule's reaction.
    pub(crate) reaction_seconds: Histogram,
    /// The time from a job to a minion's return.
    job_seconds: Histogram,
    returns: Counter,
    duplicates: Counter,
    auth: Family<6>,
    reactions: Family<5>,
    /// The finished reactions of each rule's pattern, by state. The rules of the configuration and
    /// of `reactor.add` are few, so the map has no limit.
    by_rule: Mutex<BTreeMap<(String, &'static str), u64>>,
    requests: Family<13>,
    api: Family<15>,
}

/// The status codes of the API's answers.
const API: [&str; 15] = [
    "200", "202", "400", "401", "403", "404", "405", "406", "408", "413", "429", "431", "500",
    "503", "504",
];

impl Default for Metrics {
    fn default() -> Self {
        let requests = [
            "200", "400", "401", "404", "405", "406", "408", "409", "411", "413", "429", "431",
            "503",
        ];
        Self {
            began_ms: now_ms(),
            hellos: Counter::default(),
            jobs: Counter::default(),
            returns_refused: Counter::default(),
            reactions_waiting: Gauge::default(),
            reaction_seconds: Histogram::default(),
            job_seconds: Histogram::default(),
            returns: Counter::default(),
            duplicates: Counter::default(),
            auth: Family::new(["accept", "pend", "reject", "denied", "full", "error"]),
            reactions: Family::new([
                State::Done.as_str(),
                State::Failed.as_str(),
                State::Unknown.as_str(),
                State::Observed.as_str(),
                State::Stopped.as_str(),
            ]),
            by_rule: Mutex::default(),
            requests: Family::new(requests),
            api: Family::new(API),
        }
    }
}

impl Metrics {
    /// Counts a decision on a key by its name in `salt/auth`.
    pub(crate) fn auth(&self, act: &str) {
        self.auth.add(act);
    }

    /// Counts a reaction of a rule's pattern by its final state.
    pub(crate) fn reaction(&self, rule: &str, state: State) {
        self.reactions.add(state.as_str());
        let mut by_rule = self.by_rule.lock().unwrap_or_else(PoisonError::into_inner);
        *by_rule
            .entry((rule.to_owned(), state.as_str()))
            .or_default() += 1;
    }

    /// Returns the finished reactions of each rule's pattern, by state.
    fn reactions_by_rule(&self) -> BTreeMap<(String, &'static str), u64> {
        let by_rule = self.by_rule.lock().unwrap_or_else(PoisonError::into_inner);
        by_rule.clone()
    }

    /// Counts a request to the hook by its status.
    pub(crate) fn hook(&self, status: u16) {
        self.requests.add(&status.to_string());
    }

    /// Counts a request to the API by its status.
    pub(crate) fn api(&self, status: u16) {
        self.api.add(&status.to_string());
    }

    /// Counts a return by its result. For a stored one, also records the time since the job was
    /// sent.
    pub(crate) fn returned(&self, applied: &Applied, sent_ms: Option<u64>) {
        if applied.has_return() {
            self.returns.add();
            if let Some(sent_ms) = sent_ms {
                self.job_seconds.since(sent_ms);
            }
        } else if applied.rejection().is_some() {
            self.returns_refused.add();
        } else {
            self.duplicates.add();
        }
    }
}
