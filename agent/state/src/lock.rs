//! [`Lock`]: ensures that only one run at a time changes a machine.
//!
//! The lock is a kernel lock on a file. The kernel releases it when its holder ends, however that
//! happens, and no reused process id can be mistaken for the holder. The file names the holder.
//! Each waiting run has a ticket, which is a file that is locked in the same way. Waiting runs get
//! the lock in the order of their tickets. If the disk is full or read-only, the lock is taken on
//! what exists: the lock file, or the nearest folder above it.
#![expect(
    clippy::disallowed_methods,
    reason = "a lock does not outlive its process"
)]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use value::json::{self, Layout};
use value::{Map, Value, jid, log, remove, trust, watch};

use crate::exec::Exec;
use crate::module::Error;
use crate::opts::Opts;
use crate::record;

/// The interval at which a waiting run tries again.
const LOOK: Duration = Duration::from_millis(50);

/// The run that holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process id.
    pub pid: u32,
    /// The job id, which also says when it was started.
    pub jid: String,
    /// The function.
    pub fun: String,
}

impl Holder {
    /// Returns Salt's sentence for a run that is refused because this one holds the lock.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "The function \"{}\" is running as PID {} and was started at {} with jid {}",
            self.fun,
            self.pid,
            jid::to_time(&self.jid),
            self.jid
        )
    }

    fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.rewind().ok()?;
        file.read_to_string(&mut text).ok()?;
        let told = json::read(&text).ok()?;
        let word = |key| told.get(key).map(Value::to_text);
        Some(Self {
            pid: word("pid")?.parse().ok()?,
            jid: word("jid")?,
            fun: word("fun")?,
        })
    }

    fn write(&self, file: &mut File) -> std::io::Result<()> {
        let told = Map::new()
            .with("pid", self.pid)
            .with("jid", self.jid.as_str())
            .with("fun", self.fun.as_str());
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(json::write(&told.into(), Layout::default()).as_bytes())
    }
}

/// The behaviour of a run if another one is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// The run is refused.
    Refuse,
    /// The run waits for its turn (`queue=True`), at most this long.
    Wait(Option<Duration>),
    /// The run starts at the same time (`concurrent=True`).
    Ignore,
}

/// The reason why a run does not get the lock.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Another run holds it.
    #[error("{}", .0.sentence())]
    Held(Holder),
    /// The lock file cannot be used.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// The right to change the machine. Dropping it releases the lock.
#[derive(Debug)]
pub struct Lock(Option<File>);

impl Lock {
    /// Takes the lock for a run. A run inside another one takes none: the outer run holds it.
    ///
    /// # Errors
    /// When another run has the lock, or the wait for it exceeds its limit, or the lock file cannot
    /// be used.
    pub fn take(cx: &Exec, jid: &str, fun: &str, other: Other) -> Result<Self, Refusal> {
        if cx.run.is_some() || other == Other::Ignore {
            return Ok(Self(None));
        }
        let holder = Holder {
            pid: std::process::id(),
            jid: jid.to_owned(),
            fun: fun.to_owned(),
        };
        let folder = record::folder(cx.opts());
        let made = record::made_folder(cx.opts()).and_then(|_| made(&folder.join("lock")));
        let mut file = or_nearest(&folder.join("lock"), made)?;
        match other {
            Other::Wait(longest) => {
                let deadline = longest.and_then(|longest| Instant::now().checked_add(longest));
                queued(&folder, &mut file, deadline)?;
            }
            _ if !locked(&folder, &file)? => return Err(held(&mut file)),
            _ => {}
        }
        // The lock is held. The text only informs other processes, and a full disk cannot store it.
        if let Err(error) = holder.write(&mut file) {
            log::warning(format_args!(
                "cannot write to {}/lock: {error}",
                folder.display()
            ));
        }
        Ok(Self(Some(file)))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // A child process that is just being started may have the same file open, so closing it
            // here would not release the lock.
            let (cleared, unlocked) = (file.set_len(0), file.unlock());
            if let Err(error) = cleared.and(unlocked) {
                log::warning(format_args!("cannot release the lock of runs: {error}"));
            }
        }
    }
}

/// Returns the run that holds the lock now, for `state.running`.
///
/// # Errors
/// When the lock file cannot be used.
pub fn holder(opts: &Opts) -> Result<Option<Holder>, Error> {
    let path = record::folder(opts).join("lock");
    if !path.exists() {
        return Ok(None);
    }
    let mut file = or_nearest(&path, made(&path))?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Ok(read_holder(&mut file)),
        Err(TryLockError::Error(error)) => Err(Error::io(&path)(error)),
        Ok(()) => Ok(None),
    }
}

/// Returns the lock file. If the disk does not accept it, returns the nearest existing file or
/// folder of its path instead.
fn or_nearest(path: &Path, made: Result<File, Error>) -> Result<File, Error> {
    let is_there = || path.ancestors().find_map(|path| File::open(path).ok());
    made.or_else(|error| match is_there() {
        Some(there) if error.is_of_disk() => Ok(there),
        _ => Err(error),
    })
}

fn made(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    options.mode(0o600).custom_flags(no_links);
    options.open(path).map_err(Error::io(path))
}

fn locked(path: &Path, file: &File) -> Result<bool, Error> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(Error::io(path)(error)),
    }
}

/// Reads the holder from the lock file. A run that has just taken the lock may not have written its
/// entry yet, so this tries for about 20 ms.
fn read_holder(file: &mut File) -> Option<Holder> {
    (0..20).find_map(|_| {
        Holder::read(file).or_else(|| {
            std::thread::sleep(Duration::from_millis(1));
            None
        })
    })
}

fn held(file: &mut File) -> Refusal {
    match read_holder(file) {
        Some(holder) => Refusal::Held(holder),
        None => Refusal::Failed("another run is under way, or has just ended; try again".into()),
    }
}

/// Returns a description of the run that holds the lock, for the progress of a waiting run.
fn waited_for(file: &mut File) -> String {
    match read_holder(file) {
        Some(holder) => format!(
            "the run {} of {} (process {})",
            holder.jid, holder.fun, holder.pid
        ),
        None => "another run".to_owned(),
    }
}

/// Waits until all earlier runs in the queue are through and the lock is free.
fn queued(folder: &Path, file: &mut File, deadline: Option<Instant>) -> Result<(), Refusal> {
    let ticket = match Ticket::drawn(&folder.join("queue")) {
        Err(error) if error.is_of_disk() => None,
        drawn => Some(drawn?),
    };
    let is_first = || ticket.as_ref().map_or(Ok(true), Ticket::is_first);
    let mut waiting = None;
    loop {
        if is_first()? && locked(folder, file)? {
            return Ok(());
        }
        waiting.get_or_insert_with(|| watch::waits(|| waited_for(file)));
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(held(file));
        }
        std::thread::sleep(LOOK);
    }
}

/// A place in the queue. It is given up when the ticket is dropped, or when its process ends.
struct Ticket {
    path: PathBuf,
    _file: File,
}

impl Ticket {
    fn drawn(queue: &Path) -> Result<Self, Error> {
        trust::folder(queue).map_err(Error::io(queue))?;
        let name = format!("{}.{}", jid::new(), std::process::id());
        // It is locked before it gets its name, so that no other process takes it for the ticket of
        // a dead process and removes it.
        let hidden = queue.join(format!(".{name}"));
        let file = made(&hidden)?;
        locked(&hidden, &file)?;
        let path = queue.join(name);
        std::fs::rename(&hidden, &path).map_err(Error::io(&path))?;
        Ok(Self { path, _file: file })
    }

    /// Returns whether no earlier run waits. Removes the tickets of processes that have ended.
    fn is_first(&self) -> Result<bool, Error> {
        let queue = self.path.parent().unwrap_or(&self.path);
        let entries = std::fs::read_dir(queue).map_err(Error::io(queue))?;
        for entry in entries.flatten() {
            let path = entry.path();
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if hidden || path >= self.path {
                continue;
            }
            match File::open(&path) {
                Ok(file) if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) => {
                    return Ok(false);
                }
                Ok(_) => drop(std::fs::remove_file(&path)),
                Err(_) => {}
            }
        }
        Ok(true)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        remove::or_log(&self.path, std::fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::run::RunState;
    use crate::run::tests_support::exec;

    const JID: &str = "20251120122702123456";

    fn scratch() -> (tempfile::TempDir, Exec) {
        let folder = tempfile::tempdir().unwrap();
        let cachedir = folder.path().display().to_string();
        let cx = exec(Map::new().with("cachedir", cachedir));
        (folder, cx)
    }

    #[test]
    fn a_second_run_is_refused_in_salts_words() {
        let (_folder, cx) = scratch();
        let first = Lock::take(&cx, JID, "state.apply", Other::Refuse).unwrap();
        let second = Lock::take(&cx, "20251120122703123456", "state.sls", Other::Refuse);
        let pid = std::process::id();
        assert_eq!(
            second.unwrap_err().to_string(),
            format!(
                "The function \"state.apply\" is running as PID {pid} and was started at 2025, Nov 20 12:27:02.123456 with jid {JID}"
            )
        );
        assert_eq!(holder(cx.opts()).unwrap().unwrap().jid, JID);
        drop(first);
        assert_eq!(holder(cx.opts()).unwrap(), None);
        Lock::take(&cx, JID, "state.apply", Other::Refuse).unwrap();
    }

    #[test]
    fn what_a_dead_holder_wrote_keeps_nobody_out() {
        let (_folder, cx) = scratch();
        let folder = record::made_folder(cx.opts()).unwrap();
        let dead = Holder {
            pid: 1,
            jid: JID.into(),
            fun: "state.apply".into(),
        };
        dead.write(&mut made(&folder.join("lock")).unwrap())
            .unwrap();
        std::fs::create_dir(folder.join("queue")).unwrap();
        std::fs::write(folder.join("queue/20000101000000000000.1"), "").unwrap();
        assert_eq!(holder(cx.opts()).unwrap(), None);
        drop(Lock::take(&cx, JID, "state.apply", Other::Wait(Some(LOOK))).unwrap());
        assert!(!folder.join("queue/20000101000000000000.1").exists());
    }

    #[test]
    fn a_run_inside_another_and_a_concurrent_one_need_no_lock() {
        let (_folder, mut cx) = scratch();
        let _held = Lock::take(&cx, JID, "state.apply", Other::Refuse).unwrap();
        Lock::take(&cx, JID, "state.apply", Other::Ignore).unwrap();
        cx.run = Some(Arc::new(RunState::default()));
        Lock::take(&cx, JID, "state.apply", Other::Refuse).unwrap();
    }

    #[test]
    fn those_who_wait_go_in_their_order() {
        let (_folder, cx) = scratch();
        let first = Lock::take(&cx, JID, "state.apply", Other::Refuse).unwrap();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for n in 0..4 {
                let (cx, order) = (&cx, &order);
                scope.spawn(move || {
                    let lock = Lock::take(cx, JID, "state.apply", Other::Wait(None)).unwrap();
                    order.lock().unwrap().push(n);
                    std::thread::sleep(Duration::from_millis(5));
                    drop(lock);
                });
                std::thread::sleep(Duration::from_millis(20));
            }
            drop(first);
        });
        assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_wait_ends_at_its_deadline() {
        let (_folder, cx) = scratch();
        let _held = Lock::take(&cx, JID, "state.apply", Other::Refuse).unwrap();
        let started = Instant::now();
        let wait = Other::Wait(Some(Duration::from_millis(100)));
        let refused = Lock::take(&cx, JID, "state.sls", wait);
        assert!(matches!(refused, Err(Refusal::Held(_))));
        assert!(started.elapsed() < Duration::from_secs(2));
    }
}
