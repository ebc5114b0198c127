//! [`Fault`]: the reason why a host did not run a job, with the exit code for it.

use std::io;

/// A reason why a host did not run a job. It is the return of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The exit code of `salt-ssh`, which is Salt's.
    pub code: u8,
    /// The sentence.
    pub text: String,
    /// True if the job may have begun.
    pub may_have_begun: bool,
}

/// The exit code of a host that cannot be reached.
const FAILED: u8 = 20;
/// The exit code when the program cannot be placed on the host, or cannot run there.
const NOT_PLACED: u8 = 11;
/// The exit code when the program was damaged on its way.
const DAMAGED: u8 = 12;
/// The exit code when another transfer has taken the partial file. The transfer starts again.
const TAKEN: u8 = 13;
/// The exit code when there is no ssh program.
const NO_SSH: u8 = 14;

impl Fault {
    fn new(code: u8, text: String) -> Self {
        Self {
            code,
            text,
            may_have_begun: false,
        }
    }

    /// Creates a fault of a host that cannot be reached.
    pub(crate) fn connection(text: String) -> Self {
        Self::new(FAILED, text)
    }

    /// Creates a fault of the ssh program, which cannot be started.
    pub(crate) fn program(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::new(
                NO_SSH,
                "this machine has no ssh program: install that of OpenSSH, or dropbear's"
                    .to_owned(),
            ),
            _ => Self::connection(format!("cannot run ssh: {error}")),
        }
    }

    /// Creates a fault of a host that was reached and cannot run the job.
    pub(crate) fn placing(text: String) -> Self {
        Self::new(NOT_PLACED, text)
    }

    /// Creates a fault of a program that was damaged on its way.
    pub(crate) fn damaged(text: String) -> Self {
        Self::new(DAMAGED, text)
    }

    /// Creates a fault of a transfer whose partial file another one has taken.
    pub(crate) fn taken(text: String) -> Self {
        Self::new(TAKEN, text)
    }

    /// Returns whether another transfer has taken the partial file.
    pub(crate) fn is_taken(&self) -> bool {
        self.code == TAKEN
    }

    /// Creates a fault of a job that may have begun, and whose return is lost.
    pub(crate) fn lost(self, text: String) -> Self {
        Self {
            text,
            may_have_begun: true,
            ..self
        }
    }
}
