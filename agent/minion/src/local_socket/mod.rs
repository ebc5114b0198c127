//! The Unix sockets between the daemon and the processes of this machine: jobs and commands.
//!
//! [`Uplink`] is the end of a job or command, through which it also reaches the master.
//! [`LocalRequests`] serves the daemon's end.

mod direct_session;
mod requests;
mod targets;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::unix::Pipe;
use link::{Limits, Part};
use state::opts::Opts;
use value::{Map, Value, jid};
use wire::{Job, Refresh, Request, Return, Way};

use crate::orphans;

pub(crate) use link::Error;
pub(crate) use requests::LocalRequests;
pub use targets::OfMinion;

/// The time that an answer of the master is waited for. It is long, because compiling a pillar may
/// take long.
const ANSWER: Duration = Duration::from_secs(300);

fn limits() -> Limits {
    Limits {
        answer: ANSWER,
        ..Limits::default()
    }
}

/// Returns the path of the socket at which the daemon accepts commands of its machine.
fn socket_path(opts: &Opts) -> PathBuf {
    opts.path("sock_dir").join("minion.sock")
}

/// A connection to the daemon. It is shared by all its clones, whose requests are sent one after
/// the other.
#[derive(Clone, Debug)]
pub struct Uplink(Arc<Mutex<Socket>>);

#[derive(Debug)]
enum Socket {
    /// A connection that was not needed yet: the path of the daemon's socket, and the options for
    /// connecting to the master if no daemon runs.
    At(PathBuf, Box<Opts>),
    Open(Box<Pipe>),
}

impl Uplink {
    /// Uses the socket that the process of a job was started with. Returns the connection, and the
    /// job to run.
    pub(crate) fn of_job(socket: OwnedFd) -> Result<(Self, Job), Error> {
        let mut pipe = Pipe::of_job(UnixStream::from(socket), limits())?;
        let job = pipe.given()?;
        let open = Socket::Open(Box::new(pipe));
        Ok((Self(Arc::new(Mutex::new(open))), job))
    }

    /// Returns a connection to the daemon of this configuration, or to its master if no daemon
    /// runs. It is opened with the first request.
    #[must_use]
    pub fn here(opts: &Opts) -> Self {
        let at = Socket::At(socket_path(opts), Box::new(opts.clone()));
        Self(Arc::new(Mutex::new(at)))
    }

    /// Returns whether the connection is open, or a daemon may run.
    #[must_use]
    pub fn has_daemon(&self) -> bool {
        match &*self.socket() {
            Socket::At(path, _) => path.exists(),
            Socket::Open(_) => true,
        }
    }

    /// Hands over the return of a call on this machine. The return is on disk when this succeeds.
    ///
    /// # Errors
    /// When there is neither a daemon nor a master.
    pub fn hand_over(&self, jid: &str, data: Map) -> Result<(), Error> {
        let answer = Return {
            sequence: 0,
            jid: jid.to_owned(),
            stamp: jid::stamp(),
            data,
        };
        self.call(answer).map(|_| ())
    }

    /// Leaves the return of a job that outlived the daemon which started it. The return stays on
    /// disk until a daemon takes it. A return of the reactor is dropped, because the reactor has
    /// given its jobs up by then.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn leave(opts: &Opts, jid: &str, data: Map) -> std::io::Result<()> {
        if reactor::is_own(&data) {
            return Ok(());
        }
        let answer = Return {
            sequence: 0,
            jid: jid.to_owned(),
            stamp: jid::stamp(),
            data,
        };
        orphans::leave(opts, answer)?;
        tell_of_orphans(opts);
        Ok(())
    }

    fn socket(&self) -> MutexGuard<'_, Socket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request, and returns its answer of one part.
    pub(crate) fn call(&self, request: impl Into<Request>) -> Result<Value, Error> {
        self.socket().open()?.call(request)
    }

    /// Sends a request, and passes each part of the answer to `take`. Returns the value at the end
    /// of the answer, and the first error of `take`.
    pub(crate) fn parts(
        &self,
        request: impl Into<Request>,
        take: &mut dyn FnMut(Value) -> std::io::Result<()>,
    ) -> Result<(Value, std::io::Result<()>), Error> {
        let mut socket = self.socket();
        let pipe = socket.open()?;
        pipe.ask(request)?;
        let mut taken = Ok(());
        loop {
            match pipe.next(Some(ANSWER))? {
                // After an error of `take` the remaining parts are still read, because the next
                // answer follows them.
                Part::Data(part) if taken.is_ok() => taken = take(part),
                Part::Data(_) => {}
                Part::Done(end) => return Ok((end, taken)),
            }
        }
    }
}

impl Socket {
    fn open(&mut self) -> Result<&mut Pipe, Error> {
        if let Self::At(path, opts) = self {
            *self = match Pipe::connect(path, Way::ClientToMinion, limits()) {
                Ok(pipe) => Self::Open(Box::new(pipe)),
                Err(error) if is_no_daemon(&error) => {
                    Self::Open(Box::new(direct_session::open(opts)?))
                }
                Err(error) => return Err(error),
            };
        }
        match self {
            Self::Open(pipe) => Ok(pipe),
            Self::At(path, _) => Err(Error::Socket {
                place: path.display().to_string(),
                source: Arc::new(std::io::ErrorKind::NotConnected.into()),
            }),
        }
    }
}

/// Notifies the daemon that there are returns of jobs which outlived their daemon.
pub(crate) fn tell_of_orphans(opts: &Opts) {
    let what = "orphans".to_owned();
    if let Ok(mut daemon) = Pipe::connect(&socket_path(opts), Way::ClientToMinion, limits()) {
        #[expect(
            clippy::let_underscore_must_use,
            reason = "the next daemon looks for the returns by itself"
        )]
        let _ = daemon.call(Refresh { what, wait_s: None });
    }
}

/// Returns true if the error means that no daemon runs. Other errors mean that a daemon cannot be
/// reached.
fn is_no_daemon(error: &Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error, Error::Socket { source, .. } if matches!(source.kind(), ConnectionRefused | NotFound))
}
