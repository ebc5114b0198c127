//! Helpers for modules that only call programs.

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::Value;

/// Runs a program, optionally as a user and in a folder. A failure of the program is not an error.
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

/// Returns an error for a name that a program would read as an option.
///
/// # Errors
/// When it begins with `-`.
pub(crate) fn is_name(what: &str, name: &str) -> Result<(), Error> {
    match name.starts_with('-') {
        true => Err(Error::refused(format!(
            "invalid {what} {name}: it starts with `-`"
        ))),
        false => Ok(()),
    }
}

/// Returns the standard output of a program, or its standard error as an error if it failed.
pub(crate) fn stdout(output: Output) -> Result<String, Error> {
    let output = output.into_success();
    output.map_err(|failed| Error::refused(failed.stderr))
}

/// Returns the texts of a list, or a single value as one text. An empty value has no texts.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::List(_) | Value::Tuple(_) => value.texts(),
        other if other.is_true() => vec![other.to_text()],
        _ => Vec::new(),
    }
}
