//! Programs that modules only call: one place that says how.

use state::exec::Exec;
use state::module::Error;
use value::Value;

use crate::process::{Output, Process};

/// Runs a program, for a user and in a folder where they are named. That it fails is an answer.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn run(
    cx: &Exec,
    words: &[&str],
    cwd: Option<&str>,
    runas: Option<&str>,
) -> Result<Output, Error> {
    let process = Process {
        cwd: cwd.map(str::to_owned),
        runas: runas.filter(|user| !user.is_empty()).map(str::to_owned),
        ignore_retcode: true,
        ..Process::words(words.iter().copied())
    };
    process.run(cx)
}

/// Refuses a name that a program would take for an option.
///
/// # Errors
/// When it begins with `-`.
pub(crate) fn is_name(what: &str, name: &str) -> Result<(), Error> {
    match name.starts_with('-') {
        true => Err(Error::refused(format!(
            "{name} is no {what}: it begins with -"
        ))),
        false => Ok(()),
    }
}

/// What a program wrote, or what it says against it.
pub(crate) fn said(output: Output) -> Result<String, Error> {
    match output.success() {
        true => Ok(output.stdout),
        false => Err(Error::refused(output.stderr)),
    }
}

/// The texts of a list, or the one text that is no list; an empty value has none.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::List(_) | Value::Tuple(_) => value.texts(),
        other if other.is_true() => vec![other.to_text()],
        _ => Vec::new(),
    }
}
