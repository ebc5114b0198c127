//! Configuration: the files of `/etc/salt`, checked and completed as Salt completes them.

mod complete;
mod error;
mod files;
mod glob;
mod id;
mod load;
mod master_table;
mod option;
mod table;
mod trust;

pub use error::ConfigError;
pub use load::{DEFAULT_DIR, Loaded, NewId, load, load_master, static_grains};
pub use option::{Default, Kind, Known, Status};
pub use trust::{obeyed, trusted};

/// The option that Salt knows by this name.
#[must_use]
pub fn known(name: &str) -> Option<&'static Known> {
    table::TABLE
        .binary_search_by(|known| known.name.cmp(name))
        .ok()
        .and_then(|index| table::TABLE.get(index))
}

/// The option that a master knows by this name: its own, else a minion's.
#[must_use]
pub fn known_of_master(name: &str) -> Option<&'static Known> {
    let own = master_table::TABLE.binary_search_by(|known| known.name.cmp(name));
    own.ok()
        .and_then(|index| master_table::TABLE.get(index))
        .or_else(|| known(name))
}

/// Every option that Salt knows and that touches a run, by name.
#[must_use]
pub fn all() -> &'static [Known] {
    table::TABLE
}
