//! The folder of a job in the cache of Salt's returner `local_cache`.
//!
//! ```text
//! jobs/XX/REST/.load.p           what was published, `XX` and `REST` being a hash of the job's id
//!              .minions.p        the minions that are expected to return
//!              .minions.ID.p     those of a syndic
//!              jid               the job's id as text
//!              MINION/return.p   `return`, `retcode` and `success`; in old releases the bare value
//!              MINION/out.p      the outputter
//!              endtime, nocache  not read: the store knows neither
//! ```
//!
//! The files may come from another machine. They are opened below their folder, without following
//! links, and their sizes are limited.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use machine::fs::handle::Folder;
use rustix::fs::OFlags;
use value::{Map, Value, jid, log, secret};
use wire::{Id, payload};

/// The maximum number of names in one folder.
const NAMES_MAX: usize = 1 << 20;
/// The maximum number of minions of a job.
const MINIONS_MAX: usize = 100_000;
/// The maximum length of a job's id in bytes: twenty digits, `_` and the id of a process.
const JID_MAX: usize = 40;

/// Counts what cannot be used, and logs it.
#[derive(Debug, Default)]
pub(super) struct Skipped(pub(super) u64);

impl Skipped {
    pub(super) fn add(&mut self, path: &Path, why: impl std::fmt::Display) {
        self.0 += 1;
        log::warning(format_args!("ignoring {}: {why}", path.display()));
    }
}

/// A job.
pub(super) struct SavedJob {
    pub(super) jid: String,
    /// The fields that the store keeps of a job. Others of Salt can contain the user's credentials.
    pub(super) load: Map,
    pub(super) minions: Vec<Id>,
    /// The size of the load and of the minions in bytes.
    pub(super) bytes: usize,
    names: Vec<OsString>,
}

/// The return of a minion.
pub(super) struct SavedReturn {
    pub(super) id: Id,
    pub(super) data: Map,
    /// Its file, for errors.
    pub(super) path: PathBuf,
    /// The size of its files in bytes.
    pub(super) bytes: usize,
}

/// Returns the names in a folder, sorted.
pub(super) fn names(folder: &Folder) -> Result<Vec<OsString>, String> {
    let mut names = folder.names().map_err(|error| error.to_string())?;
    if names.len() > NAMES_MAX {
        return Err(format!("it has more than {NAMES_MAX} entries"));
    }
    value::sorted::sort(&mut names);
    Ok(names)
}

/// Opens a folder in another one; `None` if the name is that of a file. A symbolic link and a folder
/// that cannot be opened are skipped.
pub(super) fn enter(folder: &Folder, name: &OsStr, skipped: &mut Skipped) -> Option<Folder> {
    let entered = folder.entry(name).and_then(|entry| {
        let found = entry.found();
        if found.is_symlink() {
            return Err(std::io::Error::other("symbolic links are not followed"));
        }
        match found.is_dir() {
            true => folder.below(Path::new(name)).map(Some),
            false => Ok(None),
        }
    });
    entered.unwrap_or_else(|error| {
        skipped.add(&folder.path().join(name), error);
        None
    })
}

/// Reads a regular file; `None` if it does not exist.
fn read(folder: &Folder, name: &OsStr, most: usize) -> Result<Option<Vec<u8>>, String> {
    let opened = value::read::or_none(folder.file(name, OFlags::RDONLY, 0));
    let Some(file) = opened.map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match bytes.len() > most {
        true => Err(format!("it has more than {most} bytes, the maximum")),
        false => Ok(Some(bytes)),
    }
}

/// Reads a file that Salt's payload has written, with its size; `None` if it does not exist.
fn value(folder: &Folder, name: &OsStr) -> Result<Option<(Value, usize)>, String> {
    let Some(bytes) = read(folder, name, payload::LIMITS.bytes)? else {
        return Ok(None);
    };
    let value = payload::decode(&bytes).map_err(|error| error.to_string())?;
    Ok(Some((value, bytes.len())))
}

/// Returns whether a text is the id of a job, with a time that exists.
fn is_plausible(text: &str) -> bool {
    let (digits, rest) = text.split_at_checked(20).unwrap_or_default();
    let process = rest.strip_prefix('_').unwrap_or(rest);
    let micros = jid::to_micros(digits).map(jid::from_micros);
    jid::is_jid(text)
        && text.len() <= JID_MAX
        && process.bytes().all(|byte| byte.is_ascii_digit())
        && micros.as_deref() == Some(digits)
}

impl SavedJob {
    /// Reads a job without its returns. A job that cannot be read is skipped.
    pub(super) fn read(folder: &Folder, skipped: &mut Skipped) -> Option<Self> {
        let read = names(folder).and_then(|names| Ok((loaded(folder)?, names)));
        let ((jid, load, bytes), names) = match read {
            Ok(read) => read,
            Err(why) => {
                skipped.add(folder.path(), why);
                return None;
            }
        };
        let mut minions = BTreeSet::new();
        for name in &names {
            let is_list = name.to_str().is_some_and(|name| {
                name == ".minions.p" || name.starts_with(".minions.") && name.ends_with(".p")
            });
            if is_list && let Err(why) = add_minions(folder, name, &mut minions) {
                skipped.add(&folder.path().join(name), why);
            }
        }
        Some(Self {
            jid,
            load: secret::map(load),
            bytes: bytes
                + minions
                    .iter()
                    .map(|id: &Id| id.as_str().len())
                    .sum::<usize>(),
            minions: minions.into_iter().collect(),
            names,
        })
    }

    /// Returns the names in the job's folder, some of which are those of minions that have returned.
    pub(super) fn names(&self) -> &[OsString] {
        &self.names
    }

    /// Reads the return of a minion; `None` if the name is not that of a folder with a return. One that
    /// cannot be read is skipped.
    pub(super) fn returned(
        &self,
        folder: &Folder,
        name: &OsStr,
        skipped: &mut Skipped,
    ) -> Option<SavedReturn> {
        let folder = &enter(folder, name, skipped)?;
        let file = OsStr::new("return.p");
        let found = value(folder, file).and_then(|found| {
            let Some((value, bytes)) = found else {
                return Ok(None);
            };
            let id = name.to_string_lossy().parse::<Id>();
            let id = id.map_err(|error| error.to_string())?;
            Ok(Some((id, value, bytes)))
        });
        let (id, value, mut bytes) = match found {
            Ok(found) => found?,
            Err(why) => {
                skipped.add(&folder.path().join(file), why);
                return None;
            }
        };
        let mut data = match value {
            Value::Map(map) if map.contains("return") => map,
            value => Map::new().with("return", value),
        };
        match self::value(folder, OsStr::new("out.p")) {
            Ok(Some((out, of_out))) => {
                bytes += of_out;
                data.insert("out", out);
            }
            Ok(None) => {}
            Err(why) => skipped.add(&folder.path().join("out.p"), why),
        }
        let data = self.completed(data, &id);
        Some(SavedReturn {
            id,
            data,
            path: folder.path().join(file),
            bytes,
        })
    }

    /// Adds the fields of a return that are not in its file.
    fn completed(&self, data: Map, id: &Id) -> Map {
        let of_load = |name: &str| self.load.get(name).cloned().unwrap_or_default();
        let data = secret::map(data)
            .with("id", id.as_str())
            .with("jid", self.jid.as_str())
            .with("fun", of_load("fun"));
        data.with("fun_args", of_load("arg"))
    }
}

/// Reads the load of a job, with its id and the size of the file.
fn loaded(folder: &Folder) -> Result<(String, Map, usize), String> {
    let (load, bytes) = match value(folder, OsStr::new(".load.p")) {
        Ok(Some((Value::Map(load), bytes))) => (load, bytes),
        Ok(Some((other, _))) => {
            let kind = other.type_name();
            return Err(format!("its .load.p contains a {kind}, not a dictionary"));
        }
        Ok(None) => return Err("it has no .load.p".to_owned()),
        Err(why) => return Err(format!("cannot read its .load.p: {why}")),
    };
    let jid = match load.get("jid").and_then(Value::as_str) {
        Some(jid) if !jid.is_empty() => jid.to_owned(),
        _ => {
            let read = read(folder, OsStr::new("jid"), JID_MAX);
            let read = read.map_err(|why| format!("cannot read its file jid: {why}"))?;
            let read = read.ok_or("neither its .load.p nor a file jid has its job id")?;
            String::from_utf8_lossy(&read).trim().to_owned()
        }
    };
    if !is_plausible(&jid) {
        let shown: String = jid.chars().take(JID_MAX).collect();
        return Err(format!("{shown:?} is not a job id"));
    }
    let load = kept(&load, &jid);
    Ok((jid, load, bytes))
}

/// Returns the fields of a load that Pinch keeps of a job.
fn kept(load: &Map, jid: &str) -> Map {
    let mut kept = Map::new().with("jid", jid);
    for name in ["tgt_type", "tgt", "user", "fun", "arg"] {
        if let Some(value) = load.get(name) {
            kept.insert(name, value.clone());
        }
    }
    let of_kwargs = || load.get("kwargs")?.get("metadata");
    if let Some(metadata) = load.get("metadata").or_else(of_kwargs) {
        kept.insert("metadata", metadata.clone());
    }
    kept
}

/// Adds the minions of a list. An id that is not valid is an error, after the others were added.
fn add_minions(folder: &Folder, name: &OsStr, minions: &mut BTreeSet<Id>) -> Result<(), String> {
    let list = value(folder, name)?.ok_or("it has been removed")?.0;
    let list = list.as_list().ok_or("it does not contain a list")?;
    let mut wrong = None;
    if minions.len() + list.len() > MINIONS_MAX {
        return Err(format!("the job has more than {MINIONS_MAX} minions"));
    }
    for id in list {
        match id.as_text().parse::<Id>() {
            Ok(id) => {
                minions.insert(id);
            }
            Err(error) => wrong = Some(error.to_string()),
        }
    }
    wrong.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_job_is_a_time_that_exists() {
        for good in ["20261119100843468059", "20261119100843468059_4711"] {
            assert!(is_plausible(good), "{good}");
        }
        let bad = [
            "",
            "req",
            "2026111910084346805",
            "20261319100843468059",
            "20260230100843468059",
            "20261119250843468059",
            "00001119100843468059",
            "20261119100843468059_",
            "20261119100843468059_../x",
            "20261119100843468059_12345678901234567890",
            "20261119100843468059x",
        ];
        for bad in bad {
            assert!(!is_plausible(bad), "{bad}");
        }
    }
}
