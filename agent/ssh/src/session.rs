//! A job on a host. The ssh connection is the channel between the job's process and this machine,
//! like the socket between a minion's daemon and its jobs.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use link::unix::{Local, LocalRequest};
use link::{Error, Limits};
use modules::served::files::Files;
use smol::future::FutureExt;
use smol::io::AsyncReadExt;
use smol::process::{Child, ChildStderr, Command};
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value, channel, jid, log};
use wire::{Event, Id, Job, Request};

use crate::answers::Answers;
use crate::askpass::Answerer;
use crate::before;
use crate::build::{Build, Machine};
use crate::fault::Fault;
use crate::on_host::{ENDED, IDS};
use crate::output::{Output, reason};
use crate::place::{Placing, Probe, place};
use crate::program::Settings;
use crate::roster::Host;

/// The applet that runs a job on a host.
pub const APPLET: &str = "ssh-job";
/// The maximum number of bytes of a host's messages that are kept.
const MESSAGES_MAX: u64 = 64 << 10;
/// The time for the ssh program to end after the job has returned.
const END_MAX: Duration = Duration::from_secs(5);
/// The maximum size of the configuration of a job in bytes.
const CONFIGURATION_MAX: usize = 128 << 10;
/// The maximum time to remove the program from a host.
const WIPE_MAX: Duration = Duration::from_secs(120);
/// The time between two attempts to reach a host whose connection was lost.
const AGAIN: Duration = Duration::from_secs(1);

/// The receiver of what happens to the job of one host.
pub trait Follower: Send + Sync {
    /// Is called before the job is given to the host, with all job ids under which it may have
    /// begun.
    ///
    /// # Errors
    /// When the job must not begin.
    fn begins(&self, _jids: &[String]) -> Result<(), String> {
        Ok(())
    }

    /// Receives an event of the job.
    fn event(&self, _event: Event) {}

    /// Receives the data of the return, before the host learns that it has arrived.
    ///
    /// # Errors
    /// When the return cannot be stored, so that the host must keep it.
    fn returned(&self, _data: &Map) -> Result<(), String> {
        Ok(())
    }
}

/// A follower that only waits for the return.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Follower for Nobody {}

/// The work of a job on a host.
#[derive(Clone, Debug)]
pub struct Work {
    /// The job.
    pub job: Job,
    /// The words of a command of the program on the host (`plan`, `undo`), which runs instead of the
    /// function of the job.
    pub command: Vec<String>,
}

impl From<Job> for Work {
    fn from(job: Job) -> Self {
        Self {
            job,
            command: Vec::new(),
        }
    }
}

/// The reason why a connection brought no return.
enum Broken {
    /// The job cannot run there.
    Failed(Fault),
    /// The connection was lost. The job may have begun.
    Lost(Fault),
    /// An earlier job was ended before it returned.
    Ended,
}

/// The machine that runs jobs on hosts.
#[derive(Clone)]
pub struct Caller {
    /// Its configuration.
    opts: Arc<Opts>,
    files: Arc<Files>,
    settings: Settings,
    placing: Placing,
    /// The running program.
    own: PathBuf,
    /// The folder with builds for other machines.
    builds: PathBuf,
    /// A name of this machine for partial files on hosts.
    pusher: String,
    known: Arc<Mutex<Known>>,
}

/// The builds and hosts that a caller has seen so far.
#[derive(Default)]
struct Known {
    /// The builds by machine, whose hashes take a while to compute.
    builds: HashMap<Machine, Build>,
    hosts: HashMap<Id, Placed>,
}

/// The program on a host, and the folder for its data.
#[derive(Clone, Debug)]
struct Placed {
    program: String,
    folder: String,
}

/// The ssh program with its end of a job's channel.
struct Connection {
    child: Child,
    socket: UnixStream,
    _answerer: Option<Answerer>,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

impl Caller {
    /// Creates a caller with a configuration. `own` is the running program.
    ///
    /// # Errors
    /// When the hash of this machine's id cannot be computed.
    pub fn new(
        opts: Opts,
        settings: Settings,
        placing: Placing,
        own: PathBuf,
    ) -> Result<Self, String> {
        let builds = opts.text("ssh_builds").unwrap_or("/usr/share/pinch/agents");
        let name = machine::hashes::of_bytes(opts.id().as_bytes(), "sha256");
        let name = name.map_err(|error| error.to_string())?;
        Ok(Self {
            files: Arc::new(Files::new(&opts)),
            builds: builds.into(),
            pusher: name.chars().take(8).collect(),
            opts: Arc::new(opts),
            settings,
            placing,
            own,
            known: Arc::default(),
        })
    }

    /// Runs a job on a host, and returns the data of its return. If the connection is lost, connects
    /// again for a while, and fetches the return. `earlier` are the ids under which an earlier call
    /// of this function has given the job to the host: if it has returned, nothing runs.
    ///
    /// # Errors
    /// When the host cannot be reached, cannot run the program, or the job ends without a return.
    pub async fn run(
        &self,
        host: &Host,
        work: impl Into<Work>,
        mut earlier: Vec<String>,
        follower: Arc<dyn Follower>,
    ) -> Result<Map, Fault> {
        let mut work = work.into();
        let (resumes, mut lost) = (!earlier.is_empty(), None);
        loop {
            let jids: Vec<String> = earlier.iter().chain([&work.job.jid]).cloned().collect();
            follower.begins(&jids).map_err(Fault::placing)?;
            let patience = host.timeout.unwrap_or(self.settings.timeout);
            match self.once(host, &work, &earlier, &follower).await {
                Ok(data) => return Ok(data),
                Err(Broken::Failed(fault)) if lost.is_none() => return Err(fault),
                Err(Broken::Ended) if resumes && lost.is_none() => earlier.clear(),
                Err(Broken::Ended) => {
                    let text = "the connection was lost, and the job was ended on the host before it returned (ssh_grace)";
                    return Err(Fault::placing(text.to_owned()).lost(text.to_owned()));
                }
                Err(Broken::Failed(fault) | Broken::Lost(fault)) => {
                    let since: &Instant = lost.get_or_insert_with(Instant::now);
                    if since.elapsed() >= patience {
                        let text = format!(
                            "the connection was lost while the job ran, and the host cannot be reached again: {}",
                            fault.text
                        );
                        return Err(fault.lost(text));
                    }
                    log::warning(format_args!(
                        "{}: the connection was lost, connecting again: {}",
                        host.id, fault.text
                    ));
                    earlier.push(std::mem::replace(&mut work.job.jid, jid::new()));
                    smol::Timer::after(AGAIN).await;
                }
            }
        }
    }

    /// Gives a job to a host over one connection.
    async fn once(
        &self,
        host: &Host,
        work: &Work,
        earlier: &[String],
        follower: &Arc<dyn Follower>,
    ) -> Result<Map, Broken> {
        let placed = self.placed(host).await.map_err(Broken::Failed)?;
        let line = format!("exec \"{}\" {APPLET} \"{}\"", placed.program, placed.folder);
        let failed = |error: &dyn std::fmt::Display| {
            Broken::Failed(Fault::placing(format!("cannot run the job: {error}")))
        };
        let configuration = self.configuration(host, work, earlier);
        if configuration.len() > CONFIGURATION_MAX {
            return Err(failed(&format!(
                "its configuration has more than {} KiB: see minion_opts and ssh_minion_opts",
                CONFIGURATION_MAX >> 10
            )));
        }
        let mut connection = self.started(host, &line).map_err(|error| failed(&error))?;
        // It fits into the buffer of the socket, so this does not wait for the host.
        let written = connection.socket.write_all(configuration.as_bytes());
        written.map_err(|error| failed(&error))?;
        self.conversed(host, work, connection, follower).await
    }

    /// Makes the host have the program, unless this run has done it already.
    async fn placed(&self, host: &Host) -> Result<Placed, Fault> {
        if let Some(placed) = self.known().hosts.get(&host.id) {
            return Ok(placed.clone());
        }
        if let Some(command) = &host.ssh_pre_hook {
            before::hook(command).await?;
        }
        let probe = Probe::ask(&self.settings, host, &self.placing.suffix).await?;
        let build = self.build(&probe.machine).await?;
        let is_there = probe.has(&build);
        if let Some(script) = &host.ssh_pre_flight
            && (!is_there || self.placing.always_pre_flight)
        {
            before::flight(&self.settings, host, script).await?;
        }
        let program = match is_there && !self.placing.refreshes {
            true => probe.path(&build),
            false => self.sent(host, &probe, &build).await?,
        };
        let placed = Placed {
            program,
            folder: probe.folder,
        };
        self.known().hosts.insert(host.id.clone(), placed.clone());
        Ok(placed)
    }

    /// Sends a build to a host. If another transfer has taken the partial file, begins with a new
    /// one.
    async fn sent(&self, host: &Host, probe: &Probe, build: &Build) -> Result<String, Fault> {
        let first = place(&self.settings, host, probe, (build, &self.pusher)).await;
        match first {
            Err(fault) if fault.is_taken() => {
                let own = format!("{}-{}", self.pusher, std::process::id());
                place(&self.settings, host, probe, (build, &own)).await
            }
            done => done,
        }
    }

    async fn build(&self, machine: &Machine) -> Result<Build, Fault> {
        if let Some(build) = self.known().builds.get(machine) {
            return Ok(build.clone());
        }
        let (asked, own, builds) = (machine.clone(), self.own.clone(), self.builds.clone());
        let read = smol::unblock(move || Build::for_machine(&asked, &own, &builds));
        let build = read.await?;
        let mut known = self.known();
        known.builds.insert(machine.clone(), build.clone());
        Ok(build)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the settings of connections.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the path of the program on a host. It is placed there if it is missing.
    ///
    /// # Errors
    /// When the host cannot be reached, or the program cannot be placed.
    pub async fn program(&self, host: &Host) -> Result<String, Fault> {
        Ok(self.placed(host).await?.program)
    }

    /// Removes the program and its data from a host.
    ///
    /// # Errors
    /// When the host cannot be reached, or something cannot be removed.
    pub async fn wipe(&self, host: &Host) -> Result<(), Fault> {
        let Some(placed) = self.known().hosts.remove(&host.id) else {
            return Ok(());
        };
        let line = format!(
            "cd \"{0}\" && rm -rf pinch-* {IDS} && cd / && rmdir \"{0}\"",
            placed.folder
        );
        let done = self.settings.run(host, &line, b"", WIPE_MAX).await;
        match done {
            Ok(done) if done.code == Some(0) => Ok(()),
            Ok(done) => Err(Fault::placing(format!(
                "cannot remove {}: {}",
                placed.folder,
                reason(&done)
            ))),
            Err(error) => Err(Fault::placing(format!(
                "cannot remove {}: {error}",
                placed.folder
            ))),
        }
    }

    /// Runs a shell command on a host, with the user's own shell.
    ///
    /// # Errors
    /// As [`Settings::run`].
    pub async fn raw(&self, host: &Host, line: &str, most: Duration) -> std::io::Result<Output> {
        let command = self.settings.raw_command(host, line)?;
        Settings::run_command(command, b"", most).await
    }

    /// Starts the ssh program with one end of a socket pair as its input and output.
    fn started(&self, host: &Host, line: &str) -> std::io::Result<Connection> {
        let (mut socket, its) = UnixStream::pair()?;
        let prepared = self.settings.command(host, line)?;
        let mut command = Command::from(prepared.command);
        let child = command
            .stdin(Stdio::from(OwnedFd::from(its.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(its)))
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        socket.write_all(&prepared.preamble)?;
        Ok(Connection {
            child,
            socket,
            _answerer: prepared.answerer,
        })
    }

    /// Returns the host's configuration as the line of JSON that its program reads first.
    fn configuration(&self, host: &Host, work: &Work, earlier: &[String]) -> String {
        let mut opts = Map::new();
        let shared = self.opts.get("ssh_minion_opts").and_then(Value::as_map);
        opts.update(shared.cloned().unwrap_or_default());
        opts.update(host.minion_opts.clone());
        opts.insert("id", host.id.as_str());
        let earlier = Value::list(earlier.iter().map(|jid| jid.as_str().into()));
        let mut line = Map::new()
            .with("jid", work.job.jid.as_str())
            .with("earlier", earlier)
            .with("opts", opts);
        if !work.command.is_empty() {
            line.insert("command", work.command.clone());
        }
        if let Some(grace) = self.settings.grace {
            line.insert("grace", grace.as_secs());
        }
        json::write(&line.into(), Layout::default()).replace('\n', " ") + "\n"
    }

    async fn conversed(
        &self,
        host: &Host,
        work: &Work,
        connection: Connection,
        follower: &Arc<dyn Follower>,
    ) -> Result<Map, Broken> {
        let Connection {
            mut child, socket, ..
        } = connection;
        let messages = smol::spawn(messages(child.stderr.take()));
        let returned = self.served(host, work, socket, follower).await;
        let late = async {
            smol::Timer::after(END_MAX).await;
            None
        };
        let ended = async { Some((messages.await, child.status().await)) };
        let ended = ended.or(late).await;
        // A host that still sends has not lost the connection. The ssh program ends with `child`.
        let is_late = ended.is_none();
        let (err, code) = match ended {
            Some((err, status)) => (err, status.ok().and_then(|status| status.code())),
            None => (String::new(), None),
        };
        for line in err.lines() {
            log::debug(format_args!("{}: {line}", host.id));
        }
        let is_lost = code.is_none() || self.settings.is_lost(code, &err);
        let said = match returned {
            Ok(Some(data)) => return Ok(data),
            Ok(None) if code == Some(ENDED) => return Err(Broken::Ended),
            Ok(None) => {
                let out = String::new();
                reason(&Output { code, out, err })
            }
            Err(error) => error.to_string(),
        };
        let fault = Fault::placing(format!("the job ended without a return: {said}"));
        // Without a code, a signal has ended the ssh program.
        match is_lost && !is_late {
            true => Err(Broken::Lost(fault)),
            false => Err(Broken::Failed(fault)),
        }
    }

    /// Gives the host its job, and answers it until it closes its end.
    async fn served(
        &self,
        host: &Host,
        work: &Work,
        socket: UnixStream,
        follower: &Arc<dyn Follower>,
    ) -> Result<Option<Map>, Error> {
        let answers = Answers {
            opts: self.opts.clone(),
            files: self.files.clone(),
            id: host.id.clone(),
        };
        let mut local = Local::of_job(socket, Limits::default())?;
        if work.command.is_empty() {
            local.give(work.job.clone()).await?;
        }
        let mut returned = None;
        // No deadline: the ssh program closes the socket when the link is lost.
        loop {
            let said = match local.next().await {
                Ok(Some(said)) => said,
                Ok(None) => return Ok(returned),
                Err(_) if returned.is_some() => return Ok(returned),
                Err(error) => return Err(error),
            };
            match said {
                LocalRequest::Event(event) => follower.event(event),
                LocalRequest::Request(Request::Fire(fire)) => {
                    follower.event(Event {
                        sequence: 0,
                        tag: fire.tag,
                        stamp: jid::stamp(),
                        data: fire.data,
                    });
                    local.done(true).await?;
                }
                LocalRequest::Request(Request::Return(answer)) => {
                    let (follower, data) = (follower.clone(), answer.data.clone());
                    let stored = smol::unblock(move || follower.returned(&data)).await;
                    returned = Some(answer.data);
                    // A host that does not learn of it keeps the return.
                    channel::if_open(match stored {
                        Ok(()) => local.done(Value::Null).await,
                        Err(text) => local.fail("failed", text).await,
                    });
                }
                LocalRequest::Request(request) => answers.give(request, &mut local).await?,
            }
        }
    }
}

/// Reads the messages of the ssh program and of the host to their end, and keeps their beginning.
async fn messages(stderr: Option<ChildStderr>) -> String {
    let mut kept = Vec::new();
    if let Some(mut stderr) = stderr {
        let read = (&mut stderr)
            .take(MESSAGES_MAX)
            .read_to_end(&mut kept)
            .await;
        channel::or_closed(read);
        // The rest is read, too: the host must not wait for it.
        channel::or_closed(smol::io::copy(stderr, smol::io::sink()).await);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
