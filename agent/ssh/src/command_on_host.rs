//! A command of the program on a host, such as `plan` or `undo`, with the files and the pillar of the
//! caller: its requests to the daemon of its machine go to the caller instead.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use machine::durable;
use value::{Map, channel, jid, remove};
use wire::{Frame, Limits, Return};

use crate::job_folder::{JobFolder, left};
use crate::on_host::{copied, ended};

/// The maximum size of the output in bytes.
const OUTPUT_MAX: u64 = 4 << 20;
/// The time for the last bytes of a connection after the command has ended.
const LAST: Duration = Duration::from_secs(1);

/// A command, and the places of its files.
pub(crate) struct OnHost<'a> {
    pub(crate) program: OsString,
    pub(crate) words: &'a [String],
    pub(crate) jid: &'a str,
    pub(crate) place: &'a JobFolder,
    /// The folder of the daemon's socket, which the configuration names.
    pub(crate) sockets: PathBuf,
    pub(crate) cache: &'a Path,
}

/// The connection of the command that is open now.
#[derive(Clone, Default)]
struct Current(Arc<Mutex<Option<UnixStream>>>);

impl Current {
    fn get(&self) -> MutexGuard<'_, Option<UnixStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnHost<'_> {
    /// Runs the command, and passes its output on as the return of the job.
    ///
    /// # Errors
    /// When it cannot be started, or its output cannot be read.
    pub(crate) fn run(
        &self,
        input: BufReader<io::Stdin>,
        grace: Option<Duration>,
    ) -> io::Result<i32> {
        // A process with the same id may have left it.
        self.remove_sockets();
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.sockets)?;
        let listener = UnixListener::bind(self.sockets.join("minion.sock"))?;
        let ran = self.started().and_then(|child| {
            let (current, lost) = (Current::default(), Arc::new(AtomicBool::new(false)));
            passed(input, listener, &current, &lost);
            let code = ended(child, || lost.load(Ordering::Relaxed), grace)?;
            let until = Instant::now() + LAST;
            while current.get().is_some() && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
            self.hand_over(code)
        });
        self.remove_sockets();
        ran
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the child is a command of this program; no module starts it"
    )]
    fn started(&self) -> io::Result<Child> {
        let (word, rest) = self
            .words
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        Command::new(&self.program)
            .arg0("pinch")
            .arg(word)
            .arg("-c")
            .arg(&self.place.path)
            .args(rest)
            .process_group(0)
            // The lock has no contents. It is held until the command ends.
            .stdin(Stdio::from(self.place.lock.try_clone()?))
            .stdout(Stdio::from(self.output("out")?))
            .stderr(Stdio::from(self.output("err")?))
            .spawn()
    }

    fn output(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let path = self.place.path.join(name);
        options.write(true).create_new(true).mode(0o600).open(path)
    }

    fn text(&self, name: &str) -> io::Result<String> {
        let file = File::open(self.place.path.join(name))?;
        let mut bytes = Vec::new();
        file.take(OUTPUT_MAX + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > OUTPUT_MAX {
            true => Err(io::Error::other(format!(
                "the command has printed more than {} MiB",
                OUTPUT_MAX >> 20
            ))),
            false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Stores the output as a return, and writes it to the connection.
    fn hand_over(&self, code: i32) -> io::Result<i32> {
        let (mut text, err) = (self.text("out")?, self.text("err")?);
        text += &err;
        let data = Map::new()
            .with("jid", self.jid)
            .with("return", text)
            .with("retcode", i64::from(code));
        let answer = Return {
            sequence: 0,
            jid: self.jid.to_owned(),
            stamp: jid::stamp(),
            data,
        };
        let mut bytes = Vec::new();
        let encoded = Frame::from(answer).encode(Limits::STREAM, &mut bytes);
        encoded.map_err(io::Error::other)?;
        durable::write(&left(self.cache), self.jid, &bytes)?;
        io::stdout().write_all(&bytes)?;
        io::stdout().flush()?;
        Ok(0)
    }

    #[expect(clippy::disallowed_methods, reason = "the folder is this job's own")]
    fn remove_sockets(&self) {
        remove::or_log(&self.sockets, std::fs::remove_dir_all(&self.sockets));
    }
}

/// Passes bytes between the ssh connection and the connections of the command, of which one is open
/// at a time.
fn passed(
    mut input: BufReader<io::Stdin>,
    listener: UnixListener,
    current: &Current,
    lost: &Arc<AtomicBool>,
) {
    let (to, lost) = (current.clone(), lost.clone());
    thread::spawn(move || {
        let mut piece = vec![0; 64 << 10];
        // No deadline: the ssh connection has its own.
        while let Ok(length) = input.read(&mut piece) {
            let bytes = piece.get(..length).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            if let Some(socket) = to.get().as_mut() {
                channel::if_open(socket.write_all(bytes));
            }
        }
        lost.store(true, Ordering::Relaxed);
        if let Some(socket) = to.get().as_mut() {
            channel::if_open(socket.shutdown(Shutdown::Both));
        }
    });
    let current = current.clone();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else {
                return;
            };
            let Ok(other) = connection.try_clone() else {
                return;
            };
            *current.get() = Some(other);
            copied(&mut connection, &mut io::stdout());
            *current.get() = None;
        }
    });
}
