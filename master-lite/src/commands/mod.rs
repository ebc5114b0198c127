//! The command-line programs of a master: `salt`, `salt-run`, `salt-key`, `salt-cp`, and the table of all applets.

pub(crate) mod applets;
pub(crate) mod backup;
pub(crate) mod command;
pub(crate) mod interrupt;
pub(crate) mod local_client;
mod login;
pub(crate) mod python;
pub(crate) mod salt;
pub(crate) mod salt_cp;
pub(crate) mod salt_key;
pub(crate) mod salt_run;
