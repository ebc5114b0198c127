//! The store of a spool in a build without the feature `store`: records are lost when the daemon
//! ends.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Error, Mark};

/// True if records outlive the daemon.
pub(super) const LASTS: bool = false;

/// An open store.
pub(super) struct Store {
    records: BTreeMap<u64, Vec<u8>>,
    mark: Mark,
}

/// Records to write and remove at once.
pub(super) struct Batch {
    records: Vec<(u64, Option<Vec<u8>>)>,
    mark: Option<Mark>,
}

impl Batch {
    /// Writes a record.
    pub(super) fn put(&mut self, sequence: u64, value: Vec<u8>) {
        self.records.push((sequence, Some(value)));
    }

    /// Removes a record.
    pub(super) fn remove(&mut self, sequence: u64) {
        self.records.push((sequence, None));
    }

    /// Returns its approximate size on disk.
    pub(super) fn bytes(&self) -> u64 {
        0
    }

    /// Writes the progress of the spool.
    pub(super) fn mark(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }
}

impl Store {
    /// Returns true if a store was created there.
    pub(super) fn is_at(path: &Path) -> bool {
        path.is_dir()
    }

    /// Creates an empty store, and a folder for it.
    pub(super) fn open(folder: &Path, path: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(Error::disk(folder))?;
        Ok(Self {
            records: BTreeMap::new(),
            mark: Mark::default(),
        })
    }

    /// Returns approximately how many bytes were written to disk.
    pub(super) fn written(&self) -> u64 {
        0
    }

    /// Returns the progress of the spool.
    pub(super) fn marked(&self) -> Result<Option<Mark>, Error> {
        Ok(Some(self.mark))
    }

    /// Returns the records from a number on, in order.
    pub(super) fn records(
        &self,
        from: u64,
    ) -> impl Iterator<Item = Result<(u64, Vec<u8>), Error>> + '_ {
        let found = self.records.range(from.max(1)..);
        found.map(|(sequence, value)| Ok((*sequence, value.clone())))
    }

    /// Returns an empty batch.
    pub(super) fn batch(&self) -> Batch {
        Batch {
            records: Vec::new(),
            mark: None,
        }
    }

    /// Writes all of a batch.
    pub(super) fn write(&mut self, batch: Batch, _synced: bool) -> Result<(), Error> {
        for (sequence, value) in batch.records {
            match value {
                Some(value) => self.records.insert(sequence, value),
                None => self.records.remove(&sequence),
            };
        }
        self.mark = batch.mark.unwrap_or(self.mark);
        Ok(())
    }
}
