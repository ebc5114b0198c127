//! The requests of commands to the master: over its socket or, in tests, to recorded answers.

use std::ops::ControlFlow;
use std::path::PathBuf;

use link::unix::Pipe;
use link::{Limits, Part};
use value::{Map, Value};
use wire::{Login, Request, Way};

/// A callback that receives each part of an answer; [`ControlFlow::Break`] cancels the request.
pub type Each<'a> = dyn FnMut(Value) -> ControlFlow<()> + 'a;

/// A master that answers requests. Several threads may send requests at the same time.
pub(crate) trait Master: Sync {
    /// Sends a request and passes each part of the answer to `each` as it arrives. Returns the
    /// value at the end of the answer.
    ///
    /// # Errors
    /// When there is no answer.
    fn ask(&self, request: Request, each: &mut Each<'_>) -> Result<Value, AskError>;
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// Permission is denied: the socket belongs to root and the master's user.
    #[error("{0}: only root and the user that the master runs as may give it commands")]
    NotAllowed(String),
    /// No process listens on the socket.
    #[error("The salt master could not be contacted. Is master running?")]
    NotRunning(#[source] link::Error),
    /// The master reports a failure.
    #[error("{text}")]
    Failed {
        /// The kind of failure as one word, for programs.
        reason: String,
        /// The message.
        text: String,
    },
    /// The master refuses the login.
    #[error("{text}")]
    NotLoggedIn {
        /// The message, which is Salt's of a job.
        text: String,
        /// Salt's message of a runner.
        of_runner: String,
    },
    /// Random numbers are needed, and the kernel returns none.
    #[error(transparent)]
    Random(#[from] value::random::Error),
    /// The connection broke.
    #[error(transparent)]
    Link(link::Error),
    /// The connection broke after the master had sent a job to its minions.
    #[error(
        "The master has ended. The minions continue with the job {jid}: `salt-run jobs.lookup_jid {jid}` shows its returns ({error})"
    )]
    JobContinues {
        /// The job id.
        jid: String,
        /// The error of the connection.
        error: Box<link::Error>,
    },
    /// The connection broke while the master ran an orchestration.
    #[error(
        "The master has ended, and its orchestration with the job id {jid} is recorded. In a cluster another master continues it, and the event salt/run/{jid}/ret says how it ends. A single master continues it with `resume=True` once it runs again ({error})"
    )]
    OrchestrationContinues {
        /// The job id.
        jid: String,
        /// The error of the connection.
        error: Box<link::Error>,
    },
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
    /// The login that precedes each request.
    login: Option<Login>,
}

impl Socket {
    /// Returns the socket in the `sock_dir` of the configuration.
    pub(crate) fn from_opts(opts: &Map) -> Self {
        let folder = opts.get("sock_dir").map(Value::to_text);
        let folder = PathBuf::from(folder.unwrap_or_default());
        Self {
            path: folder.join("master.sock"),
            login: None,
        }
    }

    /// Sends the requests in the name of a user of `external_auth`.
    pub(crate) fn with_login(self, login: Login) -> Self {
        Self {
            login: Some(login),
            ..self
        }
    }
}

/// Returns the error of a login that the master refuses.
fn refused(login: &Login, error: link::Error) -> AskError {
    match error {
        link::Error::Failed { reason, text, .. } if reason == "authentication" => {
            let of_runner = match &login.token {
                Some(_) => "Authentication failure of type \"token\" occurred.".to_owned(),
                None => format!(
                    "Authentication failure of type \"eauth\" occurred for user {}.",
                    login.username
                ),
            };
            AskError::NotLoggedIn { text, of_runner }
        }
        other => other.into(),
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
        if let Some(login) = &self.login {
            pipe.ask(login.clone())?;
            // No deadline: the master answers a login in a limited time.
            pipe.next(None).map_err(|error| refused(login, error))?;
        }
        pipe.ask(request)?;
        loop {
            // No deadline: the master has deadlines; if it dies, its end of the socket closes.
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
