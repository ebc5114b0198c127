//! Several masters with one state.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use cluster::core::Member;
use cluster::raft::log::Log;
use cluster::raft::medium;
use cluster::raft::{Group, Link, LinkError, NotAgreed, Settings};
use link::wait::pause;
use smol::future::zip;

use super::super::replica::{Journal, Replica};
use super::super::rows::{Table, at};
use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// A fault of the connections, in most cases while a state is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The connection ends before this piece.
    Cut(usize),
    /// A row has an unknown mark.
    Row,
    /// The pieces name another place in the log than the state has.
    Place,
    /// Messages with an event are lost.
    Event,
}

/// The masters of a test, which reach each other in this process.
#[derive(Clone, Default)]
struct Process {
    journals: Arc<Mutex<HashMap<u64, Journal>>>,
    /// The fault, and the number of pieces that met it.
    fault: Arc<Mutex<Option<(Fault, usize)>>>,
}

/// Returns the position after the first of these bytes.
fn after(message: &[u8], bytes: &[u8]) -> Option<usize> {
    let mut windows = message.windows(bytes.len());
    Some(windows.position(|window| window == bytes)? + bytes.len())
}

impl Process {
    /// Changes a message with a piece of a state. Returns false if it is lost.
    fn pass(&self, message: &mut [u8]) -> bool {
        let mut fault = self.fault.lock().unwrap();
        if let Some((Fault::Event, met)) = &mut *fault {
            let is_met = after(message, b"my/tag").is_some();
            *met += usize::from(is_met);
            return !is_met;
        }
        let (Some((fault, met)), Some(_)) = (&mut *fault, after(message, b"\xa8snapshot")) else {
            return true;
        };
        *met += 1;
        match *fault {
            Fault::Cut(piece) => return !met.is_multiple_of(piece),
            // The mark of the first row, behind the length of the data.
            Fault::Row => {
                if let Some(data) = after(message, b"\xa4data\xc6") {
                    message[data + 4] = b'q';
                }
            }
            // The term, which is one byte.
            Fault::Place => {
                let last = after(message, b"\xa4last\x92").unwrap();
                message[last] += 1;
            }
            Fault::Event => {}
        }
        true
    }
}

impl Link for Process {
    async fn ask(
        &self,
        to: u64,
        member: &Member,
        mut message: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        if !self.pass(&mut message) {
            return Err(LinkError::NoAnswer(member.name.clone()));
        }
        let journal = self.journals.lock().unwrap().get(&to).cloned();
        let journal = journal.ok_or_else(|| LinkError::Unreachable(member.name.clone()))?;
        let answer = link::wait::within(within, journal.group.answer(&message)).await;
        let no_answer = || LinkError::NoAnswer(member.name.clone());
        answer.and_then(Result::ok).ok_or_else(no_answer)
    }
}

struct Master {
    world: World,
    log: Log<medium::Disk>,
    journal: Journal,
}

fn member(number: u64) -> Member {
    Member {
        name: format!("m{number}"),
        level: 1,
        ..Member::default()
    }
}

impl Process {
    fn start(&self, number: u64, settings: &Settings) -> Master {
        let world = World::new();
        let disk = medium::Disk::open(&world.folder.path().join("log")).unwrap();
        let replica = Arc::new(Replica::new(&world.store));
        let log = Log::open(disk, 0).unwrap();
        let started = Group::start(
            (number, 1),
            settings.config(),
            log.clone(),
            replica,
            self.clone(),
        );
        let journal = Journal {
            group: smol::block_on(started).unwrap(),
            minority: Arc::new(|| None),
        };
        self.journals
            .lock()
            .unwrap()
            .insert(number, journal.clone());
        assert!(world.store.follow(journal.clone()));
        Master {
            world,
            log,
            journal,
        }
    }
}

/// Starts a master that founds a cluster.
fn founded(process: &Process) -> Master {
    let master = process.start(1, &Settings::default());
    let group = &master.journal.group;
    smol::block_on(group.found(BTreeMap::from([(1, member(1))]))).unwrap();
    master
}

/// Returns all rows; `None` while the tables are replaced.
fn rows(store: &Store) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let disk = store.disk().ok()?;
    let tables = Table::ALL.into_iter();
    let rows = tables.flat_map(|table| disk.table(table).iter().collect::<Vec<_>>());
    let rows = rows.map(|row| row.into_inner().unwrap());
    Some(
        rows.map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect(),
    )
}

fn soon(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn have_the_same(masters: &[&Master]) -> bool {
    let all: Vec<_> = masters
        .iter()
        .map(|master| rows(&master.world.store))
        .collect();
    all.windows(2)
        .all(|pair| pair[0].is_some() && pair[0] == pair[1])
}

#[test]
fn three_masters_have_one_state_whichever_of_them_gets_a_command() {
    let process = Process::default();
    let settings = Settings {
        snapshot_every: 50,
        kept_entries: 5,
        ..Settings::default()
    };
    let masters: Vec<Master> = (1..=3)
        .map(|number| process.start(number, &settings))
        .collect();
    let members: BTreeMap<u64, Member> = (1..=3).map(|number| (number, member(number))).collect();
    for master in &masters {
        smol::block_on(master.journal.group.found(members.clone())).unwrap();
    }
    let watch = masters[2].world.store.watch();
    let mut sequences = Vec::new();
    for number in 0..60 {
        let store = &masters[number % 3].world.store;
        let applied = store
            .apply_blocking(event("my/tag", number as u64))
            .unwrap();
        let Applied::Event { sequence, .. } = applied else {
            panic!("{applied:?}");
        };
        sequences.push(sequence);
        // A master reads what it has written.
        let known = store.events(sequence).unwrap().count();
        assert_eq!(known, 1);
    }
    assert_eq!(
        sequences,
        (sequences[0]..sequences[0] + 60).collect::<Vec<_>>()
    );
    let Some(Seen::Event(first)) = smol::block_on(watch.next()) else {
        panic!("no event");
    };
    assert_eq!(first.sequence, sequences[0]);
    masters[1].world.accept("m1", 1);
    let all: Vec<&Master> = masters.iter().collect();
    soon("all have the same", || have_the_same(&all));

    // Two of three continue.
    process.journals.lock().unwrap().remove(&1);
    smol::block_on(masters[0].journal.group.stop());
    let store = &masters[1].world.store;
    store.apply_blocking(event("my/tag", 100)).unwrap();

    // A new master gets the state as a snapshot.
    let new = process.start(4, &settings);
    soon("the leader adds it", || {
        masters[1..].iter().any(|master| {
            let raft = master.journal.group.raft();
            raft.is_leader() && smol::block_on(raft.add_learner(4, member(4), true)).is_ok()
        })
    });
    soon("the new master has the state", || {
        have_the_same(&[&masters[1], &masters[2], &new])
    });
    let control = new.world.store.row(Table::Keys, at::CONTROL).unwrap();
    assert!(control.is_some());
    new.world
        .store
        .apply_blocking(event("my/tag", 101))
        .unwrap();
    soon("its command is applied", || {
        have_the_same(&[&masters[1], &masters[2], &new])
    });
}

#[test]
fn a_leader_of_an_earlier_term_changes_no_key() {
    let master = founded(&Process::default());
    let group = &master.journal.group;
    let store = &master.world.store;
    store.apply_blocking(offered("m1", 1)).unwrap();
    let term = group.status().term;

    let refused = smol::block_on(store.in_term(term - 1)).err();
    assert!(matches!(refused, Some(Error::NotAgreed(NotAgreed::Fenced))));
    let earlier = store.fenced(term - 1);
    assert!(!earlier.is_fence_closed());
    let refused = earlier.apply_blocking(accepted("m1", 1)).unwrap_err();
    assert!(matches!(refused, Error::NotAgreed(NotAgreed::Fenced)));
    let key = store.key(&id("m1")).unwrap().unwrap();
    assert_eq!(key.state, KeyState::Pending);
    assert!(earlier.is_fence_closed());
    let present = smol::block_on(store.in_term(term)).unwrap();
    present.apply_blocking(accepted("m1", 1)).unwrap();
    let key = store.key(&id("m1")).unwrap().unwrap();
    assert_eq!(key.state, KeyState::Accepted);
}

#[test]
fn a_leader_that_leads_again_in_its_term_is_not_disturbed_by_its_first_time() {
    let master = founded(&Process::default());
    let group = &master.journal.group;
    let store = &master.world.store;
    store.apply_blocking(event("my/tag", 0)).unwrap();
    let term = group.status().term;
    let first = smol::block_on(store.in_term(term)).unwrap();
    let clone = first.clone();
    assert!(!clone.is_fence_closed());
    smol::block_on(first.close_fence());
    assert!(clone.is_fence_closed());
    let second = smol::block_on(store.in_term(term)).unwrap();
    let refused = clone.apply_blocking(event("my/tag", 1)).unwrap_err();
    assert!(matches!(refused, Error::NotAgreed(NotAgreed::Fenced)));
    second.apply_blocking(event("my/tag", 2)).unwrap();
}

#[test]
fn a_leader_can_wait_until_it_is_decided_which_of_its_commands_are_applied() {
    let process = Process::default();
    let masters = [1, 2].map(|number| process.start(number, &Settings::default()));
    let group = &masters[0].journal.group;
    smol::block_on(group.found(BTreeMap::from([(1, member(1)), (2, member(2))]))).unwrap();
    masters[0]
        .world
        .store
        .apply_blocking(event("other", 0))
        .unwrap();
    let leader = masters.iter().find(|one| {
        let status = one.journal.group.status();
        status.leader == Some(status.node)
    });
    let (leader, term) = (leader.unwrap(), group.status().term);
    let store = smol::block_on(leader.world.store.in_term(term)).unwrap();
    *process.fault.lock().unwrap() = Some((Fault::Event, 0));
    let unknown = store.apply_blocking(event("my/tag", 0)).unwrap_err();
    assert!(matches!(unknown, Error::NotAgreed(NotAgreed::Unknown)));
    assert_eq!(store.undecided(), 1);
    *process.fault.lock().unwrap() = None;
    smol::block_on(store.decided()).unwrap();
    let tags = store.events(0).unwrap().map(|event| event.unwrap().tag);
    assert_eq!(tags.collect::<Vec<_>>(), ["other", "my/tag"]);

    *process.fault.lock().unwrap() = Some((Fault::Event, 0));
    let healed = async {
        while store.undecided() < 2 {
            pause(Duration::from_millis(10)).await;
        }
        *process.fault.lock().unwrap() = None;
    };
    let applied = store.apply_until_decided(event("my/tag", 1));
    let (applied, ()) = smol::block_on(zip(applied, healed));
    assert!(matches!(applied.unwrap(), Applied::Event { .. }));
}

#[test]
fn a_new_leader_has_applied_all_that_was_in_the_log_before_it_begins() {
    let master = founded(&Process::default());
    let group = &master.journal.group;
    let store = &master.world.store;
    let Applied::Event { sequence, .. } = store.apply_blocking(event("my/tag", 0)).unwrap() else {
        panic!("no event");
    };
    for number in 1..=500 {
        smol::block_on(store.later(event("my/tag", number))).unwrap();
    }
    smol::block_on(store.in_term(group.status().term)).unwrap();
    assert_eq!(store.events(sequence).unwrap().count(), 501);
}

#[test]
fn a_state_that_is_cut_or_changed_on_its_way_is_refused_and_sent_again() {
    let process = Process::default();
    let settings = Settings {
        snapshot_every: 20,
        kept_entries: 2,
        ..Settings::default()
    };
    let first = process.start(1, &settings);
    let members = BTreeMap::from([(1, member(1))]);
    smol::block_on(first.journal.group.found(members)).unwrap();
    for number in 0..60 {
        let text = Map::new().with("text", "x".repeat(20_000));
        let name = format!("t{number}");
        let token = Command::Token {
            name,
            data: Some(text),
            expected: None,
        };
        first.world.store.apply_blocking(token).unwrap();
    }
    let raft = first.journal.group.raft();
    soon("the log is cut", || first.log.removed_upto() > 10);
    // Each with a number of pieces after which one transfer at least has failed.
    let faults = [(Fault::Cut(3), 4), (Fault::Row, 2), (Fault::Place, 12)];
    *process.fault.lock().unwrap() = Some((faults[0].0, 0));
    let new = process.start(2, &settings);
    let before = rows(&new.world.store).unwrap();
    smol::block_on(raft.add_learner(2, member(2), false)).unwrap();
    for (fault, count) in faults {
        *process.fault.lock().unwrap() = Some((fault, 0));
        soon(&format!("{fault:?}"), || {
            let fault = process.fault.lock().unwrap();
            fault.is_some_and(|(_, met)| met >= count)
        });
        assert_eq!(rows(&new.world.store), Some(before.clone()), "{fault:?}");
    }
    assert!(new.journal.group.status().failure.is_none());
    *process.fault.lock().unwrap() = None;
    soon("the new master has the state", || {
        have_the_same(&[&first, &new])
    });
}

#[test]
fn readers_wait_while_the_tables_are_replaced() {
    let world = World::new();
    world.accept("m1", 1);
    let store = &world.store;
    store.shared.is_replaced.store(true, Ordering::Release);
    let disk = store.shared.put_disk(None);
    let reader = store.clone();
    let reading = std::thread::spawn(move || reader.key(&id("m1")).unwrap().is_some());
    std::thread::sleep(Duration::from_millis(50));
    assert!(!reading.is_finished());
    store.shared.put_disk(disk);
    store.shared.is_replaced.store(false, Ordering::Release);
    assert!(reading.join().unwrap());
}
