//! The files, folders and links that `file.recurse` creates from a folder of the file roots.

use std::collections::{BTreeMap, BTreeSet};

use python::path;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::cp;
use crate::fileserver::fetch::salt_path;
use crate::fileserver::patterns::included;

/// The options for reading a tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) keep_symlinks: bool,
    pub(crate) include_pat: Value,
    pub(crate) exclude_pat: Value,
    pub(crate) maxdepth: Option<i64>,
    pub(crate) include_empty: bool,
    pub(crate) merge: bool,
}

/// The paths to create.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// The files, with the URL of each.
    pub(crate) files: BTreeMap<String, String>,
    /// The folders.
    pub(crate) dirs: BTreeSet<String>,
    /// The links, with the target of each.
    pub(crate) links: BTreeMap<String, String>,
    /// All of these paths, which a clean run keeps.
    pub(crate) keep: BTreeSet<String>,
    /// All parent folders of the files.
    above: BTreeSet<String>,
    /// Folders that are represented by a link of another source.
    ignored: BTreeSet<String>,
}

/// Returns the sources that exist as folders of the file roots.
pub(crate) fn sources(cx: &Exec, source: &Value) -> Result<Vec<String>, Error> {
    let all: Vec<String> = match source.as_list() {
        Some(list) => list.iter().map(Value::to_text).collect(),
        None => vec![source.to_text()],
    };
    let all: Vec<String> = all
        .iter()
        .map(|url| url.trim_end_matches('/').to_owned())
        .collect();
    let mut found = Vec::new();
    for url in all {
        if !url.starts_with("salt://") {
            return Err(format!("Invalid source '{url}' (must be a salt:// URI)").into());
        }
        if cp::is_dir(cx, &url, &cx.saltenv)? {
            found.push(url);
        }
    }
    if found.is_empty() {
        return Err("none of the specified sources were found".into());
    }
    Ok(found)
}

/// Returns the paths that a `file.recurse` chunk keeps in a folder that another state cleans.
pub(crate) fn kept(cx: &Exec, name: &str, low: &Map) -> BTreeSet<String> {
    let get = |key: &str| low.get(key).cloned().unwrap_or_default();
    let options = Options {
        keep_symlinks: get("keep_symlinks").is_true(),
        include_pat: get("include_pat"),
        exclude_pat: get("exclude_pat"),
        maxdepth: get("maxdepth").as_int(),
        include_empty: get("include_empty").is_true(),
        merge: get("merge").is_true(),
    };
    let tree = sources(cx, &get("source")).and_then(|found| read(cx, name, &found, &options));
    tree.map(|tree| tree.keep).unwrap_or_default()
}

/// Reads the sources. Without `merge` only the first one is read.
pub(crate) fn read(
    cx: &Exec,
    name: &str,
    sources: &[String],
    options: &Options,
) -> Result<Tree, Error> {
    let mut tree = Tree::default();
    let count = if options.merge { sources.len() } else { 1 };
    for source in sources.iter().take(count) {
        Reader { name, options }.add(cx, source, &mut tree)?;
    }
    Ok(tree)
}

struct Reader<'a> {
    name: &'a str,
    options: &'a Options,
}

impl Reader<'_> {
    fn add(&self, cx: &Exec, source: &str, tree: &mut Tree) -> Result<(), Error> {
        let (path, named) = salt_path(source);
        let saltenv = named.unwrap_or_else(|| cx.saltenv.clone());
        let root = format!("{}/", path.trim_end_matches('/'));
        let root = if root == "/" { String::new() } else { root };
        let mut files = cx.shared.sources.list_below(&path, &saltenv)?;
        files.retain(|file| file.starts_with(&root));
        if self.options.keep_symlinks {
            self.add_links(cx, &saltenv, &root, &mut files, tree)?;
        }
        for file in &files {
            let Some(dest) = self.dest(file, &root) else {
                continue;
            };
            if tree.is_occupied(&dest) {
                continue;
            }
            tree.keep.insert(dest.clone());
            tree.dirs.insert(path::dirname(&dest).to_owned());
            for above in parents(&dest) {
                tree.above.insert(above);
            }
            tree.files
                .insert(dest, format!("salt://{file}?saltenv={saltenv}"));
        }
        if self.options.include_empty {
            for dir in cp::dirs(cx, &saltenv)?
                .iter()
                .filter(|dir| dir.starts_with(&root))
            {
                self.add_empty(dir, &root, tree);
            }
        } else if self.options.keep_symlinks {
            let dirs = cp::dirs(cx, &saltenv)?;
            while self.drop_links_to_nothing(&dirs, &root, tree) {}
        }
        Ok(())
    }

    /// Removes links to folders that are not created because they are empty. Returns true if there
    /// was one. A target is resolved from the folder of its link.
    fn drop_links_to_nothing(&self, dirs: &BTreeSet<String>, root: &str, tree: &mut Tree) -> bool {
        let source_dirs: BTreeSet<String> = dirs
            .iter()
            .filter_map(|dir| dir.strip_prefix(root))
            .map(|dir| path::join(self.name, dir))
            .collect();
        let before = tree.links.len();
        let links = std::mem::take(&mut tree.links);
        let leads =
            |link: &str, target: &str| path::normpath(&path::join(path::dirname(link), target));
        let kept = links.iter().filter(|(link, target)| {
            let leads = leads(link, target);
            !source_dirs.contains(&leads)
                || tree.files.contains_key(&leads)
                || tree.above.contains(&leads)
                || links.contains_key(&leads)
        });
        tree.links = kept
            .map(|(link, target)| (link.clone(), target.clone()))
            .collect();
        tree.links.len() < before
    }

    fn add_empty(&self, dir: &str, root: &str, tree: &mut Tree) {
        let Some(dest) = self.dest(dir, root) else {
            return;
        };
        if !tree.ignored.contains(&dest) && !tree.is_occupied(&dest) {
            tree.dirs.insert(dest.clone());
            tree.above.insert(dest.clone());
            tree.keep.insert(dest);
        }
    }

    fn add_links(
        &self,
        cx: &Exec,
        saltenv: &str,
        root: &str,
        files: &mut Vec<String>,
        tree: &mut Tree,
    ) -> Result<(), Error> {
        for (link, target) in cp::symlinks(cx, saltenv, root)? {
            let below = format!("{link}/");
            let before = files.len();
            files.retain(|file| *file != link && !file.starts_with(&below));
            let was_dir = files.len() + 1 < before || cp::dirs(cx, saltenv)?.contains(&link);
            let Some(dest) = self.dest(&link, root) else {
                continue;
            };
            if tree.is_occupied(&dest) {
                continue;
            }
            let leads = path::normpath(&path::join(path::dirname(&dest), &target));
            if was_dir && tree.files.contains_key(&leads) {
                tree.ignored.insert(dest);
            } else if was_dir || !tree.dirs.contains(&leads) {
                tree.keep.insert(dest.clone());
                tree.links.insert(dest, target);
            }
        }
        Ok(())
    }

    /// Returns the destination of a path in the file roots, or `None` if the path is excluded.
    fn dest(&self, path: &str, root: &str) -> Option<String> {
        let relative = path.strip_prefix(root)?;
        if relative.is_empty() || relative.split('/').any(|part| part == "..") {
            return None;
        }
        let depth = i64::try_from(relative.matches('/').count()).unwrap_or(i64::MAX);
        if self.options.maxdepth.is_some_and(|most| depth > most) {
            return None;
        }
        included(
            relative,
            &self.options.include_pat,
            &self.options.exclude_pat,
        )
        .then(|| path::join(self.name, relative))
    }
}

fn parents(path: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut here = path::dirname(path);
    while !here.is_empty() {
        all.push(here.to_owned());
        let above = path::dirname(here);
        if above == here {
            break;
        }
        here = above;
    }
    all
}

impl Tree {
    /// Returns true if a path or one of its parents is already used by a file or link.
    fn is_occupied(&self, dest: &str) -> bool {
        let taken = |path: &str| self.files.contains_key(path) || self.links.contains_key(path);
        self.above.contains(dest) || taken(dest) || parents(dest).iter().any(|path| taken(path))
    }
}
