//! [`Stored`]: the master's store on a machine that can lose its power.
//!
//! The store writes its changes to one journal, which it syncs when it must. After a power cut, all
//! bytes up to the last sync are there, and any number of those after it: the rest is missing, or
//! zeros where the file system had room for it. Tables stay in memory here, so no other file holds
//! what the journal has not.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::core::Proposal;
use cluster::raft::Machine;
use cluster::raft::damage::Unfinished;
use rustix::fs::SeekFrom;
use tempfile::TempDir;

use crate::site::{Sabotage, State};
use crate::store::replica::{Replica, Rows};
use crate::store::{Applied, Limits, Store};
use crate::world;

/// The store of a machine.
#[derive(Clone)]
pub(crate) struct Stored(Arc<Machinery>);

struct Machinery {
    /// The store of the process that runs.
    open: Mutex<Option<(Store, Replica)>>,
    /// The length of the journal that survives a power cut.
    synced: Mutex<u64>,
    /// True for a store that does not sync when it must.
    lies: bool,
    folder: TempDir,
}

/// Returns a folder in memory if possible: a seed has some hundred syncs.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.unwrap()
}

/// Tables stay in memory: a thread of the store would write their files at any time.
fn limits() -> Limits {
    Limits {
        memtable_bytes: 1 << 30,
        // The log has what was not synced.
        unfinished: Unfinished::Remove,
        ..Limits::default()
    }
}

impl Stored {
    /// Returns the store of the process that runs.
    pub(crate) fn store(&self) -> Option<Store> {
        let open = self.0.open.lock().unwrap();
        open.as_ref().map(|(store, _)| store.clone())
    }

    fn replica(&self) -> io::Result<Replica> {
        let open = self.0.open.lock().unwrap();
        let open = open.as_ref().map(|(_, replica)| replica.clone());
        open.ok_or_else(|| io::Error::other("the machine is off"))
    }

    /// Returns the journal that is written.
    fn journal(&self) -> PathBuf {
        let tables = self.0.folder.path().join("tables");
        let files = std::fs::read_dir(tables).unwrap();
        let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
        let journals = files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "jnl"));
        journals.max_by_key(number).unwrap()
    }

    /// Notes that everything in the journal is on the disk.
    fn note_synced(&self) {
        *self.0.synced.lock().unwrap() = written(&self.journal());
    }

    /// Loses an end of what is not synced.
    fn lose_unsynced(&self) {
        let path = self.journal();
        let (synced, end) = (*self.0.synced.lock().unwrap(), written(&path));
        let kept = synced + world::below(end.saturating_sub(synced) + 1);
        let has_room = world::below(2) == 0;
        let journal = OpenOptions::new().write(true).open(path).unwrap();
        let length = journal.metadata().unwrap().len();
        journal.set_len(kept).unwrap();
        if has_room {
            journal.set_len(length).unwrap();
        }
    }
}

/// Returns the length of the part of a journal that is written: the rest of the file is empty.
fn written(journal: &Path) -> u64 {
    const PART: usize = 1 << 16;
    let file = std::fs::File::open(journal).unwrap();
    let (mut data, mut end) = (0, 0);
    while let Ok(next) = rustix::fs::seek(&file, SeekFrom::Data(data)) {
        data = rustix::fs::seek(&file, SeekFrom::Hole(next)).unwrap();
        end = data;
    }
    let mut part = vec![0; PART];
    while end > 0 {
        let from = end.saturating_sub(PART as u64);
        let part = &mut part[..usize::try_from(end - from).unwrap()];
        file.read_exact_at(part, from).unwrap();
        // A batch ends with bytes that are not zero.
        if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
            return from + last as u64 + 1;
        }
        end = from;
    }
    0
}

impl State for Stored {
    fn new(sabotage: Option<Sabotage>) -> Self {
        Self(Arc::new(Machinery {
            open: Mutex::new(None),
            synced: Mutex::new(0),
            lies: sabotage == Some(Sabotage::CutBeforeSync),
            folder: folder(),
        }))
    }

    fn start(&self) {
        let store = Store::open(self.0.folder.path(), limits()).unwrap();
        let replica = Replica::new(&store);
        *self.0.open.lock().unwrap() = Some((store, replica));
        self.note_synced();
    }

    fn fail(&self) {
        let open = self.0.open.lock().unwrap().take();
        if open.is_some() {
            // It closes its files, which lose their ends afterwards.
            drop(open);
            self.lose_unsynced();
        }
    }
}

/// Each call of the store is done at once: no simulated time passes until its threads answer.
impl Machine for Stored {
    type Outcome = Applied;
    type Rows = Rows;

    fn control(&self) -> io::Result<Option<Vec<u8>>> {
        self.replica()?.control()
    }

    async fn apply(&self, commands: Vec<Proposal>, control: Vec<u8>) -> io::Result<Vec<Applied>> {
        if world::below(4) == 0 {
            world::sleep(Duration::from_micros(world::below(2000))).await;
        }
        let applied = smol::block_on(self.replica()?.apply(commands, control))?;
        // The system writes it back whenever it likes.
        if world::below(20) == 0 {
            self.note_synced();
        }
        Ok(applied)
    }

    async fn sync(&self) -> io::Result<()> {
        world::sleep(Duration::from_micros(world::below(5000))).await;
        if !self.0.lies {
            smol::block_on(self.replica()?.sync())?;
            self.note_synced();
        }
        Ok(())
    }

    fn rows(&self) -> io::Result<Rows> {
        self.replica()?.rows()
    }

    async fn next_piece(&self, rows: &mut Rows) -> io::Result<Option<Vec<u8>>> {
        smol::block_on(self.replica()?.next_piece(rows))
    }

    fn receive(&self) -> io::Result<Rows> {
        self.replica()?.receive()
    }

    async fn add_piece(&self, rows: &mut Rows, piece: Vec<u8>) -> io::Result<()> {
        smol::block_on(self.replica()?.add_piece(rows, piece))
    }

    fn received_control(&self, rows: &mut Rows) -> io::Result<Option<Vec<u8>>> {
        self.replica()?.received_control(rows)
    }

    async fn install(&self, rows: Rows) -> io::Result<()> {
        world::sleep(Duration::from_micros(world::below(5000))).await;
        smol::block_on(self.replica()?.install(rows))?;
        self.note_synced();
        Ok(())
    }
}
