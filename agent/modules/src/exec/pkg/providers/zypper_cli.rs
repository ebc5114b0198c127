//! Calls of zypper: without questions, with respect for its lock, and with its own error messages.

use machine::process::{Output, Process};
use python::xml;
use state::exec::Exec;
use state::module::Error;

use crate::exec::pkg::providers::transaction;

/// The return code when another zypper holds the lock.
const LOCKED: i64 = 7;
/// The return code when a search finds nothing.
const NOT_FOUND: i64 = 104;

/// Returns the words of a call: `zypper --non-interactive --xmlout …`. Only with `refresh` may it
/// update the repositories.
pub(crate) fn words(
    arguments: &[&str],
    as_xml: bool,
    refresh: bool,
    root: Option<&str>,
) -> Vec<String> {
    let mut words = vec!["zypper", "--non-interactive"];
    if as_xml {
        words.push("--xmlout");
    }
    if !refresh && !arguments.contains(&"--no-refresh") {
        words.push("--no-refresh");
    }
    if let Some(root) = root.filter(|root| !root.is_empty()) {
        words.extend(["--root", root]);
    }
    words.extend(arguments);
    words.into_iter().map(str::to_owned).collect()
}

/// Returns true for a return code that is not an error: success, or success with a notice.
fn is_fine(retcode: Option<i64>) -> bool {
    retcode.is_some_and(|code| matches!(code, 0 | 6 | 100..=103 | 106 | 107))
}

/// Returns true when another zypper held the lock.
pub(crate) fn is_locked(output: &Output) -> bool {
    output.retcode == Some(LOCKED)
}

/// Returns the error of a failed call; `None` on success.
pub(crate) fn error_text(output: &Output) -> Option<String> {
    if is_fine(output.retcode) {
        return None;
    }
    let in_xml: Vec<String> = xml::elements(output.stdout_regardless())
        .into_iter()
        .filter(|element| element.name == "message" && element.get("type") == "error")
        .map(|element| element.text)
        .collect();
    let said = match (
        in_xml.is_empty(),
        output.stdout_regardless().starts_with("<?xml"),
    ) {
        // This names the holder of the lock, and the time spent waiting for it.
        (false, _) if is_locked(output) => format!("{}{}", in_xml.join("\n"), output.stderr),
        (false, _) => in_xml.join("\n"),
        (true, true) => output.stderr.trim().to_owned(),
        (true, false) => format!(
            "{}{}",
            output.stderr.trim(),
            output.stdout_regardless().trim()
        ),
    };
    Some(match said.is_empty() {
        true => "Check Zypper's logs.".to_owned(),
        false => said,
    })
}

/// Calls zypper, and waits while another one holds the lock.
///
/// # Errors
/// When it fails.
pub(crate) fn call(cx: &Exec, words: Vec<String>) -> Result<String, Error> {
    let output = transaction::unlocked(cx, &Process::words(words), &is_locked)?;
    match error_text(&output) {
        None => Ok(output.into_stdout_regardless()),
        Some(said) => Err(Error::refused(format!("Zypper command failure: {said}"))),
    }
}

/// Like [`call`], for a search. Without a result, zypper fails; the text is then empty.
///
/// # Errors
/// When it fails.
pub(crate) fn found(cx: &Exec, words: Vec<String>) -> Result<String, Error> {
    let process = Process::words(words).quiet();
    let output = transaction::unlocked(cx, &process, &is_locked)?;
    match error_text(&output).filter(|_| output.retcode != Some(NOT_FOUND)) {
        None => Ok(output.into_stdout_regardless()),
        Some(said) => Err(Error::refused(format!("Zypper command failure: {said}"))),
    }
}
