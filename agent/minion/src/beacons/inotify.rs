//! Reports changes of files and folders, which it receives from the kernel's inotify.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use value::pyre::Regex;
use value::{Map, Value, glob};

use super::{Ask, Beacon, Settings};

/// The names of the changes and flags that a configuration may ask for.
const MASKS: &[(&str, WatchFlags)] = &[
    ("access", WatchFlags::ACCESS),
    ("attrib", WatchFlags::ATTRIB),
    ("close_nowrite", WatchFlags::CLOSE_NOWRITE),
    ("close_write", WatchFlags::CLOSE_WRITE),
    ("create", WatchFlags::CREATE),
    ("delete", WatchFlags::DELETE),
    ("delete_self", WatchFlags::DELETE_SELF),
    ("dont_follow", WatchFlags::DONT_FOLLOW),
    ("excl_unlink", WatchFlags::EXCL_UNLINK),
    ("ignored", WatchFlags::empty()),
    ("modify", WatchFlags::MODIFY),
    ("move_self", WatchFlags::MOVE_SELF),
    ("moved_from", WatchFlags::MOVED_FROM),
    ("moved_to", WatchFlags::MOVED_TO),
    ("oneshot", WatchFlags::ONESHOT),
    ("onlydir", WatchFlags::ONLYDIR),
    ("open", WatchFlags::OPEN),
    ("unmount", WatchFlags::empty()),
];

/// The names of the changes that the kernel reports.
const CHANGES: &[(&str, ReadFlags)] = &[
    ("IN_ACCESS", ReadFlags::ACCESS),
    ("IN_MODIFY", ReadFlags::MODIFY),
    ("IN_ATTRIB", ReadFlags::ATTRIB),
    ("IN_CLOSE_WRITE", ReadFlags::CLOSE_WRITE),
    ("IN_CLOSE_NOWRITE", ReadFlags::CLOSE_NOWRITE),
    ("IN_OPEN", ReadFlags::OPEN),
    ("IN_MOVED_FROM", ReadFlags::MOVED_FROM),
    ("IN_MOVED_TO", ReadFlags::MOVED_TO),
    ("IN_CREATE", ReadFlags::CREATE),
    ("IN_DELETE", ReadFlags::DELETE),
    ("IN_DELETE_SELF", ReadFlags::DELETE_SELF),
    ("IN_MOVE_SELF", ReadFlags::MOVE_SELF),
    ("IN_UNMOUNT", ReadFlags::UNMOUNT),
    ("IN_Q_OVERFLOW", ReadFlags::QUEUE_OVERFLOW),
    ("IN_IGNORED", ReadFlags::IGNORED),
];

const WRONG: &str = "Configuration for inotify beacon";

/// A pattern of paths that are not reported.
enum Exclude {
    Prefix(String),
    Glob(String),
    Regex(Box<Regex>),
}

impl Exclude {
    fn read(said: &Value) -> Result<Self, String> {
        if let Some((pattern, options)) = said.as_map().and_then(Map::first) {
            let pattern = pattern.to_text();
            if options.get("regex").is_some_and(Value::is_true) {
                let regex = Regex::new(&pattern, Default::default());
                let regex = regex.map_err(|error| format!("{WRONG}: {pattern}: {error}"))?;
                return Ok(Self::Regex(Box::new(regex)));
            }
            return Ok(Self::Prefix(pattern));
        }
        let text = said.to_text();
        Ok(match text.contains('*') {
            true => Self::Glob(text),
            false => Self::Prefix(text),
        })
    }

    fn has(&self, path: &str) -> bool {
        match self {
            Self::Prefix(prefix) => path.starts_with(prefix),
            Self::Glob(pattern) => glob::fnmatch(pattern, path),
            Self::Regex(regex) => regex.is_match(path).unwrap_or(false),
        }
    }
}

/// A path of the configuration.
struct Place {
    path: PathBuf,
    mask: WatchFlags,
    recurse: bool,
    auto_add: bool,
    exclude: Vec<Exclude>,
}

impl Place {
    fn read(path: &Value, said: &Value) -> Result<Self, String> {
        let said = said
            .as_map()
            .ok_or_else(|| format!("{WRONG} must be a list of dictionaries."))?;
        if !["mask", "recurse", "auto_add"]
            .iter()
            .any(|name| said.contains(name))
        {
            return Err(format!(
                "{WRONG} must contain mask, recurse or auto_add items."
            ));
        }
        let flag = |name: &str| {
            let value = said.get(name).map_or(Some(false), Value::as_bool);
            value.ok_or_else(|| format!("{WRONG} {name} must be boolean."))
        };
        let auto_add = flag("auto_add")?;
        let mut mask = match said.get("mask") {
            None => WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MODIFY,
            Some(names) => masks(
                names
                    .as_list()
                    .ok_or_else(|| format!("{WRONG} mask must be list."))?,
            )?,
        };
        if auto_add {
            mask |= WatchFlags::CREATE;
        }
        let exclude = said
            .get("exclude")
            .and_then(Value::as_list)
            .unwrap_or_default();
        Ok(Self {
            path: path.to_text().into(),
            recurse: flag("recurse")?,
            exclude: exclude
                .iter()
                .map(Exclude::read)
                .collect::<Result<_, _>>()?,
            auto_add,
            mask,
        })
    }

    fn excludes(&self, path: &Path) -> bool {
        let path = path.to_string_lossy();
        self.exclude.iter().any(|exclude| exclude.has(&path))
    }
}

fn masks(names: &[Value]) -> Result<WatchFlags, String> {
    names.iter().try_fold(WatchFlags::empty(), |all, name| {
        let name = name.to_text();
        let known = MASKS.iter().find(|(known, _)| *known == name);
        let mask = known.map(|(_, mask)| all | *mask);
        mask.ok_or_else(|| format!("{WRONG} invalid mask option {name}."))
    })
}

struct Watch {
    number: i32,
    path: PathBuf,
    place: usize,
}

struct Inotify {
    places: Vec<Place>,
    coalesce: bool,
    fd: OwnedFd,
    watches: Vec<Watch>,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let files = settings
        .get("files")
        .ok_or_else(|| format!("{WRONG} must include files."))?;
    let files = files
        .as_map()
        .ok_or_else(|| format!("{WRONG} invalid, files must be a dict."))?;
    let places = files.iter().map(|(path, said)| Place::read(path, said));
    Ok(Box::new(Inotify {
        places: places.collect::<Result<_, _>>()?,
        coalesce: settings.get("coalesce") == Some(&true.into()),
        fd: opened().map_err(|error| error.to_string())?,
        watches: Vec::new(),
    }))
}

pub(super) fn opened() -> std::io::Result<OwnedFd> {
    Ok(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?)
}

/// A change that the kernel has reported.
pub(super) struct Change {
    pub(super) number: i32,
    pub(super) what: ReadFlags,
    /// A number that both ends of a move have in common.
    pub(super) cookie: u32,
    pub(super) name: Option<PathBuf>,
}

/// Returns the changes that the kernel has reported since the last call.
pub(super) fn changes(fd: BorrowedFd<'_>) -> Result<Vec<Change>, String> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(fd, &mut buffer);
    let mut changes = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => changes.push(Change {
                number: event.wd(),
                what: event.events(),
                cookie: event.cookie(),
                name: event
                    .file_name()
                    .map(|name| OsStr::from_bytes(name.to_bytes()).into()),
            }),
            Err(Errno::AGAIN) => return Ok(changes),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Returns the name that pyinotify gives to a change.
fn change_name(what: ReadFlags) -> String {
    let names = CHANGES.iter().filter(|(_, flag)| what.contains(*flag));
    let mut shown = names.map(|(name, _)| *name).collect::<Vec<_>>().join("|");
    if what.contains(ReadFlags::ISDIR) {
        shown.push_str("|IN_ISDIR");
    }
    shown
}

impl Inotify {
    fn is_watched(&self, path: &Path) -> bool {
        self.watches.iter().any(|watch| watch.path == path)
    }

    /// Watches the configured paths that exist and are not watched yet.
    fn watch_all(&mut self) -> Result<(), String> {
        for index in 0..self.places.len() {
            let Some(place) = self.places.get(index) else {
                break;
            };
            let (path, recurse) = (place.path.clone(), place.recurse);
            if !self.is_watched(&path) && path.exists() {
                self.watch(&path, index, recurse)?;
            }
        }
        Ok(())
    }

    fn watch(&mut self, path: &Path, place: usize, recurse: bool) -> Result<(), String> {
        let Some(mask) = self.places.get(place).map(|place| place.mask) else {
            return Ok(());
        };
        let mut paths = vec![path.to_owned()];
        while let Some(path) = paths.pop() {
            if self
                .places
                .get(place)
                .is_some_and(|place| place.excludes(&path))
            {
                continue;
            }
            match inotify::add_watch(&self.fd, &path, mask) {
                Ok(number) => {
                    self.watches.retain(|watch| watch.number != number);
                    self.watches.push(Watch {
                        number,
                        path: path.clone(),
                        place,
                    });
                }
                // The path has disappeared meanwhile, or the configuration does not ask for it (a
                // file with `onlydir`).
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => continue,
                Err(Errno::NOSPC) => {
                    return Err(format!(
                        "cannot watch {}: the limit fs.inotify.max_user_watches is reached",
                        path.display()
                    ));
                }
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
            if recurse {
                paths.extend(folders(&path)?);
            }
        }
        Ok(())
    }

    /// Returns the event of a change, or `None` if it is not reported.
    fn event(&mut self, change: &Change) -> Result<Option<Map>, String> {
        let map = |tag: &Path, path: &Path| {
            let text = |path: &Path| path.to_string_lossy().into_owned();
            Map::new()
                .with("tag", text(tag))
                .with("path", text(path))
                .with("change", change_name(change.what))
        };
        let watch = self
            .watches
            .iter()
            .find(|watch| watch.number == change.number);
        let Some(watch) = watch else {
            let overflow = change.what.contains(ReadFlags::QUEUE_OVERFLOW);
            return Ok(overflow.then(|| map(Path::new(""), Path::new(""))));
        };
        let path = match &change.name {
            Some(name) => watch.path.join(name),
            None => watch.path.clone(),
        };
        let (tag, index) = (watch.path.clone(), watch.place);
        let Some(place) = self.places.get(index) else {
            return Ok(None);
        };
        let told = (!place.excludes(&path)).then(|| map(&tag, &path));
        let (adds, recurse) = (place.auto_add, place.recurse);
        if change.what.contains(ReadFlags::IGNORED) {
            self.watches.retain(|watch| watch.number != change.number);
        }
        let is_new = change
            .what
            .intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        if adds && is_new && change.what.contains(ReadFlags::ISDIR) {
            self.watch(&path, index, recurse)?;
        }
        Ok(told)
    }
}

/// Returns the folders in a folder, without symbolic links to folders.
fn folders(path: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = machine::fs::list_or_none(path).map_err(|error| error.to_string())?;
    let entries = entries.unwrap_or_default().into_iter();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(folders.map(|entry| entry.path()).collect())
}

impl Beacon for Inotify {
    fn poll(&mut self, _ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let mut told = Vec::new();
        for change in changes(self.fd.as_fd())? {
            let event = self.event(&change)?;
            told.extend(event.filter(|event| !self.coalesce || !told.contains(event)));
        }
        self.watch_all()?;
        Ok(told)
    }

    /// Returns `None` while a configured path does not exist, because the beacon must then be
    /// polled.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let all = self.places.iter().all(|place| self.is_watched(&place.path));
        all.then(|| self.fd.as_fd())
    }

    fn pause(&mut self) {
        if let Ok(fd) = opened() {
            self.fd = fd;
            self.watches.clear();
        }
    }
}
