//! [`Outgoing`]: the frames on their way out on a control stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn::Connection;
use smol::lock::{Semaphore, SemaphoreGuardArc};
use value::log::Level;

use crate::connection::word;
use crate::error::Error;
use crate::stream::{Writer, note};

/// Frames that are sent together hold about so many bytes at most.
const BATCH: usize = 16 << 10;

/// Frames as bytes, in the order that they were queued in. The task that sends them is there only while there are some: a master has
/// thousands of connections on which nothing is said.
#[derive(Debug)]
pub(crate) struct Outgoing {
    room: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
    connection: Connection,
}

#[derive(Debug)]
struct Waiting {
    frames: VecDeque<(Vec<u8>, SemaphoreGuardArc)>,
    /// The stream, while nothing is sent on it.
    idle: Option<Writer>,
    is_lost: bool,
}

impl Waiting {
    /// Frames to be sent together; none where none wait.
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
    /// Room for so many frames on their way to a stream.
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

    /// Queues a frame when there is room, which a slow reader leaves none of. False where the stream is lost.
    pub(crate) async fn send(self: &Arc<Self>, frame: Vec<u8>) -> bool {
        // No deadline: a reader that takes nothing is cut off, and what waits with it.
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

    /// Sends what waits, until nothing does.
    async fn write(self: Arc<Self>, writer: Writer) {
        let mut next = self.next(writer);
        // No deadline: the writer has one for each batch.
        while let Some((mut writer, batch)) = next {
            if let Err(error) = writer.write(&batch).await {
                return self.lost(&error);
            }
            next = self.next(writer);
        }
    }

    /// What is to be sent next; the stream is idle where that is nothing.
    fn next(&self, writer: Writer) -> Option<(Writer, Vec<u8>)> {
        let mut waiting = self.waiting();
        if let Some(batch) = waiting.batch() {
            return Some((writer, batch));
        }
        waiting.frames.shrink_to_fit();
        waiting.idle = Some(writer);
        None
    }

    /// Cuts off a peer that takes nothing for too long, and lets go who waits for room.
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
