//! [`Watch`]: delivers events in order, as they become durable, to tasks that wait for them.
//!
//! A slow task costs the others nothing, and little memory: events that do not fit into its queue
//! are only counted, and it reads those from the log.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use super::rows::Event;

/// An item of a watch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    /// The next event.
    Event(Arc<Event>),
    /// Events that did not fit into the queue. They can be read from the log.
    Missed {
        /// The number of the first one.
        from: u64,
        /// The number of the last one.
        to: u64,
    },
}

/// A receiver of new events.
#[derive(Debug)]
pub(crate) struct Watch {
    queue: Arc<Mutex<Queue>>,
    first: u64,
}

impl Watch {
    /// Returns the number of the first event that can arrive. Earlier ones are in the log.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Waits for the next event. Returns `None` after the store was closed.
    pub(crate) async fn next(&self) -> Option<Seen> {
        poll_fn(|context| lock(&self.queue).poll(context)).await
    }
}

/// The queues of all watches.
#[derive(Debug)]
pub(super) struct Watchers {
    list: Mutex<List>,
    events_max: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct List {
    queues: Vec<Weak<Mutex<Queue>>>,
    next: u64,
}

impl Watchers {
    /// Creates the list for events from `next` on, with these limits for each queue.
    pub(super) fn new(next: u64, events_max: usize, bytes_max: usize) -> Self {
        let queues = Vec::new();
        Self {
            list: Mutex::new(List { queues, next }),
            events_max,
            bytes_max,
        }
    }

    pub(super) fn watch(&self) -> Watch {
        let queue = Arc::new(Mutex::new(Queue::default()));
        let mut list = lock(&self.list);
        list.queues.push(Arc::downgrade(&queue));
        let first = list.next;
        Watch { queue, first }
    }

    /// Sends events to all watches, each event with its size in bytes.
    pub(super) fn tell(&self, events: &[(Arc<Event>, usize)]) {
        let mut list = lock(&self.list);
        if let Some((last, _)) = events.last() {
            list.next = last.sequence + 1;
        }
        list.queues.retain(|queue| {
            let Some(queue) = queue.upgrade() else {
                return false;
            };
            let mut queue = lock(&queue);
            for (event, bytes) in events {
                queue.push(event, *bytes, self.events_max, self.bytes_max);
            }
            queue.wake();
            true
        });
    }

    /// Reports to all watches that there are events before `next` that they have not received:
    /// those were stored although their batch had failed.
    pub(super) fn catch_up(&self, next: u64) {
        let mut list = lock(&self.list);
        let (from, to) = (list.next, next.saturating_sub(1));
        if from > to {
            return;
        }
        list.next = next;
        for queue in list.queues.iter().filter_map(Weak::upgrade) {
            let mut queue = lock(&queue);
            queue.miss(from, to);
            queue.wake();
        }
    }

    /// Closes all watches.
    pub(super) fn close(&self) {
        for queue in lock(&self.list).queues.drain(..) {
            if let Some(queue) = queue.upgrade() {
                let mut queue = lock(&queue);
                queue.is_closed = true;
                queue.wake();
            }
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<(Seen, usize)>,
    bytes: usize,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Queue {
    fn push(&mut self, event: &Arc<Event>, bytes: usize, events_max: usize, bytes_max: usize) {
        let sequence = event.sequence;
        if self.items.len() < events_max && self.bytes + bytes <= bytes_max {
            self.bytes += bytes;
            self.items.push_back((Seen::Event(event.clone()), bytes));
        } else {
            self.miss(sequence, sequence);
        }
    }

    fn miss(&mut self, from: u64, to: u64) {
        if let Some((Seen::Missed { to: last, .. }, _)) = self.items.back_mut() {
            *last = to;
        } else {
            self.items.push_back((Seen::Missed { from, to }, 0));
        }
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<Option<Seen>> {
        if let Some((seen, bytes)) = self.items.pop_front() {
            self.bytes -= bytes;
            return Poll::Ready(Some(seen));
        }
        if self.is_closed {
            return Poll::Ready(None);
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
