//! Who may send what: one table, made from the declarations, and one question.

use crate::{Answer, Control, Frame, Request};

/// From whom to whom a frame goes. It follows from the connection and never from what is said on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A minion to its master.
    MinionToMaster,
    /// A master to a minion.
    MasterToMinion,
    /// A command to the master on its machine.
    ClientToMaster,
    /// A command to the minion's daemon on its machine.
    ClientToMinion,
    /// A job's process to the daemon that started it.
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

/// Who may send a kind of frame.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The kind.
    pub kind: &'static str,
    /// The ways on which it may come.
    pub ways: &'static [Way],
    /// Whether it may come before the sender's key is accepted.
    pub before: bool,
}

/// A frame that its sender may not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// Not on this way, ever.
    #[error("`{kind}` is not for this side to send")]
    Way {
        /// The frame's kind.
        kind: &'static str,
    },
    /// Not before the key is accepted.
    #[error("`{kind}` is not for a key that is not accepted")]
    Pending {
        /// The frame's kind.
        kind: &'static str,
    },
}

/// All rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [Control::RULES, Request::RULES, Answer::RULES]
        .into_iter()
        .flatten()
}

/// Whether a frame may come on this way, from a key that is accepted or not. What no rule names may not.
/// A kind that is not known gets no rule: it does nothing, and is answered with `unsupported`.
///
/// # Errors
/// When it may not, with the reason.
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

/// Acceptance is the master's question to minions. The others were let in by the kernel's word or by the pinned key.
fn accepted_ahead(way: Way, accepted: bool) -> bool {
    accepted || way != Way::MinionToMaster
}
