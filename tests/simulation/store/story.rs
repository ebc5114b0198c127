//! [`Fleet`]: clients, minions and reactors of several masters.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cluster::raft::NotAgreed;

use crate::acts::{self, Act, CLAIM, Call, Known, Thing, USES};
use crate::check::Operation;
use crate::machine::Stored;
use crate::site::{self, Masters, Sabotage, Shared, Story};
use crate::store::replica::encoded;
use crate::store::{Applied, Command, Store};
use crate::world::{self, Process};
use crate::{ends, minions, reactions};

const CLIENTS: u64 = 4;
const MINIONS: u64 = 3;
const KEYS: u64 = 3;
const JOBS: u64 = 40;
const RUNS: u64 = 2;
const RINGS: u64 = 2;
const OWNERS: u64 = 3;

/// The results of clients and minions.
#[derive(Default)]
pub(crate) struct Seen {
    /// The operations whose result is known, or may be one.
    pub(crate) history: Vec<Known>,
    /// The operations that were certainly not done.
    pub(crate) refused: BTreeSet<u64>,
    pub(crate) operations: u64,
    /// The number of records of each minion that were acknowledged.
    pub(crate) acknowledged: [u64; minions::COUNT],
}

/// The users of a cluster whose state is the master's store.
#[derive(Clone)]
pub(crate) struct Fleet {
    site: Shared<Stored>,
    seen: Arc<Mutex<Seen>>,
}

/// A master that runs.
pub(crate) struct Chosen {
    pub(crate) master: Process,
    pub(crate) group: Masters<Stored>,
    pub(crate) store: Store,
}

impl Fleet {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.site.lock().unwrap().is_over
    }

    pub(crate) fn sabotage(&self) -> Option<Sabotage> {
        self.site.lock().unwrap().sabotage
    }

    /// Returns the masters that run.
    pub(crate) fn running(&self) -> Vec<Chosen> {
        let site = self.site.lock().unwrap();
        let of = |(master, group)| Chosen {
            master,
            group,
            store: site.machines[&master].state.store().unwrap(),
        };
        site.running().into_iter().map(of).collect()
    }

    /// Returns the number of the start of a master.
    pub(crate) fn boot(&self, master: Process) -> u64 {
        self.site.lock().unwrap().machines[&master].boot
    }

    /// Returns any of the masters that run.
    pub(crate) fn any_master(&self) -> Option<Chosen> {
        let mut running = self.running();
        if running.is_empty() {
            return None;
        }
        let at = usize::try_from(world::below(running.len() as u64)).unwrap();
        Some(running.swap_remove(at))
    }

    /// Proposes a command on a master.
    pub(crate) async fn propose(
        &self,
        master: Process,
        group: Masters<Stored>,
        command: &Command,
    ) -> Option<Result<Applied, NotAgreed>> {
        let bytes = encoded(command).unwrap();
        let proposed = site::propose(&self.site, master, group, bytes);
        proposed.await.ok()
    }

    /// Runs operations one after the other until the story is over.
    async fn client(self) {
        loop {
            world::sleep(Duration::from_millis(world::below(60))).await;
            if self.is_over() {
                return;
            }
            let chosen = self.any_master().map(|chosen| {
                let call = some_call(&chosen.store, self.seen().operations);
                (chosen.master, chosen.group, call)
            });
            if let Some((master, group, call)) = chosen {
                self.operate(master, group, call).await;
            }
        }
    }

    /// Runs an operation on a master, and writes down what became of it. Returns whether its result is
    /// known.
    async fn operate(&self, master: Process, group: Masters<Stored>, call: Call) -> bool {
        let number = {
            let mut seen = self.seen();
            seen.operations += 1;
            seen.operations
        };
        let called = world::now();
        let command = call.command(number, at_ms(master));
        let result = self.propose(master, group, &command).await;
        let operation = |returned| Operation {
            number,
            called,
            returned,
            call,
        };
        let mut seen = self.seen();
        match result {
            Some(Ok(applied)) => {
                let known = (world::now(), acts::answer(&applied));
                seen.history.push(operation(Some(known)));
                return true;
            }
            Some(Err(NotAgreed::NoMajority | NotAgreed::Busy)) => {
                seen.refused.insert(number);
            }
            Some(Err(_)) | None => seen.history.push(operation(None)),
        }
        false
    }

    /// Runs a reactor on each master that starts.
    async fn react(self) {
        let mut known = BTreeSet::new();
        loop {
            for Chosen { master, .. } in self.running() {
                if known.insert((master, self.boot(master))) {
                    world::spawn_on(master, reactions::follow(self.clone(), master));
                }
            }
            world::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Returns the time of a master's clock. That of every second one is an hour ahead.
pub(crate) fn at_ms(master: Process) -> u64 {
    let ahead = master % 2 * 3_600_000;
    1_800_000_000_000 + ahead + u64::try_from(world::now().as_millis()).unwrap()
}

/// Returns what a client of a master may do, as far as its store shows.
fn some_call(store: &Store, operations: u64) -> Call {
    match world::below(10) {
        0..=2 => about_key(),
        3..=5 => about_token(store, operations),
        6 => Call {
            // The masters number jobs by their clocks: two may take the same number.
            thing: Thing::Job(operations / 30 % JOBS),
            act: Act::Publish {
                fun: world::below(2),
            },
        },
        7 | 8 => about_run(store),
        _ => Call {
            thing: Thing::Ring(world::below(RINGS)),
            act: match world::below(2) {
                0 => Act::RingCreate,
                _ => Act::RingDestroy,
            },
        },
    }
}

fn about_key() -> Call {
    let key = u8::try_from(world::below(KEYS)).unwrap();
    Call {
        thing: Thing::Minion(world::below(MINIONS)),
        act: match world::below(6) {
            0 | 1 => Act::Offer { key },
            2 | 3 => Act::Accept { key },
            4 => Act::Reject { key },
            _ => Act::Delete { key },
        },
    }
}

fn about_token(store: &Store, operations: u64) -> Call {
    let mut usable = Vec::new();
    for token in store.tokens().unwrap() {
        let (name, row) = token.unwrap();
        let number = name
            .strip_prefix("token/")
            .map(|name| name.parse().unwrap());
        let used = acts::number(&row, "used");
        usable.extend(number.zip(used.filter(|used| *used < USES)));
    }
    if usable.is_empty() || world::below(8) == 0 {
        return Call {
            // No other client has this number of operations when it chooses.
            thing: Thing::Token(operations * 1000 + world::below(1000)),
            act: Act::Create,
        };
    }
    let at = usize::try_from(world::below(usable.len() as u64)).unwrap();
    let (token, used) = usable[at];
    Call {
        thing: Thing::Token(token),
        act: Act::Enrol { used },
    }
}

fn about_run(store: &Store) -> Call {
    let thing = Thing::Run(world::below(RUNS));
    let known = acts::number_of(store, &thing);
    let owner = known.filter(|_| world::below(5) > 0);
    let owner = owner.unwrap_or_else(|| world::below(OWNERS));
    let act = match world::below(7) {
        0 | 1 => Act::Begin { owner },
        2 => Act::Copy { owner },
        3 | 4 => Act::Step { owner },
        5 => Act::Claim {
            owner: world::below(OWNERS) + (owner / CLAIM + 1) * CLAIM,
            expected: owner,
        },
        _ => Act::End { owner },
    };
    Call { thing, act }
}

impl Story for Fleet {
    type State = Stored;

    const FAILING: Duration = Duration::from_secs(10);

    fn new(site: Shared<Stored>) -> Self {
        Self {
            site,
            seen: Arc::default(),
        }
    }

    fn play(&self) {
        for _ in 0..CLIENTS {
            world::spawn_on(0, self.clone().client());
        }
        for minion in 0..minions::COUNT {
            world::spawn_on(0, minions::live(self.clone(), minion));
        }
        world::spawn_on(0, self.clone().react());
    }

    async fn works(&self, master: Process, group: Masters<Stored>) -> bool {
        self.operate(master, group, about_key()).await
    }

    fn checked(&self) -> Result<u64, String> {
        let stores: Vec<Store> = {
            let site = self.site.lock().unwrap();
            let stores = site.machines.values().map(|machine| machine.state.store());
            stores.map(Option::unwrap).collect()
        };
        ends::checked(&stores, &self.seen())
    }
}
