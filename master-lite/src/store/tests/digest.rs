//! The effect of commands does not depend on which of them are written together, so that all masters
//! of a cluster have the same state.

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
    let number = u8::try_from(dice.below(3)).unwrap();
    let of_key = key(number);
    let origin = Origin {
        id: minion.clone(),
        key: of_key,
        epoch: dice.below(2),
        sequence: dice.below(40),
    };
    let origin = (dice.below(2) == 0).then_some(origin);
    let jid = format!("2026112614000000000{}", dice.below(10));
    let data = Map::new().with("n", at_ms);
    match dice.below(16) {
        0 | 1 => Command::KeyOffered {
            id: minion,
            key: of_key,
            at_ms,
            from: Some(format!("10.0.0.{}", dice.below(3))),
            pending_max: 3,
            pending_per_address: 2,
            claim: Claim::Nothing,
        },
        2 | 3 => Command::KeyAccepted {
            id: minion,
            key: of_key,
            at_ms,
            bound: Map::new(),
            replace: dice.below(2) == 0,
        },
        4 => Command::KeyRejected {
            id: minion,
            key: of_key,
            at_ms,
        },
        5 => Command::KeyDenied {
            id: minion,
            key: of_key,
            at_ms,
        },
        6 => Command::KeyDeleted {
            id: minion,
            key: of_key,
            at_ms,
        },
        7..=9 => Command::Event {
            tag: format!("tag/{minion}"),
            data,
            stamp: String::new(),
            at_ms,
            origin,
        },
        10 => Command::Job {
            jid,
            load: data,
            minions: vec![minion],
            at_ms,
        },
        11 | 12 => Command::Return {
            jid,
            id: minion,
            data,
            at_ms,
            origin,
        },
        13 => Command::Cached {
            id: minion,
            key: of_key,
            what: Cache::Mine,
            change: match dice.below(3) {
                0 => Change::Set(data),
                1 => Change::Update(data),
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

/// Applies commands, at most `together` of which are written at once, and returns all rows.
fn rows(commands: &[Command], together: usize) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        batch_max: together,
        batch_bytes: if together == 1 { 1 } else { 1 << 20 },
        ..Limits::default()
    };
    let store = Store::open(&folder.path().join("store"), limits).unwrap();
    for command in commands {
        smol::block_on(store.later(command.clone())).unwrap();
    }
    let mut rows = Vec::new();
    let take = &mut |piece: Vec<u8>| {
        rows.extend(piece);
        true
    };
    store.export(take).unwrap();
    rows
}

#[test]
fn commands_have_the_same_effect_however_they_are_written_together() {
    for seed in 0..4 {
        let mut dice = Dice(seed);
        let commands: Vec<Command> = (0..1500).map(|at_ms| command(&mut dice, at_ms)).collect();
        let alone = rows(&commands, 1);
        assert!(alone.len() > 1000);
        for together in [7, 1024] {
            assert!(
                rows(&commands, together) == alone,
                "seed {seed}, {together}"
            );
        }
    }
}
