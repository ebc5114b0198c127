//! [`Journal`]: the jobs of an orchestration's step on hosts, and their returns, on the disk of this
//! machine. A run that is cut short finds there which jobs its step has given to hosts, so that the
//! resumed run fetches their returns instead of running them again.

use std::path::{Path, PathBuf};

use machine::{durable, hashes};
use state::exec::Exec;
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value, jid, log, read};
use wire::Id;

/// The journal of one step.
#[derive(Clone, Debug)]
pub(crate) struct Journal(PathBuf);

/// A job that the step gave to a host before the run was cut short.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    /// The job ids under which it may have begun; no return has arrived.
    Begun(Vec<String>),
    /// The data of the return.
    Returned(Map),
}

fn folder(opts: &Opts) -> PathBuf {
    opts.cachedir().join("ssh/steps")
}

impl Journal {
    /// Returns the journal of the step that a context runs; `None` if its run cannot be resumed.
    pub(crate) fn of_step(cx: &Exec) -> Option<Self> {
        let own = &cx.run.as_ref()?.record;
        let run = own.record.as_ref()?.path().file_name()?.to_owned();
        let step = format!("{}\0{}", own.part, cx.chunk.as_ref()?.tag());
        let name = hashes::of_bytes(step.as_bytes(), "sha256").ok()?;
        Some(Self(folder(cx.opts()).join(run).join(name)))
    }

    /// Returns the job that the step has given to a host.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub(crate) fn entry(&self, id: &Id) -> Result<Option<Entry>, String> {
        let path = self.0.join(id.as_str());
        let failed = |error: &dyn std::fmt::Display| {
            format!("cannot read the job of {id} in {}: {error}", path.display())
        };
        let text = read::or_none(std::fs::read_to_string(&path)).map_err(|error| failed(&error))?;
        let Some(text) = text else { return Ok(None) };
        let value = json::read(&text).map_err(|error| failed(&error))?;
        let jids = value.get("jids").map(Value::texts).unwrap_or_default();
        match value.get("return") {
            Some(Value::Map(data)) => Ok(Some(Entry::Returned(data.clone()))),
            None if !jids.is_empty() && jids.iter().all(|jid| jid::is_jid(jid)) => {
                Ok(Some(Entry::Begun(jids)))
            }
            _ => Err(failed(&"it contains no job")),
        }
    }

    /// Returns the ids of the hosts that have got a job of the step.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn ids(&self) -> Result<Vec<String>, String> {
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", self.0.display());
        let entries = read::or_none(std::fs::read_dir(&self.0)).map_err(failed)?;
        let names = entries.into_iter().flatten().map(|entry| {
            let name = entry.map_err(failed)?.file_name();
            Ok(name.to_string_lossy().into_owned())
        });
        names.collect()
    }

    /// Records that a job is given to a host, with all job ids under which it may have begun.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn begins(&self, id: &Id, jids: &[String]) -> Result<(), String> {
        let jids = Value::list(jids.iter().map(|jid| jid.as_str().into()));
        self.write(id, Map::new().with("jids", jids))
    }

    /// Records the return of a host's job.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn returned(&self, id: &Id, data: &Map) -> Result<(), String> {
        self.write(id, Map::new().with("return", data.clone()))
    }

    fn write(&self, id: &Id, entry: Map) -> Result<(), String> {
        let text = json::write(&entry.into(), Layout::default());
        durable::write(&self.0, id.as_str(), text.as_bytes()).map_err(|error| {
            format!(
                "cannot record the job of {id} in {}: {error}",
                self.0.display()
            )
        })
    }

    /// Removes the journal of a step whose return is about to be recorded. A second attempt of the
    /// step runs new jobs.
    pub(crate) fn end(&self) {
        remove_all(&self.0);
    }
}

/// Removes the journals of runs whose records are gone.
pub(crate) fn sweep(opts: &Opts) {
    let (folder, records) = (folder(opts), state::record::folder(opts));
    let runs = read::or_log(&folder, std::fs::read_dir(&folder));
    for run in runs.into_iter().flatten().flatten() {
        if !records.join(run.file_name()).exists() {
            remove_all(&run.path());
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the folder contains only what this module has written"
)]
fn remove_all(path: &Path) {
    match std::fs::remove_dir_all(path) {
        Err(error) if !read::is_missing(&error) => {
            log::warning(format_args!("cannot remove {}: {error}", path.display()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_finds_the_jobs_that_it_gave_to_hosts() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal(dir.path().join("steps/run/step"));
        let id: Id = "web1".parse().unwrap();
        assert_eq!(journal.entry(&id), Ok(None));
        let jids = vec!["20261126101035942505".to_owned()];
        journal.begins(&id, &jids).unwrap();
        let begun = Entry::Begun(jids);
        assert_eq!(journal.entry(&id), Ok(Some(begun)));
        let data = Map::new().with("return", true).with("retcode", 0);
        journal.returned(&id, &data).unwrap();
        assert_eq!(journal.entry(&id), Ok(Some(Entry::Returned(data))));
        journal.end();
        assert_eq!(journal.entry(&id), Ok(None));
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal(dir.path().to_owned());
        let id: Id = "web1".parse().unwrap();
        for text in [
            "",
            "{",
            "{}",
            r#"{"jids": ["../x"]}"#,
            r#"{"jids": []}"#,
            "[]",
        ] {
            std::fs::write(dir.path().join("web1"), text).unwrap();
            assert!(journal.entry(&id).is_err(), "{text}");
        }
    }
}
