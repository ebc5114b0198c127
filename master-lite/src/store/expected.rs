//! [`Expected`]: the minions that may return a job. A job of ten thousand minions has a row with
//! ten thousand ids, and each of its returns needs it. Therefore the jobs that were read last are
//! kept decoded.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use fjall::Slice;
use value::Map;
use wire::Id;

use super::Store;
use super::error::Error;
use super::rows::{Job, Table, at};

/// The maximum number of jobs that are kept decoded.
const RECENT_MAX: usize = 8;

/// A job, in the form that the check of its returns needs.
#[derive(Debug)]
pub(crate) struct Expected {
    /// The job's load; empty for a job that this master did not publish.
    pub(crate) load: Map,
    /// The minions that are expected to return.
    pub(crate) minions: HashSet<Id>,
    /// The time at which it was published, in milliseconds since 1970.
    pub(crate) at_ms: u64,
}

/// The jobs that were read last, each with the row that it was decoded from. A job whose row has
/// changed is not found.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<(Slice, Arc<Expected>)>>);

impl Recent {
    fn find(&self, row: &Slice) -> Option<Arc<Expected>> {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = recent.iter().find(|(known, _)| known == row);
        found.map(|(_, expected)| expected.clone())
    }

    fn put(&self, row: Slice, expected: Arc<Expected>) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.truncate(RECENT_MAX - 1);
        recent.push_front((row, expected));
    }
}

impl Store {
    /// Returns the minions that may return a job, or `None` if the job is unknown.
    pub(crate) fn expected(&self, jid: &str) -> Result<Option<Arc<Expected>>, Error> {
        let Some(row) = self.row(Table::Jobs, &at::job(jid))? else {
            return Ok(None);
        };
        if let Some(known) = self.shared.recent.find(&row) {
            return Ok(Some(known));
        }
        let job = self.or_damaged("a job", Job::from_row(jid, &row))?;
        let expected = Arc::new(Expected {
            load: job.load,
            minions: job.minions.into_iter().collect(),
            at_ms: job.at_ms,
        });
        self.shared.recent.put(row, expected.clone());
        Ok(Some(expected))
    }
}
