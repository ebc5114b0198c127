//! The host's side: reads the job's configuration, starts the job's process, and passes bytes
//! between the ssh connection and the job's socket.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use value::json::{self, Layout};
use value::{Map, Value, channel, jid};

/// The maximum size of the configuration's line in bytes.
const LINE_MAX: u64 = 4 << 20;
/// The time that a job has to end after the connection is lost.
const GRACE: Duration = Duration::from_secs(30);
/// The interval of looks for the end of the job.
const LOOK: Duration = Duration::from_millis(20);

/// Runs one job below a folder, and returns its exit code. `job` is the command line of a job's
/// process, without the folder of its configuration.
///
/// # Errors
/// When the configuration cannot be read or written, or the process cannot be started.
pub fn run(folder: &Path, job: Vec<OsString>) -> io::Result<i32> {
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input.by_ref().take(LINE_MAX).read_line(&mut line)?;
    let configuration = Configuration::read(&line, folder)?;
    configuration.write()?;
    let ended = configuration.start(job).and_then(|(child, socket)| {
        let passed = passed(input, &socket);
        let ended = ended(child, passed)?;
        Ok(ended)
    });
    configuration.remove();
    ended
}

/// The configuration of one job.
struct Configuration {
    jid: String,
    opts: Map,
    folder: PathBuf,
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

impl Configuration {
    fn read(line: &str, folder: &Path) -> io::Result<Self> {
        let read = json::read(line).map_err(|error| invalid(&error.to_string()))?;
        let jid = read.get("jid").map(Value::to_text).unwrap_or_default();
        let opts = read.get("opts").and_then(Value::as_map).cloned();
        let (true, Some(mut opts)) = (jid::is_jid(&jid), opts) else {
            return Err(invalid("the first line must have a job id and options"));
        };
        if !opts.contains("root_dir") {
            opts.insert("root_dir", folder.join("root").display().to_string());
        }
        Ok(Self {
            folder: folder.join("jobs").join(&jid),
            jid,
            opts,
        })
    }

    /// Writes the configuration into a folder that only this user can read.
    #[expect(
        clippy::disallowed_methods,
        reason = "the file is read by the job that starts now, and removed after it"
    )]
    fn write(&self) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.folder)?;
        let text = json::write(&self.opts.clone().into(), Layout::default());
        std::fs::write(self.folder.join("minion"), text)
    }

    #[expect(clippy::disallowed_methods, reason = "the folder is this job's own")]
    fn remove(&self) {
        value::remove::or_log(&self.folder, std::fs::remove_dir_all(&self.folder));
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the child is the process of a job; no module starts it"
    )]
    fn start(&self, job: Vec<OsString>) -> io::Result<(Child, UnixStream)> {
        let (ours, its) = UnixStream::pair()?;
        let mut words = job.into_iter();
        let program = words.next().ok_or(io::ErrorKind::NotFound)?;
        let child = Command::new(program)
            .arg0("pinch")
            .args(words)
            .arg(&self.folder)
            .arg(&self.jid)
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null())
            .spawn()?;
        Ok((child, ours))
    }
}

/// Passes bytes in both directions, each in a thread of its own. Returns the thread that ends when
/// the job has closed its end.
fn passed(
    mut input: BufReader<io::Stdin>,
    socket: &UnixStream,
) -> io::Result<std::thread::JoinHandle<()>> {
    let (mut to_job, mut from_job) = (socket.try_clone()?, socket.try_clone()?);
    std::thread::spawn(move || {
        copied(&mut input, &mut to_job);
        // The job learns that the connection is lost.
        channel::if_open(to_job.shutdown(Shutdown::Both));
    });
    Ok(std::thread::spawn(move || {
        copied(&mut from_job, &mut io::stdout());
    }))
}

/// Copies bytes as they arrive, until one side is closed.
fn copied(from: &mut impl Read, to: &mut impl Write) {
    let mut piece = vec![0; 64 << 10];
    loop {
        let Ok(length) = from.read(&mut piece) else {
            return;
        };
        let bytes = piece.get(..length).unwrap_or_default();
        if bytes.is_empty() || to.write_all(bytes).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// Waits for the end of the job. After the connection is lost, the job has a time to end; then its
/// processes are ended.
fn ended(mut child: Child, passed: io::Result<std::thread::JoinHandle<()>>) -> io::Result<i32> {
    let passed = passed?;
    let mut lost = None;
    loop {
        if let Some(status) = child.try_wait()? {
            // What the job has written last is still on its way.
            channel::or_closed(passed.join());
            return Ok(status.code().unwrap_or(1));
        }
        if passed.is_finished() && lost.is_none() {
            lost = Some(Instant::now());
        }
        if lost.is_some_and(|since| since.elapsed() > GRACE)
            && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            // A group that is gone has ended.
            channel::if_open(kill_process_group(group, Signal::TERM));
            lost = Some(Instant::now());
        }
        std::thread::sleep(LOOK);
    }
}
