//! `pinch undo`: takes back what a run has changed, or refuses.
//!
//! A run notes in its record what each path was before it changes it, and keeps the contents that it replaces (`modules::fs`). Here the
//! notes of a run are put together to one [`Place`] a path: what it was before the run, and what the run left. An undo looks at every place
//! first. Where something else lies there now than what the run left, something has moved since, and nothing at all is changed. What lies
//! there as it was before the run counts as done: so an undo that was killed is finished by calling it again.
//!
//! An undo is a run with a record of its own, so it can be undone as well.
//!
//! What a power cut means: notes and kept contents are put on the disk with the change that they tell of, at the same barrier. Of what a
//! run did after its last barrier the disk may have the change and not its note; that is not undone. Kept contents are only used when
//! they have the hash under which they lie.

mod act;
mod inverse;
mod noted;
mod order;
mod plan;
mod text;

pub use act::done;
pub use inverse::Thing;
pub use noted::{Noted, Place, Which};
pub use plan::{Item, Plan, Wanted};
pub use text::{data, shown};
