//! [`Site`]: machines with their disks and masters, and the ways in which they fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::core::Member;
use cluster::raft::channels::Answers;
use cluster::raft::log::Log;
use cluster::raft::{Group, Machine, NotAgreed, Settings};
use openraft::async_runtime::{Oneshot, OneshotSender, WatchReceiver};
use openraft::{ChangeMembers, Config};

use crate::disk::SimDisk;
use crate::net::{self, SimLink};
use crate::world::{self, Process, Sim};

/// The maximum time until a cluster whose masters run works again.
const RECOVERY_MAX: Duration = Duration::from_secs(10);
/// The time that a client waits for its result.
pub const PATIENCE: Duration = Duration::from_secs(2);

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
    /// Proposals of a leader take effect in later terms.
    #[allow(
        dead_code,
        reason = "only one of the two simulations has leaders that propose"
    )]
    NoFence,
    /// A new leader reads its state before it has applied the log of the leaders before it.
    #[allow(
        dead_code,
        reason = "only one of the two simulations has leaders that propose"
    )]
    NoBarrier,
    /// Proposals of a leader take effect after it has stopped, when it leads again in the same term.
    #[allow(
        dead_code,
        reason = "only one of the two simulations has leaders that propose"
    )]
    OpenFence,
}

/// The state of a machine's master. It outlives the processes of the machine, and clones share it.
pub trait State: Machine + Clone {
    /// Creates the state of a new machine.
    fn new(sabotage: Option<Sabotage>) -> Self;

    /// Makes the state ready for a process that starts.
    fn start(&self);

    /// Ends the use of the state, and loses what is not on the disk.
    fn fail(&self);
}

/// Something that clients do with a site, and the checks of it.
pub trait Story: Clone + Send + Sync + 'static {
    /// The state of the masters.
    type State: State;

    /// The time in which masters fail.
    const FAILING: Duration;
    /// The number of entries of the log after which a master makes a snapshot.
    const SNAPSHOT_EVERY: u64 = 40;

    /// Begins a story.
    fn new(site: Shared<Self::State>) -> Self;

    /// Starts the clients, which end when the site says that the story is over.
    fn play(&self);

    /// Lets a client write on a master. Returns whether that is known to have worked.
    fn works(
        &self,
        master: Process,
        group: Masters<Self::State>,
    ) -> impl Future<Output = bool> + Send;

    /// Returns what does not hold, or a hash of all that happened. All masters run, and have applied
    /// the same.
    fn checked(&self) -> Result<u64, String>;
}

/// The group of a master.
pub type Masters<S> = Group<Sim, S>;

/// A machine with its disk, and the master that may run on it.
pub struct Host<S: State> {
    disk: SimDisk,
    pub state: S,
    pub boot: u64,
    group: Option<Masters<S>>,
}

/// The machines.
pub struct Site<S: State> {
    pub machines: BTreeMap<Process, Host<S>>,
    founders: BTreeMap<u64, Member>,
    snapshot_every: u64,
    pub sabotage: Option<Sabotage>,
    pub is_over: bool,
    /// The numbers of machines that were replaced because their disk was lost.
    replaced: u64,
    /// The machines whose disk is lost, each with the one that takes its place, until both changes
    /// are agreed on.
    leaving: Vec<(u64, u64)>,
}

pub type Shared<S> = Arc<Mutex<Site<S>>>;

fn member(number: u64) -> Member {
    Member {
        name: format!("m{number}"),
        level: 1,
        ..Member::default()
    }
}

fn config(sabotage: Option<Sabotage>, snapshot_every: u64) -> Config {
    let settings = Settings {
        snapshot_every,
        kept_entries: 5,
        ..Settings::default()
    };
    Config {
        enable_leader_restore: Some(sabotage == Some(Sabotage::LeaderRestored)),
        ..settings.config()
    }
}

impl<S: State> Site<S> {
    fn host(&self) -> Host<S> {
        Host {
            disk: SimDisk::new(self.sabotage == Some(Sabotage::AcknowledgedBeforeSync)),
            state: S::new(self.sabotage),
            boot: 0,
            group: None,
        }
    }

    /// Returns the masters that run.
    pub fn running(&self) -> Vec<(Process, Masters<S>)> {
        let running = self.machines.iter();
        running
            .filter_map(|(number, machine)| Some((*number, machine.group.clone()?)))
            .collect()
    }
}

/// Starts the master of a machine.
fn start<S: State>(site: &Shared<S>, number: u64) {
    let (disk, state, boot, founders, config) = {
        let mut site = site.lock().unwrap();
        let config = config(site.sabotage, site.snapshot_every);
        let founders = site.founders.clone();
        let machine = site.machines.get_mut(&number).unwrap();
        machine.boot += 1;
        (
            machine.disk.clone(),
            machine.state.clone(),
            machine.boot,
            founders,
            config,
        )
    };
    state.start();
    let site = site.clone();
    world::spawn_on(number, async move {
        let log = Log::open(disk, 0).unwrap();
        let link = SimLink(number);
        let started = Masters::start((number, boot), config, log, Arc::new(state), link);
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

/// Ends the master of a machine, which loses its power.
fn kill<S: State>(site: &Shared<S>, number: u64) {
    net::disconnect(number);
    world::kill(number);
    let (group, disk, state) = {
        let mut site = site.lock().unwrap();
        let machine = site.machines.get_mut(&number).unwrap();
        (
            machine.group.take(),
            machine.disk.clone(),
            machine.state.clone(),
        )
    };
    drop(group);
    disk.fail();
    state.fail();
}

/// The result of a proposal. It is an error if the master was killed.
type Proposed<S> = Result<Result<<S as Machine>::Outcome, NotAgreed>, ()>;

/// Proposes a command on a master. With [`Sabotage::NoDuplicatesFound`], an unknown result makes it
/// another proposal.
pub async fn propose<S: State>(
    site: &Shared<S>,
    master: Process,
    group: Masters<S>,
    command: Vec<u8>,
) -> Proposed<S> {
    let sabotage = site.lock().unwrap().sabotage;
    let repeats = sabotage == Some(Sabotage::NoDuplicatesFound);
    let (sender, result) = Answers::channel();
    world::spawn_on(master, async move {
        let mut result = group.propose(command.clone(), None, PATIENCE).await;
        if repeats && matches!(result, Err(NotAgreed::Unknown)) {
            result = group.propose(command, None, PATIENCE).await;
        }
        let _ = sender.send(result);
    });
    result.await.map_err(drop)
}

/// Lets something fail.
async fn fail<S: State>(site: &Shared<S>) {
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
fn restart<S: State>(site: &Shared<S>, number: u64) {
    let sabotage = site.lock().unwrap().sabotage;
    if sabotage == Some(Sabotage::EmptyDiskUnderOldNumber) && world::below(2) == 0 {
        let mut site = site.lock().unwrap();
        let empty = site.host();
        let machine = site.machines.get_mut(&number).unwrap();
        (machine.disk, machine.state) = (empty.disk, empty.state);
    }
    start(site, number);
}

/// Replaces a machine whose disk is lost: a new one joins under a new number, and the old one leaves.
async fn lose_disk<S: State>(site: &Shared<S>, number: u64) {
    kill(site, number);
    let (new, old_machine) = {
        let mut site = site.lock().unwrap();
        site.replaced += 1;
        let new = 100 + site.replaced;
        let machine = site.host();
        site.machines.insert(new, machine);
        (new, site.machines.remove(&number))
    };
    drop(old_machine);
    start(site, new);
    {
        let mut site = site.lock().unwrap();
        // One that has not joined yet is replaced in its place.
        match site.leaving.iter_mut().find(|(_, joins)| *joins == number) {
            Some((_, joins)) => *joins = new,
            None => site.leaving.push((number, new)),
        }
    }
    replace(site, Duration::from_secs(10)).await;
}

/// Lets new machines join, and those leave whose disk is lost.
async fn replace<S: State>(site: &Shared<S>, within: Duration) {
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
pub fn run<T: Story>(seed: u64, sabotage: Option<Sabotage>) -> Result<u64, String> {
    world::begin(seed);
    net::begin();
    let count = if seed % 5 == 4 { 5 } else { 3 };
    let founders: BTreeMap<u64, Member> =
        (1..=count).map(|number| (number, member(number))).collect();
    let site = Arc::new(Mutex::new(Site {
        machines: BTreeMap::new(),
        founders: founders.clone(),
        snapshot_every: T::SNAPSHOT_EVERY,
        sabotage,
        is_over: false,
        replaced: 0,
        leaving: Vec::new(),
    }));
    for number in founders.keys() {
        let mut locked = site.lock().unwrap();
        let machine = locked.host();
        locked.machines.insert(*number, machine);
    }
    let numbers = founders.keys().copied().collect();
    world::run(tell(site.clone(), T::new(site), numbers))
}

/// Drops what a story has left.
pub fn end() {
    net::begin();
    world::begin(0);
}

async fn tell<T: Story>(
    site: Shared<T::State>,
    story: T,
    numbers: Vec<u64>,
) -> Result<u64, String> {
    for number in numbers {
        start(&site, number);
    }
    story.play();
    while world::now() < T::FAILING {
        world::sleep(Duration::from_millis(world::below(800))).await;
        fail(&site).await;
    }
    net::with(|net| {
        net.cut.clear();
        net.loss = 0;
    });
    replace(&site, RECOVERY_MAX).await;
    recovers(&site, &story).await?;
    site.lock().unwrap().is_over = true;
    world::sleep(PATIENCE * 3).await;
    agree(&site).await?;
    story.checked()
}

/// Checks that each master can write within a while.
async fn recovers<T: Story>(site: &Shared<T::State>, story: &T) -> Result<(), String> {
    let end = world::now() + RECOVERY_MAX;
    loop {
        let running = site.lock().unwrap().running();
        let is_complete = running.len() == site.lock().unwrap().machines.len();
        let mut works = is_complete;
        for (number, group) in running {
            works &= story.works(number, group).await;
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

fn states<S: State>(site: &Shared<S>) -> String {
    let running = site.lock().unwrap().running();
    let state = |(number, group): &(u64, Masters<S>)| {
        let metrics = group.raft().metrics();
        let metrics = metrics.borrow_watched().to_string();
        format!("\n  {number}: {metrics}")
    };
    running.iter().map(state).collect()
}

/// Waits until all masters have applied the same.
async fn agree<S: State>(site: &Shared<S>) -> Result<(), String> {
    let end = world::now() + RECOVERY_MAX;
    loop {
        let controls: Vec<_> = {
            let site = site.lock().unwrap();
            let machines = site.machines.values();
            machines
                .map(|machine| machine.state.control().unwrap())
                .collect()
        };
        if controls.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(());
        }
        if world::now() > end {
            return Err(format!("masters do not catch up: {}", states(site)));
        }
        world::sleep(Duration::from_millis(50)).await;
    }
}
