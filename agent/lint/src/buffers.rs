//! [`Buffers`]: the texts of an editor, which replace those of the files.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use modules::fileserver::roots::Roots;
use state::exec::Exec;
use state::module::Error;
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use value::Map;

/// Texts by the real paths of their files. A file need not exist yet.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Arc<HashMap<PathBuf, Arc<str>>>);

impl Buffers {
    /// Returns these texts, each with the path of its file.
    pub fn new(texts: impl IntoIterator<Item = (PathBuf, Arc<str>)>) -> Self {
        let texts = texts.into_iter();
        Self(Arc::new(
            texts.map(|(path, text)| (real(&path), text)).collect(),
        ))
    }

    /// Returns the text of a file, if there is one.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<Arc<str>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&real(path)).cloned()
    }
}

/// Returns the path without links. A file that does not exist is below its real folder.
fn real(path: &Path) -> PathBuf {
    let of_folder = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let whole = path.canonicalize().ok();
    whole.or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

/// The files of the roots with the texts of an editor.
pub(crate) struct Edited {
    roots: Roots,
    opts: Opts,
    option: &'static str,
    buffers: Buffers,
}

impl Edited {
    pub(crate) fn states(opts: &Opts, buffers: &Buffers) -> Self {
        Self {
            roots: Roots::states(opts),
            opts: opts.clone(),
            option: "file_roots",
            buffers: buffers.clone(),
        }
    }

    pub(crate) fn pillar(opts: &Opts, buffers: &Buffers) -> Self {
        Self {
            roots: Roots::pillar(opts),
            option: "pillar_roots",
            ..Self::states(opts, buffers)
        }
    }

    /// Returns the paths of files that only an editor has, below the roots of an environment.
    fn unsaved(&self, saltenv: &str) -> Vec<(PathBuf, String)> {
        let roots = self.opts.roots(self.option, saltenv);
        let new = self.buffers.0.keys().filter(|path| !path.exists());
        let below = |path: &PathBuf| {
            let mut roots = roots.iter();
            roots.find_map(|root| {
                let below = path.strip_prefix(real(root)).ok()?.to_str()?.to_owned();
                Some((root.join(&below), below))
            })
        };
        new.filter_map(below).collect()
    }
}

impl Sources for Edited {
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error> {
        if let Some(found) = self.roots.file(path, saltenv)? {
            return Ok(Some(found));
        }
        let mut unsaved = self.unsaved(saltenv).into_iter();
        let found = unsaved.find(|(_, below)| below == path);
        Ok(found.map(|(path, _)| SourceFile {
            shown: path.display().to_string().into(),
            path,
        }))
    }

    fn text(&self, file: &SourceFile) -> Result<Arc<str>, Error> {
        match self.buffers.get(&file.path) {
            Some(text) => Ok(text),
            None => self.roots.text(file),
        }
    }

    fn list(&self, saltenv: &str) -> Result<Vec<String>, Error> {
        let mut all = self.roots.list(saltenv)?;
        let unsaved = self.unsaved(saltenv).into_iter();
        all.extend(unsaved.map(|(_, below)| below));
        all.sort();
        Ok(all)
    }

    fn links(&self, saltenv: &str) -> Result<BTreeMap<String, String>, Error> {
        self.roots.links(saltenv)
    }

    fn environments(&self) -> Result<Vec<String>, Error> {
        self.roots.environments()
    }

    fn pillar(&self, cx: &Exec) -> Result<Map, Error> {
        self.roots.pillar(cx)
    }
}

#[cfg(test)]
mod tests {
    use value::Value;

    use super::*;

    #[test]
    fn a_buffer_replaces_its_file_also_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a.sls"), "on disk").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let tree = Map::new().with("base", Value::list([root.display().to_string().into()]));
        let opts = Opts::new(Map::new().with("file_roots", tree));
        let buffers = Buffers::new([
            (link.join("a.sls"), "typed".into()),
            (link.join("new.sls"), "unsaved".into()),
        ]);
        let edited = Edited::states(&opts, &buffers);
        assert_eq!(edited.list("base").unwrap(), ["a.sls", "new.sls"]);
        for (path, text) in [("a.sls", "typed"), ("new.sls", "unsaved")] {
            let file = edited.file(path, "base").unwrap().unwrap();
            assert_eq!(&*edited.text(&file).unwrap(), text);
        }
        assert!(edited.file("other.sls", "base").unwrap().is_none());
    }
}
