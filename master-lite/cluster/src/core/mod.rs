//! The parts that are pure functions of their arguments.

mod control;
mod member;
mod numbers;
mod placement;
mod proposal;
mod rings;

pub use control::{Control, Damaged, Verdict};
pub use member::Member;
pub use numbers::Numbers;
pub use placement::{POSITIONS, Placement};
pub use proposal::{FIRST_LEVEL, LEVEL, Proposal};
pub use rings::{Keep, Ring, Rings};
