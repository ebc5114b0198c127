//! [`Record`]: what a run was asked, and each return as it comes in, in a file that outlives the run.
//!
//! One file a run, `cachedir/runs/JID`, that is only ever appended to. A line is its length, its checksum and JSON, so that
//! what a power cut tore off is seen when it is read, and not taken for a return.
#![expect(
    clippy::disallowed_methods,
    reason = "records are made durable by this file itself"
)]

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use value::json::{self, Layout};
use value::{Map, Value, jid, log, secret, trust};

use crate::boot;
use crate::compile::Plan;
use crate::exec::Exec;
use crate::keys;
use crate::module::Error;
use crate::opts::Opts;
use crate::resume::Policy;
use crate::run::Observer;
use crate::run::events::EventLog;

/// The version of the format; a reader knows all before its own.
const VERSION: i64 = 1;

/// How many records are kept where `runs_keep` does not say.
const KEEP: i64 = 200;

/// How many bytes they may have in all where `runs_bytes` does not say.
const BYTES: i64 = 32 << 20;

/// How far from its end the last line of a record is looked for.
const LAST_LINE: u64 = 512;

/// How much of a record is read for what was asked.
const FIRST_LINE: u64 = 64 << 10;

/// How long what stands before a line's JSON is.
const HEAD: usize = 26;

/// How often, and how long apart, it is tried to have a record that another looks at.
const TRIES: (u32, Duration) = (40, Duration::from_millis(5));

/// The record of a run under way. Its file is locked as long as the run is alive.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    written: Mutex<Written>,
    /// The steps under way whose end is a barrier, each with its part before it.
    begun: Mutex<Vec<String>>,
    /// What is known of the places that the run has changed.
    keeping: Mutex<Keeping>,
    /// Tags that stand in the file otherwise.
    aliases: Mutex<HashMap<String, String>>,
    /// The event logs that are noted here.
    logs: Mutex<Vec<Weak<EventLog>>>,
}

/// The file of a record.
#[derive(Debug)]
struct Written {
    file: File,
    /// How many bytes of it are whole lines.
    length: u64,
    /// Lines for which there was no room yet: none stands in the file before those that came earlier.
    owed: Vec<u8>,
}

impl Written {
    /// Writes a line after those that are owed.
    fn append(&mut self, line: &str) -> std::io::Result<()> {
        self.owed.extend_from_slice(line.as_bytes());
        if let Err(error) = self.file.write_all(&self.owed) {
            // What cannot even be cut off is seen by its sum.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += self.owed.len() as u64;
        self.owed.clear();
        Ok(())
    }
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
    /// Who asked, where that is another than the user of this process.
    pub user: Option<Value>,
}

/// A record as it is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// What was asked: `jid`, `fun`, `args`, `plan`, `pid`, `time`, `version`.
    pub start: Map,
    /// The returns by tag, in the order in which they came in.
    pub returns: Map,
    /// Those of nested orchestrations, by the part of the run that each is.
    pub parts: BTreeMap<String, Map>,
    /// The steps that must not be repeated unasked, which began and have no return.
    pub begun: Vec<Begun>,
    /// What is known of guards that kept a state from running, by tag.
    pub guards: Map,
    /// The parts, and the run itself as an empty one, that undo what had succeeded in them, because something failed.
    pub compensating: Vec<String>,
    /// What was changed, each noted before it was: what `pinch undo` goes by.
    pub changes: Vec<Map>,
    /// What its parts have heard for their steps that wait for events.
    pub heard: BTreeMap<String, Heard>,
    /// How often it was taken up again: `resumed` (the job id of that call), `pid`, `time`.
    pub resumed: Vec<Map>,
    /// Why nothing has gone on with it by itself after a reboot.
    pub left: Option<String>,
    /// How it ended, `retcode` and `time`; none while it runs, or when it was cut short.
    pub end: Option<Map>,
}

/// A step that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The part of the run that it stands in; empty for the run itself.
    pub part: String,
    /// Its tag.
    pub tag: String,
    /// What is to be done about it when the run is taken up.
    pub policy: Policy,
    /// The number of the boot in which it began, where it takes the machine down.
    pub boot: Option<String>,
    /// Whether there was a way to other machines then.
    pub routed: bool,
}

/// The folder of the records.
#[must_use]
pub fn folder(opts: &Opts) -> PathBuf {
    opts.cachedir().join("runs")
}

/// Makes the folder of the records if it is not there; others than its owner cannot look into it,
/// whatever the umask is.
///
/// # Errors
/// When it cannot be made, or others could put records of their own into it.
pub(crate) fn made_folder(opts: &Opts) -> Result<PathBuf, Error> {
    let folder = folder(opts);
    for path in [&opts.cachedir(), &folder] {
        trust::folder(path).map_err(Error::io(path))?;
    }
    trusted(&folder)?;
    Ok(folder)
}

/// Checks that a record, what a run keeps, or their folder could only have been written by root or
/// this user: a run goes on from it, and an undo puts it back.
///
/// # Errors
/// Says what others could have changed, and how to mend that.
pub fn trusted(path: &Path) -> Result<(), Error> {
    trust::path(path, trust::user()).map_err(|error| match error {
        trust::Untrusted::Unreadable { path, source } => Error::io(path)(source),
        error => Error::refused(error.sentence()),
    })
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
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(Error::io(&path))?;
        // A record that cannot be locked is one that nobody can tell to be alive: a run goes on all the same.
        let _ = file.try_lock();
        let mut start = Map::new()
            .with("start", VERSION)
            .with("jid", asked.jid)
            .with("fun", asked.fun)
            .with("args", asked.args.clone());
        note_plan(&mut start, plan);
        start.insert("pid", std::process::id());
        start.insert("time", jid::new());
        start.insert("uid", rustix::process::geteuid().as_raw());
        if let Some(user) = &asked.user {
            start.insert("user", user.clone());
        }
        if cx.opts().text("file_client") == Some("remote") {
            start.insert("remote", true);
        }
        if cx.test {
            start.insert("test", true);
        }
        let record = Self::of(path, file, 0);
        record.knows(plan);
        if let Err(error) = record.lock().append(&line(&start)) {
            // Without its first line it is no record.
            let _ = std::fs::remove_file(&record.path);
            return Err(Error::io(&record.path)(error));
        }
        Ok(record)
    }

    /// Goes on with the record of a run that was cut short: what is torn is cut off, and it is noted who takes it up, and which
    /// returns count no more.
    ///
    /// # Errors
    /// When it cannot be written, or its run is alive.
    pub fn resume(
        opts: &Opts,
        jid: &str,
        caller: &str,
        plan: &Plan,
        forgotten: &[String],
    ) -> Result<Self, Error> {
        let path = folder(opts).join(jid);
        trusted(&path)?;
        let opened = OpenOptions::new().append(true).read(true).open(&path);
        let mut file = opened.map_err(Error::io(&path))?;
        if !locked(&file) {
            return Err(Error::refused(format!(
                "the run {jid} is still under way, or another one takes it up; its record is {}",
                path.display()
            )));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io(&path))?;
        let length = whole(&bytes);
        file.set_len(length).map_err(Error::io(&path))?;
        let mut entry = Map::new().with("resumed", caller);
        note_plan(&mut entry, plan);
        entry.insert("pid", std::process::id());
        entry.insert("time", jid::new());
        let record = Self::of(path, file, length);
        record.knows(plan);
        if !forgotten.is_empty() {
            let forgotten = forgotten.iter().map(|tag| record.shown(tag).into());
            entry.insert("forgotten", Value::list(forgotten));
        }
        let noted = record.lock().append(&line(&entry));
        noted.map_err(Error::io(&record.path))?;
        Ok(record)
    }

    fn of(path: PathBuf, file: File, length: u64) -> Self {
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
            logs: Mutex::default(),
        }
    }

    /// Has the tags of a plan stand in the file without the secrets in them.
    pub fn knows(&self, plan: &Plan) {
        let mut known = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(aliases::aliases(plan));
    }

    /// A tag as it stands in the file.
    fn shown(&self, tag: &str) -> String {
        let known = self.aliases.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(tag).map_or_else(|| tag.to_owned(), String::clone)
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that a step begins which must not be repeated unasked, and puts all so far on the disk. Its return will be put there at once.
    /// False where there is no room for that.
    #[must_use]
    pub fn begins(&self, cx: &Exec, part: &str, tag: &str, policy: Policy) -> bool {
        self.begins_with(cx, (part, tag), policy, Map::new())
    }

    /// The same of a step after which the machine goes down: with the number of this boot, the run goes on when there is another.
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
            .with("begin", self.shown(tag))
            .with("in", part)
            .with("resume", policy.word());
        entry.update(more);
        let is_written = self.write(&entry);
        self.lock_begun().push([part, tag].concat());
        self.dirty(cx);
        cx.barrier();
        is_written
    }

    /// Notes that a nested orchestration begins from its first step.
    pub fn part_begins(&self, part: &str) {
        self.write(&Map::new().with("part", part));
    }

    /// Notes that what had succeeded is undone from here on, because something failed.
    pub fn compensates(&self, cx: &Exec, part: &str) {
        self.write(&Map::new().with("compensating", part));
        self.dirty(cx);
        cx.barrier();
    }

    /// Notes the return of a step of a nested orchestration.
    pub fn part_returned(&self, cx: &Exec, part: &str, tag: &str, ret: &Map) {
        let entry = Map::new()
            .with("in", part)
            .with("of", self.shown(tag))
            .with("ret", ret.clone());
        self.filed(cx, &entry, &[part, tag].concat(), ret);
    }

    /// Notes the return of a step that is not done.
    pub fn settled(&self, cx: &Exec, part: &str, tag: &str, ret: &Map) {
        match part {
            "" => self.returned(cx, tag, ret),
            part => self.part_returned(cx, part, tag, ret),
        }
    }

    /// Notes what a guard that keeps a state from running said.
    pub fn guarded(&self, tag: &str, told: Map) {
        self.write(&Map::new().with("guard", self.shown(tag)).with("told", told));
    }

    /// Writes a return, and puts it on the disk where its step must not be repeated.
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

    /// Whether this is the end of a step that must not be repeated.
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

    /// Notes that the run is over.
    pub fn end(&self, cx: &Exec, retcode: i64) {
        let end = Map::new().with("end", retcode).with("time", jid::new());
        if !self.write(&end) {
            log::error(format_args!(
                "the record {} lacks lines and goes: no run may go on from it",
                self.path.display()
            ));
            let _ = remove(&self.path);
        }
        // Where nothing happened nothing need be flushed: a run that is lost in a power cut was not worth a write.
        if cx.is_changed(&self.path) {
            cx.barrier();
        }
    }

    /// Writes a line. A full disk must not stop the run that may make room: what there is no room for is written with the next line.
    fn write(&self, entry: &Map) -> bool {
        let mut written = self.lock();
        let is_first = written.owed.is_empty();
        let done = written.append(&line(entry));
        if let (Err(error), true) = (&done, is_first) {
            log::error(format_args!(
                "the record {} lacks a line: {error}",
                self.path.display()
            ));
        }
        done.is_ok()
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
        entry.insert(&keys::RETURN, self.shown(tag));
        entry.insert(&keys::RET, ret.clone());
        self.filed(cx, &entry, tag, ret);
    }
}

/// Adds what is known of a plan: its hash, and a short one of each chunk, so that it can be said what has changed.
fn note_plan(entry: &mut Map, plan: &Plan) {
    let (whole, chunks) = hashes::plan_hashes(plan);
    entry.insert("plan", whole);
    entry.insert("chunks", chunks);
}

/// Takes a record for this run, also when another process looks at it for a moment.
fn locked(file: &File) -> bool {
    let (times, pause) = TRIES;
    (0..times).any(|_| match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            std::thread::sleep(pause);
            false
        }
        // Where files cannot be locked the lock of all runs has to do.
        _ => true,
    })
}

/// Holds a record for who works with it, so that it does not go meanwhile; none where another has it.
#[must_use]
pub fn held(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    locked(&file).then_some(file)
}

/// Whether the run of a record is under way, or somebody works with it.
#[must_use]
pub fn is_alive(path: &Path) -> bool {
    let file = File::open(path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Returns an entry as the file has it: without secrets.
#[must_use]
pub fn line(entry: &Map) -> String {
    let text = json::write(&secret::map(entry.clone()).into(), Layout::default());
    let mut line = String::with_capacity(text.len() + HEAD + 1);
    put_hex(&mut line, text.len() as u64, 8);
    put_hex(&mut line, hash(text.as_bytes()), 16);
    line.push_str(&text);
    line.push('\n');
    line
}

/// So many hexadecimal digits and a space.
fn put_hex(line: &mut String, number: u64, count: u32) {
    digits(line, number, count);
    line.push(' ');
}

fn digits(line: &mut String, number: u64, count: u32) {
    for place in (0..count).rev() {
        let digit = (number >> (4 * place)) as u8 & 15;
        let letter = if digit < 10 { b'0' } else { b'a' - 10 };
        line.push(char::from(letter + digit));
    }
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
/// When the file cannot be read, is not a record, or could have been written by another user.
pub fn read(path: &Path) -> Result<Recorded, Error> {
    trusted(path)?;
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    parse(&bytes, path)
}

/// Reads the bytes of a record up to the first line that is torn. The path is for messages alone.
///
/// # Errors
/// When they are no record.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Recorded, Error> {
    let mut rest = bytes;
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

/// How many bytes of a record are whole lines.
fn whole(bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    while let Some((_, after)) = entry(rest) {
        rest = after;
    }
    (bytes.len() - rest.len()) as u64
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

    /// A step that begins, or the return of a nested one.
    fn add_of_part(&mut self, mut entry: Map) {
        let mut text = |key| entry.remove(key).map(|value| value.to_text());
        let part = text("in").unwrap_or_default();
        if let Some(tag) = text("begin") {
            let policy = text("resume").and_then(|word| Policy::of_word(&word));
            self.ended(&part, &tag);
            let policy = policy.unwrap_or(Policy::Ask);
            let boot = text("boot");
            let routed = entry.get("routed").is_some_and(Value::is_true);
            self.begun.push(Begun {
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

    /// A step has its return.
    fn returned(&mut self, part: &str, tag: &str) {
        self.ended(part, tag);
        self.heard.entry(part.to_owned()).or_default().returned(tag);
    }

    fn ended(&mut self, part: &str, tag: &str) {
        self.begun.retain(|one| one.part != part || one.tag != tag);
    }

    /// Drops all that is known of a nested orchestration, and of those in it.
    fn forget_part(&mut self, part: &str) {
        self.parts.retain(|name, _| !name.starts_with(part));
        self.heard.retain(|name, _| !name.starts_with(part));
        self.begun.retain(|one| !one.part.starts_with(part));
        self.compensating.retain(|name| !name.starts_with(part));
    }

    /// Drops the return of a step, with what is known of its parts.
    pub fn forget(&mut self, tag: &str) {
        self.returns.remove(tag);
        self.ended("", tag);
        self.forget_part(tag);
        if let Some(heard) = self.heard.get_mut("") {
            heard.forget(tag);
        }
    }

    /// It was taken up again.
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

/// What was asked of the run of a record, without reading the rest.
#[must_use]
pub fn start_of(path: &Path) -> Option<Map> {
    trusted(path)
        .inspect_err(|error| log::warning(error))
        .ok()?;
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FIRST_LINE).read_to_end(&mut bytes).ok()?;
    match entry(&bytes) {
        Some((text, _)) => json::read(text).ok()?.as_map().cloned(),
        // A long pillar was given with it.
        None => read(path).ok().map(|recorded| recorded.start),
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

/// Removes a record, with the contents that it keeps.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(path: &Path) -> Result<(), Error> {
    // First, so that no contents are left that nothing tells of.
    drop_kept(path)?;
    std::fs::remove_file(path).map_err(Error::io(path))
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
        if is_finished(&path) && !is_alive(&path) && remove(&path).is_ok() {
            count -= 1;
            total -= size;
        }
    }
}

/// Whether the last line of a record says that the run is over.
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

mod aliases;
mod hashes;
mod heard;
mod kept;
mod left;
#[cfg(test)]
mod tests;

pub use aliases::by_tags_of;
pub use hashes::{chunk_hash, plan_hash};
pub use heard::Heard;
pub use kept::{Keeping, Place, drop_kept, kept, kept_bytes, kept_of};
pub use left::leave;
