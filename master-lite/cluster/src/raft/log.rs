//! [`Log`]: the log of one group, over a [`Medium`].
//!
//! ```text
//! G e INDEX    an entry; the index has eight bytes, the highest first
//! G v          the vote
//! G p          the place up to which entries were removed
//! ```
//! G is the number of the group, one byte.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use smol::channel::bounded;

use super::medium::{Change, Medium};
use super::types::{Entry, LogId, Types, Vote};
use super::{Runtime, bytes};

/// The size of the newest entries that stay in memory, in bytes.
const TAIL_BYTES: usize = 4 << 20;
/// The size of the entries that are read for one message, in bytes.
const READ_BYTES: usize = 1 << 20;

/// The log of a group. Clones share it.
#[derive(Clone)]
pub struct Log<D> {
    shared: Arc<Shared<D>>,
}

struct Shared<D> {
    disk: D,
    group: u8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    vote: Option<Vote>,
    purged: Option<LogId>,
    last: Option<LogId>,
    tail: Tail,
}

/// The newest entries. Those that are not on the disk yet are always among them.
#[derive(Default)]
struct Tail {
    entries: BTreeMap<u64, Kept>,
    bytes: usize,
    /// The number of the last write that was begun, and of the last one that is on the disk.
    begun: u64,
    durable: u64,
}

struct Kept {
    entry: Entry,
    bytes: usize,
    /// The number of its write.
    write: u64,
}

impl Tail {
    fn remove(&mut self, indices: impl RangeBounds<u64>) {
        let removed = self.entries.extract_if(indices, |_, _| true);
        self.bytes -= removed.map(|(_, kept)| kept.bytes).sum::<usize>();
    }

    /// Forgets the oldest entries that are on the disk while there are too many.
    fn trim(&mut self) {
        while self.bytes > TAIL_BYTES
            && let Some(oldest) = self.entries.first_entry()
            && oldest.get().write <= self.durable
        {
            self.bytes -= oldest.remove().bytes;
        }
    }
}

impl<D> Debug for Log<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

fn invalid(error: bytes::Unreadable) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn refused(error: wire::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

impl<D: Medium> Log<D> {
    /// Opens the log of a group.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(disk: D, group: u8) -> io::Result<Self> {
        let read = |key: u8| disk.get(&[group, key]);
        let vote = read(b'v')?.map(|row| bytes::read_vote(&row).map_err(invalid));
        let purged = read(b'p')?.map(|row| bytes::read_log_place(&row).map_err(invalid));
        let (vote, purged) = (vote.transpose()?, purged.transpose()?);
        let last = disk.last(&entry_key(group, 0), &end_key(group))?;
        let last = last.map(|(_, row)| bytes::read_entry(&row).map_err(invalid));
        let last = last.transpose()?.map(|entry| entry.log_id);
        let state = Mutex::new(State {
            vote,
            purged,
            last: last.or(purged),
            tail: Tail::default(),
        });
        Ok(Self {
            shared: Arc::new(Shared { disk, group, state }),
        })
    }

    /// Returns whether the log was ever used.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.shared.state().vote.is_some()
    }

    /// Returns the index up to which entries were removed, because the state contains them; 0 if none
    /// were.
    #[must_use]
    pub fn removed_upto(&self) -> u64 {
        self.shared.state().purged.map_or(0, |id| id.index)
    }
}

fn entry_key(group: u8, index: u64) -> Vec<u8> {
    let mut key = vec![group, b'e'];
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// Returns the key after all entries of a group.
fn end_key(group: u8) -> Vec<u8> {
    vec![group, b'e' + 1]
}

impl<D: Medium> Shared<D> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry_key(&self, index: u64) -> Vec<u8> {
        entry_key(self.group, index)
    }

    /// Writes changes, and waits until they are on the disk.
    async fn write(&self, changes: Vec<Change>) -> io::Result<()> {
        let (sender, done) = bounded(1);
        let send = move |result| value::channel::if_open(sender.try_send(result));
        self.disk.write(changes, Box::new(send));
        // No deadline: the medium calls back once for every write.
        let result = done.recv().await;
        result.map_err(|_| io::Error::other("the log is closed"))?
    }

    /// Reads entries until they have `bytes` in all. Those at the end that do not exist are left
    /// out, and those at the beginning that were removed.
    fn read(&self, from: u64, to: u64, bytes: usize) -> io::Result<Vec<Entry>> {
        let (mut entries, mut size) = (Vec::new(), 0);
        let from_tail = {
            let state = self.state();
            let kept = state.tail.entries.range(from..to);
            kept.map(|(_, kept)| (kept.entry.clone(), kept.bytes))
                .collect::<Vec<_>>()
        };
        let first = from_tail.first().map(|(entry, _)| entry.log_id.index);
        let upto = first.unwrap_or(to);
        if from < upto {
            let keys = (self.entry_key(from), self.entry_key(upto));
            for (_, row) in self.disk.rows(&keys.0, &keys.1, bytes)? {
                size += row.len();
                entries.push(bytes::read_entry(&row).map_err(invalid)?);
            }
        }
        let has_all = entries
            .last()
            .is_none_or(|last| last.log_id.index + 1 == upto);
        if has_all {
            for (entry, length) in from_tail {
                if size >= bytes && !entries.is_empty() {
                    break;
                }
                size += length;
                entries.push(entry);
            }
        }
        let is_next = |pair: &[Entry]| match pair {
            [one, next] => one.log_id.index + 1 == next.log_id.index,
            _ => true,
        };
        if entries.windows(2).all(is_next) {
            return Ok(entries);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("entries between {from} and {to} are missing in the log"),
        ))
    }
}

/// Returns the first index of a range, and the one after its last.
fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(to) => *to,
        Bound::Unbounded => u64::MAX,
    };
    (from, to.max(from))
}

impl<R: Runtime, D: Medium> RaftLogReader<Types<R>> for Log<D> {
    async fn try_get_log_entries<B: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: B,
    ) -> io::Result<Vec<Entry>> {
        let (from, to) = bounds(&range);
        self.shared.read(from, to, usize::MAX)
    }

    async fn limited_get_log_entries(&mut self, from: u64, to: u64) -> io::Result<Vec<Entry>> {
        self.shared.read(from, to, READ_BYTES)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.shared.state().vote)
    }
}

impl<R: Runtime, D: Medium> RaftLogStorage<Types<R>> for Log<D> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types<R>>> {
        let state = self.shared.state();
        Ok(LogState {
            last_purged_log_id: state.purged,
            last_log_id: state.last,
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let row = bytes::vote(vote).map_err(refused)?;
        let change = Change::Put(vec![self.shared.group, b'v'], row);
        self.shared.write(vec![change]).await?;
        self.shared.state().vote = Some(*vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Types<R>>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let shared = self.shared.clone();
        let mut changes = Vec::new();
        let write = {
            let mut state = shared.state();
            state.tail.begun += 1;
            let write = state.tail.begun;
            for entry in entries {
                let row = bytes::entry(&entry).map_err(refused)?;
                let (index, size) = (entry.log_id.index, row.len());
                changes.push(Change::Put(shared.entry_key(index), row));
                state.last = Some(entry.log_id);
                state.tail.bytes += size;
                let kept = Kept {
                    entry,
                    bytes: size,
                    write,
                };
                if let Some(before) = state.tail.entries.insert(index, kept) {
                    state.tail.bytes -= before.bytes;
                }
            }
            write
        };
        let own = shared.clone();
        let done = move |result: io::Result<()>| {
            if result.is_ok() {
                let mut state = own.state();
                state.tail.durable = state.tail.durable.max(write);
                state.tail.trim();
            }
            flushed.io_completed(result);
        };
        shared.disk.write(changes, Box::new(done));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = last.map_or(0, |last| last.index + 1);
        {
            let mut state = self.shared.state();
            state.tail.remove(from..);
            if state.last.is_some_and(|known| known.index >= from) {
                state.last = last.or(state.purged);
            }
        }
        let change = Change::Remove(self.shared.entry_key(from), end_key(self.shared.group));
        self.shared.write(vec![change]).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let group = self.shared.group;
        {
            let mut state = self.shared.state();
            state.tail.remove(..=upto.index);
            state.purged = Some(upto);
            state.last = state.last.max(Some(upto));
        }
        let row = bytes::log_place(&upto).map_err(refused)?;
        let changes = vec![
            Change::Put(vec![group, b'p'], row),
            Change::Remove(entry_key(group, 0), self.shared.entry_key(upto.index + 1)),
        ];
        self.shared.write(changes).await
    }
}
