//! The host's side: reads the job's configuration, starts the job's process, and passes bytes
//! between the ssh connection and the job's socket.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process_group};
use state::boot::SSH_JOB;
use value::json::{self, Layout};
use value::{Map, Value, channel, jid, remove};
use wire::Id;

use crate::command_on_host::OnHost;
use crate::job_folder::{Earlier, JobFolder, earlier, sweep, sweep_programs};

/// The maximum size of the configuration's line in bytes.
const LINE_MAX: u64 = 4 << 20;
/// The time that a job has to end after the connection is lost, unless the configuration says
/// another.
pub const GRACE: Duration = Duration::from_secs(30);
/// The time between the signals TERM and KILL.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// The interval of looks for the end of the job.
const LOOK: Duration = Duration::from_millis(20);
/// The exit code when an earlier job was ended before it returned (`EX_TEMPFAIL`).
pub const ENDED: i32 = 75;
/// The name of the folder with a folder for each id.
pub(crate) const IDS: &str = "ids";
/// The name of the file with the job's configuration.
const CONFIGURATION: &str = "minion";

/// Runs one job below a folder, and returns its exit code. `job` is the command line of a job's
/// process, without the folder of its configuration. If the configuration names earlier jobs whose
/// return was lost, passes on that return and runs nothing. The data of each id is separate: one
/// machine may have several ids in a roster.
///
/// # Errors
/// When the configuration cannot be read or written, or the process cannot be started.
pub fn run(folder: &Path, job: Vec<OsString>) -> io::Result<i32> {
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input.by_ref().take(LINE_MAX).read_line(&mut line)?;
    let asked = Asked::read(&line, folder)?;
    if let Some(own) = job.first() {
        sweep_programs(folder, Path::new(own), SystemTime::now());
    }
    let folder = asked.folder.as_path();
    sweep(folder, &asked.cache, SystemTime::now());
    for jid in &asked.earlier {
        match earlier(folder, &asked.cache, jid)? {
            Earlier::NeverBegun => {}
            Earlier::Returned(bytes) => {
                io::stdout().write_all(&bytes)?;
                io::stdout().flush()?;
                return Ok(0);
            }
            Earlier::Ended => return Ok(ENDED),
        }
    }
    let place = JobFolder::create(folder, &asked.jid)
        .map_err(|error| io::Error::new(error.kind(), format!("job {}: {error}", asked.jid)))?;
    let configuration = place.path.join(CONFIGURATION);
    let code = asked
        .write(&configuration)
        .and_then(|()| match &asked.command {
            None => asked.run_job(&place, job, input),
            Some(words) => asked.run_command(&place, job, words, input),
        });
    remove_file(&configuration);
    // Without the exit code 0, the return of the job was not taken: the folder says that it has run.
    if let Ok(0) = code {
        place.remove();
    }
    code
}

#[expect(clippy::disallowed_methods, reason = "the file is this job's own")]
fn remove_file(path: &Path) {
    remove::or_log(path, std::fs::remove_file(path));
}

/// The first line of the input: which job to run, and how.
struct Asked {
    jid: String,
    /// The ids under which another connection may have begun the job, whose return was lost.
    earlier: Vec<String>,
    /// The words of a command of the program, which runs instead of a function.
    command: Option<Vec<String>>,
    /// The time for the job to end after the connection is lost; `None` if it continues.
    grace: Option<Duration>,
    opts: Map,
    /// The folder of the id.
    folder: PathBuf,
    /// The cache of the job's process.
    cache: PathBuf,
    /// The folder of its daemon's socket.
    sockets: PathBuf,
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

impl Asked {
    fn read(line: &str, folder: &Path) -> io::Result<Self> {
        let read = json::read(line).map_err(|error| invalid(&error.to_string()))?;
        let jid = read.get("jid").map(Value::to_text);
        let opts = read.get("opts").and_then(Value::as_map).cloned();
        let (Some(jid), Some(mut opts)) = (jid, opts) else {
            return Err(invalid("the first line must have a job id and options"));
        };
        let id = opts.get("id").map(Value::to_text);
        let id = id.ok_or_else(|| invalid("the first line must have an id"))?;
        let id: Id = id.parse().map_err(io::Error::other)?;
        let folder = folder.join(IDS).join(id.as_str());
        let earlier = read.get("earlier").map(Value::texts).unwrap_or_default();
        if !earlier.iter().chain([&jid]).all(|jid| jid::is_jid(jid)) {
            return Err(invalid("the first line has an invalid job id"));
        }
        let root = match opts.get("root_dir").map(Value::to_text) {
            Some(root) => PathBuf::from(root),
            None => folder.join("root"),
        };
        opts.insert("root_dir", root.display().to_string());
        let cachedir = opts.get("cachedir").map(Value::to_text);
        let cachedir = cachedir.unwrap_or_else(|| "/cache".to_owned());
        opts.insert("cachedir", cachedir.as_str());
        let command = read.get("command").map(Value::texts);
        // Short, because the sockets of a longer folder are moved elsewhere, as by Salt.
        let sockets = format!("{cachedir}/s{}", std::process::id());
        opts.insert("sock_dir", sockets.as_str());
        opts.insert("file_client", "remote");
        opts.insert(SSH_JOB, jid.as_str());
        let grace = read.get("grace").and_then(Value::as_int);
        Ok(Self {
            sockets: root.join(sockets.trim_start_matches('/')),
            jid,
            earlier,
            command,
            grace: grace.map(|seconds| Duration::from_secs(seconds.max(0).unsigned_abs())),
            opts,
            folder,
            cache: root.join(cachedir.trim_start_matches('/')),
        })
    }

    /// Writes the configuration, which only this user can read.
    fn write(&self, path: &Path) -> io::Result<()> {
        let text = json::write(&self.opts.clone().into(), Layout::default());
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.as_bytes())
    }

    fn run_job(
        &self,
        place: &JobFolder,
        job: Vec<OsString>,
        input: BufReader<io::Stdin>,
    ) -> io::Result<i32> {
        let (child, socket) = self.start(place, job)?;
        let passed = passed(input, &socket)?;
        let code = ended(child, || passed.is_finished(), self.grace)?;
        // The last bytes of the job are still on their way.
        channel::or_closed(passed.join());
        Ok(code)
    }

    fn run_command(
        &self,
        place: &JobFolder,
        job: Vec<OsString>,
        words: &[String],
        input: BufReader<io::Stdin>,
    ) -> io::Result<i32> {
        let program = job.into_iter().next().ok_or(io::ErrorKind::NotFound)?;
        let command = OnHost {
            program,
            words,
            jid: &self.jid,
            place,
            sockets: self.sockets.clone(),
            cache: &self.cache,
        };
        command.run(input, self.grace)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the child is the process of a job; no module starts it"
    )]
    fn start(&self, place: &JobFolder, job: Vec<OsString>) -> io::Result<(Child, UnixStream)> {
        let (ours, its) = UnixStream::pair()?;
        let mut words = job.into_iter();
        let program = words.next().ok_or(io::ErrorKind::NotFound)?;
        // The job prints nothing. With the lock as its output, the lock is held until it ends.
        let lock: File = place.lock.try_clone()?;
        let child = Command::new(program)
            .arg0("pinch")
            .args(words)
            .arg(&place.path)
            .arg(&self.jid)
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::from(lock))
            .spawn()?;
        Ok((child, ours))
    }
}

/// Passes bytes in both directions, each in a separate thread. Returns the thread that ends when
/// the job has closed its end or the connection is lost.
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
        channel::if_open(from_job.shutdown(Shutdown::Both));
    }))
}

/// Copies bytes as they arrive, until one side is closed.
pub(crate) fn copied(from: &mut impl Read, to: &mut impl Write) {
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
pub(crate) fn ended(
    mut child: Child,
    is_lost: impl Fn() -> bool,
    grace: Option<Duration>,
) -> io::Result<i32> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (mut lost, mut signal) = (None, Signal::TERM);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().unwrap_or(1));
        }
        if lost.is_none() && is_lost() {
            lost = Some(Instant::now());
        }
        if let (Some(since), Some(grace), Some(group)) = (lost, grace, group) {
            let allowed = match signal {
                Signal::TERM => grace,
                _ => grace + KILL_AFTER,
            };
            if since.elapsed() > allowed {
                // A group that is gone has ended.
                channel::if_open(kill_process_group(group, signal));
                signal = Signal::KILL;
            }
        }
        std::thread::sleep(LOOK);
    }
}
