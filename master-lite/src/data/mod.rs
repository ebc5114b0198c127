//! The data that a master serves to its minions: files, pillar, the mine, and pushed files.

pub(crate) mod cp_push;
pub(crate) mod files;
pub(crate) mod grains;
pub(crate) mod mine;
pub(crate) mod pillar;
