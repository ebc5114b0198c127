//! Reads the copies of orchestrations. These functions read files and may block.

use super::Store;
use super::apply_runs::of_owner_row;
use super::command::RunOwner;
use super::error::Error;
use super::rows::{Table, at, decode};

impl Store {
    /// Returns the orchestrations that have not ended, each with the master that runs it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn runs(&self) -> Result<Vec<(String, RunOwner)>, Error> {
        // The keys of lines and steps do not end with the NUL that ends the jid.
        let rows = self.rows(Table::Jobs, at::runs(), |key, value| {
            let owner = at::of_run(key).filter(|jid| !jid.contains('\0'));
            Some(owner.map(|jid| (jid.to_owned(), of_owner_row(value))))
        })?;
        let mut runs = Vec::new();
        for row in rows {
            if let Some((jid, owner)) = row? {
                runs.push((jid, self.or_damaged("an orchestration", owner)?));
            }
        }
        Ok(runs)
    }

    /// Returns the lines of the record of an orchestration.
    ///
    /// # Errors
    /// When the store cannot be read, or lines are missing.
    pub(crate) fn run_lines(&self, jid: &str) -> Result<String, Error> {
        let prefix = at::run_lines(jid);
        let length = prefix.len();
        let rows = self.rows(Table::Jobs, &prefix, move |key, value| {
            let offset = u64::from_be_bytes(key.get(length..)?.try_into().ok()?);
            Some((offset, decode(value)?.get("lines")?.as_str()?.to_owned()))
        })?;
        let mut all = String::new();
        for row in rows {
            let (offset, lines) = row?;
            let is_next = offset == all.len() as u64;
            self.or_damaged("the record of an orchestration", is_next.then_some(()))?;
            all.push_str(&lines);
        }
        Ok(all)
    }

    /// Returns the job of a step of an orchestration.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn run_step(&self, jid: &str, step: &str) -> Result<Option<String>, Error> {
        let row = self.row(Table::Jobs, &at::run_step(jid, step))?;
        let job = row.map(|bytes| {
            let job = decode(&bytes).and_then(|row| Some(row.get("job")?.as_str()?.to_owned()));
            self.or_damaged("a step of an orchestration", job)
        });
        job.transpose()
    }
}
