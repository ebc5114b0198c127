//! The local file server: `file_roots` and `pillar_roots` as folders on this machine.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use machine::fs;
use machine::fs::no_links::open_real;
use python::path;
use state::exec::Exec;
use state::host::Tree;
use state::module::Error;
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use value::glob::fnmatch;
use value::pyre::{Flags, Regex};
use value::{Map, log};

/// The maximum number of files of a tree. If a root is `/` by mistake, the walk ends with an error
/// instead of running for hours.
const FILES_MAX: usize = 1_000_000;

/// The maximum depth of a tree's folders. It stops a walk through a link to a parent folder.
const DEPTH_MAX: usize = 64;

/// The maximum number of refused links that the log names.
const LOGGED_MAX: usize = 1000;

/// The permitted targets of a tree's symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    /// Any target.
    Anywhere,
    /// Targets in any root of the option, in any environment. This is the default of a master.
    IntoRoots,
    /// Files of the same root: `fileserver_followsymlinks: False`, as in Salt.
    ToOwnFiles,
}

impl Links {
    /// Reads `fileserver_followsymlinks`. A master serves minions, so links may leave its roots
    /// only if the administrator sets the option explicitly.
    fn from_opts(opts: &Opts, option: &str) -> Self {
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
    /// `file_ignore_regex`, without invalid patterns.
    ignore_regexes: Vec<Regex>,
    links: Links,
    /// The links that the log has named.
    logged: Mutex<HashSet<PathBuf>>,
}

impl Roots {
    /// Creates the tree of states.
    #[must_use]
    pub fn states(opts: &Opts) -> Self {
        Self::new(opts, "file_roots")
    }

    /// Creates the tree of pillar.
    #[must_use]
    pub fn pillar(opts: &Opts) -> Self {
        Self::new(opts, "pillar_roots")
    }

    /// Creates the tree of `file_roots` or `pillar_roots` that a master sends to others. Links in
    /// both lead out of the roots only if `fileserver_followsymlinks` is set.
    #[must_use]
    pub fn for_masters(opts: &Opts, option: &'static str) -> Self {
        let mut roots = Self::new(opts, option);
        if opts.get("fileserver_followsymlinks").is_none() {
            roots.links = Links::IntoRoots;
        }
        roots
    }

    fn new(opts: &Opts, option: &'static str) -> Self {
        let regexes = opts.texts("file_ignore_regex").into_iter();
        Self {
            opts: opts.clone(),
            option,
            ignore_globs: opts.texts("file_ignore_glob"),
            ignore_regexes: regexes
                .filter_map(|regex| Regex::new(&regex, Flags::NONE).ok())
                .collect(),
            links: Links::from_opts(opts, option),
            logged: Mutex::default(),
        }
    }

    /// Returns the real path, without links, of a path below a root. Returns `None` when a link
    /// leads to a target that is not permitted.
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

    /// Returns true if links of this root may lead to the given real path.
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

    /// Logs a warning about a link that leaves the roots, once for each link.
    fn tell(&self, root: &Path, path: &Path) {
        let Some((link, target)) = self.outward(root, path) else {
            return;
        };
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if self.links == Links::IntoRoots
            && logged.len() < LOGGED_MAX
            && logged.insert(link.clone())
        {
            log::warning(format_args!(
                "not serving {}: it links to {}, which is outside of {}. Set `fileserver_followsymlinks: True` to serve the targets of such links",
                link.display(),
                target.display(),
                self.option
            ));
        }
    }

    /// Returns the first link between a root and a path that leaves the roots, and its target.
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

    /// Finds a file. Returns its path below the root, and the path to read it from.
    fn find(&self, path: &str, saltenv: &str) -> Option<(PathBuf, PathBuf)> {
        let inside = inside(path).filter(|inside| !self.ignored(inside))?;
        self.folders(saltenv).into_iter().find_map(|root| {
            let path = root.join(&inside);
            let place = path.is_file().then(|| self.place(&root, &path))??;
            Some((path, place))
        })
    }

    /// Opens a file of the tree for a peer, and also returns the path that was opened. The file
    /// that was checked is the one that is read, even if another process changes a folder or a link
    /// meanwhile.
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

    /// Returns true if a symbolic link may be listed. A dangling link is judged by the path that it
    /// names. Salt lists all links when it follows none.
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

    /// Returns true if a walk of the root reaches a folder below it. A walk that does not follow
    /// links enters none.
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

    /// Returns the links that lead out of the roots and were refused until now, at most
    /// [`LOGGED_MAX`] of them.
    #[must_use]
    pub fn refused_links(&self) -> Vec<PathBuf> {
        let logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let mut links: Vec<PathBuf> = logged.iter().cloned().collect();
        links.sort();
        links
    }

    /// Returns true if `file_ignore_glob` or `file_ignore_regex` matches the path below the root.
    #[must_use]
    pub fn ignored(&self, path: &str) -> bool {
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
                        "{} contains more than {FILES_MAX} files: is it the right root?",
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
        match &found {
            Some((file, _)) => log::debug(format_args!(
                "{} {saltenv}: {path} is {}",
                self.option,
                file.display()
            )),
            None => log::trace(format_args!(
                "{} {saltenv}: there is no {path}",
                self.option
            )),
        }
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
        // A path outside the roots has no entries.
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

/// Returns a path below a root without `.` and `..`; `None` when it leaves the root.
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

    /// A10, L2: the limits that `fileserver_followsymlinks` sets.
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
        assert_eq!(
            default.refused_links(),
            [root.join("file"), root.join("folder")]
        );
        // If the other root belongs to the tree too, a link into it is served.
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
