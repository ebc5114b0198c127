//! The answers of a master to the last highstate that ran to its end: its options, lists of files,
//! files and pillar. `salt-call --cached` runs states with them while the master is away.
//!
//! `cachedir/last_highstate` contains `record`, and in `files` a hard link to each file under its
//! hash. A new record replaces the old one by rename, after its files are linked and on the disk.
#![expect(
    clippy::disallowed_methods,
    reason = "the files are synced here before the record names them"
)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use state::module::Error;
use state::opts::Opts;
use value::{Map, Value, secret, trust};
use wire::{Limits, msgpack};

use crate::sources::has_hash;

/// The number of the record's format.
const FORMAT: i64 = 1;

const RECORD: &str = "record";

/// The limits of a record: it has the names of all files of the tree, and the pillar.
const LIMITS: Limits = Limits {
    bytes: 64 << 20,
    depth: 256,
    items: 2 << 20,
};

/// Returns the folder of the record.
fn folder(opts: &Opts) -> PathBuf {
    opts.cachedir().join("last_highstate")
}

/// Returns the place of a file with this hash.
pub(crate) fn place(opts: &Opts, hash: &str) -> PathBuf {
    folder(opts).join("files").join(hash)
}

fn key(what: &str, saltenv: &str) -> String {
    format!("{saltenv}\0{what}")
}

/// The answers of a master to one run.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The options of the master.
    pub(crate) options: Map,
    /// The lists, by environment and kind.
    lists: Map,
    /// The information about each file, by environment and path. It is null for a file that does
    /// not exist.
    files: Map,
    /// The pillar of a run without `pillar=`.
    pillar: Option<Map>,
    /// The pillar's environment.
    pillarenv: Value,
    /// The SLS of the master's `master_tops`, by environment.
    tops: Option<Map>,
    /// The secrets in the pillar, for masking them.
    pub(crate) marks: Value,
    /// True after a request that failed: the answers are not those of a whole run.
    pub(crate) has_failed: bool,
}

impl Answers {
    /// Creates the answers of a run with these options of the master. Without them, the run is no
    /// state run, and its answers are not kept.
    pub(crate) fn new(options: Option<Map>) -> Self {
        Self {
            has_failed: options.is_none(),
            options: options.unwrap_or_default(),
            ..Self::default()
        }
    }

    pub(crate) fn note_list(&mut self, what: &str, saltenv: &str, entries: &[String]) {
        let entries = Value::list(entries.iter().map(|entry| entry.as_str().into()));
        self.lists.insert(key(what, saltenv), entries);
    }

    pub(crate) fn note_file(&mut self, path: &str, saltenv: &str, said: Value) {
        self.files.insert(key(path, saltenv), said);
    }

    pub(crate) fn note_pillar(&mut self, pillarenv: Option<&str>, pillar: &Map) {
        self.pillarenv = pillarenv.map(Value::from).into();
        self.marks = secret::marks(&pillar.clone().into());
        self.pillar = Some(pillar.clone());
    }

    pub(crate) fn note_tops(&mut self, tops: &Map) {
        self.tops = Some(tops.clone());
    }

    pub(crate) fn tops(&self) -> Result<Map, Error> {
        self.tops.clone().ok_or_else(|| {
            Error::refused(
                "the last highstate did not use master_tops, and --cached does not contact the master"
                    .to_owned(),
            )
        })
    }

    /// Returns a list that the master has sent.
    pub(crate) fn known_list(&self, what: &str, saltenv: &str) -> Option<Vec<String>> {
        self.lists.get(&key(what, saltenv)).map(Value::texts)
    }

    pub(crate) fn list(&self, what: &str, saltenv: &str) -> Result<Vec<String>, Error> {
        self.known_list(what, saltenv).ok_or_else(|| {
            Error::refused(format!(
                "the last highstate did not list the {what} of the environment {saltenv}, and --cached does not contact the master"
            ))
        })
    }

    /// Returns the information about a file; null if the master does not have it.
    pub(crate) fn file(&self, path: &str, saltenv: &str) -> Result<Value, Error> {
        if let Some(said) = self.files.get(&key(path, saltenv)) {
            return Ok(said.clone());
        }
        let listed = self.lists.get(&key("files", saltenv));
        let listed = listed.and_then(Value::as_list);
        match listed.map(|files| files.iter().any(|file| file.as_str() == Some(path))) {
            Some(false) => Ok(Value::Null),
            _ => Err(Error::refused(format!(
                "salt://{path} (environment {saltenv}): the last highstate did not fetch this file, and --cached does not contact the master"
            ))),
        }
    }

    pub(crate) fn pillar(&self, pillarenv: Option<&str>, has_override: bool) -> Result<Map, Error> {
        let Some(pillar) = &self.pillar else {
            return Err(Error::refused(
                "--cached: no pillar is kept on this machine. Set minion_pillar_cache: True in the minion's configuration, and run a highstate while the master answers".to_owned(),
            ));
        };
        if self.pillarenv != Value::from(pillarenv.map(Value::from)) || has_override {
            return Err(Error::refused(
                "--cached: the kept pillar is that of the last highstate, without pillarenv="
                    .to_owned(),
            ));
        }
        Ok(pillar.clone())
    }

    /// Keeps the answers for later runs. `cache` is the folder with the fetched files.
    pub(crate) fn write(&self, opts: &Opts, cache: &Path) -> io::Result<()> {
        let links = folder(opts).join("files");
        trust::folder(&folder(opts))?;
        trust::folder(&links)?;
        let mut hashes = BTreeSet::new();
        for (key, said) in self.files.iter().filter(|(_, said)| !said.is_null()) {
            let (key, hash) = (key.to_text(), said.get("hash").map(Value::to_text));
            let (Some((saltenv, path)), Some(hash)) = (key.split_once('\0'), hash) else {
                continue;
            };
            let file = cache.join(saltenv).join(path);
            link(&file, &links.join(&hash), &hash)?;
            hashes.insert(hash);
        }
        File::open(&links)?.sync_all()?;
        let mut bytes = Vec::new();
        msgpack::encode(&self.to_record(opts), LIMITS, &mut bytes).map_err(io::Error::other)?;
        machine::durable::write(&folder(opts), RECORD, &bytes)?;
        for entry in fs::read_dir(&links)? {
            let entry = entry?;
            if !hashes.contains(&*entry.file_name().to_string_lossy()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the record. It has the pillar if it is empty or the configuration allows to keep it,
    /// because a pillar may contain secrets.
    fn to_record(&self, opts: &Opts) -> Value {
        let keeps = opts.flag("minion_pillar_cache");
        let pillar = self.pillar.clone();
        let pillar = pillar.filter(|pillar| keeps || pillar.is_empty());
        let record = Map::new()
            .with("format", FORMAT)
            .with("options", self.options.clone())
            .with("lists", self.lists.clone())
            .with("files", self.files.clone())
            .with("pillarenv", self.pillarenv.clone());
        let record = match &self.tops {
            Some(tops) => record.with("tops", tops.clone()),
            None => record,
        };
        match pillar {
            Some(pillar) => {
                let record = record.with("marks", self.marks.clone());
                record.with("pillar", pillar).into()
            }
            None => record.into(),
        }
    }

    /// Reads the answers of the last highstate, and the time at which it ended.
    ///
    /// # Errors
    /// When there are none, or they cannot be read.
    pub(crate) fn read(opts: &Opts) -> Result<(Self, SystemTime), String> {
        let place = folder(opts).join(RECORD);
        let failed = |error: &dyn std::fmt::Display| {
            format!("--cached: cannot read {}: {error}", place.display())
        };
        let at = match fs::metadata(&place).and_then(|found| found.modified()) {
            Ok(at) => at,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(format!(
                    "--cached: no highstate with the master's files has run to its end on this machine: {} does not exist",
                    place.display()
                ));
            }
            Err(error) => return Err(failed(&error)),
        };
        trust::path(&place, trust::user()).map_err(|error| failed(&error.sentence()))?;
        let bytes = fs::read(&place).map_err(|error| failed(&error))?;
        let record = msgpack::decode(&bytes, LIMITS).map_err(|error| failed(&error))?;
        let answers = Self::from_record(&record);
        let answers = answers.ok_or_else(|| failed(&"another version of the program wrote it"))?;
        Ok((answers, at))
    }

    fn from_record(record: &Value) -> Option<Self> {
        let map = |key: &str| record.get(key).and_then(Value::as_map).cloned();
        if record.get("format") != Some(&Value::Int(FORMAT)) {
            return None;
        }
        let pillar = map("pillar");
        // Without the marks, the secrets in the pillar would not be masked.
        let marks = match &pillar {
            Some(_) => record.get("marks")?.clone(),
            None => Value::Null,
        };
        Some(Self {
            options: map("options")?,
            lists: map("lists")?,
            files: map("files")?,
            tops: map("tops"),
            pillar,
            pillarenv: record.get("pillarenv")?.clone(),
            marks,
            has_failed: false,
        })
    }

    /// Returns the names of what is kept, for messages.
    fn described(&self) -> &'static str {
        match self.pillar {
            Some(_) => "the files and the pillar",
            None => "the files",
        }
    }
}

/// Links a file of the cache, which had this hash when the run read it, to its place.
fn link(file: &Path, place: &Path, hash: &str) -> io::Result<()> {
    let inode = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    if inode(file) == inode(place) || has_hash(place, hash) {
        return Ok(());
    }
    match fs::remove_file(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::open(file)?.sync_all()?;
    fs::hard_link(file, place)?;
    match has_hash(place, hash) {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{} was replaced during the run",
            file.display()
        ))),
    }
}

/// Returns a sentence about the use of these answers: what they are, and their age.
pub(crate) fn sentence(answers: &Answers, at: SystemTime) -> String {
    format!(
        "Using {} of {}: this run does not contact the master",
        answers.described(),
        age(at)
    )
}

/// Returns a hint for a run that failed because the master does not answer, if there is a kept
/// highstate.
pub(crate) fn hint(opts: &Opts) -> Option<String> {
    let (answers, at) = Answers::read(opts).ok()?;
    let (what, age) = (answers.described(), age(at));
    Some(format!("--cached applies {what} of {age}"))
}

/// Returns a time in the zone of this machine, with its distance from now.
fn age(at: SystemTime) -> String {
    let minutes = at.elapsed().unwrap_or_default().as_secs() / 60;
    let old = match minutes {
        0..60 => format!("{minutes} min"),
        60..2880 => format!("{} h", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    };
    match Timestamp::try_from(at) {
        Ok(time) => {
            let time = time.to_zoned(TimeZone::system());
            format!("{} ({old} old)", time.strftime("%Y-%m-%d %H:%M"))
        }
        Err(_) => format!("an unknown time ({old} old)"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn opts(folder: &Path, keeps: bool) -> Opts {
        let cachedir = folder.display().to_string();
        let map = Map::new().with("cachedir", cachedir);
        Opts::new(map.with("minion_pillar_cache", keeps))
    }

    fn answers() -> Answers {
        let mut answers = Answers::new(Some(Map::new()));
        answers.note_list("files", "base", &["top.sls".to_owned()]);
        answers.note_pillar(None, &Map::new().with("port", 8080));
        answers
    }

    #[test]
    fn the_pillar_is_kept_only_if_the_configuration_allows_it() {
        let scratch = tempfile::tempdir().unwrap();
        for keeps in [true, false] {
            let opts = opts(scratch.path(), keeps);
            answers().write(&opts, scratch.path()).unwrap();
            let (read, _) = Answers::read(&opts).unwrap();
            assert_eq!(read.pillar(None, false).is_ok(), keeps);
            assert!(read.pillar(Some("dev"), false).is_err());
            assert!(read.file("other.sls", "base").unwrap().is_null());
            assert!(read.file("top.sls", "base").is_err(), "it was not fetched");
            assert!(read.file("other.sls", "dev").is_err(), "it may exist");
        }
    }

    #[test]
    fn a_record_that_is_damaged_or_of_another_version_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let opts = opts(scratch.path(), true);
        answers().write(&opts, scratch.path()).unwrap();
        let place = folder(&opts).join(RECORD);
        let good = fs::read(&place).unwrap();
        let other = Value::from(Map::new().with("format", FORMAT + 1));
        let mut newer = Vec::new();
        msgpack::encode(&other, LIMITS, &mut newer).unwrap();
        for bytes in [&good[..good.len() - 1], &newer, b""] {
            fs::write(&place, bytes).unwrap();
            let error = Answers::read(&opts).map(|_| ()).unwrap_err();
            assert!(error.contains(&*place.to_string_lossy()), "{error}");
        }
    }

    #[test]
    fn an_age_is_in_minutes_hours_or_days() {
        for (seconds, wanted) in [
            (0, "(0 min old)"),
            (3599, "(59 min old)"),
            (3 * 3600, "(3 h old)"),
            (12 * 86_400, "(12 days old)"),
        ] {
            let at = SystemTime::now() - Duration::from_secs(seconds);
            assert!(age(at).ends_with(wanted), "{}", age(at));
        }
    }
}
