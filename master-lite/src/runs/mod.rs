//! The context in which runners and orchestrations run on a master.

pub(crate) mod fleet;
