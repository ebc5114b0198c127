//! External pillars: each file is one, with a line in the table.

mod git;
#[cfg(feature = "databases")]
mod mysql;
#[cfg(feature = "databases")]
mod postgres;
#[cfg(feature = "databases")]
mod sql;
#[cfg(feature = "databases")]
mod sqlite3;

use state::exec::ExternalPillar;

/// All of them, sorted by name.
pub(crate) static PILLARS: &[ExternalPillar] = &[
    ExternalPillar {
        name: "git",
        load: git::load,
    },
    #[cfg(feature = "databases")]
    ExternalPillar {
        name: "mysql",
        load: mysql::load,
    },
    #[cfg(feature = "databases")]
    ExternalPillar {
        name: "postgres",
        load: postgres::load,
    },
    #[cfg(feature = "databases")]
    ExternalPillar {
        name: "sqlite3",
        load: sqlite3::load,
    },
];
