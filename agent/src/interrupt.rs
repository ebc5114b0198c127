//! SIGINT and SIGTERM during a run of states at a terminal: the program prints how far the run is,
//! and the commands that continue it and undo it.
//!
//! Without a terminal, such as in a timer or a pipeline, the kernel ends the program. A thread that
//! waits for signals would slow down every run there: with a second thread, each allocation locks.

#![expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the record of the run is complete after each state, so there is nothing to put away"
)]

use std::io::{IsTerminal, stderr, stdin, stdout};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_signal::{Signal, Signals};
use cli::config::DEFAULT_DIR;
use cli::failure::complain;
use cli::progress;
use smol::stream::StreamExt;
use value::log;
use value::read::or_log;
use value::watch::{self, Event, Watcher};

/// The functions whose run `--resume` continues.
const RESUMABLE: [&str; 5] = [
    "state.apply",
    "state.highstate",
    "state.orch",
    "state.orchestrate",
    "state.sls",
];

/// The option that continues a run.
const RESUME: &str = "--resume";

/// The state of the outermost run of the call.
#[derive(Debug, Default)]
struct Progress {
    jid: String,
    fun: String,
    is_test: bool,
    chunks: usize,
    done: usize,
    /// True from the start of the run to its end.
    is_running: bool,
}

/// The size of the thread's stack in bytes: the default is a large part of a small machine's limit.
const STACK: usize = 128 << 10;

type Shared = Arc<Mutex<Progress>>;

fn lock(progress: &Shared) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The commands that the message names.
#[derive(Debug)]
struct Commands {
    /// Continues the run.
    resume: String,
    /// Undoes a run, without its job id.
    undo: String,
}

impl Commands {
    /// Returns the commands for a call of `salt-call` with these arguments.
    fn from_call(words: &[String], config_dir: &Path) -> Self {
        let mut resume = "salt-call".to_owned();
        let flag = (!words.iter().any(|word| word == RESUME)).then_some(RESUME);
        for word in words.iter().map(String::as_str).chain(flag) {
            resume.push(' ');
            resume.push_str(&quoted(word));
        }
        let mut undo = "pinch undo".to_owned();
        if config_dir != Path::new(DEFAULT_DIR) {
            undo.push_str(" -c ");
            undo.push_str(&quoted(&config_dir.display().to_string()));
        }
        Self { resume, undo }
    }
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-*".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Prints the progress of a run when a signal ends the program and a terminal is attached to it.
/// `words` are the arguments of the call.
pub(crate) fn watch(words: &[String], config_dir: &Path) {
    if !is_at_terminal() {
        return;
    }
    let (shared, inner) = (Shared::default(), watch::watcher());
    let commands = Mutex::new(Some(Commands::from_call(words, config_dir)));
    watch::set(Some(Watcher::new(move |worker, event| {
        if note(&mut lock(&shared), event) {
            let commands = commands
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(commands) = commands {
                listen(Arc::clone(&shared), commands);
            }
        }
        if let Some(inner) = &inner {
            inner.receive(worker, event);
        }
    })));
}

/// Reports whether a user can press Ctrl-C: one of the standard streams is a terminal.
fn is_at_terminal() -> bool {
    stdin().is_terminal() || stdout().is_terminal() || stderr().is_terminal()
}

/// Records an event. Returns true when the outermost run begins.
fn note(run: &mut Progress, event: Event<'_>) -> bool {
    match event {
        Event::Started {
            jid,
            fun,
            test,
            chunks,
        } if !run.is_running => {
            *run = Progress {
                jid: jid.to_owned(),
                fun: fun.to_owned(),
                is_test: test,
                chunks,
                done: 0,
                is_running: true,
            };
            return true;
        }
        Event::StateFinished { jid, .. } if jid == run.jid => run.done += 1,
        Event::Finished { jid, .. } if jid == run.jid => run.is_running = false,
        _ => {}
    }
    false
}

/// Starts the thread that waits for signals. Without memory for it, a signal ends the program without
/// a message.
fn listen(shared: Shared, commands: Commands) {
    let thread = std::thread::Builder::new().stack_size(STACK);
    if let Err(error) = thread.spawn(move || wait(&shared, &commands)) {
        log::debug(format_args!("cannot wait for signals: {error}"));
    }
}

/// Waits for a signal, and ends the program. A signal that the program ignores from its start on, as
/// for a command in the background of a script, stays ignored.
fn wait(shared: &Shared, commands: &Commands) {
    let ignored = ignored_signals();
    let wanted = [(Signal::Int, 2), (Signal::Term, 15)].into_iter();
    let wanted = wanted.filter(|(_, number)| ignored & (1 << (number - 1)) == 0);
    let mut signals = match Signals::new(wanted.map(|(signal, _)| signal)) {
        Ok(signals) => signals,
        Err(error) => return log::debug(format_args!("cannot wait for signals: {error}")),
    };
    // No deadline: the thread waits for a signal as long as the program runs.
    if let Some(Ok(signal)) = smol::block_on(signals.next()) {
        progress::end(None);
        if let Some(text) = message(&lock(shared), commands) {
            complain(&text);
        }
        std::process::exit(128 + signal as i32);
    }
}

/// Returns the set of signals that the program ignores, as the kernel prints it.
fn ignored_signals() -> u64 {
    let path = Path::new("/proc/self/status");
    let status = or_log(path, std::fs::read_to_string(path));
    let mask = status.as_deref().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        u64::from_str_radix(line?.trim(), 16).ok()
    });
    mask.unwrap_or_default()
}

/// Returns the text for an interrupted run; `None` if no run is in progress.
fn message(run: &Progress, commands: &Commands) -> Option<String> {
    let Progress {
        jid, chunks, done, ..
    } = run;
    if !run.is_running {
        return None;
    }
    if run.is_test {
        return Some(format!(
            "Interrupted: {done} of {chunks} states tested. Nothing was changed.\n"
        ));
    }
    let mut text = format!("Interrupted: {done} of {chunks} states done.\n");
    if RESUMABLE.contains(&run.fun.as_str()) {
        text.push_str(&format!("Continue: {}\n", commands.resume));
    }
    text.push_str(&format!("Undo: {} {jid}\n", commands.undo));
    Some(text)
}

#[cfg(test)]
mod tests {
    use value::Map;

    use super::*;

    #[test]
    fn an_interrupted_run_names_the_commands_that_continue_and_undo_it() {
        let mut run = Progress::default();
        let words = ["-c", "etc", "state.apply", "a b"].map(str::to_owned);
        let commands = Commands::from_call(&words, Path::new("/x/etc"));
        let text = |run: &Progress| message(run, &commands);
        assert_eq!(text(&run), None);
        let started = |jid, test| Event::Started {
            jid,
            fun: "state.apply",
            test,
            chunks: 6,
        };
        assert!(note(&mut run, started("7", false)));
        let ret = Map::new();
        for jid in ["7", "8", "7"] {
            let (tag, ret) = ("a", &ret);
            note(&mut run, Event::StateFinished { jid, tag, ret });
        }
        assert!(!note(&mut run, started("8", false)));
        assert_eq!(
            text(&run).unwrap(),
            "Interrupted: 2 of 6 states done.\nContinue: salt-call -c etc state.apply 'a b' --resume\nUndo: pinch undo -c /x/etc 7\n"
        );
        note(
            &mut run,
            Event::Finished {
                jid: "7",
                good: true,
            },
        );
        assert_eq!(text(&run), None);
        assert!(note(&mut run, started("9", true)));
        assert_eq!(
            text(&run).unwrap(),
            "Interrupted: 0 of 6 states tested. Nothing was changed.\n"
        );
    }
}
