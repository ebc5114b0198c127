//! [`Sources`]: the provider of the files and the pillar that a run reads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use value::Map;

use crate::exec::Exec;
use crate::host::read;
use crate::module::Error;
use crate::tops;

/// A file of the tree.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path of the file on this machine, if it has one.
    pub path: PathBuf,
    /// The name of the file in errors: the path as the user knows it.
    pub shown: Arc<str>,
}

/// A provider of SLS, files and pillar: local roots, a master's streams, or a bundle.
pub trait Sources: Send + Sync {
    /// Returns a file by its path below the roots of an environment: `nginx/files/site.conf`.
    /// Returns `None` if it does not exist.
    ///
    /// # Errors
    /// When it cannot be looked up.
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error>;

    /// Returns the text of a file that was found. A provider may have a newer text than the file:
    /// that of an editor.
    ///
    /// # Errors
    /// When it cannot be read, is not UTF-8, or exceeds the maximum size.
    fn text(&self, file: &SourceFile) -> Result<Arc<str>, Error> {
        read(&file.path)
    }

    /// Returns the paths of all files of an environment, sorted.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn list(&self, saltenv: &str) -> Result<Vec<String>, Error>;

    /// Returns the paths of the files below one folder of an environment, sorted. An empty folder
    /// name means all files.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn list_below(&self, folder: &str, saltenv: &str) -> Result<Vec<String>, Error> {
        let folder = folder.trim_end_matches('/');
        let mut files = self.list(saltenv)?;
        if folder.is_empty() {
            return Ok(files);
        }
        files.retain(|path| {
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/'))
        });
        Ok(files)
    }

    /// Returns the symbolic links of an environment, each with its target. Empty if the provider
    /// has no links.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn links(&self, _saltenv: &str) -> Result<BTreeMap<String, String>, Error> {
        Ok(BTreeMap::new())
    }

    /// Returns the environments, in their order.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn environments(&self) -> Result<Vec<String>, Error>;

    /// Returns the pillar of this minion for the environment of a call, with the given `pillar=`
    /// merged over it.
    ///
    /// # Errors
    /// When it does not render.
    fn pillar(&self, cx: &Exec) -> Result<Map, Error>;

    /// Returns the SLS that the sources of `master_tops` assign to this minion, by environment.
    ///
    /// # Errors
    /// When a source fails.
    fn master_tops(&self, cx: &Exec) -> Result<Map, Error> {
        tops::load(cx)
    }

    /// Keeps what it has returned for runs without a master. It is called when a whole highstate has
    /// run to its end.
    fn keep(&self) {}
}
