//! The end of a program: exit codes, and errors that are printed with their causes and hints.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

use crate::options::{Program, UsageError};
use value::PushFmt;

/// The exit codes, which are Salt's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything went well.
    Ok = 0,
    /// A failure: a state failed, a tree did not compile, a call raised an error, or a
    /// configuration cannot be read.
    Generic = 1,
    /// A state failed, in a call of `state.*` with `--retcode-passthrough`.
    StateFailure = 2,
    /// The pillar did not compile, with `--retcode-passthrough`.
    PillarFailure = 5,
    /// At least one of several calls failed.
    Aggregate = 20,
    /// The command line is wrong.
    Usage = 64,
    /// The user that the program must run as does not exist.
    NoUser = 67,
    /// A required service is not available.
    Unavailable = 69,
    /// An error of the program itself.
    Software = 70,
    /// An output file cannot be written.
    CantCreate = 73,
    /// Another run holds the lock. The caller can try again.
    TempFail = 75,
    /// Permission denied.
    NoPermission = 77,
    /// The function is not available: Salt's `sys.exit(-1)`.
    NoFunction = 255,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Returns the exit code of a call that returned: the call's own code with `--retcode-passthrough`,
/// otherwise 0 or 1.
#[must_use]
pub fn exit_of(retcode: i64, passthrough: bool) -> ExitCode {
    match (retcode, passthrough) {
        (0, _) => Exit::Ok.into(),
        // The kernel keeps only the lowest eight bits, also for Salt's exit codes.
        (code, true) => ExitCode::from(code.rem_euclid(256) as u8),
        (_, false) => Exit::Generic.into(),
    }
}

/// An error that ends the program, with hints for the user and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub kind: Exit,
    /// The error, with its causes.
    pub error: Box<dyn Error + Send + Sync>,
    /// Hints for the user.
    pub hints: Vec<String>,
    /// The text before the error: the usage line.
    heading: String,
    /// The prefix of the error, such as `error`.
    label: String,
}

impl Failure {
    /// Makes a failure without hints.
    #[must_use]
    pub fn new(kind: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            kind,
            error: error.into(),
            hints: Vec::new(),
            heading: String::new(),
            label: "error".into(),
        }
    }

    /// Makes a failure that is printed without a prefix, as Salt prints the errors of a call.
    #[must_use]
    pub fn plain(kind: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            label: String::new(),
            ..Self::new(kind, error)
        }
    }

    /// Makes a failure for a wrong command line, printed as Salt's option parser prints it.
    #[must_use]
    pub fn usage(program: &Program, error: UsageError) -> Self {
        let hint = error.hint.clone();
        Self {
            heading: format!("{}\n\n", program.usage_line()),
            label: format!("{}: error", program.name),
            ..Self::new(Exit::Usage, error).hints(hint)
        }
    }

    /// Adds hints.
    #[must_use]
    pub fn hints(mut self, hints: impl IntoIterator<Item = String>) -> Self {
        self.hints.extend(hints);
        self
    }

    /// Returns the text: the error, its causes and the hints.
    #[must_use]
    pub fn text(&self) -> String {
        let label = if self.label.is_empty() {
            String::new()
        } else {
            format!("{}: ", self.label)
        };
        let mut out = format!("{}{label}{}\n", self.heading, self.error);
        let mut cause = self.error.source();
        while let Some(error) = cause {
            out.push_fmt(format_args!("Caused by: {error}\n"));
            cause = error.source();
        }
        for hint in &self.hints {
            out.push_fmt(format_args!("Hint: {hint}\n"));
        }
        out
    }

    /// Prints the failure to stderr and returns the exit code. A closed stderr is ignored.
    #[must_use]
    pub fn report(&self) -> ExitCode {
        let text = self.text();
        let text = value::secret::text(&text);
        let text = value::visible::text(&text);
        complain(&text);
        self.kind.into()
    }
}

/// Writes text to stderr.
#[expect(
    clippy::let_underscore_must_use,
    reason = "a closed stderr stops nothing, and there is no other place for a report about it"
)]
pub fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigError;
    use crate::options::SALT_CALL;

    #[test]
    fn a_failure_prints_its_causes_and_hints() {
        let source = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "permission denied");
        let failure = Failure::from(ConfigError::Read {
            path: "/etc/salt/minion".into(),
            source,
        })
        .hints(["run it as root".to_owned()]);
        assert_eq!(
            failure.text(),
            "error: cannot read /etc/salt/minion\nCaused by: permission denied\nHint: run it as root\n"
        );
        assert_eq!(failure.kind as u8, 1);
    }

    #[test]
    fn a_wrong_command_line_prints_as_salts_parser_prints_it() {
        let failure = Failure::usage(
            &SALT_CALL,
            SALT_CALL.parse(["--pilar-root".to_owned()]).unwrap_err(),
        );
        let want = "Usage: salt-call [options] <function> [arguments]\n\nsalt-call: error: no such option: --pilar-root\nHint: did you mean --pillar-root?\n";
        assert_eq!((failure.text().as_str(), failure.kind as u8), (want, 64));
    }
}
