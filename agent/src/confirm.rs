//! Asks the user to confirm a change.

use std::io::{BufRead, IsTerminal, Read};

use cli::failure::{Exit, Failure, complain};

/// The maximum length of an answer in bytes.
const ANSWER_BYTES_MAX: u64 = 16;

/// Prints the question, and returns whether the user answers yes.
///
/// # Errors
/// If there is no terminal to ask on; `hint` says what to do instead.
pub(crate) fn is_confirmed(question: &str, hint: &str) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let error = "nothing was changed: cannot ask for confirmation without a terminal";
        return Err(Failure::new(Exit::Generic, error).hints([hint.to_owned()]));
    }
    complain(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let mut line = Read::take(stdin.lock(), ANSWER_BYTES_MAX);
    line.read_line(&mut answer)
        .map_err(|error| Failure::new(Exit::Generic, error))?;
    let answer = answer.trim().to_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}
