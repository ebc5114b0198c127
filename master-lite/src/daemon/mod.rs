//! [`Master`], the daemon `salt-master`: it builds the services in their order, and starts the
//! tasks that they serve.

pub(crate) mod connections;
mod error;
mod leading;
mod listen;
pub(crate) mod local_requests;
pub(crate) mod maintenance;
mod recall;
mod repositories;
pub(crate) mod session;
mod signals;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::cluster::raft::damage::Unfinished;
use link::pki::Pki;
use link::wait::{pause, within};
use link::{Listener, Notify};
use modules::loader::engines::{Context, Engines};
use smol::Task;
use smol::future::{FutureExt, pending};
use state::opts::Opts;
use value::{Value, log};

use crate::access::Access;
use crate::access::eauth::Eauth;
use crate::admit::{Admission, Policy};
use crate::api;
use crate::api::calls::Calls;
use crate::cluster::{self, Cluster};
use crate::daemon::connections::Connections;
use crate::daemon::leading::Leading;
use crate::daemon::local_requests::LocalRequests;
use crate::daemon::maintenance::Maintenance;
use crate::daemon::recall::Connected;
use crate::daemon::repositories::Updates;
use crate::daemon::session::Session;
use crate::daemon::signals::Reread;
use crate::data::Data;
use crate::event_return::{EventReturn, Following, LogOption};
use crate::events::Events;
use crate::hook::Settings;
use crate::jobs::Jobs;
use crate::jobs::batches::{Batches, Owner};
use crate::jobs::hosts::Hosts;
use crate::jobs::minions::Minions;
use crate::jobs::targets::Targets;
use crate::jobs::waiting::Waiting;
use crate::keys::{self, KeyFiles, Keys, Rotation, Use};
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
    batches: Batches,
    access: Access,
    data: Data,
    admission: Arc<Admission>,
    connections: Arc<Connections>,
    rotation: Rotation,
    hosts: Hosts,
    reactor: Arc<Reactor>,
    pub(crate) runners: Runners,
    keys: Keys,
    /// The cluster, if this master belongs to one.
    cluster: Option<Cluster>,
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

/// Returns the use of the key files. Masters of a cluster share the keys, but not the files.
fn use_of(cluster: &Option<Cluster>) -> Use {
    match cluster {
        Some(_) => Use::View,
        None => Use::Both,
    }
}

fn jobs(
    opts: &Arc<Opts>,
    (store, minions): (&Store, &Minions),
    (refusals, metrics): (&Arc<Refusals>, &Arc<Metrics>),
    hosts: Option<Hosts>,
) -> Jobs {
    Jobs {
        opts: opts.clone(),
        store: store.clone(),
        refusals: refusals.clone(),
        metrics: metrics.clone(),
        minions: minions.clone(),
        waiting: Waiting::default(),
        targets: Targets::new(opts, store.clone()),
        hosts,
    }
}

fn access(opts: &Arc<Opts>, refusals: &Arc<Refusals>, jobs: &Jobs, events: &Events) -> Access {
    Access {
        opts: opts.clone(),
        refusals: refusals.clone(),
        jobs: jobs.clone(),
        store: jobs.store.clone(),
        eauth: Eauth::new(opts, &runners::REGISTRY, events),
    }
}

/// Returns the owner of the batches of this master.
fn owner(cluster: Option<&Cluster>) -> Owner {
    let (node, boot) = cluster.map(Cluster::own_start).unwrap_or_default();
    Owner { node, boot }
}

fn open_store(opts: &Opts, lock_wait: Duration) -> Result<Store, store::Error> {
    let mut limits = store::Limits {
        lock_wait,
        ..store::Limits::default()
    };
    if cluster::has_log(opts) {
        // The log has all that the store of this master had not synced.
        limits.unfinished = Unfinished::Remove;
    }
    Store::open(&store_folder(opts), limits)
}

impl Master {
    /// Opens the store and the keys of a master that belongs to no cluster, and builds the services.
    /// While another process holds the store, waits at most `lock_wait`.
    pub(crate) fn alone(opts: Opts, pki: Pki, lock_wait: Duration) -> Result<Self, Error> {
        let store = open_store(&opts, lock_wait)?;
        smol::block_on(cluster::leave(&opts, &store, &store_folder(&opts)))?;
        let base = Base {
            store,
            minions: Minions::default(),
            cluster: None,
        };
        Self::open(opts, pki, base)
    }

    /// Opens the keys, and builds the services on a store.
    fn open(opts: Opts, pki: Pki, base: Base) -> Result<Self, Error> {
        let opts = Arc::new(opts);
        let Base {
            store,
            minions,
            cluster,
        } = base;
        let events = Events::new(store.clone());
        let refusals = Arc::new(Refusals::every(refusals::EVERY));
        let metrics = Arc::new(Metrics::default());
        let keys = Keys::open(&opts, &store, &minions, use_of(&cluster))?;
        let rotation = Rotation::open(pki, store.clone(), minions.clone(), cluster.is_some())?;
        let wheel = Wheel {
            store: store.clone(),
            opts: opts.clone(),
            events: events.clone(),
            keys: keys.clone(),
            rotation: rotation.clone(),
            minions: minions.clone(),
        };
        let hosts = Hosts::new(&opts, &runners::REGISTRY, &events);
        let of_jobs = hosts.of_jobs();
        let jobs = jobs(&opts, (&store, &minions), (&refusals, &metrics), of_jobs);
        let access = access(&opts, &refusals, &jobs, &events);
        let data = Data::new(&opts, &store, &events, &refusals, jobs.targets.clone());
        let runs = Runs {
            opts: opts.clone(),
            registry: &runners::REGISTRY,
            store: store.clone(),
            events: events.clone(),
            wheel,
            jobs: jobs.clone(),
            data: data.clone(),
            access: access.clone(),
            cluster: cluster.clone(),
        };
        let policy = Policy::read(&opts).map_err(Error::option("autosign_policy"))?;
        let admission = Admission::new(
            &opts,
            policy,
            &events,
            &refusals,
            &metrics,
            &minions,
            keys.clone(),
        );
        let reactor = Reactor::new(metrics.clone(), runs);
        let connections = Connections::open(&store, &minions)?;
        Ok(Self {
            batches: Batches::new(&jobs, &events, owner(cluster.as_ref())),
            runners: reactor.runners(),
            reactor,
            admission: Arc::new(admission),
            connections: Arc::new(connections),
            rotation,
            hosts,
            data,
            access,
            jobs,
            minions,
            metrics,
            refusals,
            events,
            store,
            opts,
            keys,
            cluster,
        })
    }

    fn event_return(&self) -> EventReturn {
        EventReturn {
            opts: self.opts.clone(),
            store: self.store.clone(),
            events: self.events.clone(),
            runners: self.runners.clone(),
        }
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
            cluster: self.cluster.clone(),
        })
    }

    fn local_requests(&self) -> Arc<LocalRequests> {
        Arc::new(LocalRequests::new(
            self.store.clone(),
            self.events.clone(),
            self.jobs.clone(),
            self.batches.clone(),
            self.access.clone(),
            self.runners.clone(),
        ))
    }

    fn calls(&self) -> Calls {
        Calls {
            store: self.store.clone(),
            jobs: self.jobs.clone(),
            batches: self.batches.clone(),
            access: self.access.clone(),
            runners: self.runners.clone(),
            hosts: self.hosts.clone(),
        }
    }

    fn measured(&self) -> Measured {
        Measured {
            store: self.store.clone(),
            metrics: self.metrics.clone(),
            minions: self.minions.clone(),
            waiting: self.jobs.waiting.clone(),
            reactor: self.reactor.current(),
            minions_max: minions_max(&self.opts),
            cluster: self.cluster.clone(),
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
            access: self.access.clone(),
            cluster: self.cluster.clone(),
        }
    }

    /// Begins the work of a master that is alone, which lasts until the returned tasks are dropped.
    async fn begin(&self, leading: &Leading) -> Result<Vec<Task<()>>, Error> {
        if self.cluster.is_some() {
            return Ok(Vec::new());
        }
        self.batches.end_all().await;
        Ok(leading.alone(&self.reactor).await?)
    }

    /// Ends the engines and the connections, or gives up after [`END_MAX`].
    async fn end(&self, engines: Engines, listener: &Listener) {
        let ended = within(END_MAX, async {
            smol::unblock(move || engines.stop()).await;
            self.connections.stop().await;
            if let Some(cluster) = &self.cluster {
                cluster.stop().await;
            }
            listener.close("the master is shutting down").await;
        });
        if ended.await.is_none() {
            log::warning(format_args!(
                "The master's services did not end within {} s: it ends without them",
                END_MAX.as_secs()
            ));
        }
    }

    /// Runs the tasks of a master of a cluster, until its log fails. Never ends for a master alone.
    async fn in_cluster(&self, leading: &Leading) -> Result<(), Error> {
        let Some(cluster) = &self.cluster else {
            // No deadline: a master alone has no such tasks.
            return pending().await;
        };
        let keys = async { match self.keys.follow().await {} };
        let returns = async {
            self.jobs.follow_returns_of_others().await;
            Ok(())
        };
        let work = async { match leading.follow(cluster, self.reactor.clone()).await {} };
        let runners = self.runners.clone();
        let runs = async { match crate::runs::takeover::follow(runners, cluster.clone()).await {} };
        let batches = async { match self.batches.follow(cluster.clone()).await {} };
        let run = async { Err(cluster.run().await.into()) };
        let followed = keys.or(returns).or(work).or(runs).or(batches);
        followed.or(run).await
    }
}

/// The store of a master with its connections, on which the services are built.
struct Base {
    store: Store,
    minions: Minions,
    cluster: Option<Cluster>,
}

impl Base {
    /// Opens the store. A master of a cluster waits until it has all that the cluster has.
    fn open(opts: &Opts, pki: &Pki, notify: &Notify) -> Result<Self, Error> {
        let store = open_store(opts, store::LOCK_MAX)?;
        let folder = store_folder(opts);
        let minions = Minions::default();
        let cluster = smol::block_on(async {
            let Some(settings) = cluster::Settings::read(opts)? else {
                cluster::leave(opts, &store, &folder).await?;
                return Ok(None);
            };
            let (own, pki_dir) = (keys::own(pki)?, opts.path("pki_dir"));
            if store.control()?.is_none() && !KeyFiles::are_view(&pki_dir) {
                // Keys that an administrator left as files are the master's own, and are not lost.
                Keys::open(opts, &store, &minions, Use::Both)?;
            }
            let started = Cluster::start(settings, opts, (&store, &folder), &own, &minions);
            let started = async { Ok::<_, Error>(Some(started.await?)) };
            let waiting = async {
                loop {
                    notify.extend(STARTING);
                    pause(STARTING / 2).await;
                }
            };
            started.or(waiting).await
        })?;
        Ok(Self {
            store,
            minions,
            cluster,
        })
    }
}

/// The maximum time in which the services of a master end.
const END_MAX: Duration = Duration::from_secs(30);
/// The time for which a service manager waits longer while a master of a cluster starts.
const STARTING: Duration = Duration::from_secs(30);

/// Calls a wheel function about keys in this process, while no master runs.
///
/// # Errors
/// When the keys or the store cannot be used, or the function fails.
pub(crate) fn wheel_alone(opts: Opts, fun: &str, arg: Vec<Value>) -> Result<Value, Error> {
    if opts.text("cluster_id").is_some_and(|id| !id.is_empty()) {
        return Err(Error::NotRunning);
    }
    let pki = Pki::open(&opts.path("pki_dir"))?;
    // No wait: a master that is starting may hold the store, and the caller then sends it the
    // request.
    let master = Master::alone(opts, pki, Duration::ZERO)?;
    smol::block_on(master.runners.wheel(fun, arg)).map_err(Error::Wheel)
}

/// Returns the returners that follow the log.
fn followed(event_return: &EventReturn) -> Result<Vec<Following>, Error> {
    let mut all = Vec::new();
    for option in LogOption::ALL {
        let returners = event_return.returners(option);
        all.extend(returners.map_err(Error::option(option.name()))?);
    }
    Ok(all)
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
    link::wait::start_calmly();
    let configured = opts.clone();
    let hook = Settings::take(&mut opts)?;
    let api = api::Settings::read(&opts)?;
    let updates = Updates::new(&opts).map_err(|error| Error::Repository(error.sentence()))?;
    let pki = Pki::open(&opts.path("pki_dir"))?;
    let base = Base::open(&opts, &pki, notify)?;
    let master = Master::open(opts, pki, base)?;
    let pair = master.rotation.own().pair;
    smol::block_on(async {
        let signals = signals::caught()?;
        let listener = listen::peers(&master.opts, &master.store, &pair)?;
        let event_return = master.event_return();
        let leading = Leading {
            returners: followed(&event_return)?,
            event_return,
        };
        let _working = master.begin(&leading).await?;
        let api = api.map(|settings| (settings, master.calls()));
        let _servers = listen::http(&master.opts, hook, api, master.measured()).await?;
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
        let updating = async { match updates.follow(&master.events).await {} };
        let ended = peers.or(commands).or(chores).or(following);
        let ended = ended.or(rotating).or(updating);
        let ended = ended.or(master.in_cluster(&leading)).or(obeyed);
        let lived = async {
            let ended = ended.await;
            notify.stopping();
            master.end(engines, &listener).await;
            Connected::forget(&cachedir);
            ended
        };
        lived.or(beating).await
    })
}
