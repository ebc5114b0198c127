//! A cluster: several masters with one store, in which minions connect to any of them.
//!
//! [`Cluster::start`] founds or joins a cluster, or continues in one ([`join`], [`node`]). From then
//! on all commands of the store come from a log on which a majority has agreed (the crate `cluster`).
//! The leader of the log decides on the members ([`members`]). Each master reports to the others
//! which minions are connected to it ([`notes`]), and passes requests for those on ([`relay`]). A
//! master can send its files to the others ([`roots`]).
//!
//! A change of the store is proposed behind all earlier ones of its master, and offered again to the
//! next leader if one fails; it is applied once. Each master applies it when a majority has it on its
//! disks. Its effects on a master hang on that: events reach their watchers, `keys` closes connections
//! and writes key files, `jobs` wakes the callers that wait for a return. A job is handed to minions by
//! the master that publishes it, through the masters that they are connected to: its arguments may
//! contain secrets, which the log must not keep.

mod agreement;
mod clock;
mod error;
mod guide;
mod join;
mod members;
mod node;
mod notes;
mod own_row;
mod peers;
mod relay;
mod report;
mod requests;
mod rings;
mod roots;
mod runs;
mod settings;
mod start;
pub(crate) mod tokens;
mod warnings;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use cluster::core::Member;
use cluster::raft::{self, Group, Smol, Status};
use link::masters_thread;
use link::pool::{Pool, Request};
use link::{Handle, PublicKey};
use smol::channel::{Receiver, Sender, bounded};
use value::{Value, channel, log};

use crate::jobs::minions::Minions;
use crate::store::Store;
use crate::store::replica::Replica;

pub(crate) use error::Error;
pub(crate) use requests::{Change, What};
pub(crate) use rings::{Source, status as shed_status};
pub(crate) use roots::Channel;
pub(crate) use runs::{Copy as RunCopy, Silent};
pub(crate) use settings::Settings;
pub(crate) use start::{has_log, leave};

use clock::Clock;
use guide::Guided;
use members::Pending;
use node::Node;
use notes::Others;
use requests::Ask;
use roots::Roots;
use warnings::Warnings;

/// The number of the group that all masters have.
const GROUP: u8 = 0;
/// The interval between two looks at the state of the log.
const LOOK: Duration = Duration::from_millis(200);
/// The maximum time for a request to another master.
const ASK_MAX: Duration = Duration::from_secs(10);

/// The keys of the masters that are members.
#[derive(Clone, Debug, Default)]
struct Keys(Arc<RwLock<BTreeSet<[u8; 32]>>>);

impl Keys {
    fn has(&self, key: &PublicKey) -> bool {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        keys.contains(key.bytes())
    }

    fn set(&self, keys: BTreeSet<[u8; 32]>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }
}

/// A master's part of its cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct Cluster(Arc<Shared>);

struct Shared {
    settings: Settings,
    node: Node,
    group: Group<Smol, Replica>,
    pool: Arc<Pool>,
    store: Store,
    keys: Keys,
    minions: Minions,
    /// The masters that wait for an administrator.
    pending: Pending,
    /// Locked while the leader changes the members.
    changing: Arc<smol::lock::Mutex<()>>,
    others: Others,
    clock: Clock,
    /// The options that must be the same on all masters.
    options: agreement::Agreement,
    contact: Arc<Contact>,
    rings: rings::State,
    running: runs::Running,
    cachedir: PathBuf,
    roots: Roots,
    warnings: Warnings,
    /// True if this master has joined the cluster in this process.
    has_joined: bool,
}

/// The contact to a majority.
struct Contact {
    cluster: String,
    /// The longest time without contact in which this master is not in a minority.
    most: Duration,
    /// The longest time without contact in which it serves files and pillar.
    stale_max: Duration,
    state: Mutex<ContactState>,
    /// A channel that has a message when this master leads, or leads no more.
    led: (Sender<()>, Receiver<()>),
}

#[derive(Debug)]
struct ContactState {
    /// The last time of contact, in this process and as a time of day.
    last: Option<Instant>,
    last_at: String,
    /// The names of the masters with a vote that do not answer, and the number of all.
    missing: Vec<String>,
    voters: usize,
    /// The term in which this master leads.
    leads: Option<u64>,
}

impl ContactState {
    /// Describes the fault of a master that is not in contact with a leader and a majority.
    fn fault(&self, cluster: &str) -> String {
        let reached = self.voters.saturating_sub(self.missing.len());
        let missing = match self.missing.is_empty() {
            true => String::new(),
            false => format!(" (missing: {})", self.missing.join(", ")),
        };
        let reaches = format!("it reaches {reached} of {} voters{missing}", self.voters);
        let since = &self.last_at;
        // A majority without a leader elects one.
        match reached > self.voters / 2 {
            true => format!(
                "This master of the cluster {cluster} has had no contact with a leader since {since}: {reaches}"
            ),
            false => {
                format!(
                    "This master is in a minority of the cluster {cluster}: {reaches} since {since}"
                )
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Contact {
    fn new(settings: &Settings) -> Self {
        Self {
            cluster: settings.cluster.clone(),
            most: settings.contact_max(),
            stale_max: settings.stale_max,
            state: Mutex::new(ContactState {
                last: None,
                last_at: now(),
                missing: Vec::new(),
                voters: 0,
                leads: None,
            }),
            led: bounded(1),
        }
    }

    /// Returns the time since this master was in contact with a majority; `None` if it never was.
    fn silence(&self) -> Option<Duration> {
        lock(&self.state).last.map(|last| last.elapsed())
    }

    /// Returns why no change is possible, if this master is in a minority.
    fn minority(&self) -> Option<String> {
        let state = lock(&self.state);
        if state.last.is_some_and(|last| last.elapsed() <= self.most) {
            return None;
        }
        let fault = state.fault(&self.cluster);
        let stale = self.stale_max.as_secs();
        Some(format!(
            "{fault}. Jobs, keys and events are not taken here; files and pillar are served for {stale} s"
        ))
    }
}

impl Cluster {
    /// Returns the state of the log as this master sees it.
    pub(crate) fn status(&self) -> Status {
        self.0.group.status()
    }

    /// Returns whether this master is the leader, and the term if so.
    pub(crate) fn leads(&self) -> Option<u64> {
        let status = self.status();
        (status.leads() && self.0.contact.minority().is_none()).then_some(status.term)
    }

    /// Returns the name of the leader, unless this master leads.
    pub(crate) fn leader_elsewhere(&self) -> Option<String> {
        let status = self.status();
        match status.leader {
            Some(leader) if leader == status.node => None,
            Some(leader) => Some(self.name(leader)),
            None => Some("Another master".to_owned()),
        }
    }

    /// Returns the name of the cluster.
    pub(crate) fn id(&self) -> &str {
        &self.0.settings.cluster
    }

    /// Returns why no change is possible, if this master is in a minority.
    pub(crate) fn minority(&self) -> Option<String> {
        self.0.contact.minority()
    }

    /// Returns whether this master lacks contact for so long that its data may not be served any
    /// more.
    pub(crate) fn is_stale(&self) -> bool {
        let silence = self.0.contact.silence();
        silence.is_none_or(|silence| silence > self.0.settings.stale_max)
    }

    /// Returns the other members, sorted by name.
    fn others(&self) -> Vec<(u64, Member)> {
        let mut members = self.status().members;
        members.remove(&self.0.node.number);
        let mut others: Vec<_> = members.into_iter().collect();
        others.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        others
    }

    /// Returns the name of a member.
    fn name(&self, number: u64) -> String {
        let members = self.status().members;
        let member = members.get(&number);
        member.map_or_else(|| number.to_string(), |member| member.name.clone())
    }

    /// Sends a minion the masters of the cluster.
    pub(crate) async fn introduce(&self, minion: &Handle) {
        let masters = guide::masters(
            &self.status(),
            self.0.settings.voters_max,
            self.0.node.founded_us,
        );
        if let Err(error) = minion.masters(masters).await {
            log::debug(format_args!("cannot send a minion the masters: {error}"));
        }
        if self.minority().is_some()
            && let Err(error) = minion.bye(wire::NO_MAJORITY, None).await
        {
            // The minion decides whether it stays.
            log::debug(format_args!(
                "cannot send a minion to another master: {error}"
            ));
        }
    }

    /// Runs the tasks of the cluster until the log fails here.
    pub(crate) async fn run(&self) -> Error {
        masters_thread::spawn(self.clone().answer_all()).detach();
        masters_thread::spawn(self.clone().tell_others()).detach();
        smol::spawn(self.clone().keep_rings()).detach();
        smol::spawn(self.clone().give_runs()).detach();
        smol::spawn(self.clone().find_other_clusters()).detach();
        if self.0.has_joined {
            smol::spawn(self.clone().fetch_roots()).detach();
        }
        // The caller waits for much else, and would wake up for each look.
        masters_thread::spawn(self.clone().watch()).await
    }

    /// Looks at the state of the log, and does what follows from it, until the log fails here.
    async fn watch(self) -> Error {
        let mut guided = Guided::default();
        loop {
            let status = self.status();
            if let Some(failure) = status.failure {
                return Error::Log(failure);
            }
            self.look(&status);
            self.0.clock.follow(&self.0.others, status.voters.len());
            if self.0.others.forget_silent() {
                self.show_elsewhere();
            }
            self.guide_minions(&status, &mut guided);
            self.lead_members(&status);
            link::wait::pause(LOOK).await;
        }
    }

    /// Returns the term in which this master led at the last look.
    pub(crate) fn led(&self) -> Option<u64> {
        lock(&self.0.contact.state).leads
    }

    /// Waits until the result of [`Cluster::led`] has changed. Only one task may wait.
    pub(crate) async fn led_changes(&self) {
        // No deadline: a master may lead for ever.
        channel::or_closed(self.0.contact.led.1.recv().await);
    }

    /// Notes the members, and whether a majority is in contact.
    fn look(&self, status: &Status) {
        if status.members.contains_key(&self.0.node.number) {
            self.0.keys.set(keys_of(&status.members));
        }
        let contact = status.contact;
        let leader_is_cut_off = match status.leader {
            Some(leader) if leader != status.node => self.0.others.is_cut_off(leader),
            _ => false,
        };
        let mut state = lock(&self.0.contact.state);
        let was_lost = state
            .last
            .is_some_and(|last| last.elapsed() > self.0.contact.most);
        if let Some(contact) = contact.filter(|_| status.leader.is_some() && !leader_is_cut_off) {
            let last = Instant::now().checked_sub(contact);
            if last > state.last {
                state.last = last;
                state.last_at = now();
            }
        }
        let alive = self.0.others.alive();
        let silent = |voter: &&u64| **voter != status.node && !alive.contains(*voter);
        state.voters = status.voters.len();
        state.missing = status
            .voters
            .iter()
            .filter(silent)
            .filter_map(|voter| Some(status.members.get(voter)?.name.clone()))
            .collect();
        state.missing.sort();
        let is_lost = state
            .last
            .is_none_or(|last| last.elapsed() > self.0.contact.most);
        let leads = (status.leads() && !is_lost).then_some(status.term);
        if std::mem::replace(&mut state.leads, leads) != leads {
            channel::if_open(self.0.contact.led.0.try_send(()));
        }
        drop(state);
        if was_lost && !is_lost {
            log::warning("A majority of the cluster is in contact again");
        }
    }

    /// Answers the requests of other masters until the port is closed.
    async fn answer_all(self) {
        let groups = Arc::new(BTreeMap::from([(GROUP, self.0.group.clone())]));
        // No deadline: masters ask at any time.
        while let Some(request) = self.0.pool.next().await {
            let (cluster, groups) = (self.clone(), groups.clone());
            masters_thread::spawn(async move { cluster.answer(request, &groups).await }).detach();
        }
    }

    async fn answer(&self, request: Request, groups: &BTreeMap<u8, Group<Smol, Replica>>) {
        match (request.bytes.first(), request.is_member) {
            (Some(&requests::JOIN), _) => {
                let cluster = self.clone();
                smol::spawn(async move { cluster.answer_join(request).await }).await;
            }
            (_, false) => self.0.warnings.warn(format_args!(
                "refused a request of {} to the port of the cluster: the key {} is not one of a member",
                request.from,
                request.key.finger()
            )),
            (Some(&requests::OF_MEMBER), true) => {
                let bytes = request.bytes.get(1..).unwrap_or_default();
                let done = match Ask::decode(bytes) {
                    Some(Ask::Note(note)) => self.note_of(&request.key, note),
                    Some(ask) => {
                        let (cluster, key) = (self.clone(), request.key);
                        smol::spawn(async move { cluster.obey(&key, ask).await }).await
                    }
                    None => {
                        let why = "it has an unknown form";
                        self.warn_unreadable((&request.key, request.from), why);
                        Err(format!("the request cannot be read: {why}"))
                    }
                };
                request.answer(&requests::answer(done)).await;
            }
            _ => {
                let (key, from) = (request.key, request.from);
                let answered = raft::pool::answer(request, self.0.node.number, groups).await;
                if let Err(why) = answered {
                    self.warn_unreadable((&key, from), &why);
                }
            }
        }
    }

    /// Warns about a request of a member that no master of this release sends.
    fn warn_unreadable(&self, (key, from): (&PublicKey, SocketAddr), why: &str) {
        let number = self.number_of(key);
        let name = number.map_or_else(|_| key.finger(), |number| self.name(number));
        self.0.warnings.warn(format_args!(
            "refused a request of the master {name} ({from}): {why}. Run the same release on all masters"
        ));
    }

    fn note_of(&self, key: &PublicKey, note: notes::Note) -> Result<Value, String> {
        Ok(self.take_note(self.number_of(key)?, note).into())
    }

    /// Does what another master asks for.
    async fn obey(&self, key: &PublicKey, ask: Ask) -> Result<Value, String> {
        match ask {
            Ask::Note(note) => self.note_of(key, note),
            Ask::Minion {
                id,
                key,
                index,
                request,
            } => self.pass_on((id, key), index, request).await,
            Ask::Members(change) => self.change_here(&change).await,
            Ask::Row(row) => self.change_row_of(key, row).await,
            Ask::Rows(rows) => self.answer_rows(rows).await,
            Ask::Roots(message) => self.take_roots(key, message).await,
        }
    }

    /// Returns the number of the member that has a key.
    fn number_of(&self, key: &PublicKey) -> Result<u64, String> {
        let members = self.status().members;
        let mut numbers = members.iter().rev();
        let of = numbers.find(|(_, member)| member.key == key.bytes());
        let (of, _) = of.ok_or("this key is not one of a member")?;
        Ok(*of)
    }

    /// Asks another master.
    async fn ask(&self, number: u64, ask: &Ask, within: Duration) -> Result<Value, String> {
        let members = self.status().members;
        let member = members.get(&number);
        let member = member.ok_or_else(|| format!("the cluster has no master {number}"))?;
        requests::ask(&self.0.pool, member, ask, within).await
    }

    /// Stops to be a part of the cluster, and hands the leadership over to another master.
    pub(crate) async fn stop(&self) {
        let status = self.status();
        if status.leads() {
            let next = status
                .followers
                .iter()
                .filter(|(node, _)| status.voters.contains(node));
            let next = next.max_by_key(|(_, follower)| follower.matched);
            if let Some((next, _)) = next
                && let Err(error) = self.0.group.hand_over(*next).await
            {
                log::warning(format_args!("cannot hand the leadership over: {error}"));
            }
        }
        self.0.group.stop().await;
        self.0.pool.close();
    }
}

/// Returns the time of day.
fn now() -> String {
    let stamp = value::jid::stamp();
    let time = stamp.split_once('T').map_or("", |(_, time)| time);
    format!(
        "{} UTC",
        time.chars().take("hh:mm:ss".len()).collect::<String>()
    )
}

/// Returns the keys of members.
fn keys_of(members: &BTreeMap<u64, Member>) -> BTreeSet<[u8; 32]> {
    let keys = members.values();
    keys.filter_map(|member| member.key.as_slice().try_into().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_without_a_leader_is_no_minority() {
        let fault = |missing: &[&str]| {
            let state = ContactState {
                last: None,
                last_at: "18:15:18 UTC".to_owned(),
                missing: missing.iter().map(|&name| name.to_owned()).collect(),
                voters: 3,
                leads: None,
            };
            state.fault("prod")
        };
        assert_eq!(
            fault(&["10.0.0.1", "10.0.0.2"]),
            "This master is in a minority of the cluster prod: it reaches 1 of 3 voters (missing: 10.0.0.1, 10.0.0.2) since 18:15:18 UTC"
        );
        assert_eq!(
            fault(&["10.0.0.1"]),
            "This master of the cluster prod has had no contact with a leader since 18:15:18 UTC: it reaches 2 of 3 voters (missing: 10.0.0.1)"
        );
    }
}
