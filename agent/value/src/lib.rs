//! Salt's data: ordered values with Python's scalars, and operations on them that do not touch the
//! machine.

pub mod channel;
pub mod clock;
mod entries;
pub mod glob;
pub mod hash;
pub mod hint;
pub mod jid;
pub mod json;
mod key;
pub mod log;
mod map;
pub mod merge;
pub mod nested;
pub mod networks;
mod push_fmt;
pub mod pyre;
pub mod python;
pub mod random;
pub mod read;
pub mod remove;
pub mod secret;
pub mod sorted;
pub mod target;
pub mod trust;
mod value;
pub mod visible;
pub mod watch;
pub mod when;
pub mod yaml;

pub use key::Key;
pub use map::Map;
pub use push_fmt::PushFmt;
pub use value::Value;
