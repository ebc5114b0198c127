//! [`Master`], the daemon `salt-master`: the state that its tasks share, its start and its end.

pub(crate) mod local_requests;
pub(crate) mod maintenance;
pub(crate) mod recall;
pub(crate) mod session;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_signal::{Signal, Signals};
use link::pki::{Identity, Pki};
use link::unix::LocalListener;
use link::wait::within;
use link::{Limits, Listener, Notify, PORT, PublicKey, Pulse};
use smol::future::FutureExt;
use smol::lock::Semaphore;
use smol::stream::StreamExt;
use state::opts::Opts;
use value::{Map, Value, jid, log, secret};
use wire::{Id, Way};

use crate::access::refusals::{self, Refusals};
use crate::admit::{self, Pending, Policy};
use crate::daemon::recall::Connected;
use crate::data::files::Files;
use crate::data::pillar::Pillars;
use crate::hook::{Hook, Settings};
use crate::jobs::minions::Minions;
use crate::jobs::waiting::Waiting;
use crate::keys::{self, Changed, Changes, KeyFiles};
use crate::metrics::{Metrics, Page};
use crate::reactor::Reactor;
use crate::store::{self, Applied, Command, KeyState, Store};
use crate::wheel;

/// The reason why the master does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// An option that cannot be used.
    #[error("the option `{option}`: {problem}")]
    Option {
        option: &'static str,
        problem: String,
    },
    #[error(transparent)]
    Pki(#[from] link::pki::Error),
    #[error(transparent)]
    Link(#[from] link::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Keys(#[from] keys::Error),
    /// A failure that a wheel function reports.
    #[error("{0}")]
    Wheel(String),
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Error {
    /// Returns whether another process holds the store.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Store(store::Error::Locked { .. }))
    }
}

/// A master.
pub(crate) struct Master {
    opts: Opts,
    store: Store,
    own: Identity,
    key_files: KeyFiles,
    key_changes: Changes,
    files: Files,
    pillars: Pillars,
    minions: Minions,
    pending: Pending,
    policy: Policy,
    /// Locked during a decision on a key that is counted, so that each use is counted once.
    enrolling: smol::lock::Mutex<()>,
    /// The slots for commands of users other than root.
    guests: Arc<Semaphore>,
    waiting: Waiting,
    reactor: Reactor,
    metrics: Metrics,
    refusals: Refusals,
    ignored_grains: Refusals,
}

/// Returns the current time in milliseconds since the Unix epoch, as the store has it.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Returns the path of the socket on which the master accepts commands.
pub(crate) fn socket_path(opts: &Opts) -> PathBuf {
    opts.path("sock_dir").join("master.sock")
}

/// The maximum number of commands of users other than root that are served at a time
/// (`publisher_acl`).
const GUESTS_MAX: usize = 64;
/// The interval at which the log repeats that a minion's own grain is ignored: a year, so in
/// practice once.
const IGNORED_EVERY: Duration = Duration::from_secs(365 * 24 * 3600);
/// The number of seconds that minions wait before they reconnect to a master that is restarted.
const BACK_AFTER_S: u64 = 1;
/// The maximum time for saying goodbye to all minions.
const GOODBYE: Duration = Duration::from_secs(2);

fn address(opts: &Opts) -> Result<SocketAddr, Error> {
    let wrong = |option, problem| Error::Option { option, problem };
    let interface = opts.text("interface").unwrap_or("0.0.0.0");
    let ip: IpAddr = interface
        .trim_matches(['[', ']'])
        .parse()
        .map_err(|_| wrong("interface", format!("{interface} is not an IP address")))?;
    let port = match opts.get("ret_port") {
        None => PORT,
        Some(port) => port
            .to_text()
            .parse()
            .map_err(|_| wrong("ret_port", format!("{} is not a port", port.to_text())))?,
    };
    Ok((ip, port).into())
}

impl std::fmt::Debug for Master {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Master").finish_non_exhaustive()
    }
}

impl Master {
    /// Opens the store and the keys. While another process holds the store, waits at most
    /// `lock_wait`.
    pub(crate) fn open(opts: Opts, own: Identity, lock_wait: Duration) -> Result<Arc<Self>, Error> {
        let limits = store::Limits {
            lock_wait,
            ..store::Limits::default()
        };
        let store = Store::open(&opts.cachedir().join("store"), limits)?;
        let key_files = KeyFiles::open(&opts.path("pki_dir"))?;
        key_files.repair(&store, now_ms())?;
        let policy = Policy::read(&opts).map_err(|problem| Error::Option {
            option: "autosign_policy",
            problem,
        })?;
        Ok(Arc::new(Self {
            own,
            key_files,
            key_changes: Changes::default(),
            files: Files::new(&opts),
            pillars: Pillars::new(&opts),
            store,
            minions: Minions::default(),
            pending: Pending::default(),
            policy,
            enrolling: smol::lock::Mutex::new(()),
            guests: Arc::new(Semaphore::new(GUESTS_MAX)),
            waiting: Waiting::default(),
            reactor: Reactor::new(&opts),
            metrics: Metrics::default(),
            refusals: Refusals::every(refusals::EVERY),
            ignored_grains: Refusals::every(IGNORED_EVERY),
            opts,
        }))
    }

    pub(crate) fn opts(&self) -> &Opts {
        &self.opts
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn pillars(&self) -> &Pillars {
        &self.pillars
    }

    pub(crate) fn minions(&self) -> &Minions {
        &self.minions
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn guests(&self) -> &Arc<Semaphore> {
        &self.guests
    }

    pub(crate) fn enrolling(&self) -> &smol::lock::Mutex<()> {
        &self.enrolling
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub(crate) fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the log of guests and peers that were refused.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Returns the log of grains that are not believed.
    pub(crate) fn ignored_grains(&self) -> &Refusals {
        &self.ignored_grains
    }

    /// Fires an event of the master itself, and returns whether it is stored. A failure is only
    /// logged.
    pub(crate) async fn fire(&self, tag: &str, data: Map) -> bool {
        is_kept(tag, self.store.apply(own_event(tag, data)).await)
    }

    /// Appends an event of the master itself to the event log, without waiting for the disk.
    pub(crate) async fn fire_behind(&self, tag: &str, data: Map) {
        let begun = self.store.begin(own_event(tag, data)).await;
        let tag = tag.to_owned();
        let kept = async move {
            let kept = match begun {
                Ok(begun) => begun.done().await,
                Err(error) => Err(error),
            };
            is_kept(&tag, kept);
        };
        smol::spawn(kept).detach();
    }

    /// Applies changes as one, and waits until they are durable.
    pub(crate) async fn keep(&self, commands: Vec<Command>) -> Result<(), String> {
        let kept = self.store.apply(Command::All(commands)).await;
        let kept = kept.map_err(|error| error.to_string())?;
        kept.refusal()
            .map_or(Ok(()), |refusal| Err(refusal.to_string()))
    }

    /// Returns the ids of the accepted minions, sorted.
    pub(crate) fn accepted(&self) -> Result<Vec<Id>, String> {
        let keys = self.store.keys(KeyState::Accepted);
        let keys = keys.map_err(|error| error.to_string())?;
        let ids = keys
            .map(|key| Ok(key?.id))
            .collect::<Result<_, store::Error>>();
        ids.map_err(|error| error.to_string())
    }

    /// Returns the accepted keys.
    fn accepted_keys(&self) -> Result<Vec<PublicKey>, store::Error> {
        let keys = self.store.keys(KeyState::Accepted)?;
        keys.map(|key| Ok(key?.key)).collect()
    }

    /// Returns whether a minion's key is accepted.
    pub(crate) fn is_accepted(&self, id: &Id) -> Result<bool, String> {
        let known = self.store.key(id).map_err(|error| error.to_string())?;
        Ok(known.is_some_and(|known| known.state == KeyState::Accepted))
    }

    /// Changes the state of a key, updates the key files, and notifies the peers that the change
    /// concerns.
    pub(crate) async fn change_key(self: &Arc<Self>, command: Command) -> Result<Applied, String> {
        self.key_change(Some(command)).await
    }

    /// Applies the changes that administrators made to the key files.
    pub(crate) async fn look_at_key_files(self: &Arc<Self>) {
        if self.key_files.are_as_left() {
            return;
        }
        if let Err(error) = self.key_change(None).await {
            log::error(format_args!("cannot read the key files: {error}"));
        }
    }

    async fn key_change(self: &Arc<Self>, command: Option<Command>) -> Result<Applied, String> {
        let (answer, is_ours) = self.key_changes.put(command);
        if is_ours {
            let master = self.clone();
            let write = move || {
                let changed = |keys: &[Changed]| master.keys_changed(keys);
                master
                    .key_changes
                    .write(&master.key_files, &master.store, changed);
            };
            smol::unblock(write).detach();
        }
        // No deadline: the store and the files answer each change.
        let answer = answer.recv().await;
        answer.unwrap_or_else(|_| Err("the master is shutting down".to_owned()))
    }

    /// Calls a wheel function.
    pub(crate) async fn wheel(
        self: &Arc<Self>,
        fun: &str,
        arg: Vec<Value>,
    ) -> Result<Value, String> {
        if !fun.starts_with("key.") {
            return Ok(self.wheel_without_keys(fun, arg).await);
        }
        let (master, fun) = (self.clone(), fun.to_owned());
        let call = move || {
            let keys = wheel::key::Keys {
                store: &master.store,
                files: &master.key_files,
                own: &master.own,
                hash_type: master.opts.text("hash_type").unwrap_or("sha256"),
                at_ms: now_ms(),
            };
            wheel::key::call(keys, &fun, arg)
        };
        let outcome = smol::unblock(call)
            .await
            .map_err(|error| error.to_string())?;
        self.keys_changed(&outcome.changed);
        for data in outcome.events {
            self.fire(wire::tag::KEY, data).await;
        }
        Ok(outcome.ret)
    }

    fn keys_changed(&self, changed: &[Changed]) {
        for change in changed {
            self.key_changed(&change.id, &change.key, change.state);
        }
    }

    /// Closes every connection of a key that is no longer accepted, and wakes peers that wait for a
    /// decision on the key.
    pub(crate) fn key_changed(&self, id: &Id, key: &PublicKey, state: Option<KeyState>) {
        self.pending.changed(key);
        if state != Some(KeyState::Accepted) {
            self.minions.close(id, key, "the key is no longer accepted");
        }
    }
}

fn own_event(tag: &str, data: Map) -> Command {
    Command::Event {
        tag: secret::text(tag).into_owned(),
        data: secret::event(data),
        stamp: jid::stamp(),
        at_ms: now_ms(),
        origin: None,
    }
}

/// Returns whether an event is stored. If it is not, logs the reason.
fn is_kept(tag: &str, kept: Result<Applied, store::Error>) -> bool {
    let why = match kept {
        Ok(Applied::Refused(refusal)) => refusal.to_string(),
        Ok(_) => return true,
        Err(error) => error.to_string(),
    };
    log::error(format_args!("cannot store the event {tag}: {why}"));
    false
}

/// Calls a wheel function about keys in this process, while no master runs.
///
/// # Errors
/// When the keys or the store cannot be used, or the function fails.
pub(crate) fn wheel_alone(opts: Opts, fun: &str, arg: Vec<Value>) -> Result<Value, Error> {
    let own = Pki::open(&opts.path("pki_dir"))?.own("master")?;
    // No wait: a master that is starting may hold the store, and the caller then sends it the
    // request.
    let master = Master::open(opts, own, Duration::ZERO)?;
    smol::block_on(master.wheel(fun, arg)).map_err(Error::Wheel)
}

/// A function that reads the configuration again, or returns a sentence if it cannot be used.
pub(crate) type Reread<'a> = &'a dyn Fn() -> Result<Opts, String>;

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
    let own = Pki::open(&opts.path("pki_dir"))?.own("master")?;
    let pair = own.pair.clone();
    let master = Master::open(opts, own, store::LOCK_MAX)?;
    smol::block_on(async {
        let signals = signals()?;
        let address = address(&master.opts)?;
        let (pending_max, pending_per_address) = admit::pending_limits(&master.opts);
        let limits = Limits {
            pending_max,
            pending_per_address,
            ..Limits::default()
        };
        let listener = Listener::bind(address, &pair, limits)?;
        listener.know(master.accepted_keys()?);
        let path = socket_path(&master.opts);
        master.begin_reactor().await?;
        let _servers = master.serve_http(hook).await?;
        let mut socket = LocalListener::bind(&path, Way::ClientToMaster, Limits::default())?;
        if master.has_guests() {
            socket = socket.with_guests()?;
        }
        let _until_it_ends = when_it_listens();
        log::info(format_args!(
            "The master listens on {address} with the key {}",
            pair.public()
        ));
        notify.ready();
        let pulse = watched()?;
        let beating = async { match pulse.beat(notify).await {} };
        let peers = async {
            // No deadline: peers connect at any time.
            while let Some(peer) = listener.next().await {
                master.metrics.hellos.add();
                smol::spawn(master.clone().admit(peer)).detach();
            }
            Ok(())
        };
        let commands = async {
            loop {
                // No deadline: commands arrive at any time.
                let local = socket.next().await?;
                smol::spawn(master.clone().obey(local)).detach();
            }
        };
        let chores = async {
            master.chores().await;
            Ok(())
        };
        let cachedir = master.opts.cachedir();
        let connected = Connected::open(&cachedir);
        let following = async { match connected.follow(&listener).await {} };
        let obeyed = obey_signals(signals, notify, &configured, reread);
        let ended = peers.or(commands).or(chores).or(beating).or(following);
        let ended = ended.or(obeyed).await;
        notify.stopping();
        master.goodbye().await;
        listener.close("the master is shutting down").await;
        Connected::forget(&cachedir);
        ended
    })
}

/// Starts a thread that checks whether the master still runs its tasks, and ends the process with
/// SIGABRT if it does not. A master that hangs serves no peer and does not even obey SIGTERM; the
/// service manager restarts it.
fn watched() -> Result<Pulse, Error> {
    let pulse = Pulse::default();
    let hung = || {
        log::error("The master has run no task for 30 s: it hangs and aborts");
        std::process::abort();
    };
    let watched = pulse.watch(link::EVERY, hung);
    watched.map_err(|source| Error::Io {
        path: "watchdog".into(),
        source,
    })?;
    Ok(pulse)
}

/// Starts to catch the signals that the daemon obeys.
fn signals() -> Result<Signals, Error> {
    let signals = Signals::new([Signal::Term, Signal::Int, Signal::Hup]);
    signals.map_err(|source| Error::Io {
        path: "signals".into(),
        source,
    })
}

/// Waits for a signal that ends the daemon. On SIGHUP it compares the configuration with the one in
/// use, and logs the differences.
async fn obey_signals(
    mut signals: Signals,
    notify: &Notify,
    configured: &Opts,
    reread: Reread<'_>,
) -> Result<(), Error> {
    // No deadline: signals arrive at any time.
    while let Some(Ok(Signal::Hup)) = signals.next().await {
        notify.reloading();
        tell_changed(configured, reread());
        notify.ready();
    }
    log::info(format_args!("The master was asked to stop"));
    Ok(())
}

/// Logs which options of the configuration have changed since the start. Options are read at the
/// start only; states, pillar and keys are always read in their current form.
fn tell_changed(configured: &Opts, read: Result<Opts, String>) {
    let changed = match read {
        Ok(read) => configured.changed(&read),
        Err(error) => {
            return log::error(format_args!("cannot use the configuration: {error}"));
        }
    };
    match changed.is_empty() {
        true => log::info("The configuration is unchanged since the master was started"),
        false => log::warning(format_args!(
            "These options have changed and take effect when the master is restarted: {}",
            changed.join(", ")
        )),
    }
}

impl Master {
    /// Starts the servers for `hook_listen` and `metrics_listen`. They run until the returned tasks
    /// are dropped.
    async fn serve_http(
        self: &Arc<Self>,
        hook: Option<Settings>,
    ) -> Result<Vec<smol::Task<()>>, Error> {
        let no = |option| move |problem| Error::Option { option, problem };
        let mut servers = Vec::new();
        if let Some(settings) = hook {
            let server = Hook::bind(self.clone(), settings).await;
            servers.push(smol::spawn(server.map_err(no("hook_listen"))?.run()));
        }
        if let Some(address) = crate::hook::listen(&self.opts, "metrics_listen")? {
            let server = Page::bind(self.clone(), address).await;
            servers.push(smol::spawn(server.map_err(no("metrics_listen"))?.run()));
        }
        Ok(servers)
    }

    /// Announces the master's end to all minions, and asks them to reconnect soon.
    async fn goodbye(&self) {
        let all = async {
            for id in self.minions.ids() {
                if let Some(minion) = self.minions.get(&id) {
                    let _ = minion
                        .handle
                        .bye("the master is shutting down", Some(BACK_AFTER_S))
                        .await;
                }
            }
        };
        let _ = within(GOODBYE, all).await;
    }
}
