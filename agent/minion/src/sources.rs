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
use modules::served::options::HAS_TOPS;
use state::exec::Exec;
use state::module::Error;
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use value::{Map, Value, remove, secret};
use wire::{List, Pillar, Stat, Tops};

use crate::last_highstate::{self, Answers};
use crate::local_socket::{self, Uplink};

/// The file trees and pillar of a master.
#[derive(Debug)]
pub struct OfMaster {
    origin: Origin,
    opts: Opts,
    cache: PathBuf,
}

/// The source of the master's answers.
#[derive(Debug)]
enum Origin {
    /// The master that the daemon is connected to, and its answers so far.
    Master(Uplink, Mutex<Answers>),
    /// The last highstate.
    Kept(Answers),
}

/// The master's information about a file.
struct FileInfo {
    hash: String,
    /// The file's permissions on the master: `mode: keep` needs them, and programs need their
    /// execute bit.
    mode: Option<u32>,
    /// The answer of the master.
    said: Value,
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
    /// Returns the sources of this daemon's master. A state run has its options.
    #[must_use]
    pub fn new(uplink: Uplink, opts: &Opts, options: Option<Map>) -> Self {
        let answers = Mutex::new(Answers::new(options));
        Self::with_origin(Origin::Master(uplink, answers), opts)
    }

    fn with_origin(origin: Origin, opts: &Opts) -> Self {
        Self {
            origin,
            opts: opts.clone(),
            cache: opts.cachedir().join("files"),
        }
    }

    /// Returns the sources of the last highstate that ran to its end, and the options of such a
    /// run. Logs the age of the files.
    ///
    /// # Errors
    /// When no highstate is kept.
    pub fn kept(opts: Opts) -> Result<(Self, Opts), String> {
        let (mut answers, at) = Answers::read(&opts)?;
        value::log::warning(last_highstate::sentence(&answers, at));
        secret::learn(&answers.marks);
        let opts = crate::job::with_options(opts, std::mem::take(&mut answers.options));
        Ok((Self::with_origin(Origin::Kept(answers), &opts), opts))
    }

    /// Returns a hint for a run that failed because the master does not answer.
    #[must_use]
    pub fn kept_hint(opts: &Opts) -> Option<String> {
        last_highstate::hint(opts)
    }

    /// Notes an answer of the master. After an error, the answers of this run are not kept.
    fn noted<T>(
        &self,
        answer: Result<T, Error>,
        note: impl FnOnce(&mut Answers, &T),
    ) -> Result<T, Error> {
        if let Origin::Master(_, answers) = &self.origin {
            let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            match &answer {
                Ok(answer) => note(&mut answers, answer),
                Err(_) => answers.has_failed = true,
            }
        }
        answer
    }

    /// Returns the entries of a list.
    fn entries(&self, what: &str, saltenv: &str) -> Result<Vec<String>, Error> {
        let listed = match &self.origin {
            Origin::Master(uplink, _) => requested(uplink, what, saltenv),
            Origin::Kept(answers) => answers.list(what, saltenv),
        };
        self.noted(listed, |answers, list| {
            answers.note_list(what, saltenv, list);
        })
    }

    fn stat(&self, path: &str, saltenv: &str) -> Result<Option<FileInfo>, Error> {
        let said = match &self.origin {
            Origin::Master(uplink, _) => information(uplink, path, saltenv),
            Origin::Kept(answers) => answers.file(path, saltenv),
        };
        match said? {
            Value::Null => Ok(None),
            said => FileInfo::read(said, path).map(Some),
        }
    }

    /// Returns a file that is in the cache with this hash, after fetching it if necessary.
    fn cached(&self, path: &str, saltenv: &str, said: &FileInfo) -> Result<PathBuf, Error> {
        let Origin::Master(uplink, _) = &self.origin else {
            let place = last_highstate::place(&self.opts, &said.hash);
            return match has_hash(&place, &said.hash) {
                true => Ok(place),
                false => Err(Error::refused(format!(
                    "salt://{path} (environment {saltenv}): the copy of the last highstate is missing or damaged: {}",
                    place.display()
                ))),
            };
        };
        let place = self.cache.join(saltenv).join(path);
        if !has_hash(&place, &said.hash) {
            if let Some(folder) = place.parent() {
                value::trust::folder(folder).map_err(Error::io(folder))?;
            }
            fetch(uplink, path, saltenv, (said, &place))?;
        }
        Ok(place)
    }
}

/// Requests a list, and returns the entries of all its parts.
fn requested(uplink: &Uplink, what: &str, saltenv: &str) -> Result<Vec<String>, Error> {
    let list = List {
        what: what.to_owned(),
        saltenv: saltenv.to_owned(),
        prefix: String::new(),
    };
    let mut entries = Vec::new();
    let mut take = |part: Value| {
        entries.extend(part.texts());
        Ok(())
    };
    let listed = uplink.parts(list, &mut take);
    let (_, taken) = listed.map_err(|error| refused(&error))?;
    taken.map_err(Error::io("the master's list"))?;
    Ok(entries)
}

/// Requests the information about a file; null if the master does not have it.
fn information(uplink: &Uplink, path: &str, saltenv: &str) -> Result<Value, Error> {
    let stat = Stat {
        path: path.to_owned(),
        saltenv: saltenv.to_owned(),
    };
    match uplink.call(stat) {
        Ok(said) => Ok(said),
        Err(local_socket::Error::Failed { reason, .. }) if reason == "missing" => Ok(Value::Null),
        Err(error) => Err(refused(&error)),
    }
}

impl FileInfo {
    /// Reads the master's information about the file `path`.
    fn read(said: Value, path: &str) -> Result<Self, Error> {
        let hash = said.get("hash").map(Value::to_text);
        let mode = said.get("mode").and_then(Value::as_int);
        match hash.filter(|hash| is_hash(hash)) {
            Some(hash) => Ok(Self {
                hash,
                mode: mode.and_then(|mode| u32::try_from(mode & 0o777).ok()),
                said,
            }),
            None => Err(Error::refused(format!(
                "salt://{path}: the master sent no valid hash"
            ))),
        }
    }
}

/// Fetches a file to a temporary name next to its place, and appends to what an earlier attempt
/// has left there. Renames the file into place when its hash is right. Of several processes, only one
/// fetches a file at a time.
fn fetch(
    uplink: &Uplink,
    path: &str,
    saltenv: &str,
    (said, place): (&FileInfo, &Path),
) -> Result<(), Error> {
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
    let received = uplink.parts(asked, &mut take);
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

/// Returns whether a text is a hash of a known type. Names of files contain it.
fn is_hash(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    hashes::of_length(text.len()).is_some() && text.bytes().all(is_hex)
}

/// Returns whether a file has a hash. A Salt master may have another type than SHA-256 (`hash_type`
/// there); the length shows the type.
pub(crate) fn has_hash(path: &Path, hash: &str) -> bool {
    let found =
        hashes::of_length(hash.len()).map(|kind| hashes::of_file(&path.to_string_lossy(), kind));
    found.is_some_and(|found| found.is_ok_and(|found| found == hash))
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
        let found = self.stat(path, saltenv).and_then(|said| {
            let Some(said) = said else {
                return Ok(None);
            };
            let place = self.cached(path, saltenv, &said)?;
            permit(&place, said.mode)?;
            Ok(Some((place, said.said)))
        });
        let found = self.noted(found, |answers, found| {
            let said = found.as_ref().map(|(_, said)| said.clone());
            answers.note_file(path, saltenv, said.unwrap_or(Value::Null));
        })?;
        let shown = format!("salt://{path}").into();
        Ok(found.map(|(path, _)| SourceFile { path, shown }))
    }

    fn list(&self, saltenv: &str) -> Result<Vec<String>, Error> {
        if let Origin::Master(_, answers) = &self.origin {
            let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = answers.known_list("files", saltenv) {
                return Ok(known);
            }
        }
        self.entries("files", saltenv)
    }

    fn links(&self, saltenv: &str) -> Result<BTreeMap<String, String>, Error> {
        let entries = self.entries("symlinks", saltenv)?;
        let pair = |entry: &String| {
            let (link, target) = entry.split_once('\0')?;
            Some((link.to_owned(), target.to_owned()))
        };
        let pairs: Option<_> = entries.iter().map(pair).collect();
        let problem = "The master sent an invalid list of symbolic links";
        pairs.ok_or_else(|| Error::refused(problem.to_owned()))
    }

    fn environments(&self) -> Result<Vec<String>, Error> {
        self.entries("envs", "base")
    }

    fn pillar(&self, cx: &Exec) -> Result<Map, Error> {
        let given = cx.pillar_override.as_deref().cloned().unwrap_or_default();
        let (pillarenv, has_override) = (cx.pillarenv.clone(), !given.is_empty());
        let pillar = match &self.origin {
            Origin::Master(uplink, _) => compiled(uplink, cx, given),
            Origin::Kept(answers) => answers.pillar(pillarenv.as_deref(), has_override),
        };
        self.noted(pillar, |answers, pillar| {
            if !has_override {
                answers.note_pillar(pillarenv.as_deref(), pillar);
            }
        })
    }

    fn master_tops(&self, cx: &Exec) -> Result<Map, Error> {
        if !cx.opts().flag(HAS_TOPS) {
            return Ok(Map::new());
        }
        let tops = match &self.origin {
            Origin::Master(uplink, _) => assigned(uplink, cx),
            Origin::Kept(answers) => answers.tops(),
        };
        self.noted(tops, Answers::note_tops)
    }

    fn keep(&self) {
        let Origin::Master(_, answers) = &self.origin else {
            return;
        };
        let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        if !answers.has_failed
            && let Err(error) = answers.write(&self.opts, &self.cache)
        {
            value::log::warning(format_args!(
                "cannot keep the files of this highstate for --cached: {error}"
            ));
        }
    }
}

/// Requests the SLS that the master's `master_tops` assign to this minion, by environment.
fn assigned(uplink: &Uplink, cx: &Exec) -> Result<Map, Error> {
    let grains = cx.grains();
    match uplink
        .call(Tops { grains })
        .map_err(|error| refused(&error))?
    {
        Value::Map(tops) => Ok(tops),
        other => Err(Error::refused(format!(
            "The master sent invalid data of master_tops: {}",
            other.to_text()
        ))),
    }
}

/// Requests the pillar, with the data of `given` merged over it.
fn compiled(uplink: &Uplink, cx: &Exec, given: Map) -> Result<Map, Error> {
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
    let answered = uplink.parts(pillar, &mut learn);
    match answered.map_err(|error| refused(&error))?.0 {
        Value::Map(pillar) => Ok(pillar),
        other => Err(Error::refused(format!(
            "The master sent an invalid pillar: {}",
            other.to_text()
        ))),
    }
}
