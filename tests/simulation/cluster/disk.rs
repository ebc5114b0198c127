//! [`SimDisk`]: a disk that needs time to sync, and loses what is not synced when its machine fails.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::raft::medium::{Change, Done, Medium};
use openraft::AsyncRuntime;

use crate::world::{self, Sim};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct State {
    durable: Rows,
    waiting: VecDeque<(Vec<Change>, Done)>,
    is_syncing: bool,
    /// True for a disk that says at once that it has synced.
    lies: bool,
}

/// The disk of a machine. It outlives the processes of the machine.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

fn apply(rows: &mut Rows, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Put(key, value) => {
                rows.insert(key, value);
            }
            Change::Remove(from, to) => {
                rows.extract_if(from..to, |_, _| true).for_each(drop);
            }
        }
    }
}

impl SimDisk {
    /// Creates an empty disk.
    pub fn new(lies: bool) -> Self {
        let disk = Self::default();
        disk.0.lock().unwrap().lies = lies;
        disk
    }

    /// Loses what is not synced. Some of the first writes may have reached the disk.
    pub fn fail(&self) {
        let mut state = self.0.lock().unwrap();
        let written = world::below(state.waiting.len() as u64 + 1);
        let lost: Vec<_> = state.waiting.drain(..).collect();
        state.is_syncing = false;
        let (mut kept, mut dones) = (Vec::new(), Vec::new());
        for (number, (changes, done)) in lost.into_iter().enumerate() {
            if (number as u64) < written {
                kept.push(changes);
            }
            dones.push(done);
        }
        for changes in kept {
            apply(&mut state.durable, changes);
        }
        drop(state);
        // Their processes are gone, so they must not be called.
        dones.into_iter().for_each(drop);
    }

    /// Syncs what waits, until nothing does.
    async fn sync(self) {
        loop {
            world::sleep(Duration::from_micros(100 + world::below(3000))).await;
            let mut state = self.0.lock().unwrap();
            let count = state.waiting.len();
            if count == 0 {
                state.is_syncing = false;
                return;
            }
            // Some of the writes that came during the sync may wait for the next one.
            let count = count - usize::try_from(world::below(count as u64)).unwrap();
            let written: Vec<_> = state.waiting.drain(..count).collect();
            let mut dones = Vec::new();
            for (changes, done) in written {
                apply(&mut state.durable, changes);
                dones.push(done);
            }
            drop(state);
            for done in dones {
                done(Ok(()));
            }
        }
    }
}

impl Medium for SimDisk {
    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().unwrap().durable.get(key).cloned())
    }

    fn rows(&self, from: &[u8], to: &[u8], bytes: usize) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let state = self.0.lock().unwrap();
        let (mut rows, mut size) = (Vec::new(), 0);
        for (key, value) in state.durable.range(from.to_vec()..to.to_vec()) {
            size += value.len();
            rows.push((key.clone(), value.clone()));
            if size >= bytes {
                break;
            }
        }
        Ok(rows)
    }

    fn last(&self, from: &[u8], to: &[u8]) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let state = self.0.lock().unwrap();
        let last = state.durable.range(from.to_vec()..to.to_vec()).next_back();
        Ok(last.map(|(key, value)| (key.clone(), value.clone())))
    }

    fn write(&self, changes: Vec<Change>, done: Done) {
        let mut state = self.0.lock().unwrap();
        let done: Done = match state.lies {
            true => {
                // It is called later, as that of a real disk is, but before the sync.
                Sim::spawn(async move {
                    world::sleep(Duration::from_micros(50)).await;
                    done(Ok(()));
                });
                Box::new(drop)
            }
            false => done,
        };
        state.waiting.push_back((changes, done));
        if !std::mem::replace(&mut state.is_syncing, true) {
            drop(state);
            Sim::spawn(self.clone().sync());
        }
    }
}
