//! [`Holders`]: the size of each holder's events, jobs and returns, so that the holder with most
//! loses its oldest ones first.

use std::collections::HashMap;

use link::Shares;
use value::{Map, Value};
use wire::tag::Tag;

use super::command::Origin;
use super::rows::Job;

/// The cost of a row in addition to its bytes: many small rows are as bad as few large ones.
const ROW: usize = 256;
/// The holder of rows that no minion or user owns.
const MASTER: &str = "";
/// The holder of the events about peers that are not accepted.
const STRANGERS: &str = "salt/auth";

/// The size of each holder's rows in a table.
#[derive(Debug)]
pub(super) struct Holders {
    shares: Shares<String>,
    /// The total number of rows.
    rows: u64,
    bytes: u64,
    /// The position up to which each holder's oldest rows have been searched.
    looked: HashMap<String, Vec<u8>>,
}

impl Default for Holders {
    fn default() -> Self {
        Self {
            shares: Shares::new(usize::MAX, usize::MAX),
            rows: 0,
            bytes: 0,
            looked: HashMap::new(),
        }
    }
}

impl Holders {
    /// Counts a new row.
    pub(super) fn add(&mut self, holder: &str, bytes: usize) {
        self.shares.add(&holder.to_owned(), bytes + ROW);
        self.rows += 1;
        self.bytes += bytes as u64;
    }

    /// Stops counting a row that is removed.
    pub(super) fn remove(&mut self, holder: &str, bytes: usize) {
        let holder = holder.to_owned();
        self.shares.give_back(&holder, bytes + ROW);
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
        if self.shares.held_by(&holder) == 0 {
            self.looked.remove(&holder);
        }
    }

    /// Returns the number of rows, and their total size in bytes.
    pub(super) fn all(&self) -> (u64, u64) {
        (self.rows, self.bytes)
    }

    /// Returns the holder with most, and the position from which to search for its oldest row.
    pub(super) fn fullest(&self) -> Option<(String, Vec<u8>)> {
        let (holder, _) = self.shares.fullest()?;
        let from = self.looked.get(holder).cloned().unwrap_or_default();
        Some((holder.clone(), from))
    }

    /// Records the position before which a holder has no rows any more.
    pub(super) fn looked(&mut self, holder: &str, upto: Vec<u8>) {
        if self.shares.held_by(&holder.to_owned()) > 0 {
            self.looked.insert(holder.to_owned(), upto);
        }
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
        _ => data
            .get("id")
            .map_or_else(|| MASTER.to_owned(), Value::to_text),
    }
}

/// Returns the holder of a job: the minion that gave the job to itself, or the user who published
/// it.
pub(super) fn of_job(job: &Job) -> String {
    let is_own = job.load.get("own").is_some_and(Value::is_true);
    match job.minions.first().filter(|_| is_own) {
        Some(id) => id.to_string(),
        None => of_user(&job.load),
    }
}

fn of_user(load: &Map) -> String {
    match load.get("user").map(Value::to_text) {
        // An id contains no slash, so this cannot be the name of a minion.
        Some(user) => format!("user/{user}"),
        None => MASTER.to_owned(),
    }
}
