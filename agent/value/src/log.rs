//! The log: every crate sends its messages here, and the program sets the sink that writes them.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::secret;

/// The severity of a message; the numbers are Salt's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every message.
    Garbage = 1,
    /// Details for developers.
    Trace = 5,
    /// Every step.
    Debug = 10,
    /// Durations.
    Profile = 15,
    /// The current activity.
    Info = 20,
    /// A possible problem.
    Warning = 30,
    /// A failure.
    Error = 40,
    /// A failure that ends the run.
    Critical = 50,
}

/// A message as the sink receives it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The severity.
    pub level: Level,
    /// The module that sent it.
    pub target: &'a str,
    /// The text.
    pub message: fmt::Arguments<'a>,
}

type Sink = Box<dyn Fn(&Record<'_>) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();
static LOWEST: AtomicU8 = AtomicU8::new(Level::Warning as u8);

/// Sets the sink, once for the life of the program. Returns false when it was already set.
pub fn set_sink(sink: impl Fn(&Record<'_>) + Send + Sync + 'static) -> bool {
    SINK.set(Box::new(sink)).is_ok()
}

/// Sets the lowest level that the sink writes, so that costly messages are not built in vain.
pub fn set_lowest(level: Option<Level>) {
    LOWEST.store(
        level.map_or(u8::MAX, |level| level as u8),
        Ordering::Relaxed,
    );
}

/// Returns whether the sink writes messages of a level.
#[must_use]
pub fn is_wanted(level: Level) -> bool {
    level as u8 >= LOWEST.load(Ordering::Relaxed)
}

/// Sends a message of a module; without a sink it is dropped.
pub fn log(level: Level, target: &str, message: fmt::Arguments<'_>) {
    if let Some(sink) = SINK.get() {
        let message = match secret::is_hushed() {
            true => format_args!("{}", secret::MASK),
            false => message,
        };
        sink(&Record {
            level,
            target,
            message,
        });
    }
}

/// Sends a message that belongs to no particular module.
pub fn write(level: Level, message: impl fmt::Display) {
    log(level, "pinch", format_args!("{message}"));
}

/// The target of the messages about the returns of states, which the progress on a terminal shows.
pub const RETURNS: &str = "pinch.returns";

/// Sends an error.
pub fn error(message: impl fmt::Display) {
    write(Level::Error, message);
}

/// Sends a warning.
pub fn warning(message: impl fmt::Display) {
    write(Level::Warning, message);
}

/// Sends a message about the current activity.
pub fn info(message: impl fmt::Display) {
    write(Level::Info, message);
}

/// Sends a detail at the level `Debug`.
pub fn debug(message: impl fmt::Display) {
    write(Level::Debug, message);
}

/// Sends a detail for developers at the level `Trace`.
pub fn trace(message: impl fmt::Display) {
    write(Level::Trace, message);
}
