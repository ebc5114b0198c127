//! Returns of jobs whose daemon was gone when they ended: each lies in a file until a daemon takes it into its spool.
#![expect(
    clippy::disallowed_methods,
    reason = "the file is synced here, and gone when the spool has its return"
)]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use state::opts::Opts;
use value::log;
use wire::{Frame, Limits, Request, Return};

use crate::spool::Spool;

fn folder(opts: &Opts) -> PathBuf {
    opts.cachedir().join("orphans")
}

/// Keeps a return for the next daemon.
pub(crate) fn leave(opts: &Opts, answer: Return) -> io::Result<()> {
    let folder = folder(opts);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let place = folder.join(&answer.jid);
    let beside = place.with_extension("new");
    let mut bytes = Vec::new();
    let encoded = Frame::from(answer).encode(Limits::STREAM, &mut bytes);
    encoded.map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&beside, &place)?;
    File::open(&folder)?.sync_all()
}

/// Takes into these spools what was left; true when there was something.
pub(crate) fn take(opts: &Opts, spools: &[&Spool]) -> bool {
    if spools.is_empty() {
        return false;
    }
    let Ok(left) = fs::read_dir(folder(opts)) else {
        return false;
    };
    let mut has_taken = false;
    for path in left.flatten().map(|entry| entry.path()) {
        if path.extension().is_some() {
            continue;
        }
        match taken(&path, spools) {
            Ok(()) => has_taken = true,
            Err(error) => log::error(format_args!(
                "The return in {} is not taken: {error}",
                path.display()
            )),
        }
    }
    has_taken
}

fn taken(path: &Path, spools: &[&Spool]) -> io::Result<()> {
    let bytes = fs::read(path)?;
    // The length stands before the frame.
    let frame = Frame::decode(bytes.get(4..).unwrap_or_default(), Limits::STREAM);
    let Frame::Request(Request::Return(answer)) = frame.map_err(io::Error::other)? else {
        return Err(io::Error::other("it holds no return"));
    };
    for spool in spools {
        spool.push(answer.clone()).map_err(io::Error::other)?;
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::{Entry, Limits};
    use value::Map;

    #[test]
    fn a_return_without_a_daemon_waits_for_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().display().to_string();
        let opts = Opts::new(Map::new().with("cachedir", cache));
        let answer = Return {
            sequence: 0,
            jid: "20261120101035942505".into(),
            stamp: String::new(),
            data: Map::new().with("return", true),
        };
        leave(&opts, answer.clone()).unwrap();
        let spool = Spool::open(&folder.path().join("spool"), Limits::default()).unwrap();
        assert!(take(&opts, &[&spool]));
        assert!(!take(&opts, &[&spool]));
        let entries = spool.from(1, 10).unwrap();
        let sequence = 1;
        assert_eq!(entries, [Entry::Return(Return { sequence, ..answer })]);
    }
}
