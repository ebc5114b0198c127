//! `pinch-master`: one binary, called by its applet's name: `salt-master`, `salt`, `salt-run`, `salt-key`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::FAILURE
}
