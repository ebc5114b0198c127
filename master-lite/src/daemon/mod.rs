//! [`Master`], the daemon `salt-master`: it builds the services in their order, and starts the
//! tasks that they serve.

pub(crate) mod connections;
mod error;
mod listen;
pub(crate) mod local_requests;
pub(crate) mod maintenance;
mod recall;
pub(crate) mod session;
mod signals;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use link::Notify;
use link::pki::Pki;
use modules::loader::engines::{Context, Engines};
use smol::future::FutureExt;
use state::opts::Opts;
use value::{Value, log};

use crate::access::Access;
use crate::admit::{Admission, Policy};
use crate::daemon::connections::Connections;
use crate::daemon::local_requests::LocalRequests;
use crate::daemon::maintenance::Maintenance;
use crate::daemon::recall::Connected;
use crate::daemon::session::Session;
use crate::daemon::signals::Reread;
use crate::data::Data;
use crate::event_return::EventReturn;
use crate::events::Events;
use crate::hook::Settings;
use crate::jobs::Jobs;
use crate::jobs::hosts::Hosts;
use crate::jobs::minions::Minions;
use crate::jobs::targets::Targets;
use crate::jobs::waiting::Waiting;
use crate::keys::{Keys, Rotation};
use crate::metrics::Metrics;
use crate::metrics::page::Measured;
use crate::reactor::Reactor;
use crate::refusals::{self, Refusals};
use crate::runners;
use crate::runs::{Runners, Runs};
use crate::store::{self, Store};
use crate::wheel::Wheel;

pub(crate) use error::Error;

/// The services of a master, in the order in which they are built. Each knows only services before
/// it.
pub(crate) struct Master {
    opts: Arc<Opts>,
    pub(crate) store: Store,
    events: Events,
    refusals: Arc<Refusals>,
    metrics: Arc<Metrics>,
    minions: Minions,
    jobs: Jobs,
    access: Access,
    data: Data,
    admission: Arc<Admission>,
    connections: Arc<Connections>,
    rotation: Rotation,
    reactor: Arc<Reactor>,
    event_return: EventReturn,
    pub(crate) runners: Runners,
}

/// Returns the number of minions that the page for Prometheus shows (`metrics_minions_max`).
fn minions_max(opts: &Opts) -> usize {
    let most = opts.int("metrics_minions_max");
    most.and_then(|most| usize::try_from(most).ok())
        .unwrap_or(1000)
}

/// Returns the folder of the master's store.
pub(crate) fn store_folder(opts: &Opts) -> PathBuf {
    opts.cachedir().join("store")
}

fn open_store(opts: &Opts, lock_wait: Duration) -> Result<Store, store::Error> {
    let limits = store::Limits {
        lock_wait,
        ..store::Limits::default()
    };
    Store::open(&store_folder(opts), limits)
}

impl Master {
    /// Opens the store and the keys, and builds the services. While another process holds the
    /// store, waits at most `lock_wait`.
    pub(crate) fn open(opts: Opts, pki: Pki, lock_wait: Duration) -> Result<Self, Error> {
        let opts = Arc::new(opts);
        let store = open_store(&opts, lock_wait)?;
        let events = Events::new(store.clone());
        let refusals = Arc::new(Refusals::every(refusals::EVERY));
        let metrics = Arc::new(Metrics::default());
        let minions = Minions::default();
        let keys = Keys::open(&opts.path("pki_dir"), store.clone(), minions.clone())?;
        let rotation = Rotation::open(pki, store.clone(), minions.clone())?;
        let wheel = Wheel {
            opts: opts.clone(),
            events: events.clone(),
            keys: keys.clone(),
            rotation: rotation.clone(),
        };
        let targets = Targets::new(&opts, store.clone());
        let jobs = Jobs {
            opts: opts.clone(),
            store: store.clone(),
            refusals: refusals.clone(),
            metrics: metrics.clone(),
            minions: minions.clone(),
            waiting: Waiting::default(),
            targets: targets.clone(),
            hosts: Hosts::new(&opts, &runners::REGISTRY, &events),
        };
        let access = Access {
            opts: opts.clone(),
            refusals: refusals.clone(),
            jobs: jobs.clone(),
        };
        let data = Data::new(&opts, &store, &events, &refusals, targets);
        let runs = Runs {
            opts: opts.clone(),
            registry: &runners::REGISTRY,
            store: store.clone(),
            events: events.clone(),
            wheel,
            jobs: jobs.clone(),
            data: data.clone(),
        };
        let policy = Policy::read(&opts).map_err(Error::option("autosign_policy"))?;
        let admission = Admission::new(&opts, policy, &events, &refusals, &metrics, &minions, keys);
        let reactor = Arc::new(Reactor::new(metrics.clone(), runs));
        let event_return = EventReturn {
            opts: opts.clone(),
            store: store.clone(),
            events: events.clone(),
            runners: reactor.runners(),
        };
        let connections = Connections::open(&store, &minions)?;
        Ok(Self {
            runners: reactor.runners(),
            event_return,
            reactor,
            admission: Arc::new(admission),
            connections: Arc::new(connections),
            rotation,
            data,
            access,
            jobs,
            minions,
            metrics,
            refusals,
            events,
            store,
            opts,
        })
    }

    fn session(&self) -> Arc<Session> {
        Arc::new(Session {
            store: self.store.clone(),
            refusals: self.refusals.clone(),
            metrics: self.metrics.clone(),
            connections: self.connections.clone(),
            rotation: self.rotation.clone(),
            jobs: self.jobs.clone(),
            access: self.access.clone(),
            data: self.data.clone(),
            admission: self.admission.clone(),
            runners: self.runners.clone(),
        })
    }

    fn local_requests(&self) -> Arc<LocalRequests> {
        Arc::new(LocalRequests::new(
            self.store.clone(),
            self.events.clone(),
            self.jobs.clone(),
            self.access.clone(),
            self.runners.clone(),
        ))
    }

    fn measured(&self) -> Measured {
        Measured {
            store: self.store.clone(),
            metrics: self.metrics.clone(),
            minions: self.minions.clone(),
            waiting: self.jobs.waiting.clone(),
            reactor: self.reactor.clone(),
            minions_max: minions_max(&self.opts),
        }
    }

    fn start_engines(&self) -> Engines {
        let runners = self.runners.clone();
        Engines::start(
            &self.opts,
            &(Arc::new(move || runners.context(false)) as Context),
        )
    }

    fn maintenance(&self) -> Maintenance {
        Maintenance {
            opts: self.opts.clone(),
            store: self.store.clone(),
            events: self.events.clone(),
            minions: self.minions.clone(),
            connections: self.connections.clone(),
            rotation: self.rotation.clone(),
            admission: self.admission.clone(),
        }
    }
}

/// Calls a wheel function about keys in this process, while no master runs.
///
/// # Errors
/// When the keys or the store cannot be used, or the function fails.
pub(crate) fn wheel_alone(opts: Opts, fun: &str, arg: Vec<Value>) -> Result<Value, Error> {
    let pki = Pki::open(&opts.path("pki_dir"))?;
    // No wait: a master that is starting may hold the store, and the caller then sends it the
    // request.
    let master = Master::open(opts, pki, Duration::ZERO)?;
    smol::block_on(master.runners.wheel(fun, arg)).map_err(Error::Wheel)
}

/// Runs the master until SIGTERM or SIGINT. Calls `when_it_listens` once the master listens, and
/// keeps its result until the master ends.
///
/// # Errors
/// When the configuration, the keys, the store or a socket cannot be used.
pub(crate) fn run<T>(
    mut opts: Opts,
    notify: &Notify,
    reread: Reread<'_>,
    when_it_listens: impl FnOnce() -> T,
) -> Result<(), Error> {
    let configured = opts.clone();
    let hook = Settings::take(&mut opts)?;
    let pki = Pki::open(&opts.path("pki_dir"))?;
    let master = Master::open(opts, pki, store::LOCK_MAX)?;
    let pair = master.rotation.own().pair;
    smol::block_on(async {
        let signals = signals::caught()?;
        let listener = listen::peers(&master.opts, &master.store, &pair)?;
        master.reactor.begin().await?;
        let returners = master.event_return.returners();
        let returners = returners.map_err(Error::option("event_return"))?;
        master.event_return.begin(returners).await?;
        let _servers = listen::http(&master.opts, hook, master.measured()).await?;
        let socket = listen::commands(&master.opts, &master.access)?;
        let engines = master.start_engines();
        let _until_it_ends = when_it_listens();
        log::info(format_args!(
            "The master listens on {} with the key {}",
            listen::address(&master.opts)?,
            pair.public()
        ));
        notify.ready();
        let pulse = signals::watched()?;
        let beating = async { match pulse.beat(notify).await {} };
        let peers = async {
            master.session().run(&listener).await;
            Ok(())
        };
        let chores = async {
            master.maintenance().run().await;
            Ok(())
        };
        let cachedir = master.opts.cachedir();
        let connected = Connected::open(&cachedir);
        let following = async { match connected.follow(&listener).await {} };
        let rotating = async {
            master.rotation.follow(&listener).await;
            Ok(())
        };
        let obeyed = signals::obey(signals, notify, &configured, reread);
        let commands = async { Ok(master.local_requests().run(socket).await?) };
        let ended = peers.or(commands).or(chores).or(beating).or(following);
        let ended = ended.or(rotating);
        let ended = ended.or(obeyed).await;
        notify.stopping();
        smol::unblock(move || engines.stop()).await;
        master.connections.stop().await;
        listener.close("the master is shutting down").await;
        Connected::forget(&cachedir);
        ended
    })
}
