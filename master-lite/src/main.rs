//! `pinch-master`: one binary, called by its applet's name: `salt-master`, `salt`, `salt-run`, `salt-key`.

#![allow(
    dead_code,
    unused_imports,
    reason = "the daemon, which uses the store and the keys, is being written"
)]

mod store;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::FAILURE
}
