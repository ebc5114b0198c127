//! The same frames over Unix sockets: between commands and the daemons of their machine, and
//! between a job's process and the daemon that started it.
//!
//! The kernel reports the user and process at the other end. One end serves many peers and is async
//! ([`Local`]); the other is a program that does one thing after the other ([`Pipe`]).

use std::fs::DirBuilder;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use smol::Async;
use value::{Value, remove};
use wire::{Data, Decoder, Done, Event, Failed, Frame, Job, Request, Way, rule};

use crate::error::{Error, PeerInfo, Wait};
use crate::exchange::Part;
use crate::limits::Limits;
use crate::room::Capacity;
use crate::stream::{Reader, Sink, Source, Writer};

fn socket_error(path: &Path) -> impl Fn(io::Error) -> Error {
    let place = path.display().to_string();
    move |source| Error::Socket {
        place: place.clone(),
        source: Arc::new(source),
    }
}

fn peer(stream: &UnixStream) -> io::Result<PeerInfo> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(PeerInfo::local(
        peer.uid.as_raw(),
        peer.pid.as_raw_nonzero().get(),
    ))
}

/// A daemon's socket. It is accessible for the daemon's own user alone (0600) unless guests are
/// accepted.
#[derive(Debug)]
pub struct LocalListener {
    socket: Async<UnixListener>,
    path: PathBuf,
    way: Way,
    capacity: Arc<Capacity>,
    limits: Limits,
    /// The separate room for the large frames of guests, if they are accepted: they cannot use up
    /// the room of others.
    guests: Option<Arc<Capacity>>,
}

/// Returns whether a user is root or this process's own.
fn is_own(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

impl LocalListener {
    /// Opens the socket. Its folder is created if it does not exist; other users cannot write to
    /// the new folder, whatever the umask is. The socket of a daemon that has ended is replaced;
    /// that of a running daemon is not. `way` is the kind of the clients: [`Way::ClientToMaster`]
    /// or [`Way::ClientToMinion`].
    ///
    /// # Errors
    /// When a daemon listens there already, or the folder cannot be created.
    #[expect(
        clippy::disallowed_methods,
        reason = "only this daemon can change the contents of the folder"
    )]
    pub fn bind(path: &Path, way: Way, limits: Limits) -> Result<Self, Error> {
        let failed = socket_error(path);
        if let Some(folder) = path.parent() {
            let mut builder = DirBuilder::new();
            let made = builder.recursive(true).mode(0o755).create(folder);
            made.map_err(&failed)?;
        }
        if UnixStream::connect(path).is_ok() {
            return Err(failed(io::ErrorKind::AddrInUse.into()));
        }
        // The socket gets its final name only after its mode is set. Each connection's user is
        // checked in any case.
        let beside = path.with_extension(format!("new.{}", std::process::id()));
        remove::or_log(&beside, rustix::fs::unlink(&beside));
        let socket = UnixListener::bind(&beside).map_err(&failed)?;
        let private = rustix::fs::chmod(&beside, rustix::fs::Mode::from(0o600));
        let placed = private.and_then(|()| rustix::fs::rename(&beside, path));
        if let Err(error) = placed {
            remove::or_log(&beside, rustix::fs::unlink(&beside));
            return Err(failed(error.into()));
        }
        let socket = Async::new(socket).map_err(&failed)?;
        // Programs of the daemon's own user need no separate shares.
        let own = Limits {
            large_bytes_per_key: limits.large_bytes_max,
            ..limits
        };
        Ok(Self {
            socket,
            path: path.to_owned(),
            way,
            capacity: Capacity::new(own),
            limits,
            guests: None,
        })
    }

    /// Accepts every user of this machine (0666). The daemon decides what each may ask, by
    /// [`Local::guest`].
    ///
    /// # Errors
    /// When the socket does not exist any more.
    #[expect(
        clippy::disallowed_methods,
        reason = "only this daemon can change the contents of the folder"
    )]
    pub fn with_guests(mut self) -> Result<Self, Error> {
        let opened = rustix::fs::chmod(&self.path, rustix::fs::Mode::from(0o666));
        opened.map_err(|error| socket_error(&self.path)(error.into()))?;
        self.guests = Some(Capacity::new(self.limits.clone()));
        Ok(self)
    }

    /// Waits for the next client that is root or this daemon's own user, or a guest if guests are
    /// accepted. Other clients are disconnected.
    ///
    /// # Errors
    /// When the socket can no longer be used.
    pub async fn next(&self) -> Result<Local, Error> {
        let failed = socket_error(&self.path);
        loop {
            // No deadline: commands arrive at any time.
            let (stream, _) = self.socket.accept().await.map_err(&failed)?;
            let Ok(who) = peer(stream.get_ref()) else {
                continue;
            };
            let user = who.process.map(|(user, _)| user);
            let capacity = match user.is_some_and(is_own) {
                true => Some(&self.capacity),
                false => self.guests.as_ref(),
            };
            if let Some(capacity) = capacity {
                return Ok(Local::new(stream, who, self.way, capacity.clone()));
            }
            let message = format_args!(
                "refusing the connection of {who} to {}",
                self.path.display()
            );
            crate::stream::note(value::log::Level::Warning, message);
        }
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        remove::or_log(&self.path, rustix::fs::unlink(&self.path));
    }
}

/// A message from a local process.
#[derive(Debug)]
pub enum LocalRequest {
    /// An event.
    Event(Event),
    /// A request, to be answered through the same [`Local`] before the next one is read.
    Request(Request),
}

/// A daemon's end of a local socket. Requests arrive one after the other. Each is answered with any
/// number of [`data`](Self::data) and one [`done`](Self::done) or [`fail`](Self::fail).
#[derive(Debug)]
pub struct Local {
    reader: Reader,
    writer: Writer,
    answer: Duration,
}

impl Local {
    fn new(stream: Async<UnixStream>, who: PeerInfo, way: Way, capacity: Arc<Capacity>) -> Self {
        let (stream, who, sizes) = (Arc::new(stream), Arc::new(who), wire::Limits::STREAM);
        let answer = capacity.limits.answer;
        let source = Source::Unix(stream.clone());
        let reader = Reader::new(source, sizes, who.clone(), way, capacity.clone());
        let writer = Writer::new(
            Sink::Unix(stream),
            sizes,
            who,
            Way::MasterToMinion,
            capacity,
        );
        Self {
            reader,
            writer,
            answer,
        }
    }

    /// Uses the daemon's end of a socket pair whose other end belongs to a job's process.
    ///
    /// # Errors
    /// When the kernel does not accept it.
    pub fn of_job(stream: UnixStream, limits: Limits) -> Result<Self, Error> {
        let failed = socket_error(Path::new("a job's socket"));
        let who = peer(&stream).map_err(&failed)?;
        let stream = Async::new(stream).map_err(&failed)?;
        Ok(Self::new(
            stream,
            who,
            Way::JobToMinion,
            Capacity::new(limits),
        ))
    }

    /// Returns the peer at the other end, as the kernel reports it.
    #[must_use]
    pub fn who(&self) -> &Arc<PeerInfo> {
        &self.reader.who
    }

    /// Returns the id of the user at the other end, if it is neither root nor this process's own.
    #[must_use]
    pub fn guest(&self) -> Option<u32> {
        let (user, _) = self.who().process?;
        (!is_own(user)).then_some(user)
    }

    /// Sends a job's process the job to run: the first frame on its socket.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn give(&mut self, job: Job) -> Result<(), Error> {
        self.writer.send(&Request::Job(job).into()).await
    }

    /// Waits for the next event or request; `None` when the process has closed its end. Dropping
    /// the future loses nothing.
    ///
    /// # Errors
    /// When the process breaks the protocol.
    pub async fn next(&mut self) -> Result<Option<LocalRequest>, Error> {
        loop {
            let who = self.reader.who.clone();
            // No deadline: the kernel reports when a process is gone, and a frame that has begun
            // has a deadline.
            return match self.reader.next(None).await? {
                None => Ok(None),
                Some(Frame::Request(request)) => Ok(Some(LocalRequest::Request(request))),
                Some(Frame::Control(wire::Control::Event(event))) => {
                    Ok(Some(LocalRequest::Event(event)))
                }
                Some(Frame::Unknown { kind }) => {
                    self.writer.send(&Frame::Unsupported { kind }).await?;
                    continue;
                }
                Some(other) => {
                    let found = format!("{other:?}");
                    Err(Error::Unexpected {
                        who,
                        found,
                        wanted: "a request or an event",
                    })
                }
            };
        }
    }

    /// Waits for the next part of the data that the process sends with its request; [`Part::Done`]
    /// is the last.
    ///
    /// # Errors
    /// When the process is silent for too long, or sends another frame.
    pub async fn part(&mut self) -> Result<Part, Error> {
        let frame = self.reader.next(Some((Wait::Answer, self.answer))).await?;
        Part::from_frame(frame, self.reader.who.clone(), "a part of the data")
    }

    /// Sends a part of the answer.
    ///
    /// # Errors
    /// When the process does not accept it in time, or has closed its end.
    pub async fn data(&mut self, data: impl Into<Value>) -> Result<(), Error> {
        let data = data.into();
        self.writer.send(&Data { data }.into()).await
    }

    /// Sends the last part of the answer.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn done(&mut self, data: impl Into<Value>) -> Result<(), Error> {
        let data = data.into();
        self.writer.send(&Done { data }.into()).await
    }

    /// Answers with a failure: a word for programs and a sentence.
    ///
    /// # Errors
    /// As [`data`](Self::data).
    pub async fn fail(&mut self, reason: &str, text: impl Into<String>) -> Result<(), Error> {
        let (reason, text) = (reason.to_owned(), text.into());
        self.writer.send(&Failed { reason, text }.into()).await
    }
}

/// A program's end of a local socket. It sends a request and blocks until the answer arrives.
#[derive(Debug)]
pub struct Pipe {
    stream: UnixStream,
    decoder: Decoder,
    who: Arc<PeerInfo>,
    way: Way,
    limits: Limits,
}

impl Pipe {
    /// Connects to a daemon's socket. A socket of a user other than root and the caller's own is
    /// refused, because its answers cannot be trusted.
    ///
    /// # Errors
    /// When no process listens there, or one of another user does.
    pub fn connect(path: &Path, way: Way, limits: Limits) -> Result<Self, Error> {
        let failed = socket_error(path);
        let stream = UnixStream::connect(path).map_err(&failed)?;
        let pipe = Self::new(stream, way, limits).map_err(&failed)?;
        let own = rustix::process::geteuid().as_raw();
        let user = pipe.who.process.map(|(user, _)| user);
        if user.is_some_and(|user| user != 0 && user != own) {
            return Err(failed(io::ErrorKind::PermissionDenied.into()));
        }
        Ok(pipe)
    }

    /// Uses a job's end of the socket pair that its daemon passed to it.
    ///
    /// # Errors
    /// When it is no such socket.
    pub fn of_job(stream: UnixStream, limits: Limits) -> Result<Self, Error> {
        let pipe = Self::new(stream, Way::JobToMinion, limits);
        pipe.map_err(socket_error(Path::new("the daemon's socket")))
    }

    fn new(stream: UnixStream, way: Way, limits: Limits) -> io::Result<Self> {
        let who = Arc::new(peer(&stream)?);
        let decoder = Decoder::new(wire::Limits::STREAM);
        stream.set_write_timeout(Some(limits.frame))?;
        Ok(Self {
            stream,
            decoder,
            who,
            way,
            limits,
        })
    }

    /// Waits for the job that the daemon has given this process.
    ///
    /// # Errors
    /// When the daemon is gone, is silent for too long, or sends another frame.
    pub fn given(&mut self) -> Result<Job, Error> {
        let who = self.who.clone();
        match self.frame(Some(self.limits.answer))? {
            Some(Frame::Request(Request::Job(job))) => Ok(job),
            None => Err(Error::Unanswered { who }),
            Some(other) => Err(Error::Unexpected {
                who,
                found: format!("{other:?}"),
                wanted: "a job",
            }),
        }
    }

    /// Sends an event.
    ///
    /// # Errors
    /// When the daemon is gone or does not read, or the event is too large.
    pub fn event(&mut self, event: Event) -> Result<(), Error> {
        self.send(&event.into())
    }

    /// Sends a request; [`next`](Self::next) returns the answer in parts.
    ///
    /// # Errors
    /// When the daemon is gone or does not read, or this program may not send that request.
    pub fn ask(&mut self, request: impl Into<Request>) -> Result<(), Error> {
        self.send(&request.into().into())
    }

    /// Sends a part of the data that belongs to the request.
    ///
    /// # Errors
    /// When the daemon is gone or does not read.
    pub fn data(&mut self, data: impl Into<Value>) -> Result<(), Error> {
        let data = data.into();
        self.send(&Data { data }.into())
    }

    /// Announces that all parts were sent.
    ///
    /// # Errors
    /// When the daemon is gone or does not read.
    pub fn sent(&mut self) -> Result<(), Error> {
        self.send(&Done { data: Value::Null }.into())
    }

    /// Sends a request, and waits for its answer of one part.
    ///
    /// # Errors
    /// As [`next`](Self::next), and when the answer has several parts.
    pub fn call(&mut self, request: impl Into<Request>) -> Result<Value, Error> {
        self.ask(request)?;
        self.next(Some(self.limits.answer))?
            .into_complete(&self.who)
    }

    fn send(&mut self, frame: &Frame) -> Result<(), Error> {
        let who = || self.who.clone();
        let allowed = rule::check(frame, self.way, true);
        allowed.map_err(|source| Error::NotAllowed { who: who(), source })?;
        let mut bytes = Vec::new();
        let encoded = frame.encode(wire::Limits::STREAM, &mut bytes);
        encoded.map_err(|source| Error::Frame { who: who(), source })?;
        let after = self.limits.frame;
        self.stream
            .write_all(&bytes)
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => Error::Deadline {
                    who: who(),
                    wait: Wait::Take,
                    after,
                },
                _ => Error::Lost {
                    who: who(),
                    reason: error.to_string(),
                },
            })
    }

    /// Waits for the next part of the answer, up to this time; `None` waits without limit. After
    /// [`Part::Done`] the next request may follow.
    ///
    /// # Errors
    /// When the daemon reports a failure, does not know the request, is silent for too long or
    /// closes the socket without an answer.
    pub fn next(&mut self, wait: Option<Duration>) -> Result<Part, Error> {
        let frame = self.frame(wait)?;
        Part::of_answer(frame, self.who.clone())
    }

    fn frame(&mut self, wait: Option<Duration>) -> Result<Option<Frame>, Error> {
        let until = wait.and_then(|wait| Instant::now().checked_add(wait));
        let mut piece = [0; 8 << 10];
        loop {
            let frame = self.decoder.next_frame();
            let frame = frame.map_err(|source| Error::Frame {
                who: self.who.clone(),
                source,
            })?;
            if frame.is_some() {
                return Ok(frame);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let late = || {
                let (who, after) = (self.who.clone(), wait.unwrap_or_default());
                Error::Deadline {
                    who,
                    wait: Wait::Answer,
                    after,
                }
            };
            if left.is_some_and(|left| left.is_zero()) {
                return Err(late());
            }
            let set = self.stream.set_read_timeout(left);
            match set.and_then(|()| self.stream.read(&mut piece)) {
                Ok(0) => return Ok(None),
                Ok(length) => self.decoder.push(piece.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(late()),
                Err(error) => {
                    let (who, reason) = (self.who.clone(), error.to_string());
                    return Err(Error::Lost { who, reason });
                }
            }
        }
    }
}
