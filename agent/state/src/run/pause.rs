//! Pauses: a file that belongs to a run under way says before which of its states it waits, or ends.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use value::{Map, Value};

use super::clock::{Stamp, sleep};
use crate::exec::Exec;
use crate::opts::Opts;

/// What stands for every id.
pub const ALL: &str = "__all__";

/// The file in which a run finds what is asked of it.
#[must_use]
pub fn path(opts: &Opts, jid: &str) -> PathBuf {
    opts.cachedir().join("state_pause").join(jid)
}

/// What is asked of a run, by the ids of its states: dictionaries with `duration` and `kill`.
#[must_use]
pub fn asked(opts: &Opts, jid: &str) -> Option<Map> {
    let text = std::fs::read_to_string(path(opts, jid)).ok()?;
    match value::json::read(&text) {
        Ok(Value::Map(asked)) => Some(asked),
        _ => None,
    }
}

/// What was asked of a run is over with it.
#[expect(
    clippy::disallowed_methods,
    reason = "nobody minds when it comes back after a power cut"
)]
pub(super) fn forget(opts: &Opts, jid: &str) {
    let _ = std::fs::remove_file(path(opts, jid));
}

/// For how many milliseconds nothing is asked when nothing was. What starts a program takes longer, so what that program asks is seen.
const MOMENT: f64 = 1.0;

/// Whether a state of the run itself has asked something of a run.
#[derive(Debug, Default)]
struct IsNew(AtomicBool);

/// Has the next state look whether something is asked of its run.
pub fn notice(cx: &Exec) {
    cx.of_run::<IsNew>().0.store(true, Ordering::Relaxed);
}

/// When it was last looked and nothing was asked.
#[derive(Debug, Default)]
pub(super) struct Pause(Option<Stamp>);

impl Pause {
    /// Waits as long as a run is to wait before a state; true when it is to end there.
    pub(super) fn ends(&mut self, cx: &Exec, jid: &str, id: &str) -> bool {
        let opts = cx.opts();
        let is_fresh = self.0.is_some_and(|looked| looked.duration() < MOMENT);
        if is_fresh && !cx.of_run::<IsNew>().0.swap(false, Ordering::Relaxed) {
            return false;
        }
        let is_quiet = asked(opts, jid).is_none();
        self.0 = is_quiet.then(Stamp::now);
        !is_quiet && ends(opts, jid, id)
    }
}

fn ends(opts: &Opts, jid: &str, id: &str) -> bool {
    let start = Stamp::now();
    while let Some(asked) = asked(opts, jid) {
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
