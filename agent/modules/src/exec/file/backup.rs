//! Backups of replaced files, in the folder `cachedir/file_backup`.

use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use machine::fs;
use python::path;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

/// Returns the backup mode: the one of the state, else the option `backup_mode`.
pub(crate) fn mode(cx: &Exec, given: &str) -> String {
    if given.is_empty() {
        cx.opts().text("backup_mode").unwrap_or_default().to_owned()
    } else {
        given.to_owned()
    }
}

/// Returns the folder of the backups.
pub(crate) fn root(cx: &Exec) -> PathBuf {
    cx.opts().cachedir().join("file_backup")
}

/// Copies a file that is about to be replaced to the backups, if the mode requires a backup.
pub(crate) fn keep(cx: &Exec, path: &str, mode: &str) -> Result<(), Error> {
    if matches!(mode, "minion" | "both") && path::exists(path) {
        copy(cx, path)?;
    }
    Ok(())
}

/// Copies a file to the backups. The name of the copy ends with the time.
pub(crate) fn copy(cx: &Exec, path: &str) -> Result<(), Error> {
    let (folder, name) = path::split(path);
    let place = root(cx).join(folder.trim_start_matches('/'));
    fs::mkdirs_private(cx, &place).map_err(Error::io(&place))?;
    let place = place.join(format!("{name}_{}", stamp()));
    let io = || -> std::io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        let found = Path::new(path).metadata()?;
        fs::copy_file(cx, Path::new(path), &place)?;
        fs::chown(cx, &place, Some(found.uid()), Some(found.gid()), false)?;
        fs::chmod(cx, &place, found.mode() & 0o7777, false)
    };
    io().map_err(Error::io(path))
}

/// Returns the local time in the format of a backup's name: `Fri_Nov_20_12:00:00_123456_2026`.
fn stamp() -> String {
    jiff::Zoned::now()
        .strftime("%a_%b_%d_%H:%M:%S_%6f_%Y")
        .to_string()
}

state::exec_module! {
    /// List, restore and delete the backups of replaced files.
    mod file;

    /// Return the backups of a file, the latest first.
    ///
    ///     salt-call file.list_backups /etc/app.conf
    fn list_backups(ListBackups {
        /// The path of the file.
        path: String,
        /// The maximum number of backups to return. The default is all backups.
        limit: Option<i64> = None,
    });

    /// Return the backups of a file, the latest first.
    ///
    ///     salt-call file.list_backup /etc/app.conf
    fn list_backup(ListBackup {
        /// The path of the file.
        path: String,
        /// The maximum number of backups to return. The default is all backups.
        limit: Option<i64> = None,
    });

    /// Return the backups of all files in a folder.
    ///
    ///     salt-call file.list_backups_dir /etc/app
    fn list_backups_dir(ListBackupsDir {
        /// The path of the folder, with a slash at the end.
        path: String,
        /// The maximum number of backups to return for each file. The default is all backups.
        limit: Option<i64> = None,
    });

    /// Restore a backup. The current file is backed up first.
    ///
    ///     salt-call file.restore_backup /etc/app.conf 0
    fn restore_backup(RestoreBackup {
        /// The path of the file.
        path: String,
        /// The number of the backup in the list of `file.list_backups`.
        backup_id: Value,
    });

    /// Delete a backup.
    ///
    ///     salt-call file.delete_backup /etc/app.conf 0
    fn delete_backup(DeleteBackup {
        /// The path of the file.
        path: String,
        /// The number of the backup in the list of `file.list_backups`.
        backup_id: Value,
    });

    /// Delete a backup.
    ///
    ///     salt-call file.remove_backup /etc/app.conf 0
    fn remove_backup(RemoveBackup {
        /// The path of the file.
        path: String,
        /// The number of the backup in the list of `file.list_backups`.
        backup_id: Value,
    });
}

/// A backup.
struct StoredBackup {
    time: DateTime,
    size: u64,
    location: String,
}

impl StoredBackup {
    fn to_map(&self) -> Map {
        let time = self.time.strftime("%a %b %d %Y %H:%M:%S.%6f").to_string();
        Map::new()
            .with("StoredBackup Time", time)
            .with("Size", self.size)
            .with("Location", self.location.as_str())
    }
}

/// Splits the name of a backup into the name of its file and the time.
fn parted(name: &str) -> Option<(&str, DateTime)> {
    // For example `name_Fri_Nov_20_12:00:00_123456_2026`.
    let mut at = name.len();
    for _ in 0..6 {
        at = name.get(..at)?.rfind('_')?;
    }
    let (base, stamp) = (name.get(..at)?, name.get(at + 1..)?);
    let parsed = jiff::fmt::strtime::parse("%a_%b_%d_%H:%M:%S_%6f_%Y", stamp).ok()?;
    Some((base, parsed.to_datetime().ok()?))
}

/// Returns the backups in the folder of a path, the latest first, for those file names that
/// `wanted` accepts.
fn kept(
    cx: &Exec,
    path: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, StoredBackup)>, Error> {
    let folder = path::dirname(path).trim_start_matches('/');
    let folder = root(cx).join(folder).to_string_lossy().into_owned();
    let here = fs::here(&folder)?.unwrap_or_default();
    let mut found = Vec::new();
    for name in &here.files {
        let Some((base, time)) = parted(name).filter(|(base, _)| wanted(base)) else {
            continue;
        };
        let location = path::join(&folder, name);
        let size = Path::new(&location)
            .metadata()
            .map_or(0, |found| found.len());
        let kept = StoredBackup {
            time,
            size,
            location,
        };
        found.push((base.to_owned(), kept));
    }
    value::sorted::sort_by_key(&mut found, |(_, kept)| std::cmp::Reverse(kept.time));
    Ok(found)
}

fn most(limit: Option<i64>) -> usize {
    limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX)
}

fn numbered<'a>(kept: impl Iterator<Item = &'a StoredBackup>, limit: Option<i64>) -> Map {
    let shown = kept.take(most(limit)).map(StoredBackup::to_map);
    (0_i64..).zip(shown).collect()
}

fn list_backups(cx: &Exec, args: ListBackups) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    let found = kept(cx, &path, |base| base == path::basename(&path))?;
    Ok(numbered(found.iter().map(|(_, kept)| kept), args.limit).into())
}

fn list_backup(cx: &Exec, args: ListBackup) -> Result<Value, Error> {
    let ListBackup { path, limit } = args;
    list_backups(cx, ListBackups { path, limit })
}

fn list_backups_dir(cx: &Exec, args: ListBackupsDir) -> Result<Value, Error> {
    let found = kept(cx, &path::expanduser(&args.path), |_| true)?;
    let bases: std::collections::BTreeSet<&String> = found.iter().map(|(base, _)| base).collect();
    let of = |base: &String| {
        let own = found.iter().filter(|(name, _)| name == base);
        numbered(own.map(|(_, kept)| kept), args.limit)
    };
    Ok(bases
        .into_iter()
        .map(|base| (base.as_str(), of(base)))
        .collect())
}

/// Returns the path of a backup, or the reason why there is none.
fn located(cx: &Exec, path: &str, id: &Value) -> Result<String, String> {
    let text = id.to_text();
    let number = text.parse::<usize>().ok().filter(|n| n.to_string() == text);
    let number = number.ok_or_else(|| format!("Invalid backup_id '{text}'"))?;
    let found =
        kept(cx, path, |base| base == path::basename(path)).map_err(|error| error.to_string())?;
    let one = found.into_iter().nth(number);
    one.map(|(_, kept)| kept.location)
        .ok_or_else(|| format!("backup_id '{text}' does not exist for {path}"))
}

fn answer(result: bool, comment: String) -> Value {
    Map::new()
        .with("result", result)
        .with("comment", comment)
        .into()
}

fn restore_backup(cx: &Exec, args: RestoreBackup) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    let location = match located(cx, &path, &args.backup_id) {
        Ok(location) => location,
        Err(problem) => return Ok(answer(false, problem)),
    };
    copy(cx, &path)?;
    let data = fs::read(&location)?;
    Ok(
        match fs::write(cx, Path::new(&path), &data, fs::Owner::default()) {
            Ok(()) => answer(true, format!("Successfully restored {location} to {path}")),
            Err(error) => answer(
                false,
                format!("Unable to restore {location} to {path}: {error}"),
            ),
        },
    )
}

fn remove_backup(cx: &Exec, args: RemoveBackup) -> Result<Value, Error> {
    let RemoveBackup { path, backup_id } = args;
    delete_backup(cx, DeleteBackup { path, backup_id })
}

fn delete_backup(cx: &Exec, args: DeleteBackup) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    let location = match located(cx, &path, &args.backup_id) {
        Ok(location) => location,
        Err(problem) => return Ok(answer(false, problem)),
    };
    Ok(match fs::remove(cx, Path::new(&location)) {
        Ok(()) => answer(true, format!("Successfully removed {location}")),
        Err(error) => answer(false, format!("Unable to remove {location}: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_known_by_its_name() {
        let name = format!("my_file_{}", stamp());
        assert_eq!(parted(&name).map(|(base, _)| base), Some("my_file"));
        assert!(parted("my_file").is_none());
    }
}
