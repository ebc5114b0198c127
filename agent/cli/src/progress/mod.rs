//! Shows a run while it is in progress: as lines on stderr for people, and as `--out=ndjson` on
//! stdout for programs.
//!
//! On a terminal, a timer draws the running chunks and their durations, at most ten times a second.
//! The threads of the run only record events. Without a terminal there is no timer, and as in Salt
//! nothing is printed before the end.

mod board;
mod shown;
mod stream;
mod terminal;

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use value::Map;
use value::watch::{self, Event, Watcher, Worker};

use crate::output::{NDJSON, OutputFile, Return};
use board::Plain;
use stream::Stream;
use terminal::Terminal;

/// The form of a run's progress on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Lines that are redrawn, on a terminal.
    Live {
        /// True if the lines are coloured.
        color: bool,
    },
    /// A line for each state that has finished or takes long.
    Plain,
}

/// The outputs of the progress.
struct Progress {
    stream: Option<Stream>,
    terminal: Option<Mutex<Terminal>>,
    plain: Option<Mutex<Plain>>,
}

static PROGRESS: OnceLock<Progress> = OnceLock::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the mode that the options and the terminal select; `None` shows no progress.
fn mode(opts: &Map, terminal: bool, env: impl Fn(&str) -> Option<String>) -> Option<Mode> {
    let given = |key: &str| opts.get(key).is_some_and(value::Value::is_true);
    match opts.get("progress").and_then(|word| word.as_str()) {
        Some("plain") => Some(Mode::Plain),
        Some("none") => None,
        _ => {
            let able = env("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
            let color = given("force_color") || !given("no_color");
            (terminal && able).then_some(Mode::Live { color })
        }
    }
}

/// Starts to show the progress as the options say.
///
/// # Errors
/// If the file for `--out=ndjson` cannot be opened.
pub fn start(
    opts: &Map,
    file: Option<&OutputFile>,
    env: impl Fn(&str) -> Option<String>,
) -> io::Result<()> {
    let mode = mode(opts, io::stderr().is_terminal(), env);
    let stream = match is_asked(opts) {
        true => Some(Stream::new(opened(file)?)),
        false => None,
    };
    if mode.is_none() && stream.is_none() {
        return Ok(());
    }
    let progress = Progress {
        stream,
        terminal: match mode {
            Some(Mode::Live { color }) => Some(Mutex::new(Terminal::new(color))),
            _ => None,
        },
        plain: (mode == Some(Mode::Plain)).then(Mutex::default),
    };
    if PROGRESS.set(progress).is_ok() {
        watch::set(Some(Watcher::new(take)));
    }
    Ok(())
}

/// Reports whether the progress is shown on a terminal.
pub(crate) fn is_live() -> bool {
    PROGRESS
        .get()
        .is_some_and(|progress| progress.terminal.is_some())
}

/// Reports whether the terminal shows what the states of the call did.
#[must_use]
pub fn has_shown() -> bool {
    let terminal = PROGRESS.get().and_then(|of| of.terminal.as_ref());
    terminal.is_some_and(|terminal| lock(terminal).has_shown())
}

/// Reports whether the options ask for `--out=ndjson`.
#[must_use]
pub fn is_asked(opts: &Map) -> bool {
    opts.get("output").and_then(|name| name.as_str()) == Some(NDJSON)
}

fn opened(file: Option<&OutputFile>) -> io::Result<Box<dyn Write + Send>> {
    Ok(match file {
        Some(file) => Box::new(file.opened()?),
        None => Box::new(io::stdout()),
    })
}

fn take(worker: Worker, event: Event<'_>) {
    let Some(progress) = PROGRESS.get() else {
        return;
    };
    if let Some(stream) = &progress.stream {
        stream.take(event);
    }
    if let Some(terminal) = &progress.terminal {
        let is_first = lock(terminal).take(worker, event);
        if is_first {
            // If the thread does not start, nothing is drawn before the end. The run continues.
            started(std::thread::Builder::new().spawn(|| terminal::draw_until_over(terminal)));
        }
    }
    if let Some(plain) = &progress.plain {
        let mut shown = lock(plain);
        let (text, is_first) = shown.take(worker, event);
        put(&text);
        drop(shown);
        if is_first {
            // If the thread does not start, there are no lines for chunks that take long. The run
            // continues.
            started(std::thread::Builder::new().spawn(|| tell_until_over(plain)));
        }
    }
}

/// The interval between two checks for chunks that take long.
const LOOK: Duration = Duration::from_secs(1);

/// Prints plain lines for chunks that take long, until the call has ended.
fn tell_until_over(plain: &Mutex<Plain>) {
    loop {
        std::thread::sleep(LOOK);
        let mut plain = lock(plain);
        if plain.is_over {
            return;
        }
        put(&plain.overdue());
    }
}

fn started(thread: io::Result<std::thread::JoinHandle<()>>) {
    if let Err(error) = thread {
        value::log::warning(format_args!("cannot show the progress: {error}"));
    }
}

fn put(text: &str) {
    crate::failure::complain(text);
}

/// Ends the progress of a call. On the terminal, it removes the lines that are redrawn and prints
/// the summary. For `--out=ndjson`, it prints the return of a call that ran no states as the last
/// line.
pub fn end(answer: Option<&Return>) {
    let Some(progress) = PROGRESS.get() else {
        return;
    };
    if let Some(terminal) = &progress.terminal {
        lock(terminal).end();
    }
    if let Some(plain) = &progress.plain {
        lock(plain).is_over = true;
    }
    if let (Some(stream), Some(answer)) = (&progress.stream, answer) {
        stream.returned(answer);
    }
}

/// Writes a line to stderr, above the lines that are redrawn.
pub(crate) fn above(line: &str) {
    let terminal = PROGRESS
        .get()
        .and_then(|progress| progress.terminal.as_ref());
    match terminal {
        Some(terminal) => lock(terminal).above(line),
        None => put(&format!("{line}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_on_without_a_terminal_that_can() {
        let env = |term: Option<&'static str>| move |_: &str| term.map(str::to_owned);
        let opts = |word: &str| Map::new().with("progress", word);
        let live = |color| Some(Mode::Live { color });
        assert_eq!(mode(&Map::new(), true, env(Some("xterm"))), live(true));
        let plain = Map::new().with("no_color", true);
        assert_eq!(mode(&plain, true, env(Some("xterm"))), live(false));
        assert_eq!(mode(&opts("auto"), true, env(Some("dumb"))), None);
        assert_eq!(mode(&opts("auto"), true, env(None)), None);
        assert_eq!(mode(&opts("auto"), false, env(Some("xterm"))), None);
        assert_eq!(mode(&opts("plain"), false, env(None)), Some(Mode::Plain));
        assert_eq!(mode(&opts("none"), true, env(Some("xterm"))), None);
    }
}
