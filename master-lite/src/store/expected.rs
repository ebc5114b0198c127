//! [`Expected`]: who may answer a job. Ten thousand returns ask that of one job, whose row names ten thousand.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use fjall::Slice;
use value::Map;
use wire::Id;

use super::Store;
use super::error::Error;
use super::rows::{Job, Table, at};

/// How many jobs are remembered as they were read last.
const RECENT_MAX: usize = 8;

/// A job, as its returns need it.
#[derive(Debug)]
pub(crate) struct Expected {
    /// What was asked; empty for a job that this master did not send.
    pub(crate) load: Map,
    /// Who was expected to answer.
    pub(crate) minions: HashSet<Id>,
    /// When it was sent.
    pub(crate) at_ms: u64,
}

/// The jobs that were read last, each with the row that it was read from: another row is another job.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<(Slice, Arc<Expected>)>>);

impl Recent {
    fn of_row(&self, row: &Slice) -> Option<Arc<Expected>> {
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
    /// Who may answer a job; nothing for one that is not known.
    pub(crate) fn expected(&self, jid: &str) -> Result<Option<Arc<Expected>>, Error> {
        let Some(row) = self.row(Table::Jobs, &at::job(jid))? else {
            return Ok(None);
        };
        if let Some(known) = self.shared.recent.of_row(&row) {
            return Ok(Some(known));
        }
        let job = self.whole("a job", Job::of_row(jid, &row))?;
        let expected = Arc::new(Expected {
            load: job.load,
            minions: job.minions.into_iter().collect(),
            at_ms: job.at_ms,
        });
        self.shared.recent.put(row, expected.clone());
        Ok(Some(expected))
    }
}
