//! [`Sources`]: what a run reads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use value::Map;

use crate::exec::Exec;
use crate::module::Error;

/// A file of the tree.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Where it lies on this machine, if it does.
    pub path: PathBuf,
    /// What errors call it: the path as the user knows it.
    pub shown: Arc<str>,
}

/// Where SLS, files and pillar come from: local roots, a master's streams, or a bundle.
pub trait Sources: Send + Sync {
    /// A file by its path below the roots of an environment: `nginx/files/site.conf`. `None` when it is not there.
    ///
    /// # Errors
    /// When it cannot be looked up.
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error>;

    /// The paths of all files of an environment, sorted.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn list(&self, saltenv: &str) -> Result<Vec<String>, Error>;

    /// The paths of the files below one folder of an environment, sorted; of all files if it is empty.
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

    /// Returns the symbolic links of an environment, each with what it points to; none where
    /// there cannot be any.
    ///
    /// # Errors
    /// When they cannot be listed.
    fn links(&self, _saltenv: &str) -> Result<BTreeMap<String, String>, Error> {
        Ok(BTreeMap::new())
    }

    /// The environments, in their order.
    fn environments(&self) -> Vec<String>;

    /// The pillar of this minion for a call's environment, with what was given as `pillar=` laid over it.
    ///
    /// # Errors
    /// When it does not render.
    fn pillar(&self, cx: &Exec) -> Result<Map, Error>;
}
