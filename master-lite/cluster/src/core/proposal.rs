//! [`Proposal`]: a command in the form in which the log contains it.

use std::fmt;
use std::sync::Arc;

/// The level of the first release: the rules that all releases have.
pub const FIRST_LEVEL: u64 = 1;
/// The newest rules by which this release applies commands.
pub const LEVEL: u64 = 1;

/// A command that a master proposes.
#[derive(Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The number of the master.
    pub node: u64,
    /// The number of the start of the master, which grows with each start.
    pub boot: u64,
    /// The number of the proposal since that start, from 1. A proposal that is in the log twice is
    /// applied once.
    pub number: u64,
    /// The rules by which it is applied. A release that does not know them must not apply it.
    pub level: u64,
    /// The term in which it must get into the log, if that matters: a former leader cannot do
    /// anything with it any more.
    pub fence: Option<u64>,
    /// The command.
    pub command: Arc<[u8]>,
}

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shows everything but the command, which may contain secrets.
impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "proposal {} of master {} ({} bytes)",
            self.number,
            self.node,
            self.command.len()
        )
    }
}
