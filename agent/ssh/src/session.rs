//! A job on a host. The ssh connection is the channel between the job's process and this machine,
//! like the socket between a minion's daemon and its jobs.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::unix::{Local, LocalRequest};
use link::{Error, Limits};
use modules::served::files::Files;
use smol::future::FutureExt;
use smol::io::AsyncReadExt;
use smol::process::{Child, Command};
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value};
use wire::{Event, Id, Job, Request};

use crate::answers::Answers;
use crate::place::{Build, Fault, Probe, placed, reason};
use crate::program::{CONNECTION_FAILED, Output, Settings};
use crate::roster::Host;

/// The applet that runs a job on a host.
pub const APPLET: &str = "ssh-job";
/// The maximum number of bytes of a host's messages that are kept.
const MESSAGES_MAX: u64 = 64 << 10;
/// The time for the ssh program to end after the job has returned.
const END_MAX: Duration = Duration::from_secs(10);

/// The callback that receives the events of a host's job.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// The machine that runs jobs on hosts.
#[derive(Clone)]
pub struct Caller {
    /// Its configuration.
    opts: Arc<Opts>,
    files: Arc<Files>,
    settings: Settings,
    /// The running program.
    own: PathBuf,
    /// The folder with builds for other machines.
    builds: PathBuf,
    /// A name of this machine for partial files on hosts.
    pusher: String,
    known: Arc<Mutex<Known>>,
}

/// What a caller has found out so far.
#[derive(Default)]
struct Known {
    /// The builds by machine, whose hashes take a while to compute.
    builds: HashMap<String, Build>,
    hosts: HashMap<Id, Placed>,
}

/// The program on a host, and the folder for its data.
#[derive(Clone, Debug)]
struct Placed {
    program: String,
    folder: String,
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
    pub fn new(opts: Opts, settings: Settings, own: PathBuf) -> Result<Self, String> {
        let builds = opts.text("ssh_builds").unwrap_or("/usr/share/pinch/agents");
        let name = machine::hashes::of_bytes(opts.id().as_bytes(), "sha256");
        let name = name.map_err(|error| error.to_string())?;
        Ok(Self {
            files: Arc::new(Files::new(&opts)),
            builds: builds.into(),
            pusher: name.chars().take(8).collect(),
            opts: Arc::new(opts),
            settings,
            own,
            known: Arc::default(),
        })
    }

    /// Runs a job on a host, and returns the data of its return.
    ///
    /// # Errors
    /// When the host cannot be reached, cannot run the program, or the job ends without a return.
    pub async fn run(&self, host: &Host, job: Job, on_event: OnEvent) -> Result<Map, Fault> {
        let Placed { program, folder } = self.placed(host).await?;
        let line = format!("exec \"{program}\" {APPLET} \"{folder}\"");
        let failed = |error: &dyn std::fmt::Display| Fault {
            code: 11,
            text: format!("cannot run the job: {error}"),
        };
        let (child, mut socket) = self.started(host, &line).map_err(|error| failed(&error))?;
        socket
            .write_all(self.configuration(host, &job).as_bytes())
            .map_err(|error| failed(&error))?;
        self.conversed(host, job, (child, socket), on_event).await
    }

    /// Makes the host have the program, unless this run has done it already.
    async fn placed(&self, host: &Host) -> Result<Placed, Fault> {
        if let Some(placed) = self.known().hosts.get(&host.id) {
            return Ok(placed.clone());
        }
        let probe = Probe::ask(&self.settings, host).await?;
        let build = self.build(&probe.machine).await?;
        let program = placed(&self.settings, host, &probe, (&build, &self.pusher)).await?;
        let placed = Placed {
            program,
            folder: probe.folder,
        };
        self.known().hosts.insert(host.id.clone(), placed.clone());
        Ok(placed)
    }

    async fn build(&self, machine: &str) -> Result<Build, Fault> {
        if let Some(build) = self.known().builds.get(machine) {
            return Ok(build.clone());
        }
        let (name, own, builds) = (machine.to_owned(), self.own.clone(), self.builds.clone());
        let read = smol::unblock(move || Build::for_machine(&name, &own, &builds));
        let build = read.await?;
        let mut known = self.known();
        known.builds.insert(machine.to_owned(), build.clone());
        Ok(build)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a shell command on a host, with the user's own shell.
    ///
    /// # Errors
    /// Those of [`Settings::run`].
    pub async fn raw(&self, host: &Host, line: &str, most: Duration) -> std::io::Result<Output> {
        let command = self.settings.raw_command(host, line);
        Settings::run_command(command, b"", most).await
    }

    /// Starts the ssh program with one end of a socket pair as its input and output.
    fn started(&self, host: &Host, line: &str) -> std::io::Result<(Child, UnixStream)> {
        let (ours, its) = UnixStream::pair()?;
        let mut command = Command::from(self.settings.command(host, line));
        let child = command
            .stdin(Stdio::from(OwnedFd::from(its.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(its)))
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok((child, ours))
    }

    /// Returns the host's configuration as the line of JSON that its program reads first.
    fn configuration(&self, host: &Host, job: &Job) -> String {
        let mut opts = Map::new();
        let shared = self.opts.get("ssh_minion_opts").and_then(Value::as_map);
        opts.update(shared.cloned().unwrap_or_default());
        opts.update(host.minion_opts.clone());
        opts.insert("id", host.id.as_str());
        let line = Map::new().with("jid", job.jid.as_str()).with("opts", opts);
        json::write(&line.into(), Layout::default()).replace('\n', " ") + "\n"
    }

    async fn conversed(
        &self,
        host: &Host,
        job: Job,
        (mut child, socket): (Child, UnixStream),
        on_event: OnEvent,
    ) -> Result<Map, Fault> {
        let stderr = child.stderr.take();
        let messages = async {
            let mut kept = Vec::new();
            if let Some(stderr) = stderr {
                let read = stderr.take(MESSAGES_MAX).read_to_end(&mut kept).await;
                value::channel::or_closed(read);
            }
            String::from_utf8_lossy(&kept).into_owned()
        };
        let (returned, err) =
            smol::future::zip(self.served(host, job, socket, on_event), messages).await;
        let late = async {
            smol::Timer::after(END_MAX).await;
            Err(std::io::ErrorKind::TimedOut.into())
        };
        let status = child.status().or(late).await;
        let code = status.ok().and_then(|status| status.code());
        for line in err.lines() {
            value::log::debug(format_args!("{}: {line}", host.id));
        }
        match returned {
            Ok(Some(data)) => Ok(data),
            Ok(None) => {
                let output = Output {
                    code,
                    out: String::new(),
                    err,
                };
                let code = if code == Some(CONNECTION_FAILED) {
                    14
                } else {
                    11
                };
                Err(Fault {
                    code,
                    text: format!("the job ended without a return: {}", reason(&output)),
                })
            }
            Err(error) => Err(Fault {
                code: 11,
                text: format!("the job ended without a return: {error}"),
            }),
        }
    }

    /// Gives the host its job, and answers it until it closes its end.
    async fn served(
        &self,
        host: &Host,
        job: Job,
        socket: UnixStream,
        on_event: OnEvent,
    ) -> Result<Option<Map>, Error> {
        let answers = Answers {
            opts: self.opts.clone(),
            files: self.files.clone(),
            id: host.id.clone(),
        };
        let mut local = Local::of_job(socket, Limits::default())?;
        local.give(job).await?;
        let mut returned = None;
        // No deadline: the ssh program closes the socket when the link is lost.
        while let Some(said) = local.next().await? {
            match said {
                LocalRequest::Event(event) => on_event(event),
                LocalRequest::Request(Request::Return(answer)) => {
                    returned = Some(answer.data);
                    local.done(Value::Null).await?;
                }
                LocalRequest::Request(request) => answers.give(request, &mut local).await?,
            }
        }
        Ok(returned)
    }
}
