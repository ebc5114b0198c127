//! `pinch-master`: one binary, called by its applet's name: `salt-master`, `salt`, `salt-run`, `salt-key`.
#![allow(dead_code, reason = "the commands wait for the applets that call them")]

use std::process::ExitCode;

mod ask;
mod command;
#[cfg(test)]
mod recorded;
mod salt;
mod salt_key;
mod salt_run;
mod screen;

fn main() -> ExitCode {
    ExitCode::FAILURE
}
