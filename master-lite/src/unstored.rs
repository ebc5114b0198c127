//! The log of data that the store did not take: one line per kind of error and interval. A master
//! that is in a minority, or whose disk is full, can store nothing of all its minions.

use std::fmt::Display;
use std::sync::LazyLock;
use std::time::Instant;

use value::log;

use crate::refusals::{EVERY, Refusals};
use crate::store::Error;

/// The lines of this process.
static LINES: LazyLock<Refusals> = LazyLock::new(|| Refusals::every(EVERY));

/// Logs that something is not stored, unless an error of this kind was logged within the interval.
pub(crate) fn log(what: impl Display, error: &Error) {
    match LINES.is_due(error.kind(), Instant::now()) {
        None => {}
        Some(0) => log::error(format_args!("cannot store {what}: {error}")),
        Some(more) => log::error(format_args!(
            "cannot store {what}: {error} ({more} more such errors since the last line)"
        )),
    }
}
