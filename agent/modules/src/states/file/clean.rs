//! The paths that `clean: True` keeps and removes.

use std::collections::BTreeSet;
use std::path::Path;

use machine::fs;
use machine::fs::Walked;
use machine::fs::handle::{Folder, Links};
use python::path;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::tree;
use crate::fileserver::patterns::excluded;

/// Returns the paths below a folder that required states manage, and that must be kept.
///
/// # Errors
/// When a folder cannot be read.
pub(crate) fn kept_in(
    cx: &Exec,
    name: &str,
    require: &Value,
    walked: &[Walked],
) -> Result<Vec<String>, Error> {
    let lowstate = cx.run.as_ref().map(|run| run.lowstate.as_slice());
    let mut keep = BTreeSet::new();
    for requisite in require.as_list().unwrap_or_default() {
        let Some(required) = requisite.get("file") else {
            continue;
        };
        let named = |low: &&Map| {
            ["name", "__id__"]
                .iter()
                .any(|key| low.get(key) == Some(required))
        };
        for low in lowstate.unwrap_or_default().iter().filter(named) {
            keep_of(cx, name, low, walked, &mut keep)?;
        }
    }
    Ok(keep.into_iter().collect())
}

fn keep_of(
    cx: &Exec,
    name: &str,
    low: &Map,
    walked: &[Walked],
    keep: &mut BTreeSet<String>,
) -> Result<(), Error> {
    let text = |key: &str| low.get(key).map(Value::to_text).unwrap_or_default();
    let path = text("name");
    if !path::isdir(&path) {
        keep.insert(path);
        return Ok(());
    }
    if path::relpath(&path, name).starts_with("..") {
        return Ok(());
    }
    if text("fun") == "recurse" {
        keep.extend(tree::kept(cx, &path, low));
        return Ok(());
    }
    let below = |folder: &&Walked| !path::relpath(&folder.root, &path).starts_with("..");
    let found: Vec<Walked> = if walked.is_empty() {
        fs::walk(&path, None)?
    } else {
        walked.iter().filter(below).cloned().collect()
    };
    for folder in found {
        keep.extend(
            folder
                .files
                .iter()
                .map(|name| path::join(&folder.root, name)),
        );
        keep.extend(
            folder
                .dirs
                .iter()
                .map(|name| path::join(&folder.root, name)),
        );
        keep.insert(folder.root);
    }
    Ok(())
}

/// Removes every path below a folder that is neither in `keep` nor matches `exclude_pat`, and
/// returns their names. In test mode it removes nothing. As in Salt, the list includes paths that
/// could not be removed.
///
/// # Errors
/// When a folder cannot be read.
pub(crate) fn remove(
    cx: &Exec,
    root: &str,
    keep: &[String],
    exclude_pat: &Value,
) -> Result<Vec<String>, Error> {
    let mut real: BTreeSet<String> = BTreeSet::from([root.to_owned()]);
    for path in keep.iter().filter(|path| path::isabs(path)) {
        let path = path::abspath(path);
        let mut here = path.as_str();
        while real.insert(here.to_owned()) && here != "/" {
            here = path::dirname(here);
        }
    }
    let mut removed = Vec::new();
    // A folder that cannot be opened is listed nevertheless, so that its contents are named, as in
    // Salt.
    let top = Folder::open(Path::new(root), Links::from_config(cx));
    let sweep = Sweep {
        cx,
        top,
        root,
        keep: &real,
        exclude_pat,
    };
    sweep.folder(root, &mut removed)?;
    Ok(removed)
}

/// The folder to clean, and the paths to keep in it.
struct Sweep<'a> {
    cx: &'a Exec,
    top: std::io::Result<Folder>,
    root: &'a str,
    keep: &'a BTreeSet<String>,
    exclude_pat: &'a Value,
}

impl Sweep<'_> {
    fn folder(&self, folder: &str, removed: &mut Vec<String>) -> Result<(), Error> {
        let Some(here) = fs::here(folder)? else {
            return Ok(());
        };
        for name in here.dirs.iter().chain(&here.files) {
            let path = path::join(folder, name);
            let below = path::relpath(&path, self.root);
            if !self.keep.contains(&path) && !excluded(&below, self.exclude_pat) {
                removed.push(path.clone());
                if !self.cx.test {
                    self.remove(folder, name).map_err(Error::io(&path))?;
                }
            }
            if path::isdir(&path) && !path::islink(&path) {
                self.folder(&path, removed)?;
            }
        }
        Ok(())
    }

    /// Removes an entry through the handles of its parent folders, since other processes may have
    /// replaced these folders since they were examined.
    fn remove(&self, folder: &str, name: &str) -> std::io::Result<()> {
        let top = self.top.as_ref().map_err(|error| error.kind())?;
        let rest = Path::new(folder).strip_prefix(self.root);
        let folder = top.below(rest.map_err(std::io::Error::other)?)?;
        match fs::remove_at(self.cx, &folder, name.as_ref()) {
            Err(error) if fs::is_missing(&error) => Ok(()),
            removed => removed,
        }
    }
}
