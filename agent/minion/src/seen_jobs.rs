//! [`SeenJobs`]: the ids of the last jobs that masters sent, so that a job runs only once, however
//! often it is sent.
//!
//! The ids are lines of a file, so that a daemon that was restarted knows them. A line is written
//! before its job starts. It reaches the disk when the system next writes to the disk, at the
//! latest with the return. A machine that loses its power before that may forget the jobs of its
//! last moments.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use value::{jid, log};

/// The number of ids that are remembered (Salt's `minion_jid_queue_hwm` is 100). A restarted master
/// sends again what it may not have sent before.
const TAKEN_MAX: usize = 1024;
/// The number of lines at which the file is rewritten.
const LINES_MAX: usize = 8 * TAKEN_MAX;
/// The maximum number of bytes that are read from the file. It is never longer unless another
/// program has written to it.
const BYTES_MAX: u64 = 1 << 20;
const NAME: &str = "taken";
/// The prefix of an id that may be sent again after all.
const BACK: char = '-';

/// The ids of the last jobs.
#[derive(Debug, Default)]
pub(crate) struct SeenJobs {
    ids: VecDeque<String>,
    folder: Option<PathBuf>,
    file: Option<File>,
    lines: usize,
}

impl SeenJobs {
    /// Reads the ids from the file of a folder. If the file cannot be read or written, this is
    /// logged, and the ids are remembered in memory only.
    pub(crate) fn open(folder: &Path) -> Self {
        let mut taken = Self {
            folder: Some(folder.to_owned()),
            ..Self::default()
        };
        if let Err(error) = taken.read() {
            taken.tell(&error);
        }
        taken
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        value::trust::folder(folder)?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let mut file = options.open(folder.join(NAME))?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file)
            .take(BYTES_MAX)
            .read_to_end(&mut bytes)?;
        // A crash may have left an incomplete line.
        if bytes.last().is_some_and(|last| *last != b'\n') {
            file.write_all(b"\n")?;
        }
        for line in String::from_utf8_lossy(&bytes).lines() {
            self.lines += 1;
            match line.strip_prefix(BACK) {
                Some(jid) => self.forget(jid),
                None if jid::is_jid(line) => self.remember(line),
                None => {}
            }
        }
        self.file = Some(file);
        Ok(())
    }

    fn remember(&mut self, jid: &str) {
        self.ids.push_back(jid.to_owned());
        if self.ids.len() > TAKEN_MAX {
            self.ids.pop_front();
        }
    }

    fn forget(&mut self, jid: &str) {
        self.ids.retain(|known| known != jid);
    }

    /// Returns whether a job of this id was sent.
    pub(crate) fn is_known(&self, jid: &str) -> bool {
        self.ids.iter().any(|known| known == jid)
    }

    /// Remembers a job that a master sends. Returns false if the job was sent before.
    pub(crate) fn is_new(&mut self, jid: &str) -> bool {
        if self.is_known(jid) {
            return false;
        }
        self.remember(jid);
        self.note(&format!("{jid}\n"));
        true
    }

    /// Forgets a job that could not be started, so that it may be sent again.
    pub(crate) fn is_not_begun(&mut self, jid: &str) {
        self.forget(jid);
        self.note(&format!("{BACK}{jid}\n"));
    }

    fn note(&mut self, line: &str) {
        self.lines += 1;
        let noted = match self.lines > LINES_MAX {
            true => self.rewrite(),
            false => self
                .file
                .as_mut()
                .map_or(Ok(()), |file| file.write_all(line.as_bytes())),
        };
        if let Err(error) = noted {
            self.tell(&error);
        }
    }

    /// Rewrites the file with the ids that are remembered.
    fn rewrite(&mut self) -> io::Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let lines: String = self.ids.iter().map(|jid| format!("{jid}\n")).collect();
        machine::durable::write(folder, NAME, lines.as_bytes())?;
        let file = OpenOptions::new().append(true).open(folder.join(NAME))?;
        (self.file, self.lines) = (Some(file), self.ids.len());
        Ok(())
    }

    fn tell(&self, error: &io::Error) {
        let folder = self.folder.as_deref().unwrap_or_else(|| Path::new(""));
        log::warning(format_args!(
            "cannot record the jobs in {}: {error}; a job that is sent again after a restart runs again",
            folder.join(NAME).display()
        ));
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test's own files")]

    use super::*;

    fn jid(number: usize) -> String {
        format!("20261122{number:012}")
    }

    #[test]
    fn a_job_is_taken_once_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut taken = SeenJobs::open(folder.path());
        assert!(taken.is_new(&jid(1)) && !taken.is_new(&jid(1)));
        assert!(taken.is_new(&jid(2)));
        taken.is_not_begun(&jid(2));
        drop(taken);
        let mut taken = SeenJobs::open(folder.path());
        assert!(!taken.is_new(&jid(1)), "it is known after a restart");
        assert!(taken.is_new(&jid(2)), "it was not begun");
    }

    #[test]
    fn half_a_line_is_no_id_and_spoils_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, format!("{}\n2026112200", jid(1))).unwrap();
        assert!(SeenJobs::open(folder.path()).is_new(&jid(2)));
        let mut taken = SeenJobs::open(folder.path());
        assert!(!taken.is_new(&jid(1)) && !taken.is_new(&jid(2)));
    }

    #[test]
    fn the_oldest_are_forgotten_and_the_file_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let mut taken = SeenJobs::open(folder.path());
        let all = 3 * LINES_MAX;
        assert!((0..all).all(|number| taken.is_new(&jid(number))));
        drop(taken);
        let lines = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert!(lines.lines().count() <= LINES_MAX);
        let mut taken = SeenJobs::open(folder.path());
        assert!(!taken.is_new(&jid(all - TAKEN_MAX)));
        assert!(taken.is_new(&jid(all - 2 * TAKEN_MAX)));
    }
}
