//! [`check`]: compares the files of a folder of fjall with their checksums, before fjall opens them;
//! [`Acknowledged`]: the number of batches that a folder must have.
//!
//! fjall checks a block of rows when it reads the block. It checks neither its lists of tables nor the
//! numbers of the batches in a journal, it ends the process at some damage of the end of a table, and it
//! removes all that follows an unknown byte in a journal.
//!
//! ```text
//! keyspaces/N/current      the number and the checksum of the list of tables
//! keyspaces/N/vNUMBER      the list: the numbers and the checksums of the tables
//! keyspaces/N/tables/      the tables
//! NUMBER.jnl               a journal: batches of changes, each with a checksum, and zeros after them
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The first bytes of the parts of a journal.
const BATCH: u8 = 1;
const ROW: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
/// The last bytes of a batch.
const MAGIC: [u8; 4] = *b"FJL\x03";
/// The numbers of batches are lower.
const NUMBER_MAX: u64 = 1 << 62;
/// The entry of the tables in the contents of a list is two numbers, the length of this name, and it.
const TABLES: &[u8] = b"\x06\x00tables";

/// The treatment of a batch in the newest journal that is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// The batch and all after it are removed: they may not have been on the disk completely.
    Remove,
    /// The same, if the batch is cut. It is damage if the batch has its end.
    RemoveIfCut,
}

fn damaged(path: &Path, what: &str) -> io::Error {
    let path = path.display();
    io::Error::new(ErrorKind::InvalidData, format!("{path}: {what}"))
}

/// Adds the folder to an error about damage.
pub(super) fn in_folder(folder: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::InvalidData => damaged(folder, &error.to_string()),
        _ => error,
    }
}

fn missing(path: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::NotFound => damaged(path, "it is missing"),
        _ => error,
    }
}

/// Checks the files of a folder of fjall, which no process uses.
///
/// # Errors
/// When a file is damaged ([`ErrorKind::InvalidData`]), or cannot be read.
pub fn check(folder: &Path, unfinished: Unfinished) -> io::Result<()> {
    for keyspace in entries(&folder.join("keyspaces"))? {
        check_tables(&keyspace)?;
    }
    let mut journals = entries(folder)?;
    journals.retain(|path| path.extension().is_some_and(|name| name == "jnl"));
    let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
    journals.sort_by_key(number);
    let newest = journals.last().cloned();
    let mut last = None;
    for path in journals {
        let journal = Journal::new(BufReader::new(File::open(&path)?));
        let Some((at, is_complete)) = journal.read(&mut last)? else {
            continue;
        };
        let is_damage = is_complete && unfinished == Unfinished::RemoveIfCut;
        if is_damage || newest.as_ref() != Some(&path) {
            let what = format!("the batch at byte {at} is not as it was written");
            return Err(damaged(&path, &what));
        }
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(at)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Returns the paths in a folder, none if it does not exist.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Checks the tables of a keyspace, and their list.
fn check_tables(keyspace: &Path) -> io::Result<()> {
    let (current, tables) = (keyspace.join("current"), keyspace.join("tables"));
    if !current.try_exists()? && entries(&tables)?.is_empty() {
        // The process was killed while it created the keyspace.
        return Ok(());
    }
    let bytes = std::fs::read(&current).map_err(|error| missing(&current, error))?;
    let mut fields = Fields::new(&*bytes);
    let (Ok(number), Ok(hash)) = (fields.number(), fields.take()) else {
        return Err(damaged(&current, "it is cut"));
    };
    let list = keyspace.join(format!("v{number}"));
    let bytes = std::fs::read(&list).map_err(|error| missing(&list, error))?;
    if xxh3_128(&bytes).to_le_bytes() != hash {
        return Err(damaged(&list, "`current` has another checksum of it"));
    }
    for (number, hash) in listed(&bytes)? {
        let path = tables.join(number.to_string());
        let file = File::open(&path).map_err(|error| missing(&path, error))?;
        let (length, mut found) = (file.metadata()?.len(), Xxh3::new());
        Fields::new(BufReader::new(file)).pass(length, &mut found)?;
        if found.digest128().to_le_bytes() != hash {
            return Err(damaged(&path, "its list has another checksum of it"));
        }
    }
    Ok(())
}

/// Returns the numbers and the checksums of the tables in a list.
fn listed(list: &[u8]) -> io::Result<Vec<(u64, [u8; 16])>> {
    let part = |from: u64| list.get(usize::try_from(from).ok()?..);
    let name = list.windows(TABLES.len()).rposition(|name| name == TABLES);
    let entry = name.and_then(|name| list.get(name.checked_sub(16)?..));
    let begin = Fields::new(entry.ok_or_else(changed)?).number()?;
    let mut fields = Fields::new(part(begin).ok_or_else(changed)?);
    let mut tables = Vec::new();
    let [levels] = fields.take()?;
    for _ in 0..levels {
        let [runs] = fields.take()?;
        for _ in 0..runs {
            for _ in 0..u32::from_le_bytes(fields.take()?) {
                let (number, _kind) = (fields.number()?, fields.take::<1>()?);
                tables.push((number, fields.take()?));
                fields.number()?;
            }
        }
    }
    Ok(tables)
}

/// The error about a file that ends, or has a byte that is not possible there.
fn cut() -> io::Error {
    ErrorKind::UnexpectedEof.into()
}

/// The error about bytes that have their end, but not the contents that were written.
fn changed() -> io::Error {
    ErrorKind::InvalidData.into()
}

/// The fields of a file, and the position in it. The lowest byte of a number is the first one.
struct Fields<F> {
    file: F,
    at: u64,
}

impl<F: BufRead> Fields<F> {
    fn new(file: F) -> Self {
        Self { file, at: 0 }
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut field = [0; N];
        self.file.read_exact(&mut field)?;
        self.at += N as u64;
        Ok(field)
    }

    fn number(&mut self) -> io::Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn hashed<const N: usize>(&mut self, hash: &mut Xxh3) -> io::Result<[u8; N]> {
        let field = self.take()?;
        hash.update(&field);
        Ok(field)
    }

    /// Adds bytes to a checksum.
    fn pass(&mut self, mut left: u64, hash: &mut Xxh3) -> io::Result<()> {
        while left > 0 {
            let bytes = self.file.fill_buf()?;
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let bytes = bytes.get(..most).unwrap_or(bytes);
            if bytes.is_empty() {
                return Err(cut());
            }
            hash.update(bytes);
            let count = bytes.len();
            self.file.consume(count);
            left -= count as u64;
            self.at += count as u64;
        }
        Ok(())
    }
}

type Journal = Fields<BufReader<File>>;

impl Journal {
    /// Reads all batches. Returns the position of the first one that is not as it was written, and
    /// whether it has its end.
    fn read(mut self, last: &mut Option<u64>) -> io::Result<Option<(u64, bool)>> {
        loop {
            let begin = self.at;
            let Err(error) = self.batch(last) else {
                continue;
            };
            let is_complete = match error.kind() {
                ErrorKind::UnexpectedEof => false,
                ErrorKind::InvalidData => true,
                _ => return Err(error),
            };
            let is_end = self.is_zero_from(begin)?;
            return Ok((!is_end).then_some((begin, is_complete)));
        }
    }

    fn batch(&mut self, last: &mut Option<u64>) -> io::Result<()> {
        if self.take()? != [BATCH] {
            return Err(cut());
        }
        let count = u32::from_le_bytes(self.take()?);
        let (number, mut hash) = (self.number()?, Xxh3::new());
        for _ in 0..count {
            self.part(&mut hash)?;
        }
        match self.take()? {
            [END] => {}
            [ROW | CLEAR] => return Err(changed()),
            _ => return Err(cut()),
        }
        let written = self.number()?;
        if self.take()? != MAGIC {
            return Err(cut());
        }
        let is_next = last.is_none_or(|last| last < number) && number < NUMBER_MAX;
        if written != hash.digest() || !is_next {
            return Err(changed());
        }
        *last = Some(number);
        Ok(())
    }

    /// Reads a row that is put or removed, or the removal of all.
    fn part(&mut self, hash: &mut Xxh3) -> io::Result<()> {
        match self.hashed(hash)? {
            [ROW] => {
                // The kinds of the change and of its compression, and the keyspace.
                self.hashed::<10>(hash)?;
                let key = u16::from_le_bytes(self.hashed(hash)?);
                // The length of the value, and that of its bytes in the journal.
                self.hashed::<4>(hash)?;
                let value = u32::from_le_bytes(self.hashed(hash)?);
                self.pass(u64::from(key) + u64::from(value), hash)
            }
            [CLEAR] => self.hashed::<8>(hash).map(drop),
            [END] => Err(changed()),
            _ => Err(cut()),
        }
    }

    /// Returns whether there are only zeros from a position on: fjall makes a journal longer before
    /// it writes to it.
    fn is_zero_from(&mut self, at: u64) -> io::Result<bool> {
        self.file.seek(SeekFrom::Start(at))?;
        loop {
            let bytes = self.file.fill_buf()?;
            if bytes.is_empty() || bytes.iter().any(|byte| *byte != 0) {
                return Ok(bytes.is_empty());
            }
            let count = bytes.len();
            self.file.consume(count);
        }
    }
}

/// The number of the last batch that was acknowledged, in its file `acknowledged`. Each batch has its
/// number, so a folder that has lost the newest ones is noticed. The file is not synced: after a power
/// cut its number may be lower, but never higher.
#[derive(Debug)]
pub(super) struct Acknowledged {
    file: File,
    number: u64,
}

impl Acknowledged {
    /// Opens the file of a folder whose last batch has this number.
    ///
    /// # Errors
    /// When batches that were acknowledged are missing, or the file cannot be used.
    pub(super) fn open(folder: &Path, number: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(folder.join("acknowledged"))?;
        let mut known = Vec::new();
        Read::by_ref(&mut file).take(8).read_to_end(&mut known)?;
        // A new file is empty.
        let known = known.try_into().map_or(0, u64::from_le_bytes);
        if number < known {
            let lost = format!("it ends with batch {number}, and {known} were acknowledged");
            return Err(damaged(folder, &lost));
        }
        let opened = Self { file, number };
        opened.write()?;
        opened.file.sync_all()?;
        File::open(folder)?.sync_all()?;
        Ok(opened)
    }

    /// Returns the number of the next batch.
    pub(super) fn next(&self) -> u64 {
        self.number + 1
    }

    /// Notes that the next batch is on the disk.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(super) fn acknowledge(&mut self) -> io::Result<()> {
        self.number += 1;
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        self.file.write_all_at(&self.number.to_le_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test's own files")]

    use smol::channel::bounded;

    use super::super::medium::{Change, Disk, Medium};
    use super::*;

    type Rows = Vec<(Vec<u8>, Vec<u8>)>;

    /// Writes batches, some of which fjall puts into tables meanwhile.
    fn write(disk: &Disk, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let mut changes = vec![
                Change::Put(vec![0, b'v'], number.to_be_bytes().to_vec()),
                Change::Put(
                    [&[0, b'e'][..], &number.to_be_bytes()].concat(),
                    vec![b'x'; 9000],
                ),
            ];
            if number.is_multiple_of(7) {
                let removed = number.saturating_sub(3).to_be_bytes();
                changes.push(Change::Remove(
                    vec![0, b'e'],
                    [&[0, b'e'][..], &removed].concat(),
                ));
            }
            let (sender, done) = bounded(1);
            let send = move |result| sender.try_send(result).unwrap();
            disk.write(changes, Box::new(send));
            done.recv_blocking().unwrap().unwrap();
        }
    }

    fn rows(folder: &Path) -> io::Result<Rows> {
        Disk::open(folder)?.rows(&[0], &[1], usize::MAX)
    }

    /// Returns all files below a folder without the zeros after journals.
    fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all = Vec::new();
        for path in entries(folder).unwrap() {
            if path.is_dir() {
                all.extend(files(&path));
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            if path.extension().is_some_and(|name| name == "jnl") {
                let end = bytes.iter().rposition(|byte| *byte != 0);
                bytes.truncate(end.map_or(0, |end| end + 1));
            }
            all.push((path, bytes));
        }
        all.sort();
        all
    }

    struct Copies {
        stem: tempfile::TempDir,
        files: Vec<(PathBuf, Vec<u8>)>,
        rows: Rows,
    }

    impl Copies {
        fn new() -> Self {
            let stem = tempfile::tempdir().unwrap();
            let folder = stem.path().join("log");
            // The second start has both tables and a journal.
            write(&Disk::open(&folder).unwrap(), 0..700);
            write(&Disk::open(&folder).unwrap(), 700..740);
            let rows = rows(&folder).unwrap();
            let files = files(&folder);
            for file in ["jnl", "current", "v", "tables/", "acknowledged"] {
                let is_there = |path: &Path| path.display().to_string().contains(file);
                assert!(files.iter().any(|(path, _)| is_there(path)), "{file}");
            }
            Self { stem, files, rows }
        }

        /// Reads a copy in which one file has other bytes. Returns the error.
        fn read(&self, changed: &Path, bytes: &[u8]) -> Result<Rows, String> {
            let folder = self.stem.path().join("log");
            std::fs::remove_dir_all(&folder).unwrap();
            for (path, original) in &self.files {
                let bytes = if path == changed { bytes } else { original };
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
            rows(&folder).map_err(|error| error.to_string())
        }

        /// Asserts that a change of a file changes nothing, or is an error that names a place.
        fn survives(&self, changed: &Path, bytes: &[u8], what: &str) {
            let what = format!("{} {what}", changed.display());
            match self.read(changed, bytes) {
                Ok(rows) => assert!(rows == self.rows, "{what}: {} rows", rows.len()),
                Err(error) => assert!(error.contains("/log"), "{what}: {error}"),
            }
        }
    }

    #[test]
    fn one_flipped_bit_in_any_file_is_an_error_or_changes_nothing() {
        let copies = Copies::new();
        let mut seed = 7_u64;
        for (path, bytes) in &copies.files {
            for _ in 0..bytes.len().min(24) {
                seed = xxhash_rust::xxh3::xxh3_64(&seed.to_le_bytes());
                let at = usize::try_from(seed).unwrap() % (bytes.len() * 8);
                let mut bytes = bytes.clone();
                bytes[at / 8] ^= 1 << (at % 8);
                copies.survives(path, &bytes, &format!("bit {at}"));
            }
        }
    }

    #[test]
    fn a_file_that_is_cut_or_removed_is_an_error_or_changes_nothing() {
        let copies = Copies::new();
        for (path, bytes) in &copies.files {
            for cut in [bytes.len() / 3, bytes.len().saturating_sub(1)] {
                copies.survives(path, &bytes[..cut], &format!("cut at {cut}"));
            }
        }
    }

    #[test]
    fn each_field_of_the_newest_journal_is_checked() {
        let copies = Copies::new();
        let journal = |path: &Path| path.extension().is_some_and(|name| name == "jnl");
        let (path, bytes) = copies.files.iter().find(|(path, _)| journal(path)).unwrap();
        let begin = bytes.len() - bytes.len() % 8;
        assert!(begin > 9000);
        // The head of the first batch and of its first row, and the end of the last batch.
        for at in (0..60).chain(bytes.len() - 13..bytes.len()) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            copies.survives(path, &bytes, &format!("byte {at}"));
        }
    }

    #[test]
    fn a_batch_that_was_not_acknowledged_may_be_cut() {
        let copies = Copies::new();
        let journal = |path: &Path| path.extension().is_some_and(|name| name == "jnl");
        let (path, bytes) = copies.files.iter().find(|(path, _)| journal(path)).unwrap();
        for added in [5000, 11, 1] {
            let unfinished = [bytes, &bytes[..added]].concat();
            assert_eq!(copies.read(path, &unfinished), Ok(copies.rows.clone()));
        }
        // It is damage of a journal that is not the newest one.
        let folder = copies.stem.path().join("log");
        std::fs::write(path, [bytes, &bytes[..11]].concat()).unwrap();
        std::fs::write(folder.join("999.jnl"), b"").unwrap();
        let error = check(&folder, Unfinished::Remove).unwrap_err().to_string();
        assert!(error.contains(".jnl: the batch at byte"), "{error}");
    }
}
