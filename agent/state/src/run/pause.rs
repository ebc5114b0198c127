//! Pauses: a file of a running run that names the states before which the run waits or ends.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use value::read::or_log;
use value::{Map, Value, remove};

use super::clock::{Stamp, sleep};
use crate::exec::Exec;
use crate::opts::Opts;

/// The name that means all ids.
pub const ALL: &str = "__all__";

/// Returns the path of the file with the requests to a run.
#[must_use]
pub fn path(opts: &Opts, jid: &str) -> PathBuf {
    opts.cachedir().join("state_pause").join(jid)
}

/// Returns the requests to a run, by the ids of its states: dictionaries with `duration` and
/// `kill`.
#[must_use]
pub fn read_requests(opts: &Opts, jid: &str) -> Option<Map> {
    let path = path(opts, jid);
    let text = or_log(&path, std::fs::read_to_string(&path))?;
    match value::json::read(&text) {
        Ok(Value::Map(asked)) => Some(asked),
        _ => None,
    }
}

/// Removes the requests to a run that has ended.
#[expect(
    clippy::disallowed_methods,
    reason = "it does no harm if the file reappears after a power failure"
)]
pub(super) fn forget(opts: &Opts, jid: &str) {
    let path = path(opts, jid);
    remove::or_log(&path, std::fs::remove_file(&path));
}

/// The number of milliseconds for which the file is not read again if it had no requests. Starting
/// a program takes longer, so the requests of a program that a state starts are always seen.
const MOMENT: f64 = 1.0;

/// True if a state of the run itself has written a request.
#[derive(Debug, Default)]
struct IsNew(AtomicBool);

/// Makes the next state read the requests to its run again.
pub fn notice(cx: &Exec) {
    cx.of_run::<IsNew>().0.store(true, Ordering::Relaxed);
}

/// The time of the last read that found no requests.
#[derive(Debug, Default)]
pub(super) struct Pause(Option<Stamp>);

impl Pause {
    /// Waits as long as a run must wait before a state. Returns true if the run shall end there.
    pub(super) fn ends(&mut self, cx: &Exec, jid: &str, id: &str) -> bool {
        let opts = cx.opts();
        let is_fresh = self.0.is_some_and(|looked| looked.duration() < MOMENT);
        if is_fresh && !cx.of_run::<IsNew>().0.swap(false, Ordering::Relaxed) {
            return false;
        }
        let is_quiet = read_requests(opts, jid).is_none();
        self.0 = is_quiet.then(Stamp::now);
        !is_quiet && ends(opts, jid, id)
    }
}

fn ends(opts: &Opts, jid: &str, id: &str) -> bool {
    let start = Stamp::now();
    while let Some(asked) = read_requests(opts, jid) {
        let Some(one) = asked.get(id).or_else(|| asked.get(ALL)) else {
            return false;
        };
        let longest = one.get("duration").and_then(Value::as_float);
        if longest.is_some_and(|seconds| start.duration() > seconds * 1000.0) {
            return false;
        }
        if one.get("kill").is_some() {
            return true;
        }
        sleep(0.2);
    }
    false
}
