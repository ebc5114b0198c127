//! [`Batch`]: what commands want written, seen by the commands after them, and written at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fjall::{PersistMode, Slice};

use super::disk::Disk;
use super::holders::Holders;
use super::rows::{Event, Log, Table, at, encode};
use super::waiting::Waiting;

/// What is counted, and follows from the tables.
#[derive(Debug)]
pub(super) struct Counts {
    /// Where the event log begins and ends.
    pub(super) log: Log,
    /// The keys that are pending.
    pub(super) waiting: Waiting,
    /// Whose the events are.
    pub(super) events: Holders,
    /// Whose the jobs and returns are.
    pub(super) jobs: Holders,
}

impl Counts {
    /// The counts of an empty store.
    pub(super) fn empty() -> Self {
        Self {
            log: Log::EMPTY,
            waiting: Waiting::default(),
            events: Holders::default(),
            jobs: Holders::default(),
        }
    }
}

/// A value or its absence, by key.
type Writes = HashMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes that are not written yet.
pub(super) struct Batch<'a> {
    disk: &'a Disk,
    before: Log,
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
            before: counts.log,
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

    /// The rows on the disk from a key on, as long as their keys begin so, without those that were written or removed since.
    pub(super) fn rows_from(
        &self,
        table: Table,
        from: &[u8],
        prefix: &'static [u8],
    ) -> impl Iterator<Item = Result<(Slice, Slice), fjall::Error>> + use<'a> {
        let place = Table::ALL.iter().position(|one| *one == table);
        let writes = place.and_then(|place| self.writes.get(place));
        let changed: HashSet<Vec<u8>> = writes
            .into_iter()
            .flat_map(|all| all.keys().cloned())
            .collect();
        let rows = self.disk.table(table).range(from.to_vec()..);
        rows.map(fjall::Guard::into_inner)
            .take_while(move |row| {
                row.as_ref()
                    .map_or(true, |(key, _)| key.starts_with(prefix))
            })
            .filter(move |row| {
                row.as_ref()
                    .map_or(true, |(key, _)| !changed.contains(&**key))
            })
    }

    /// Writes all of it, or nothing; on the disk when that is asked for, with what earlier batches left to the system if there is any.
    /// The counts after it come back.
    pub(super) fn commit(
        mut self,
        is_durable: bool,
        has_more: bool,
    ) -> Result<Counts, fjall::Error> {
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
        Ok(self.counts)
    }
}
