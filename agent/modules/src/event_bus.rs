//! The local event bus. It has no daemon: each listener binds a datagram socket in `sock_dir/bus`,
//! and a sender writes to all of them.
//!
//! Other users cannot enter the folder, and a datagram counts only if the kernel reports this user
//! or root as its sender.
#![expect(
    clippy::disallowed_methods,
    reason = "a socket does not outlive its process"
)]

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
use state::module::Error;
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value, log, remove, secret};

/// The maximum size of an event in bytes: its tag and its data as JSON.
pub const EVENT_BYTES_MAX: usize = 128 * 1024;

/// The maximum number of events that a listener keeps until its caller reads them. When it is full,
/// the oldest event is dropped and counted.
const EVENTS_KEPT_MAX: usize = 10_000;

/// The interval after which a listener's thread checks whether it has to stop.
const POLL: Duration = Duration::from_millis(200);

/// The maximum number of events read from a socket in one pass; the kernel's queue of a socket is
/// shorter.
const LOOK_MAX: usize = 1024;

/// The maximum number of listeners that one sender writes to.
const LISTENERS_MAX: usize = 256;

/// The prefix of the socket names of daemons that react to events. If such a daemon's queue is
/// full, the sender waits.
const ANSWERS: &str = "reactor.";
/// The maximum time that a sender waits, and the pause between two attempts.
const PATIENCE: Duration = Duration::from_secs(2);
const TRY: Duration = Duration::from_millis(5);

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The tag.
    pub tag: String,
    /// The data, including `_stamp`.
    pub data: Map,
}

/// Returns the folder in which listeners bind. Only this user may enter it.
fn folder(opts: &Opts) -> PathBuf {
    opts.path("sock_dir").join("bus")
}

/// Fires an event to every current listener. Without listeners it costs only the listing of a
/// folder.
///
/// # Errors
/// When the event is longer than [`EVENT_BYTES_MAX`].
pub fn fire(opts: &Opts, event: &Event) -> Result<(), Error> {
    let Ok(listeners) = std::fs::read_dir(folder(opts)) else {
        return Ok(());
    };
    let bytes = encode(event);
    if bytes.len() > EVENT_BYTES_MAX {
        return Err(Error::refused(format!(
            "The event {} has {} bytes, more than the limit of {EVENT_BYTES_MAX}",
            event.tag,
            bytes.len()
        )));
    }
    let socket = UnixDatagram::unbound().map_err(Error::io("event socket"))?;
    socket
        .set_nonblocking(true)
        .map_err(Error::io("event socket"))?;
    for listener in listeners.flatten().take(LISTENERS_MAX) {
        send(&socket, &listener.path(), &event.tag, &bytes);
    }
    Ok(())
}

fn send(socket: &UnixDatagram, listener: &Path, tag: &str, bytes: &[u8]) {
    let name = listener.file_name().map(|name| name.to_string_lossy());
    let answers = name.is_some_and(|name| name.starts_with(ANSWERS));
    let until = Instant::now() + PATIENCE;
    let error = loop {
        let Err(error) = socket.send_to(bytes, listener) else {
            return;
        };
        let is_full = error.kind() == std::io::ErrorKind::WouldBlock;
        if !(is_full && answers && Instant::now() < until) {
            break error;
        }
        std::thread::sleep(TRY);
    };
    if error.kind() == std::io::ErrorKind::ConnectionRefused {
        // The listener's process has ended.
        remove::or_log(listener, std::fs::remove_file(listener));
    } else {
        log::warning(format_args!(
            "cannot send event {tag} to the listener {}: {error}",
            listener.display()
        ));
    }
}

fn encode(event: &Event) -> Vec<u8> {
    let data = secret::event(event.data.clone());
    let data = json::write(&Value::Map(data), Layout::default());
    format!("{}\n\n{data}", secret::text(&event.tag)).into_bytes()
}

fn decode(bytes: &[u8]) -> Option<Event> {
    let (tag, data) = std::str::from_utf8(bytes).ok()?.split_once("\n\n")?;
    let data = json::read(data).ok()?.as_map()?.clone();
    Some(Event {
        tag: tag.to_owned(),
        data,
    })
}

#[derive(Default)]
struct Inbox {
    events: VecDeque<Event>,
    lost: u64,
}

/// A listener's socket. Its file exists until the value is dropped.
#[derive(Debug)]
pub struct Ear {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Ear {
    /// Creates the socket of a daemon that reacts to events.
    ///
    /// # Errors
    /// When the folder or the socket cannot be made.
    pub fn that_answers(opts: &Opts) -> Result<Self, Error> {
        let ear = Self::bind(opts, ANSWERS)?;
        let nonblocking = ear.socket.set_nonblocking(true);
        nonblocking.map_err(Error::io(&ear.path))?;
        Ok(ear)
    }

    fn bind(opts: &Opts, prefix: &str) -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let folder = folder(opts);
        closed_folder(&folder)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{prefix}{}.{count}", std::process::id()));
        remove::or_log(&path, std::fs::remove_file(&path));
        let socket = UnixDatagram::bind(&path).map_err(Error::io(&path))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(Error::io(&path))?;
        sockopt::set_socket_passcred(&socket, true)
            .map_err(|error| Error::io(&path)(error.into()))?;
        Ok(Self { socket, path })
    }

    /// Returns the descriptor that becomes readable when an event arrives.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the events that have arrived, at most `most`. Events of other users are left out.
    #[must_use]
    pub fn heard(&self, most: usize) -> Vec<Event> {
        let mut buffer = vec![0; EVENT_BYTES_MAX + 1];
        let mut heard = Vec::new();
        for _ in 0..most {
            match datagram(&self.socket, &mut buffer) {
                Ok(bytes) => heard.extend(bytes.and_then(decode)),
                Err(_) => break,
            }
        }
        heard
    }

    /// Waits until there is an event, or [`POLL`] is over.
    fn wait(&self) {
        // Errors other than a timeout come back at once; without this pause the thread would spin.
        let peeked = rustix::net::recv(&self.socket, &mut [0; 1], RecvFlags::PEEK);
        if peeked.is_err_and(|error| error != rustix::io::Errno::AGAIN) {
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        remove::or_log(&self.path, std::fs::remove_file(&self.path));
    }
}

/// A thread that passes every event to a callback until the value is dropped.
pub struct Delivery {
    reader: Arc<Reader>,
    stop: Arc<AtomicBool>,
}

/// A socket and the callback that receives its events, one at a time.
struct Reader {
    ear: Ear,
    sink: Mutex<Box<dyn FnMut(Event) + Send>>,
}

impl Reader {
    /// Passes on the events that have arrived, in order.
    fn read(&self) {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        self.ear.heard(LOOK_MAX).into_iter().for_each(&mut *sink);
    }
}

impl Delivery {
    /// Starts to listen.
    ///
    /// # Errors
    /// When the folder or the socket cannot be made.
    pub fn start(opts: &Opts, sink: Box<dyn FnMut(Event) + Send>) -> Result<Self, Error> {
        let ear = Ear::bind(opts, "")?;
        ear.socket
            .set_read_timeout(Some(POLL))
            .map_err(Error::io(&ear.path))?;
        let sink = Mutex::new(sink);
        let reader = Arc::new(Reader { ear, sink });
        let stop = Arc::<AtomicBool>::default();
        let delivery = Self {
            reader: Arc::clone(&reader),
            stop: Arc::clone(&stop),
        };
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                reader.ear.wait();
                reader.read();
            }
        });
        Ok(delivery)
    }

    /// Passes on every event that was fired before this call.
    pub fn catch_up(&self) {
        self.reader.read();
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let path = &self.reader.ear.path;
        remove::or_log(path, std::fs::remove_file(path));
    }
}

/// A listener that queues events until its caller reads them.
pub struct Listener {
    inbox: Arc<(Mutex<Inbox>, Condvar)>,
    _delivery: Delivery,
}

impl Listener {
    /// Starts to listen.
    ///
    /// # Errors
    /// When the folder or the socket cannot be made.
    pub fn bind(opts: &Opts) -> Result<Self, Error> {
        let inbox = Arc::<(Mutex<Inbox>, Condvar)>::default();
        let queue = Arc::clone(&inbox);
        let delivery = Delivery::start(opts, Box::new(move |event| receive(&queue, event)))?;
        Ok(Self {
            inbox,
            _delivery: delivery,
        })
    }

    /// Waits for an event for which `wanted` returns true, and drops the others. Returns `None`
    /// when the deadline has passed.
    pub fn next(&self, deadline: Instant, mut wanted: impl FnMut(&Event) -> bool) -> Option<Event> {
        let (inbox, arrived) = &*self.inbox;
        let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            while let Some(event) = inbox.events.pop_front() {
                if wanted(&event) {
                    return Some(event);
                }
            }
            let left = deadline
                .checked_duration_since(Instant::now())
                .filter(|left| !left.is_zero())?;
            inbox = arrived
                .wait_timeout(inbox, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Returns the events received so far, without waiting and without removing them.
    #[must_use]
    pub fn seen(&self) -> Vec<Event> {
        let inbox = self.inbox.0.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.events.iter().cloned().collect()
    }
}

fn closed_folder(folder: &Path) -> Result<(), Error> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(Error::io(folder))?;
    let found = std::fs::symlink_metadata(folder).map_err(Error::io(folder))?;
    if !found.is_dir()
        || found.uid() != rustix::process::geteuid().as_raw()
        || found.mode() & 0o077 != 0
    {
        return Err(Error::refused(format!(
            "{} must be a directory of this user with mode 0700; remove it or set sock_dir to another one",
            folder.display()
        )));
    }
    Ok(())
}

fn receive(inbox: &(Mutex<Inbox>, Condvar), event: Event) {
    let (queue, arrived) = inbox;
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.events.len() >= EVENTS_KEPT_MAX {
        queue.events.pop_front();
        queue.lost += 1;
        if queue.lost.is_power_of_two() {
            log::warning(format_args!(
                "dropped {} events: they arrive faster than they are read",
                queue.lost
            ));
        }
    }
    queue.events.push_back(event);
    arrived.notify_all();
}

/// Reads one datagram; `None` when it is from neither this user nor root.
fn datagram<'a>(
    socket: &UnixDatagram,
    buffer: &'a mut [u8],
) -> Result<Option<&'a [u8]>, rustix::io::Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(buffer)],
        &mut control,
        RecvFlags::DONTWAIT,
    )?;
    let sender = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.uid),
        _ => None,
    });
    let own = rustix::process::geteuid();
    match sender {
        Some(sender) if sender == own || sender.is_root() => Ok(buffer.get(..received.bytes)),
        Some(sender) => {
            log::warning(format_args!(
                "ignoring an event from uid {}: only root and this user may send events",
                sender.as_raw()
            ));
            Ok(None)
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opts(dir: &Path) -> Opts {
        Opts::new(Map::new().with("sock_dir", dir.display().to_string()))
    }

    #[test]
    fn everyone_who_listens_gets_an_event_and_nobody_else_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let opts = opts(dir.path());
        let event = |tag: &str| Event {
            tag: tag.into(),
            data: Map::new().with("id", "m1"),
        };
        fire(&opts, &event("before")).unwrap();
        let (first, second) = (
            Listener::bind(&opts).unwrap(),
            Listener::bind(&opts).unwrap(),
        );
        fire(&opts, &event("other")).unwrap();
        fire(&opts, &event("mine")).unwrap();
        let soon = || Instant::now() + Duration::from_secs(5);
        assert_eq!(first.next(soon(), |e| e.tag == "mine"), Some(event("mine")));
        assert_eq!(second.next(soon(), |_| true), Some(event("other")));
        assert_eq!(
            first.next(Instant::now() + Duration::from_millis(50), |_| true),
            None
        );
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused_and_a_dead_listener_removed() {
        let dir = tempfile::tempdir().unwrap();
        let opts = opts(dir.path());
        let bus = dir.path().join("bus");
        std::fs::create_dir(&bus).unwrap();
        std::fs::set_permissions(&bus, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Listener::bind(&opts).is_err());
        std::fs::set_permissions(&bus, std::fs::Permissions::from_mode(0o700)).unwrap();
        let dead = bus.join("1.0");
        drop(UnixDatagram::bind(&dead).unwrap());
        fire(
            &opts,
            &Event {
                tag: "t".into(),
                data: Map::new(),
            },
        )
        .unwrap();
        assert!(!dead.exists());
    }

    #[test]
    fn an_event_that_is_too_long_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let opts = opts(dir.path());
        let _listener = Listener::bind(&opts).unwrap();
        let data = Map::new().with("x", "y".repeat(EVENT_BYTES_MAX));
        assert!(
            fire(
                &opts,
                &Event {
                    tag: "t".into(),
                    data
                }
            )
            .is_err()
        );
    }
}
