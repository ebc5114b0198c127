//! Connections to databases by their client programs, for external pillars and returners.

pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod sqlite3;

use machine::process::{Process, which};
use state::exec::Exec;
use state::module::Error;
use value::Value;

/// Returns the path of a client program, the first of these names that is installed.
///
/// # Errors
/// When there is none: with the Debian package that has it.
pub(crate) fn client(names: &[&str], package: &str) -> Result<String, Error> {
    let found = names.iter().find_map(|name| which(name));
    found.ok_or_else(|| {
        let names = names.join(" or ");
        Error::refused(format!(
            "the program {names} is not installed (Debian: {package})"
        ))
    })
}

/// The failure of a client program.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The program has failed with these messages.
    Said(String),
    /// The program could not be started, took too long or printed too much.
    Other(Error),
}

impl Failure {
    /// Returns the error. `reason` returns the reason in the messages of the program.
    pub(crate) fn into_error(self, reason: fn(&str) -> String) -> Error {
        match self {
            Self::Said(said) => Error::refused(reason(&said)),
            Self::Other(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Runs a client program, and returns its standard output.
///
/// # Errors
/// When it cannot be started, takes too long, prints too much or fails.
pub(crate) fn run(cx: &Exec, process: &Process) -> Result<String, Failure> {
    let program = process.first_word();
    let output = process.run(cx)?;
    if output.timed_out {
        let seconds = process.timeout.as_ref().map(Value::to_text);
        let seconds = seconds.unwrap_or_default();
        let late = format!("{program} has not answered within {seconds} seconds (query_timeout)");
        return Err(Error::refused(late).into());
    }
    output
        .into_success()
        .map_err(|output| match output.stderr.trim() {
            "" => Error::refused(format!("{program} failed without a message")).into(),
            said => Failure::Said(said.to_owned()),
        })
}
