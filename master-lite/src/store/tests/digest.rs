//! The effect of commands does not depend on which of them are written together, so that all masters
//! of a cluster have the same state.

use super::rows::Table;
use super::*;

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
}

/// Returns a random command at a time.
fn command(dice: &mut Dice, at_ms: u64) -> Command {
    let minion = id(&format!("m{}", dice.below(5)));
    let of_key = key(u8::try_from(dice.below(3)).unwrap());
    match dice.below(16) {
        0..=6 => about_key(dice, at_ms, minion, of_key),
        7..=9 => Command::Event {
            tag: format!("tag/{minion}"),
            data: Map::new().with("n", at_ms),
            stamp: String::new(),
            at_ms,
            origin: some_origin(dice, minion, of_key),
        },
        10..=12 => about_job(dice, at_ms, minion, of_key),
        13 => Command::Cached {
            id: minion,
            key: of_key,
            what: Cache::Mine,
            change: match dice.below(3) {
                0 => Change::Set(Map::new().with("n", at_ms)),
                1 => Change::Update(Map::new().with("m", at_ms)),
                _ => Change::Clear,
            },
        },
        14 => Command::JobsDropped {
            before_ms: at_ms.saturating_sub(100),
            limit: 1 + dice.below(3),
        },
        _ => Command::EventsDropped {
            before: dice.below(at_ms.max(1)),
            limit: 1 + dice.below(5),
        },
    }
}

fn some_origin(dice: &mut Dice, id: Id, key: PublicKey) -> Option<Origin> {
    let origin = Origin {
        id,
        key,
        epoch: dice.below(2),
        sequence: dice.below(40),
    };
    (dice.below(2) == 0).then_some(origin)
}

fn about_key(dice: &mut Dice, at_ms: u64, id: Id, key: PublicKey) -> Command {
    match dice.below(7) {
        0 | 1 => Command::KeyOffered {
            id,
            key,
            at_ms,
            from: Some(format!("10.0.0.{}", dice.below(3))),
            pending_max: 3,
            pending_per_address: 2,
            claim: Claim::Nothing,
        },
        2 | 3 => Command::KeyAccepted {
            id,
            key,
            at_ms,
            bound: Map::new(),
            replace: dice.below(2) == 0,
        },
        4 => Command::KeyRejected { id, key, at_ms },
        5 => Command::KeyDenied { id, key, at_ms },
        _ => Command::KeyDeleted { id, key, at_ms },
    }
}

fn about_job(dice: &mut Dice, at_ms: u64, minion: Id, of_key: PublicKey) -> Command {
    let jid = format!("2026112614000000000{}", dice.below(10));
    let data = Map::new().with("n", at_ms);
    match dice.below(3) {
        0 => Command::Job {
            jid,
            load: data,
            minions: vec![minion],
            at_ms,
        },
        _ => Command::Return {
            jid,
            id: minion.clone(),
            data,
            at_ms,
            origin: some_origin(dice, minion, of_key),
        },
    }
}

/// Applies commands, `together` of which are written at once, and returns all rows.
fn rows(commands: &[Command], together: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::open(folder.path(), &Limits::default()).unwrap();
    let mut counts = writer::counts(&disk).unwrap();
    for chunk in commands.chunks(together) {
        let mut batch = batch::Batch::new(&disk, counts);
        for command in chunk {
            apply::apply(&mut batch, command.clone()).unwrap();
        }
        counts = batch.commit(false, false).unwrap();
    }
    let tables = Table::ALL.into_iter();
    let rows = tables.flat_map(|table| disk.table(table).iter().collect::<Vec<_>>());
    rows.map(|row| {
        let (key, value) = row.into_inner().unwrap();
        (key.to_vec(), value.to_vec())
    })
    .collect()
}

#[test]
fn commands_have_the_same_effect_however_they_are_written_together() {
    for seed in 0..4 {
        let mut dice = Dice(seed);
        let commands: Vec<Command> = (0..1500).map(|at_ms| command(&mut dice, at_ms)).collect();
        let alone = rows(&commands, 1);
        assert!(alone.len() > 10);
        for together in [7, 1024] {
            assert!(
                rows(&commands, together) == alone,
                "seed {seed}, {together}"
            );
        }
    }
}
