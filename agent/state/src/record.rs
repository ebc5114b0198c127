//! [`Record`]: the request of a run, and each return as it arrives, in a file that outlives the
//! run.
//!
//! Each run has one file, `cachedir/runs/JID`, which is only ever appended to. A line consists of
//! its length, its checksum and JSON. A reader thus detects a line that a power failure cut short,
//! and does not take it for a return.
#![expect(
    clippy::disallowed_methods,
    reason = "records are made durable by this file itself"
)]

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use value::json;
use value::read::or_log;
use value::{Map, Value, jid, log, remove, trust};

use crate::boot;
use crate::compile::Plan;
use crate::exec::Exec;
use crate::keys;
use crate::module::Error;
use crate::opts::Opts;
use crate::resume::Policy;

/// The version of the format. A reader supports its own version and all earlier ones.
const VERSION: i64 = 1;

/// The default of `runs_keep`: the number of records that are kept.
const KEEP: i64 = 200;

/// The default of `runs_bytes`: the maximum total size of the records, in bytes.
const BYTES: i64 = 32 << 20;

/// The number of bytes at the end of a record in which its last line is searched.
const LAST_LINE: u64 = 512;

/// The number of bytes of a record that are read to get its first line.
const FIRST_LINE: u64 = 64 << 10;

/// The number of attempts to lock a record that another process is reading, and the pause between
/// two attempts.
const TRIES: (u32, Duration) = (40, Duration::from_millis(5));

/// The record of a run that is under way. Its file stays locked while the run is alive.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    written: Mutex<Written>,
    /// The steps under way whose end is a barrier. Each is its part followed by its tag.
    begun: Mutex<Vec<String>>,
    /// The notes about the paths that the run has changed.
    keeping: Mutex<Keeping>,
    /// The aliases of tags that contain secrets. The file contains the alias instead of the tag.
    aliases: Mutex<HashMap<String, String>>,
    /// The sources of the events that are recorded here.
    sources: EventSources,
    /// A second place for all lines, if there is one.
    copy: Option<Arc<dyn RecordCopy>>,
}

/// The open file of a record.
#[derive(Debug)]
struct Written {
    file: File,
    /// The number of bytes that are complete lines.
    length: u64,
    /// Lines that could not be written yet for lack of space. They are written before any later
    /// line.
    owed: Vec<u8>,
}

impl Written {
    /// Writes a line after those that could not be written earlier.
    fn append(&mut self, line: &str) -> std::io::Result<()> {
        self.owed.extend_from_slice(line.as_bytes());
        if let Err(error) = self.file.write_all(&self.owed) {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "if even the truncation fails, a reader detects the torn line by its checksum"
            )]
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += self.owed.len() as u64;
        self.owed.clear();
        Ok(())
    }
}

/// The call that started a run.
#[derive(Clone, Debug)]
pub struct Invocation<'a> {
    /// The job id.
    pub jid: &'a str,
    /// The function: `state.apply`.
    pub fun: &'a str,
    /// Its arguments, as the job cache shows them.
    pub args: Value,
    /// The user who made the request, if it is not the user of this process.
    pub user: Option<Value>,
}

/// The parsed contents of a record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The request: `jid`, `fun`, `args`, `plan`, `pid`, `time`, `version`.
    pub start: Map,
    /// The returns by tag, in the order of their arrival.
    pub returns: Map,
    /// The returns of nested orchestrations, by the part of the run that each orchestration is.
    pub parts: BTreeMap<String, Map>,
    /// The steps that began and have no return, and must not be repeated without the user's order.
    pub begun: Vec<StartedStep>,
    /// Details about guards that kept a state from running, by tag.
    pub guards: Map,
    /// The parts in which a failure started the compensation of earlier steps. An empty name is the
    /// run itself.
    pub compensating: Vec<String>,
    /// The changes of the run, each recorded before it was made. `pinch undo` uses them.
    pub changes: Vec<Map>,
    /// The events that each part received for its steps that wait for events.
    pub heard: BTreeMap<String, ReceivedEvents>,
    /// One entry for each time the run was resumed: `resumed` (the job id of that call), `pid`,
    /// `time`.
    pub resumed: Vec<Map>,
    /// The reason why the run was not resumed automatically after a reboot.
    pub left: Option<String>,
    /// The end of the run, `retcode` and `time`. `None` while it runs, or if it was cut short.
    pub end: Option<Map>,
}

/// A step that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedStep {
    /// The part of the run that contains it; empty for the run itself.
    pub part: String,
    /// Its tag.
    pub tag: String,
    /// The action for this step when the run is resumed.
    pub policy: Policy,
    /// The id of the boot in which it began, if the step takes the machine down.
    pub boot: Option<String>,
    /// True if the machine had a default route at that time.
    pub routed: bool,
}

/// Returns the folder of the records.
#[must_use]
pub fn folder(opts: &Opts) -> PathBuf {
    opts.cachedir().join("runs")
}

/// Creates the folder of the records if it does not exist. Whatever the umask is, only its owner
/// can read it.
///
/// # Errors
/// When it cannot be created, or other users could put records into it.
pub(crate) fn made_folder(opts: &Opts) -> Result<PathBuf, Error> {
    let folder = folder(opts);
    for path in [&opts.cachedir(), &folder] {
        trust::folder(path).map_err(Error::io(path))?;
    }
    trusted(&folder)?;
    Ok(folder)
}

/// Checks that only root or this user could have written a record, the contents that a run keeps,
/// or their folder. A run resumes from a record, and an undo restores from it, so both must be
/// trustworthy.
///
/// # Errors
/// A sentence that says what other users could have changed, and how to fix that.
pub fn trusted(path: &Path) -> Result<(), Error> {
    trust::path(path, trust::user()).map_err(|error| match error {
        trust::Untrusted::Unreadable { path, source } => Error::io(path)(source),
        error => Error::refused(error.sentence()),
    })
}

impl Record {
    /// Starts the record of a run. Removes the oldest finished records first, to make room.
    ///
    /// # Errors
    /// When it cannot be written, or a record of that job id exists.
    pub fn start(cx: &Exec, invocation: &Invocation<'_>, plan: &Plan) -> Result<Self, Error> {
        let folder = made_folder(cx.opts())?;
        prune(cx.opts());
        let path = folder.join(invocation.jid);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(Error::io(&path))?;
        // Without a lock, other processes cannot detect that the run is alive. The run continues
        // anyway.
        if let Err(error) = file.try_lock() {
            log::info(format_args!("cannot lock {}: {error}", path.display()));
        }
        let mut start = Map::new()
            .with("start", VERSION)
            .with("jid", invocation.jid)
            .with("fun", invocation.fun)
            .with("args", invocation.args.clone());
        note_plan(&mut start, plan);
        start.insert("pid", std::process::id());
        start.insert("time", jid::new());
        start.insert("uid", rustix::process::geteuid().as_raw());
        if let Some(user) = &invocation.user {
            start.insert("user", user.clone());
        }
        if cx.opts().text("file_client") == Some("remote") {
            start.insert("remote", true);
        }
        if cx.test {
            start.insert("test", true);
        }
        let mut record = Self::new(path, file, 0);
        record.knows(plan);
        let first = line(&start);
        if let Err(error) = record.lock().append(&first) {
            // A file without its first line is no valid record.
            remove::or_log(&record.path, std::fs::remove_file(&record.path));
            return Err(Error::io(&record.path)(error));
        }
        if !cx.test {
            record.copy = cx.shared.targets.record_copy(invocation.jid);
        }
        if let Some(copy) = &record.copy {
            copy.replace(&first);
        }
        Ok(record)
    }

    /// Resumes the record of a run that was cut short. Truncates a torn line, and records the
    /// caller that resumes the run and the returns that are no longer valid.
    ///
    /// # Errors
    /// When it cannot be written, or its run is alive.
    pub fn resume(
        cx: &Exec,
        jid: &str,
        caller: &str,
        plan: &Plan,
        forgotten: &[String],
    ) -> Result<Self, Error> {
        let path = folder(cx.opts()).join(jid);
        trusted(&path)?;
        let opened = OpenOptions::new().append(true).read(true).open(&path);
        let mut file = opened.map_err(Error::io(&path))?;
        if !locked(&file) {
            return Err(Error::refused(format!(
                "the run {jid} is still under way, or another process is resuming it; its record is {}",
                path.display()
            )));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io(&path))?;
        let length = complete_length(&bytes);
        file.set_len(length).map_err(Error::io(&path))?;
        let mut entry = Map::new().with("resumed", caller);
        note_plan(&mut entry, plan);
        entry.insert("pid", std::process::id());
        entry.insert("time", jid::new());
        let mut record = Self::new(path, file, length);
        record.knows(plan);
        if !forgotten.is_empty() {
            let forgotten = forgotten.iter().map(|tag| record.stored_tag(tag).into());
            entry.insert("forgotten", Value::list(forgotten));
        }
        let last = line(&entry);
        let noted = record.lock().append(&last);
        noted.map_err(Error::io(&record.path))?;
        record.copy = cx.shared.targets.record_copy(jid);
        if let Some(copy) = &record.copy {
            bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
            copy.replace(&(String::from_utf8_lossy(&bytes) + last.as_str()));
        }
        Ok(record)
    }

    fn new(path: PathBuf, file: File, length: u64) -> Self {
        let written = Written {
            file,
            length,
            owed: Vec::new(),
        };
        Self {
            path,
            written: Mutex::new(written),
            begun: Mutex::default(),
            keeping: Mutex::default(),
            aliases: Mutex::default(),
            sources: EventSources::default(),
            copy: None,
        }
    }

    /// Registers the aliases of a plan's tags, so that the file contains no secrets in tags.
    pub fn knows(&self, plan: &Plan) {
        let mut known = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(aliases::aliases(plan));
    }

    /// Returns the form of a tag that the file contains: its alias if it has one.
    fn stored_tag(&self, tag: &str) -> String {
        let known = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(tag).map_or_else(|| tag.to_owned(), String::clone)
    }

    /// Returns the path of the record.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records that a step begins that must not be repeated without the user's order, and flushes
    /// everything so far to the disk. The return of the step will be flushed as soon as it arrives.
    /// Returns false if there is no space for the entry.
    #[must_use]
    pub fn begins(&self, cx: &Exec, part: &str, tag: &str, policy: Policy) -> bool {
        self.begins_with(cx, (part, tag), policy, Map::new())
    }

    /// Like [`Record::begins`], for a step after which the machine goes down. The entry contains
    /// the id of this boot; the run continues once the boot id is another.
    #[must_use]
    pub fn awaits_boot(&self, cx: &Exec, step: (&str, &str), policy: Policy, boot: &str) -> bool {
        self.begins_with(
            cx,
            step,
            policy,
            Map::new()
                .with("boot", boot)
                .with("routed", boot::is_routed()),
        )
    }

    fn begins_with(&self, cx: &Exec, (part, tag): (&str, &str), policy: Policy, more: Map) -> bool {
        let mut entry = Map::new()
            .with("begin", self.stored_tag(tag))
            .with("in", part)
            .with("resume", policy.word());
        entry.update(more);
        let is_written = self.write(&entry);
        self.lock_begun().push([part, tag].concat());
        self.dirty(cx);
        cx.barrier();
        is_written && self.is_copied()
    }

    /// Records that a nested orchestration starts from its first step.
    pub fn part_begins(&self, part: &str) {
        self.write(&Map::new().with("part", part));
    }

    /// Records that the compensation of earlier steps starts, because something failed.
    pub fn compensates(&self, cx: &Exec, part: &str) {
        self.write(&Map::new().with("compensating", part));
        self.dirty(cx);
        cx.barrier();
    }

    /// Records the return of a step of a nested orchestration.
    pub fn part_returned(&self, cx: &Exec, part: &str, tag: &str, ret: &Map) {
        let entry = Map::new()
            .with("in", part)
            .with("of", self.stored_tag(tag))
            .with("ret", ret.clone());
        self.filed(cx, &entry, &[part, tag].concat(), ret);
    }

    /// Records the return of a step that is not executed.
    pub fn settled(&self, cx: &Exec, part: &str, tag: &str, ret: &Map) {
        match part {
            "" => self.returned(cx, tag, ret),
            part => self.part_returned(cx, part, tag, ret),
        }
    }

    /// Records the details about a guard that keeps a state from running.
    pub fn guarded(&self, tag: &str, told: Map) {
        self.write(
            &Map::new()
                .with("guard", self.stored_tag(tag))
                .with("told", told),
        );
    }

    /// Writes a return. If its step must not be repeated, also flushes it to the disk.
    fn filed(&self, cx: &Exec, entry: &Map, step: &str, ret: &Map) {
        self.catch_up();
        self.write(entry);
        let changed = ret.get("changes").is_some_and(Value::is_true);
        let ends = self.ends(step);
        if ends || changed && !cx.test {
            self.dirty(cx);
        }
        if ends {
            cx.barrier();
        }
    }

    /// Returns whether this is the end of a step that must not be repeated, and removes the step
    /// from the list of those.
    fn ends(&self, step: &str) -> bool {
        let mut begun = self.lock_begun();
        let before = begun.len();
        begun.retain(|one| one != step);
        begun.len() < before
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_begun(&self) -> MutexGuard<'_, Vec<String>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the run is over.
    pub fn end(&self, cx: &Exec, retcode: i64) {
        let end = Map::new().with("end", retcode).with("time", jid::new());
        if !self.write(&end) {
            log::error(format_args!(
                "deleting the record {}, which lacks lines: the run could not be resumed from it",
                self.path.display()
            ));
            if let Err(error) = remove(&self.path) {
                log::error(error);
            }
        }
        if let Some(copy) = &self.copy {
            copy.ended();
        }
        // If nothing has changed, nothing needs to be flushed: losing the record of such a run in a
        // power failure does no harm.
        if cx.is_changed(&self.path) {
            cx.barrier();
        }
    }

    /// Writes a line. A full disk must not stop the run, which may free some space: a line that
    /// does not fit is written together with the next one.
    fn write(&self, entry: &Map) -> bool {
        let line = line(entry);
        let mut written = self.lock();
        let is_first = written.owed.is_empty();
        let done = written.append(&line);
        if let Some(copy) = &self.copy {
            copy.add(&line);
        }
        if let (Err(error), true) = (&done, is_first) {
            log::error(format_args!(
                "cannot write a line to the record {}: {error}",
                self.path.display()
            ));
        }
        done.is_ok()
    }

    /// Marks the record to be flushed by the next barrier.
    fn dirty(&self, cx: &Exec) {
        cx.changed(&self.path);
        if let Some(folder) = self.path.parent() {
            cx.changed(folder);
        }
    }
}

impl Record {
    /// Records the return of a chunk.
    pub(crate) fn returned(&self, cx: &Exec, tag: &str, ret: &Map) {
        let mut entry = Map::with_room(2);
        entry.insert(&keys::RETURN, self.stored_tag(tag));
        entry.insert(&keys::RET, ret.clone());
        self.filed(cx, &entry, tag, ret);
    }
}

/// Adds the hash of a plan and a short hash of each chunk, so that a later call can tell what has
/// changed.
fn note_plan(entry: &mut Map, plan: &Plan) {
    let (whole, chunks) = hashes::plan_hashes(plan);
    entry.insert("plan", whole);
    entry.insert("chunks", chunks);
}

/// Reads a record up to the first torn line.
///
/// # Errors
/// When the file cannot be read, is not a record, or could have been written by another user.
pub fn read(path: &Path) -> Result<Recorded, Error> {
    trusted(path)?;
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    parse(&bytes, path)
}

/// Parses the bytes of a record up to the first torn line. The path is only used in messages.
///
/// # Errors
/// When the bytes are not a record.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Recorded, Error> {
    let mut rest = bytes;
    let mut recorded = Recorded::default();
    while let Some((text, after)) = entry(rest) {
        rest = after;
        match json::read(text) {
            Ok(Value::Map(entry)) => recorded.add(entry),
            _ => log::warning(format_args!(
                "ignoring a line of {} that is not JSON",
                path.display()
            )),
        }
    }
    match recorded.start.get("start").and_then(Value::as_int) {
        Some(version) if version <= VERSION => Ok(recorded),
        Some(version) => Err(Error::refused(format!(
            "{} was written by a newer version (format {version}, this one reads up to {VERSION})",
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
        if let Some(tag) = entry.remove("return")
            && let Some(ret) = entry.remove("ret")
        {
            self.returned("", &tag.to_text());
            self.returns.insert(tag, ret);
        } else if let Some(part) = entry.remove("part") {
            self.forget_part(&part.to_text());
        } else if let Some(part) = entry.remove("compensating") {
            self.compensating.push(part.to_text());
        } else if let Some(tag) = entry.remove("guard") {
            self.guards.insert(tag, entry.remove("told"));
        } else if let Some(why) = entry.remove("left") {
            self.left = Some(why.to_text());
        } else if entry.contains("changed") {
            self.changes.push(entry);
        } else if heard::is_heard(&entry) {
            self.add_heard(entry);
        } else if entry.contains("in") {
            self.add_of_part(entry);
        } else if entry.contains("resumed") {
            self.resume(entry);
        } else if let Some(retcode) = entry.remove("end") {
            self.end = Some(entry.with("retcode", retcode));
        } else if entry.contains("start") {
            self.start = entry;
        }
    }

    /// Adds an entry about a part: a step that begins, or the return of a nested step.
    fn add_of_part(&mut self, mut entry: Map) {
        let mut text = |key| entry.remove(key).map(|value| value.to_text());
        let part = text("in").unwrap_or_default();
        if let Some(tag) = text("begin") {
            let policy = text("resume").and_then(|word| Policy::from_word(&word));
            self.ended(&part, &tag);
            let policy = policy.unwrap_or(Policy::Ask);
            let boot = text("boot");
            let routed = entry.get("routed").is_some_and(Value::is_true);
            self.begun.push(StartedStep {
                part,
                tag,
                policy,
                boot,
                routed,
            });
        } else if let (Some(tag), Some(ret)) = (text("of"), entry.remove("ret")) {
            self.returned(&part, &tag);
            self.parts.entry(part).or_default().insert(tag, ret);
        }
    }

    /// Notes that a step has its return.
    fn returned(&mut self, part: &str, tag: &str) {
        self.ended(part, tag);
        self.heard.entry(part.to_owned()).or_default().returned(tag);
    }

    fn ended(&mut self, part: &str, tag: &str) {
        self.begun.retain(|one| one.part != part || one.tag != tag);
    }

    /// Removes all data about a nested orchestration, and about those inside it.
    fn forget_part(&mut self, part: &str) {
        self.parts.retain(|name, _| !name.starts_with(part));
        self.heard.retain(|name, _| !name.starts_with(part));
        self.begun.retain(|one| !one.part.starts_with(part));
        self.compensating.retain(|name| !name.starts_with(part));
    }

    /// Removes the return of a step, and all data about the parts inside it.
    pub fn forget(&mut self, tag: &str) {
        self.returns.remove(tag);
        self.ended("", tag);
        self.forget_part(tag);
        if let Some(heard) = self.heard.get_mut("") {
            heard.forget(tag);
        }
    }

    /// Adds an entry that says that the run was resumed.
    fn resume(&mut self, mut entry: Map) {
        for key in ["plan", "chunks", "pid"] {
            if let Some(now) = entry.remove(key) {
                self.start.insert(key, now);
            }
        }
        let forgotten = entry.remove("forgotten");
        for tag in forgotten
            .as_ref()
            .and_then(Value::as_list)
            .unwrap_or_default()
        {
            self.forget(&tag.to_text());
        }
        if forgotten.is_some() {
            self.compensating.retain(|part| !part.is_empty());
        }
        self.resumed.push(entry);
        (self.end, self.left) = (None, None);
    }
}

/// Returns the request of a recorded run, without reading the whole record.
#[must_use]
pub fn start_of(path: &Path) -> Option<Map> {
    trusted(path)
        .inspect_err(|error| log::warning(error))
        .ok()?;
    let mut bytes = Vec::new();
    let file = or_log(path, File::open(path))?;
    file.take(FIRST_LINE).read_to_end(&mut bytes).ok()?;
    match entry(&bytes) {
        Some((text, _)) => json::read(text).ok()?.as_map().cloned(),
        // The first line is longer than the part that was read, for example because the request has
        // a large pillar.
        None => read(path).ok().map(|recorded| recorded.start),
    }
}

/// Returns the job ids that have a record, the oldest first.
#[must_use]
pub fn jids(opts: &Opts) -> Vec<String> {
    let folder = folder(opts);
    let entries = or_log(&folder, std::fs::read_dir(&folder));
    let entries = entries.into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut jids: Vec<String> = names.filter(|name| jid::is_jid(name)).collect();
    jids.sort_unstable();
    jids
}

/// Removes a record, and the contents that it keeps.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(path: &Path) -> Result<(), Error> {
    // The contents are removed first, so that no contents remain without a record.
    drop_kept(path)?;
    std::fs::remove_file(path).map_err(Error::io(path))
}

/// Removes the oldest finished records until there is room for one more. Records of unfinished runs
/// remain.
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
        if is_finished(&path) && !is_alive(&path) && remove(&path).is_ok() {
            count -= 1;
            total -= size;
        }
    }
}

/// Returns whether the last line of a record says that the run is over.
#[must_use]
pub fn is_finished(path: &Path) -> bool {
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

mod aliases;
mod copy;
mod hashes;
mod heard;
mod kept;
mod left;
mod lines;
mod locks;
#[cfg(test)]
mod tests;

pub use aliases::by_tags_of;
pub use copy::RecordCopy;
pub use hashes::{chunk_hash, plan_hash};
pub(crate) use heard::EventSource;
use heard::EventSources;
pub use heard::{Event, ReceivedEvents};
pub use kept::{Keeping, Place, drop_kept, kept, kept_bytes, kept_of};
pub use left::leave;
pub use lines::line;
pub use locks::{held, is_alive};

use lines::{complete_length, entry};
use locks::locked;
