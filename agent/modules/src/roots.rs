//! The local file server: `file_roots` and `pillar_roots` as folders on this machine.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use python::path;
use state::exec::Exec;
use state::host::Tree;
use state::module::Error;
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use value::glob::fnmatch;
use value::pyre::{Flags, Regex};
use value::{Map, log};

use crate::fs;
use crate::real::open_real;

/// How many files a tree may have: a root that is `/` by mistake ends with an error and not with the day.
const FILES_MAX: usize = 1_000_000;

/// How deep its folders may nest: a link to a folder above itself ends here.
const DEPTH_MAX: usize = 64;

/// How many links the log names that are not served.
const TOLD_MAX: usize = 1000;

/// Where the symbolic links of a tree may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    /// Anywhere.
    Anywhere,
    /// Into any root of the option, of any environment: a master's default.
    IntoRoots,
    /// To files of the same root: `fileserver_followsymlinks: False`, as in Salt.
    ToOwnFiles,
}

impl Links {
    /// Reads `fileserver_followsymlinks`. A master serves minions, so there only the administrator's
    /// own word lets links lead out of the roots.
    fn of(opts: &Opts, option: &str) -> Self {
        let is_masters = opts.text("__role") == Some("master") && option == "file_roots";
        match opts.get("fileserver_followsymlinks") {
            Some(follow) if !follow.is_true() => Self::ToOwnFiles,
            None if is_masters => Self::IntoRoots,
            _ => Self::Anywhere,
        }
    }
}

/// The folders of one option.
#[derive(Debug)]
pub struct Roots {
    opts: Opts,
    option: &'static str,
    /// `file_ignore_glob`.
    ignore_globs: Vec<String>,
    /// `file_ignore_regex`: those that are patterns.
    ignore_regexes: Vec<Regex>,
    links: Links,
    /// The links that the log has named.
    told: Mutex<HashSet<PathBuf>>,
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
            links: Links::of(opts, option),
            told: Mutex::default(),
        }
    }

    /// Returns the path without links at which something below a root may be read; none when a
    /// link leads where links may not lead.
    fn place(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        if self.links == Links::Anywhere {
            return Some(path.to_owned());
        }
        let real = path.canonicalize().ok()?;
        let is_inside = self.allows(root, &real);
        if !is_inside {
            self.tell(root, path);
        }
        is_inside.then_some(real)
    }

    /// Returns whether a path without links is where links of this root may lead.
    fn allows(&self, root: &Path, real: &Path) -> bool {
        let holds = |root: &PathBuf| root.canonicalize().is_ok_and(|root| real.starts_with(root));
        match self.links {
            Links::Anywhere => true,
            Links::ToOwnFiles => holds(&root.to_owned()),
            Links::IntoRoots => {
                let environments = self.opts.environments(self.option);
                let mut roots = environments.iter().flat_map(|name| self.folders(name));
                holds(&root.to_owned()) || roots.any(|root| holds(&root))
            }
        }
    }

    /// Warns, once for each link, that it leads out of the roots.
    fn tell(&self, root: &Path, path: &Path) {
        let Some((link, target)) = self.outward(root, path) else {
            return;
        };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if self.links == Links::IntoRoots && told.len() < TOLD_MAX && told.insert(link.clone()) {
            log::warning(format_args!(
                "{} leads to {}, which is outside of {}: it is not served. Set `fileserver_followsymlinks: True` to serve what such links lead to",
                link.display(),
                target.display(),
                self.option
            ));
        }
    }

    /// Returns the link on the way from a root to a path that leads out of the roots, and where it leads.
    fn outward(&self, root: &Path, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let mut here = root.to_owned();
        for part in path.strip_prefix(root).ok()? {
            here.push(part);
            let real = here.canonicalize().ok()?;
            if !self.allows(root, &real) {
                return Some((here, real));
            }
        }
        None
    }

    /// Finds a file: its path below a root, and the one at which it is read.
    fn find(&self, path: &str, saltenv: &str) -> Option<(PathBuf, PathBuf)> {
        let inside = inside(path).filter(|inside| !self.ignored(inside))?;
        self.folders(saltenv).into_iter().find_map(|root| {
            let path = root.join(&inside);
            let place = path.is_file().then(|| self.place(&root, &path))??;
            Some((path, place))
        })
    }

    /// Opens a file of the tree for a peer: what was checked is what is read, also when somebody
    /// changes a folder or a link meanwhile. Returns the path at which it was opened as well.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn opened(&self, path: &str, saltenv: &str) -> Result<Option<(PathBuf, File)>, Error> {
        let Some((_, place)) = self.find(path, saltenv) else {
            return Ok(None);
        };
        let opened = match self.links {
            Links::Anywhere => fs::raw::open(&place),
            Links::IntoRoots | Links::ToOwnFiles => open_real(&place),
        };
        let file = opened.map_err(Error::io(&place))?;
        Ok(Some((place, file)))
    }

    /// Returns whether a symbolic link may be listed. One that leads nowhere counts as the place
    /// that it names; Salt lists all where it follows none.
    fn lists(&self, root: &Path, link: &Path, target: &Path) -> bool {
        if self.links != Links::IntoRoots {
            return true;
        }
        let folder = link.parent().unwrap_or(root);
        if let Ok(real) = link.canonicalize() {
            return self.allows(root, &real);
        }
        let Ok(folder) = folder.canonicalize() else {
            return false;
        };
        let named = folder.join(target).to_string_lossy().into_owned();
        self.allows(root, Path::new(&path::normpath(&named)))
    }

    /// Returns whether a walk of the root comes to a folder below it: one that keeps links comes through none.
    fn reaches(&self, root: &Path, below: &Path) -> bool {
        match self.links {
            Links::Anywhere => true,
            Links::IntoRoots => self.place(root, below).is_some(),
            Links::ToOwnFiles => {
                let inside = below.strip_prefix(root).ok();
                let walked = inside.and_then(|inside| Some(root.canonicalize().ok()?.join(inside)));
                walked.is_some() && walked == below.canonicalize().ok()
            }
        }
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
        for entry in fs::list(folder)? {
            let path = entry.path();
            let is_link = self.links != Links::Anywhere && path.is_symlink();
            let is_kept = self.links == Links::ToOwnFiles && path.is_dir();
            if is_link && (is_kept || self.place(root, &path).is_none()) {
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
        let found = self.find(path, saltenv);
        Ok(found.map(|(path, _)| SourceFile {
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
            if below.is_dir() && self.reaches(&root, &below) {
                self.walk(&root, &below, 0, &mut files)?;
            }
        }
        files.retain(|path| !self.ignored(path));
        files.sort();
        files.dedup();
        Ok(files)
    }

    fn links(&self, saltenv: &str) -> Result<BTreeMap<String, String>, Error> {
        let mut found = BTreeMap::new();
        for root in self.folders(saltenv) {
            let shown = root.to_string_lossy().into_owned();
            for folder in fs::walk(&shown, None)? {
                for name in folder.files.iter().chain(&folder.dirs) {
                    let path = path::join(&folder.root, name);
                    let Some(target) = fs::link_target_or_none(&path)? else {
                        continue;
                    };
                    if self.lists(&root, Path::new(&path), &target) {
                        let target = target.to_string_lossy().into_owned();
                        let below = path::relpath(&path, &shown);
                        found.entry(below).or_insert(target);
                    }
                }
            }
        }
        Ok(found)
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
    use value::Value;

    use super::*;

    #[test]
    fn a_path_never_leads_outside_its_root() {
        assert_eq!(inside("a/./b/../c.sls").as_deref(), Some("a/c.sls"));
        assert_eq!(inside("../etc/passwd"), None);
        assert_eq!(inside("a/../../etc/passwd"), None);
        assert_eq!(inside("/etc/passwd"), None);
        assert_eq!(inside(""), None);
    }

    /// A10, L2: what `fileserver_followsymlinks` keeps inside.
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
        let masters = |opts: Map| Roots::states(&Opts::new(opts.with("__role", "master")));
        let tree = Map::new().with("base", Value::list([root.display().to_string().into()]));
        let opts = Map::new().with("file_roots", tree);
        let default = masters(opts.clone());
        assert_eq!(found(&default), ["a/in", "within"]);
        assert_eq!(default.list("base").unwrap(), found(&default));
        assert!(default.opened("within", "base").unwrap().is_some());
        for refused in ["file", "folder/out"] {
            assert!(default.opened(refused, "base").unwrap().is_none());
        }
        let links: Vec<String> = default.links("base").unwrap().into_keys().collect();
        assert_eq!(links, ["within"]);
        let told = default.told.lock().unwrap().clone();
        assert_eq!(
            told,
            HashSet::from([root.join("file"), root.join("folder")])
        );
        // Another root is one of the trees, and a link to it serves what it holds.
        let both = [&root, &other].map(|path| path.display().to_string().into());
        let tree = Map::new().with("base", Value::list(both[..1].iter().cloned()));
        let tree = tree.with("dev", Value::list(both[1..].iter().cloned()));
        let default = masters(Map::new().with("file_roots", tree));
        assert_eq!(found(&default), ["a/in", "file", "folder/out", "within"]);
        let asked = masters(opts.with("fileserver_followsymlinks", true));
        assert_eq!(found(&asked), ["a/in", "file", "folder/out", "within"]);
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
