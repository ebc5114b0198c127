//! Runs that waited for a reboot and are not resumed automatically after it.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::Path;

use value::{Map, jid};

use super::{Recorded, complete_length, line, locked};
use crate::module::Error;

/// Records why a run is not resumed automatically. Does nothing if another process holds the
/// record.
///
/// # Errors
/// When the entry cannot be written.
pub fn leave(path: &Path, why: &str) -> Result<(), Error> {
    let opened = OpenOptions::new().append(true).read(true).open(path);
    let mut file = opened.map_err(Error::io(path))?;
    if !locked(&file) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(Error::io(path))?;
    // A reader would stop at a torn line, and miss the new one.
    file.set_len(complete_length(&bytes))
        .map_err(Error::io(path))?;
    let entry = Map::new().with("left", why).with("time", jid::new());
    let written = file.write_all(line(&entry).as_bytes());
    written
        .and_then(|()| file.sync_data())
        .map_err(Error::io(path))
}

impl Recorded {
    /// Returns whether the run has taken the machine down and continues automatically after the
    /// boot.
    #[must_use]
    pub fn waits_for_boot(&self) -> bool {
        let waits = self.begun.iter().any(|one| one.boot.is_some());
        waits && self.end.is_none() && self.left.is_none()
    }
}
