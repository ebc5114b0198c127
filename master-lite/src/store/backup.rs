//! The rows of a store as bytes of a backup, and the store that is made of them.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fjall::{PersistMode, Readable, Slice};

use super::disk::{self, Disk, FORMAT};
use super::error::words;
use super::rows::{Table, at};
use super::{Error, Limits, Store};

/// The mark of a row in a backup.
pub(crate) const ROW: u8 = b'r';
/// The maximum length of a row's key in a backup.
const KEY_MAX: usize = 64 << 10;
/// The maximum length of a row's value in a backup.
const VALUE_MAX: usize = 64 << 20;
/// The size in bytes of a piece of a backup, and of a batch of a new store.
pub(super) const PIECE: usize = 256 << 10;

/// A row of a backup: its table, its key and its value.
pub(crate) type Row = (u8, Vec<u8>, Vec<u8>);

impl Store {
    /// Passes all rows of one consistent state of the store to `take`, in pieces. Everything that
    /// was acknowledged before this call is in it. Returns the number of rows, or `None` if `take`
    /// returns false. It reads files and may block.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read, or cannot be written at present.
    pub(crate) fn export(
        &self,
        take: &mut dyn FnMut(Vec<u8>) -> bool,
    ) -> Result<Option<u64>, Error> {
        smol::block_on(self.sync())?;
        let disk = self.disk()?;
        let snapshot = disk.database().snapshot();
        let (mut rows, mut piece) = (0, Vec::new());
        for (number, table) in (0..).zip(Table::ALL) {
            for entry in snapshot.iter(disk.table(table)) {
                let row: Result<(Slice, Slice), _> = entry.into_inner();
                let (key, value) = row.map_err(|error| self.unreadable(words(&error)))?;
                if key.as_ref() == at::CONTROL {
                    // A backup belongs to no cluster: what is restored from it founds one anew.
                    continue;
                }
                self.or_damaged("a row", put_row(&mut piece, number, &key, &value))?;
                rows += 1;
                if piece.len() >= PIECE && !take(std::mem::take(&mut piece)) {
                    return Ok(None);
                }
            }
        }
        Ok(take(piece).then_some(rows))
    }
}

/// Appends a row to a piece. Returns `None` if it is longer than any that the store writes.
pub(super) fn put_row(piece: &mut Vec<u8>, table: u8, key: &[u8], value: &[u8]) -> Option<()> {
    if key.len() > KEY_MAX || value.len() > VALUE_MAX {
        return None;
    }
    piece.extend([ROW, table]);
    piece.extend(u32::try_from(key.len()).ok()?.to_be_bytes());
    piece.extend(u32::try_from(value.len()).ok()?.to_be_bytes());
    piece.extend_from_slice(key);
    piece.extend_from_slice(value);
    Some(())
}

/// Reads a row after its mark. `read` fills a buffer of exactly the given length.
///
/// # Errors
/// Returns the error of `read`, or an error if the row is longer than the limits.
pub(crate) fn read_row(
    read: &mut dyn FnMut(usize) -> std::io::Result<Vec<u8>>,
) -> std::io::Result<Row> {
    let wrong = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let head = read(9)?;
    let (table, lengths) = head.split_first().ok_or_else(wrong)?;
    let (key, value) = lengths.split_at_checked(4).ok_or_else(wrong)?;
    let length = |bytes: &[u8], most: usize| {
        let bytes = bytes.try_into().map_err(|_| wrong())?;
        let length = usize::try_from(u32::from_be_bytes(bytes)).map_err(|_| wrong())?;
        if length > most {
            Err(wrong())
        } else {
            Ok(length)
        }
    };
    let (key, value) = (length(key, KEY_MAX)?, length(value, VALUE_MAX)?);
    Ok((*table, read(key)?, read(value)?))
}

/// A new store that is made of the rows of a backup.
pub(crate) struct Import {
    folder: PathBuf,
    disk: Disk,
    rows: Vec<Row>,
    bytes: usize,
}

impl Import {
    /// Creates an empty store in a folder that does not exist.
    ///
    /// # Errors
    /// Returns an error if the folder exists or cannot be created.
    pub(crate) fn create(folder: &Path) -> Result<Self, Error> {
        disk::own_mask();
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.mode(0o700).create(folder);
        made.map_err(|source| Error::io(folder, &source))?;
        Ok(Self {
            folder: folder.to_owned(),
            disk: Disk::open(folder, &Limits::default())?,
            rows: Vec::new(),
            bytes: 0,
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Returns an error if it cannot be written, or the table is unknown.
    pub(crate) fn add(&mut self, row: Row) -> Result<(), Error> {
        self.bytes += row.1.len() + row.2.len();
        self.rows.push(row);
        match self.bytes >= PIECE {
            true => self.write(PersistMode::Buffer),
            false => Ok(()),
        }
    }

    /// Makes all rows readable.
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.write(PersistMode::Buffer)
    }

    /// Returns the keys with a prefix, of the rows that are readable.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub(super) fn keys(&self, table: Table, prefix: &[u8]) -> Result<Vec<Slice>, Error> {
        let rows = self.disk.table(table).prefix(prefix);
        let keys: Result<_, _> = rows.map(fjall::Guard::key).collect();
        keys.map_err(|error| Error::from_fjall(&self.folder, &error))
    }

    /// Returns a row that is readable.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub(super) fn row(&self, table: Table, key: &[u8]) -> Result<Option<Slice>, Error> {
        let row = self.disk.table(table).get(key);
        row.map_err(|error| Error::from_fjall(&self.folder, &error))
    }

    /// Replaces a row, or removes it.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn put(
        &mut self,
        table: Table,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Error> {
        let table = self.disk.table(table);
        let changed = match value {
            Some(value) => table.insert(key, value),
            None => table.remove(key),
        };
        changed.map_err(|error| Error::from_fjall(&self.folder, &error))
    }

    fn write(&mut self, mode: PersistMode) -> Result<(), Error> {
        let fail = |error: fjall::Error| Error::from_fjall(&self.folder, &error);
        self.disk.wait_for_room().map_err(fail)?;
        let mut batch = self.disk.database().batch().durability(Some(mode));
        for (table, key, value) in std::mem::take(&mut self.rows) {
            let table = Table::ALL.get(usize::from(table));
            let table = table.ok_or_else(|| Error::Damaged {
                folder: self.folder.clone(),
                what: "the backup has an unknown table".to_owned(),
            })?;
            batch.insert(self.disk.table(*table), key, value);
        }
        self.bytes = 0;
        batch.commit().map_err(fail)?;
        self.disk.database().persist(mode).map_err(fail)?;
        self.disk.rotate().map_err(fail)
    }

    /// Writes the remaining rows, and marks the store as complete. It is on the disk then.
    ///
    /// # Errors
    /// Returns an error if that cannot be written.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.write(PersistMode::SyncAll)?;
        let Self { folder, disk, .. } = self;
        drop(disk);
        let format = format!("{FORMAT}\n");
        let placed = disk::place(&folder, "format", format.as_bytes());
        placed.map_err(|source| Error::io(&folder, &source))
    }
}

/// Takes the lock of a store that exists, so that no master uses it meanwhile. Returns `None` if
/// the folder does not exist.
///
/// # Errors
/// Returns an error if another process holds the lock.
pub(crate) fn lock(folder: &Path) -> Result<Option<disk::Lock>, Error> {
    match folder.exists() {
        true => disk::take_lock(folder, Duration::ZERO).map(Some),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_longer_than_the_limits_is_refused() {
        let mut piece = Vec::new();
        put_row(&mut piece, 2, b"key", b"value").unwrap();
        let read_from = |mut bytes: &[u8]| {
            read_row(&mut |count| {
                let (part, rest) = bytes
                    .split_at_checked(count)
                    .ok_or(std::io::ErrorKind::UnexpectedEof)?;
                bytes = rest;
                Ok(part.to_vec())
            })
        };
        let read = read_from(&piece[1..]).unwrap();
        assert_eq!(read, (2, b"key".to_vec(), b"value".to_vec()));
        assert!(read_from(&piece[1..piece.len() - 1]).is_err());
        piece[6] = 0xff;
        assert!(read_from(&piece[1..]).is_err());
    }
}
