//! [`OfMaster`]: the sources of a run with a master. Files are stored in `cachedir/files`, either
//! complete and with the right hash or not at all. A transfer that was interrupted resumes where it
//! stopped.
#![expect(
    clippy::disallowed_methods,
    reason = "a cache that is fetched again needs no barrier"
)]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use machine::hashes;
use state::exec::Exec;
use state::module::Error;
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use value::{Map, Value, remove, secret};
use wire::{List, Pillar, Stat};

use crate::local_socket::{self, Uplink};

/// The file trees and pillar of the master that the daemon is connected to.
#[derive(Debug)]
pub struct OfMaster {
    uplink: Uplink,
    cache: PathBuf,
    /// The lists of files that were already requested, by environment.
    lists: Mutex<Map>,
}

/// The master's information about a file.
struct FileInfo {
    hash: String,
    /// The file's permissions on the master: `mode: keep` needs them, and programs need their
    /// execute bit.
    mode: Option<u32>,
}

fn refused(error: &local_socket::Error) -> Error {
    match error {
        local_socket::Error::Failed { reason, .. } if reason == "unreachable" => {
            Error::refused(format!(
                "cannot reach the master ({error}); to work without one, use --local or file_client: local"
            ))
        }
        error => Error::refused(error.to_string()),
    }
}

impl OfMaster {
    /// Returns the sources of this daemon's master.
    #[must_use]
    pub fn new(uplink: Uplink, opts: &Opts) -> Self {
        Self {
            uplink,
            cache: opts.cachedir().join("files"),
            lists: Mutex::default(),
        }
    }

    /// Requests a list, and returns the entries of all its parts.
    fn entries(&self, what: &str, saltenv: &str, prefix: &str) -> Result<Vec<String>, Error> {
        let list = List {
            what: what.to_owned(),
            saltenv: saltenv.to_owned(),
            prefix: prefix.to_owned(),
        };
        let mut entries = Vec::new();
        let mut take = |part: Value| {
            entries.extend(part.texts());
            Ok(())
        };
        let listed = self.uplink.parts(list, &mut take);
        let (_, taken) = listed.map_err(|error| refused(&error))?;
        taken.map_err(Error::io("the master's list"))?;
        Ok(entries)
    }

    fn stat(&self, path: &str, saltenv: &str) -> Result<Option<FileInfo>, Error> {
        let stat = Stat {
            path: path.to_owned(),
            saltenv: saltenv.to_owned(),
        };
        let answer = self.uplink.call(stat);
        let said = match answer {
            Ok(said) => said,
            Err(local_socket::Error::Failed { reason, .. }) if reason == "missing" => {
                return Ok(None);
            }
            Err(error) => return Err(refused(&error)),
        };
        let hash = said.get("hash").map(Value::to_text);
        match hash.filter(|hash| !hash.is_empty()) {
            Some(hash) => Ok(Some(FileInfo {
                hash,
                mode: said
                    .get("mode")
                    .and_then(Value::as_int)
                    .and_then(|mode| u32::try_from(mode & 0o777).ok()),
            })),
            None => Err(Error::refused(format!(
                "salt://{path}: the master sent no hash"
            ))),
        }
    }

    /// Fetches a file to a temporary name next to its place, and appends to what an earlier attempt
    /// has left there. Renames the file into place when its hash is right. Of several processes,
    /// only one fetches a file at a time.
    fn fetch(&self, path: &str, saltenv: &str, said: &FileInfo, place: &Path) -> Result<(), Error> {
        let short: String = said.hash.chars().take(16).collect();
        let part = place.with_file_name(format!(
            ".{}.{short}",
            place.file_name().unwrap_or_default().to_string_lossy()
        ));
        let mut options = OpenOptions::new();
        let opened = options.create(true).append(true).mode(0o600).open(&part);
        let mut file = opened.map_err(Error::io(&part))?;
        // No deadline: the process that has the lock has one for each part of the file.
        file.lock().map_err(Error::io(&part))?;
        if has_hash(place, &said.hash) {
            remove::or_log(&part, fs::remove_file(&part));
            return Ok(());
        }
        let offset = file.metadata().map_err(Error::io(&part))?.len();
        let asked = wire::File {
            path: path.to_owned(),
            saltenv: saltenv.to_owned(),
            offset,
            hash: Some(said.hash.clone()),
        };
        let mut take = |part: Value| match part {
            Value::Bytes(bytes) => file.write_all(&bytes),
            _ => Ok(()),
        };
        let received = self.uplink.parts(asked, &mut take);
        let (_, taken) = received.map_err(|error| refused(&error))?;
        taken.map_err(Error::io(&part))?;
        if !has_hash(&part, &said.hash) {
            remove::or_log(&part, fs::remove_file(&part));
            return Err(Error::refused(format!(
                "salt://{path} (environment {saltenv}): the file received from the master does not have the hash {}",
                said.hash
            )));
        }
        fs::rename(&part, place).map_err(Error::io(place))
    }
}

/// The algorithm of the master's hashes.
const HASH: &str = "sha256";

fn has_hash(path: &Path, hash: &str) -> bool {
    hashes::of_file(&path.to_string_lossy(), HASH).is_ok_and(|found| found == hash)
}

/// Gives a file of the cache the permissions that it has on the master. Other users still cannot
/// reach it, because the folder belongs to this user alone.
fn permit(place: &Path, mode: Option<u32>) -> Result<(), Error> {
    let Some(mode) = mode.map(|mode| mode | 0o400) else {
        return Ok(());
    };
    let file = File::open(place).map_err(Error::io(place))?;
    let now = file.metadata().map_err(Error::io(place))?;
    if now.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    let permitted = file.set_permissions(Permissions::from_mode(mode));
    permitted.map_err(Error::io(place))
}

impl Sources for OfMaster {
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error> {
        let Some(said) = self.stat(path, saltenv)? else {
            return Ok(None);
        };
        let place = self.cache.join(saltenv).join(path);
        let shown = format!("salt://{path}").into();
        if has_hash(&place, &said.hash) {
            permit(&place, said.mode)?;
            return Ok(Some(SourceFile { path: place, shown }));
        }
        if let Some(folder) = place.parent() {
            value::trust::folder(folder).map_err(Error::io(folder))?;
        }
        self.fetch(path, saltenv, &said, &place)?;
        permit(&place, said.mode)?;
        Ok(Some(SourceFile { path: place, shown }))
    }

    fn list(&self, saltenv: &str) -> Result<Vec<String>, Error> {
        let known = self
            .lists
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(saltenv)
            .map(Value::texts);
        if let Some(known) = known {
            return Ok(known);
        }
        let files = self.entries("files", saltenv, "")?;
        let value = Value::list(files.iter().map(|path| path.as_str().into()));
        self.lists
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(saltenv, value);
        Ok(files)
    }

    fn links(&self, saltenv: &str) -> Result<BTreeMap<String, String>, Error> {
        let entries = self.entries("symlinks", saltenv, "")?;
        let pair = |entry: &String| {
            let (link, target) = entry.split_once('\0')?;
            Some((link.to_owned(), target.to_owned()))
        };
        let pairs: Option<_> = entries.iter().map(pair).collect();
        let problem = "The master sent an invalid list of symbolic links";
        pairs.ok_or_else(|| Error::refused(problem.to_owned()))
    }

    fn environments(&self) -> Vec<String> {
        self.entries("envs", "base", "").unwrap_or_else(|error| {
            value::log::error(format_args!("cannot list the environments: {error}"));
            vec!["base".to_owned()]
        })
    }

    fn pillar(&self, cx: &Exec) -> Result<Map, Error> {
        let given = cx.pillar_override.as_deref().cloned().unwrap_or_default();
        let pillar = Pillar {
            saltenv: cx.opts().text("saltenv").map(str::to_owned),
            pillarenv: cx.pillarenv.clone(),
            grains: cx.grains(),
            pillar_override: given,
            secrets: true,
        };
        let mut learn = |marks: Value| {
            secret::learn(&marks);
            Ok(())
        };
        let answered = self.uplink.parts(pillar, &mut learn);
        match answered.map_err(|error| refused(&error))?.0 {
            Value::Map(pillar) => Ok(pillar),
            other => Err(Error::refused(format!(
                "The master sent an invalid pillar: {}",
                other.to_text()
            ))),
        }
    }
}
