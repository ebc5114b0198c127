//! The connection to the daemon of this machine, and through it to the master: for jobs, and for
//! `salt-call`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::unix::{Local, Pipe};
use link::{Asked, Error, Handle, Limits, Part};
use machine::hashes;
use modules::state_run::orchestrate::ThisMachine;
use state::ask::Ask;
use state::exec::Exec;
use state::module;
use state::opts::Opts;
use state::targets::{MinionReturn, Sink, Subscription, Targets};
use value::{Map, Value, jid, log, secret};
use wire::{Refresh, Request, Return, Way};

use crate::direct_session;
use crate::orphans;

/// The time that an answer of the master is waited for. It is long, because compiling a pillar may
/// take long.
pub(crate) const ANSWER: Duration = Duration::from_secs(300);

pub(crate) fn limits() -> Limits {
    Limits {
        answer: ANSWER,
        ..Limits::default()
    }
}

/// Returns the path of the socket at which the daemon accepts commands of its machine.
pub(crate) fn socket_path(opts: &Opts) -> PathBuf {
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
    pub(crate) fn of(pipe: Pipe) -> Self {
        Self(Arc::new(Mutex::new(Socket::Open(Box::new(pipe)))))
    }

    /// Returns a connection to the daemon of this configuration, or to its master if no daemon
    /// runs. It is opened with the first request.
    #[must_use]
    pub fn here(opts: &Opts) -> Self {
        let at = Socket::At(socket_path(opts), Box::new(opts.clone()));
        Self(Arc::new(Mutex::new(at)))
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
    // An error is ignored, because the next daemon looks for them by itself.
    if let Ok(mut daemon) = Pipe::connect(&socket_path(opts), Way::ClientToMinion, limits()) {
        let _ = daemon.call(Refresh { what, wait_s: None });
    }
}

/// Returns true if the error means that no daemon runs. Other errors mean that a daemon cannot be
/// reached.
fn is_no_daemon(error: &Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error, Error::Socket { source, .. } if matches!(source.kind(), ConnectionRefused | NotFound))
}

/// Forwards a request of a process of this machine to the master, and passes the answer on part by
/// part as it arrives.
pub(crate) async fn forward(
    master: &Handle,
    request: Request,
    to: &mut Local,
) -> Result<(), Error> {
    let has_parts = matches!(request, Request::Push(_));
    let asked = master.ask(request).await;
    let mut asked = asked.map(|asked| asked.waiting(Some(ANSWER)));
    if has_parts {
        hand_on(to, asked.as_mut().ok()).await?;
    }
    let mut asked = match asked {
        Ok(asked) => asked,
        Err(error) => return to.fail("unreachable", error.to_string()).await,
    };
    loop {
        // No deadline: the question has its own (`ANSWER`).
        match asked.next().await {
            Ok(Part::Data(part)) => to.data(part).await?,
            Ok(Part::Done(end)) => return to.done(end).await,
            Err(Error::Failed { reason, text, .. }) => return to.fail(&reason, text).await,
            Err(error) => return to.fail("unreachable", error.to_string()).await,
        }
    }
}

/// Passes the parts that follow a request on to the master. After an error the remaining parts are
/// still read; the master's answer has the reason.
pub(crate) async fn hand_on(from: &mut Local, mut to: Option<&mut Asked>) -> Result<(), Error> {
    while let Part::Data(part) = from.part().await? {
        if let Some(asked) = &mut to
            && asked.data(part).await.is_err()
        {
            to = None;
        }
    }
    if let Some(asked) = to {
        // A master that has already refused does not accept the end of the parts.
        let _ = asked.sent().await;
    }
    Ok(())
}

/// This machine as the target of the orchestrations that it runs. Its events go to the master.
#[derive(Debug)]
pub struct OfMinion(Uplink);

impl OfMinion {
    /// Creates the target. Its events go through this daemon.
    #[must_use]
    pub fn new(daemon: Uplink) -> Self {
        Self(daemon)
    }
}

impl Targets for OfMinion {
    fn resolve(
        &self,
        cx: &Exec,
        tgt: &Value,
        tgt_type: &str,
    ) -> Result<Vec<String>, module::Error> {
        ThisMachine.resolve(cx, tgt, tgt_type)
    }

    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, module::Error> {
        ThisMachine.run(cx, ids, fun, args, kwargs)
    }

    fn fire(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), module::Error> {
        if let Err(error) = ThisMachine.fire(cx, tag, data.clone()) {
            log::debug(format_args!(
                "cannot fire the event {tag} on the local event bus: {error}"
            ));
        }
        // The daemon answers when the event is on disk. An event that is only written to a socket
        // may be lost if the reader dies.
        let (tag, data) = (secret::text(tag).into_owned(), secret::event(data));
        let kept = self.0.call(wire::Fire { tag, data });
        let refused = |error| {
            module::Error::refused(format!("the minion daemon cannot store the event: {error}"))
        };
        kept.map(drop).map_err(refused)
    }

    fn subscribe(
        &self,
        cx: &Exec,
        from: Option<u64>,
        sink: Sink,
    ) -> Result<Box<dyn Subscription>, module::Error> {
        ThisMachine.subscribe(cx, from, sink)
    }

    fn ask(&self, _cx: &Exec, ask: Ask) -> Result<Option<Value>, module::Error> {
        if let Ask::Push { file, path } = &ask {
            return push(&self.0, file, path).map(Some);
        }
        let is_publish = matches!(ask, Ask::Publish { .. });
        // There is no request for the master's wheel: on a minion, wheel functions are this
        // machine's own.
        let Some(request) = request(ask) else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        let mut take = |part| {
            parts.push(part);
            Ok(())
        };
        let asked = self.0.parts(request, &mut take);
        let (end, taken) = asked.map_err(|error| module::Error::refused(error.to_string()))?;
        taken.map_err(module::Error::io("the daemon's answer"))?;
        Ok(Some(if is_publish { parts.into() } else { end }))
    }
}

/// The number of bytes of a file that are sent in one frame.
const PIECE: usize = 64 << 10;

/// Sends a file to the master.
fn push(uplink: &Uplink, file: &Path, path: &str) -> Result<Value, module::Error> {
    let said = |error: Error| module::Error::refused(error.to_string());
    let mut open = File::open(file).map_err(module::Error::io(file))?;
    let size = open.metadata().map_err(module::Error::io(file))?.len();
    let hash = hashes::of_file(&file.to_string_lossy(), "sha256")?;
    let mut socket = uplink.socket();
    let pipe = socket.open().map_err(said)?;
    let path = path.to_owned();
    pipe.ask(wire::Push { path, size, hash }).map_err(said)?;
    let mut piece = vec![0; PIECE];
    loop {
        let length = match open.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) => {
                // The parts stay shorter than announced, so the master refuses the file.
                log::error(format_args!("{}: {error}", file.display()));
                break;
            }
        };
        let bytes = piece.get(..length).unwrap_or_default();
        pipe.data(Value::Bytes(bytes.into())).map_err(said)?;
    }
    pipe.sent().map_err(said)?;
    match pipe.next(Some(ANSWER)).map_err(said)? {
        Part::Done(value) | Part::Data(value) => Ok(value),
    }
}

/// Returns the request frame of a question, or `None` if a minion does not send that question to
/// its master.
fn request(ask: Ask) -> Option<Request> {
    Some(match ask {
        // A file is sent in parts, by `push`.
        Ask::Wheel { .. } | Ask::Push { .. } => return None,
        Ask::MineGet {
            tgt,
            tgt_type,
            fun,
            exclude_minion,
        } => wire::MineGet {
            tgt,
            tgt_type,
            fun,
            exclude_minion,
        }
        .into(),
        Ask::MinePut { data, clear } => wire::MinePut { data, clear }.into(),
        Ask::MineDelete { fun } => wire::MineDelete { fun }.into(),
        Ask::Publish {
            tgt,
            tgt_type,
            fun,
            arg,
            timeout_s,
        } => wire::Publish {
            tgt,
            tgt_type,
            fun,
            arg,
            ret: String::new(),
            jid: None,
            timeout_s,
            options: Map::new(),
        }
        .into(),
        Ask::Runner { fun, arg } => wire::Runner {
            fun,
            arg,
            jid: None,
            asynchronous: false,
            watched: false,
        }
        .into(),
        Ask::Running => wire::Running {}.into(),
        Ask::FindJob { jid } => wire::FindJob { jid }.into(),
        Ask::SignalJob { jid, signal } => wire::SignalJob { jid, signal }.into(),
        Ask::Beacons { fun, name, data } => wire::Beacons {
            fun: fun.to_owned(),
            name,
            data,
        }
        .into(),
        Ask::Schedule { fun, name, data } => wire::Schedule {
            fun: fun.to_owned(),
            name,
            data,
        }
        .into(),
        Ask::Refresh { what, wait_s } => Refresh {
            what: what.to_owned(),
            wait_s,
        }
        .into(),
    })
}
