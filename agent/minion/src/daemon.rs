//! [`Daemon`]: connects, does what the master asks, and comes back after every loss.

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
use link::unix::{Local, LocalListener, Said};
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

use crate::error::Error;
use crate::jobs::Jobs;
use crate::local;
use crate::planned::{OF_CONFIG, Planned, own_job};
use crate::reactor::Reactor;
use crate::upstream::Upstream;
use crate::watch::Watch;

/// More jobs at a time are refused (`process_count_max`), unless the configuration says how many.
const JOBS_MAX: usize = 100;

/// What SIGHUP changes in a daemon besides its plan.
const READ_AGAIN: [&str; 2] = ["beacons", "reactor"];

/// What the daemon is made of.
#[derive(Debug)]
pub struct Settings {
    /// The configuration.
    pub opts: Opts,
    /// The folder that it is from.
    pub dir: PathBuf,
    /// What the command line and the environment put in its place.
    pub overrides: Map,
    /// The version, for `manage.versions`.
    pub program: String,
    /// The words that start the process of a job: it has its socket as its stdin.
    pub job: Vec<OsString>,
    /// Reads the configuration of a folder again; a sentence where it cannot be.
    pub reload: fn(&Path, Map) -> Result<Opts, String>,
    /// What is done once the daemon has come to rest, and after how long that is.
    pub at_rest: (Duration, fn()),
    /// Who is told when the daemon is ready, reads its configuration again, or ends.
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
    /// Whether the states of the start were applied.
    has_begun: AtomicBool,
}

/// Where a job's return goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Through its spool to the master that asked for it.
    Master(usize),
    /// To every master: nobody asked for it.
    Masters,
    /// It is the minion's grains, for the master's cache.
    Grains,
    /// It is the minion's pillar, of which some is the daemon's own.
    Pillar,
    /// To the reaction that it belongs to.
    Reactor,
    /// Nowhere.
    Nobody,
}

impl Daemon {
    /// Opens what the daemon keeps on the disk.
    ///
    /// # Errors
    /// When another daemon has it, or it cannot be used.
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
    /// When the configuration or the keys cannot be used. A master that does not answer is no error: it is waited for.
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
                    // No deadline: commands come when they come.
                    let local = socket.next().await?;
                    smol::spawn(shared.clone().attend(local)).detach();
                }
            };
            if sessions.is_empty() {
                log::warning("There is no master (master_type: disable)");
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
            // From here on signals are obeyed: one that came before its handler would end the daemon.
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

/// The signals that a daemon obeys, from now on.
fn signals() -> Result<Signals, Error> {
    let signals = Signals::new([Signal::Term, Signal::Int, Signal::Hup]);
    signals.map_err(|source| Error::Io {
        path: "signals".into(),
        source,
    })
}

impl Shared {
    /// Where commands of this machine find the daemon.
    fn socket(&self) -> Result<LocalListener, Error> {
        let path = local::socket_path(&self.settings.opts);
        Ok(LocalListener::bind(
            &path,
            Way::ClientToMinion,
            Limits::default(),
        )?)
    }

    /// Tells the service manager that the daemon runs its tasks, where it wants to hear that. Nothing wakes an idle daemon otherwise.
    async fn beat(&self) -> Result<(), Error> {
        let notify = &self.settings.notify;
        if notify.watchdog().is_none() {
            return pending().await;
        }
        match Pulse::default().beat(notify).await {}
    }

    /// Waits for the signals that end the daemon; SIGHUP has it read its configuration again.
    async fn obey_signals(self: &Arc<Self>, mut signals: Signals) -> Result<(), Error> {
        // No deadline: signals come when they come.
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
        log::info(format_args!("The minion is asked to end"));
        Ok(())
    }

    pub(crate) fn upstreams(&self) -> &[Upstream] {
        &self.upstreams
    }

    /// The way for what has to do with a purpose: to who asked, or to any master that is there.
    fn master(&self, purpose: For) -> Option<Handle> {
        match purpose {
            For::Master(at) => self.upstreams.get(at)?.handle(),
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

    /// Tells a master that has let this minion in what it needs to know: the grains, and at the first time that the minion is there.
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

    /// What is done when there is a master, or there will be none; at the first time the states of the start are applied.
    fn begin(self: &Arc<Self>) {
        let jobs = [self.refresh_grains(), self.refresh_pillar()];
        jobs.into_iter().flatten().for_each(Task::detach);
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.apply_startup_states(&self.settings.opts);
        }
    }

    /// Puts an event on the disk for every master; whether it is there.
    pub(crate) async fn keep(&self, event: Event) -> bool {
        let mut is_kept = true;
        for upstream in &self.upstreams {
            is_kept &= upstream.keep(event.clone()).await;
        }
        is_kept
    }

    /// Collects the grains anew; the task ends when this daemon and its masters have them.
    fn refresh_grains(self: &Arc<Self>) -> Option<Task<()>> {
        let job = own_job("grains.items", Vec::new(), Map::new());
        let started = self.begin_job(job, For::Grains);
        let failed = |error| log::error(format_args!("The grains are not collected: {error}"));
        started.map_err(failed).ok()
    }

    /// Asks for the pillar anew, of which the schedule and the mine are the daemon's; the task ends when it has them.
    fn refresh_pillar(self: &Arc<Self>) -> Option<Task<()>> {
        let job = own_job("pillar.raw", Vec::new(), Map::new());
        let started = self.begin_job(job, For::Pillar);
        let failed = |error| log::error(format_args!("The pillar is not asked for: {error}"));
        started.map_err(failed).ok()
    }

    /// Reads again what somebody has changed, and waits for the end of that for as long as is asked.
    async fn refreshed(self: &Arc<Self>, asked: &Refresh) {
        let Some(task) = self.refresh(&asked.what) else {
            return;
        };
        let Some(wait) = asked.wait_s.and_then(link::wait::seconds) else {
            return task.detach();
        };
        // A task that is dropped would not go on.
        let mut task = Box::pin(task);
        if within(wait, task.as_mut()).await.is_none() {
            smol::spawn(task).detach();
            log::warning(format_args!(
                "The {} of this minion are not read again within {} s",
                asked.what,
                wait.as_secs()
            ));
        }
    }

    /// Reads again what somebody has changed; a task where that takes a job.
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

    /// Reads the configuration again; what is wrong with it is told, and the old one goes on.
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
                log::error(format_args!("The configuration is not read again: {error}"));
                None
            }
        }
    }

    /// What stands in the configuration now and the daemon does not obey, for it was read at its start.
    fn tell_changed(&self, read: &Opts) {
        let mut changed = self.opts().changed(read);
        let is_obeyed = |name: &str| OF_CONFIG.contains(&name) || READ_AGAIN.contains(&name);
        changed.retain(|name| !is_obeyed(name));
        if !changed.is_empty() {
            log::warning(format_args!(
                "These options have changed: {}. Jobs obey them from now on, the minion itself when it is started again",
                changed.join(", ")
            ));
        }
    }

    /// Answers what the master asks.
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
            // What has not reached the master yet is no silence.
            Request::FindJob(asked) if self.is_returning(at, &asked.jid) => {
                question.done(true).await
            }
            request => match self.own_answer(&request) {
                Some(answer) => question.done(answer).await,
                None => {
                    question
                        .fail("refused", "a minion does not answer that")
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

    /// Takes a job from the master; a word and a sentence when it is not taken.
    fn take(self: &Arc<Self>, at: usize, job: Job) -> Result<(), (&'static str, String)> {
        if !jid::is_jid(&job.jid) {
            return Err(("invalid", format!("{:?} is no job id", job.jid)));
        }
        let most = self.settings.opts.int("process_count_max");
        let most = most.and_then(|most| usize::try_from(most).ok());
        let most = most.filter(|most| *most > 0).unwrap_or(JOBS_MAX);
        if self.jobs.len() >= most {
            let text = format!("{most} jobs run already (process_count_max)");
            return Err(("busy", text));
        }
        let jid = job.jid.clone();
        if !self.jobs.is_new(&jid) {
            return Ok(());
        }
        let started = self.start(self.with_returners(job), For::Master(at));
        started.map_err(|error| {
            self.jobs.is_not_begun(&jid);
            ("failed", format!("the job was not started: {error}"))
        })
    }

    /// A master's job with the returners of this minion's configuration beside its own.
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

    /// The grains that the key is bound to: by the master that a job is from, otherwise by the first one that binds it to any.
    pub(crate) fn bound_grains(&self, purpose: For) -> Map {
        if let For::Master(at) = purpose {
            let upstream = self.upstreams.get(at);
            return upstream.map(Upstream::bound_grains).unwrap_or_default();
        }
        let mut bound = self.upstreams.iter().map(Upstream::bound_grains);
        bound.find(|bound| !bound.is_empty()).unwrap_or_default()
    }

    /// Starts the process of a job, and the task that speaks with it.
    pub(crate) fn start(self: &Arc<Self>, job: Job, purpose: For) -> std::io::Result<()> {
        self.begin_job(job, purpose).map(Task::detach)
    }

    /// The same; the task ends with the job, when its return was dealt with.
    fn begin_job(self: &Arc<Self>, mut job: Job, purpose: For) -> std::io::Result<Task<()>> {
        job.options.insert(BOUND_GRAINS, self.bound_grains(purpose));
        let (ours, its) = UnixStream::pair()?;
        let mut words = self.settings.job.iter();
        let program = words.next().ok_or(std::io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        // The path may be a link with the name of an applet, which would not take the word of a job.
        command.arg0("pinch");
        command.args(words).arg(&job.jid).process_group(0);
        let child = smol::process::Command::from(command)
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(modules::process::nowhere())
            .spawn()?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            self.jobs.began(job.clone(), process);
        }
        let shared = self.clone();
        let accompanied = async move { shared.accompany(job, child, ours, purpose).await };
        Ok(smol::spawn(accompanied))
    }

    /// Speaks with a job's process until it ends. A process that ends without a return gets one that says so.
    async fn accompany(
        self: &Arc<Self>,
        job: Job,
        mut child: smol::process::Child,
        socket: UnixStream,
        purpose: For,
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
        log::error(format_args!("The job {} has no return: {why}", job.jid));
        // Its run goes on after the boot, and returns then.
        let path = record::folder(self.opts()).join(&job.jid);
        let recorded = smol::unblock(move || record::read(&path)).await;
        if recorded.is_ok_and(|run| run.waits_for_boot()) {
            return;
        }
        if matches!(purpose, For::Master(_) | For::Masters | For::Reactor) {
            self.returned(without_return(&job, &why), purpose).await;
        }
    }

    /// Whether the job's return came.
    async fn converse(
        self: &Arc<Self>,
        job: &Job,
        socket: UnixStream,
        purpose: For,
    ) -> Result<bool, link::Error> {
        let mut local = Local::of_job(socket, Limits::default())?;
        local.give(job.clone()).await?;
        let mut has_returned = false;
        // No deadline: the kernel says when a process is gone.
        while let Some(said) = local.next().await? {
            match said {
                Said::Request(Request::Return(answer)) => {
                    has_returned = true;
                    self.returned(answer, purpose).await;
                    local.done(Value::Null).await?;
                }
                other => self.obey(other, &mut local, purpose).await?,
            }
        }
        Ok(has_returned)
    }

    /// Serves a command of this machine until it goes.
    async fn attend(self: Arc<Self>, mut local: Local) {
        loop {
            // No deadline: the kernel says when a process is gone.
            let obeyed = match local.next().await {
                Ok(Some(said)) => self.obey(said, &mut local, For::Nobody).await,
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = obeyed {
                return log::debug(format_args!("{error}"));
            }
        }
    }

    /// Does what a process of this machine says.
    async fn obey(
        self: &Arc<Self>,
        said: Said,
        local: &mut Local,
        purpose: For,
    ) -> Result<(), link::Error> {
        let request = match said {
            Said::Event(event) => {
                self.keep(event).await;
                return Ok(());
            }
            Said::Request(request) => request,
        };
        match request {
            Request::Fire(fire) => match self.fire(fire).await {
                Ok(()) => local.done(true).await,
                Err(reason) => local.fail("failed", &reason).await,
            },
            Request::Return(answer) => {
                self.returned(answer, For::Masters).await;
                local.done(true).await
            }
            Request::Ping(_) => local.done(self.master(For::Nobody).is_some()).await,
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

    /// Keeps an event for the masters. One that they would refuse is refused here, where somebody can read why.
    async fn fire(&self, fire: wire::Fire) -> Result<(), String> {
        if !self.upstreams.is_empty()
            && let Ok(id) = self.settings.opts.id().parse()
        {
            wire::tag::may_send(&id, &fire.tag).map_err(|refused| refused.to_string())?;
        }
        let is_kept = self.keep(event(&fire.tag, fire.data)).await;
        is_kept
            .then_some(())
            .ok_or_else(|| "the event is not kept".to_owned())
    }

    /// What the daemon knows or does by itself, whoever asks.
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

    async fn returned(self: &Arc<Self>, answer: Return, purpose: For) {
        match purpose {
            For::Master(at) => {
                if let Some(upstream) = self.upstreams.get(at) {
                    upstream.keep_return(answer).await;
                }
            }
            For::Masters => {
                for upstream in &self.upstreams {
                    upstream.keep_return(answer.clone()).await;
                }
            }
            For::Grains => {
                if let Some(grains) = answer.data.get("return").and_then(Value::as_map) {
                    self.planned.has_grains(grains);
                    self.tell_grains(grains.clone()).await;
                }
            }
            For::Pillar => {
                if let Some(pillar) = answer.data.get("return").and_then(Value::as_map) {
                    self.planned.has_pillar(pillar);
                    self.watching.has_pillar(pillar);
                }
            }
            For::Reactor => self.reactor.has_return(&answer.jid, answer.data),
            For::Nobody => {}
        }
    }

    async fn tell_grains(&self, grains: Map) {
        self.tell_all(&Grains { grains }.into()).await;
    }

    /// Tells the masters that are there something that each of them keeps.
    async fn tell_all(&self, request: &Request) {
        for master in self.upstreams.iter().filter_map(Upstream::handle) {
            let told = async { master.ask(request.clone()).await?.done().await };
            if let Err(error) = told.await {
                log::warning(format_args!("A master has not taken it: {error}"));
            }
        }
    }

    /// Asks the master for a job, and gives it the answer in the parts in which it comes.
    async fn forward(
        &self,
        request: Request,
        to: &mut Local,
        purpose: For,
    ) -> Result<(), link::Error> {
        if let (Request::MinePut(_) | Request::MineDelete(_), 2..) =
            (&request, self.upstreams.len())
        {
            self.tell_all(&request).await;
            return to.done(true).await;
        }
        let Some(master) = self.master(purpose) else {
            if matches!(request, Request::Push(_)) {
                local::hand_on(to, None).await?;
            }
            let text = "this minion is not connected to a master";
            return to.fail("unreachable", text).await;
        };
        local::forward(&master, request, to).await
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

/// What a job returns whose process did not.
fn without_return(job: &Job, why: &str) -> Return {
    let data = Map::new()
        .with("jid", job.jid.as_str())
        .with("fun", job.fun.clone())
        .with("fun_args", job.arg.clone())
        .with("user", job.user.as_str())
        .with("return", format!("ERROR: the job has no return: {why}"))
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
