//! [`Holders`]: whose events, jobs and returns take how much of the store, so that whoever has most loses the oldest first.

use std::collections::HashMap;

use link::Shares;
use value::{Map, Value};
use wire::tag::Tag;

use super::command::Origin;
use super::rows::Job;

/// What a row costs beside its bytes: many small ones are as bad as few large ones.
const ROW: usize = 256;
/// Who holds what nobody else does.
const MASTER: &str = "";
/// Who holds the events about peers that are not let in.
const STRANGERS: &str = "salt/auth";

/// How much each holder has in a table.
#[derive(Debug)]
pub(super) struct Holders {
    shares: Shares<String>,
    /// How many rows there are.
    rows: u64,
    bytes: u64,
    /// Up to where a holder's oldest rows were looked for already.
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

    /// Counts a row that goes.
    pub(super) fn remove(&mut self, holder: &str, bytes: usize) {
        let holder = holder.to_owned();
        self.shares.give_back(&holder, bytes + ROW);
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
        if self.shares.of(&holder) == 0 {
            self.looked.remove(&holder);
        }
    }

    /// Returns how many rows there are, and how many bytes they have.
    pub(super) fn all(&self) -> (u64, u64) {
        (self.rows, self.bytes)
    }

    /// Returns who has most, and from where on its oldest row is to be looked for.
    pub(super) fn fullest(&self) -> Option<(String, Vec<u8>)> {
        let (holder, _) = self.shares.fullest()?;
        let from = self.looked.get(holder).cloned().unwrap_or_default();
        Some((holder.clone(), from))
    }

    /// Remembers up to where there is nothing of a holder any more.
    pub(super) fn looked(&mut self, holder: &str, upto: Vec<u8>) {
        if self.shares.of(&holder.to_owned()) > 0 {
            self.looked.insert(holder.to_owned(), upto);
        }
    }
}

/// Returns whose an event is.
pub(super) fn of_event(tag: &str, data: &Map, origin: Option<&Origin>) -> String {
    if let Some(origin) = origin {
        return origin.id.to_string();
    }
    match Tag::parse(tag) {
        Tag::Auth => STRANGERS.to_owned(),
        Tag::Job { .. } => of_user(data),
        // What a minion fired has its id, whatever else it says.
        _ => data
            .get("id")
            .map_or_else(|| MASTER.to_owned(), Value::to_text),
    }
}

/// Returns whose a job is: of the minion that gave it to itself, or of the user who asked for it.
pub(super) fn of_job(job: &Job) -> String {
    let is_own = job.load.get("own").is_some_and(Value::is_true);
    match job.minions.first().filter(|_| is_own) {
        Some(id) => id.to_string(),
        None => of_user(&job.load),
    }
}

fn of_user(load: &Map) -> String {
    match load.get("user").map(Value::to_text) {
        // No id has a slash.
        Some(user) => format!("user/{user}"),
        None => MASTER.to_owned(),
    }
}
