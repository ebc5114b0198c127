//! `cp.push`: files that minions send, if `file_recv` allows it. A file is stored whole or not at
//! all, below `cachedir/minions/ID/files`.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use link::{Error, Part, Question};
use machine::hashes;
use value::read::or_none;
use value::{Value, log, remove};
use wire::{Id, Push};

use super::Data;
use crate::refusals::NotServed;

/// The default of `file_recv_max_size`, in MiB.
const SIZE_MAX_MIB: u64 = 100;
/// The total size of one minion's files, in multiples of the largest file that it may send.
const TOGETHER: u64 = 10;
/// The maximum number of files and folders of one minion.
const FILES_MAX: usize = 10_000;
/// The maximum length of a path, and of each name in it.
const PATH_MAX: usize = 1024;
const NAME_MAX: usize = 200;

/// A counter that gives each incoming file a different temporary name.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A file that is being received.
struct Coming {
    file: File,
    /// The temporary path of the file until it is complete.
    beside: PathBuf,
    place: PathBuf,
    left: u64,
    asked: Push,
}

impl Data {
    /// Receives a file from a minion.
    pub(crate) async fn take_file(
        &self,
        id: &Id,
        mut question: Question,
        asked: Push,
    ) -> Result<(), Error> {
        let size_max = self.size_max();
        let folder = self.opts.cachedir().join("minions").join(id.as_str());
        let allowed = match self.opts.flag("file_recv") {
            true => Ok(()),
            false => Err((
                "refused",
                "this master does not accept files: its option file_recv is off".to_owned(),
            )),
        };
        let begin = move || begin(&folder.join("files"), asked, size_max);
        let begun = match allowed {
            Ok(()) => smol::unblock(begin).await,
            Err(no) => Err(no),
        };
        let mut coming = match begun {
            Ok(coming) => coming,
            Err((reason, text)) => {
                log::warning(format_args!("cannot store a file of {id}: {text}"));
                return question.fail(reason, text).await;
            }
        };
        let taken = loop {
            // No deadline: a question has a deadline from one part to the next.
            match question.next().await? {
                Part::Data(Value::Bytes(bytes)) => match coming.take(&bytes) {
                    Ok(()) => {}
                    Err(no) => break Err(no),
                },
                Part::Data(_) => {
                    break Err(("invalid", "a part of the file is not bytes".to_owned()));
                }
                Part::Done(_) => break smol::unblock(move || coming.settle()).await,
            }
        };
        match taken {
            Ok(()) => question.done(true).await,
            Err((reason, text)) => {
                log::warning(format_args!("cannot store a file of {id}: {text}"));
                question.fail(reason, text).await
            }
        }
    }

    fn size_max(&self) -> u64 {
        let mib = self.opts.int("file_recv_max_size");
        let mib = mib.and_then(|mib| u64::try_from(mib).ok());
        mib.unwrap_or(SIZE_MAX_MIB).saturating_mul(1 << 20)
    }
}

/// Returns the path relative to the minion's folder. All of its names must be plain.
fn below(path: &str) -> Result<PathBuf, NotServed> {
    let wrong = || {
        (
            "invalid",
            format!("cannot store a file at {path:?}: invalid path"),
        )
    };
    let relative = path.trim_start_matches('/');
    if relative.is_empty() || path.len() > PATH_MAX || path.chars().any(char::is_control) {
        return Err(wrong());
    }
    let mut clean = PathBuf::new();
    for part in Path::new(relative).components() {
        match part {
            Component::Normal(name) if name.len() <= NAME_MAX => clean.push(name),
            _ => return Err(wrong()),
        }
    }
    Ok(clean)
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> NotServed {
    let path = path.display().to_string();
    move |error| ("failed", format!("{path}: {error}"))
}

fn begin(folder: &Path, asked: Push, size_max: u64) -> Result<Coming, NotServed> {
    let place = folder.join(below(&asked.path)?);
    if asked.size > size_max {
        let (size, path) = (asked.size, &asked.path);
        let text = format!("{path} has {size} bytes; the limit is {size_max} (file_recv_max_size)");
        return Err(("refused", text));
    }
    let coming = folder.with_file_name("coming");
    let (files, bytes) = held(&[folder, &coming])?;
    let quota = size_max.saturating_mul(TOGETHER);
    let folders = Path::new(&asked.path).components().count();
    if files + folders > FILES_MAX || bytes.saturating_add(asked.size) > quota {
        let text = format!(
            "{files} files and folders with {bytes} bytes are in {}; the limits are {FILES_MAX} files and {quota} bytes (ten times file_recv_max_size): remove some",
            folder.display()
        );
        return Err(("refused", text));
    }
    made(&coming)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let beside = coming.join(format!("{}.{number}", std::process::id()));
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600);
    let file = opened.open(&beside).map_err(failed(&beside))?;
    Ok(Coming {
        file,
        beside,
        place,
        left: asked.size,
        asked,
    })
}

/// Creates a folder and its parents, for this program's user only.
fn made(folder: &Path) -> Result<(), NotServed> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(failed(folder))
}

/// Returns the number of files and folders in some folders, and their total size in bytes.
fn held(folders: &[&Path]) -> Result<(usize, u64), NotServed> {
    let (mut files, mut bytes) = (0, 0_u64);
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    while let Some(folder) = folders.pop() {
        let entries = or_none(machine::fs::raw::entries(&folder)).map_err(failed(&folder))?;
        for entry in entries.into_iter().flatten() {
            match entry.metadata() {
                Ok(found) if found.is_dir() => {
                    files += 1;
                    folders.push(entry.path());
                }
                Ok(found) => {
                    files += 1;
                    bytes = bytes.saturating_add(found.len());
                }
                Err(_) => {}
            }
        }
    }
    Ok((files, bytes))
}

impl Coming {
    fn take(&mut self, bytes: &[u8]) -> Result<(), NotServed> {
        let length = bytes.len() as u64;
        let left = self.left.checked_sub(length);
        self.left = left.ok_or_else(|| self.other())?;
        self.file.write_all(bytes).map_err(failed(&self.beside))
    }

    fn other(&self) -> NotServed {
        let path = &self.asked.path;
        (
            "invalid",
            format!("{path}: the received file does not match its announced size and hash"),
        )
    }

    /// Puts the file in place if its size and hash are as announced.
    fn settle(self) -> Result<(), NotServed> {
        self.file.sync_all().map_err(failed(&self.beside))?;
        let hash = hashes::of_file(&self.beside.to_string_lossy(), "sha256");
        let hash = hash.map_err(|error| ("failed", error.to_string()))?;
        if self.left > 0 || hash != self.asked.hash {
            return Err(self.other());
        }
        if let Some(parent) = self.place.parent() {
            made(parent)?;
        }
        rustix::fs::rename(&self.beside, &self.place)
            .map_err(|error| failed(&self.place)(error.into()))
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        // The file is missing if it has been moved into place.
        remove::or_log(&self.beside, rustix::fs::unlink(&self.beside));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack A11: a file for the master with a crafted name.
    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for bad in [
            "",
            "/",
            "../x",
            "/a/../../x",
            "a/./../x",
            "..",
            ".",
            "a\0b",
            "a\nb",
        ] {
            assert!(below(bad).is_err(), "{bad:?}");
        }
        assert!(below(&"a/".repeat(600)).is_err());
        assert!(below(&"a".repeat(300)).is_err());
        assert_eq!(below("/etc/.hosts").unwrap(), Path::new("etc/.hosts"));
    }

    fn coming(folder: &Path, size: u64, hash: &str) -> Result<Coming, NotServed> {
        let asked = Push {
            path: "/etc/hosts".to_owned(),
            size,
            hash: hash.to_owned(),
        };
        begin(&folder.join("files"), asked, 100)
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let hash = hashes::of_bytes(b"hello", "sha256").unwrap();
        let files = dir.path().join("files");
        let place = files.join("etc/hosts");
        for (size, hash, parts) in [
            (5, hash.as_str(), &["hel"][..]),
            (5, "00", &["hel", "lo"]),
            (4, &hash, &["hel", "lo"]),
        ] {
            let mut coming = coming(dir.path(), size, hash).unwrap();
            let taken = parts
                .iter()
                .try_for_each(|part| coming.take(part.as_bytes()));
            assert!(taken.and_then(|()| coming.settle()).is_err());
            assert_eq!(held(&[&files, &dir.path().join("coming")]), Ok((0, 0)));
            assert!(!files.exists(), "a refused push leaves a folder");
        }
        let mut whole = coming(dir.path(), 5, &hash).unwrap();
        whole.take(b"hello").unwrap();
        whole.settle().unwrap();
        assert_eq!(std::fs::read_to_string(place).unwrap(), "hello");
        // The first is too large, the second too much together with the others.
        assert!(coming(dir.path(), 101, &hash).is_err());
        let much = File::create(files.join("much")).unwrap();
        much.set_len(950).unwrap();
        assert!(coming(dir.path(), 60, &hash).is_err());
    }
}
