//! The contents of a folder: creates the entries that a case needs, and describes them afterwards.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::answer::without_days;
use crate::scratch::{Scratch, masked_group, masked_user};

/// A file, folder or link that exists before a case runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    path: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    dir: bool,
    link: Option<String>,
    mode: Option<String>,
    mtime: Option<u64>,
    /// Absent, even if this machine has it.
    #[serde(default)]
    absent: bool,
}

impl Entry {
    /// Creates it below the folder of the scratch minion, or at an absolute path in its throw-away
    /// root.
    pub fn make(&self, scratch: &Scratch) {
        let path = if self.path.starts_with('/') {
            scratch.changeable(&self.path)
        } else {
            scratch.path().join(&self.path)
        };
        if self.absent {
            let mode = rustix::fs::Mode::empty();
            rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::CharacterDevice, mode, 0)
                .unwrap();
        } else if let Some(target) = &self.link {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(scratch.filled(target), &path).unwrap();
        } else if self.dir {
            fs::create_dir_all(&path).unwrap();
        } else {
            scratch.write(&path, &self.content);
        }
        if let Some(mode) = &self.mode {
            let mode = u32::from_str_radix(mode, 8).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        if let Some(seconds) = self.mtime {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            let times = FileTimes::new().set_modified(time).set_accessed(time);
            File::open(&path).unwrap().set_times(times).unwrap();
        }
    }
}

/// Describes those of the paths that a run has changed in the throw-away root, and everything below
/// them.
pub fn watched(scratch: &Scratch, paths: &[String]) -> Value {
    let mut found = Map::new();
    for path in paths {
        let changed = scratch.changed(path);
        let Ok(meta) = fs::symlink_metadata(&changed) else {
            continue;
        };
        found.insert(path.clone(), described(scratch, &changed));
        if meta.is_dir() {
            collect(scratch, &changed, &format!("{path}/"), &mut found);
        }
    }
    Value::Object(found)
}

/// Describes everything below a folder: path → kind, mode and content, and owners other than the
/// user who runs the tests.
pub fn contents(scratch: &Scratch, folder: &Path) -> Value {
    let mut found = Map::new();
    collect(scratch, folder, "", &mut found);
    Value::Object(found)
}

fn collect(scratch: &Scratch, folder: &Path, below: &str, found: &mut Map<String, Value>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        found.insert(name.clone(), described(scratch, &entry.path()));
        if entry.file_type().unwrap().is_dir() {
            collect(scratch, &entry.path(), &format!("{name}/"), found);
        }
    }
}

fn described(scratch: &Scratch, path: &Path) -> Value {
    let meta = fs::symlink_metadata(path).unwrap();
    let kind = meta.file_type();
    let mut entry = if kind.is_symlink() {
        let target = fs::read_link(path).unwrap();
        json!({"link": scratch.masked(&target.to_string_lossy())})
    } else if kind.is_dir() {
        json!({"dir": true})
    } else if kind.is_fifo() {
        json!({"fifo": true})
    } else if kind.is_char_device() && meta.rdev() == 0 {
        return json!({"absent": true});
    } else {
        let text = scratch.masked(&printable(&fs::read(path).unwrap()));
        json!({"content": without_days(&text)})
    };
    if !kind.is_symlink() {
        entry["mode"] = json!(format!("{:04o}", meta.mode() & 0o7777));
    }
    if kind.is_file() && meta.nlink() > 1 {
        entry["links"] = json!(meta.nlink());
    }
    if let Some(owner) = owner(&meta) {
        entry["owner"] = json!(owner);
    }
    entry
}

/// Returns valid UTF-8 unchanged, and other contents as an escape for each byte.
fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect(),
    }
}

fn owner(meta: &fs::Metadata) -> Option<String> {
    let user = masked_user(&named("/etc/passwd", meta.uid()));
    let group = masked_group(&named("/etc/group", meta.gid()));
    (user != "@USER@" || group != "@GROUP@").then(|| format!("{user}:{group}"))
}

fn named(file: &str, id: u32) -> String {
    let id = id.to_string();
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text
        .lines()
        .find(|line| line.split(':').nth(2) == Some(&id));
    line.and_then(|line| line.split(':').next())
        .map_or_else(|| id.clone(), str::to_owned)
}
