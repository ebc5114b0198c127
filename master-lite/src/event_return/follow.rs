//! [`Follower`]: follows the log of events for one returner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use link::wait::{pause, until};
use modules::returners::follow::{self, Batch as Handed, Record};
use reactor::{Limits, Templates};
use smol::future::{FutureExt, pending, poll_once};
use state::exec::Exec;
use value::log;

use super::batch::{Batch, Filter, Lost, Page, Queue};
use super::{EventReturn, LogOption};
use crate::runs::Runners;
use crate::store::{Command, Error, Seen, Store, Watch};

/// The interval between writes of the cursor while events arrive that are not handed over.
const CURSOR_EVERY: Duration = Duration::from_millis(500);
/// The pause after a failure of the store.
const BREATH: Duration = Duration::from_secs(1);
/// The pause after the first failure of the returner. It doubles with each failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest pause between two attempts.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// The interval at which a failure that lasts is logged again.
const REPEAT: Duration = Duration::from_secs(3600);

/// A returner and its progress in the log.
pub(super) struct Follower {
    option: LogOption,
    returner: String,
    /// The last event of the log at the beginning, until the returner was prepared for the log.
    unprepared: Option<u64>,
    filter: Arc<Filter>,
    queue: Queue,
    runners: Runners,
    store: Store,
    watch: Watch,
    /// The context of calls. It is renewed regularly and after a failure, so that changed files of
    /// the returner are used.
    context: Arc<Templates>,
    /// The maximum age of the context.
    refresh: Duration,
    /// The number of the first event that was not read yet.
    next: u64,
    /// The number of the first event that is not known to be in the log.
    end: u64,
    batch: Batch,
    /// The cursor in the store, and the time at which it was written.
    written: (u64, Instant),
}

impl Follower {
    /// Returns a follower that continues at the returner's cursor, or begins with the next event.
    pub(super) async fn begin(
        service: &EventReturn,
        (option, returner): (LogOption, String),
    ) -> Result<Self, Error> {
        let (store, watch) = (service.store.clone(), service.store.watch());
        let last = watch.first().saturating_sub(1);
        let name = super::cursor(option, &returner);
        let done = match store.cursor(&name)? {
            // A store that was restored may have an older log.
            Some(done) => done.min(last),
            None => {
                let sequence = Some(last);
                store.apply(Command::Cursor { name, sequence }).await?;
                last
            }
        };
        Ok(Self {
            option,
            returner,
            unprepared: Some(last),
            filter: Arc::new(service.filter(option)),
            queue: service.queue(option),
            runners: service.runners.clone(),
            store,
            end: watch.first(),
            watch,
            context: Arc::default(),
            refresh: Limits::from_opts(&service.opts).refresh,
            next: done + 1,
            batch: Batch::default(),
            written: (done, Instant::now()),
        })
    }

    /// Hands over events until the master ends.
    pub(super) async fn run(mut self) {
        self.tell_missing().await;
        loop {
            if self.next < self.end && self.batch.room() > 0 {
                if let Err(error) = self.read().await {
                    log::error(format_args!(
                        "{}: cannot read the events for the returner {}, retrying: {error}",
                        self.option.name(),
                        self.returner
                    ));
                    pause(BREATH).await;
                    continue;
                }
            } else if self.batch.due(self.queue).is_some_and(is_over) {
                self.deliver().await;
            } else if !self.wait().await {
                return;
            }
            self.note().await;
        }
    }

    /// Logs an error if the returner cannot get events now.
    async fn tell_missing(&self) {
        let (option, returner) = (self.option, self.returner.clone());
        let look = move |cx: &Exec| follow::lacks(cx, option.kind(), &returner);
        if let Some(why) = self.with_context(look).await {
            log::error(format_args!(
                "The option {} cannot be followed yet: {why}. Events wait in the log until then.",
                option.name()
            ));
        }
    }

    /// Does work that may block, in the context of calls.
    async fn with_context<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Exec) -> T + Send + 'static,
    ) -> T {
        let (context, runners) = (self.context.clone(), self.runners.clone());
        let refresh = self.refresh;
        smol::unblock(move || {
            let cx = context.context(refresh, || runners.context(false));
            let done = work(&cx);
            cx.barrier();
            done
        })
        .await
    }

    /// Reads some events of the log into the batch.
    async fn read(&mut self) -> Result<(), Error> {
        let (store, filter) = (self.store.clone(), self.filter.clone());
        let (from, end, room) = (self.next, self.end, self.batch.room());
        let read = move || Page::read(store.sized_events(from)?, (from, end), &filter, room);
        let page = smol::unblock(read).await?;
        if let Some(lost) = page.lost {
            self.tell_lost(lost);
        }
        self.next = page.next;
        self.batch.add(page);
        Ok(())
    }

    fn tell_lost(&self, lost: Lost) {
        let Lost { count, first, last } = lost;
        log::error(format_args!(
            "{}: the returner {} has lost {count} events between the numbers {first} and {last}: the log dropped them before they were handed over. To keep more events, raise keep_events_bytes.",
            self.option.name(),
            self.returner
        ));
    }

    /// Passes the batch to the returner, again and again until it succeeds.
    async fn deliver(&mut self) {
        let records: Arc<[Record]> = std::mem::take(&mut self.batch).records.into();
        let last = self.next.saturating_sub(1);
        let mut failures = Failures::default();
        while let Err(error) = self.attempt(&records).await {
            let retry = failures.next_pause();
            if failures.is_new(&error) {
                log::error(format_args!(
                    "{}: the returner {} cannot store the batch of {} up to event {last}, trying again in {} s: {error}",
                    self.option.name(),
                    self.returner,
                    records.len(),
                    retry.as_secs()
                ));
            }
            self.forget_context().await;
            pause(retry).await;
        }
        if failures.count > 0 {
            log::info(format_args!(
                "{}: the returner {} works again, after {} failures",
                self.option.name(),
                self.returner,
                failures.count
            ));
        }
        self.write(last).await;
    }

    /// Passes events to the returner. Returns the reason if that fails.
    async fn attempt(&mut self, records: &Arc<[Record]>) -> Result<(), String> {
        let (kind, returner, place) = (self.option.kind(), self.returner.clone(), self.place());
        if let Some(last) = self.unprepared {
            let (returner, place) = (returner.clone(), place.clone());
            let prepare = move |cx: &Exec| follow::begin(cx, kind, &returner, &place, last);
            let prepared = self.with_context(prepare).await;
            prepared.map_err(|error| error.to_string())?;
            self.unprepared = None;
        }
        let records = records.clone();
        let hand = move |cx: &Exec| {
            let (place, records) = (place.as_str(), &*records);
            let batch = Handed {
                kind,
                place,
                records,
            };
            follow::hand_batch(cx, &returner, &batch)
        };
        let handed = self.with_context(hand).await;
        handed.map_err(|error| error.to_string())
    }

    /// Returns the name of the cursor.
    fn place(&self) -> String {
        super::cursor(self.option, &self.returner)
    }

    /// Drops the context, so that the next attempt loads changed files.
    async fn forget_context(&mut self) {
        let old = std::mem::take(&mut self.context);
        // Children of the returner are ended, which may take a moment.
        smol::unblock(move || drop(old)).await;
    }

    /// Waits for an event, or until there is something else to do. Returns false if the store was
    /// closed.
    async fn wait(&mut self) -> bool {
        let due = self.batch.due(self.queue);
        let is_settled = !self.batch.records.is_empty() || self.done() == self.written.0;
        let late = async {
            match (due, is_settled) {
                (Some(due), _) => until(due).await,
                (None, false) => pause(CURSOR_EVERY).await,
                (None, true) => pending().await,
            }
            Some(None)
        };
        // No deadline: the next event may come at any time.
        let seen = async { self.watch.next().await.map(Some) };
        let mut seen = seen.or(late).await;
        // Events that arrived in the meantime go into the same batch.
        while let Some(Some(one)) = seen {
            let last = match one {
                Seen::Event(event) => event.sequence,
                Seen::Missed { to, .. } => to,
            };
            self.end = self.end.max(last + 1);
            seen = match poll_once(self.watch.next()).await {
                Some(next) => next.map(Some),
                None => Some(None),
            };
        }
        seen.is_some()
    }

    /// Returns the last event that is done and before which all events are done, while the batch is
    /// empty.
    fn done(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// Writes the cursor if it is time to, for events that were not wanted.
    async fn note(&mut self) {
        let (written, at) = self.written;
        let is_due = self.done() != written && at.elapsed() >= CURSOR_EVERY;
        if is_due && self.batch.records.is_empty() {
            self.write(self.done()).await;
        }
    }

    /// Writes the cursor. Once it is written, a crash does not cause these events to be handed over
    /// again.
    async fn write(&mut self, done: u64) {
        self.written = (done, Instant::now());
        let (name, sequence) = (self.place(), Some(done));
        let kept = self.store.later(Command::Cursor { name, sequence });
        if let Err(error) = kept.await {
            log::error(format_args!("{}: {error}", self.option.name()));
        }
    }
}

/// The failures of a batch.
#[derive(Debug, Default)]
struct Failures {
    count: u32,
    /// The last reason that was logged, and when.
    logged: Option<(String, Instant)>,
}

impl Failures {
    /// Counts a failure. Returns the pause until the next attempt.
    fn next_pause(&mut self) -> Duration {
        let doubled = RETRY_FIRST * 2_u32.saturating_pow(self.count.min(16));
        self.count = self.count.saturating_add(1);
        doubled.min(RETRY_MAX)
    }

    /// Returns whether a reason must be logged: it is another one, or was not logged for long.
    fn is_new(&mut self, reason: &str) -> bool {
        let is_known = |(logged, at): &(String, Instant)| logged == reason && at.elapsed() < REPEAT;
        if self.logged.as_ref().is_some_and(is_known) {
            return false;
        }
        self.logged = Some((reason.to_owned(), Instant::now()));
        true
    }
}

fn is_over(due: Instant) -> bool {
    due <= Instant::now()
}
