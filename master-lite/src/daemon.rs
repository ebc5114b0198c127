//! [`Master`]: the daemon `salt-master`: what all its tasks share, and how it begins and ends.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_signal::{Signal, Signals};
use link::pki::{Own, Pki};
use link::unix::LocalListener;
use link::wait::within;
use link::{Limits, Listener, Notify, PORT, PublicKey, Pulse};
use smol::future::FutureExt;
use smol::lock::Semaphore;
use smol::stream::StreamExt;
use state::opts::Opts;
use value::{Map, Value, jid, log, secret};
use wire::{Id, Way};

use crate::admit::{self, Pending, Policy};
use crate::files::Files;
use crate::hook::{Hook, Settings};
use crate::keys::{self, Changed, Changes, KeyFiles};
use crate::metrics::{Metrics, Page};
use crate::minions::Minions;
use crate::pillar::Pillars;
use crate::reactor::Reactor;
use crate::recall::Connected;
use crate::refusals::{self, Refusals};
use crate::store::{self, Applied, Command, KeyState, Store};
use crate::waiting::Waiting;
use crate::wheel;

/// Why the master does not start, or ends.
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
    /// What a function of the wheel says.
    #[error("{0}")]
    Wheel(String),
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Error {
    /// Whether another process has the store.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self, Self::Store(store::Error::Locked { .. }))
    }
}

/// A master.
pub(crate) struct Master {
    opts: Opts,
    store: Store,
    own: Own,
    key_files: KeyFiles,
    key_changes: Changes,
    files: Files,
    pillars: Pillars,
    minions: Minions,
    pending: Pending,
    policy: Policy,
    /// Held while it is decided on a key by what is counted: once.
    enrolling: smol::lock::Mutex<()>,
    /// The places of users who are not root.
    guests: Arc<Semaphore>,
    waiting: Waiting,
    reactor: Reactor,
    metrics: Metrics,
    refusals: Refusals,
    ignored_grains: Refusals,
}

/// Now, as the store counts time.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Where commands find the master.
pub(crate) fn socket_path(opts: &Opts) -> PathBuf {
    opts.path("sock_dir").join("master.sock")
}

/// How many commands of users other than root are served at a time (`publisher_acl`).
const GUESTS_MAX: usize = 64;
/// How often the log says of a minion that a grain of its own is ignored: once, for all that matters.
const IGNORED_EVERY: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long minions wait before they come back to a master that is started again.
const BACK_AFTER_S: u64 = 1;
/// How long it takes to say goodbye, at most.
const GOODBYE: Duration = Duration::from_secs(2);

fn address(opts: &Opts) -> Result<SocketAddr, Error> {
    let wrong = |option, problem| Error::Option { option, problem };
    let interface = opts.text("interface").unwrap_or("0.0.0.0");
    let ip: IpAddr = interface
        .trim_matches(['[', ']'])
        .parse()
        .map_err(|_| wrong("interface", format!("{interface} is no address")))?;
    let port = match opts.get("ret_port") {
        None => PORT,
        Some(port) => port
            .to_text()
            .parse()
            .map_err(|_| wrong("ret_port", format!("{} is no port", port.to_text())))?,
    };
    Ok((ip, port).into())
}

impl std::fmt::Debug for Master {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Master").finish_non_exhaustive()
    }
}

impl Master {
    /// Opens the store, for which it waits no longer than `lock_wait` while another process has it, and the keys.
    pub(crate) fn open(opts: Opts, own: Own, lock_wait: Duration) -> Result<Arc<Self>, Error> {
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

    /// The log's lines about guests and peers that were refused.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The log's lines about grains that are not believed.
    pub(crate) fn ignored_grains(&self) -> &Refusals {
        &self.ignored_grains
    }

    /// Fires an event of the master's own; whether it is kept. One that is not is told in the log and holds nothing up.
    pub(crate) async fn fire(&self, tag: &str, data: Map) -> bool {
        is_kept(tag, self.store.apply(own_event(tag, data)).await)
    }

    /// Puts an event of the master's own into the log behind those before it, without waiting for the disk.
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

    /// Makes changes together, and durable.
    pub(crate) async fn keep(&self, commands: Vec<Command>) -> Result<(), String> {
        let kept = self.store.apply(Command::All(commands)).await;
        let kept = kept.map_err(|error| error.to_string())?;
        kept.refusal()
            .map_or(Ok(()), |refusal| Err(refusal.to_string()))
    }

    /// The accepted minions, sorted.
    pub(crate) fn accepted(&self) -> Result<Vec<Id>, String> {
        let keys = self.store.keys(KeyState::Accepted);
        let keys = keys.map_err(|error| error.to_string())?;
        let ids = keys
            .map(|key| Ok(key?.id))
            .collect::<Result<_, store::Error>>();
        ids.map_err(|error| error.to_string())
    }

    /// Returns the keys that are accepted.
    fn accepted_keys(&self) -> Result<Vec<PublicKey>, store::Error> {
        let keys = self.store.keys(KeyState::Accepted)?;
        keys.map(|key| Ok(key?.key)).collect()
    }

    /// Whether a minion is accepted.
    pub(crate) fn is_accepted(&self, id: &Id) -> Result<bool, String> {
        let known = self.store.key(id).map_err(|error| error.to_string())?;
        Ok(known.is_some_and(|known| known.state == KeyState::Accepted))
    }

    /// Changes the state of a key, shows it in the files, and tells whom that concerns.
    pub(crate) async fn change_key(self: &Arc<Self>, command: Command) -> Result<Applied, String> {
        self.key_change(Some(command)).await
    }

    /// Takes what administrators did to the key files.
    pub(crate) async fn look_at_key_files(self: &Arc<Self>) {
        if self.key_files.are_as_left() {
            return;
        }
        if let Err(error) = self.key_change(None).await {
            log::error(format_args!("The key files are not read: {error}"));
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
        answer.unwrap_or_else(|_| Err("the master ends".to_owned()))
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

    /// Closes whatever has a key that is not accepted any more, and tells a peer that waits for what becomes of its key.
    pub(crate) fn key_changed(&self, id: &Id, key: &PublicKey, state: Option<KeyState>) {
        self.pending.changed(key);
        if state != Some(KeyState::Accepted) {
            self.minions
                .close(id, key, "the key is not accepted any more");
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

/// Whether an event is kept; why not is told.
fn is_kept(tag: &str, kept: Result<Applied, store::Error>) -> bool {
    let why = match kept {
        Ok(Applied::Refused(refusal)) => refusal.to_string(),
        Ok(_) => return true,
        Err(error) => error.to_string(),
    };
    log::error(format_args!("The event {tag} is not kept: {why}"));
    false
}

/// Calls a wheel function about keys where no master runs.
///
/// # Errors
/// When the keys or the store cannot be used, or the function says no.
pub(crate) fn wheel_alone(opts: Opts, fun: &str, arg: Vec<Value>) -> Result<Value, Error> {
    let own = Pki::open(&opts.path("pki_dir"))?.own("master")?;
    // Who has the store may be a master that starts: it is asked then.
    let master = Master::open(opts, own, Duration::ZERO)?;
    smol::block_on(master.wheel(fun, arg)).map_err(Error::Wheel)
}

/// Reads the configuration again; a sentence where it cannot be used.
pub(crate) type Reread<'a> = &'a dyn Fn() -> Result<Opts, String>;

/// Runs the master until SIGTERM or SIGINT, and keeps what is made when it listens until then.
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
            // No deadline: peers come when they come.
            while let Some(peer) = listener.next().await {
                master.metrics.hellos.add();
                smol::spawn(master.clone().admit(peer)).detach();
            }
            Ok(())
        };
        let commands = async {
            loop {
                // No deadline: commands come when they come.
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
        listener.close("the master ends").await;
        Connected::forget(&cachedir);
        ended
    })
}

/// Has a thread watch whether the master runs its tasks, and end the process where it does not (SIGABRT): it would serve nobody any
/// more and would not even obey SIGTERM, and a service manager starts it again.
fn watched() -> Result<Pulse, Error> {
    let pulse = Pulse::default();
    let hung = || {
        log::error("The master has run none of its tasks for 30 s: it hangs, and ends itself");
        std::process::abort();
    };
    let watched = pulse.watch(link::EVERY, hung);
    watched.map_err(|source| Error::Io {
        path: "watchdog".into(),
        source,
    })?;
    Ok(pulse)
}

/// The signals that the daemon obeys, from now on.
fn signals() -> Result<Signals, Error> {
    let signals = Signals::new([Signal::Term, Signal::Int, Signal::Hup]);
    signals.map_err(|source| Error::Io {
        path: "signals".into(),
        source,
    })
}

/// Waits for a signal that ends the daemon; SIGHUP has it look at its configuration.
async fn obey_signals(
    mut signals: Signals,
    notify: &Notify,
    configured: &Opts,
    reread: Reread<'_>,
) -> Result<(), Error> {
    // No deadline: signals come when they come.
    while let Some(Ok(Signal::Hup)) = signals.next().await {
        notify.reloading();
        tell_changed(configured, reread());
        notify.ready();
    }
    log::info(format_args!("The master is asked to end"));
    Ok(())
}

/// What stands in the configuration now and is not obeyed: states, pillar and keys are always read as they are, options at the start.
fn tell_changed(configured: &Opts, read: Result<Opts, String>) {
    let changed = match read {
        Ok(read) => configured.changed(&read),
        Err(error) => {
            return log::error(format_args!("The configuration cannot be used: {error}"));
        }
    };
    match changed.is_empty() {
        true => log::info("The configuration is the one that the master was started with"),
        false => log::warning(format_args!(
            "These options have changed, and are obeyed when the master is started again: {}",
            changed.join(", ")
        )),
    }
}

impl Master {
    /// Serves what `hook_listen` and `metrics_listen` ask for, until the tasks are dropped.
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

    /// Tells all minions to come back soon.
    async fn goodbye(&self) {
        let all = async {
            for id in self.minions.ids() {
                if let Some(minion) = self.minions.get(&id) {
                    let _ = minion
                        .handle
                        .bye("the master ends", Some(BACK_AFTER_S))
                        .await;
                }
            }
        };
        let _ = within(GOODBYE, all).await;
    }
}
