//! The parts that are pure functions of their arguments.

mod control;
mod member;
mod numbers;
mod proposal;

pub use control::{Control, Damaged, Verdict};
pub use member::Member;
pub use numbers::Numbers;
pub use proposal::{LEVEL, Proposal};
