//! Daemons in the background (`-d`).

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use crate::failure::{Exit, Failure};
use crate::options::Program;

/// Starts a daemon of this program anew, apart from this terminal, and leaves it alone.
///
/// # Errors
/// When it cannot be started.
pub fn start(program: &Program, words: &[String]) -> Result<ExitCode, Failure> {
    let words = words
        .iter()
        .filter(|word| !matches!(word.as_str(), "-d" | "--daemon"));
    let started = Command::new("/proc/self/exe")
        .arg(program.name)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    started.map_err(|error| Failure::new(Exit::Software, error))?;
    Ok(Exit::Ok.into())
}
