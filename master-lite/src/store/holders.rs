//! [`Holders`]: the size of each holder's events, or of its jobs and returns, so that the holders with
//! most lose their oldest ones first.

use std::collections::HashMap;

use value::{Map, Value};
use wire::tag::Tag;

use super::command::Origin;
use super::rows::{Job, NAME_MAX};

/// The cost of a row in addition to its bytes: many small rows are as bad as few large ones.
const ROW: u64 = 256;
/// The holder of rows that no minion or user owns.
const MASTER: &str = "";
/// The holder of the events about peers that are not accepted.
const STRANGERS: &str = "salt/auth";

/// The size of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Their number.
    pub(super) rows: u64,
    /// Their total length in bytes.
    pub(super) bytes: u64,
}

impl Size {
    /// Returns true if it exceeds one of the limits.
    pub(super) fn is_over(self, most: Self) -> bool {
        self.rows > most.rows || self.bytes > most.bytes
    }

    /// Returns the size without other rows.
    pub(super) fn without(self, other: Self) -> Self {
        Self {
            rows: self.rows.saturating_sub(other.rows),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }

    fn weight(self) -> u64 {
        self.bytes + self.rows * ROW
    }
}

/// The size of each holder's rows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    held: HashMap<String, Size>,
    all: Size,
}

impl Holders {
    /// Counts a row.
    pub(super) fn add(&mut self, holder: &str, bytes: usize) {
        let bytes = bytes as u64;
        self.add_size(holder, Size { rows: 1, bytes });
    }

    fn add_size(&mut self, holder: &str, size: Size) {
        self.all.add(size);
        match self.held.get_mut(holder) {
            Some(held) => held.add(size),
            None => {
                self.held.insert(holder.to_owned(), size);
            }
        }
    }

    fn add_all(&mut self, added: &Self) {
        for (holder, size) in &added.held {
            self.add_size(holder, *size);
        }
    }

    fn remove_all(&mut self, removed: &Self) {
        self.all = self.all.without(removed.all);
        for (holder, size) in &removed.held {
            let left = self.of(holder).without(*size);
            match left.rows {
                0 => self.held.remove(holder),
                _ => self.held.insert(holder.clone(), left),
            };
        }
    }

    /// Returns the size of all rows.
    pub(super) fn all(&self) -> Size {
        self.all
    }

    fn of(&self, holder: &str) -> Size {
        self.held.get(holder).copied().unwrap_or_default()
    }

    /// Returns the weight of a holder's rows when other rows are gone.
    pub(super) fn weight_without(&self, holder: &str, gone: &Self) -> u64 {
        self.of(holder).without(gone.of(holder)).weight()
    }

    /// Returns the holder with most when other rows are gone, and the weight of its rows. If several
    /// have the same weight, it is the last by name.
    pub(super) fn fullest_without(&self, gone: &Self) -> Option<(&str, u64)> {
        let weights = self.held.iter().map(|(holder, held)| {
            let left = held.without(gone.of(holder));
            (left.weight(), holder.as_str())
        });
        let (weight, holder) = weights.max()?;
        (weight > 0).then_some((holder, weight))
    }
}

/// The sizes of what holders have in the tables that have limits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Their events.
    pub(super) events: Holders,
    /// Their jobs and returns.
    pub(super) jobs: Holders,
}

/// The rows of holders that commands added and removed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The new rows.
    pub(super) added: Sizes,
    /// The rows that are gone.
    pub(super) removed: Sizes,
}

impl Sizes {
    /// Counts what commands changed.
    pub(super) fn apply(&mut self, changes: &Changes) {
        let Changes { added, removed } = changes;
        self.events.add_all(&added.events);
        self.events.remove_all(&removed.events);
        self.jobs.add_all(&added.jobs);
        self.jobs.remove_all(&removed.jobs);
    }
}

/// Returns the holder of an event.
pub(super) fn of_event(tag: &str, data: &Map, origin: Option<&Origin>) -> String {
    if let Some(origin) = origin {
        return origin.id.to_string();
    }
    match Tag::parse(tag) {
        Tag::Auth => STRANGERS.to_owned(),
        Tag::Job { .. } => of_user(data),
        // An event that a minion fired has the minion's id, whatever the minion wrote into it.
        _ => bounded(
            data.get("id")
                .map(Value::to_text)
                .unwrap_or_else(|| MASTER.to_owned()),
        ),
    }
}

/// Returns the holder of a job: the minion that gave the job to itself, or the user who published
/// it.
pub(super) fn of_job(job: &Job) -> String {
    match job.minions.first().filter(|_| job.is_own()) {
        Some(id) => id.to_string(),
        None => of_user(&job.load),
    }
}

fn of_user(load: &Map) -> String {
    match load.get("user").map(Value::to_text) {
        // An id contains no slash, so this cannot be the name of a minion.
        Some(user) => bounded(format!("user/{user}")),
        None => MASTER.to_owned(),
    }
}

/// Returns the beginning of a name: the sender of an event can write any text into it.
fn bounded(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(NAME_MAX));
    name
}
