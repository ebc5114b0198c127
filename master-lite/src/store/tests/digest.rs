//! The effect of a command depends only on the command and on the tables: neither on the commands
//! that are written together with it, nor on anything that a master forgets when it ends. Therefore
//! all masters of a cluster have the same state.

use std::collections::BTreeSet;

use cluster::core::Keep;
use reactor::Place;

use super::super::command::JobRows;
use super::super::command_bytes::{decode, encode};
use super::super::rows::Table;
use super::commands::{self, COMMANDS};
use super::*;

/// The number of random commands of each seed.
const COUNT: u64 = 600;

/// Pseudo-random numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn minion(&mut self) -> Id {
        id(&format!("m{}", self.below(6)))
    }

    fn key(&mut self) -> PublicKey {
        key(u8::try_from(self.below(8).saturating_sub(5)).unwrap())
    }

    fn jid(&mut self) -> String {
        format!("2026112614000000000{}", self.below(10))
    }

    fn data(&mut self, at_ms: u64) -> Map {
        let filled = "x".repeat(usize::try_from(self.below(100)).unwrap());
        Map::new().with("n", at_ms).with("x", filled)
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        (self.below(2) == 0).then_some(value)
    }
}

/// Returns a random command at a time.
fn some_command(dice: &mut Dice, at_ms: u64) -> Command {
    match dice.below(32) {
        30 | 31 => about_run(dice, at_ms),
        0..=5 => about_key(dice, at_ms),
        6..=11 => event_of(dice, at_ms),
        12..=18 => about_job(dice, at_ms),
        19 | 20 => cached(dice, at_ms),
        21..=23 => about_name(dice, at_ms),
        28 | 29 => about_ring(dice, at_ms),
        24 => Command::All((0..3).map(|_| some_command(dice, at_ms)).collect()),
        _ => removal(dice, at_ms),
    }
}

fn event_of(dice: &mut Dice, at_ms: u64) -> Command {
    let of = match dice.below(40) {
        // Longer than the longest name that a row can have.
        0 => "x".repeat(70_000),
        _ => dice.minion().to_string(),
    };
    Command::Event {
        tag: format!("tag/{at_ms}"),
        data: dice.data(at_ms).with("id", of),
        stamp: String::new(),
        at_ms,
        origin: some_origin(dice, at_ms),
    }
}

fn some_origin(dice: &mut Dice, at_ms: u64) -> Option<Origin> {
    let origin = Origin {
        id: dice.minion(),
        key: dice.key(),
        epoch: dice.below(2),
        sequence: at_ms.saturating_sub(dice.below(20)),
    };
    dice.maybe(origin)
}

fn about_key(dice: &mut Dice, at_ms: u64) -> Command {
    let (id, key) = (dice.minion(), dice.key());
    match dice.below(16) {
        0..=4 => Command::KeyOffered {
            id,
            key,
            // Several keys of the same age.
            at_ms: at_ms / 10,
            from: Some(format!("10.0.0.{}", dice.below(3))),
            pending_max: 2,
            pending_per_address: 2,
            claim: match dice.below(3) {
                0 => Claim::New,
                1 => Claim::Proved,
                _ => Claim::Nothing,
            },
        },
        5 | 6 => Command::KeyAccepted {
            id,
            key,
            at_ms,
            bound: Map::new(),
            replace: dice.below(2) == 0,
        },
        7 => Command::KeyRejected { id, key, at_ms },
        8 => Command::KeyDenied { id, key, at_ms },
        9..=12 => Command::KeyDeleted { id, key, at_ms },
        13 => Command::KeyShown {
            id,
            files: vec![(KeyState::Pending, key)],
        },
        _ => Command::KeyWithdrawn { id, key },
    }
}

fn about_job(dice: &mut Dice, at_ms: u64) -> Command {
    let (jid, data) = (dice.jid(), dice.data(at_ms));
    match dice.below(3) {
        0 => Command::Job {
            jid,
            load: data.with("user", dice.minion().as_str()),
            minions: vec![dice.minion()],
            at_ms,
        },
        _ => Command::Return {
            jid,
            id: dice.minion(),
            data,
            at_ms,
            origin: some_origin(dice, at_ms),
        },
    }
}

fn cached(dice: &mut Dice, at_ms: u64) -> Command {
    Command::Cached {
        id: dice.minion(),
        key: dice.key(),
        what: Cache::Mine,
        change: match dice.below(4) {
            0 => Change::Set(Map::new().with("n", at_ms)),
            1 => Change::Update(Map::new().with("m", at_ms)),
            2 => Change::Without("n".to_owned()),
            _ => Change::Clear,
        },
    }
}

fn about_name(dice: &mut Dice, at_ms: u64) -> Command {
    let name = format!("n{}", dice.below(3));
    match dice.below(3) {
        0 => Command::Cursor {
            name,
            sequence: dice.maybe(at_ms),
        },
        1 => Command::Reaction {
            place: Place {
                rule: dice.below(3),
                sequence: 1,
            },
            row: dice.maybe(Map::new().with("n", at_ms)),
        },
        _ => Command::Token {
            name,
            data: dice.maybe(Map::new().with("n", at_ms / 50)),
            expected: dice.maybe(Map::new().with("n", at_ms / 50)),
        },
    }
}

fn about_run(dice: &mut Dice, at_ms: u64) -> Command {
    // One of two, so that each kind of command finds one to change.
    let jid = dice.below(2).to_string();
    let mut owner = || RunOwner {
        node: dice.below(2),
        boot: 1,
        claim: dice.below(2),
    };
    let (owner, expected) = (owner(), owner());
    match dice.below(8) {
        0 | 1 => Command::RunBegun {
            jid,
            owner,
            lines: format!("{at_ms}\n"),
        },
        2 | 3 => Command::RunCopied {
            jid,
            owner,
            offset: at_ms % 3,
            lines: format!("{at_ms}\n"),
        },
        4 | 5 => Command::RunStep {
            jid,
            owner,
            step: "step".to_owned(),
            job: at_ms.to_string(),
        },
        6 => Command::RunClaimed {
            jid,
            owner,
            expected,
        },
        _ => Command::RunEnded { jid, owner },
    }
}

fn about_ring(dice: &mut Dice, at_ms: u64) -> Command {
    let name = format!("r{}", dice.below(3));
    match dice.below(4) {
        0 => Command::RingCreated {
            name,
            voters: vec!["a".to_owned(), "b".to_owned()],
        },
        1 => Command::RingDestroyed { name },
        2 => Command::RingSet {
            name,
            keep: dice.maybe(Keep::Shared),
            replicas: dice.maybe(at_ms % 4),
        },
        _ => Command::RouteSet {
            data_type: "jobs".to_owned(),
            ring: dice.maybe(name),
            at_ms,
        },
    }
}

fn removal(dice: &mut Dice, at_ms: u64) -> Command {
    match dice.below(4) {
        0 => Command::EventsDropped {
            before: at_ms / 8,
            limit: 1 + dice.below(5),
        },
        1 => Command::JobsDropped {
            before_ms: at_ms.saturating_sub(300),
            limit: 1 + dice.below(3),
        },
        2 => Command::EventsRemoved {
            sequences: (0..3).map(|_| dice.below(at_ms / 4 + 1)).collect(),
        },
        _ => Command::JobsRemoved {
            jobs: vec![JobRows {
                jid: dice.jid(),
                returns: vec![dice.minion()],
                at_ms: None,
            }],
        },
    }
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn rows_of(disk: &Disk) -> Rows {
    let tables = Table::ALL.into_iter();
    let rows = tables.flat_map(|table| disk.table(table).iter().collect::<Vec<_>>());
    rows.map(|row| {
        let (key, value) = row.into_inner().unwrap();
        (key.to_vec(), value.to_vec())
    })
    .collect()
}

/// The results of commands, and all rows after them.
type End = (Vec<Applied>, Rows);

/// Applies commands in the form in which masters send them, `together` of which are written at once. After each `reopen` writes, the tables
/// are closed and opened again, and everything else is forgotten.
fn replayed(commands: &[Command], together: usize, reopen: usize) -> End {
    let folder = tempfile::tempdir().unwrap();
    let opened = || Disk::open(folder.path(), &Limits::default()).unwrap();
    let mut disk = opened();
    let mut results = Vec::new();
    let mut writes = commands.chunks(together).peekable();
    while writes.peek().is_some() {
        let (mut counts, mut sizes) = writer::counts(&disk).unwrap();
        for write in writes.by_ref().take(reopen) {
            let mut batch = batch::Batch::new(&disk, counts);
            for command in write {
                let sent = decode(&encode(command).unwrap()).unwrap();
                results.push(apply::apply(&mut batch, sent).unwrap());
            }
            let (after, changes) = batch.commit(false, false).unwrap();
            counts = after;
            sizes.apply(&changes);
        }
        drop(disk);
        disk = opened();
        assert_eq!(writer::counts(&disk).unwrap().1, sizes);
    }
    (results, rows_of(&disk))
}

fn applied_in_order(store: &Store, commands: &[Command]) -> Vec<Applied> {
    let begin = |command: &Command| smol::block_on(store.begin(command.clone())).unwrap();
    let begun: Vec<PendingWrite> = commands.iter().map(begin).collect();
    let results = begun.iter().map(|one| smol::block_on(one.done()).unwrap());
    results.collect()
}

/// Applies random commands to a store, and in between the removals that it chooses. Returns all
/// commands and their end.
fn lived(seed: u64) -> (Vec<Command>, End) {
    let world = World::new();
    let keep = Retention {
        events: 30,
        jobs_bytes: 1500,
        ..Retention::default()
    };
    let mut dice = Dice(seed);
    let (mut commands, mut results) = (Vec::new(), Vec::new());
    let mut next: Vec<Command> = Vec::new();
    for at_ms in 0..COUNT {
        next.push(some_command(&mut dice, at_ms));
        if dice.below(8) > 0 {
            continue;
        }
        results.extend(applied_in_order(&world.store, &next));
        commands.append(&mut next);
        next.extend(world.store.excess_events(keep).unwrap().removal);
        next.extend(world.store.excess_jobs(keep).unwrap().removal);
    }
    results.extend(applied_in_order(&world.store, &next));
    commands.append(&mut next);
    let rows = rows_of(&world.store.disk().unwrap());
    (commands, (results, rows))
}

/// Adds the names of the kinds of a command that was applied.
fn add_kinds(command: &Command, applied: &Applied, kinds: &mut BTreeSet<&'static str>) {
    match (command, applied) {
        (_, Applied::Refused(_) | Applied::Duplicate { .. } | Applied::Dropped { rows: 0 }) => {}
        (Command::All(commands), Applied::All(all)) => {
            kinds.insert(commands::command(command));
            let pairs = commands.iter().zip(all);
            pairs.for_each(|(command, applied)| add_kinds(command, applied, kinds));
        }
        _ => {
            kinds.insert(commands::command(command));
        }
    }
}

#[test]
fn commands_have_the_same_effect_however_they_are_written_and_whatever_is_forgotten() {
    let mut kinds = BTreeSet::new();
    let mut displaced = 0;
    for seed in 0..3 {
        let (commands, end) = lived(seed);
        for (command, applied) in commands.iter().zip(&end.0) {
            add_kinds(command, applied, &mut kinds);
            displaced += u64::from(matches!(applied, Applied::Displaced { .. }));
        }
        for (together, reopen) in [(1, 5), (7, usize::MAX), (1024, usize::MAX)] {
            let (results, rows) = replayed(&commands, together, reopen);
            let differs = results
                .iter()
                .zip(&end.0)
                .position(|(one, other)| one != other);
            assert_eq!(differs, None, "seed {seed}: {together}, {reopen}");
            assert!(rows == end.1, "seed {seed}: {together}, {reopen}");
        }
    }
    assert!(displaced > 0);
    assert_eq!(kinds, COMMANDS.iter().copied().collect());
}
