//! Reports changes in folders, in the words of Python's watchdog.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use machine::process::python_errno;
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use value::{Map, Value};

use super::inotify::{Change, changes, opened};
use super::{Ask, Beacon, Settings};

const WRONG: &str = "Configuration for watchdog beacon";

/// The kinds of change that a configuration may ask for, and their words in an event.
const MASKS: [(&str, &str); 4] = [
    ("create", "created"),
    ("modify", "modified"),
    ("delete", "deleted"),
    ("move", "moved"),
];

struct Folder {
    path: PathBuf,
    /// The words of the changes that are reported.
    words: Vec<&'static str>,
    number: Option<i32>,
}

struct Watchdog {
    fd: OwnedFd,
    folders: Vec<Folder>,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let folders = settings
        .get("directories")
        .ok_or_else(|| format!("{WRONG} must include directories."))?;
    let folders = folders
        .as_map()
        .ok_or_else(|| format!("{WRONG} directories must be a dictionary."))?;
    let folders = folders.iter().map(|(path, said)| Folder::read(path, said));
    Ok(Box::new(Watchdog {
        folders: folders.collect::<Result<_, _>>()?,
        fd: opened().map_err(|error| error.to_string())?,
    }))
}

impl Folder {
    fn read(path: &Value, said: &Value) -> Result<Self, String> {
        let said = said
            .as_map()
            .ok_or_else(|| format!("{WRONG} directory path must be a dictionary."))?;
        let all = || MASKS.iter().map(|(_, word)| *word).collect();
        let words = match said.get("mask") {
            None => all(),
            Some(mask) => words(
                mask.as_list()
                    .ok_or_else(|| format!("{WRONG} mask must be list."))?,
            )?,
        };
        Ok(Self {
            path: path.to_text().into(),
            // As in Salt, an empty mask means every kind.
            words: if words.is_empty() { all() } else { words },
            number: None,
        })
    }
}

fn words(mask: &[Value]) -> Result<Vec<&'static str>, String> {
    let word = |said: &Value| {
        let known = MASKS.iter().find(|(mask, _)| said.as_str() == Some(mask));
        let word = known.map(|(_, word)| *word);
        word.ok_or_else(|| format!("{WRONG} contains invalid mask"))
    };
    mask.iter().map(word).collect()
}

impl Watchdog {
    /// Watches the folders that are not watched yet.
    fn watch(&mut self) -> Result<(), String> {
        let mask = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO;
        for folder in &mut self.folders {
            if folder.number.is_none() {
                let number = inotify::add_watch(&self.fd, &folder.path, mask);
                let path = folder.path.to_string_lossy();
                let number = number.map_err(|error| python_errno(&error.into(), &path))?;
                folder.number = Some(number);
            }
        }
        Ok(())
    }

    /// Adds the events of a change: for its path, and for the folder that it is in. `other` is the
    /// other end of a move.
    fn add_events(&self, change: &Change, other: Option<&Change>, told: &mut PollEvents) {
        let Some(folder) = self.find_folder(change) else {
            return;
        };
        let path = match &change.name {
            Some(name) => folder.path.join(name),
            None => folder.path.clone(),
        };
        let what = change.what;
        let has = |flag| what.contains(flag);
        let word = if other.is_some() {
            "moved"
        } else if has(ReadFlags::CREATE) || has(ReadFlags::MOVED_TO) {
            "created"
        } else if has(ReadFlags::MODIFY) {
            return folder.tell("modified", &path, told);
        } else if has(ReadFlags::CLOSE_WRITE) {
            return folder.tell("modified", &folder.path, told);
        } else if has(ReadFlags::DELETE_SELF) {
            return folder.tell("deleted", &path, told);
        } else if has(ReadFlags::DELETE) || has(ReadFlags::MOVED_FROM) {
            "deleted"
        } else {
            return;
        };
        folder.tell(word, &path, told);
        folder.tell("modified", &folder.path, told);
        if let Some(other) = other.and_then(|other| self.find_folder(other)) {
            other.tell("modified", &other.path, told);
        }
    }

    fn find_folder(&self, change: &Change) -> Option<&Folder> {
        let mut folders = self.folders.iter();
        folders.find(|folder| folder.number == Some(change.number))
    }
}

impl Folder {
    fn tell(&self, word: &'static str, path: &Path, told: &mut PollEvents) {
        let event = Map::new()
            .with("tag", "watchdog")
            .with("path", path.to_string_lossy().into_owned())
            .with("change", word);
        // A repeated event is dropped, even if the first one was not reported either.
        let is_new = told.last.as_ref() != Some(&event);
        if is_new && self.words.contains(&word) {
            told.events.push(event.clone());
        }
        told.last = Some(event);
    }
}

/// The events of one poll.
#[derive(Default)]
struct PollEvents {
    events: Vec<Map>,
    last: Option<Map>,
}

/// Returns true if the two changes are the ends of one move.
fn is_move(from: &Change, to: &Change) -> bool {
    from.what.contains(ReadFlags::MOVED_FROM)
        && to.what.contains(ReadFlags::MOVED_TO)
        && from.cookie == to.cookie
}

impl Beacon for Watchdog {
    fn poll(&mut self, _ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let mut told = PollEvents::default();
        let changes = changes(self.fd.as_fd())?;
        let mut changes = changes.iter().peekable();
        while let Some(change) = changes.next() {
            let other = changes.next_if(|next| is_move(change, next));
            self.add_events(change, other, &mut told);
            if change.what.contains(ReadFlags::IGNORED) {
                let gone = |folder: &&mut Folder| folder.number == Some(change.number);
                if let Some(folder) = self.folders.iter_mut().find(gone) {
                    folder.number = None;
                }
            }
        }
        match self.watch() {
            // Report the events first. The next poll reports the error.
            Err(error) if told.events.is_empty() => Err(error),
            _ => Ok(told.events),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let all = self.folders.iter().all(|folder| folder.number.is_some());
        all.then(|| self.fd.as_fd())
    }

    fn pause(&mut self) {
        if let Ok(fd) = opened() {
            self.fd = fd;
            self.folders
                .iter_mut()
                .for_each(|folder| folder.number = None);
        }
    }
}
