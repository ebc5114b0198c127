//! [`Seen`]: the hashes of all files of the tree that a run has requested.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use state::exec::Exec;
use state::module::Error;
use state::sources::{SourceFile, Sources};
use value::Map;

/// The placeholder for the hash of a file that does not exist.
const ABSENT: &str = "absent";

/// The files and lists that were read from a tree.
#[derive(Debug, Default)]
pub struct Seen {
    /// The hashes by environment and path, as of the first request.
    hashes: Mutex<BTreeMap<String, String>>,
    /// The hashes that are required from now on.
    expected: Mutex<Option<Map>>,
}

impl Seen {
    /// Records the hash of a file or list.
    ///
    /// # Errors
    /// When the hash differs from the required one, or from that of the first request.
    fn note(&self, key: String, hash: &str) -> Result<(), Error> {
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planned) = expected.as_ref().and_then(|all| all.get(&key))
            && planned.as_str() != Some(hash)
        {
            return Err(format!("{key} has changed since the run was planned").into());
        }
        drop(expected);
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        match hashes.get(&key) {
            Some(first) if first != hash => {
                Err(format!("{key} was changed while the plan was made: plan again").into())
            }
            Some(_) => Ok(()),
            None => {
                hashes.insert(key, hash.to_owned());
                Ok(())
            }
        }
    }

    /// Rejects, from now on, files and lists with other hashes than these.
    pub(crate) fn hold_to(&self, tree: Map) {
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = Some(tree);
    }

    /// Returns all hashes.
    #[must_use]
    pub fn tree(&self) -> Map {
        let hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = hashes.iter();
        entries
            .map(|(key, hash)| (key.as_str(), hash.as_str()))
            .collect()
    }
}

/// Sources that record every request.
pub struct Watched {
    inner: Box<dyn Sources>,
    seen: Arc<Seen>,
}

impl Watched {
    /// Wraps these sources, and records requests in `seen`.
    #[must_use]
    pub fn new(inner: Box<dyn Sources>, seen: Arc<Seen>) -> Self {
        Self { inner, seen }
    }

    fn noted(&self, folder: &str, saltenv: &str, files: &[String]) -> Result<(), Error> {
        let hash = crate::hash(files.join("\n").as_bytes());
        self.seen
            .note(format!("{saltenv}: the files below '{folder}'"), &hash)
    }
}

fn hash_of_file(path: &Path) -> Result<String, Error> {
    machine::hashes::of_file(&path.to_string_lossy(), "sha256")
}

impl Sources for Watched {
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error> {
        let found = self.inner.file(path, saltenv)?;
        let hash = match &found {
            Some(file) => hash_of_file(&file.path)?,
            None => ABSENT.to_owned(),
        };
        self.seen.note(format!("{saltenv}: {path}"), &hash)?;
        Ok(found)
    }

    fn master_tops(&self, cx: &Exec) -> Result<Map, Error> {
        let tops = self.inner.master_tops(cx)?;
        let shown = value::python::repr(&tops.clone().into());
        self.seen
            .note("master_tops".to_owned(), &crate::hash(shown.as_bytes()))?;
        Ok(tops)
    }

    fn text(&self, file: &SourceFile) -> Result<Arc<str>, Error> {
        self.inner.text(file)
    }

    fn list(&self, saltenv: &str) -> Result<Vec<String>, Error> {
        let files = self.inner.list(saltenv)?;
        self.noted("", saltenv, &files)?;
        Ok(files)
    }

    fn list_below(&self, folder: &str, saltenv: &str) -> Result<Vec<String>, Error> {
        let files = self.inner.list_below(folder, saltenv)?;
        self.noted(folder, saltenv, &files)?;
        Ok(files)
    }

    fn links(&self, saltenv: &str) -> Result<BTreeMap<String, String>, Error> {
        let links = self.inner.links(saltenv)?;
        let shown = links
            .iter()
            .map(|(link, target)| format!("{link}\0{target}"));
        let shown: Vec<String> = shown.collect();
        let hash = crate::hash(shown.join("\n").as_bytes());
        self.seen
            .note(format!("{saltenv}: the symbolic links"), &hash)?;
        Ok(links)
    }

    fn environments(&self) -> Result<Vec<String>, Error> {
        self.inner.environments()
    }

    fn pillar(&self, cx: &Exec) -> Result<Map, Error> {
        self.inner.pillar(cx)
    }
}
