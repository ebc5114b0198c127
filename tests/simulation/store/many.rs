//! [`Many`]: a cluster of five masters with many minions, while masters fail. Each minion enrols, and
//! returns one job, which is published once all of them are enrolled. In the end, all masters have the
//! same rows: the key and the return of each minion, and one event for each return.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cluster::raft::NotAgreed;
use value::Map;
use wire::Id;

use crate::acts;
use crate::ends;
use crate::machine::Stored;
use crate::seeds::number;
use crate::site::{self, Masters, Shared, Story};
use crate::store::replica::encoded;
use crate::store::{Applied, Claim, Command, Origin, Store};
use crate::story::at_ms;
use crate::world::{self, Process};

/// The number of changes that are under way at the same time.
const CLIENTS: usize = 256;
const JID: &str = "20261127120000000000";
/// A seed with five masters.
const SEED: u64 = 4;

/// The users of a cluster with many minions.
#[derive(Clone)]
pub(crate) struct Many {
    site: Shared<Stored>,
    done: Arc<Done>,
}

/// The work so far.
#[derive(Default)]
struct Done {
    minions: usize,
    /// The next minion that enrols, and the next one that returns.
    next: [AtomicUsize; 2],
    enrolled: AtomicUsize,
    is_published: AtomicBool,
    returned: AtomicUsize,
    /// The proposals whose outcome was not known, and which were therefore repeated.
    repeated: AtomicUsize,
}

fn id(minion: usize) -> Id {
    acts::id(&format!("web-{minion:06}"))
}

fn enrolment(minion: usize, master: Process) -> Command {
    let (id, key, at_ms) = (id(minion), acts::key(minion as u64), at_ms(master));
    let accepted = Command::KeyAccepted {
        id: id.clone(),
        key,
        at_ms,
        bound: Map::new(),
        replace: false,
    };
    Command::All(vec![acts::offer(id, key, at_ms, Claim::Nothing), accepted])
}

/// Returns the commands for the return of a minion, as a master makes them.
fn answer(minion: usize, master: Process) -> Command {
    let (id, at_ms) = (id(minion), at_ms(master));
    let data = Map::new()
        .with("id", id.as_str())
        .with("jid", JID)
        .with("fun", "test.ping")
        .with("return", true)
        .with("retcode", 0)
        .with("success", true);
    let event = Command::Event {
        tag: wire::tag::job_ret(JID, &id),
        data: data.clone(),
        stamp: String::new(),
        at_ms,
        origin: None,
    };
    let origin = Some(Origin {
        id: id.clone(),
        key: acts::key(minion as u64),
        epoch: 1,
        sequence: 1,
    });
    let kept = Command::Return {
        jid: JID.to_owned(),
        id,
        data,
        at_ms,
        origin,
    };
    Command::All(vec![kept, event])
}

impl Many {
    /// Proposes a change on any master, again until it is agreed on.
    async fn change(&self, command: impl Fn(Process) -> Command) {
        loop {
            let running = self.site.lock().unwrap().running();
            if running.is_empty() {
                world::sleep(Duration::from_millis(20)).await;
                continue;
            }
            let at = usize::try_from(world::below(running.len() as u64)).unwrap();
            let (master, group) = running[at].clone();
            match self.proposed(master, group, &command(master)).await {
                Some(Ok(applied)) => {
                    assert_eq!(applied.rejection(), None);
                    return;
                }
                Some(Err(NotAgreed::NoMajority | NotAgreed::Busy)) => {}
                Some(Err(_)) | None => {
                    self.done.repeated.fetch_add(1, Ordering::Relaxed);
                }
            }
            world::sleep(Duration::from_millis(world::below(50))).await;
        }
    }

    async fn proposed(
        &self,
        master: Process,
        group: Masters<Stored>,
        command: &Command,
    ) -> Option<Result<Applied, NotAgreed>> {
        let bytes = encoded(command).unwrap();
        let proposed = site::propose(&self.site, master, group, bytes);
        proposed.await.ok()
    }

    /// Returns the next minion of a kind of work, if one is left.
    fn next(&self, work: usize) -> Option<usize> {
        let minion = self.done.next[work].fetch_add(1, Ordering::Relaxed);
        (minion < self.done.minions).then_some(minion)
    }

    async fn client(self, is_publisher: bool) {
        while let Some(minion) = self.next(0) {
            self.change(|master| enrolment(minion, master)).await;
            self.done.enrolled.fetch_add(1, Ordering::Relaxed);
        }
        while self.done.enrolled.load(Ordering::Relaxed) < self.done.minions {
            world::sleep(Duration::from_millis(10)).await;
        }
        if is_publisher {
            let minions = || (0..self.done.minions).map(id).collect();
            let job = |master| Command::Job {
                jid: JID.to_owned(),
                load: Map::new().with("fun", "test.ping"),
                minions: minions(),
                at_ms: at_ms(master),
            };
            self.change(job).await;
            self.done.is_published.store(true, Ordering::Relaxed);
        }
        while !self.done.is_published.load(Ordering::Relaxed) {
            world::sleep(Duration::from_millis(10)).await;
        }
        while let Some(minion) = self.next(1) {
            self.change(|master| answer(minion, master)).await;
            self.done.returned.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns what a store lacks.
    fn lacking(&self, store: &Store) -> Result<(), String> {
        let [accepted, ..] = store.key_counts().unwrap();
        if accepted != self.done.minions as u64 {
            return Err(format!("{accepted} keys are accepted"));
        }
        let mut tags = BTreeSet::new();
        for event in store.events(0).unwrap() {
            let tag = event.unwrap().tag;
            if !tags.insert(tag.clone()) {
                return Err(format!("the event {tag} is there twice"));
            }
        }
        for minion in 0..self.done.minions {
            let id = id(minion);
            let has_event = tags.contains(&wire::tag::job_ret(JID, &id));
            let is_returned = store.returned(JID, &id).unwrap().is_some();
            if !has_event || !is_returned {
                return Err(format!(
                    "of {id}, event: {has_event}, return: {is_returned}"
                ));
            }
        }
        Ok(())
    }
}

impl Story for Many {
    type State = Stored;

    const FAILING: Duration = Duration::from_secs(60);
    const SNAPSHOT_EVERY: u64 = 20_000;

    fn new(site: Shared<Stored>) -> Self {
        let done = Done {
            minions: usize::try_from(number("PINCH_MINIONS").unwrap_or(0)).unwrap(),
            ..Done::default()
        };
        Self {
            site,
            done: Arc::new(done),
        }
    }

    fn play(&self) {
        for client in 0..CLIENTS {
            world::spawn_on(0, self.clone().client(client == 0));
        }
    }

    /// The masters work once all returns are there.
    async fn works(&self, master: Process, group: Masters<Stored>) -> bool {
        let is_done = self.done.returned.load(Ordering::Relaxed) == self.done.minions;
        let again = enrolment(0, master);
        is_done && matches!(self.proposed(master, group, &again).await, Some(Ok(_)))
    }

    fn checked(&self) -> Result<u64, String> {
        let site = self.site.lock().unwrap();
        let stores = site.machines.values().map(|machine| machine.state.store());
        let stores: Vec<Store> = stores.map(Option::unwrap).collect();
        for store in &stores {
            self.lacking(store)?;
        }
        let digests: BTreeSet<u64> = stores.iter().map(ends::digest_of_rows).collect();
        match digests.len() {
            1 => Ok(self.done.repeated.load(Ordering::Relaxed) as u64),
            _ => Err("masters that have applied the same have different stores".to_owned()),
        }
    }
}

/// Runs the story, and prints its cost.
pub(crate) fn run(minions: u64) -> Result<(), String> {
    let began = Instant::now();
    let ended = site::run::<Many>(SEED, None);
    site::end();
    let repeated = ended?;
    let changes = 2 * minions + 1;
    let spent = began.elapsed();
    println!(
        "{minions} minions enrolled and returned on 5 masters, one of which failed most of the time: {changes} changes, {repeated} of them repeated, in {:.0} s of this machine: {:.0} µs for each change and master",
        spent.as_secs_f64(),
        spent.as_secs_f64() * 1e6 / (changes * 5) as f64
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    println!(
        "memory of the 5 masters' stores and logs together: {}",
        peak.unwrap_or("unknown")
    );
    Ok(())
}
