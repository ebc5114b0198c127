//! Ctrl-C in a command: what is under way goes on without it, and it says how to find out what became of that.

#![expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "a command that is interrupted waits for the master, and has nothing to put away"
)]

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use async_signal::{Signal, Signals};
use smol::stream::StreamExt;

/// The job that is waited for. A command waits for one at a time, and the thread that hears the signal belongs to the process.
static JOB: Mutex<String> = Mutex::new(String::new());
/// Salt's exit code then.
const INTERRUPTED: i32 = 1;

/// A job is waited for from here on.
pub(crate) fn waits_for(jid: &str) {
    let mut job = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    jid.clone_into(&mut job);
}

/// Ends the program in Salt's words when it is interrupted. Without this the system ends it.
pub(crate) fn watch() {
    std::thread::spawn(|| {
        let Ok(mut signals) = Signals::new([Signal::Int]) else {
            return;
        };
        if smol::block_on(signals.next()).is_some() {
            let job = JOB.lock().unwrap_or_else(PoisonError::into_inner).clone();
            cli::progress::end(None);
            let _ = std::io::stderr().write_all(farewell(&job).as_bytes());
            std::process::exit(INTERRUPTED);
        }
    });
}

fn farewell(jid: &str) -> String {
    let bye = "\nExiting gracefully on Ctrl-c\n";
    if jid.is_empty() {
        return bye.to_owned();
    }
    format!(
        "{bye}This job's jid is: {jid}\nThe minions may not have all finished running and any remaining minions will return upon completion. To look up the return data for this job later, run the following command:\n\nsalt-run jobs.lookup_jid {jid}\n"
    )
}
