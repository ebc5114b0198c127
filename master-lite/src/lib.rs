//! The master: `salt-master`, and the programs that speak with it: `salt`, `salt-run`, `salt-key`.
//! The program `pinch` has them with its feature `master`.

mod access;
mod admit;
mod api;
mod cluster;
mod commands;
mod daemon;
mod data;
mod event_return;
mod events;
mod hook;
mod http;
mod jobs;
mod keys;
mod metrics;
mod reactor;
mod refusals;
mod runners;
mod runs;
mod store;
mod unstored;
mod wheel;

pub use commands::applets::{Applet, named as applet};
pub use commands::backup::{backup, restore};
pub use commands::local_client::Each;
pub use commands::python::{PYTHON_PACKAGE, PythonError, master_options, master_request};

use state::exec::Registry;

/// Returns the functions that a master can run.
#[must_use]
pub fn registry() -> &'static Registry {
    &runners::REGISTRY
}

/// Returns the module and the name of each wheel function that needs the master, its arguments, and
/// how many of them must be given.
pub fn wheel() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str], usize)>
{
    wheel::functions()
}
