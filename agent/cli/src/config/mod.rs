//! Configuration: reads the files of `/etc/salt`, checks and completes them as Salt does.

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
pub use option::{Default, Kind, KnownOption, Status};
pub use trust::{obeyed, trusted};

/// Returns the minion option of this name.
#[must_use]
pub fn find_option(name: &str) -> Option<&'static KnownOption> {
    table::TABLE
        .binary_search_by(|known| known.name.cmp(name))
        .ok()
        .and_then(|index| table::TABLE.get(index))
}

/// Returns the master option of this name: one that only masters have, or else the minion's.
#[must_use]
pub fn known_of_master(name: &str) -> Option<&'static KnownOption> {
    let own = master_table::TABLE.binary_search_by(|known| known.name.cmp(name));
    own.ok()
        .and_then(|index| master_table::TABLE.get(index))
        .or_else(|| find_option(name))
}

/// Returns all known options of a minion, sorted by name.
#[must_use]
pub fn all() -> &'static [KnownOption] {
    table::TABLE
}

/// Returns the options of a master's default configuration: those that only a master has, and those
/// that it shares with a minion.
pub fn all_of_master() -> impl Iterator<Item = &'static KnownOption> {
    let shared = master_table::SHARED
        .iter()
        .filter_map(|name| find_option(name));
    shared.chain(master_table::TABLE)
}
