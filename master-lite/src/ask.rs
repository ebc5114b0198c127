//! How a command asks the master: over its socket, or, in tests, of answers that were recorded.

use std::ops::ControlFlow;
use std::path::PathBuf;

use link::unix::Pipe;
use link::{Limits, Part};
use value::{Map, Value};
use wire::{Request, Way};

/// What is done with a part of an answer; [`ControlFlow::Break`] takes the question back.
pub(crate) type Each<'a> = dyn FnMut(Value) -> ControlFlow<()> + 'a;

/// Who answers. Questions may be asked side by side, each from a thread of its own.
pub(crate) trait Master: Sync {
    /// Asks; each part of the answer is handed on as it comes, and what is left to say at the end is returned.
    ///
    /// # Errors
    /// When there is no answer.
    fn ask(&self, request: Request, each: &mut Each<'_>) -> Result<Value, AskError>;
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The socket is the master's and root's.
    #[error("{0}: only root and the user that the master runs as may give it commands")]
    NotAllowed(String),
    /// Nobody listens at the socket.
    #[error("The salt master could not be contacted. Is master running?")]
    NotRunning(#[source] link::Error),
    /// The master says so.
    #[error("{text}")]
    Failed {
        /// One word for programs.
        reason: String,
        /// What was wrong.
        text: String,
    },
    /// Chance is asked for, and the kernel has none.
    #[error(transparent)]
    Random(#[from] value::random::Error),
    /// The connection broke.
    #[error(transparent)]
    Link(link::Error),
}

impl From<link::Error> for AskError {
    fn from(error: link::Error) -> Self {
        match error {
            link::Error::Failed { reason, text, .. } => Self::Failed { reason, text },
            other => Self::Link(other),
        }
    }
}

/// The socket of the master of this machine.
pub(crate) struct Socket {
    path: PathBuf,
}

impl Socket {
    /// The socket in the `sock_dir` of the configuration.
    pub(crate) fn of(opts: &Map) -> Self {
        let folder = opts.get("sock_dir").map(Value::to_text);
        let folder = PathBuf::from(folder.unwrap_or_default());
        Self {
            path: folder.join("master.sock"),
        }
    }
}

impl Master for Socket {
    fn ask(&self, request: Request, each: &mut Each<'_>) -> Result<Value, AskError> {
        let pipe = Pipe::connect(&self.path, Way::ClientToMaster, Limits::default());
        let mut pipe = pipe.map_err(|error| match &error {
            link::Error::Socket { place, source }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                AskError::NotAllowed(place.clone())
            }
            _ => AskError::NotRunning(error),
        })?;
        pipe.ask(request)?;
        loop {
            // No deadline: the master has them; one that dies closes its end.
            match pipe.next(None)? {
                Part::Done(value) => return Ok(value),
                Part::Data(value) => {
                    if each(value).is_break() {
                        return Ok(Value::Null);
                    }
                }
            }
        }
    }
}
