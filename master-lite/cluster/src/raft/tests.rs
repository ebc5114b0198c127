//! The requirements of openraft for logs and states, with the real disk.

use std::io;
use std::sync::{Arc, Mutex};

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use super::log::Log;
use super::machine::{Applier, Machine};
use super::medium::Disk;
use super::waiting::Waiting;
use super::{InstantOf, Smol, Types};
use crate::core::Proposal;

/// A state that counts its commands.
#[derive(Default)]
struct Counter(Mutex<(u64, Option<Vec<u8>>)>);

/// A count with its control row, as one piece.
struct Counted(Option<(u64, Option<Vec<u8>>)>);

impl Machine for Counter {
    type Outcome = u64;
    type Rows = Counted;

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
type OwnApplier = Applier<Counter, InstantOf<Smol>>;

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
