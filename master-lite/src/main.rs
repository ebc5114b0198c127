//! `pinch-master`: one binary that is called by the names of its applets: `salt-master`, `salt`,
//! `salt-run`, `salt-key`.

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

use std::process::ExitCode;

use cli::binary;
use cli::failure::{Exit, Failure};
use cli::heap::Heap;
use machine::process;

#[global_allocator]
static HEAP: Heap = Heap;

fn main() -> ExitCode {
    let (called_as, words) = binary::called();
    if words == [process::BECOME] && commands::applets::named(&called_as).is_none() {
        let error = process::become_user();
        return Failure::new(Exit::Software, error).report();
    }
    process::set_own_program(binary::own_program);
    let outcome = match commands::applets::named(&called_as) {
        Some(applet) => applet(words),
        None => commands::applets::first(&words),
    };
    outcome.unwrap_or_else(|failure: Failure| failure.report())
}
