//! [`Capacity`]: an endpoint's limits, with the room for large frames that its streams share.
//!
//! A frame is charged twice. Its announced size is charged to its sender alone, all or nothing, so
//! frames of one sender never wait for each other half-way. The bytes that were received of it are
//! charged to the common room, so a sender that announces a frame and sends nothing takes nothing
//! from others. When the common room is full, the sender that uses most of it loses its oldest
//! frame.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::PeerInfo;
use crate::key::PublicKey;
use crate::limits::Limits;
use crate::shares::{Full, Places, Shares, Ticket};

/// The maximum size in bytes of a frame that needs no room set aside.
pub(crate) const SMALL: usize = 64 << 10;
/// The number of bytes by which the room for a frame grows at a time.
const STEP: usize = 64 << 10;
/// The divisor for the part of the common room that the fullest sender must use before a new frame
/// takes room from it. If it uses less, the new frame waits.
const FULLEST_PART: usize = 8;

/// A sender whose frames share one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sender {
    /// A key, over all its connections.
    Key(PublicKey),
    /// A user of this machine, by id.
    User(u32),
    /// All peers that have proved nothing.
    Unknown,
}

impl Sender {
    pub(crate) fn from_peer(who: &PeerInfo) -> Self {
        match (who.key, who.process) {
            (Some(key), _) => Self::Key(key),
            (None, Some((user, _))) => Self::User(user),
            (None, None) => Self::Unknown,
        }
    }
}

/// The limits, and the use of those that all streams of an endpoint share.
#[derive(Debug)]
pub(crate) struct Capacity {
    pub(crate) limits: Limits,
    usage: Mutex<Usage>,
}

#[derive(Debug)]
struct Usage {
    announced: Shares<Sender>,
    came: Places<Sender>,
}

impl Capacity {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let usage = Usage {
            announced: Shares::new(usize::MAX, limits.large_bytes_per_key),
            came: Places::new(limits.large_bytes_max, usize::MAX),
        };
        Arc::new(Self {
            limits,
            usage: Mutex::new(usage),
        })
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets room aside for a large frame that has begun.
    ///
    /// # Errors
    /// When its sender would exceed its share, or all room is taken by frames with an equal right
    /// to it.
    pub(crate) fn begin(
        self: &Arc<Self>,
        sender: Sender,
        announced: usize,
    ) -> Result<Reservation, Full> {
        let mut usage = self.usage();
        usage.announced.take(&sender, announced)?;
        let least = self.limits.large_bytes_max / FULLEST_PART;
        loop {
            match usage.came.enter(&sender, STEP) {
                Ok(ticket) => {
                    return Ok(Reservation {
                        capacity: self.clone(),
                        sender,
                        announced,
                        charged: STEP,
                        ticket,
                    });
                }
                Err(_) if usage.came.take_from_fullest(least.max(1)) => {}
                Err(full) => {
                    usage.announced.give_back(&sender, announced);
                    return Err(full);
                }
            }
        }
    }
}

/// The room for a large frame, held until the frame was read.
#[derive(Debug)]
pub(crate) struct Reservation {
    capacity: Arc<Capacity>,
    sender: Sender,
    announced: usize,
    charged: usize,
    ticket: Ticket,
}

impl Reservation {
    /// Charges the bytes that were received of the frame. If there is no room, the fullest sender
    /// loses a frame, which can be this one.
    pub(crate) fn holds(&mut self, bytes: usize) {
        while self.charged < bytes {
            let mut usage = self.capacity.usage();
            while usage.came.grow(self.ticket.number, STEP).is_err() {
                if !usage.came.take_from_fullest(1) {
                    break;
                }
            }
            self.charged += STEP;
        }
    }

    /// Waits until the room is lost to another frame.
    pub(crate) async fn lost(&self) {
        self.ticket.lost().await;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut usage = self.capacity.usage();
        usage.came.leave(self.ticket.number);
        usage.announced.give_back(&self.sender, self.announced);
    }
}
