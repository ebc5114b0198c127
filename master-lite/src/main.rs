//! `pinch-master`: one binary that is called by the names of its applets: `salt-master`, `salt`,
//! `salt-run`, `salt-key`.

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
mod patience;
mod peer;
mod pillar;
mod preview;
mod push;
mod reactor;
mod recall;
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
use cli::failure::{Exit, Failure};
use cli::heap::Heap;
use modules::process;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    let (called_as, words) = binary::called();
    if words == [process::BECOME] && applets::named(&called_as).is_none() {
        let error = process::become_user();
        return Failure::new(Exit::Software, error).report();
    }
    process::set_own_program(binary::own_program);
    let outcome = match applets::named(&called_as) {
        Some(applet) => applet(words),
        None => applets::first(&words),
    };
    outcome.unwrap_or_else(|failure: Failure| failure.report())
}
