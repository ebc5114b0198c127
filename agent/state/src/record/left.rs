//! A run that waited for a reboot, and is not gone on with after it.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::Path;

use value::{Map, jid};

use super::{Recorded, line, locked, whole};
use crate::module::Error;

/// Notes in the record of a run why nothing goes on with it by itself. One that somebody works with stays as it is.
///
/// # Errors
/// When it cannot be written.
pub fn leave(path: &Path, why: &str) -> Result<(), Error> {
    let opened = OpenOptions::new().append(true).read(true).open(path);
    let mut file = opened.map_err(Error::io(path))?;
    if !locked(&file) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(Error::io(path))?;
    // What is torn would hide it.
    file.set_len(whole(&bytes)).map_err(Error::io(path))?;
    let entry = Map::new().with("left", why).with("time", jid::new());
    let written = file.write_all(line(&entry).as_bytes());
    written
        .and_then(|()| file.sync_data())
        .map_err(Error::io(path))
}

impl Recorded {
    /// Whether it has taken the machine down, and goes on by itself after that.
    #[must_use]
    pub fn waits_for_boot(&self) -> bool {
        let waits = self.begun.iter().any(|one| one.boot.is_some());
        waits && self.end.is_none() && self.left.is_none()
    }
}
