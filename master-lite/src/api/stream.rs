//! [`LogStream`]: the events of the log from a number on, without gaps. [`ClientEvents`]: those for a
//! client of `/events` or `/ws`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use link::wait::within;
use value::log;

use super::checks::Checked;
use crate::store::{self, Event, Seen, Store, Watch};

/// The time after which a client without an event is sent something else, so that a connection that
/// is gone is noticed.
const PULSE: Duration = Duration::from_secs(20);

/// The maximum number of events of the log that are read at once.
const READ_MAX: usize = 256;

/// Reads the log from a number on, and then waits for new events.
pub(super) struct LogStream {
    store: Store,
    watch: Watch,
    /// The events that were read, and are next.
    ready: VecDeque<Arc<Event>>,
    /// The first event of the log that is still to be read, and the one after the last of these.
    from: u64,
    upto: u64,
}

impl LogStream {
    /// Follows the log from the event with this number, or from the next new one.
    pub(super) fn new(store: &Store, from: Option<u64>) -> Self {
        let watch = store.watch();
        let upto = watch.first();
        Self {
            store: store.clone(),
            watch,
            ready: VecDeque::new(),
            from: from.unwrap_or(upto).min(upto),
            upto,
        }
    }

    /// Waits for the next event. Returns `None` when the master ends.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub(super) async fn next(&mut self) -> Result<Option<Arc<Event>>, store::Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.from < self.upto {
                self.read().await?;
                continue;
            }
            // No deadline: the caller has one, and the store closes the watch.
            match self.watch.next().await {
                None => return Ok(None),
                Some(Seen::Event(event)) => return Ok(Some(event)),
                Some(Seen::Missed { from, to }) => (self.from, self.upto) = (from, to + 1),
            }
        }
    }

    /// Reads the next events of the log.
    async fn read(&mut self) -> Result<(), store::Error> {
        let (store, from, upto) = (self.store.clone(), self.from, self.upto);
        let read = smol::unblock(move || {
            let events = store.events(from)?.take(READ_MAX);
            events.collect::<Result<Vec<Event>, store::Error>>()
        });
        let events = read.await?;
        let last = events.last().map(|event| event.sequence);
        self.from = last.map_or(upto, |last| last + 1).min(upto);
        let events = events.into_iter().filter(|event| event.sequence < upto);
        self.ready.extend(events.map(Arc::new));
        Ok(())
    }
}

/// The events for one client, as long as its token is valid.
pub(super) struct ClientEvents {
    token: Arc<Checked>,
    events: LogStream,
}

impl ClientEvents {
    /// Follows the log from the event with this number, or from the next new one.
    pub(super) fn new(store: &Store, token: Arc<Checked>, from: Option<u64>) -> Self {
        Self {
            token,
            events: LogStream::new(store, from),
        }
    }

    /// Waits for the next event, which is `Some(None)` if there was none for [`PULSE`]. Returns `None`
    /// when the master ends, or the log cannot be read. Nothing is lost if the caller stops waiting.
    pub(super) async fn next(&mut self) -> Option<Option<Arc<Event>>> {
        match within(PULSE, self.events.next()).await {
            None => Some(None),
            Some(Ok(event)) => event.map(Some),
            Some(Err(error)) => {
                log::error(format_args!("cannot read the events: {error}"));
                None
            }
        }
    }

    /// Returns true if the client's token is still valid.
    pub(super) async fn is_valid(&self) -> bool {
        self.token.is_valid().await
    }
}
