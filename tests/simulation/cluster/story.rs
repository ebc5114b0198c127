//! One story: masters that fail in every way that chance finds, clients that write and read
//! meanwhile, and what must hold in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::core::Member;
use cluster::raft::channels::Answers;
use cluster::raft::log::Log;
use cluster::raft::{Group, NotAgreed, Settings};
use openraft::async_runtime::{Oneshot, OneshotSender, WatchReceiver};
use openraft::{ChangeMembers, Config};

use crate::book::{Book, Content, Write};
use crate::check::{self, Operation};
use crate::disk::SimDisk;
use crate::net::{self, SimLink};
use crate::world::{self, Process, Sim};

/// The time in which masters fail.
const FAILING: Duration = Duration::from_secs(20);
/// The maximum time until a cluster whose masters run works again.
const RECOVERY_MAX: Duration = Duration::from_secs(10);
/// The time that a client waits for its result.
const PATIENCE: Duration = Duration::from_secs(2);
const CLIENTS: u64 = 4;
const KEYS: u64 = 3;

/// A defect of the cluster, which the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A disk says that it has synced before it has.
    AcknowledgedBeforeSync,
    /// A leader that was killed continues in its term.
    LeaderRestored,
    /// A master whose disk is empty comes back under its number.
    EmptyDiskUnderOldNumber,
    /// The log is cut before the state is on the disk.
    CutBeforeSync,
    /// A proposal that is tried twice is two proposals.
    NoDuplicatesFound,
}

type Masters = Group<Sim, Book>;

/// A machine with its disk, and the master that may run on it.
struct Machine {
    disk: SimDisk,
    book: Book,
    boot: u64,
    group: Option<Masters>,
}

/// The machines, and what the clients have seen.
struct Site {
    machines: BTreeMap<u64, Machine>,
    founders: BTreeMap<u64, Member>,
    sabotage: Option<Sabotage>,
    /// The operations whose result is known, or may be one.
    history: Vec<(u64, Operation)>,
    /// The operations that were certainly not done.
    refused: BTreeSet<u64>,
    operations: u64,
    is_over: bool,
    /// The numbers of machines that were replaced because their disk was lost.
    replaced: u64,
    /// The machines whose disk is lost, each with the one that takes its place, until both changes
    /// are agreed on.
    leaving: Vec<(u64, u64)>,
}

type Shared = Arc<Mutex<Site>>;

fn member(number: u64) -> Member {
    Member {
        name: format!("m{number}"),
        level: 1,
        ..Member::default()
    }
}

fn config(sabotage: Option<Sabotage>) -> Config {
    let settings = Settings {
        snapshot_every: 40,
        kept_entries: 5,
        ..Settings::default()
    };
    Config {
        enable_leader_restore: Some(sabotage == Some(Sabotage::LeaderRestored)),
        ..settings.config()
    }
}

impl Site {
    fn machine(&self) -> Machine {
        Machine {
            disk: SimDisk::new(self.sabotage == Some(Sabotage::AcknowledgedBeforeSync)),
            book: Book::new(self.sabotage == Some(Sabotage::CutBeforeSync)),
            boot: 0,
            group: None,
        }
    }

    fn running(&self) -> Vec<(u64, Masters)> {
        let running = self.machines.iter();
        running
            .filter_map(|(number, machine)| Some((*number, machine.group.clone()?)))
            .collect()
    }
}

/// Starts the master of a machine.
fn start(site: &Shared, number: u64) {
    let (disk, book, boot, founders, config) = {
        let mut site = site.lock().unwrap();
        let config = config(site.sabotage);
        let founders = site.founders.clone();
        let machine = site.machines.get_mut(&number).unwrap();
        machine.boot += 1;
        (
            machine.disk.clone(),
            machine.book.clone(),
            machine.boot,
            founders,
            config,
        )
    };
    let site = site.clone();
    world::spawn_on(number, async move {
        let log = Log::open(disk, 0).unwrap();
        let link = SimLink(number);
        let started = Masters::start((number, boot), config, log, Arc::new(book), link);
        let group = started.await.unwrap();
        let answering = group.clone();
        net::connect(
            number,
            Arc::new(move |message| {
                let group = answering.clone();
                Box::pin(async move { group.answer(&message).await.ok() })
            }),
        );
        if founders.contains_key(&number) {
            // It fails if the master has a log by now.
            let _ = group.found(founders).await;
        }
        let mut site = site.lock().unwrap();
        if let Some(machine) = site.machines.get_mut(&number) {
            machine.group = Some(group);
        }
    });
}

/// Kills the master of a machine; `power` says that the machine loses its power, too.
fn kill(site: &Shared, number: u64) {
    net::disconnect(number);
    world::kill(number);
    let (group, disk, book) = {
        let mut site = site.lock().unwrap();
        let machine = site.machines.get_mut(&number).unwrap();
        (
            machine.group.take(),
            machine.disk.clone(),
            machine.book.clone(),
        )
    };
    drop(group);
    disk.fail();
    book.fail();
}

/// Runs operations one after the other until the story is over.
async fn client(site: Shared) {
    loop {
        world::sleep(Duration::from_millis(world::below(60))).await;
        let (running, write) = {
            let mut site = site.lock().unwrap();
            if site.is_over {
                return;
            }
            site.operations += 1;
            let operation = site.operations;
            let value = (world::below(3) > 0).then_some(operation);
            let write = Write {
                operation,
                key: world::below(KEYS),
                value,
            };
            (site.running(), write)
        };
        if !running.is_empty() {
            let at = usize::try_from(world::below(running.len() as u64)).unwrap();
            let (number, group) = running[at].clone();
            operate(&site, number, group, write).await;
        }
    }
}

/// Runs an operation on a master, and writes down what became of it.
async fn operate(site: &Shared, number: Process, group: Masters, write: Write) {
    let repeats = site.lock().unwrap().sabotage == Some(Sabotage::NoDuplicatesFound);
    let called = world::now();
    let (sender, result) = Answers::channel();
    world::spawn_on(number, async move {
        let mut result = propose(&group, write).await;
        if repeats && result == Err(NotAgreed::Unknown) {
            result = propose(&group, write).await;
        }
        let _ = sender.send(result);
    });
    let result = result.await;
    let operation = |returned, found| Operation {
        number: write.operation,
        called,
        returned,
        value: write.value,
        found,
    };
    let mut site = site.lock().unwrap();
    match result {
        Ok(Ok(found)) => {
            let known = operation(Some(world::now()), found);
            site.history.push((write.key, known));
        }
        Ok(Err(NotAgreed::NoMajority | NotAgreed::Busy)) => {
            site.refused.insert(write.operation);
        }
        Ok(Err(_)) | Err(_) => site.history.push((write.key, operation(None, None))),
    }
}

async fn propose(group: &Masters, write: Write) -> Result<Option<u64>, NotAgreed> {
    group.propose(Book::command(write), None, PATIENCE).await
}

/// Lets something fail.
async fn fail(site: &Shared) {
    let numbers: Vec<u64> = site.lock().unwrap().machines.keys().copied().collect();
    let any = || numbers[usize::try_from(world::below(numbers.len() as u64)).unwrap()];
    match world::below(10) {
        0..=2 => {
            let number = any();
            kill(site, number);
            world::sleep(Duration::from_millis(world::below(1500))).await;
            restart(site, number);
        }
        3 => {
            // All lose their power.
            for number in &numbers {
                kill(site, *number);
            }
            world::sleep(Duration::from_millis(world::below(500))).await;
            for number in &numbers {
                restart(site, *number);
            }
        }
        4 => world::pause(any(), Duration::from_millis(world::below(3000))),
        5 | 6 => {
            let alone: BTreeSet<u64> = (0..=world::below(2)).map(|_| any()).collect();
            let is_one_way = world::below(2) == 0;
            net::with(|net| {
                for one in &alone {
                    for other in numbers.iter().filter(|other| !alone.contains(other)) {
                        net.cut.insert((*one, *other));
                        if !is_one_way {
                            net.cut.insert((*other, *one));
                        }
                    }
                }
            });
            world::sleep(Duration::from_millis(world::below(3000))).await;
            net::with(|net| net.cut.clear());
        }
        7 => net::with(|net| net.loss = world::below(50)),
        8 => net::with(|net| net.loss = 0),
        _ => lose_disk(site, any()).await,
    }
}

/// Starts a machine after a failure.
fn restart(site: &Shared, number: u64) {
    let sabotage = site.lock().unwrap().sabotage;
    if sabotage == Some(Sabotage::EmptyDiskUnderOldNumber) && world::below(2) == 0 {
        let mut site = site.lock().unwrap();
        let empty = site.machine();
        let machine = site.machines.get_mut(&number).unwrap();
        (machine.disk, machine.book) = (empty.disk, empty.book);
    }
    start(site, number);
}

/// Replaces a machine whose disk is lost: a new one joins under a new number, and the old one leaves.
async fn lose_disk(site: &Shared, number: u64) {
    kill(site, number);
    let (new, old_machine) = {
        let mut site = site.lock().unwrap();
        site.replaced += 1;
        let new = 100 + site.replaced;
        let machine = site.machine();
        site.machines.insert(new, machine);
        (new, site.machines.remove(&number))
    };
    drop(old_machine);
    start(site, new);
    site.lock().unwrap().leaving.push((number, new));
    replace(site, Duration::from_secs(10)).await;
}

/// Lets new machines join, and those leave whose disk is lost.
async fn replace(site: &Shared, within: Duration) {
    let end = world::now() + within;
    loop {
        let next = site.lock().unwrap().leaving.first().copied();
        let Some((number, new)) = next else { return };
        if world::now() > end {
            return;
        }
        world::sleep(Duration::from_millis(100)).await;
        let running = site.lock().unwrap().running();
        let leader = running
            .into_iter()
            .find(|(_, group)| group.raft().is_leader());
        let Some((leader, group)) = leader else {
            continue;
        };
        let (sender, changed) = Answers::channel();
        world::spawn_on(leader, async move {
            let raft = group.raft();
            let learns = raft.add_learner(new, member(new), true).await;
            if learns.is_err() {
                return;
            }
            let old: BTreeSet<u64> = raft.voter_ids().collect();
            let mut voters = old.clone();
            voters.remove(&number);
            voters.insert(new);
            let members = ChangeMembers::ReplaceAllVoters(voters);
            if raft.change_membership(members, false).await.is_ok() {
                let _ = sender.send(());
            }
        });
        let limited = <Sim as openraft::AsyncRuntime>::timeout(Duration::from_secs(5), changed);
        if matches!(limited.await, Ok(Ok(()))) {
            site.lock().unwrap().leaving.remove(0);
        }
    }
}

/// Runs a story. Returns what does not hold, or a hash of all that happened.
pub fn run(seed: u64, sabotage: Option<Sabotage>) -> Result<u64, String> {
    world::begin(seed);
    net::begin();
    let count = if seed % 5 == 4 { 5 } else { 3 };
    let founders: BTreeMap<u64, Member> =
        (1..=count).map(|number| (number, member(number))).collect();
    let site: Shared = Arc::new(Mutex::new(Site {
        machines: BTreeMap::new(),
        founders: founders.clone(),
        sabotage,
        history: Vec::new(),
        refused: BTreeSet::new(),
        operations: 0,
        is_over: false,
        replaced: 0,
        leaving: Vec::new(),
    }));
    for number in founders.keys() {
        let mut locked = site.lock().unwrap();
        let machine = locked.machine();
        locked.machines.insert(*number, machine);
    }
    world::run(tell(site, founders.keys().copied().collect()))
}

/// Drops what a story has left.
pub fn end() {
    net::begin();
    world::begin(0);
}

async fn tell(site: Shared, numbers: Vec<u64>) -> Result<u64, String> {
    for number in numbers {
        start(&site, number);
    }
    for _ in 0..CLIENTS {
        world::spawn_on(0, client(site.clone()));
    }
    while world::now() < FAILING {
        world::sleep(Duration::from_millis(world::below(800))).await;
        fail(&site).await;
    }
    net::with(|net| {
        net.cut.clear();
        net.loss = 0;
    });
    replace(&site, RECOVERY_MAX).await;
    recovers(&site).await?;
    site.lock().unwrap().is_over = true;
    world::sleep(PATIENCE * 3).await;
    let contents = agree(&site).await?;
    let site = site.lock().unwrap();
    checked(&site, &contents)
}

/// Checks that each master can write within a while.
async fn recovers(site: &Shared) -> Result<(), String> {
    let end = world::now() + RECOVERY_MAX;
    loop {
        let running = site.lock().unwrap().running();
        let is_complete = running.len() == site.lock().unwrap().machines.len();
        let mut works = is_complete;
        for (number, group) in running {
            let write = {
                let mut site = site.lock().unwrap();
                site.operations += 1;
                Write {
                    operation: site.operations,
                    key: 0,
                    value: Some(site.operations),
                }
            };
            operate(site, number, group, write).await;
            let site = site.lock().unwrap();
            let last = site.history.last();
            works &= last
                .is_some_and(|(_, last)| last.number == write.operation && last.returned.is_some());
        }
        if works {
            return Ok(());
        }
        if world::now() > end {
            return Err(format!(
                "no recovery within {RECOVERY_MAX:?}: {}",
                states(site)
            ));
        }
        world::sleep(Duration::from_millis(100)).await;
    }
}

fn states(site: &Shared) -> String {
    let running = site.lock().unwrap().running();
    let state = |(number, group): &(u64, Masters)| {
        let metrics = group.raft().metrics();
        let metrics = metrics.borrow_watched().to_string();
        format!("\n  {number}: {metrics}")
    };
    running.iter().map(state).collect()
}

/// Waits until all masters have applied the same.
async fn agree(site: &Shared) -> Result<Vec<Content>, String> {
    let end = world::now() + RECOVERY_MAX;
    loop {
        let contents: Vec<Content> = {
            let site = site.lock().unwrap();
            let books = site.machines.values();
            books.map(|machine| machine.book.content()).collect()
        };
        if contents
            .windows(2)
            .all(|pair| pair[0].control == pair[1].control)
        {
            return Ok(contents);
        }
        if world::now() > end {
            return Err(format!("masters do not catch up: {}", states(site)));
        }
        world::sleep(Duration::from_millis(50)).await;
    }
}

fn checked(site: &Site, contents: &[Content]) -> Result<u64, String> {
    let first = contents.first().ok_or("no master is left")?;
    if contents.iter().any(|other| other != first) {
        return Err("masters that have applied the same have different states".to_owned());
    }
    for (number, count) in &first.applied {
        if *count != 1 {
            return Err(format!("operation {number} was done {count} times"));
        }
        if site.refused.contains(number) {
            return Err(format!("operation {number} was refused, and done"));
        }
    }
    for (_, operation) in &site.history {
        if operation.returned.is_some() && !first.applied.contains_key(&operation.number) {
            return Err(format!(
                "operation {} was acknowledged, and is lost",
                operation.number
            ));
        }
    }
    let known = site.history.iter().filter(|(_, operation)| {
        operation.returned.is_some() || first.applied.contains_key(&operation.number)
    });
    for (key, operations) in check::by_key(known.copied().collect()) {
        if !check::linearizable(operations) {
            return Err(format!(
                "the operations on the register {key} have no order"
            ));
        }
    }
    Ok(first.digest ^ site.operations)
}
