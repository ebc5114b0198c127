//! Stores what a minion has not delivered yet, its events and returns, on disk and in one sequence
//! of numbers.
//!
//! A record is durable when [`Spool::push`] returns. It is removed when the master confirms that it
//! has the record durably ([`Spool::acked`], [`Spool::delivered`]). The spool does not wait until
//! the confirmation is on disk: if it is lost, the record is sent twice, and the master drops the
//! second one by (key, epoch, sequence). A newly created spool has a new epoch.
//!
//! A spool has a maximum size. When a new record exceeds it, the spool drops its oldest events, and
//! when there are none its oldest returns. A record with the tag [`GAP`] replaces them: `{first,
//! last, dropped, returns, since}`. It has the number `last`. As long as the master has not acked
//! it, more records may be dropped; the gap then moves to a higher number with the same `first`. A
//! receiver of both records uses the later one.
//!
//! Numbers may be missing where records were dropped or delivered. They only ever grow.
//!
//! All functions wait for the disk: call them only where blocking is allowed.

mod error;
mod folder;
mod record;
#[cfg(feature = "store")]
mod store;
#[cfg(not(feature = "store"))]
#[path = "spool/memory.rs"]
mod store;

// Two attributes: the lints know tests by `cfg(test)` alone.
#[cfg(feature = "store")]
#[cfg(test)]
mod tests;

use std::iter::Peekable;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use error::Error;
pub use record::{Entry, GAP};

use folder::{Current, Folder};
use record::{Gap, Kind};
use store::{Batch, Store};

/// True if records outlive the daemon. False in a build without the feature `store`.
pub const LASTS: bool = store::LASTS;

/// The progress of a spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    /// The number up to which everything is delivered.
    acked: u64,
    /// The last number that was assigned.
    last: u64,
}

/// The maximum size of a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of bytes of records. The spool needs up to four times as much disk
    /// space, and a little more.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 8 << 20 }
    }
}

/// The smallest limit in bytes, because a single event may be this large.
const LIMIT_MIN: u64 = 64 << 10;
/// The bytes that a record takes in addition to its value.
const RECORD: u64 = 40;
/// The maximum number of records that are changed at once, so that a long spool needs little
/// memory.
const STEP: usize = 512;
/// The maximum number of bytes that [`Spool::from`] returns at once, exceeded by at most one
/// record.
const READ_MAX: usize = 1 << 20;
/// A store is replaced by a new one when it has taken this many times the limit.
const WRITTEN_MAX: u64 = 2;
/// The number of bytes that are copied at once.
const COPY: u64 = 128 << 10;

/// The events and returns that a minion has not delivered yet.
pub struct Spool {
    inner: Mutex<Inner>,
    epoch: u64,
}

struct Inner {
    folder: Folder,
    limit: u64,
    current: Current,
    /// The number of bytes that this store must take before it is replaced, after an attempt to
    /// replace it has failed.
    renew_after: u64,
    /// `None` after an error, until the store can be opened again.
    store: Option<Store>,
    /// True after a failed write: the store must be opened again before it takes more.
    failed: bool,
    mark: Mark,
    count: u64,
    bytes: u64,
    gap: Option<Gap>,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self.inner();
        f.debug_struct("Spool")
            .field("folder", &inner.folder.path)
            .field("epoch", &self.epoch)
            .field("mark", &inner.mark)
            .finish_non_exhaustive()
    }
}

impl Spool {
    /// Opens the spool of a folder, or creates it there. Only one process can have it open.
    ///
    /// # Errors
    /// When another process has it open, a later release wrote it, it is damaged, or the disk
    /// fails.
    pub fn open(folder: &Path, limits: Limits) -> Result<Self, Error> {
        let folder = Folder::held(folder)?;
        let known = match LASTS {
            true => folder.current()?,
            false => None,
        };
        let current = match known {
            Some(current) => current,
            None => made(&folder)?,
        };
        let mut inner = Inner {
            folder,
            limit: limits.bytes.max(LIMIT_MIN),
            current,
            renew_after: 0,
            store: None,
            failed: false,
            mark: Mark::default(),
            count: 0,
            bytes: 0,
            gap: None,
        };
        inner.reopen()?;
        Ok(Self {
            inner: Mutex::new(inner),
            epoch: current.epoch,
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the spool's epoch, within which sequence numbers count.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the last sequence number that was assigned; 0 before the first.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.inner().mark.last
    }

    /// Returns false when the master has the record of this number on its disk.
    #[must_use]
    pub fn is_waiting(&self, sequence: u64) -> bool {
        sequence > self.inner().mark.acked
    }

    /// Returns the number of records that wait.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner().count
    }

    /// Returns true when everything is delivered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of the waiting records in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inner().bytes
    }

    /// Adds a record, and returns its number when the record is on disk.
    ///
    /// # Errors
    /// When it is too large, or the disk fails or is full. The record is then not in the spool, and
    /// may be pushed again.
    pub fn push(&self, entry: impl Into<Entry>) -> Result<u64, Error> {
        self.push_all(vec![entry.into()])
    }

    /// Adds several records with one wait for the disk. Returns the number of the last one; the
    /// others have the numbers before it.
    ///
    /// # Errors
    /// As [`Spool::push`]: then none of them is in the spool.
    pub fn push_all(&self, entries: Vec<Entry>) -> Result<u64, Error> {
        let mut inner = self.inner();
        inner.ready()?;
        let pushed = inner.push_all(entries);
        inner.noted(pushed)
    }

    /// Returns at most `n` records in order, beginning at this number. Returns fewer records when
    /// they are large, and none when there are none.
    ///
    /// # Errors
    /// When the disk fails, or a record is damaged.
    pub fn from(&self, sequence: u64, n: usize) -> Result<Vec<Entry>, Error> {
        let mut inner = self.inner();
        if inner.store.is_none() {
            inner.reopen()?;
        }
        inner.read(sequence, n)
    }

    /// Removes everything up to this number, because it is durable on the master.
    ///
    /// A number beyond the last one means that this spool has lost records that the master has. The
    /// next number is then assigned beyond it.
    ///
    /// # Errors
    /// When the disk fails. Even so, the records are not returned again until the program is
    /// restarted.
    pub fn acked(&self, sequence: u64) -> Result<(), Error> {
        let mut inner = self.inner();
        if sequence <= inner.mark.acked {
            return Ok(());
        }
        inner.mark.last = inner.mark.last.max(sequence);
        let acked = inner.ready().and_then(|()| inner.acked(sequence));
        inner.mark.acked = inner.mark.acked.max(sequence);
        inner.noted(acked)
    }

    /// Removes the record of this number, because it is durable on the master. The records before
    /// it may still be undelivered.
    ///
    /// # Errors
    /// As [`Spool::acked`].
    pub fn delivered(&self, sequence: u64) -> Result<(), Error> {
        let mut inner = self.inner();
        let removed = inner.ready().and_then(|()| inner.removed(sequence));
        inner.noted(removed)
    }
}

/// Creates a new, empty spool.
fn made(folder: &Folder) -> Result<Current, Error> {
    let current = Current {
        epoch: new_epoch()?,
        store: 1,
    };
    let mut store = Store::open(&folder.path, &folder.new_store())?;
    let mut batch = store.batch();
    batch.mark(Mark::default());
    store.write(batch, true)?;
    drop(store);
    folder.switch(current)?;
    Ok(current)
}

/// Returns a random number that is positive in msgpack and in Python's structs.
fn new_epoch() -> Result<u64, value::random::Error> {
    Ok(value::random::below(u64::MAX >> 1)? + 1)
}

fn size(value: &[u8]) -> u64 {
    value.len() as u64 + RECORD
}

impl Inner {
    /// Returns the store, and opens it if necessary.
    fn opened(&mut self) -> Result<&mut Store, Error> {
        if self.store.is_none() {
            self.reopen()?;
        }
        let lost = || std::io::Error::other("the store is not open");
        let path = &self.folder.path;
        self.store.as_mut().ok_or_else(|| Error::disk(path)(lost()))
    }

    /// Makes the store writable again if the last write failed.
    fn ready(&mut self) -> Result<(), Error> {
        if self.failed || self.store.is_none() {
            self.reopen()?;
        }
        Ok(())
    }

    fn noted<T>(&mut self, done: Result<T, Error>) -> Result<T, Error> {
        let refused = |error: &Error| matches!(error, Error::TooLarge { .. } | Error::Frame(_));
        self.failed |= done.as_ref().is_err_and(|error| !refused(error));
        done
    }

    /// Opens the store and counts its records. Removes what a failed write has left there, because
    /// its numbers are assigned again.
    fn reopen(&mut self) -> Result<(), Error> {
        let again = self.failed;
        self.store = None;
        let path = self.folder.store(self.current.store);
        if !Store::is_at(&path) {
            return Err(Error::damaged(
                &self.folder.path,
                "the file `version` of its store is missing",
            ));
        }
        let store = Store::open(&self.folder.path, &path)?;
        self.folder.close_to_others(&path)?;
        self.renew_after = 0;
        let marked = store.marked()?;
        let marked = marked.ok_or_else(|| {
            Error::damaged(&self.folder.path, "the record of its progress is missing")
        })?;
        self.mark.acked = self.mark.acked.max(marked.acked);
        self.mark.last = self.mark.last.max(marked.last);
        let stray = self.counted(&store, again)?;
        let store = self.store.insert(store);
        if !stray.is_empty() {
            let mut batch = store.batch();
            stray
                .into_iter()
                .for_each(|sequence| batch.remove(sequence));
            store.write(batch, true)?;
        }
        self.failed = false;
        Ok(())
    }

    /// Counts the records of a store. Returns the numbers of records to remove: delivered ones, and
    /// after a failed write those that it has left.
    fn counted(&mut self, store: &Store, again: bool) -> Result<Vec<u64>, Error> {
        let (mut count, mut bytes, mut gap) = (0, 0, None);
        let mut stray = Vec::new();
        let mut last = self.mark.last;
        for record in store.records(1) {
            let (sequence, value) = record?;
            if sequence <= self.mark.acked || again && sequence > self.mark.last {
                stray.push(sequence);
                continue;
            }
            if Kind::from_value(&value) == Some(Kind::Gap) {
                gap = Gap::decoded(&value);
            }
            count += 1;
            bytes += size(&value);
            last = last.max(sequence);
        }
        (self.count, self.bytes, self.gap, self.mark.last) = (count, bytes, gap, last);
        Ok(stray)
    }

    /// Adds all entries or none: what a failed write leaves behind is removed when the store is
    /// opened again.
    fn push_all(&mut self, entries: Vec<Entry>) -> Result<u64, Error> {
        let before = self.mark.last;
        let mut values = Vec::with_capacity(entries.len());
        for (sequence, entry) in (before + 1..).zip(entries) {
            values.push(self.fitting(record::encoded(entry, sequence)?)?);
        }
        let mut values = values.into_iter().peekable();
        while values.peek().is_some() {
            let group = self.group(&mut values);
            let synced = values.peek().is_none();
            if let Err(error) = self.put(group, synced) {
                self.mark.last = before;
                return Err(error);
            }
        }
        self.renewed();
        Ok(self.mark.last)
    }

    fn fitting(&self, value: Vec<u8>) -> Result<Vec<u8>, Error> {
        // Leave room for the record of a gap.
        let (bytes, limit) = (size(&value), self.limit - LIMIT_MIN / 2);
        match bytes > limit {
            true => Err(Error::TooLarge { bytes, limit }),
            false => Ok(value),
        }
    }

    /// Returns the values to write at once: a single one, or several that take at most a quarter of
    /// the limit.
    fn group(&self, values: &mut Peekable<std::vec::IntoIter<Vec<u8>>>) -> Vec<Vec<u8>> {
        let mut group = Vec::new();
        let mut room = self.limit / 4;
        while let Some(value) =
            values.next_if(|value| group.is_empty() || group.len() < STEP && size(value) <= room)
        {
            room = room.saturating_sub(size(&value));
            group.push(value);
        }
        group
    }

    fn put(&mut self, group: Vec<Vec<u8>>, synced: bool) -> Result<(), Error> {
        let (count, needed) = (
            group.len() as u64,
            group.iter().map(|value| size(value)).sum(),
        );
        if self.bytes + needed > self.limit {
            self.make_room(needed)?;
        }
        let first = self.mark.last + 1;
        let store = self.opened()?;
        let mut batch = store.batch();
        (first..)
            .zip(group)
            .for_each(|(sequence, value)| batch.put(sequence, value));
        store.write(batch, synced)?;
        self.mark.last += count;
        self.count += count;
        self.bytes += needed;
        Ok(())
    }

    /// Drops the oldest events, then the oldest returns, until `needed` bytes fit. It drops a
    /// little more than needed, so that this happens rarely.
    fn make_room(&mut self, needed: u64) -> Result<(), Error> {
        let target = self.limit.saturating_sub(needed + self.limit / 16);
        for kind in [Kind::Event, Kind::Return] {
            while self.bytes > target {
                if !self.dropped(kind, target)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Drops some of the oldest records of a kind. Returns false if there are none.
    fn dropped(&mut self, kind: Kind, target: u64) -> Result<bool, Error> {
        let mut gap = self.gap.clone().unwrap_or_default();
        // All events up to the gap's end are dropped already.
        let from = match kind {
            Kind::Event => gap.last + 1,
            _ => 1,
        };
        let before = gap.last;
        let mut gone = Vec::new();
        let mut bytes = self.bytes;
        let path = self.folder.path.clone();
        let store = self.opened()?;
        for record in store.records(from) {
            let (sequence, value) = record?;
            if Kind::from_value(&value) != Some(kind) {
                continue;
            }
            let entry = record::decoded(&value);
            gap.add(&entry.ok_or_else(|| Error::damaged(&path, unreadable(sequence)))?);
            gone.push(sequence);
            bytes -= size(&value);
            if bytes <= target || gone.len() == STEP {
                break;
            }
        }
        if gone.is_empty() {
            return Ok(false);
        }
        let mut batch = store.batch();
        gone.iter().for_each(|sequence| batch.remove(*sequence));
        self.drop_with_gap(batch, gone.len() as u64, bytes, before, gap)?;
        Ok(true)
    }

    /// Removes the dropped records and writes the gap's record in the same batch. The gap's record
    /// moves from its number `before`.
    fn drop_with_gap(
        &mut self,
        mut batch: Batch,
        gone: u64,
        bytes: u64,
        before: u64,
        gap: Gap,
    ) -> Result<(), Error> {
        let value = gap.encoded()?;
        let old = match &self.gap {
            Some(old) => size(&old.encoded()?),
            None => 0,
        };
        if self.gap.is_some() && before != gap.last {
            batch.remove(before);
        }
        let new = size(&value);
        batch.put(gap.last, value);
        self.opened()?.write(batch, false)?;
        self.count = self.count + u64::from(old == 0) - gone;
        self.bytes = bytes + new - old;
        self.gap = Some(gap);
        Ok(())
    }

    fn read(&mut self, sequence: u64, n: usize) -> Result<Vec<Entry>, Error> {
        let (from, last) = (sequence.max(self.mark.acked + 1), self.mark.last);
        let path = self.folder.path.clone();
        let mut entries = Vec::new();
        let mut bytes = 0;
        for record in self.opened()?.records(from).take(n) {
            let (sequence, value) = record?;
            bytes += value.len();
            if sequence > last || bytes > READ_MAX && !entries.is_empty() {
                break;
            }
            let entry = record::decoded(&value);
            entries.push(entry.ok_or_else(|| Error::damaged(&path, unreadable(sequence)))?);
        }
        Ok(entries)
    }

    fn acked(&mut self, sequence: u64) -> Result<(), Error> {
        loop {
            let from = self.mark.acked + 1;
            let last = self.mark.last;
            let store = self.opened()?;
            let mut batch = store.batch();
            let (mut count, mut bytes, mut through) = (0, 0, sequence);
            for record in store.records(from) {
                let (number, value) = record?;
                if number > sequence {
                    break;
                }
                if count == STEP as u64 {
                    through = number - 1;
                    break;
                }
                batch.remove(number);
                count += 1;
                bytes += size(&value);
            }
            batch.mark(Mark {
                acked: through,
                last,
            });
            store.write(batch, false)?;
            self.mark.acked = through;
            self.took_out(count, bytes);
            if through == sequence {
                self.renewed();
                return Ok(());
            }
        }
    }

    fn removed(&mut self, sequence: u64) -> Result<(), Error> {
        if sequence <= self.mark.acked {
            return Ok(());
        }
        let mark = self.mark;
        let store = self.opened()?;
        let Some((number, value)) = store.records(sequence).next().transpose()? else {
            return Ok(());
        };
        if number != sequence {
            return Ok(());
        }
        let mut batch = store.batch();
        batch.remove(sequence);
        batch.mark(mark);
        store.write(batch, false)?;
        if self.gap.as_ref().is_some_and(|gap| gap.last == sequence) {
            self.gap = None;
        }
        self.took_out(1, size(&value));
        self.renewed();
        Ok(())
    }

    fn took_out(&mut self, count: u64, bytes: u64) {
        self.count -= count;
        self.bytes -= bytes;
        let acked = self.mark.acked;
        self.gap = self.gap.take().filter(|gap| gap.last > acked);
    }

    /// Replaces the store by a new one if its journal has grown large, and copies the waiting
    /// records. If that fails, the old store remains in use and the attempt is repeated later.
    fn renewed(&mut self) {
        let written = self.store.as_ref().map_or(0, Store::written);
        // Replacing an empty store is cheap.
        let at = match self.count {
            0 => self.limit / 4,
            _ => WRITTEN_MAX * self.limit,
        };
        if written < at.max(self.renew_after) {
            return;
        }
        self.renew_after = written + self.limit / 4;
        if let Err(error) = self.renew() {
            value::log::warning(format_args!("{error}; retrying later"));
        }
    }

    fn renew(&mut self) -> Result<(), Error> {
        let current = Current {
            store: self.current.store + 1,
            ..self.current
        };
        self.folder.remove(&self.folder.new_store())?;
        self.copied()?;
        self.store = None;
        let switched = self.folder.switch(current);
        // The file `current` decides which store is in use, however far the switch got.
        self.current = self.folder.current()?.unwrap_or(current);
        switched?;
        self.reopen()
    }

    fn copied(&mut self) -> Result<(), Error> {
        let mark = self.mark;
        let mut copy = Store::open(&self.folder.path, &self.folder.new_store())?;
        let mut batch = copy.batch();
        for record in self.opened()?.records(mark.acked + 1) {
            let (sequence, value) = record?;
            batch.put(sequence, value.to_vec());
            if batch.bytes() > COPY {
                copy.write(std::mem::replace(&mut batch, copy.batch()), false)?;
            }
        }
        batch.mark(mark);
        copy.write(batch, true)
    }
}

fn unreadable(sequence: u64) -> String {
    format!("record {sequence} cannot be read")
}
