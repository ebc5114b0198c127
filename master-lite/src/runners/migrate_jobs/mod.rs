//! Copies the job cache of a Salt master (`cachedir/jobs`) into the store.

mod saved;

use std::path::{Path, PathBuf};

use machine::fs::handle::{Folder, Links};
use state::module::Error;
use value::python::repr;
use value::{Map, Value, jid, log};

use crate::runs::Runs;
use crate::store::{self, Applied, Command, Retention, Store, now_ms};

use saved::{SavedJob, SavedReturn, Skipped};

/// The maximum number of commands that are sent together, and about their maximum size in bytes.
const TOGETHER_MAX: usize = 512;
const TOGETHER_BYTES: usize = 4 << 20;
/// The number of jobs after which the log has a line about the progress.
const PROGRESS_EVERY: u64 = 10_000;

/// Copies all jobs, or only counts them in a dry run. The files stay unchanged. What the store has
/// already counts as copied.
///
/// # Errors
/// When the folder cannot be read, or the store accepts no change.
pub(super) fn migrate(runs: &Runs, dry_run: bool) -> Result<Value, Error> {
    let cachedir = runs.opts.cachedir();
    let root = cachedir.join("jobs");
    let mut migration = Migration::new(&runs.store, dry_run);
    let Some(jobs) = opened(&cachedir, &root).map_err(Error::refused)? else {
        let shown = repr(&root.display().to_string().into());
        let reason = format!("no local_cache jobs root at {shown}; nothing to do");
        let skipped = Map::new().with("status", "skipped").with("reason", reason);
        return Ok(migration.answer(skipped, &root).into());
    };
    let done = migration.run(&jobs);
    log::info(format_args!(
        "cluster.migrate_jobs_to_cache: {}",
        migration.progress(&root)
    ));
    done.map_err(Error::refused)?;
    migration.warn_of_old_jobs(runs);
    Ok(migration
        .answer(Map::new().with("status", "ok"), &root)
        .into())
}

/// Opens the folder of the jobs; `None` if there is no such folder.
fn opened(cachedir: &Path, root: &Path) -> Result<Option<Folder>, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", root.display());
    let Some(above) =
        value::read::or_none(Folder::open(cachedir, Links::Followed)).map_err(failed)?
    else {
        return Ok(None);
    };
    let name = "jobs".as_ref();
    let Some(entry) = value::read::or_none(above.entry(name)).map_err(failed)? else {
        return Ok(None);
    };
    if entry.found().is_symlink() {
        return Err(format!(
            "{} is a symbolic link, which is not followed: put the folder itself there",
            root.display()
        ));
    }
    match entry.found().is_dir() {
        true => above.below(Path::new(name)).map(Some).map_err(failed),
        false => Ok(None),
    }
}

/// The knowledge of the store about a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The job with all its minions.
    Yes,
    /// Nothing, or not all minions.
    No,
    /// Another job with this id.
    Other,
}

/// A command that waits to be sent, with the file or folder that it was made of.
struct Waiting {
    command: Command,
    path: PathBuf,
    /// The size of what was read in bytes.
    bytes: usize,
}

/// A copy in progress.
struct Migration<'a> {
    store: &'a Store,
    dry_run: bool,
    scanned: u64,
    migrated: u64,
    returns: u64,
    skipped: Skipped,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    /// The time of the oldest job in milliseconds since 1970; `u64::MAX` if there is none.
    oldest_ms: u64,
}

impl<'a> Migration<'a> {
    fn new(store: &'a Store, dry_run: bool) -> Self {
        Self {
            store,
            dry_run,
            scanned: 0,
            migrated: 0,
            returns: 0,
            skipped: Skipped::default(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            oldest_ms: u64::MAX,
        }
    }

    /// Returns Salt's answer.
    fn answer(&self, begun: Map, root: &Path) -> Map {
        begun
            .with("scanned", self.scanned)
            .with("migrated", self.migrated)
            .with("skipped", self.skipped.0)
            .with("returns_migrated", self.returns)
            .with("dry_run", self.dry_run)
            .with("jobs_root", root.display().to_string())
    }

    fn progress(&self, root: &Path) -> String {
        format!(
            "scanned={} migrated={} skipped={} returns_migrated={} dry_run={} (root={})",
            self.scanned,
            self.migrated,
            self.skipped.0,
            self.returns,
            self.dry_run,
            root.display()
        )
    }

    fn run(&mut self, jobs: &Folder) -> Result<(), String> {
        for top in self.names(jobs) {
            let Some(top) = saved::enter(jobs, &top, &mut self.skipped) else {
                continue;
            };
            for name in self.names(&top) {
                if let Some(folder) = saved::enter(&top, &name, &mut self.skipped) {
                    self.copy(&folder)?;
                    self.scanned += 1;
                    if self.scanned.is_multiple_of(PROGRESS_EVERY) {
                        let progress = self.progress(jobs.path());
                        log::info(format_args!("copying old jobs: {progress}"));
                    }
                }
            }
        }
        self.send()
    }

    /// Returns the names in a folder. One that cannot be read is skipped.
    fn names(&mut self, folder: &Folder) -> Vec<std::ffi::OsString> {
        saved::names(folder).unwrap_or_else(|why| {
            self.skipped.add(folder.path(), why);
            Vec::new()
        })
    }

    /// Copies a job with its returns.
    fn copy(&mut self, folder: &Folder) -> Result<(), String> {
        let Some(job) = SavedJob::read(folder, &mut self.skipped) else {
            return Ok(());
        };
        let known = self.known(&job).map_err(|error| error.to_string())?;
        if known == Known::Other {
            let why = format!("the store has another job {}", job.jid);
            self.skipped.add(folder.path(), why);
            return Ok(());
        }
        // A job of the future would never be old enough to be removed.
        let at_ms = (jid::to_micros(&job.jid).unwrap_or_default() / 1000).min(now_ms());
        self.oldest_ms = self.oldest_ms.min(at_ms);
        match known == Known::No && !self.dry_run {
            true => self.add(Waiting {
                bytes: job.bytes,
                path: folder.path().to_owned(),
                command: Command::Job {
                    jid: job.jid.clone(),
                    load: job.load.clone(),
                    minions: job.minions.clone(),
                    at_ms,
                },
            })?,
            false => self.migrated += 1,
        }
        for name in job.names() {
            if let Some(returned) = job.returned(folder, name, &mut self.skipped) {
                self.copy_return(&job.jid, returned, at_ms)?;
            }
        }
        Ok(())
    }

    fn copy_return(&mut self, jid: &str, found: SavedReturn, at_ms: u64) -> Result<(), String> {
        let known = self.store.has_returned(jid, &found.id);
        if self.dry_run || known.map_err(|error| error.to_string())? {
            self.returns += 1;
            return Ok(());
        }
        self.add(Waiting {
            bytes: found.bytes,
            path: found.path,
            command: Command::Return {
                jid: jid.to_owned(),
                id: found.id,
                data: found.data,
                at_ms,
                origin: None,
            },
        })
    }

    fn known(&self, job: &SavedJob) -> Result<Known, store::Error> {
        let known = self.store.job(&job.jid)?;
        let Some(known) = known.filter(|known| !known.load.is_empty()) else {
            return Ok(Known::No);
        };
        let is_same = |field: &str| known.load.get(field) == job.load.get(field);
        if !is_same("fun") || !is_same("user") {
            return Ok(Known::Other);
        }
        Ok(
            match job.minions.iter().all(|id| known.minions.contains(id)) {
                true => Known::Yes,
                false => Known::No,
            },
        )
    }

    /// Adds a command to those that are sent together.
    fn add(&mut self, waiting: Waiting) -> Result<(), String> {
        self.waiting_bytes += waiting.bytes;
        self.waiting.push(waiting);
        match self.waiting.len() >= TOGETHER_MAX || self.waiting_bytes >= TOGETHER_BYTES {
            true => self.send(),
            false => Ok(()),
        }
    }

    /// Sends the commands that wait, and waits until their changes are durable. A job or return that
    /// the store refuses is skipped.
    fn send(&mut self) -> Result<(), String> {
        self.waiting_bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        smol::block_on(async {
            let mut begun = Vec::with_capacity(waiting.len());
            for Waiting { command, path, .. } in waiting {
                let is_job = matches!(command, Command::Job { .. });
                begun.push((self.store.begin(command).await?, path, is_job));
            }
            for (pending, path, is_job) in begun {
                match (pending.done().await?, is_job) {
                    (Applied::Refused(why), _) => self.skipped.add(&path, why),
                    (_, true) => self.migrated += 1,
                    (_, false) => self.returns += 1,
                }
            }
            Ok(())
        })
        .map_err(|error: store::Error| error.to_string())
    }

    /// Logs that the store keeps jobs for a shorter time than some of the copied ones are old.
    fn warn_of_old_jobs(&self, runs: &Runs) {
        let keep = runs.opts.int("keep_jobs_seconds");
        let default = Retention::default().jobs_seconds;
        let keep = keep.map_or(default, |keep| u64::try_from(keep).unwrap_or(default));
        let oldest = now_ms().saturating_sub(self.oldest_ms) / 1000;
        if keep > 0 && oldest > keep && self.migrated > 0 {
            log::warning(format_args!(
                "the oldest of these jobs is {oldest} s old: the master removes jobs after {keep} s (keep_jobs_seconds)"
            ));
        }
    }
}

#[cfg(test)]
mod tests;
