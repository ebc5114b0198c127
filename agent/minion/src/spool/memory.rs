//! The store of a spool in a build without the feature `store`: what waits is gone when the daemon ends.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Error, Mark};

/// Whether what is written outlives the daemon.
pub(super) const LASTS: bool = false;

/// One open store.
pub(super) struct Store {
    records: BTreeMap<u64, Vec<u8>>,
    mark: Mark,
}

/// Records to be written and removed at once.
pub(super) struct Batch {
    records: Vec<(u64, Option<Vec<u8>>)>,
    mark: Option<Mark>,
}

impl Batch {
    /// Writes a record.
    pub(super) fn put(&mut self, sequence: u64, value: Vec<u8>) {
        self.records.push((sequence, Some(value)));
    }

    /// Takes a record out.
    pub(super) fn remove(&mut self, sequence: u64) {
        self.records.push((sequence, None));
    }

    /// About how large it is on a disk.
    pub(super) fn bytes(&self) -> u64 {
        0
    }

    /// Says how far the spool is.
    pub(super) fn mark(&mut self, mark: Mark) {
        self.mark = Some(mark);
    }
}

impl Store {
    /// True where a store was made.
    pub(super) fn is_at(path: &Path) -> bool {
        path.is_dir()
    }

    /// An empty one, with a folder for it.
    pub(super) fn open(folder: &Path, path: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(path).map_err(Error::disk(folder))?;
        Ok(Self {
            records: BTreeMap::new(),
            mark: Mark::default(),
        })
    }

    /// About how many bytes went to a disk.
    pub(super) fn written(&self) -> u64 {
        0
    }

    /// How far the spool is.
    pub(super) fn marked(&self) -> Result<Option<Mark>, Error> {
        Ok(Some(self.mark))
    }

    /// The records from a number on, in their order.
    pub(super) fn records(
        &self,
        from: u64,
    ) -> impl Iterator<Item = Result<(u64, Vec<u8>), Error>> + '_ {
        let found = self.records.range(from.max(1)..);
        found.map(|(sequence, value)| Ok((*sequence, value.clone())))
    }

    /// An empty batch.
    pub(super) fn batch(&self) -> Batch {
        Batch {
            records: Vec::new(),
            mark: None,
        }
    }

    /// Takes all of a batch in.
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
