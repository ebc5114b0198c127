//! [`Batch`]: what commands want written, seen by the commands after them, and written at once.

use std::collections::HashMap;
use std::sync::Arc;

use fjall::{PersistMode, Slice};

use super::disk::Disk;
use super::rows::{Event, Log, Table, at, encode};

/// What is counted, and follows from the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    /// Where the event log begins and ends.
    pub(super) log: Log,
    /// How many keys are pending.
    pub(super) pending: u64,
}

/// A value or its absence, by key.
type Writes = HashMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes that are not written yet.
pub(super) struct Batch<'a> {
    disk: &'a Disk,
    before: Counts,
    writes: [Writes; 4],
    bytes: usize,
    /// The counts after these changes.
    pub(super) counts: Counts,
    /// The new events.
    pub(super) events: Vec<(Arc<Event>, usize)>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(disk: &'a Disk, counts: Counts) -> Self {
        Self {
            disk,
            before: counts,
            writes: Default::default(),
            bytes: 0,
            counts,
            events: Vec::new(),
        }
    }

    /// About how much will be written.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn writes(&mut self, table: Table) -> &mut Writes {
        let [keys, caches, events, jobs] = &mut self.writes;
        match table {
            Table::Keys => keys,
            Table::Caches => caches,
            Table::Events => events,
            Table::Jobs => jobs,
        }
    }

    pub(super) fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Slice>, fjall::Error> {
        if let Some(written) = self.writes(table).get(key) {
            return Ok(written.as_deref().map(Slice::from));
        }
        self.disk.table(table).get(key)
    }

    /// Whether there is such a row, however large it is.
    pub(super) fn has(&mut self, table: Table, key: &[u8]) -> Result<bool, fjall::Error> {
        match self.writes(table).get(key) {
            Some(written) => Ok(written.is_some()),
            None => self.disk.table(table).contains_key(key),
        }
    }

    pub(super) fn put(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.bytes += key.len() + value.len();
        self.writes(table).insert(key, Some(value));
    }

    pub(super) fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.bytes += key.len();
        self.writes(table).insert(key, None);
    }

    /// The keys that begin so, at most some of them: first those that are written already, in order.
    pub(super) fn keys(
        &mut self,
        table: Table,
        prefix: &[u8],
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, fjall::Error> {
        let disk = self.disk;
        let writes = self.writes(table);
        let mut keys = Vec::new();
        for entry in disk.table(table).prefix(prefix) {
            if keys.len() >= limit {
                return Ok(keys);
            }
            let key = entry.key()?;
            if !writes.contains_key(&*key) {
                keys.push(key.to_vec());
            }
        }
        let new = writes.iter().filter(|(_, value)| value.is_some());
        let new = new.filter(|(key, _)| key.starts_with(prefix));
        keys.extend(new.map(|(key, _)| key.clone()).take(limit - keys.len()));
        Ok(keys)
    }

    /// Writes all of it, or nothing; on the disk when that is asked for, with what earlier batches left to the system if there is any.
    pub(super) fn commit(mut self, is_durable: bool, has_more: bool) -> Result<(), fjall::Error> {
        if self.counts.log != self.before.log {
            let log = encode(self.counts.log.row()).map_err(|_| fjall::Error::Unrecoverable)?;
            self.put(Table::Keys, at::LOG.to_vec(), log);
        }
        let mode = match is_durable {
            true => PersistMode::SyncAll,
            false => PersistMode::Buffer,
        };
        self.disk.wait_for_room()?;
        let database = self.disk.database();
        let mut batch = database.batch().durability(Some(mode));
        for (table, writes) in Table::ALL.into_iter().zip(self.writes) {
            let table = self.disk.table(table);
            for (key, value) in writes {
                match value {
                    Some(value) => batch.insert(table, key, value),
                    None => batch.remove(table, key),
                }
            }
        }
        match batch.is_empty() {
            true if has_more => database.persist(mode)?,
            true => {}
            false => batch.commit()?,
        }
        self.disk.rotate()
    }
}
