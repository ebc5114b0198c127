//! The file server. It serves the files of the file roots and nothing else.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::SeekFrom;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use link::{Error, Question};
use machine::hashes;
use modules::fileserver::roots::Roots;
use smol::io::{AsyncReadExt, AsyncSeekExt};
use state::opts::Opts;
use state::sources::Sources;
use value::{Map, Value, log};
use wire::{File, List, Stat};

use crate::refusals::NotServed;

/// The maximum number of bytes of a file in one frame.
const PIECE: usize = 256 << 10;
/// The maximum number of entries of a list in one frame.
const ENTRIES: usize = 1000;
/// The maximum number of hashes that are kept in memory.
const HASHES_MAX: usize = 4096;

/// The trees that minions may read.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    roots: Arc<Roots>,
    hashes: Arc<Mutex<HashMap<PathBuf, CachedHash>>>,
}

/// The hash of a file, and the version of the file that it was computed from.
#[derive(Clone, Debug)]
struct CachedHash {
    version: Version,
    hash: String,
}

/// The size, inode and modification time of a file: if one of them differs, the file has changed.
type Version = (u64, u64, i64, i64);

fn version(metadata: &Metadata) -> Version {
    let (size, inode) = (metadata.size(), metadata.ino());
    (size, inode, metadata.mtime(), metadata.mtime_nsec())
}

/// A file that was found.
struct Found {
    file: std::fs::File,
    metadata: Metadata,
    hash: String,
}

impl Files {
    pub(crate) fn new(opts: &Opts) -> Self {
        Self {
            roots: Arc::new(Roots::states(opts)),
            hashes: Arc::default(),
        }
    }

    /// Answers `list`: sends the entries in parts, then their number.
    pub(crate) async fn list(&self, mut question: Question, asked: List) -> Result<(), Error> {
        let roots = self.roots.clone();
        let listed = smol::unblock(move || listed(&roots, &asked)).await;
        let entries = match listed {
            Ok(entries) => entries,
            Err((word, text)) => return question.fail(word, text).await,
        };
        for part in entries.chunks(ENTRIES) {
            let part = part.iter().map(|entry| entry.as_str().into());
            question.data(Value::list(part)).await?;
        }
        question.done(entries.len() as u64).await
    }

    /// Answers `stat`: sends a file's size, mode and hash.
    pub(crate) async fn stat(&self, question: Question, asked: Stat) -> Result<(), Error> {
        match self.find(asked.path, asked.saltenv).await {
            Ok(found) => {
                let said = Map::new()
                    .with("size", found.metadata.size())
                    .with("mode", u64::from(found.metadata.mode() & 0o7777))
                    .with("hash", found.hash);
                question.done(said).await
            }
            Err((word, text)) => question.fail(word, text).await,
        }
    }

    /// Answers `file`: sends the bytes from the offset on, then size and hash.
    pub(crate) async fn file(&self, mut question: Question, asked: File) -> Result<(), Error> {
        let found = match self.find(asked.path.clone(), asked.saltenv).await {
            Ok(found) => found,
            Err((word, text)) => return question.fail(word, text).await,
        };
        let path = asked.path;
        log::debug(format_args!(
            "serving salt://{path}: {} bytes from byte {}",
            found.metadata.size(),
            asked.offset
        ));
        if asked.hash.is_some_and(|hash| hash != found.hash) {
            let text = format!("salt://{path} has changed since its hash was read");
            return question.fail("invalid", text).await;
        }
        let broken = |error: std::io::Error| format!("cannot read salt://{path}: {error}");
        let mut file = smol::fs::File::from(found.file);
        if let Err(error) = file.seek(SeekFrom::Start(asked.offset)).await {
            return question.fail("failed", broken(error)).await;
        }
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece).await {
                Ok(0) => break,
                Ok(length) => {
                    let bytes = piece.get(..length).unwrap_or_default();
                    question.data(Value::Bytes(bytes.into())).await?;
                }
                Err(error) => return question.fail("failed", broken(error)).await,
            }
        }
        let said = Map::new()
            .with("size", found.metadata.size())
            .with("hash", found.hash);
        question.done(said).await
    }

    async fn find(&self, path: String, saltenv: String) -> Result<Found, NotServed> {
        let (roots, hashes) = (self.roots.clone(), self.hashes.clone());
        smol::unblock(move || found(&roots, &hashes, &path, &saltenv)).await
    }
}

/// Checks that an environment is a plain name. It replaces `__env__` in the roots, so it must not
/// lead to another folder.
pub(crate) fn environment(saltenv: &str) -> Result<(), NotServed> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !saltenv.is_empty() && !saltenv.starts_with('.') && saltenv.bytes().all(fits) {
        return Ok(());
    }
    Err(("invalid", format!("invalid environment {saltenv:?}")))
}

fn listed(roots: &Roots, asked: &List) -> Result<Vec<String>, NotServed> {
    environment(&asked.saltenv)?;
    if asked.what == "envs" {
        return Ok(roots.environments());
    }
    let files = roots.list(&asked.saltenv);
    let files = files.map_err(|error| ("failed", error.to_string()))?;
    let mut entries = match asked.what.as_str() {
        "files" => files,
        "dirs" => folders(&files),
        "symlinks" => links(roots, &asked.saltenv)?,
        other => {
            return Err((
                "invalid",
                format!("cannot list {other:?}: use files, dirs or symlinks"),
            ));
        }
    };
    entries.retain(|entry| entry.starts_with(&asked.prefix));
    Ok(entries)
}

/// Returns the symbolic links of an environment, each as the link, NUL and its target.
fn links(roots: &Roots, saltenv: &str) -> Result<Vec<String>, NotServed> {
    let links = roots.links(saltenv);
    let links = links.map_err(|error| ("failed", error.to_string()))?;
    let entry = |(link, target): (String, String)| format!("{link}\0{target}");
    Ok(links.into_iter().map(entry).collect())
}

/// Returns the folders that contain files, each once.
fn folders(files: &[String]) -> Vec<String> {
    let mut folders: Vec<String> = files
        .iter()
        .flat_map(|file| file.match_indices('/').filter_map(|(at, _)| file.get(..at)))
        .map(str::to_owned)
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

fn found(
    roots: &Roots,
    hashes: &Mutex<HashMap<PathBuf, CachedHash>>,
    path: &str,
    saltenv: &str,
) -> Result<Found, NotServed> {
    environment(saltenv)?;
    let failed = |error: String| ("failed", format!("cannot read salt://{path}: {error}"));
    let found = roots.opened(path, saltenv);
    let Some((path_there, mut file)) = found.map_err(|error| failed(error.to_string()))? else {
        let text = format!("salt://{path} is not in the environment {saltenv}");
        return Err(("missing", text));
    };
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| failed(error.to_string()))?;
    let hash = hash(hashes, &path_there, &mut file, &metadata).map_err(failed)?;
    Ok(Found {
        file,
        metadata,
        hash,
    })
}

fn hash(
    hashes: &Mutex<HashMap<PathBuf, CachedHash>>,
    path: &Path,
    file: &mut std::fs::File,
    metadata: &Metadata,
) -> Result<String, String> {
    let version = version(metadata);
    let known = || hashes.lock().unwrap_or_else(PoisonError::into_inner);
    let same = known()
        .get(path)
        .filter(|known| known.version == version)
        .cloned();
    if let Some(same) = same {
        return Ok(same.hash);
    }
    let hash = hashes::of_open(file, &path.to_string_lossy(), "sha256");
    let hash = hash.map_err(|error| error.to_string())?;
    let mut known = known();
    if known.len() >= HASHES_MAX {
        known.clear();
    }
    let new = CachedHash {
        version,
        hash: hash.clone(),
    };
    known.insert(path.to_owned(), new);
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_a_name() {
        for name in ["base", "dev-2", "__env__"] {
            assert!(environment(name).is_ok(), "{name}");
        }
        for name in ["", "..", "../etc", "a/b", ".git", "a\0"] {
            assert!(environment(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn folders_are_those_in_which_files_are() {
        let files = ["a/b/c.sls", "a/d.sls", "top.sls"].map(str::to_owned);
        assert_eq!(folders(&files), ["a", "a/b"]);
    }
}
