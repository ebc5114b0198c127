//! The passphrase of a private key: ssh asks a program for it (`SSH_ASKPASS`), which is this one in
//! another process.
//!
//! As the passwords for https, it is in the environment of git, which only the same user and root can
//! read, and in no argument and no file.

use std::io::{self, Write};
use std::process::ExitCode;

use value::channel;

/// The variable with the passphrase. A process that has it answers the question of ssh.
pub const VARIABLE: &str = "PINCH_GIT_PASSPHRASE";

/// Returns the variables with which ssh and ssh-keygen get a passphrase.
pub(crate) fn variables(passphrase: &str) -> [(String, String); 4] {
    let own = format!("/proc/{}/exe", std::process::id());
    [
        (VARIABLE, passphrase),
        ("SSH_ASKPASS", &own),
        ("SSH_ASKPASS_REQUIRE", "force"),
        // Versions of OpenSSH before 8.4 ask a program only if there is a display.
        ("DISPLAY", ":0"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Answers the question of ssh, which has started this process. Questions about anything but a
/// passphrase get no answer.
#[must_use]
pub fn answer(passphrase: &str, question: &[String]) -> ExitCode {
    if !question.join(" ").to_lowercase().contains("passphrase") {
        return ExitCode::FAILURE;
    }
    channel::if_open(writeln!(io::stdout(), "{passphrase}"));
    ExitCode::SUCCESS
}
