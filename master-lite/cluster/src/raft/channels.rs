//! The channels and locks that openraft takes from its runtime. They work with any executor.

use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Lock, PoisonError, RwLock, RwLockReadGuard};
use std::task::{Context, Poll, Waker};

use openraft::OptionalSend;
use openraft::async_runtime::watch::{self, RecvError};
use openraft::async_runtime::{
    Mpsc, MpscReceiver, MpscSender, MpscWeakSender, Mutex, Oneshot, OneshotSender, SendError,
    TryRecvError,
};
use smol::channel;

/// Bounded channels with one receiver.
#[derive(Clone, Copy, Debug)]
pub struct Queues;

/// The sending end of a queue.
#[derive(Debug)]
pub struct QueueSender<T>(channel::Sender<T>);

/// The receiving end of a queue.
#[derive(Debug)]
pub struct QueueReceiver<T>(channel::Receiver<T>);

/// A sending end that does not keep the queue open.
#[derive(Debug)]
pub struct QueueWeakSender<T>(channel::WeakSender<T>);

impl<T> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Clone for QueueWeakSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Mpsc for Queues {
    type Sender<T: OptionalSend> = QueueSender<T>;
    type Receiver<T: OptionalSend> = QueueReceiver<T>;
    type WeakSender<T: OptionalSend> = QueueWeakSender<T>;

    fn channel<T: OptionalSend>(buffer: usize) -> (Self::Sender<T>, Self::Receiver<T>) {
        let (sender, receiver) = channel::bounded(buffer.max(1));
        (QueueSender(sender), QueueReceiver(receiver))
    }
}

impl<T: OptionalSend> MpscSender<Queues, T> for QueueSender<T> {
    async fn send(&self, message: T) -> Result<(), SendError<T>> {
        let sent = self.0.send(message).await;
        sent.map_err(|error| SendError(error.0))
    }

    fn downgrade(&self) -> QueueWeakSender<T> {
        QueueWeakSender(self.0.downgrade())
    }
}

impl<T: OptionalSend> MpscReceiver<T> for QueueReceiver<T> {
    async fn recv(&mut self) -> Option<T> {
        // No deadline: openraft ends the task with the queue.
        self.0.recv().await.ok()
    }

    fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.0.try_recv().map_err(|error| match error {
            channel::TryRecvError::Empty => TryRecvError::Empty,
            channel::TryRecvError::Closed => TryRecvError::Disconnected,
        })
    }
}

impl<T: OptionalSend> MpscWeakSender<Queues, T> for QueueWeakSender<T> {
    fn upgrade(&self) -> Option<QueueSender<T>> {
        self.0.upgrade().map(QueueSender)
    }
}

/// Channels for one value.
#[derive(Clone, Copy, Debug)]
pub struct Answers;

/// The sender of an answer was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender of an answer is gone")]
pub struct NoAnswer;

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    is_open: bool,
    waiting: Option<Waker>,
}

/// The sending end of a channel for one value.
#[derive(Debug)]
pub struct AnswerSender<T>(Arc<Lock<Slot<T>>>);

/// The receiving end of a channel for one value.
#[derive(Debug)]
pub struct AnswerReceiver<T>(Arc<Lock<Slot<T>>>);

impl Oneshot for Answers {
    type Sender<T: OptionalSend> = AnswerSender<T>;
    type Receiver<T: OptionalSend> = AnswerReceiver<T>;
    type ReceiverError = NoAnswer;

    fn channel<T: OptionalSend>() -> (Self::Sender<T>, Self::Receiver<T>) {
        let slot = Arc::new(Lock::new(Slot {
            value: None,
            is_open: true,
            waiting: None,
        }));
        (AnswerSender(slot.clone()), AnswerReceiver(slot))
    }
}

impl<T> AnswerSender<T> {
    /// Closes the channel, and wakes its receiver. Returns the value if the receiver is gone.
    fn close(&self, value: Option<T>) -> Option<T> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !slot.is_open {
            return value;
        }
        slot.is_open = false;
        slot.value = value;
        let waiting = slot.waiting.take();
        drop(slot);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        None
    }
}

impl<T: OptionalSend> OneshotSender<T> for AnswerSender<T> {
    fn send(self, value: T) -> Result<(), T> {
        self.close(Some(value)).map_or(Ok(()), Err)
    }
}

impl<T> Drop for AnswerSender<T> {
    fn drop(&mut self) {
        self.close(None);
    }
}

impl<T> Future for AnswerReceiver<T> {
    type Output = Result<T, NoAnswer>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (slot.value.take(), slot.is_open) {
            (Some(value), _) => Poll::Ready(Ok(value)),
            (None, false) => Poll::Ready(Err(NoAnswer)),
            (None, true) => {
                slot.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for AnswerReceiver<T> {
    fn drop(&mut self) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.is_open = false;
        slot.waiting = None;
    }
}

/// Values that can be watched for changes.
#[derive(Clone, Copy, Debug)]
pub struct Watched;

#[derive(Debug)]
struct Cell<T> {
    value: RwLock<T>,
    /// The number of changes so far.
    version: AtomicU64,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    waiting: Lock<Vec<Waker>>,
}

impl<T> Cell<T> {
    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.value.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut *waiting);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// The end of a watched value that changes it.
#[derive(Debug)]
pub struct WatchSender<T>(Arc<Cell<T>>);

/// The end of a watched value that waits for changes.
#[derive(Debug)]
pub struct WatchReceiver<T> {
    cell: Arc<Cell<T>>,
    seen: u64,
}

/// A watched value while it is read.
#[derive(Debug)]
pub struct WatchRef<'a, T>(RwLockReadGuard<'a, T>);

impl<T> Deref for WatchRef<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl watch::Watch for Watched {
    type Sender<T: OptionalSend + Sync> = WatchSender<T>;
    type Receiver<T: OptionalSend + Sync> = WatchReceiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = WatchRef<'a, T>;

    fn channel<T: OptionalSend + Sync>(value: T) -> (WatchSender<T>, WatchReceiver<T>) {
        let cell = Arc::new(Cell {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
            waiting: Lock::default(),
        });
        let receiver = WatchReceiver {
            cell: cell.clone(),
            seen: 0,
        };
        (WatchSender(cell), receiver)
    }
}

impl<T> Clone for WatchSender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl<T> Drop for WatchSender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.wake();
        }
    }
}

impl<T> Clone for WatchReceiver<T> {
    fn clone(&self) -> Self {
        self.cell.receivers.fetch_add(1, Ordering::Relaxed);
        Self {
            cell: self.cell.clone(),
            seen: self.seen,
        }
    }
}

impl<T> Drop for WatchReceiver<T> {
    fn drop(&mut self) {
        self.cell.receivers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<T: OptionalSend + Sync> watch::WatchSender<Watched, T> for WatchSender<T> {
    fn send(&self, value: T) -> Result<(), watch::SendError<T>> {
        if self.0.receivers.load(Ordering::Acquire) == 0 {
            return Err(watch::SendError(value));
        }
        self.send_if_modified(|known| {
            *known = value;
            true
        });
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let mut value = self.0.value.write().unwrap_or_else(PoisonError::into_inner);
        let is_modified = modify(&mut value);
        if is_modified {
            self.0.version.fetch_add(1, Ordering::Release);
        }
        drop(value);
        if is_modified {
            self.0.wake();
        }
        is_modified
    }

    fn borrow_watched(&self) -> WatchRef<'_, T> {
        WatchRef(self.0.read())
    }

    fn subscribe(&self) -> WatchReceiver<T> {
        self.0.receivers.fetch_add(1, Ordering::Relaxed);
        WatchReceiver {
            seen: self.0.version.load(Ordering::Acquire),
            cell: self.0.clone(),
        }
    }
}

impl<T> WatchReceiver<T> {
    /// Returns whether the value has changed since it was seen, or an error once it cannot change
    /// any more.
    fn seen(&mut self) -> Option<Result<(), RecvError>> {
        let version = self.cell.version.load(Ordering::Acquire);
        if version != self.seen {
            self.seen = version;
            return Some(Ok(()));
        }
        let is_closed = self.cell.senders.load(Ordering::Acquire) == 0;
        is_closed.then_some(Err(RecvError(())))
    }
}

impl<T: OptionalSend + Sync> watch::WatchReceiver<Watched, T> for WatchReceiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        // No deadline: openraft ends the wait with the sender.
        poll_fn(|cx| {
            if let Some(seen) = self.seen() {
                return Poll::Ready(seen);
            }
            let mut waiting = self
                .cell
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            drop(waiting);
            // A change between the two looks would otherwise be missed.
            self.seen().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn borrow_watched(&self) -> WatchRef<'_, T> {
        WatchRef(self.cell.read())
    }

    fn borrow_and_update(&mut self) -> WatchRef<'_, T> {
        let value = self.cell.read();
        self.seen = self.cell.version.load(Ordering::Acquire);
        WatchRef(value)
    }
}

/// A lock that tasks wait for.
#[derive(Debug)]
pub struct TaskLock<T>(smol::lock::Mutex<T>);

impl<T: OptionalSend + 'static> Mutex<T> for TaskLock<T> {
    type Guard<'a> = smol::lock::MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        Self(smol::lock::Mutex::new(value))
    }

    async fn lock(&self) -> Self::Guard<'_> {
        // No deadline: openraft holds it only while it writes a value.
        self.0.lock().await
    }
}
