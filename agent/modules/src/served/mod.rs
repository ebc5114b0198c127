//! The data that runs on other machines read from this one: files, pillar and options. A master
//! serves its minions, and `salt-ssh` serves the hosts that it runs states on.

pub mod files;
pub mod options;
pub mod pillar;

/// The maximum number of bytes of a file in one frame.
pub const PIECE: usize = 256 << 10;
/// The maximum number of entries of a list in one frame.
pub const ENTRIES: usize = 1000;

/// A request that is refused: a word for programs and a sentence.
pub type Refusal = (&'static str, String);
