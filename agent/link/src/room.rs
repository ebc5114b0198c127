//! [`Budget`]: an endpoint's limits, with the room for large frames that its streams share.
//!
//! A frame is charged twice. What it announces is charged to its sender alone, all or nothing, so that frames of one sender never wait
//! for each other half-way. What has come of it is charged to the room that all have together: a sender that announces and sends nothing
//! takes nothing from others. When that room is full, the sender that fills most of it loses its oldest frame.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Who;
use crate::key::PublicKey;
use crate::limits::Limits;
use crate::shares::{Full, Places, Shares, Ticket};

/// A frame up to this size needs no room set aside.
pub(crate) const SMALL: usize = 64 << 10;
/// In such steps the room for a frame grows.
const STEP: usize = 64 << 10;
/// A new frame takes room from the fullest sender only where that one fills this part of it; otherwise the new one waits.
const FULLEST_PART: usize = 8;

/// Whose frames share one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sender {
    /// A key, whatever connections it has.
    Key(PublicKey),
    /// A local user.
    User(u32),
    /// Whoever has proved nothing.
    Unknown,
}

impl Sender {
    pub(crate) fn of(who: &Who) -> Self {
        match (who.key, who.process) {
            (Some(key), _) => Self::Key(key),
            (None, Some((user, _))) => Self::User(user),
            (None, None) => Self::Unknown,
        }
    }
}

/// The limits with what is left of those that all streams of an endpoint share.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) limits: Limits,
    rooms: Mutex<Rooms>,
}

#[derive(Debug)]
struct Rooms {
    announced: Shares<Sender>,
    came: Places<Sender>,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let rooms = Rooms {
            announced: Shares::new(usize::MAX, limits.large_bytes_per_key),
            came: Places::new(limits.large_bytes_max, usize::MAX),
        };
        Arc::new(Self {
            limits,
            rooms: Mutex::new(rooms),
        })
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets room aside for a large frame that has begun.
    ///
    /// # Errors
    /// When its sender has its share, or all room is taken by frames that have as much right to it.
    pub(crate) fn begin(self: &Arc<Self>, sender: Sender, announced: usize) -> Result<Room, Full> {
        let mut rooms = self.rooms();
        rooms.announced.take(&sender, announced)?;
        let least = self.limits.large_bytes_max / FULLEST_PART;
        loop {
            match rooms.came.enter(&sender, STEP) {
                Ok(ticket) => {
                    return Ok(Room {
                        budget: self.clone(),
                        sender,
                        announced,
                        charged: STEP,
                        ticket,
                    });
                }
                Err(_) if rooms.came.take_from_fullest(least.max(1)) => {}
                Err(full) => {
                    rooms.announced.give_back(&sender, announced);
                    return Err(full);
                }
            }
        }
    }
}

/// Room for a large frame, until it was read.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Arc<Budget>,
    sender: Sender,
    announced: usize,
    charged: usize,
    ticket: Ticket,
}

impl Room {
    /// Charges what has come of the frame. Where there is no room, the fullest sender loses a frame, which can be this one.
    pub(crate) fn holds(&mut self, bytes: usize) {
        while self.charged < bytes {
            let mut rooms = self.budget.rooms();
            while rooms.came.grow(self.ticket.number, STEP).is_err() {
                if !rooms.came.take_from_fullest(1) {
                    break;
                }
            }
            self.charged += STEP;
        }
    }

    /// Waits until the room is lost to somebody else.
    pub(crate) async fn lost(&self) {
        self.ticket.lost().await;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut rooms = self.budget.rooms();
        rooms.came.leave(self.ticket.number);
        rooms.announced.give_back(&self.sender, self.announced);
    }
}
