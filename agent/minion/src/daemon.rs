//! [`Daemon`]: builds the parts of the minion's daemon, starts their tasks, and runs until a signal.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_signal::{Signal, Signals};
use link::wait::{pause, unblock};
use link::{Notify, Pulse};
use smol::Task;
use smol::channel::Receiver;
use smol::future::{FutureExt, pending};
use smol::stream::StreamExt;
use state::opts::Opts;
use value::{Map, log};

use crate::beacon_loop::BeaconLoop;
use crate::blackout::Blackout;
use crate::error::Error;
use crate::jobs::Jobs;
use crate::launcher::{JobProcess, Launcher};
use crate::local_socket::LocalRequests;
use crate::master_session::MasterSession;
use crate::own_requests::OwnRequests;
use crate::reactor::Reactor;
use crate::refresh::{Refresher, Reloader};
use crate::scheduled_jobs::ScheduledJobs;
use crate::startup::Startup;
use crate::uplink::{Session, Upstreams};

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

/// A minion's daemon: its parts, in the order in which they are built. A part knows only parts that
/// are built before it.
#[derive(Debug)]
pub struct Daemon {
    opts: Opts,
    program: String,
    at_rest: (Duration, fn()),
    notify: Notify,
    upstreams: Upstreams,
    scheduled: Arc<ScheduledJobs>,
    beacons: Arc<BeaconLoop>,
    reactor: Arc<Reactor>,
    reloader: Arc<Reloader>,
    startup: Arc<Startup>,
    masters: MasterSession,
    local: Arc<LocalRequests>,
    started: Receiver<JobProcess>,
}

impl Daemon {
    /// Opens the daemon's files on disk, and builds its parts.
    ///
    /// # Errors
    /// When another daemon has them open, or they cannot be used.
    pub fn open(settings: Settings) -> Result<Self, Error> {
        let Settings { opts, job, .. } = settings;
        let jobs = Arc::new(Jobs::open(&opts.cachedir()));
        let upstreams = Upstreams::open(&opts, &jobs)?;
        let (launcher, started) = Launcher::new(job, jobs.clone(), upstreams.clone());
        let scheduled = ScheduledJobs::new(&opts, jobs.clone(), launcher.clone());
        let scheduled = Arc::new(scheduled);
        let beacons = BeaconLoop::new(&opts, jobs.clone(), upstreams.clone());
        let beacons = Arc::new(beacons);
        let reactor = Arc::new(Reactor::new(&opts, launcher.clone(), upstreams.clone()));
        let reloader = Arc::new(Reloader {
            opts: opts.clone(),
            dir: settings.dir,
            overrides: settings.overrides,
            read: settings.reload,
            scheduled: scheduled.clone(),
            beacons: beacons.clone(),
            reactor: reactor.clone(),
        });
        let blackout = Arc::new(Blackout::default());
        let refresher = Refresher {
            reloader: reloader.clone(),
            launcher: launcher.clone(),
            upstreams: upstreams.clone(),
            blackout: blackout.clone(),
        };
        let startup = Startup::new(&opts, scheduled.clone(), refresher.clone());
        let startup = Arc::new(startup);
        let own = OwnRequests {
            jobs,
            scheduled: scheduled.clone(),
            beacons: beacons.clone(),
            refresher,
        };
        let masters = MasterSession {
            opts: opts.clone(),
            upstreams: upstreams.clone(),
            launcher,
            startup: startup.clone(),
            blackout,
            own: own.clone(),
        };
        let local = Arc::new(LocalRequests {
            opts: opts.clone(),
            upstreams: upstreams.clone(),
            own,
        });
        Ok(Self {
            opts,
            program: settings.program,
            at_rest: settings.at_rest,
            notify: settings.notify,
            upstreams,
            scheduled,
            beacons,
            reactor,
            reloader,
            startup,
            masters,
            local,
            started,
        })
    }

    /// Runs until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// When the configuration or the keys cannot be used. A master that does not answer is no
    /// error: the daemon waits for it.
    pub fn run(self) -> Result<(), Error> {
        let sessions = self.sessions()?;
        smol::block_on(async {
            let signals = signals()?;
            let socket = self.local.listen()?;
            let accompany = self.local.clone().accompany_all(self.started.clone());
            smol::spawn(accompany).detach();
            self.reactor.begin().await;
            let engines = crate::engines::start(&self.opts);
            let serving = self.connect(sessions);
            // Notify only now, when the signal handlers are installed: an earlier signal would kill
            // the daemon.
            self.notify.ready();
            let (after, rest) = self.at_rest;
            smol::spawn(async move {
                pause(after).await;
                rest();
            })
            .detach();
            let commands = async { Err(self.local.attend_all(socket).await.into()) };
            let scheduled = async { match self.scheduled.run().await {} };
            let beacons = async { match self.beacons.run().await {} };
            let ended = commands
                .or(scheduled)
                .or(beacons)
                .or(self.beat())
                .or(self.obey_signals(signals))
                .await;
            self.notify.stopping();
            unblock(move || engines.stop()).await;
            // A session would connect again as soon as its connection is closed.
            drop(serving);
            for upstream in self.upstreams.iter() {
                upstream.drain().await;
            }
            ended
        })
    }

    /// Creates a session for each upstream.
    fn sessions(&self) -> Result<Vec<Session>, Error> {
        let upstreams = self.upstreams.iter();
        upstreams
            .map(|upstream| upstream.session(&self.opts, &self.program))
            .collect()
    }

    /// Begins to serve the masters, for as long as the returned tasks are not dropped.
    fn connect(&self, sessions: Vec<Session>) -> Vec<Task<()>> {
        if sessions.is_empty() {
            log::warning("not connecting to a master (master_type: disable)");
            self.startup.begin();
        }
        let served = self.upstreams.iter().zip(sessions);
        served
            .map(|(upstream, session)| {
                smol::spawn(self.masters.clone().serve(upstream.clone(), session))
            })
            .collect()
    }

    /// Notifies the service manager regularly that the daemon runs its tasks, if it has a watchdog.
    /// Without a watchdog nothing wakes an idle daemon.
    async fn beat(&self) -> Result<(), Error> {
        if self.notify.watchdog().is_none() {
            return pending().await;
        }
        match Pulse::default().beat(&self.notify).await {}
    }

    /// Waits for a signal that ends the daemon. SIGHUP makes the daemon read its configuration
    /// again.
    async fn obey_signals(&self, mut signals: Signals) -> Result<(), Error> {
        // No deadline: a signal may come at any time.
        while let Some(signal) = signals.next().await {
            match signal {
                Ok(Signal::Hup) => {
                    self.notify.reloading();
                    self.reloader.reload_and_tell();
                    self.notify.ready();
                }
                _ => break,
            }
        }
        log::info(format_args!("The minion is stopping because of a signal"));
        Ok(())
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
