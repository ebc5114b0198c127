//! [`Daemon`]: connects, does what the master asks, and comes back after every loss.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_signal::{Signal, Signals};
use link::unix::{Local, LocalListener, Said};
use link::{Handle, Incoming, Limits, Link, Question, Session, Status};
use rustix::process::Pid;
use smol::Timer;
use smol::future::FutureExt;
use smol::stream::StreamExt;
use state::opts::Opts;
use value::{Map, Value, jid, log};
use wire::{Event, Grains, Job, Request, Return, Way};

use crate::deliver::{Bell, Safe, deliver, forget};
use crate::error::Error;
use crate::jobs::Jobs;
use crate::local;
use crate::orphans;
use crate::planned::{Planned, own_job};
use crate::settings;
use crate::spool::{self, Entry, Spool};
use crate::watch::Watch;

/// More jobs at a time are refused (`process_count_max`), unless the configuration says how many.
const JOBS_MAX: usize = 100;

/// How long it takes to say goodbye.
const GOODBYE: Duration = Duration::from_millis(100);

/// What the daemon is made of.
#[derive(Debug)]
pub struct Settings {
    /// The configuration.
    pub opts: Opts,
    /// The version, for `manage.versions`.
    pub program: String,
    /// The words that start the process of a job: it has its socket as its stdin.
    pub job: Vec<OsString>,
    /// Reads the configuration again; a sentence where it cannot be.
    pub reload: fn(&Opts) -> Result<Opts, String>,
}

/// A minion's daemon.
#[derive(Debug)]
pub struct Daemon(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    settings: Settings,
    spool: Arc<Spool>,
    filled: Bell,
    jobs: Jobs,
    planned: Planned,
    watching: Watch,
    /// The way to the master, while there is one.
    master: Mutex<Option<Handle>>,
}

/// Where a job's return goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Through the spool to the master.
    Master,
    /// It is the minion's grains, for the master's cache.
    Grains,
    /// It is the minion's pillar, of which some is the daemon's own.
    Pillar,
    /// Nowhere.
    Nobody,
}

impl Daemon {
    /// Opens what the daemon keeps on the disk.
    ///
    /// # Errors
    /// When another daemon has it, or it cannot be used.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        let folder = settings.opts.cachedir().join("spool");
        let spool = Arc::new(Spool::open(&folder, spool::Limits::default())?);
        let planned = Planned::new(&settings.opts);
        let watching = Watch::new(&settings.opts);
        Ok(Self(Arc::new(Shared {
            settings,
            spool,
            filled: Bell::new(),
            jobs: Jobs::default(),
            planned,
            watching,
            master: Mutex::default(),
        })))
    }

    /// Runs until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// When the configuration or the keys cannot be used. A master that does not answer is no error: it is waited for.
    pub fn run(self) -> Result<(), Error> {
        let shared = self.0;
        let options = settings::session(
            &shared.settings.opts,
            shared.spool.epoch(),
            &shared.settings.program,
        )?;
        let session = Session::new(options);
        smol::block_on(async {
            let socket = shared.socket()?;
            let commands = async {
                loop {
                    let local = socket.next().await?;
                    smol::spawn(shared.clone().attend(local)).detach();
                }
            };
            let ever = async {
                serve(&shared, session).await;
                Ok(())
            };
            let plan = async {
                shared.keep_to_plan().await;
                Ok(())
            };
            let beacons = async {
                shared.watch().await;
                Ok(())
            };
            let ended = ever
                .or(commands)
                .or(plan)
                .or(beacons)
                .or(shared.signals())
                .await;
            shared.drain().await;
            ended
        })
    }
}

/// Connects for as long as the daemon runs.
async fn serve(shared: &Arc<Shared>, mut session: Session) {
    let mut is_first = true;
    loop {
        let (link, welcome) = session.connect(&mut tell).await;
        log::info(format_args!("Connected to the master {}", link.who()));
        let durable = if welcome.epoch == shared.spool.epoch() {
            welcome.durable
        } else {
            0
        };
        forget(&shared.spool, durable);
        // What it is greeted with may be there before the link is read.
        shared.set_master(Some(link.handle()));
        shared.adopt().await;
        shared.greet(std::mem::take(&mut is_first)).await;
        let error = shared.speak(link, durable).await;
        shared.set_master(None);
        log::warning(format_args!("The connection is lost: {error}"));
    }
}

/// What a session does, for the log.
fn tell(status: Status<'_>) {
    match status {
        Status::Trying(master, address) => {
            log::debug(format_args!("Trying the master {master} at {address}"));
        }
        Status::Remembered(who) => log::warning(format_args!(
            "The master's key is seen for the first time and trusted from now on: {who}"
        )),
        Status::Pending(who, reason) => log::warning(format_args!(
            "The master {who} has this minion's key and has not accepted it yet: {reason}"
        )),
        Status::Failed(error) => log::error(format_args!("{error}")),
        Status::Waiting(wait) => log::info(format_args!("The next try is in {wait:.1?}")),
    }
}

impl Shared {
    /// Where commands of this machine find the daemon.
    fn socket(&self) -> Result<LocalListener, Error> {
        let path = local::socket_path(&self.settings.opts);
        if let Some(folder) = path.parent() {
            let mut builder = DirBuilder::new();
            let made = builder.recursive(true).mode(0o755).create(folder);
            made.map_err(|source| Error::Io {
                path: folder.to_owned(),
                source,
            })?;
        }
        Ok(LocalListener::bind(
            &path,
            Way::ClientToMinion,
            Limits::default(),
        )?)
    }

    /// Waits for the signals that end the daemon; SIGHUP has it read its configuration again.
    async fn signals(&self) -> Result<(), Error> {
        let signals = Signals::new([Signal::Term, Signal::Int, Signal::Hup]);
        let mut signals = signals.map_err(|source| Error::Io {
            path: "signals".into(),
            source,
        })?;
        while let Some(signal) = signals.next().await {
            match signal {
                Ok(Signal::Hup) => self.reload(),
                _ => break,
            }
        }
        log::info(format_args!("The minion is asked to end"));
        Ok(())
    }

    pub(crate) fn planned(&self) -> &Planned {
        &self.planned
    }

    pub(crate) fn watching(&self) -> &Watch {
        &self.watching
    }

    pub(crate) fn opts(&self) -> &Opts {
        &self.settings.opts
    }

    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    fn set_master(&self, handle: Option<Handle>) {
        *self.master.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    }

    fn master(&self) -> Option<Handle> {
        let master = self.master.lock().unwrap_or_else(PoisonError::into_inner);
        master.clone()
    }

    /// Speaks with a master until the connection is lost; why it was.
    async fn speak(self: &Arc<Self>, mut link: Link, durable: u64) -> link::Error {
        let handle = link.handle();
        let safe = Arc::new(Safe::new(durable));
        let own = (self.clone(), handle.clone(), safe.clone());
        let sender = smol::spawn(async move {
            let (shared, handle, safe) = own;
            if let Err(error) = deliver(&shared.spool, &shared.filled, &handle, &safe).await {
                log::debug(format_args!("{error}"));
                handle.close("not delivered");
            }
        });
        let error = loop {
            match link.next().await {
                Ok(Incoming::Ack(sequence)) => {
                    safe.is(sequence);
                    forget(&self.spool, sequence);
                }
                Ok(Incoming::Question(question)) => {
                    let shared = self.clone();
                    smol::spawn(async move { shared.answer(*question).await }).detach();
                }
                Ok(Incoming::Bye(bye)) => {
                    log::warning(format_args!("The master says goodbye: {}", bye.reason));
                }
                Ok(Incoming::Event(_)) => {}
                Err(error) => break error,
            }
        };
        sender.cancel().await;
        error
    }

    /// Tells a master that has let this minion in what it needs to know: the grains, and at the first time that the minion is there.
    async fn greet(self: &Arc<Self>, is_first: bool) {
        self.refresh_grains();
        self.refresh_pillar();
        self.fill_mine();
        if is_first {
            self.apply_startup_states(&self.settings.opts);
            let id = self.settings.opts.id();
            let said = format!("Minion {id} started at {}", jid::asctime());
            for tag in [format!("salt/minion/{id}/start"), "minion_start".to_owned()] {
                let data = Map::new()
                    .with("pretag", Value::Null)
                    .with("data", said.as_str());
                self.keep(event(&tag, data)).await;
            }
        }
    }

    fn refresh_grains(self: &Arc<Self>) {
        let job = own_job("grains.items", Vec::new(), Map::new());
        if let Err(error) = self.start(job, For::Grains) {
            log::error(format_args!("The grains are not collected: {error}"));
        }
    }

    /// What changes the plan: the pillar's schedule and mine.
    fn refresh_pillar(self: &Arc<Self>) {
        let job = own_job("pillar.raw", Vec::new(), Map::new());
        if let Err(error) = self.start(job, For::Pillar) {
            log::error(format_args!("The pillar is not asked for: {error}"));
        }
    }

    /// Reads again what somebody has changed.
    fn refresh(self: &Arc<Self>, what: &str) {
        match what {
            "grains" => self.refresh_grains(),
            "pillar" => self.refresh_pillar(),
            "schedule" | "mine" | "beacons" => self.reload(),
            "orphans" => {
                let shared = self.clone();
                smol::spawn(async move { shared.adopt().await }).detach();
            }
            _ => {}
        }
    }

    /// Reads the configuration again; what is wrong with it is told, and the old one goes on.
    fn reload(&self) {
        match (self.settings.reload)(&self.settings.opts) {
            Ok(opts) => {
                self.planned.has_config(&opts.map);
                self.watching.has_config(&opts.map);
            }
            Err(error) => log::error(format_args!("The configuration is not read again: {error}")),
        }
    }

    /// Answers what the master asks.
    async fn answer(self: &Arc<Self>, question: Question) {
        let answered = match question.request.clone() {
            Request::Job(job) => match self.take(job) {
                Ok(()) => question.done(Value::Null).await,
                Err((reason, text)) => question.fail(reason, text).await,
            },
            Request::Ping(_) => question.done(true).await,
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

    /// Takes a job from the master; a word and a sentence when it is not taken.
    fn take(self: &Arc<Self>, job: Job) -> Result<(), (&'static str, String)> {
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
        self.start(job, For::Master).map_err(|error| {
            self.jobs.is_not_begun(&jid);
            ("failed", format!("the job was not started: {error}"))
        })
    }

    /// Starts the process of a job, and the task that speaks with it.
    pub(crate) fn start(self: &Arc<Self>, job: Job, purpose: For) -> std::io::Result<()> {
        let (ours, its) = UnixStream::pair()?;
        let mut words = self.settings.job.iter();
        let program = words.next().ok_or(std::io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(words).arg(&job.jid).process_group(0);
        let child = smol::process::Command::from(command)
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null())
            .spawn()?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            self.jobs.began(job.clone(), process);
        }
        let shared = self.clone();
        smol::spawn(async move { shared.accompany(job, child, ours, purpose).await }).detach();
        Ok(())
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
        if purpose == For::Master {
            self.keep(without_return(&job, &why)).await;
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
        while let Some(said) = local.next().await? {
            match said {
                Said::Request(Request::Return(answer)) => {
                    has_returned = true;
                    self.returned(answer, purpose).await;
                    local.done(Value::Null).await?;
                }
                other => self.obey(other, &mut local).await?,
            }
        }
        Ok(has_returned)
    }

    /// Serves a command of this machine until it goes.
    async fn attend(self: Arc<Self>, mut local: Local) {
        loop {
            let obeyed = match local.next().await {
                Ok(Some(said)) => self.obey(said, &mut local).await,
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = obeyed {
                return log::debug(format_args!("{error}"));
            }
        }
    }

    /// Does what a process of this machine says.
    async fn obey(self: &Arc<Self>, said: Said, local: &mut Local) -> Result<(), link::Error> {
        let request = match said {
            Said::Event(event) => {
                self.keep(event).await;
                return Ok(());
            }
            Said::Request(request) => request,
        };
        match request {
            Request::Fire(fire) => match self.keep(event(&fire.tag, fire.data)).await {
                true => local.done(true).await,
                false => local.fail("failed", "the event is not kept").await,
            },
            Request::Return(answer) => {
                self.keep_return(answer).await;
                local.done(true).await
            }
            Request::Ping(_) => local.done(self.master().is_some()).await,
            request => match self.own_answer(&request) {
                Some(answer) => local.done(answer).await,
                None => self.forward(request, local).await,
            },
        }
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
            Request::Refresh(asked) => {
                self.refresh(&asked.what);
                true.into()
            }
            _ => return None,
        })
    }

    async fn returned(self: &Arc<Self>, answer: Return, purpose: For) {
        match purpose {
            For::Master => self.keep_return(answer).await,
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
            For::Nobody => {}
        }
    }

    async fn tell_grains(&self, grains: Map) {
        let Some(master) = self.master() else { return };
        let told = async { master.ask(Grains { grains }).await?.done().await };
        if let Err(error) = told.await {
            log::warning(format_args!("The master has not taken the grains: {error}"));
        }
    }

    /// Asks the master for a job, and gives it the answer in the parts in which it comes.
    async fn forward(&self, request: Request, to: &mut Local) -> Result<(), link::Error> {
        let Some(master) = self.master() else {
            if matches!(request, Request::Push(_)) {
                local::hand_on(to, None).await?;
            }
            let text = "this minion is not connected to a master";
            return to.fail("unreachable", text).await;
        };
        local::forward(&master, request, to).await
    }

    /// Puts an event or a return on the disk, from where it is sent; whether it is there.
    pub(crate) async fn keep(&self, entry: impl Into<Entry>) -> bool {
        let (spool, entry) = (self.spool.clone(), entry.into());
        match smol::unblock(move || spool.push(entry)).await {
            Ok(_) => {
                self.filled.ring();
                true
            }
            Err(error) => {
                log::error(format_args!("{error}"));
                false
            }
        }
    }

    /// The same for a return; where the disk takes nothing, the master gets it at once.
    async fn keep_return(&self, answer: Return) {
        let (spool, kept) = (self.spool.clone(), answer.clone());
        let Err(error) = smol::unblock(move || spool.push(kept)).await else {
            return self.filled.ring();
        };
        log::error(format_args!("{error}"));
        let Some(master) = self.master() else { return };
        let sent = async { master.ask(answer).await?.done().await };
        if let Err(error) = sent.await {
            log::error(format_args!("The return is lost: {error}"));
        }
    }

    /// Takes in what jobs have left that outlived their daemon.
    async fn adopt(self: &Arc<Self>) {
        let shared = self.clone();
        let adopt = move || orphans::take(&shared.settings.opts, &shared.spool);
        if smol::unblock(adopt).await {
            self.filled.ring();
        }
    }

    /// Says goodbye.
    async fn drain(&self) {
        if let Some(master) = self.master() {
            let _ = master.bye("the minion ends", None).await;
            master.close("the minion ends");
            // The packet that says so is on its way in a moment.
            Timer::after(GOODBYE).await;
        }
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
