//! A master and minions in one process, by seeds: events and returns go from the real spools to the real store over connections that
//! are cut at any point, so that what was sent is lost, comes late or comes twice, while either side is started again. In the end
//! every event is there once and in its order, and every return once.
//!
//! Real are the spool, the store and its commands. The rule by which records are sent (`minion/src/uplink/deliver.rs`: a return comes when
//! everything before it is safe) and the master's handling of a frame are written here once more, without their tasks and sockets:
//! those are what `tests/e2e/fleet` runs. To see that nothing passes unnoticed, a sender that breaks the rule must be found out.
//!
//! usage: simulation; `PINCH_SEEDS` says how many (300), `PINCH_SEED` which one is the first (0)
#![allow(
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "this test is a separate program"
)]

#[allow(
    dead_code,
    unfulfilled_lint_expectations,
    unused_imports,
    reason = "this is the master's source file, of which the test uses only a part"
)]
#[path = "../../master-lite/src/store/mod.rs"]
mod store;

mod dice;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use dice::Dice;
use link::PublicKey;
use minion::spool::{self, Entry, Spool};
use store::{Applied, Command, Origin, Store};
use value::Map;
use wire::{Event, Id, Return, tag};

/// The number of seeds that share a store and spools: opening these is most of the cost of a seed.
const TOGETHER: u64 = 25;
const MINIONS: usize = 2;
/// The number of random steps of a seed, before everything is brought to its end.
const STEPS: u64 = 50;
/// The maximum number of steps until everything has come to its end.
const STEPS_MAX: usize = 20_000;

/// The rule by which a minion sends.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// The real rule.
    Patient,
    /// A return goes out before the events ahead of it are safe.
    Hasty,
}

/// A message from the master to a minion.
enum Down {
    Ack(u64),
    /// The return of this number is kept.
    Kept(u64),
}

/// A connection: events keep their order, and a return has a separate stream.
#[derive(Default)]
struct Link {
    events: VecDeque<Event>,
    answer: Option<Return>,
    down: VecDeque<Down>,
    /// The number of the spool's record that is read next.
    next: u64,
    /// The last event that was sent.
    sent: u64,
    /// Up to where the master has everything.
    safe: u64,
    /// The return that is waited for.
    waits: Option<u64>,
}

struct Minion {
    id: Id,
    key: PublicKey,
    folder: PathBuf,
    spool: Option<Spool>,
    link: Option<Link>,
    /// Lost connections, with the events and returns that still reach the master.
    late: VecDeque<Link>,
    /// The numbers of its events that the log must have next.
    events: Vec<i64>,
}

struct World {
    folder: tempfile::TempDir,
    store: Option<Store>,
    minions: Vec<Minion>,
    dice: Dice,
    rule: Rule,
    number: i64,
    /// The jobs, each with the number of the minion that has done it.
    jobs: BTreeMap<String, usize>,
    /// The event of the log that is looked at next.
    seen: u64,
}

/// Returns a folder in memory if possible: the test is about the order of events, not about a disk.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.unwrap()
}

fn opened(folder: &Path) -> Store {
    Store::open(folder, store::Limits::default()).unwrap()
}

impl World {
    fn new(rule: Rule) -> Self {
        let folder = folder();
        let store = opened(&folder.path().join("store"));
        let minion = |at: usize| {
            let id: Id = format!("m{at}").parse().unwrap();
            let key = PublicKey::from_bytes([at as u8 + 1; 32]);
            let accepted = Command::KeyAccepted {
                id: id.clone(),
                key,
                at_ms: 1,
                bound: Map::new(),
                replace: true,
            };
            store.apply_blocking(accepted).unwrap();
            let folder = folder.path().join(format!("m{at}"));
            Minion {
                spool: Some(Spool::open(&folder, spool::Limits::default()).unwrap()),
                id,
                key,
                folder,
                link: None,
                late: VecDeque::new(),
                events: Vec::new(),
            }
        };
        Self {
            minions: (0..MINIONS).map(minion).collect(),
            store: Some(store),
            folder,
            dice: Dice(0),
            rule,
            number: 0,
            jobs: BTreeMap::new(),
            seen: 1,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Runs one seed to its end, and checks the result.
    fn run(&mut self, seed: u64) -> Result<(), String> {
        self.dice = Dice(seed);
        for _ in 0..STEPS {
            let at = self.dice.below(MINIONS as u64) as usize;
            self.step(at);
        }
        self.end()?;
        self.check()
    }

    fn step(&mut self, at: usize) {
        match self.dice.below(100) {
            0..20 => self.happened(at),
            20..30 => self.did(at),
            30..50 => self.send(at),
            50..70 => self.receive(at),
            70..80 => self.hear(at),
            80..85 => self.receive_late(at),
            85..93 => self.connect(at),
            93..98 => self.cut(at),
            98 => self.restart_minion(at),
            _ => self.restart_master(),
        }
    }

    /// Lets a random thing happen on a minion.
    fn happened(&mut self, at: usize) {
        self.number += 1;
        let minion = &mut self.minions[at];
        let event = Event {
            sequence: 0,
            tag: format!("here/{}", minion.id),
            stamp: String::new(),
            data: Map::new().with("n", self.number),
        };
        minion.spool.as_ref().unwrap().push(event).unwrap();
        minion.events.push(self.number);
    }

    /// Lets a minion finish a job.
    fn did(&mut self, at: usize) {
        self.number += 1;
        let jid = format!("20260101{:012}", self.number);
        let minion = &self.minions[at];
        let job = Command::Job {
            jid: jid.clone(),
            load: Map::new().with("fun", "test.ping"),
            minions: vec![minion.id.clone()],
            at_ms: 1,
        };
        self.store().apply_blocking(job).unwrap();
        let answer = Return {
            sequence: 0,
            jid: jid.clone(),
            stamp: String::new(),
            data: Map::new().with("return", self.number),
        };
        minion.spool.as_ref().unwrap().push(answer).unwrap();
        self.jobs.insert(jid, at);
    }

    /// Lets a minion send some of its waiting records.
    fn send(&mut self, at: usize) {
        let (rule, some) = (self.rule, 1 + self.dice.below(4) as usize);
        let minion = &mut self.minions[at];
        let (Some(link), Some(spool)) = (&mut minion.link, &minion.spool) else {
            return;
        };
        if link.waits.is_some() {
            return;
        }
        for entry in spool.from(link.next, some).unwrap() {
            let sequence = entry.sequence();
            match entry {
                Entry::Event(event) => {
                    link.events.push_back(event);
                    link.sent = sequence;
                }
                Entry::Return(_) if rule == Rule::Patient && link.safe < link.sent => return,
                Entry::Return(answer) => {
                    link.answer = Some(answer);
                    link.waits = (rule == Rule::Patient).then_some(sequence);
                }
            }
            link.next = sequence + 1;
            if link.answer.is_some() {
                return;
            }
        }
    }

    /// Lets the master receive one message of a connection.
    fn receive(&mut self, at: usize) {
        let Some(mut link) = self.minions[at].link.take() else {
            return;
        };
        self.take(at, &mut link);
        self.minions[at].link = Some(link);
    }

    /// Lets the master receive one late message of a lost connection.
    fn receive_late(&mut self, at: usize) {
        let Some(mut link) = self.minions[at].late.pop_front() else {
            return;
        };
        self.take(at, &mut link);
        if !link.events.is_empty() || link.answer.is_some() {
            self.minions[at].late.push_front(link);
        }
    }

    fn take(&mut self, at: usize, link: &mut Link) {
        let answers_first = self.dice.below(2) == 0;
        if link.answer.is_some() && (answers_first || link.events.is_empty()) {
            let answer = link.answer.take().unwrap();
            let sequence = answer.sequence;
            self.keep_return(at, answer);
            link.down.push_back(Down::Kept(sequence));
        } else if let Some(event) = link.events.pop_front() {
            let durable = self.keep_event(at, event);
            // An ack also covers all earlier events, so not every event gets an ack.
            if self.dice.below(2) == 0 || link.events.is_empty() {
                link.down.push_back(Down::Ack(durable));
            }
        }
    }

    fn origin(&self, at: usize, sequence: u64) -> Option<Origin> {
        let minion = &self.minions[at];
        Some(Origin {
            id: minion.id.clone(),
            key: minion.key,
            epoch: minion.spool.as_ref().unwrap().epoch(),
            sequence,
        })
    }

    fn keep_event(&self, at: usize, event: Event) -> u64 {
        let kept = self.store().apply_blocking(Command::Event {
            tag: event.tag,
            data: event.data,
            stamp: event.stamp,
            at_ms: 1,
            origin: self.origin(at, event.sequence),
        });
        match kept.unwrap() {
            Applied::Event { durable, .. } | Applied::Duplicate { durable } => durable,
            other => panic!("{other:?}"),
        }
    }

    fn keep_return(&self, at: usize, answer: Return) {
        let id = self.minions[at].id.clone();
        let origin = self.origin(at, answer.sequence);
        let told = Command::Event {
            tag: tag::job_ret(&answer.jid, &id),
            data: answer.data.clone(),
            stamp: answer.stamp,
            at_ms: 1,
            origin: None,
        };
        let kept = Command::Return {
            jid: answer.jid,
            id,
            data: answer.data,
            at_ms: 1,
            origin,
        };
        let applied = self.store().apply_blocking(Command::All(vec![kept, told]));
        assert_eq!(applied.unwrap().rejection(), None);
    }

    /// Lets a minion receive the messages of the master.
    fn hear(&mut self, at: usize) {
        let minion = &mut self.minions[at];
        let (Some(link), Some(spool)) = (&mut minion.link, &minion.spool) else {
            return;
        };
        match link.down.pop_front() {
            Some(Down::Ack(sequence)) => {
                link.safe = link.safe.max(sequence);
                spool.acked(sequence).unwrap();
            }
            Some(Down::Kept(sequence)) => {
                link.waits = None;
                if self.rule == Rule::Patient {
                    link.safe = link.safe.max(sequence);
                    spool.acked(sequence).unwrap();
                }
            }
            None => {}
        }
    }

    fn connect(&mut self, at: usize) {
        self.cut(at);
        let minion = &self.minions[at];
        let spool = minion.spool.as_ref().unwrap();
        let durable = self.store().durable(&minion.id, &minion.key, spool.epoch());
        let durable = durable.unwrap();
        spool.acked(durable).unwrap();
        let link = Link {
            next: durable + 1,
            safe: durable,
            ..Link::default()
        };
        self.minions[at].link = Some(link);
    }

    /// Cuts a connection: some of the messages on their way arrive late, the others never.
    fn cut(&mut self, at: usize) {
        let Some(mut link) = self.minions[at].link.take() else {
            return;
        };
        let comes = self.dice.below(link.events.len() as u64 + 1) as usize;
        link.events.truncate(comes);
        if self.dice.below(2) == 0 {
            link.answer = None;
        }
        self.minions[at].late.push_back(link);
    }

    fn restart_minion(&mut self, at: usize) {
        self.cut(at);
        let minion = &mut self.minions[at];
        minion.spool = None;
        minion.spool = Some(Spool::open(&minion.folder, spool::Limits::default()).unwrap());
    }

    fn restart_master(&mut self) {
        for minion in &mut self.minions {
            (minion.link, minion.late) = (None, VecDeque::new());
        }
        self.store = None;
        self.store = Some(opened(&self.folder.path().join("store")));
    }

    /// Connects everything, and lets all pending work finish.
    fn end(&mut self) -> Result<(), String> {
        for at in 0..MINIONS {
            self.connect(at);
        }
        for _ in 0..STEPS_MAX {
            for at in 0..MINIONS {
                self.receive_late(at);
                self.send(at);
                self.receive(at);
                self.hear(at);
            }
            let is_done = |minion: &Minion| {
                minion.late.is_empty() && minion.spool.as_ref().is_some_and(Spool::is_empty)
            };
            if self.minions.iter().all(is_done) {
                return Ok(());
            }
        }
        Err("the simulation does not come to an end".to_owned())
    }

    /// Checks the log since the last check, and the returns of the jobs.
    fn check(&mut self) -> Result<(), String> {
        let mut events: Vec<Vec<i64>> = vec![Vec::new(); MINIONS];
        let mut answers: BTreeMap<String, u64> = BTreeMap::new();
        for event in self.store().events(self.seen).unwrap().collect::<Vec<_>>() {
            let event = event.unwrap();
            self.seen = event.sequence + 1;
            match event.tag.strip_prefix("here/m") {
                Some(at) => {
                    let number = event.data.get("n").unwrap().as_int().unwrap();
                    events[at.parse::<usize>().unwrap()].push(number);
                }
                None => *answers.entry(event.tag).or_default() += 1,
            }
        }
        for (minion, found) in self.minions.iter_mut().zip(events) {
            let wanted = std::mem::take(&mut minion.events);
            if wanted != found {
                return Err(format!(
                    "{} sent {wanted:?}, but the log has {found:?}",
                    minion.id
                ));
            }
        }
        for (jid, at) in std::mem::take(&mut self.jobs) {
            let id = &self.minions[at].id;
            let told = answers.remove(&tag::job_ret(&jid, id)).unwrap_or_default();
            let kept = self.store().returned(&jid, id).unwrap().is_some();
            if told != 1 || !kept {
                return Err(format!(
                    "the return of {jid} was announced {told} times; kept: {kept}"
                ));
            }
        }
        match answers.is_empty() {
            true => Ok(()),
            false => Err(format!("the log has {answers:?}, which no minion sent")),
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    let said = std::env::var(name).ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(default)
}

/// The first seed of a world, and its failure.
fn found(rule: Rule, first: u64, count: u64) -> Result<(), String> {
    let mut world = World::new(rule);
    for seed in first..first + count {
        let done = world.run(seed);
        done.map_err(|wrong| {
            format!("seed {seed}: {wrong}\nagain: PINCH_SEED={first} PINCH_SEEDS={count}")
        })?;
    }
    Ok(())
}

fn main() {
    let (first, count) = (number("PINCH_SEED", 0), number("PINCH_SEEDS", 300));
    let (next, end) = (AtomicU64::new(first), first + count);
    let worlds = || {
        loop {
            let seed = next.fetch_add(TOGETHER, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let together = TOGETHER.min(end - seed);
            found(Rule::Patient, seed, together).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, Into::into);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(worlds);
        }
    });
    let hasty = found(Rule::Hasty, 0, TOGETHER);
    assert!(
        hasty.is_err(),
        "a sender that breaks the rule is not detected"
    );
    println!("{count} seeds: nothing lost, nothing duplicated");
}
