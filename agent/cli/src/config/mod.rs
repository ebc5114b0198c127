//! Configuration: the files of `/etc/salt`, checked and completed as Salt completes them.

mod complete;
mod error;
mod files;
mod glob;
mod id;
mod load;
mod option;
mod table;

pub use error::ConfigError;
pub use load::{Loaded, NewId, load, static_grains};
pub use option::{Default, Kind, Known, Status};

/// The option that Salt knows by this name.
#[must_use]
pub fn known(name: &str) -> Option<&'static Known> {
    table::TABLE
        .binary_search_by(|known| known.name.cmp(name))
        .ok()
        .and_then(|index| table::TABLE.get(index))
}

/// Every option that Salt knows and that touches a run, by name.
#[must_use]
pub fn all() -> &'static [Known] {
    table::TABLE
}
