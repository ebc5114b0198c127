//! The master: `salt-master`, and the programs that speak with it: `salt`, `salt-run`, `salt-key`.
//! The program `pinch` has them with its feature `master`.

mod access;
mod admit;
mod commands;
mod daemon;
mod data;
mod hook;
mod http;
mod jobs;
mod keys;
mod metrics;
mod reactor;
mod runners;
mod runs;
mod store;
mod wheel;

pub use commands::applets::{Applet, named as applet};
