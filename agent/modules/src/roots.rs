//! The local file server: `file_roots` and `pillar_roots` as folders on this machine.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use state::exec::Exec;
use state::host::Tree;
use state::module::Error;
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use value::glob::fnmatch;
use value::pyre::{Flags, Regex};
use value::{Map, Value};

/// How many files a tree may have: a root that is `/` by mistake ends with an error and not with the day.
const FILES_MAX: usize = 1_000_000;

/// How deep its folders may nest: a link to a folder above itself ends here.
const DEPTH_MAX: usize = 64;

/// The folders of one option.
#[derive(Debug)]
pub struct Roots {
    opts: Opts,
    option: &'static str,
    /// `file_ignore_glob`.
    ignore_globs: Vec<String>,
    /// `file_ignore_regex`: those that are patterns.
    ignore_regexes: Vec<Regex>,
    /// `fileserver_followsymlinks`: whether links may lead out of a root.
    follows: bool,
}

impl Roots {
    /// The tree of states.
    #[must_use]
    pub fn states(opts: &Opts) -> Self {
        Self::of(opts, "file_roots")
    }

    /// The tree of pillar.
    #[must_use]
    pub fn pillar(opts: &Opts) -> Self {
        Self::of(opts, "pillar_roots")
    }

    fn of(opts: &Opts, option: &'static str) -> Self {
        let regexes = opts.texts("file_ignore_regex").into_iter();
        Self {
            opts: opts.clone(),
            option,
            ignore_globs: opts.texts("file_ignore_glob"),
            ignore_regexes: regexes
                .filter_map(|regex| Regex::new(&regex, Flags::NONE).ok())
                .collect(),
            follows: opts
                .get("fileserver_followsymlinks")
                .is_none_or(Value::is_true),
        }
    }

    /// Whether a file below a root may be served: where links are not followed, it must lie in that root when all are resolved.
    fn serves(&self, root: &Path, file: &Path) -> bool {
        self.follows
            || matches!((root.canonicalize(), file.canonicalize()),
                (Ok(root), Ok(file)) if file.starts_with(&root))
    }

    /// Returns true if a walk of the root comes to this folder: one that follows no links comes through none.
    fn reaches(&self, root: &Path, folder: &str) -> bool {
        self.follows
            || matches!((root.canonicalize(), root.join(folder).canonicalize()),
                (Ok(root), Ok(below)) if below == root.join(folder))
    }

    fn folders(&self, saltenv: &str) -> Vec<PathBuf> {
        self.opts.roots(self.option, saltenv)
    }

    /// `file_ignore_glob` and `file_ignore_regex`: held against the path below the root.
    fn ignored(&self, path: &str) -> bool {
        let matches = |regex: &Regex| regex.is_match(path).unwrap_or(false);
        self.ignore_globs.iter().any(|glob| fnmatch(glob, path))
            || self.ignore_regexes.iter().any(matches)
    }

    fn walk(
        &self,
        root: &Path,
        folder: &Path,
        depth: usize,
        files: &mut Vec<String>,
    ) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Ok(());
        }
        for entry in crate::fs::list(folder)? {
            let path = entry.path();
            let is_link = !self.follows && path.is_symlink();
            if is_link && (path.is_dir() || !self.serves(root, &path)) {
                continue;
            }
            if path.is_dir() {
                self.walk(root, &path, depth + 1, files)?;
            } else if let Some(below) = path.strip_prefix(root).ok().and_then(Path::to_str) {
                files.push(below.to_owned());
                if files.len() > FILES_MAX {
                    return Err(Error::refused(format!(
                        "{} holds more than {FILES_MAX} files: is it the root you mean?",
                        root.display()
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Sources for Roots {
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error> {
        let Some(inside) = inside(path) else {
            return Ok(None);
        };
        if self.ignored(&inside) {
            return Ok(None);
        }
        let found = self
            .folders(saltenv)
            .into_iter()
            .map(|root| (root.join(&inside), root))
            .find(|(path, root)| path.is_file() && self.serves(root, path))
            .map(|(path, _)| path);
        Ok(found.map(|path| SourceFile {
            shown: path.display().to_string().into(),
            path,
        }))
    }

    fn list(&self, saltenv: &str) -> Result<Vec<String>, Error> {
        self.list_below("", saltenv)
    }

    fn list_below(&self, folder: &str, saltenv: &str) -> Result<Vec<String>, Error> {
        let mut files = Vec::new();
        // A path that leads out of the roots has nothing below it.
        let folder = match folder.trim_end_matches('/') {
            "" => Some(String::new()),
            folder => inside(folder),
        };
        let Some(folder) = folder else {
            return Ok(files);
        };
        for root in self.folders(saltenv) {
            let below = root.join(&folder);
            if below.is_dir() && self.reaches(&root, &folder) {
                self.walk(&root, &below, 0, &mut files)?;
            }
        }
        files.retain(|path| !self.ignored(path));
        files.sort();
        files.dedup();
        Ok(files)
    }

    fn environments(&self) -> Vec<String> {
        self.opts.environments(self.option)
    }

    fn pillar(&self, cx: &Exec) -> Result<Map, Error> {
        let tree = Tree::Other(Arc::new(Self::pillar(&self.opts)));
        Ok(state::pillar::compile(cx, &tree))
    }
}

/// A path below a root without `.` and `..`; none when it leads outside.
fn inside(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_never_leads_outside_its_root() {
        assert_eq!(inside("a/./b/../c.sls").as_deref(), Some("a/c.sls"));
        assert_eq!(inside("../etc/passwd"), None);
        assert_eq!(inside("a/../../etc/passwd"), None);
        assert_eq!(inside("/etc/passwd"), None);
        assert_eq!(inside(""), None);
    }

    /// A10: what `fileserver_followsymlinks: False` keeps inside.
    #[test]
    fn links_lead_out_of_a_root_only_where_they_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (root, other) = (folder.path().join("root"), folder.path().join("other"));
        for made in [&root.join("a"), &other] {
            std::fs::create_dir_all(made).unwrap();
        }
        for file in [root.join("a/in"), other.join("out")] {
            std::fs::write(file, "x").unwrap();
        }
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, root.join(name)).unwrap();
        link(&other.join("out"), "file");
        link(&other, "folder");
        link(Path::new("a/in"), "within");
        let roots = |follows: bool| {
            let tree = Map::new().with("base", Value::list([root.display().to_string().into()]));
            let opts = Map::new().with("file_roots", tree);
            Roots::states(&Opts::new(opts.with("fileserver_followsymlinks", follows)))
        };
        let found = |roots: &Roots| {
            let paths = ["a/in", "file", "folder/out", "within"].into_iter();
            let there = paths.filter(|path| roots.file(path, "base").unwrap().is_some());
            there.map(str::to_owned).collect::<Vec<_>>()
        };
        let all = roots(true);
        assert_eq!(found(&all), ["a/in", "file", "folder/out", "within"]);
        assert_eq!(all.list("base").unwrap(), found(&all));
        let kept = roots(false);
        assert_eq!(found(&kept), ["a/in", "within"]);
        assert_eq!(kept.list("base").unwrap(), found(&kept));
        assert!(kept.list_below("folder", "base").unwrap().is_empty());
        assert_eq!(kept.list_below("a", "base").unwrap(), ["a/in"]);
        assert_eq!(all.list_below("folder/", "base").unwrap(), ["folder/out"]);
    }

    #[test]
    fn a_listing_never_leaves_the_roots() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("in"), "x").unwrap();
        std::fs::write(folder.path().join("out"), "x").unwrap();
        let tree = Map::new().with("base", Value::list([root.display().to_string().into()]));
        let roots = Roots::states(&Opts::new(Map::new().with("file_roots", tree)));
        let outside = folder.path().to_str().unwrap();
        for below in ["..", "in/../..", outside] {
            assert!(
                roots.list_below(below, "base").unwrap().is_empty(),
                "{below}"
            );
        }
        assert_eq!(roots.list_below("", "base").unwrap(), ["in"]);
    }
}
