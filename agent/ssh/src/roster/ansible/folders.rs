//! The folders `group_vars` and `host_vars` next to an inventory: more variables of groups and hosts.

use std::path::{Path, PathBuf};

use machine::fs;
use value::{Map, Value, trust};

use super::Inventory;

/// The maximum number of files in both folders.
const FILES_MAX: usize = 20_000;
/// The extensions of the files; a file may also have none.
const EXTENSIONS: [&str; 3] = ["yml", "yaml", "json"];

/// Adds the variables of the folders next to an inventory.
///
/// # Errors
/// When a file cannot be read, another user can change it, or it is no dictionary.
pub(super) fn add(inventory: &mut Inventory, file: &Path) -> Result<(), String> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    for (path, name) in files(&folder.join("group_vars"))? {
        let variables = read(&path)?;
        inventory.group(&name)?.of_folder.update(variables);
    }
    for (path, name) in files(&folder.join("host_vars"))? {
        // Variables of a host that the inventory lacks do not make it a host.
        if let Some(own) = inventory.hosts.get_mut(&name) {
            own.update(read(&path)?);
        }
    }
    Ok(())
}

/// Returns the files of a folder with the names of their groups or hosts, in order. The name is that
/// of the file, or of the folder that contains it.
fn files(folder: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let mut found = Vec::new();
    for name in names(folder)? {
        let path = folder.join(&name);
        if path.is_dir() {
            for inner in names(&path)? {
                let inner = path.join(inner);
                if inner.is_file() && stem(&inner).is_some() {
                    found.push((inner, name.clone()));
                }
            }
        } else if let Some(stem) = stem(&path) {
            found.push((path, stem));
        }
        if found.len() > FILES_MAX {
            return Err(format!(
                "{} has more than {FILES_MAX} files",
                folder.display()
            ));
        }
    }
    Ok(found)
}

/// Returns the names in a folder, sorted, without hidden ones; none if there is no folder.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let names = fs::names(folder).map_err(|error| error.to_string())?;
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    Ok(names.filter(|name| !name.starts_with('.')).collect())
}

/// Returns the name of a file without its extension; `None` if it has one of other files.
fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    if name.ends_with('~') {
        return None;
    }
    match name.rsplit_once('.') {
        Some((stem, extension)) if EXTENSIONS.contains(&extension) => Some(stem.to_owned()),
        // The name of a host may have dots.
        _ => Some(name.to_owned()),
    }
}

fn read(path: &Path) -> Result<Map, String> {
    trust::path(path, trust::user()).map_err(|error| error.sentence())?;
    let text = fs::text(path).map_err(|error| error.to_string())?;
    let failed = |problem: &str| format!("{}: {problem}", path.display());
    if text.starts_with("$ANSIBLE_VAULT") {
        return Err(failed(
            "files that are encrypted with ansible-vault are not supported",
        ));
    }
    match render::yaml::load(&text).map_err(|error| failed(&error.to_string()))? {
        Value::Map(variables) => Ok(variables),
        Value::Null => Ok(Map::new()),
        other => Err(failed(&format!(
            "it must be a dictionary, but is a {}",
            other.type_name()
        ))),
    }
}
