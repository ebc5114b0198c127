//! `pinch-master`: one binary, called by its applet's name: `salt-master`, `salt`, `salt-run`, `salt-key`.

mod acl;
mod admit;
mod applets;
mod ask;
mod chores;
mod command;
mod daemon;
mod failures;
mod files;
mod fleet;
mod grains;
mod guests;
mod hook;
mod http;
mod interrupt;
mod jobs;
mod keys;
mod local;
mod metrics;
mod mine;
mod minions;
mod peer;
mod pillar;
mod preview;
mod push;
mod reactor;
mod refusals;
mod runners;
mod salt;
mod salt_key;
mod salt_run;
mod screen;
mod session;
mod store;
mod targets;
mod waiting;
mod watched;
mod wheel;

use std::process::ExitCode;

use cli::binary;
use cli::failure::Failure;
use cli::heap::Heap;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    let (called_as, words) = binary::called();
    let outcome = match applets::named(&called_as) {
        Some(applet) => applet(words),
        None => applets::first(&words),
    };
    outcome.unwrap_or_else(|failure: Failure| failure.report())
}
