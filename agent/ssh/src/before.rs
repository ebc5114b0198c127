//! The user's own commands before the first job on a host: `ssh_pre_hook` on this machine, and the
//! script `ssh_pre_flight` on the host.

use std::path::Path;
use std::time::Duration;

use machine::fs;
use smol::process::Command;
use value::trust;

use crate::fault::Fault;
use crate::output::{self, reason};
use crate::program::{Settings, quoted};
use crate::roster::Host;

/// The maximum time of a command.
const MOST: Duration = Duration::from_secs(600);

/// Runs a command on this machine.
///
/// # Errors
/// When it fails, or takes too long.
pub(crate) async fn hook(command: &str) -> Result<(), Fault> {
    let failed = |text: String| Fault::placing(format!("ssh_pre_hook failed: {text}"));
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    let done = output::of(shell, &[], MOST).await;
    let done = done.map_err(|error| failed(error.to_string()))?;
    match done.code {
        Some(0) => Ok(()),
        _ => Err(failed(reason(&done))),
    }
}

/// Runs a script of this machine on a host, by the host's `sh`.
///
/// # Errors
/// When another user can change the script, or it fails.
pub(crate) async fn flight(settings: &Settings, host: &Host, script: &Path) -> Result<(), Fault> {
    let failed = |text: String| {
        Fault::placing(format!(
            "ssh_pre_flight {} failed: {text}",
            script.display()
        ))
    };
    trust::path(script, trust::user()).map_err(|error| failed(error.sentence()))?;
    let text = fs::text(script).map_err(|error| failed(error.to_string()))?;
    let mut input = String::new();
    if !host.ssh_pre_flight_args.is_empty() {
        let words = host.ssh_pre_flight_args.iter().map(|word| quoted(word));
        input = format!("set -- {}\n", words.collect::<Vec<_>>().join(" "));
    }
    input += &text;
    let done = settings
        .run(host, "exec /bin/sh -s", input.as_bytes(), MOST)
        .await;
    let done = done.map_err(|error| failed(error.to_string()))?;
    match done.code {
        Some(0) => Ok(()),
        _ => Err(failed(reason(&done))),
    }
}
