//! The `pkg` execution module in parts, for the package manager of this machine.

pub(crate) mod change;
pub(crate) mod debian;
pub(crate) mod files;
pub(crate) mod groups;
pub(crate) mod hold;
pub(crate) mod inverse;
pub(crate) mod list;
pub(crate) mod providers;
pub(crate) mod repo;
pub(crate) mod repos;
pub(crate) mod repositories;
pub(crate) mod version;
pub(crate) mod versions;
