//! Wheel functions that need the master.

pub(crate) mod key;
