//! Ctrl-C in a command: the job continues without it, and the command prints how to look up the
//! returns.

#![expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "a command that is interrupted waits for the master, and has nothing to put away"
)]

use std::sync::{Mutex, PoisonError};

use async_signal::{Signal, Signals};
use smol::stream::StreamExt;

/// The id of the job that the command waits for. It is global since a command waits for one job at
/// a time, and the process has one thread for signals.
static JOB: Mutex<String> = Mutex::new(String::new());
/// Salt's exit code of an interrupted command.
const INTERRUPTED: i32 = 1;

/// Records the job that the command waits for from now on.
pub(crate) fn waits_for(jid: &str) {
    let mut job = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    jid.clone_into(&mut job);
}

/// Makes SIGINT end the program with Salt's message. Without this call the kernel ends the program.
pub(crate) fn watch() {
    std::thread::spawn(|| {
        let Ok(mut signals) = Signals::new([Signal::Int]) else {
            return;
        };
        if smol::block_on(signals.next()).is_some() {
            let job = JOB.lock().unwrap_or_else(PoisonError::into_inner).clone();
            cli::progress::end(None);
            cli::failure::complain(&farewell(&job));
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
