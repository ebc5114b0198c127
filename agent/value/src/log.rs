//! Where log messages go: every crate writes through here, the program decides what becomes of them.

use std::fmt;
use std::sync::OnceLock;

use crate::secret;

/// How much a message matters; the numbers are Salt's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything.
    Garbage = 1,
    /// What only a developer reads.
    Trace = 5,
    /// Every step.
    Debug = 10,
    /// How long things took.
    Profile = 15,
    /// What is being done.
    Info = 20,
    /// What may be wrong.
    Warning = 30,
    /// What failed.
    Error = 40,
    /// What ends the run.
    Critical = 50,
}

/// One message on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// How much it matters.
    pub level: Level,
    /// The module it came from.
    pub target: &'a str,
    /// What it says.
    pub message: fmt::Arguments<'a>,
}

type Sink = Box<dyn Fn(&Record<'_>) + Send + Sync>;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sets where messages go, once for the life of the program; false when it was set already.
pub fn set_sink(sink: impl Fn(&Record<'_>) + Send + Sync + 'static) -> bool {
    SINK.set(Box::new(sink)).is_ok()
}

/// Sends a message from a module; without a sink it goes nowhere.
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

/// Sends a message of the program as a whole.
pub fn write(level: Level, message: impl fmt::Display) {
    log(level, "pinch", format_args!("{message}"));
}

/// Sends what went wrong.
pub fn error(message: impl fmt::Display) {
    write(Level::Error, message);
}

/// Sends what may be wrong.
pub fn warning(message: impl fmt::Display) {
    write(Level::Warning, message);
}

/// Sends what is being done.
pub fn info(message: impl fmt::Display) {
    write(Level::Info, message);
}

/// Sends a detail.
pub fn debug(message: impl fmt::Display) {
    write(Level::Debug, message);
}
