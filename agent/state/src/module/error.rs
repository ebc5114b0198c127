//! [`Error`]: the reason why a function failed.

use std::io::ErrorKind;

/// The reason why a function failed. Its text becomes the comment of a state, or the output of
/// `salt-call`, so it reads as Salt's does. It is only one pointer in size, because nearly every
/// function here returns it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Problem>);

/// The kinds of failure.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The function refuses, with a sentence that says why (Salt's `CommandExecutionError`, or a
    /// state that returns False).
    #[error("{0}")]
    Refused(String),
    /// A custom function raised an exception that is not one of Salt's.
    #[error("{sentence}\n{trace}")]
    Raised {
        /// The text of the exception.
        sentence: String,
        /// The traceback.
        trace: String,
    },
    /// An argument has the wrong type or is out of range (Salt's `SaltInvocationError`).
    #[error("{name}: {problem}")]
    Argument {
        /// The name of the argument.
        name: &'static str,
        /// The expected and the actual value.
        problem: String,
    },
    /// A required argument is missing.
    #[error("Missing parameter {0}")]
    Missing(&'static str),
    /// The call has arguments that the function does not take.
    #[error("{0}")]
    Unexpected(String),
    /// There is no such function.
    #[error("'{0}' is not available.")]
    NotAvailable(String),
    /// A system call failed.
    #[error("{path}: {source}")]
    Io {
        /// The path, or another name of the object of the call.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file, folder or link cannot be read.
    #[error("Cannot read {path}: {source}")]
    Read {
        /// The path.
        path: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl From<Problem> for Error {
    #[cold]
    #[inline(never)]
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl Error {
    /// Returns an error of a function that refuses, with its sentence.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn refused(sentence: String) -> Self {
        Problem::Refused(sentence).into()
    }

    /// Returns an error of a custom function that raised an exception.
    #[must_use]
    pub fn raised(sentence: String, trace: String) -> Self {
        Problem::Raised { sentence, trace }.into()
    }

    /// Returns the text of the error without a traceback.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self.problem() {
            Problem::Raised { sentence, .. } => sentence.clone(),
            _ => self.to_string(),
        }
    }

    /// Returns an error about an argument that has the wrong type or is out of range.
    #[must_use]
    pub fn argument(name: &'static str, problem: String) -> Self {
        Problem::Argument { name, problem }.into()
    }

    /// Returns an error about a required argument that is missing.
    #[must_use]
    pub fn missing(name: &'static str) -> Self {
        Problem::Missing(name).into()
    }

    /// Returns an error about arguments that the function does not take.
    #[must_use]
    pub fn unexpected(sentence: String) -> Self {
        Problem::Unexpected(sentence).into()
    }

    /// Returns an error about a function that does not exist.
    #[must_use]
    pub fn not_available(name: String) -> Self {
        Problem::NotAvailable(name).into()
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.0
    }

    /// Returns whether the error is that there is no such function.
    #[must_use]
    pub fn is_not_available(&self) -> bool {
        matches!(self.problem(), Problem::NotAvailable(_))
    }

    /// Returns whether the function itself failed. False if the call was wrong.
    #[must_use]
    pub fn is_of_command(&self) -> bool {
        matches!(
            self.problem(),
            Problem::Refused(_) | Problem::Raised { .. } | Problem::Io { .. }
        )
    }

    /// Returns whether the system denied the permission to read or write a file.
    #[must_use]
    pub fn is_of_permission(&self) -> bool {
        let (Problem::Io { source, .. } | Problem::Read { source, .. }) = self.problem() else {
            return false;
        };
        source.kind() == ErrorKind::PermissionDenied
    }

    /// Returns whether the file system accepts no writes from any process now: it is full, or
    /// mounted read-only.
    #[must_use]
    pub fn is_of_disk(&self) -> bool {
        let Problem::Io { source, .. } = self.problem() else {
            return false;
        };
        matches!(
            source.kind(),
            ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull
        )
    }

    /// Returns a function for `map_err`, which adds the path to the system's error.
    pub fn io(path: impl AsRef<std::path::Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().display().to_string();
        move |source| Problem::Io { path, source }.into()
    }

    /// Returns a function for `map_err`, which makes an error about a file, folder or link that
    /// cannot be read.
    pub fn read(path: impl AsRef<std::path::Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().display().to_string();
        move |source| Problem::Read { path, source }.into()
    }
}

impl From<String> for Error {
    fn from(sentence: String) -> Self {
        Self::refused(sentence)
    }
}

impl From<value::pyre::Error> for Error {
    fn from(error: value::pyre::Error) -> Self {
        Self::refused(error.to_string())
    }
}

impl From<value::random::Error> for Error {
    fn from(error: value::random::Error) -> Self {
        Self::refused(error.to_string())
    }
}

impl From<&str> for Error {
    fn from(sentence: &str) -> Self {
        Self::refused(sentence.to_owned())
    }
}
