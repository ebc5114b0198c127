//! The folder of a job on a host, below the folder of the program. A job that lost its connection
//! leaves its return there, and the next connection fetches it. No job runs twice: whoever creates
//! the folder of a job id owns it.

use std::fs::{DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use value::{log, read, remove};
use wire::Limits;

/// The name of the file that is locked while the job runs.
const LOCK: &str = "lock";
/// The time after which what an earlier job left is removed.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The job that another connection has given to the host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// It has not begun, and never will.
    NeverBegun,
    /// It has returned: the bytes of the frame.
    Returned(Vec<u8>),
    /// It was ended before it returned.
    Ended,
}

/// The folder of a job that this process runs.
#[derive(Debug)]
pub(crate) struct JobFolder {
    pub(crate) path: PathBuf,
    /// The lock. The process of the job holds it too, and so outlives this one.
    pub(crate) lock: File,
}

fn jobs(folder: &Path) -> PathBuf {
    folder.join("jobs")
}

/// Returns the folder below the cache in which the process of a job leaves a return that was
/// not taken.
pub(crate) fn left(cache: &Path) -> PathBuf {
    cache.join("orphans")
}

/// Creates the folder of a job. Fails if it exists.
fn claim(folder: &Path, jid: &str) -> io::Result<PathBuf> {
    let jobs = jobs(folder);
    let mut builder = DirBuilder::new();
    builder.mode(0o700).recursive(true).create(&jobs)?;
    let path = jobs.join(jid);
    builder.recursive(false).create(&path)?;
    Ok(path)
}

impl JobFolder {
    /// Creates and locks the folder of a job.
    ///
    /// # Errors
    /// When another connection has run the job or given it up, or the folder cannot be created.
    pub(crate) fn create(folder: &Path, jid: &str) -> io::Result<Self> {
        let path = claim(folder, jid)?;
        let mut options = OpenOptions::new();
        let lock = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path.join(LOCK))?;
        lock.lock()?;
        Ok(Self { path, lock })
    }

    /// Removes the folder of a job whose return was taken.
    #[expect(clippy::disallowed_methods, reason = "the folder is this job's own")]
    pub(crate) fn remove(self) {
        remove::or_log(&self.path, std::fs::remove_dir_all(&self.path));
    }
}

/// Waits for the end of an earlier job, and returns its outcome.
///
/// # Errors
/// When its files cannot be read.
pub(crate) fn earlier(folder: &Path, cache: &Path, jid: &str) -> io::Result<Earlier> {
    let lock = jobs(folder).join(jid).join(LOCK);
    let has_begun = match read::or_none(File::open(&lock))? {
        Some(file) => {
            // No deadline: the job has its own, or is ended after its grace.
            file.lock()?;
            true
        }
        None => false,
    };
    if let Some(bytes) = returned(cache, jid)? {
        return Ok(Earlier::Returned(bytes));
    }
    if has_begun {
        return Ok(Earlier::Ended);
    }
    match claim(folder, jid) {
        Ok(_) => Ok(Earlier::NeverBegun),
        // It begins at this moment, or an earlier call found that it never began.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match jobs(folder).join(jid).join(LOCK).exists() {
                true => earlier(folder, cache, jid),
                false => Ok(Earlier::NeverBegun),
            }
        }
        Err(error) => Err(error),
    }
}

/// Reads the return that a job has left.
fn returned(cache: &Path, jid: &str) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = read::or_none(File::open(left(cache).join(jid)))? else {
        return Ok(None);
    };
    let most = u64::try_from(Limits::STREAM.bytes + 4).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Marks the running program as used, and removes other versions in its folder that no call has used
/// for a long time.
#[expect(
    clippy::disallowed_methods,
    reason = "the files are those that earlier calls have placed"
)]
pub(crate) fn sweep_programs(folder: &Path, own: &Path, now: SystemTime) {
    let marked = File::open(own).and_then(|file| file.set_modified(now));
    if let Err(error) = marked {
        log::debug(format_args!("cannot mark {}: {error}", own.display()));
        return;
    }
    let entries = read::or_log(folder, std::fs::read_dir(folder));
    for entry in entries.into_iter().flatten().flatten() {
        let is_program = entry.file_name().to_string_lossy().starts_with("pinch-");
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_program && is_file && is_old(&entry, now) {
            remove::or_log(entry.path(), std::fs::remove_file(entry.path()));
        }
    }
}

fn is_old(entry: &DirEntry, now: SystemTime) -> bool {
    let changed = entry.metadata().and_then(|metadata| metadata.modified());
    let age = changed.ok().and_then(|time| now.duration_since(time).ok());
    age.is_some_and(|age| age >= KEPT)
}

/// Removes the folders and the returns of jobs that ended long ago.
#[expect(
    clippy::disallowed_methods,
    reason = "the files are those of earlier jobs"
)]
pub(crate) fn sweep(folder: &Path, cache: &Path, now: SystemTime) {
    for inside in [jobs(folder), left(cache)] {
        let entries = read::or_log(&inside, std::fs::read_dir(&inside));
        for entry in entries.into_iter().flatten().flatten() {
            let path = entry.path();
            if !is_old(&entry, now) || is_locked(&path.join(LOCK)) {
                continue;
            }
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => remove::or_log(&path, std::fs::remove_dir_all(&path)),
                false => remove::or_log(&path, std::fs::remove_file(&path)),
            }
        }
    }
}

fn is_locked(lock: &Path) -> bool {
    File::open(lock).is_ok_and(|file| file.try_lock().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JID: &str = "20261126101035942505";

    #[test]
    fn an_earlier_job_has_returned_or_ended_or_never_begins() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, cache) = (dir.path().join("pinch"), dir.path().join("cache"));
        let asked = || earlier(&folder, &cache, JID).unwrap();
        assert_eq!(asked(), Earlier::NeverBegun);
        // The job arrives late: it must not run any more.
        assert!(JobFolder::create(&folder, JID).is_err());
        assert_eq!(asked(), Earlier::NeverBegun);

        let other = "20261126101035942506";
        let job = JobFolder::create(&folder, other).unwrap();
        let waiting = std::thread::spawn({
            let (folder, cache) = (folder.clone(), cache.clone());
            move || earlier(&folder, &cache, other).unwrap()
        });
        std::fs::create_dir_all(left(&cache)).unwrap();
        std::fs::write(left(&cache).join(other), "frame").unwrap();
        assert!(!waiting.is_finished());
        job.remove();
        assert_eq!(
            waiting.join().unwrap(),
            Earlier::Returned(b"frame".to_vec())
        );
    }

    #[test]
    fn a_job_that_was_ended_without_a_return_does_not_count_as_never_begun() {
        let dir = tempfile::tempdir().unwrap();
        let job = JobFolder::create(dir.path(), JID).unwrap();
        drop(job);
        let asked = earlier(dir.path(), &dir.path().join("cache"), JID).unwrap();
        assert_eq!(asked, Earlier::Ended);
    }

    #[test]
    fn what_old_jobs_left_is_removed_and_a_running_job_stays() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        let _running = JobFolder::create(dir.path(), JID).unwrap();
        drop(JobFolder::create(dir.path(), "20261126101035942506").unwrap());
        std::fs::create_dir_all(left(&cache)).unwrap();
        std::fs::write(left(&cache).join("20261126101035942506"), "frame").unwrap();
        sweep(dir.path(), &cache, SystemTime::now());
        assert_eq!(std::fs::read_dir(jobs(dir.path())).unwrap().count(), 2);
        sweep(dir.path(), &cache, SystemTime::now() + 2 * KEPT);
        let names: Vec<_> = std::fs::read_dir(jobs(dir.path())).unwrap().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].as_ref().unwrap().file_name(), JID);
        assert_eq!(std::fs::read_dir(left(&cache)).unwrap().count(), 0);
    }

    #[test]
    fn other_versions_are_removed_when_nothing_has_used_them_for_a_week() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        for name in [
            "pinch-own",
            "pinch-used",
            "pinch-old",
            "pinch-old.x.part",
            "other",
        ] {
            std::fs::write(file(name), "").unwrap();
        }
        let later = SystemTime::now() + 2 * KEPT;
        let used = File::open(file("pinch-used")).unwrap();
        used.set_modified(later - KEPT / 2).unwrap();
        sweep_programs(dir.path(), &file("pinch-own"), later);
        let mut left: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["other", "pinch-own", "pinch-used"]);
    }
}
