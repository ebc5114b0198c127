//! `pinch undo`: restores what a run has changed, or refuses.
//!
//! Before a run changes a path, it notes in its record what the path is, and it keeps the contents
//! that it replaces (`machine::fs`). This crate combines the notes of a run to one [`PathChange`] for
//! each path: its state before the run and the state that the run left. An undo checks every place
//! first. If a place no longer is as the run left it, the undo changes nothing at all. A place that
//! is as it was before the run counts as done, so calling an interrupted undo again completes it.
//!
//! An undo is a run with its own record, so it can be undone as well.
//!
//! After a power failure: notes and kept contents reach the disk together with the change that they
//! describe, at the same barrier. For changes after the run's last barrier, the disk may have the
//! change without its note; such a change is not undone. Kept contents are used only if they have
//! the hash that is their file name.

mod apply;
mod changes;
mod inverse;
mod order;
mod plan;
mod text;

pub use apply::done;
pub use changes::{ChangeIndex, Changes, PathChange};
pub use inverse::Resource;
pub use plan::{Item, Plan, Wanted};
pub use text::{data, format_plan};
