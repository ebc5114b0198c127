//! External pillars: each file is one, with a line in the table.

mod git;

use state::exec::ExternalPillar;

/// All of them, sorted by name.
pub(crate) static PILLARS: &[ExternalPillar] = &[ExternalPillar {
    name: "git",
    load: git::load,
}];
