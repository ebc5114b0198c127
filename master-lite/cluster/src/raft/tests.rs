//! The requirements of openraft for logs and states, with the real disk.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use super::log::Log;
use super::machine::{Applier, Machine};
use super::medium::Disk;
use super::waiting::Waiting;
use super::{Group, InstantOf, Link, LinkError, NotAgreed, Settings, Smol, Types};
use crate::core::{Member, Proposal};

/// A state that counts its commands, of a release with this level.
#[derive(Default)]
struct Counter<const LEVEL: u64>(Mutex<(u64, Option<Vec<u8>>)>);

/// A command of the second level.
const NEW: &[u8] = b"new";

/// A count with its control row, as one piece.
struct Counted(Option<(u64, Option<Vec<u8>>)>);

impl<const LEVEL: u64> Machine for Counter<LEVEL> {
    type Outcome = u64;
    type Rows = Counted;
    const LEVEL: u64 = LEVEL;

    fn level(&self, command: &[u8]) -> u64 {
        if command == NEW { 2 } else { 1 }
    }

    fn control(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().unwrap().1.clone())
    }

    async fn apply(&self, commands: Vec<Proposal>, control: Vec<u8>) -> io::Result<Vec<u64>> {
        let mut state = self.0.lock().unwrap();
        state.1 = Some(control);
        let counts = commands.iter().map(|_| {
            state.0 += 1;
            state.0
        });
        Ok(counts.collect())
    }

    async fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn rows(&self) -> io::Result<Counted> {
        Ok(Counted(Some(self.0.lock().unwrap().clone())))
    }

    async fn next_piece(&self, rows: &mut Counted) -> io::Result<Option<Vec<u8>>> {
        let Some((count, control)) = rows.0.take() else {
            return Ok(None);
        };
        let mut piece = count.to_be_bytes().to_vec();
        piece.extend(control.unwrap_or_default());
        Ok(Some(piece))
    }

    fn receive(&self) -> io::Result<Counted> {
        Ok(Counted(None))
    }

    async fn add_piece(&self, rows: &mut Counted, piece: Vec<u8>) -> io::Result<()> {
        let (count, control) = piece.split_at(8);
        let count = u64::from_be_bytes(count.try_into().unwrap());
        rows.0 = Some((count, Some(control.to_vec())));
        Ok(())
    }

    fn received_control(&self, rows: &mut Counted) -> io::Result<Option<Vec<u8>>> {
        Ok(rows.0.clone().and_then(|(_, control)| control))
    }

    async fn install(&self, rows: Counted) -> io::Result<()> {
        *self.0.lock().unwrap() = rows.0.unwrap();
        Ok(())
    }
}

struct Stores;

type Own = Types<Smol>;
type OwnApplier = Applier<Counter<1>, InstantOf<Smol>>;

impl StoreBuilder<Own, Log<Disk>, OwnApplier, TempDir> for Stores {
    async fn build(&self) -> Result<(TempDir, Log<Disk>, OwnApplier), StorageError<Own>> {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::open(folder.path()).unwrap();
        let log = Log::open(disk, 0).unwrap();
        let applier = Applier::new(Arc::default(), Waiting::new(1, 1)).unwrap();
        Ok((folder, log, applier))
    }
}

#[test]
fn the_log_and_the_state_are_what_openraft_requires() {
    smol::block_on(Suite::test_all(Stores)).unwrap();
}

/// A master of some release.
enum Master {
    Old(Group<Smol, Counter<1>>),
    New(Group<Smol, Counter<2>>),
}

impl Master {
    async fn answer(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Old(group) => group.answer(message).await,
            Self::New(group) => group.answer(message).await,
        }
    }
}

/// The masters of a test, which reach each other in this process.
#[derive(Clone, Default)]
struct Process {
    masters: Arc<Mutex<BTreeMap<u64, Arc<Master>>>>,
    /// True while no message arrives.
    is_cut: Arc<AtomicBool>,
}

impl Link for Process {
    async fn ask(
        &self,
        to: u64,
        member: &Member,
        message: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        let no_answer = || LinkError::NoAnswer(member.name.clone());
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(no_answer());
        }
        let master = self.masters.lock().unwrap().get(&to).cloned();
        let master = master.ok_or_else(|| LinkError::Unreachable(member.name.clone()))?;
        let answer = link::wait::within(within, master.answer(&message)).await;
        answer.and_then(Result::ok).ok_or_else(no_answer)
    }
}

impl Process {
    /// Starts a master whose log is in a folder.
    fn start<const LEVEL: u64>(
        &self,
        (number, boot): (u64, u64),
        folder: &TempDir,
    ) -> Group<Smol, Counter<LEVEL>> {
        let log = Log::open(Disk::open(folder.path()).unwrap(), 0).unwrap();
        let config = Settings::default().config();
        let machine = Arc::new(Counter::default());
        smol::block_on(Group::start(
            (number, boot),
            config,
            log,
            machine,
            self.clone(),
        ))
        .unwrap()
    }

    fn put(&self, number: u64, master: Master) {
        self.masters
            .lock()
            .unwrap()
            .insert(number, Arc::new(master));
    }
}

fn member(number: u64, level: u64) -> Member {
    Member {
        name: format!("m{number}"),
        level,
        ..Member::default()
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_change_of_a_later_release_waits_until_all_masters_have_that_release() {
    let folders: Vec<TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let process = Process::default();
    let old = process.start::<1>((3, 1), &folders[2]);
    process.put(3, Master::Old(old.clone()));
    let new = [1, 2].map(|number| {
        let group = process.start::<2>((number, 1), &folders[number as usize - 1]);
        process.put(number, Master::New(group.clone()));
        group
    });
    let members = BTreeMap::from([(1, member(1, 2)), (2, member(2, 2)), (3, member(3, 1))]);
    for group in &new {
        smol::block_on(group.found(members.clone())).unwrap();
    }
    smol::block_on(old.found(members)).unwrap();

    let propose = |command: &[u8]| smol::block_on(new[0].propose(command.to_vec(), None, PATIENCE));
    assert_eq!(propose(b"known"), Ok(1));
    assert_eq!(propose(NEW), Err(NotAgreed::Older("m3".to_owned())));
    let of_old = smol::block_on(old.propose(b"known".to_vec(), None, PATIENCE));
    assert_eq!(of_old, Ok(2));

    // The old one is upgraded, and leaves its log to its successor.
    process.masters.lock().unwrap().remove(&3);
    smol::block_on(old.stop());
    drop(old);
    assert_eq!(propose(b"known"), Ok(3));
    let upgraded = process.start::<2>((3, 2), &folders[2]);
    process.put(3, Master::New(upgraded.clone()));
    let began = Instant::now();
    let updates =
        |group: &Group<Smol, Counter<2>>| smol::block_on(group.update(3, member(3, 2))).is_ok();
    while !new.iter().any(updates) {
        assert!(began.elapsed() < PATIENCE);
    }
    // Each learns by itself that all have the release.
    for group in [&new[0], &new[1], &upgraded] {
        while smol::block_on(group.propose(NEW.to_vec(), None, PATIENCE)).is_err() {
            assert!(began.elapsed() < PATIENCE);
        }
    }
    assert_eq!(propose(b"known"), Ok(7));
}

#[test]
fn proposals_that_a_leader_refuses_for_a_moment_are_applied_before_later_ones() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let process = Process::default();
    let masters = [1, 2].map(|number| {
        let group = process.start::<1>((number, 1), &folders[number as usize - 1]);
        process.put(number, Master::Old(group.clone()));
        group
    });
    let members = BTreeMap::from([(1, member(1, 1)), (2, member(2, 1))]);
    smol::block_on(masters[0].found(members)).unwrap();
    let propose = || {
        let begun = masters.iter().map(|group| {
            let begun = group.begin(b"known".to_vec(), None, PATIENCE);
            smol::block_on(begun).unwrap()
        });
        begun.collect::<Vec<_>>()
    };
    for cut_ms in (100..=900).step_by(100) {
        let mut results = propose();
        process.is_cut.store(true, Ordering::Relaxed);
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(cut_ms / 10));
            results.extend(propose());
        }
        process.is_cut.store(false, Ordering::Relaxed);
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(10));
            results.extend(propose());
        }
        for result in results {
            let result = result.recv_blocking().unwrap();
            assert!(result.is_ok(), "{result:?} after a cut of {cut_ms} ms");
        }
    }
}
