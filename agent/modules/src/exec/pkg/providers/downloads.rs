//! Package files in the package manager's download folder.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::Provider;

/// The maximum depth of folders below the download folder.
const DEPTH: usize = 8;

/// Returns the downloaded packages: by name and version the path, size and creation time of the
/// file.
///
/// # Errors
/// When the package manager keeps no files, or one cannot be read.
pub(crate) fn listed(cx: &Exec, provider: &dyn Provider, root: &str) -> Result<Map, Error> {
    let downloads = provider.require(provider.downloads(), "list_downloaded")?;
    let folder = Path::new(root).join(downloads.folder.trim_start_matches('/'));
    let mut paths = Vec::new();
    collect(&folder, downloads.ending, DEPTH, &mut paths)?;
    value::sorted::sort(&mut paths);
    let mut all = Map::new();
    for path in paths {
        let shown = path.display().to_string();
        let Ok(meta) = std::fs::metadata(&path) else {
            continue;
        };
        let package = provider.files().file_info(cx, &shown)?;
        let since = jiff::Timestamp::from_second(meta.ctime()).unwrap_or_default();
        let entry = Map::new()
            .with("path", shown)
            .with("size", i64::try_from(meta.size()).unwrap_or(i64::MAX))
            .with("creation_date_time_t", meta.ctime())
            .with(
                "creation_date_time",
                since.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
            );
        let versions = all.entry(package.name, || Map::new().into());
        if let Some(versions) = versions.as_map_mut() {
            versions.insert(package.version.unwrap_or_default(), entry);
        }
    }
    Ok(all)
}

fn collect(
    folder: &Path,
    ending: &str,
    depth: usize,
    paths: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    for entry in machine::fs::list_or_none(folder)?.unwrap_or_default() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && depth > 0 {
            collect(&path, ending, depth - 1, paths)?;
        } else if !is_folder && path.to_string_lossy().ends_with(ending) {
            paths.push(path);
        }
    }
    Ok(())
}

/// Returns the versions of each downloaded package, as lists.
pub(crate) fn versions(downloaded: &Map) -> super::Packages {
    let versions = |entry: &Value| {
        let keys = entry.as_map().into_iter().flat_map(Map::keys);
        Value::list(keys.cloned())
    };
    downloaded
        .iter()
        .map(|(name, entry)| (name.clone(), versions(entry)))
        .collect()
}
