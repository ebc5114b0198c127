//! [`Outgoing`]: the queue of frames to be sent on a control stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn::Connection;
use smol::lock::{Semaphore, SemaphoreGuardArc};
use value::log::Level;

use crate::connection::word;
use crate::error::Error;
use crate::stream::{Writer, note};

/// The approximate maximum number of bytes of frames that are sent together.
const BATCH: usize = 16 << 10;

/// A queue of encoded frames, sent in the order in which they were queued. The task that sends them
/// exists only while there are some, because most of a master's thousands of connections are idle.
#[derive(Debug)]
pub(crate) struct Outgoing {
    room: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
    connection: Connection,
}

#[derive(Debug)]
struct Waiting {
    frames: VecDeque<(Vec<u8>, SemaphoreGuardArc)>,
    /// The stream, while no task sends on it.
    idle: Option<Writer>,
    is_lost: bool,
}

impl Waiting {
    /// Takes frames to be sent together from the queue; `None` if it is empty.
    fn batch(&mut self) -> Option<Vec<u8>> {
        let (mut bytes, _) = self.frames.pop_front()?;
        while bytes.len() < BATCH
            && let Some((more, _)) = self.frames.pop_front()
        {
            bytes.extend_from_slice(&more);
        }
        Some(bytes)
    }
}

impl Outgoing {
    /// Returns an empty queue with room for `room` frames.
    pub(crate) fn new(writer: Writer, room: usize, connection: Connection) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(room)),
            waiting: Mutex::new(Waiting {
                frames: VecDeque::new(),
                idle: Some(writer),
                is_lost: false,
            }),
            connection,
        })
    }

    /// Waits for room and queues a frame; a slow reader keeps the queue full. Returns false if the
    /// stream is lost.
    pub(crate) async fn send(self: &Arc<Self>, frame: Vec<u8>) -> bool {
        // No deadline: a reader that accepts nothing is disconnected, which also ends this wait.
        let room = self.room.acquire_arc().await;
        self.queue(frame, room)
    }

    /// Queues a frame if there is room.
    pub(crate) fn try_send(self: &Arc<Self>, frame: Vec<u8>) {
        if let Some(room) = self.room.try_acquire_arc() {
            self.queue(frame, room);
        }
    }

    fn queue(self: &Arc<Self>, frame: Vec<u8>, room: SemaphoreGuardArc) -> bool {
        let mut waiting = self.waiting();
        if waiting.is_lost {
            return false;
        }
        waiting.frames.push_back((frame, room));
        if let Some(writer) = waiting.idle.take() {
            smol::spawn(self.clone().write(writer)).detach();
        }
        true
    }

    /// Sends frames until the queue is empty.
    async fn write(self: Arc<Self>, writer: Writer) {
        let mut next = self.next(writer);
        // No deadline: the writer applies one to each batch.
        while let Some((mut writer, batch)) = next {
            if let Err(error) = writer.write(&batch).await {
                return self.lost(&error);
            }
            next = self.next(writer);
        }
    }

    /// Returns the next batch to be sent. If there is none, the stream becomes idle.
    fn next(&self, writer: Writer) -> Option<(Writer, Vec<u8>)> {
        let mut waiting = self.waiting();
        if let Some(batch) = waiting.batch() {
            return Some((writer, batch));
        }
        waiting.frames.shrink_to_fit();
        waiting.idle = Some(writer);
        None
    }

    /// Disconnects a peer that accepts nothing for too long, and wakes the callers that wait for
    /// room.
    fn lost(&self, error: &Error) {
        if self.connection.close_reason().is_none() {
            note(Level::Warning, format_args!("{error}"));
            self.connection.close(1_u32.into(), word(error).as_bytes());
        }
        let mut waiting = self.waiting();
        waiting.is_lost = true;
        waiting.frames.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(writer) = &mut self.waiting().idle {
            writer.finish();
        }
    }
}
