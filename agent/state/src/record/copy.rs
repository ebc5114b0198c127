//! [`RecordCopy`]: a second place for the lines of a record, from which another machine can resume
//! the run.

use std::fmt::Debug;

use super::Record;
use crate::module::Error;

/// A second place for the lines of a record. A failure is remembered, and reported by `sync`.
pub trait RecordCopy: Debug + Send + Sync {
    /// Replaces all lines. A run begins or is resumed with them.
    fn replace(&self, lines: &str);

    /// Adds a line.
    fn add(&self, line: &str);

    /// Waits until all lines are durable.
    ///
    /// # Errors
    /// When they are not, or another machine has taken over the run.
    fn sync(&self) -> Result<(), Error>;

    /// Notes that the run has ended.
    fn ended(&self);
}

impl Record {
    /// Returns the job id of the run.
    #[must_use]
    pub fn jid(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Waits until all lines of the copy are durable, if there is one. Returns false if they are not.
    pub(super) fn is_copied(&self) -> bool {
        let synced = self.copy.as_ref().map_or(Ok(()), |copy| copy.sync());
        synced
            .inspect_err(|error| {
                value::log::error(format_args!(
                    "cannot copy the record {}: {error}",
                    self.path.display()
                ));
            })
            .is_ok()
    }
}
