//! Stores returns of jobs whose daemon was gone when they ended. Each is a file until a daemon
//! moves it into its spool.
#![expect(
    clippy::disallowed_methods,
    reason = "a file is removed after the spool or the reactor has stored its return"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use state::opts::Opts;
use value::read::or_log;
use value::{log, remove};
use wire::{Frame, Limits, Request, Return};

use crate::spool::Spool;

fn folder(opts: &Opts) -> PathBuf {
    opts.cachedir().join("orphans")
}

/// Writes a return for the next daemon.
pub(crate) fn leave(opts: &Opts, answer: Return) -> io::Result<()> {
    let name = answer.jid.clone();
    machine::durable::write(&folder(opts), &name, &encoded(answer)?)
}

/// Like [`leave`], for a job of a reaction: its file has an extension, so that the return is not
/// sent to the masters.
pub(crate) fn leave_to_reactor(opts: &Opts, answer: Return) -> io::Result<()> {
    let name = of_reaction(&answer.jid);
    machine::durable::write(&folder(opts), &name, &encoded(answer)?)
}

fn of_reaction(jid: &str) -> String {
    format!("{jid}.reaction")
}

fn encoded(answer: Return) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let encoded = Frame::from(answer).encode(Limits::STREAM, &mut bytes);
    encoded.map_err(io::Error::other)?;
    Ok(bytes)
}

/// Returns the return of a reaction's job that outlived its daemon.
pub(crate) fn of_job(opts: &Opts, jid: &str) -> Option<Return> {
    read(&folder(opts).join(of_reaction(jid))).ok()
}

/// Removes the return of a reaction's job.
pub(crate) fn forget(opts: &Opts, jid: &str) {
    let path = folder(opts).join(of_reaction(jid));
    remove::or_log(&path, fs::remove_file(&path));
}

/// Moves the returns that were left into these spools. Returns true if there were any.
pub(crate) fn take(opts: &Opts, spools: &[&Spool]) -> bool {
    if spools.is_empty() {
        return false;
    }
    let folder = folder(opts);
    let Some(left) = or_log(&folder, machine::fs::raw::entries(&folder)) else {
        return false;
    };
    let mut has_taken = false;
    for path in left.into_iter().map(|entry| entry.path()) {
        if path.extension().is_some() {
            continue;
        }
        match taken(&path, spools) {
            Ok(()) => has_taken = true,
            Err(error) => log::error(format_args!(
                "cannot process the return in {}: {error}",
                path.display()
            )),
        }
    }
    has_taken
}

fn taken(path: &Path, spools: &[&Spool]) -> io::Result<()> {
    let answer = read(path)?;
    for spool in spools {
        spool.push(answer.clone()).map_err(io::Error::other)?;
    }
    fs::remove_file(path)
}

fn read(path: &Path) -> io::Result<Return> {
    let bytes = fs::read(path)?;
    // Skips the length in front of the frame.
    let frame = Frame::decode(bytes.get(4..).unwrap_or_default(), Limits::STREAM);
    let Frame::Request(Request::Return(answer)) = frame.map_err(io::Error::other)? else {
        return Err(io::Error::other("the file contains no return"));
    };
    Ok(answer)
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
