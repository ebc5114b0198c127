//! [`Daemon`]: connects, does what the master asks, and connects again after every loss.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_signal::{Signal, Signals};
use link::unix::{Local, LocalListener, LocalRequest};
use link::wait::{pause, within};
use link::{Handle, Limits, Notify, Pulse, Question, Session};
use rustix::process::Pid;
use smol::Task;
use smol::future::{FutureExt, pending};
use smol::stream::StreamExt;
use state::opts::Opts;
use state::record;
use value::{Map, Value, jid, log};
use wire::{BOUND_GRAINS, Event, Grains, Job, Refresh, Request, Return, Way};

use crate::beacon_loop::Watch;
use crate::error::Error;
use crate::jobs::Jobs;
use crate::local_socket;
use crate::reactor::Reactor;
use crate::scheduled_jobs::{OF_CONFIG, Planned, own_job};
use crate::uplink::Upstream;

/// The maximum number of jobs at a time where `process_count_max` is not configured. Further jobs
/// are refused.
const JOBS_MAX: usize = 100;

/// The options that SIGHUP changes in a running daemon, in addition to those of its plan
/// ([`OF_CONFIG`]).
const READ_AGAIN: [&str; 2] = ["beacons", "reactor"];

/// The settings that a daemon is opened with.
#[derive(Debug)]
pub struct Settings {
    /// The configuration.
    pub opts: Opts,
    /// The folder that the configuration is read from.
    pub dir: PathBuf,
    /// The options of the command line and the environment, which override the configuration.
    pub overrides: Map,
    /// The version of the program, for `manage.versions`.
    pub program: String,
    /// The command line that starts the process of a job. The process gets its socket as stdin.
    pub job: Vec<OsString>,
    /// A function that reads the configuration of a folder again. Its error is a sentence.
    pub reload: fn(&Path, Map) -> Result<Opts, String>,
    /// A function that is called once, and how long after the start it is called. By then the
    /// daemon is expected to be idle.
    pub at_rest: (Duration, fn()),
    /// The connection to the service manager, which is notified when the daemon is ready, reads its
    /// configuration again, or ends.
    pub notify: Notify,
}

/// A minion's daemon.
#[derive(Debug)]
pub struct Daemon(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    settings: Settings,
    upstreams: Vec<Upstream>,
    jobs: Jobs,
    planned: Planned,
    watching: Watch,
    reactor: Reactor,
    /// True once the startup states have been started.
    has_begun: AtomicBool,
}

/// The receiver of a job's return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnTo {
    /// The master that asked for the job, through its spool.
    Master(usize),
    /// Every master, because no master asked for the job.
    Masters,
    /// The master's cache: the return has the minion's grains.
    Grains,
    /// The daemon itself, which uses parts of it: the return has the minion's pillar.
    Pillar,
    /// The reaction that the job belongs to.
    Reactor,
    /// No receiver.
    Nobody,
}

impl Daemon {
    /// Opens the daemon's files on disk.
    ///
    /// # Errors
    /// When another daemon has them open, or they cannot be used.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        let upstreams = Upstream::all(&settings.opts)?;
        let planned = Planned::new(&settings.opts);
        let watching = Watch::new(&settings.opts);
        let reactor = Reactor::new(&settings.opts);
        let jobs = Jobs::open(&settings.opts.cachedir());
        Ok(Self(Arc::new(Shared {
            settings,
            upstreams,
            jobs,
            planned,
            watching,
            reactor,
            has_begun: AtomicBool::new(false),
        })))
    }

    /// Runs until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// When the configuration or the keys cannot be used. A master that does not answer is no
    /// error: the daemon waits for it.
    pub fn run(self) -> Result<(), Error> {
        let shared = self.0;
        let session =
            |upstream: &Upstream| upstream.session(shared.opts(), &shared.settings.program);
        let sessions: Vec<Session> = shared
            .upstreams
            .iter()
            .map(session)
            .collect::<Result<_, _>>()?;
        smol::block_on(async {
            let signals = signals()?;
            let socket = shared.socket()?;
            shared.begin_reactor().await;
            let commands = async {
                loop {
                    // No deadline: a command may connect at any time.
                    let local = socket.next().await?;
                    smol::spawn(shared.clone().attend(local)).detach();
                }
            };
            if sessions.is_empty() {
                log::warning("not connecting to a master (master_type: disable)");
                shared.begin();
            }
            for (at, session) in sessions.into_iter().enumerate() {
                let shared = shared.clone();
                smol::spawn(async move { shared.serve(at, session).await }).detach();
            }
            let plan = async {
                shared.keep_to_plan().await;
                Ok(())
            };
            let beacons = async {
                shared.watch().await;
                Ok(())
            };
            // Notify only now, when the signal handlers are installed: an earlier signal would kill
            // the daemon.
            shared.settings.notify.ready();
            let (after, rest) = shared.settings.at_rest;
            smol::spawn(async move {
                pause(after).await;
                rest();
            })
            .detach();
            let ended = commands
                .or(plan)
                .or(beacons)
                .or(shared.beat())
                .or(shared.obey_signals(signals))
                .await;
            shared.settings.notify.stopping();
            for upstream in &shared.upstreams {
                upstream.drain().await;
            }
            ended
        })
    }
}

/// Installs the handlers of the signals that a daemon obeys.
fn signals() -> Result<Signals, Error> {
    let signals = Signals::new([Signal::Term, Signal::Int, Signal::Hup]);
    signals.map_err(|source| Error::Io {
        path: "signals".into(),
        source,
    })
}

impl Shared {
    /// Listens on the socket at which commands of this machine find the daemon.
    fn socket(&self) -> Result<LocalListener, Error> {
        let path = local_socket::socket_path(&self.settings.opts);
        Ok(LocalListener::bind(
            &path,
            Way::ClientToMinion,
            Limits::default(),
        )?)
    }

    /// Notifies the service manager regularly that the daemon runs its tasks, if it has a watchdog.
    /// Without a watchdog nothing wakes an idle daemon.
    async fn beat(&self) -> Result<(), Error> {
        let notify = &self.settings.notify;
        if notify.watchdog().is_none() {
            return pending().await;
        }
        match Pulse::default().beat(notify).await {}
    }

    /// Waits for a signal that ends the daemon. SIGHUP makes the daemon read its configuration
    /// again.
    async fn obey_signals(self: &Arc<Self>, mut signals: Signals) -> Result<(), Error> {
        // No deadline: a signal may come at any time.
        while let Some(signal) = signals.next().await {
            match signal {
                Ok(Signal::Hup) => {
                    self.settings.notify.reloading();
                    if let Some(read) = self.reload() {
                        self.tell_changed(&read);
                    }
                    self.settings.notify.ready();
                }
                _ => break,
            }
        }
        log::info(format_args!("The minion is stopping because of a signal"));
        Ok(())
    }

    pub(crate) fn upstreams(&self) -> &[Upstream] {
        &self.upstreams
    }

    /// Returns the connection to the master that asked for the job, or to any connected master when
    /// no master asked for it.
    fn master(&self, purpose: ReturnTo) -> Option<Handle> {
        match purpose {
            ReturnTo::Master(at) => self.upstreams.get(at)?.handle(),
            _ => self.upstreams.iter().find_map(Upstream::handle),
        }
    }

    pub(crate) fn planned(&self) -> &Planned {
        &self.planned
    }

    pub(crate) fn watching(&self) -> &Watch {
        &self.watching
    }

    pub(crate) fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    pub(crate) fn opts(&self) -> &Opts {
        &self.settings.opts
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Sends a master that has accepted this minion what it needs: the grains and the mine, and
    /// after the first connection the minion's start events.
    pub(crate) async fn greet(self: &Arc<Self>, upstream: &Upstream, is_first: bool) {
        self.begin();
        self.fill_mine();
        if is_first {
            let id = self.settings.opts.id();
            let said = format!("Minion {id} started at {}", jid::asctime());
            for tag in [format!("salt/minion/{id}/start"), "minion_start".to_owned()] {
                let data = Map::new()
                    .with("pretag", Value::Null)
                    .with("data", said.as_str());
                upstream.keep(event(&tag, data)).await;
            }
        }
    }

    /// Begins to collect the grains and the pillar, and applies the startup states the first time.
    /// Called when a master is connected, or when there will be no master.
    fn begin(self: &Arc<Self>) {
        let jobs = [self.refresh_grains(), self.refresh_pillar()];
        jobs.into_iter().flatten().for_each(Task::detach);
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.apply_startup_states(&self.settings.opts);
        }
    }

    /// Stores an event on disk for every master. Returns true when all of them are stored.
    pub(crate) async fn keep(&self, event: Event) -> bool {
        let mut is_kept = true;
        for upstream in &self.upstreams {
            is_kept &= upstream.keep(event.clone()).await;
        }
        is_kept
    }

    /// Collects the grains again. The returned task ends when this daemon and its masters have them.
    fn refresh_grains(self: &Arc<Self>) -> Option<Task<()>> {
        let job = own_job("grains.items", Vec::new(), Map::new());
        let started = self.begin_job(job, ReturnTo::Grains);
        let failed = |error| log::error(format_args!("cannot collect the grains: {error}"));
        started.map_err(failed).ok()
    }

    /// Requests the pillar again; the daemon uses its schedule and its mine functions. The returned
    /// task ends when the daemon has them.
    fn refresh_pillar(self: &Arc<Self>) -> Option<Task<()>> {
        let job = own_job("pillar.raw", Vec::new(), Map::new());
        let started = self.begin_job(job, ReturnTo::Pillar);
        let failed = |error| log::error(format_args!("cannot request the pillar: {error}"));
        started.map_err(failed).ok()
    }

    /// Reads again what the request names, and waits until that is finished, for at most the time
    /// that the request allows.
    async fn refreshed(self: &Arc<Self>, asked: &Refresh) {
        let Some(task) = self.refresh(&asked.what) else {
            return;
        };
        let Some(wait) = asked.wait_s.and_then(link::wait::seconds) else {
            return task.detach();
        };
        // Dropping the task would cancel it.
        let mut task = Box::pin(task);
        if within(wait, task.as_mut()).await.is_none() {
            smol::spawn(task).detach();
            log::warning(format_args!(
                "reloading the {} of this minion takes longer than {} s, continuing in the background",
                asked.what,
                wait.as_secs()
            ));
        }
    }

    /// Reads again what `what` names. Returns a task if that needs a job.
    fn refresh(self: &Arc<Self>, what: &str) -> Option<Task<()>> {
        match what {
            "grains" => return self.refresh_grains(),
            "pillar" => return self.refresh_pillar(),
            "schedule" | "mine" | "beacons" => {
                self.reload();
            }
            "orphans" => {
                let shared = self.clone();
                smol::spawn(async move { shared.adopt().await }).detach();
            }
            _ => {}
        }
        None
    }

    /// Reads the configuration again. If it cannot be read, the error is logged and the old
    /// configuration remains in force.
    fn reload(self: &Arc<Self>) -> Option<Opts> {
        let Settings { dir, overrides, .. } = &self.settings;
        match (self.settings.reload)(dir, overrides.clone()) {
            Ok(opts) => {
                self.planned.has_config(&opts.map);
                self.watching.has_config(&opts.map);
                self.follow_rules(&opts);
                Some(opts)
            }
            Err(error) => {
                log::error(format_args!("cannot reload the configuration: {error}"));
                None
            }
        }
    }

    /// Logs the options that have changed in the configuration but that the daemon reads at its
    /// start only.
    fn tell_changed(&self, read: &Opts) {
        let mut changed = self.opts().changed(read);
        let is_obeyed = |name: &str| OF_CONFIG.contains(&name) || READ_AGAIN.contains(&name);
        changed.retain(|name| !is_obeyed(name));
        if !changed.is_empty() {
            log::warning(format_args!(
                "these options have changed: {}. New jobs use them; restart the minion to apply them to the minion itself",
                changed.join(", ")
            ));
        }
    }

    /// Answers a request of the master.
    pub(crate) async fn answer(self: &Arc<Self>, at: usize, question: Question) {
        let answered = match question.request.clone() {
            Request::Job(job) => match self.take(at, job) {
                Ok(()) => question.done(Value::Null).await,
                Err((reason, text)) => question.fail(reason, text).await,
            },
            Request::Ping(_) => question.done(true).await,
            Request::Refresh(asked) => {
                self.refreshed(&asked).await;
                question.done(true).await
            }
            // The job has ended and its return is still in the spool: the master must
            // not conclude that the job is lost.
            Request::FindJob(asked) if self.is_returning(at, &asked.jid) => {
                question.done(true).await
            }
            request => match self.own_answer(&request) {
                Some(answer) => question.done(answer).await,
                None => {
                    question
                        .fail("refused", "a minion does not answer requests of this kind")
                        .await
                }
            },
        };
        if let Err(error) = answered {
            log::debug(format_args!("{error}"));
        }
    }

    fn is_returning(&self, at: usize, jid: &str) -> bool {
        let upstream = self.upstreams.get(at);
        upstream.is_some_and(|upstream| upstream.has_return(jid))
    }

    /// Accepts a job from the master. The error is a reason code and a sentence.
    fn take(self: &Arc<Self>, at: usize, job: Job) -> Result<(), (&'static str, String)> {
        if !jid::is_jid(&job.jid) {
            return Err(("invalid", format!("invalid job id {:?}", job.jid)));
        }
        let most = self.settings.opts.int("process_count_max");
        let most = most.and_then(|most| usize::try_from(most).ok());
        let most = most.filter(|most| *most > 0).unwrap_or(JOBS_MAX);
        if self.jobs.len() >= most {
            let text = format!("{most} jobs are already running (process_count_max)");
            return Err(("busy", text));
        }
        let jid = job.jid.clone();
        if !self.jobs.is_new(&jid) {
            return Ok(());
        }
        let started = self.start(self.with_returners(job), ReturnTo::Master(at));
        started.map_err(|error| {
            self.jobs.is_not_begun(&jid);
            ("failed", format!("cannot start the job: {error}"))
        })
    }

    /// Returns a master's job with the returners of this minion's configuration (`return`) added to
    /// its own.
    fn with_returners(&self, mut job: Job) -> Job {
        if let Some(own) = self
            .settings
            .opts
            .text("return")
            .filter(|own| !own.is_empty())
        {
            let both = [std::mem::take(&mut job.ret), own.to_owned()];
            let both = both.into_iter().filter(|names| !names.is_empty());
            job.ret = both.collect::<Vec<_>>().join(",");
        }
        job
    }

    /// Returns the grains that the minion's key is bound to: as stated by the master that sent the
    /// job, or else by the first master that binds the key to any grains.
    pub(crate) fn bound_grains(&self, purpose: ReturnTo) -> Map {
        if let ReturnTo::Master(at) = purpose {
            let upstream = self.upstreams.get(at);
            return upstream.map(Upstream::bound_grains).unwrap_or_default();
        }
        let mut bound = self.upstreams.iter().map(Upstream::bound_grains);
        bound.find(|bound| !bound.is_empty()).unwrap_or_default()
    }

    /// Starts the process of a job, and the task that speaks with it.
    pub(crate) fn start(self: &Arc<Self>, job: Job, purpose: ReturnTo) -> std::io::Result<()> {
        self.begin_job(job, purpose).map(Task::detach)
    }

    /// Like [`Self::start`], but returns the task, which ends when the job has ended and its return
    /// was handled.
    fn begin_job(self: &Arc<Self>, mut job: Job, purpose: ReturnTo) -> std::io::Result<Task<()>> {
        job.options.insert(BOUND_GRAINS, self.bound_grains(purpose));
        let (ours, its) = UnixStream::pair()?;
        let mut words = self.settings.job.iter();
        let program = words.next().ok_or(std::io::ErrorKind::NotFound)?;
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
        let shared = self.clone();
        let accompanied = async move { shared.accompany(job, child, ours, purpose).await };
        Ok(smol::spawn(accompanied))
    }

    /// Speaks with a job's process until it ends. If the process ends without a return, the daemon
    /// creates a return that says so.
    async fn accompany(
        self: &Arc<Self>,
        job: Job,
        mut child: smol::process::Child,
        socket: UnixStream,
        purpose: ReturnTo,
    ) {
        let spoken = self.converse(&job, socket, purpose).await;
        // No deadline: a job takes as long as it takes; it can be killed.
        let status = child.status().await;
        self.jobs.ended(&job.jid);
        if let Ok(true) = spoken {
            return;
        }
        let why = match (spoken, status) {
            (Err(error), _) => error.to_string(),
            (_, Ok(status)) => how_it_ended(status),
            (_, Err(error)) => error.to_string(),
        };
        log::error(format_args!(
            "job {} ended without a return: {why}",
            job.jid
        ));
        // The run continues after the reboot, and returns then.
        let path = record::folder(self.opts()).join(&job.jid);
        let recorded = smol::unblock(move || record::read(&path)).await;
        if recorded.is_ok_and(|run| run.waits_for_boot()) {
            return;
        }
        if matches!(
            purpose,
            ReturnTo::Master(_) | ReturnTo::Masters | ReturnTo::Reactor
        ) {
            self.returned(without_return(&job, &why), purpose).await;
        }
    }

    /// Serves a job's process on its socket. Returns true if the job's return arrived.
    async fn converse(
        self: &Arc<Self>,
        job: &Job,
        socket: UnixStream,
        purpose: ReturnTo,
    ) -> Result<bool, link::Error> {
        let mut local = Local::of_job(socket, Limits::default())?;
        local.give(job.clone()).await?;
        let mut has_returned = false;
        // No deadline: the kernel closes the socket when the process is gone.
        while let Some(said) = local.next().await? {
            match said {
                LocalRequest::Request(Request::Return(answer)) => {
                    has_returned = true;
                    self.returned(answer, purpose).await;
                    local.done(Value::Null).await?;
                }
                other => self.obey(other, &mut local, purpose).await?,
            }
        }
        Ok(has_returned)
    }

    /// Serves a command of this machine until it disconnects.
    async fn attend(self: Arc<Self>, mut local: Local) {
        loop {
            // No deadline: the kernel closes the socket when the process is gone.
            let obeyed = match local.next().await {
                Ok(Some(said)) => self.obey(said, &mut local, ReturnTo::Nobody).await,
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = obeyed {
                return log::debug(format_args!("{error}"));
            }
        }
    }

    /// Handles a message from a process of this machine.
    async fn obey(
        self: &Arc<Self>,
        said: LocalRequest,
        local: &mut Local,
        purpose: ReturnTo,
    ) -> Result<(), link::Error> {
        let request = match said {
            LocalRequest::Event(event) => {
                self.keep(event).await;
                return Ok(());
            }
            LocalRequest::Request(request) => request,
        };
        match request {
            Request::Fire(fire) => match self.fire(fire).await {
                Ok(()) => local.done(true).await,
                Err(reason) => local.fail("failed", &reason).await,
            },
            Request::Return(answer) => {
                self.returned(answer, ReturnTo::Masters).await;
                local.done(true).await
            }
            Request::Ping(_) => local.done(self.master(ReturnTo::Nobody).is_some()).await,
            Request::Refresh(asked) => {
                self.refreshed(&asked).await;
                local.done(true).await
            }
            request => match self.own_answer(&request) {
                Some(answer) => local.done(answer).await,
                None => self.forward(request, local, purpose).await,
            },
        }
    }

    /// Stores an event for the masters. An event that they would refuse is refused here, so that
    /// the caller sees the reason.
    async fn fire(&self, fire: wire::Fire) -> Result<(), String> {
        if !self.upstreams.is_empty()
            && let Ok(id) = self.settings.opts.id().parse()
        {
            wire::tag::may_send(&id, &fire.tag).map_err(|refused| refused.to_string())?;
        }
        let is_kept = self.keep(event(&fire.tag, fire.data)).await;
        is_kept
            .then_some(())
            .ok_or_else(|| "cannot store the event".to_owned())
    }

    /// Answers a request that the daemon can answer itself, no matter who sent it. Returns `None`
    /// for other requests.
    fn own_answer(self: &Arc<Self>, request: &Request) -> Option<Value> {
        Some(match request {
            Request::FindJob(asked) => self.jobs.find(&asked.jid).map_or(Value::Null, Value::Map),
            Request::Running(_) => self.jobs.shown(),
            Request::SignalJob(asked) => {
                let sent = self.jobs.signal(&asked.jid, asked.signal);
                sent.unwrap_or_default().into()
            }
            Request::Beacons(asked) => self.watching.manage(asked).into(),
            Request::Schedule(asked) => self.manage_schedule(asked).into(),
            _ => return None,
        })
    }

    async fn returned(self: &Arc<Self>, answer: Return, purpose: ReturnTo) {
        match purpose {
            ReturnTo::Master(at) => {
                if let Some(upstream) = self.upstreams.get(at) {
                    upstream.keep_return(answer).await;
                }
            }
            ReturnTo::Masters => {
                for upstream in &self.upstreams {
                    upstream.keep_return(answer.clone()).await;
                }
            }
            ReturnTo::Grains => {
                if let Some(grains) = answer.data.get("return").and_then(Value::as_map) {
                    self.planned.has_grains(grains);
                    self.tell_grains(grains.clone()).await;
                }
            }
            ReturnTo::Pillar => {
                if let Some(pillar) = answer.data.get("return").and_then(Value::as_map) {
                    self.planned.has_pillar(pillar);
                    self.watching.has_pillar(pillar);
                }
            }
            ReturnTo::Reactor => self.reactor.has_return(&answer.jid, answer.data),
            ReturnTo::Nobody => {}
        }
    }

    async fn tell_grains(&self, grains: Map) {
        self.tell_all(&Grains { grains }.into()).await;
    }

    /// Sends a request to every connected master, because each of them stores its own copy.
    async fn tell_all(&self, request: &Request) {
        for master in self.upstreams.iter().filter_map(Upstream::handle) {
            let told = async { master.ask(request.clone()).await?.done().await };
            if let Err(error) = told.await {
                log::warning(format_args!(
                    "cannot forward the request to a master: {error}"
                ));
            }
        }
    }

    /// Forwards a job's request to the master, and passes the answer to the job part by part as it
    /// arrives.
    async fn forward(
        &self,
        request: Request,
        to: &mut Local,
        purpose: ReturnTo,
    ) -> Result<(), link::Error> {
        if let (Request::MinePut(_) | Request::MineDelete(_), 2..) =
            (&request, self.upstreams.len())
        {
            self.tell_all(&request).await;
            return to.done(true).await;
        }
        let Some(master) = self.master(purpose) else {
            if matches!(request, Request::Push(_)) {
                local_socket::hand_on(to, None).await?;
            }
            let text = "this minion is not connected to a master";
            return to.fail("unreachable", text).await;
        };
        local_socket::forward(&master, request, to).await
    }
}

fn event(tag: &str, data: Map) -> Event {
    Event {
        sequence: 0,
        tag: tag.to_owned(),
        stamp: jid::stamp(),
        data,
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("its process was ended by signal {signal}"),
        (_, Some(code)) => format!("its process ended with exit code {code}"),
        _ => "its process ended".to_owned(),
    }
}

/// Creates the return of a job whose process ended without one.
fn without_return(job: &Job, why: &str) -> Return {
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
