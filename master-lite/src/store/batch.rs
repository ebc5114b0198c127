//! [`Batch`]: the changes of several commands, visible to later commands of the batch, and written
//! at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use fjall::{PersistMode, Slice};

use super::disk::Disk;
use super::holders::Changes;
use super::rows::{Event, Log, Table, at, encode};
use super::waiting::Waiting;

/// Counts that are derived from the tables and held in memory. Commands read them, so they contain
/// nothing that does not follow from the tables.
#[derive(Debug)]
pub(super) struct Counts {
    /// The bounds of the event log.
    pub(super) log: Log,
    /// The pending keys.
    pub(super) waiting: Waiting,
}

impl Counts {
    /// The counts of an empty store.
    pub(super) fn empty() -> Self {
        Self {
            log: Log::EMPTY,
            waiting: Waiting::default(),
        }
    }
}

/// The values by key; `None` for a removed row.
type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes that are not written yet.
pub(super) struct Batch<'a> {
    disk: &'a Disk,
    before: Log,
    writes: [Writes; 4],
    bytes: usize,
    /// The counts after these changes.
    pub(super) counts: Counts,
    /// The changes of the sizes of holders. Commands write them and never read them.
    pub(super) changes: Changes,
    /// The new events, each with its size in bytes.
    pub(super) events: Vec<(Arc<Event>, usize)>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(disk: &'a Disk, counts: Counts) -> Self {
        Self {
            disk,
            before: counts.log,
            writes: Default::default(),
            bytes: 0,
            counts,
            changes: Changes::default(),
            events: Vec::new(),
        }
    }

    /// Returns the approximate number of bytes to write.
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

    /// Returns whether a row exists, without decoding it.
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

    /// Returns the first `limit` keys with this prefix, in order.
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
                break;
            }
            let key = entry.key()?;
            if !writes.contains_key(&*key) {
                keys.push(key.to_vec());
            }
        }
        let own = writes
            .range(prefix.to_vec()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(_, value)| value.is_some());
        keys.extend(own.map(|(key, _)| key.clone()).take(limit));
        keys.sort_unstable();
        keys.truncate(limit);
        Ok(keys)
    }

    /// Writes all changes or none, and returns the counts after them, and the changes of the sizes of
    /// holders. If `is_durable`, the changes are synced to the disk. `has_more` says that earlier batches were written but not synced; a
    /// durable commit syncs those too, even if this batch is empty.
    pub(super) fn commit(
        mut self,
        is_durable: bool,
        has_more: bool,
    ) -> Result<(Counts, Changes), fjall::Error> {
        if self.counts.log != self.before {
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
        self.disk.rotate()?;
        Ok((self.counts, self.changes))
    }
}
