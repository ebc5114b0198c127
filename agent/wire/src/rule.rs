//! The rules for which side may send which frame: one table, made from the declarations, and one
//! function that checks against it.

use crate::{Answer, Control, Frame, Request};

/// The direction of a frame: its sender and its receiver. It follows from the connection, never
/// from the frame's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a minion to its master.
    MinionToMaster,
    /// From a master to a minion.
    MasterToMinion,
    /// From a command to the master on its machine.
    ClientToMaster,
    /// From a command to the minion's daemon on its machine.
    ClientToMinion,
    /// From a job's process to the daemon that started it.
    JobToMinion,
}

impl Way {
    /// All ways.
    pub const ALL: [Self; 5] = [
        Self::MinionToMaster,
        Self::MasterToMinion,
        Self::ClientToMaster,
        Self::ClientToMinion,
        Self::JobToMinion,
    ];
}

/// The rule for one kind of frame.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The kind of frame.
    pub kind: &'static str,
    /// The ways on which it may be sent.
    pub ways: &'static [Way],
    /// True if it may be sent before the sender's key is accepted.
    pub before: bool,
}

/// A frame that its sender may not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// The frame may never be sent on this way.
    #[error("this side may not send `{kind}`")]
    Way {
        /// The frame's kind.
        kind: &'static str,
    },
    /// The frame may not be sent before the key is accepted.
    #[error("`{kind}` may not be sent before the key is accepted")]
    Pending {
        /// The frame's kind.
        kind: &'static str,
    },
}

/// Returns all rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [Control::RULES, Request::RULES, Answer::RULES]
        .into_iter()
        .flatten()
}

/// Checks whether a frame may be sent on this way, by a key that is accepted or not. A known kind
/// that no rule allows may not be sent. An unknown kind needs no rule: it has no effect, and is
/// answered with `unsupported`.
///
/// # Errors
/// When the frame may not be sent; the error contains the reason.
pub fn check(frame: &Frame, way: Way, accepted: bool) -> Result<(), NotAllowed> {
    let kind = match frame {
        Frame::Control(frame) => frame.kind(),
        Frame::Request(frame) => frame.kind(),
        Frame::Answer(frame) => frame.kind(),
        Frame::Unsupported { .. } | Frame::Unknown { .. } => return Ok(()),
    };
    match rules().find(|rule| rule.kind == kind) {
        Some(rule) if rule.ways.contains(&way) => {
            match rule.before || accepted_ahead(way, accepted) {
                true => Ok(()),
                false => Err(NotAllowed::Pending { kind }),
            }
        }
        _ => Err(NotAllowed::Way { kind }),
    }
}

/// Returns whether the sender counts as accepted. Only a minion needs its master's acceptance.
/// Local peers are identified by the kernel, and a master by its pinned key.
fn accepted_ahead(way: Way, accepted: bool) -> bool {
    accepted || way != Way::MinionToMaster
}
