//! [`Record`]: what a run was asked, and each return as it comes in, in a file that outlives the run.
//!
//! One file a run, `cachedir/runs/JID`, that is only ever appended to. A line is its length, its checksum and JSON, so that
//! what a power cut tore off is seen when it is read, and not taken for a return.
#![expect(
    clippy::disallowed_methods,
    reason = "records are made durable by this file itself"
)]

use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{Hash as _, Hasher as _};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::mem::discriminant;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use value::hash::Folded;
use value::json::{self, Layout};
use value::{Map, Value, jid, log};

use crate::compile::Plan;
use crate::exec::Exec;
use crate::keys;
use crate::module::Error;
use crate::opts::Opts;
use crate::run::Observer;

/// The version of the format; a reader knows all before its own.
const VERSION: i64 = 1;

/// How many records are kept where `runs_keep` does not say.
const KEEP: i64 = 200;

/// How many bytes they may have in all where `runs_bytes` does not say.
const BYTES: i64 = 32 << 20;

/// How far from its end the last line of a record is looked for.
const LAST_LINE: u64 = 512;

/// How long what stands before a line's JSON is.
const HEAD: usize = 26;

/// The record of a run under way.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    file: Mutex<File>,
}

/// What was asked of a run.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The job id.
    pub jid: &'a str,
    /// The function: `state.apply`.
    pub fun: &'a str,
    /// Its arguments, as the job cache shows them.
    pub args: Value,
}

/// A record as it is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// What was asked: `jid`, `fun`, `args`, `plan`, `pid`, `time`, `version`.
    pub start: Map,
    /// The returns by tag, in the order in which they came in.
    pub returns: Map,
    /// The labels of the barriers that were passed, in their order.
    pub barriers: Vec<String>,
    /// How it ended, `retcode` and `time`; none while it runs, or when it was cut short.
    pub end: Option<Map>,
}

/// The folder of the records.
#[must_use]
pub fn folder(opts: &Opts) -> PathBuf {
    opts.cachedir().join("runs")
}

/// Makes the folder of the records if it is not there; others than its owner cannot look into it.
pub(crate) fn made_folder(opts: &Opts) -> Result<PathBuf, Error> {
    let folder = folder(opts);
    if !folder.is_dir() {
        std::fs::create_dir_all(opts.cachedir()).map_err(Error::io(opts.cachedir()))?;
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder);
        made.map_err(Error::io(&folder))?;
    }
    Ok(folder)
}

impl Record {
    /// Starts the record of a run, and makes room for it: the oldest finished ones go first.
    ///
    /// # Errors
    /// When it cannot be written, or there is one of that job id already.
    pub fn start(cx: &Exec, asked: &Asked<'_>, plan: &Plan) -> Result<Self, Error> {
        let folder = made_folder(cx.opts())?;
        prune(cx.opts());
        let path = folder.join(asked.jid);
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(Error::io(&path))?;
        let start = Map::new()
            .with("start", VERSION)
            .with("jid", asked.jid)
            .with("fun", asked.fun)
            .with("args", asked.args.clone())
            .with("plan", plan_hash(plan))
            .with("pid", std::process::id())
            .with("time", jid::new());
        if let Err(error) = file.write_all(line(&start).as_bytes()) {
            // Without its first line it is no record.
            let _ = std::fs::remove_file(&path);
            return Err(Error::io(&path)(error));
        }
        Ok(Self {
            path,
            file: Mutex::new(file),
        })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that a step which must not be repeated starts or has ended, and puts all so far on the disk.
    pub fn barrier(&self, cx: &Exec, label: &str) {
        self.write(&Map::new().with("barrier", label));
        self.dirty(cx);
        cx.barrier();
    }

    /// Notes that the run is over.
    pub fn end(&self, cx: &Exec, retcode: i64) {
        let end = Map::new().with("end", retcode).with("time", jid::new());
        self.write(&end);
        // Where nothing happened nothing need be flushed: a run that is lost in a power cut was not worth a write.
        if cx.is_changed(&self.path) {
            cx.barrier();
        }
    }

    fn write(&self, entry: &Map) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line(entry).as_bytes()) {
            // A full disk must not stop the run that may make room.
            log::error(format_args!(
                "the record {} lacks a line: {error}",
                self.path.display()
            ));
        }
    }

    /// Has the next barrier flush it.
    fn dirty(&self, cx: &Exec) {
        cx.changed(&self.path);
        if let Some(folder) = self.path.parent() {
            cx.changed(folder);
        }
    }
}

impl Observer for Record {
    fn returned(&self, cx: &Exec, tag: &str, ret: &Map) {
        let mut entry = Map::with_room(2);
        entry.insert(&keys::RETURN, tag);
        entry.insert(&keys::RET, ret.clone());
        self.write(&entry);
        let changed = ret.get("changes").is_some_and(Value::is_true);
        if changed && !cx.test {
            self.dirty(cx);
        }
    }
}

/// An entry as it stands in the file.
fn line(entry: &Map) -> String {
    let text = json::write(&Value::Map(entry.clone()), Layout::default());
    let mut line = String::with_capacity(text.len() + HEAD + 1);
    put_hex(&mut line, text.len() as u64, 8);
    put_hex(&mut line, hash(text.as_bytes()), 16);
    line.push_str(&text);
    line.push('\n');
    line
}

/// So many hexadecimal digits and a space.
fn put_hex(line: &mut String, number: u64, digits: u32) {
    for place in (0..digits).rev() {
        let digit = (number >> (4 * place)) as u8 & 15;
        let letter = if digit < 10 { b'0' } else { b'a' - 10 };
        line.push(char::from(letter + digit));
    }
    line.push(' ');
}

/// The first entry of `bytes` and what follows it; none where it is torn.
fn entry(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (length, sum) = std::str::from_utf8(head).ok()?.trim_end().split_once(' ')?;
    let (text, rest) = rest.split_at_checked(usize::from_str_radix(length, 16).ok()?)?;
    let whole = u64::from_str_radix(sum, 16).ok()? == hash(text);
    let rest = rest.strip_prefix(b"\n")?;
    whole.then_some((std::str::from_utf8(text).ok()?, rest))
}

/// Reads a record up to the first line that is torn.
///
/// # Errors
/// When the file cannot be read, or is not a record.
pub fn read(path: &Path) -> Result<Recorded, Error> {
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    let mut rest = bytes.as_slice();
    let mut recorded = Recorded::default();
    while let Some((text, after)) = entry(rest) {
        rest = after;
        match json::read(text) {
            Ok(Value::Map(entry)) => recorded.add(entry),
            _ => log::warning(format_args!(
                "{} has a line that is no JSON",
                path.display()
            )),
        }
    }
    match recorded.start.get("start").and_then(Value::as_int) {
        Some(version) if version <= VERSION => Ok(recorded),
        Some(version) => Err(Error::refused(format!(
            "{} was written by a later version (format {version}, this one reads up to {VERSION})",
            path.display()
        ))),
        None => Err(Error::refused(format!(
            "{} is not a run record, or was cut short before its first line was written",
            path.display()
        ))),
    }
}

impl Recorded {
    fn add(&mut self, mut entry: Map) {
        if let (Some(tag), Some(ret)) = (entry.remove("return"), entry.remove("ret")) {
            self.returns.insert(tag, ret);
        } else if let Some(label) = entry.get("barrier") {
            self.barriers.push(label.to_text());
        } else if let Some(retcode) = entry.remove("end") {
            self.end = Some(entry.with("retcode", retcode));
        } else if entry.contains("start") {
            self.start = entry;
        }
    }
}

/// The job ids that have a record, the oldest first.
#[must_use]
pub fn jids(opts: &Opts) -> Vec<String> {
    let entries = std::fs::read_dir(folder(opts)).into_iter().flatten();
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut jids: Vec<String> = names.filter(|name| jid::is_jid(name)).collect();
    jids.sort_unstable();
    jids
}

/// Removes the oldest finished records until one more has room. Those of runs that did not finish stay.
fn prune(opts: &Opts) {
    let limit = |name, default| {
        let limit = opts.int(name).unwrap_or(default);
        u64::try_from(limit).unwrap_or_default()
    };
    let (keep, bytes) = (limit("runs_keep", KEEP), limit("runs_bytes", BYTES));
    let folder = folder(opts);
    let sizes: Vec<(PathBuf, u64)> = jids(opts)
        .into_iter()
        .map(|jid| folder.join(jid))
        .filter_map(|path| Some((path.metadata().ok()?.len(), path)))
        .map(|(size, path)| (path, size))
        .collect();
    let mut count = u64::try_from(sizes.len()).unwrap_or(u64::MAX);
    let mut total: u64 = sizes.iter().map(|(_, size)| size).sum();
    for (path, size) in sizes {
        if count < keep && total <= bytes {
            break;
        }
        if is_finished(&path) && std::fs::remove_file(&path).is_ok() {
            count -= 1;
            total -= size;
        }
    }
}

/// Whether the last line of a record says that the run is over.
fn is_finished(path: &Path) -> bool {
    let tail = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_LINE)))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        Ok(tail)
    };
    let tail = tail().unwrap_or_default();
    let last = tail
        .strip_suffix(b"\n")
        .and_then(|rest| rest.iter().rposition(|byte| *byte == b'\n'))
        .and_then(|at| tail.get(at + 1..));
    let text = last.and_then(entry).map(|(text, _)| text);
    text.is_some_and(|text| text.starts_with("{\"end\""))
}

/// A number that changes when what will run changes.
#[must_use]
pub fn plan_hash(plan: &Plan) -> String {
    let mut sum = Folded::of_all_programs();
    for low in plan.chunks() {
        fold_map(&mut sum, &low.data);
    }
    format!("{:016x}", sum.finish())
}

/// Adds all that is in a value, and of what kind it is, to a hash.
fn fold(sum: &mut Folded, value: &Value) {
    match value {
        Value::List(items) | Value::Tuple(items) => {
            sum.write_usize(items.len());
            items.iter().for_each(|item| fold(sum, item));
        }
        Value::Map(map) | Value::Set(map) => fold_map(sum, map),
        scalar => {
            discriminant(scalar).hash(sum);
            scalar.hash(sum);
        }
    }
}

fn fold_map(sum: &mut Folded, map: &Map) {
    sum.write_usize(map.len());
    for (key, value) in map {
        fold(sum, key);
        fold(sum, value);
    }
}

/// A sum that tells a torn or damaged line from a whole one: FNV-1a over eight bytes at a time, each folded so that high bits count too.
fn hash(bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: u64| {
        let sum = (sum ^ word).wrapping_mul(0x0100_0000_01b3);
        sum ^ sum >> 32
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests;
