//! [`Launcher`]: starts the processes of jobs.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::Pid;
use smol::channel::{Receiver, Sender, bounded, unbounded};
use smol::process::Child;
use value::{Map, channel, jid};
use wire::{BOUND_GRAINS, Job, Return};

use crate::jobs::Jobs;
use crate::uplink::{Handle, Upstream, Upstreams};

/// The receiver of a job's return.
#[derive(Clone, Debug)]
pub(crate) enum ReturnTo {
    /// The master that asked for the job, through its spool.
    Master(Arc<Upstream>),
    /// Every master, because no master asked for the job.
    Masters,
    /// The part of the daemon that started the job. It gets the data of the return.
    Caller(Sender<Map>),
    /// No receiver.
    Nobody,
}

impl ReturnTo {
    /// Passes on the return of a job.
    pub(crate) async fn take(&self, answer: Return, upstreams: &Upstreams) {
        match self {
            Self::Master(upstream) => upstreams.in_place_of(upstream).keep_return(answer).await,
            Self::Masters => upstreams.keep_return(answer).await,
            Self::Caller(caller) => channel::if_open(caller.try_send(answer.data)),
            Self::Nobody => {}
        }
    }

    /// Returns the connection to the master that asked for the job, or to any connected master when
    /// no master asked for it.
    pub(crate) fn master(&self, upstreams: &Upstreams) -> Option<Handle> {
        match self {
            Self::Master(upstream) => upstreams.in_place_of(upstream).handle(),
            _ => upstreams.handle(),
        }
    }

    /// Returns the grains that the minion's key is bound to: as stated by the master that sent the
    /// job, or else by the first master that binds the key to any grains.
    fn bound_grains(&self, upstreams: &Upstreams) -> Map {
        match self {
            Self::Master(upstream) => upstream.bound_grains(),
            _ => upstreams.bound_grains(),
        }
    }
}

/// The process of a job that was started.
#[derive(Debug)]
pub(crate) struct JobProcess {
    pub(crate) job: Job,
    pub(crate) child: Child,
    /// The daemon's end of the socket whose other end is the stdin of the process.
    pub(crate) socket: UnixStream,
    pub(crate) return_to: ReturnTo,
    /// Is dropped when the process has ended and its return was handled. Nothing is sent.
    pub(crate) running: Sender<()>,
}

/// Waits for the end of a job.
#[derive(Debug)]
pub(crate) struct Ended(Receiver<()>);

impl Ended {
    /// Waits until the job has ended and its return was handled.
    pub(crate) async fn wait(self) {
        // No deadline: a job takes as long as it takes; it can be killed.
        channel::or_closed(self.0.recv().await);
    }
}

/// Starts the processes of jobs. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    /// The command line of a job's process, without the job's id.
    command: Arc<[OsString]>,
    jobs: Arc<Jobs>,
    upstreams: Upstreams,
    started: Sender<JobProcess>,
}

impl Launcher {
    /// Creates a launcher. Returns it with the receiver of the processes that it starts.
    pub(crate) fn new(
        command: Vec<OsString>,
        jobs: Arc<Jobs>,
        upstreams: Upstreams,
    ) -> (Self, Receiver<JobProcess>) {
        let (started, processes) = unbounded();
        let launcher = Self {
            command: command.into(),
            jobs,
            upstreams,
            started,
        };
        (launcher, processes)
    }

    /// Starts the process of a job.
    #[expect(
        clippy::disallowed_methods,
        reason = "the child is the process of a job; no module starts it"
    )]
    pub(crate) fn start(&self, mut job: Job, return_to: ReturnTo) -> io::Result<Ended> {
        let bound = return_to.bound_grains(&self.upstreams);
        job.options.insert(BOUND_GRAINS, bound);
        let (ours, its) = UnixStream::pair()?;
        let mut words = self.command.iter();
        let program = words.next().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        // The path may be a symbolic link named after an applet, and that applet would not accept
        // the argument that starts a job.
        command.arg0("pinch");
        command.args(words).arg(&job.jid).process_group(0);
        let child = smol::process::Command::from(command)
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(machine::process::nowhere())
            .spawn()?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            self.jobs.began(job.clone(), process);
        }
        let (running, ended) = bounded(1);
        let process = JobProcess {
            job,
            child,
            socket: ours,
            return_to,
            running,
        };
        let started = self.started.try_send(process);
        started.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(Ended(ended))
    }
}

/// Returns a sentence about the end of a job's process.
pub(crate) fn how_it_ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("its process was ended by signal {signal}"),
        (_, Some(code)) => format!("its process ended with exit code {code}"),
        _ => "its process ended".to_owned(),
    }
}

/// Creates the return of a job whose process ended without one.
pub(crate) fn without_return(job: &Job, why: &str) -> Return {
    let data = Map::new()
        .with("jid", job.jid.as_str())
        .with("fun", job.fun.clone())
        .with("fun_args", job.arg.clone())
        .with("user", job.user.as_str())
        .with(
            "return",
            format!("ERROR: the job ended without a return: {why}"),
        )
        .with("retcode", 1)
        .with("success", false)
        .with("out", "nested");
    Return {
        sequence: 0,
        jid: job.jid.clone(),
        stamp: jid::stamp(),
        data,
    }
}
