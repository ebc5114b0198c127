//! The local file server: `file_roots` and `pillar_roots` as folders on this machine, the repositories
//! of `gitfs_remotes`, and the files of minions. The first backend of `fileserver_backend` that has a
//! file applies.

use std::collections::{BTreeMap, BTreeSet, HashSet};
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

use super::git_roots::GitRoots;
use super::minion_roots;
use crate::backend::Backend;
use crate::git::Checkout;

/// The maximum number of files of a tree. If a root is `/` by mistake, the walk ends with an error
/// instead of running for hours.
const FILES_MAX: usize = 1_000_000;

/// The maximum depth of a tree's folders. It stops a walk through a link to a parent folder.
const DEPTH_MAX: usize = 64;

/// The maximum number of refused links that the log names.
const LOGGED_MAX: usize = 1000;

/// The permitted targets of a tree's symbolic links.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Links {
    /// Any target.
    Anywhere,
    /// Targets in any root of the option, in any environment. This is the default of a master.
    IntoRoots,
    /// Files of the same root: `fileserver_followsymlinks: False`, as in Salt.
    ToOwnFiles,
    /// Files of the same commit. Its folder is given.
    InCommit(PathBuf),
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

/// A folder that is served.
#[derive(Clone, Debug)]
struct Root {
    folder: PathBuf,
    /// The path below which its files appear; may be empty.
    mountpoint: String,
    links: Links,
    /// True if its files are those of a minion.
    is_minions: bool,
}

impl Root {
    /// Creates a root that the administrator of this machine has chosen.
    fn trusted(folder: PathBuf, mountpoint: &str, links: Links) -> Self {
        Self {
            folder,
            mountpoint: mountpoint.to_owned(),
            links,
            is_minions: false,
        }
    }

    /// Returns the path in the folder of a path in the tree. `None` if it is not below the mount point,
    /// or is not served.
    fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        below(&self.mountpoint, path).filter(|path| self.serves(path))
    }

    /// Returns whether a file may be served.
    fn serves(&self, path: &str) -> bool {
        !self.is_minions || minion_roots::serves(path)
    }

    /// Returns the path in the tree of a path in the folder.
    fn path(&self, below: &str) -> String {
        match (self.mountpoint.as_str(), below) {
            ("", below) => below.to_owned(),
            (mountpoint, ".") => mountpoint.to_owned(),
            (mountpoint, below) => format!("{mountpoint}/{below}"),
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
    /// The backends in their order, or the error of their configuration.
    backends: Result<Vec<Backend>, String>,
    git: GitRoots,
    /// The roots of one environment that have no backend.
    checkouts: Option<(String, Vec<Root>)>,
    /// The links that the log has named.
    logged: Mutex<HashSet<PathBuf>>,
}

impl Roots {
    /// Creates the tree of states for a run. Repositories whose last update is too old are updated when
    /// it is read for the first time.
    #[must_use]
    pub fn states(opts: &Opts) -> Self {
        Self::new(opts, "file_roots")
    }

    /// Creates the tree of states for a daemon, which updates the repositories itself.
    #[must_use]
    pub fn served(opts: &Opts) -> Self {
        Self {
            git: GitRoots::new(opts, true),
            ..Self::new(opts, "file_roots")
        }
    }

    /// Creates the tree of states of some backends.
    pub(crate) fn of_backends(opts: &Opts, backends: Vec<Backend>) -> Self {
        Self {
            backends: Ok(backends),
            ..Self::states(opts)
        }
    }

    /// Creates the tree of a pillar of repositories, which has one environment.
    pub(crate) fn of_checkouts(opts: &Opts, env: &str, checkouts: &[&Checkout]) -> Self {
        let root = |checkout: &&Checkout| {
            let links = Links::InCommit(checkout.tree.clone());
            Root::trusted(checkout.folder.clone(), &checkout.mountpoint, links)
        };
        Self {
            backends: Ok(Vec::new()),
            checkouts: Some((env.to_owned(), checkouts.iter().map(root).collect())),
            ..Self::new(opts, "pillar_roots")
        }
    }

    /// Creates the tree of pillar.
    #[must_use]
    pub fn pillar(opts: &Opts) -> Self {
        Self::new(opts, "pillar_roots")
    }

    /// Creates the tree of the folders of `file_roots` or `pillar_roots` that a master sends to others.
    /// Links in both lead out of the roots only if `fileserver_followsymlinks` is set.
    #[must_use]
    pub fn for_masters(opts: &Opts, option: &'static str) -> Self {
        let mut roots = Self {
            backends: Ok(vec![Backend::Roots]),
            ..Self::new(opts, option)
        };
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
            backends: backends(opts, option),
            git: GitRoots::new(opts, false),
            checkouts: None,
            logged: Mutex::default(),
        }
    }

    /// Returns the real path, without links, of a path below a root. Returns `None` when a link
    /// leads to a target that is not permitted.
    fn place(&self, root: &Root, path: &Path) -> Option<PathBuf> {
        if root.links == Links::Anywhere {
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
    fn allows(&self, root: &Root, real: &Path) -> bool {
        let holds = |root: &Path| root.canonicalize().is_ok_and(|root| real.starts_with(root));
        match &root.links {
            Links::Anywhere => true,
            Links::ToOwnFiles => holds(&root.folder),
            Links::InCommit(tree) => holds(tree),
            Links::IntoRoots => {
                let environments = self.opts.environments(self.option);
                let mut roots = environments
                    .iter()
                    .flat_map(|name| self.opts.roots(self.option, name));
                holds(&root.folder) || roots.any(|root| holds(&root))
            }
        }
    }

    /// Logs a warning about a link that leaves the roots, once for each link.
    fn tell(&self, root: &Root, path: &Path) {
        let Some((link, target)) = self.outward(root, path) else {
            return;
        };
        let advice = match root.links {
            Links::IntoRoots => {
                ". Set `fileserver_followsymlinks: True` to serve the targets of such links"
            }
            Links::InCommit(_) => "",
            Links::Anywhere | Links::ToOwnFiles => return,
        };
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < LOGGED_MAX && logged.insert(link.clone()) {
            log::warning(format_args!(
                "not serving {}: it links to {}, which is outside of {}{advice}",
                link.display(),
                target.display(),
                self.option
            ));
        }
    }

    /// Returns the first link between a root and a path that leaves the roots, and its target.
    fn outward(&self, root: &Root, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let mut here = root.folder.clone();
        for part in path.strip_prefix(&root.folder).ok()? {
            here.push(part);
            let real = here.canonicalize().ok()?;
            if !self.allows(root, &real) {
                return Some((here, real));
            }
        }
        None
    }

    /// Finds a file. Returns its path below the root, the path to read it from, and the permitted
    /// targets of its links.
    fn find(&self, path: &str, saltenv: &str) -> Result<Option<(PathBuf, PathBuf, Links)>, Error> {
        let Some(inside) = inside(path).filter(|inside| !self.ignored(inside)) else {
            return Ok(None);
        };
        let mut found = None;
        self.each_root(saltenv, Some(&inside), |root| {
            found = root.below(&inside).and_then(|below| {
                let path = root.folder.join(below);
                let place = path.is_file().then(|| self.place(&root, &path))??;
                Some((path, place, root.links))
            });
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// Opens a file of the tree for a peer, and also returns the path that was opened. The file
    /// that was checked is the one that is read, even if another process changes a folder or a link
    /// meanwhile.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn opened(&self, path: &str, saltenv: &str) -> Result<Option<(PathBuf, File)>, Error> {
        let Some((_, place, links)) = self.find(path, saltenv)? else {
            return Ok(None);
        };
        let opened = match links {
            Links::Anywhere => fs::raw::open(&place),
            Links::IntoRoots | Links::ToOwnFiles | Links::InCommit(_) => open_real(&place),
        };
        let file = opened.map_err(Error::io(&place))?;
        Ok(Some((place, file)))
    }

    /// Returns true if a symbolic link may be listed. A dangling link is judged by the path that it
    /// names. Salt lists all links when it follows none.
    fn lists(&self, root: &Root, link: &Path, target: &Path) -> bool {
        if matches!(root.links, Links::Anywhere | Links::ToOwnFiles) {
            return true;
        }
        let folder = link.parent().unwrap_or(&root.folder);
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
    fn reaches(&self, root: &Root, below: &Path) -> bool {
        match root.links {
            Links::Anywhere => true,
            Links::IntoRoots | Links::InCommit(_) => self.place(root, below).is_some(),
            Links::ToOwnFiles => {
                let inside = below.strip_prefix(&root.folder).ok();
                let walked =
                    inside.and_then(|inside| Some(root.folder.canonicalize().ok()?.join(inside)));
                walked.is_some() && walked == below.canonicalize().ok()
            }
        }
    }

    /// Passes on the folders of an environment, in the order in which they are searched, until `look`
    /// needs no more. Commits that cannot have the file with this path are left out.
    fn each_root(
        &self,
        saltenv: &str,
        path: Option<&str>,
        mut look: impl FnMut(Root) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        for (_, roots) in self.checkouts.iter().filter(|(env, _)| env == saltenv) {
            for root in roots {
                if !look(root.clone())? {
                    return Ok(());
                }
            }
        }
        for backend in self.backends()? {
            let goes_on = match backend {
                Backend::Gitfs => self.each_commit(saltenv, path, &mut look)?,
                Backend::Minionfs => self.each_minion(saltenv, path, &mut look)?,
                Backend::Roots => self.each_folder(saltenv, &mut look)?,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn backends(&self) -> Result<&[Backend], Error> {
        let backends = self.backends.as_deref();
        backends.map_err(|error| Error::refused(error.clone()))
    }

    fn each_folder(
        &self,
        saltenv: &str,
        look: &mut impl FnMut(Root) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        for folder in self.opts.roots(self.option, saltenv) {
            if !look(Root::trusted(folder, "", self.links.clone()))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn each_minion(
        &self,
        saltenv: &str,
        path: Option<&str>,
        look: &mut impl FnMut(Root) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        if minion_roots::environment(&self.opts).as_deref() != Some(saltenv) {
            return Ok(true);
        }
        for minion in minion_roots::roots(&self.opts, path)? {
            let root = Root {
                folder: minion.folder,
                mountpoint: minion.mountpoint,
                links: Links::ToOwnFiles,
                is_minions: true,
            };
            if !look(root)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn each_commit(
        &self,
        saltenv: &str,
        path: Option<&str>,
        look: &mut impl FnMut(Root) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let snapshot = self.git.snapshot()?;
        for mount in snapshot.mounts(saltenv)? {
            if let Some(path) = path {
                match below(mount.mountpoint, path) {
                    Some(below) if mount.may_have(below)? => {}
                    _ => continue,
                }
            }
            let (folder, tree) = mount.folders()?;
            let root = Root::trusted(folder, mount.mountpoint, Links::InCommit(tree));
            if !look(root)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns all folders of an environment without files in them, sorted.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn folders(&self, saltenv: &str) -> Result<BTreeSet<String>, Error> {
        let mut found = BTreeSet::new();
        self.each_root(saltenv, None, |root| {
            let shown = root.folder.to_string_lossy().into_owned();
            for folder in fs::walk_links(&shown)? {
                found.insert(root.path(&path::relpath(&folder.root, &shown)));
            }
            Ok(true)
        })?;
        Ok(found)
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

    /// Adds the links of a root, with their targets.
    fn links_of(&self, root: &Root, found: &mut BTreeMap<String, String>) -> Result<(), Error> {
        let shown = root.folder.to_string_lossy().into_owned();
        for folder in fs::walk(&shown, None)? {
            for name in folder.files.iter().chain(&folder.dirs) {
                let path = path::join(&folder.root, name);
                let Some(target) = fs::link_target_or_none(&path)? else {
                    continue;
                };
                if self.lists(root, Path::new(&path), &target) {
                    let target = target.to_string_lossy().into_owned();
                    let below = root.path(&path::relpath(&path, &shown));
                    found.entry(below).or_insert(target);
                }
            }
        }
        Ok(())
    }

    fn walk(
        &self,
        root: &Root,
        folder: &Path,
        depth: usize,
        files: &mut Vec<String>,
    ) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Ok(());
        }
        for entry in fs::list(folder)? {
            let path = entry.path();
            let is_link = root.links != Links::Anywhere && path.is_symlink();
            let is_kept = root.links == Links::ToOwnFiles && path.is_dir();
            if is_link && (is_kept || self.place(root, &path).is_none()) {
                continue;
            }
            if path.is_dir() {
                self.walk(root, &path, depth + 1, files)?;
            } else if let Some(below) = path
                .strip_prefix(&root.folder)
                .ok()
                .and_then(Path::to_str)
                .filter(|below| root.serves(below))
            {
                files.push(root.path(below));
                if files.len() > FILES_MAX {
                    return Err(Error::refused(format!(
                        "{} contains more than {FILES_MAX} files: is it the right root?",
                        root.folder.display()
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Sources for Roots {
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error> {
        let found = self.find(path, saltenv)?;
        match &found {
            Some((file, ..)) => log::debug(format_args!(
                "{} {saltenv}: {path} is {}",
                self.option,
                file.display()
            )),
            None => log::trace(format_args!(
                "{} {saltenv}: there is no {path}",
                self.option
            )),
        }
        Ok(found.map(|(path, ..)| SourceFile {
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
        self.each_root(saltenv, None, |root| {
            // All of a folder that is mounted below the one that is listed.
            let is_above = below(&folder, &root.mountpoint).is_some() || root.mountpoint == folder;
            let Some(inside) = root.below(&folder).or_else(|| is_above.then_some("")) else {
                return Ok(true);
            };
            let below = root.folder.join(inside);
            if below.is_dir() && self.reaches(&root, &below) {
                self.walk(&root, &below, 0, &mut files)?;
            }
            Ok(true)
        })?;
        files.retain(|path| !self.ignored(path));
        files.sort();
        files.dedup();
        Ok(files)
    }

    fn links(&self, saltenv: &str) -> Result<BTreeMap<String, String>, Error> {
        let mut found = BTreeMap::new();
        self.each_root(saltenv, None, |root| {
            self.links_of(&root, &mut found)?;
            Ok(true)
        })?;
        Ok(found)
    }

    fn environments(&self) -> Result<Vec<String>, Error> {
        let checkouts = self.checkouts.iter();
        let mut all: Vec<String> = checkouts.map(|(env, _)| env.clone()).collect();
        for backend in self.backends()? {
            let names = match backend {
                Backend::Gitfs => self.git.snapshot()?.environments(),
                Backend::Minionfs => minion_roots::environment(&self.opts).into_iter().collect(),
                Backend::Roots => self.opts.environments(self.option),
            };
            all.extend(names);
        }
        let mut seen = HashSet::new();
        all.retain(|name| seen.insert(name.clone()));
        Ok(all)
    }

    fn pillar(&self, cx: &Exec) -> Result<Map, Error> {
        let tree = Tree::Other(Arc::new(Self::pillar(&self.opts)));
        Ok(state::pillar::compile(cx, &tree))
    }
}

/// Returns the rest of a path below a folder, whose name may be empty. `None` if it is not below it.
pub(super) fn below<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    match folder {
        "" => Some(path),
        folder => path.strip_prefix(folder)?.strip_prefix('/'),
    }
}

/// Returns the backends of an option. Pillar has only folders.
fn backends(opts: &Opts, option: &str) -> Result<Vec<Backend>, String> {
    match option {
        "file_roots" => Backend::of_opts(opts).map_err(|error| error.sentence()),
        _ => Ok(vec![Backend::Roots]),
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
