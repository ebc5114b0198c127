//! The roster `dir`: a folder with one file for each host, whose name is the id.

use std::path::{Path, PathBuf};

use machine::fs;
use state::exec::Exec;
use value::{Map, Value, trust};

use super::{HOSTS_MAX, flat};

/// Salt's folder, if `roster_dir` is not set.
const FOLDER: &str = "/etc/salt/roster.d";

/// Returns the folder: the option `roster_dir`.
pub(super) fn folder(cx: &Exec) -> PathBuf {
    let given = cx.opts().text("roster_dir").filter(|path| !path.is_empty());
    given.unwrap_or(FOLDER).into()
}

/// Returns the entries of a folder, by id. Hidden files are skipped. An entry without a host gets its
/// id and `roster_domain`.
///
/// # Errors
/// When a file cannot be read, another user can change it, or it is no dictionary.
pub(super) fn entries(cx: &Exec, folder: &Path) -> Result<Map, String> {
    trust::path(folder, trust::user()).map_err(|error| error.sentence())?;
    let names = fs::names(folder).map_err(|error| error.to_string())?;
    let names: Vec<String> = names
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    if names.len() > HOSTS_MAX {
        return Err(format!("the folder has more than {HOSTS_MAX} files"));
    }
    let domain = cx.opts().text("roster_domain");
    let domain = domain.filter(|domain| !domain.is_empty());
    let mut entries = Map::new();
    for name in names {
        let mut entry = flat::dictionary(cx, &folder.join(&name))
            .map_err(|error| format!("the file {name:?}: {error}"))?;
        if let Some(domain) = domain {
            entry.entry("host", || format!("{name}.{domain}").into());
        }
        entries.insert(name, Value::Map(entry));
    }
    Ok(entries)
}
