//! The files of the file roots, as they are served to other machines: lists, and files with size,
//! mode and hash. Nothing outside the roots is served.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use machine::hashes;
use state::opts::Opts;
use state::sources::Sources;
use value::Map;

use super::Refusal;
use crate::fileserver::roots::Roots;

/// The maximum number of hashes that are kept in memory.
const HASHES_MAX: usize = 4096;

/// The trees that other machines may read.
#[derive(Debug)]
pub struct Files {
    roots: Roots,
    hashes: Mutex<HashMap<PathBuf, CachedHash>>,
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
#[derive(Debug)]
pub struct Found {
    /// The open file, from its start on.
    pub file: File,
    /// Its size and mode.
    pub metadata: Metadata,
    /// Its SHA-256.
    pub hash: String,
}

impl Found {
    /// Returns the answer to a request for information about the file: `size`, `mode` and `hash`.
    #[must_use]
    pub fn information(&self) -> Map {
        Map::new()
            .with("size", self.metadata.size())
            .with("mode", u64::from(self.metadata.mode() & 0o7777))
            .with("hash", self.hash.as_str())
    }

    /// Returns the end of the answer to a request for the file's bytes: `size` and `hash`.
    #[must_use]
    pub fn end(&self) -> Map {
        Map::new()
            .with("size", self.metadata.size())
            .with("hash", self.hash.as_str())
    }
}

impl Files {
    /// Returns the trees of `file_roots`.
    #[must_use]
    pub fn new(opts: &Opts) -> Self {
        Self {
            roots: Roots::served(opts),
            hashes: Mutex::default(),
        }
    }

    /// Returns the entries of a list: `files`, `dirs`, `symlinks` or `envs`. Only those with this
    /// prefix are listed.
    ///
    /// # Errors
    /// When the environment or the kind of list is invalid, or a root cannot be read.
    pub fn list(&self, what: &str, saltenv: &str, prefix: &str) -> Result<Vec<String>, Refusal> {
        environment(saltenv)?;
        if what == "envs" {
            let all = self.roots.environments();
            return all.map_err(|error| ("failed", error.to_string()));
        }
        let files = self.roots.list(saltenv);
        let files = files.map_err(|error| ("failed", error.to_string()))?;
        let mut entries = match what {
            "files" => files,
            "dirs" => folders(&files),
            "symlinks" => links(&self.roots, saltenv)?,
            other => {
                return Err((
                    "invalid",
                    format!("cannot list {other:?}: use files, dirs or symlinks"),
                ));
            }
        };
        entries.retain(|entry| entry.starts_with(prefix));
        Ok(entries)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// When the environment is invalid, or the file is missing or cannot be read.
    pub fn find(&self, path: &str, saltenv: &str) -> Result<Found, Refusal> {
        environment(saltenv)?;
        let failed = |error: String| ("failed", format!("cannot read salt://{path}: {error}"));
        let found = self.roots.opened(path, saltenv);
        let Some((path_there, mut file)) = found.map_err(|error| failed(error.to_string()))? else {
            let text = format!("salt://{path} is not in the environment {saltenv}");
            return Err(("missing", text));
        };
        let metadata = file.metadata();
        let metadata = metadata.map_err(|error| failed(error.to_string()))?;
        let hash = self
            .hash(&path_there, &mut file, &metadata)
            .map_err(failed)?;
        Ok(Found {
            file,
            metadata,
            hash,
        })
    }

    fn hash(&self, path: &Path, file: &mut File, metadata: &Metadata) -> Result<String, String> {
        let version = version(metadata);
        let known = || self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
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
}

/// Checks that an environment is a plain name. It replaces `__env__` in the roots, so it must not
/// lead to another folder.
pub fn environment(saltenv: &str) -> Result<(), Refusal> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !saltenv.is_empty() && !saltenv.starts_with('.') && saltenv.bytes().all(fits) {
        return Ok(());
    }
    Err(("invalid", format!("invalid environment {saltenv:?}")))
}

/// Returns the symbolic links of an environment, each as the link, NUL and its target.
fn links(roots: &Roots, saltenv: &str) -> Result<Vec<String>, Refusal> {
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
