//! Salt's own options that accept and reject keys: `autosign_file`, `autoreject_file`,
//! `minions_autosign` and `autosign_grains`. The functions read files, and may block on them.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use state::opts::Opts;
use value::pyre::{Anchor, Flags, Regex, Subject};
use value::read::or_log;
use value::{Map, Value, log, remove};
use wire::Id;

/// The maximum number of bytes that are read from a file.
const FILE_MAX: u64 = 1 << 20;
/// The number of minutes after which a file in `minions_autosign` expires, unless
/// `autosign_timeout` is set.
const TIMEOUT_MIN: i64 = 120;

/// Returns whether `autoreject_file` names an id.
pub(super) fn rejects(opts: &Opts, id: &Id) -> bool {
    is_in_file(opts, "autoreject_file", id)
}

/// Returns the name of the option that accepts an id, if one does.
pub(super) fn accepts(opts: &Opts, id: &Id, grains: &Map) -> Option<&'static str> {
    let by = |is_so: bool, name| is_so.then_some(name);
    by(opts.flag("auto_accept"), "auto_accept")
        .or_else(|| by(opts.flag("open_mode"), "open_mode"))
        .or_else(|| by(is_in_file(opts, "autosign_file", id), "autosign_file"))
        .or_else(|| by(is_in_folder(opts, id), "minions_autosign"))
        .or_else(|| by(has_grains(opts, grains), "autosign_grains"))
}

/// Returns the text of a file if it exists and no other user may write to it. Logs a file that is
/// ignored.
fn trusted(opts: &Opts, path: &Path) -> Option<String> {
    let mut file = or_log(path, File::open(path))?;
    let found = file.metadata().ok()?;
    if !found.is_file() || !is_ours(opts, &found) {
        log::warning(format_args!(
            "Wrong permissions for {}, ignoring content",
            path.display()
        ));
        return None;
    }
    let mut text = String::new();
    let read = file.by_ref().take(FILE_MAX).read_to_string(&mut text);
    match read {
        Ok(_) => Some(text),
        Err(error) => {
            log::error(format_args!("cannot read {}: {error}", path.display()));
            None
        }
    }
}

/// Returns whether no other user may write to a file. Its group may, but only with
/// `permissive_pki_access`, and only if it is the master's own group.
fn is_ours(opts: &Opts, found: &Metadata) -> bool {
    if found.mode() & 0o002 != 0 {
        return false;
    }
    let own = rustix::process::getegid().as_raw();
    found.mode() & 0o020 == 0 || opts.flag("permissive_pki_access") && found.gid() == own
}

/// Returns the lines that are neither empty nor comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn is_in_file(opts: &Opts, option: &str, id: &Id) -> bool {
    let Some(path) = opts.text(option).filter(|path| !path.is_empty()) else {
        return false;
    };
    let text = trusted(opts, Path::new(path));
    text.is_some_and(|text| lines(&text).any(|line| matches(line, id.as_str())))
}

/// Returns whether an expression matches a text, like Salt's `expr_match`: as the text itself, as a
/// glob, or as a regular expression for the whole text.
pub(super) fn matches(expression: &str, text: &str) -> bool {
    if expression == text || value::glob::fnmatch(expression, text) {
        return true;
    }
    let whole = format!(r"(?:{expression})\Z");
    let regex = Regex::compiled(&whole, Flags::NONE, Subject::Text, Anchor::Start);
    regex.is_ok_and(|regex| regex.is_match(text).unwrap_or(false))
}

/// Returns whether `minions_autosign` has a file with the id's name, and removes that file, so that
/// it accepts one key. Removes expired files first.
fn is_in_folder(opts: &Opts, id: &Id) -> bool {
    let folder = opts.path("pki_dir").join("minions_autosign");
    let minutes = opts.int("autosign_timeout").unwrap_or(TIMEOUT_MIN);
    if let Some(minutes) = u64::try_from(minutes).ok().filter(|minutes| *minutes > 0) {
        forget_old(&folder, Duration::from_secs(60 * minutes));
    }
    rustix::fs::unlink(folder.join(id.as_str())).is_ok()
}

fn forget_old(folder: &Path, longest: Duration) {
    let entries = or_log(folder, fs::read_dir(folder));
    for entry in entries.into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|found| found.modified());
        let age = made.map(|made| SystemTime::now().duration_since(made).unwrap_or_default());
        if age.is_ok_and(|age| age > longest) {
            log::warning(format_args!(
                "Autosign keyid expired {}",
                entry.path().display()
            ));
            remove::or_log(entry.path(), rustix::fs::unlink(entry.path()));
        }
    }
}

/// Returns whether the peer's value of a grain is a line of the grain's file in
/// `autosign_grains_dir`. With `autosign_grains_match: all`, every file of the folder must have the
/// value of its grain.
fn has_grains(opts: &Opts, grains: &Map) -> bool {
    let folder = opts.text("autosign_grains_dir");
    let Some(folder) = folder.filter(|folder| !folder.is_empty()) else {
        return false;
    };
    // A list that is not whole would leave out files that must match.
    let listed = or_log(folder, machine::fs::raw::entries(folder));
    let listed = listed.into_iter().flatten();
    let files: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    let has = |path: &PathBuf| has_grain(opts, path, grains);
    match opts.text("autosign_grains_match") {
        Some("all") => !files.is_empty() && files.iter().all(has),
        _ => files.iter().any(has),
    }
}

fn has_grain(opts: &Opts, path: &Path, grains: &Map) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let grain = grains.get(name.as_ref()).map(Value::to_text);
    grain.is_some_and(|grain| {
        let text = trusted(opts, path);
        text.is_some_and(|text| lines(&text).any(|line| line == grain))
    })
}
