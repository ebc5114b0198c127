//! [`Receiving`]: the roots that another master sends to this one. All of it may be forged: a file is
//! only written into the first root that this master has for its environment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use modules::fileserver::roots::Roots;
use state::opts::Opts;
use value::{Map, Value, log};

use super::message::{Channel, Entry, Message, Wanted, failed};
use super::place::{self, Coming};
use super::removal::{Identity, Removal, identity_of};
use super::{DYNAMIC, ENTRIES_MAX, FILES_MAX, PATHS_MAX, TOTAL_MAX};

/// The files of the last manifest that this master needs, by their places in it.
struct Needed {
    channel: Channel,
    root: PathBuf,
    entries: BTreeMap<usize, Entry>,
}

/// The roots that another master sends.
pub(super) struct Receiving {
    opts: Arc<Opts>,
    /// The number of the sender, and its number of the sync.
    id: (u64, u64),
    /// The name of the sender.
    pub(super) from: String,
    /// The time of the last request.
    pub(super) at: Instant,
    deletes: bool,
    /// The channels of the sync, with the number of files that were installed.
    installed: BTreeMap<Channel, u64>,
    /// The announced files, and their bytes.
    files: usize,
    bytes: u64,
    needed: Option<Needed>,
    coming: Option<(usize, Coming)>,
    /// The paths of the sender's files by root, if others are removed at the end.
    keep: BTreeMap<PathBuf, BTreeSet<String>>,
    /// The bytes of these paths.
    kept: usize,
}

impl Receiving {
    pub(super) fn new(
        opts: &Arc<Opts>,
        id: (u64, u64),
        from: String,
        channels: &[Channel],
        deletes: bool,
    ) -> Self {
        Self {
            opts: opts.clone(),
            id,
            from,
            at: Instant::now(),
            deletes,
            installed: channels.iter().map(|channel| (*channel, 0)).collect(),
            files: 0,
            bytes: 0,
            needed: None,
            coming: None,
            keep: BTreeMap::new(),
            kept: 0,
        }
    }

    /// Returns whether it is this sync of this master.
    pub(super) fn is(&self, id: (u64, u64)) -> bool {
        self.id == id
    }

    /// Returns whether this master sends it.
    pub(super) fn is_of(&self, number: u64) -> bool {
        self.id.0 == number
    }

    /// Takes a request of the sync, and returns the answer. Blocks.
    ///
    /// # Errors
    /// When the sync cannot continue.
    pub(super) fn take(&mut self, message: Message) -> Result<Value, String> {
        let answer = match message {
            Message::Manifest {
                channel,
                saltenv,
                entries,
                ..
            } => self.manifest(channel, &saltenv, entries),
            Message::Piece {
                index,
                offset,
                bytes,
                ..
            } => Ok(self.piece(index, offset, &bytes)),
            Message::End { is_complete, .. } => Ok(self.end(is_complete)),
            Message::Fetch | Message::Begin { .. } => Err("the sync has begun already".to_owned()),
        };
        self.at = Instant::now();
        answer
    }

    /// Returns the root for the files of an environment.
    fn root(&self, channel: Channel, saltenv: &str) -> Result<PathBuf, String> {
        let option = channel.option();
        let configured = self.opts.environments(option);
        if saltenv == DYNAMIC || !configured.iter().any(|name| name == saltenv) {
            return Err("this master has no environment of this name".to_owned());
        }
        let roots = self.opts.roots(option, saltenv).into_iter();
        let mut roots = roots.filter(|root| root.is_absolute());
        roots
            .next()
            .ok_or_else(|| "this master has no root for the environment".to_owned())
    }

    /// Counts the files of a manifest.
    fn count(&mut self, entries: &[Entry]) -> Result<(), String> {
        let sizes = entries.iter().map(|entry| entry.size);
        self.bytes = sizes.fold(self.bytes, u64::saturating_add);
        self.files = self.files.saturating_add(entries.len());
        if entries.len() > ENTRIES_MAX || self.files > FILES_MAX || self.bytes > TOTAL_MAX {
            return Err(format!(
                "the roots have {} files with {} bytes or more; the limits are {FILES_MAX} files and {TOTAL_MAX} bytes",
                self.files, self.bytes
            ));
        }
        Ok(())
    }

    fn manifest(
        &mut self,
        channel: Channel,
        saltenv: &str,
        entries: Vec<Entry>,
    ) -> Result<Value, String> {
        (self.needed, self.coming) = (None, None);
        if !self.installed.contains_key(&channel) {
            return Err(format!("the sync does not have {}", channel.option()));
        }
        self.count(&entries)?;
        let root = match self.root(channel, saltenv) {
            Ok(root) => root,
            Err(why) => return Ok(failed(why)),
        };
        self.keep(&root, &entries)?;
        let folder = match place::root(&root) {
            Ok(folder) => folder,
            Err(why) => return Ok(failed(why)),
        };
        let (mut wanted, mut needed) = (Wanted::default(), BTreeMap::new());
        for (index, entry) in entries.into_iter().enumerate() {
            let is_same = place::check(&entry).and_then(|()| match &folder {
                Some(folder) => place::is_same(folder, &entry),
                None => Ok(false),
            });
            match is_same {
                Ok(true) => {}
                Ok(false) => {
                    wanted.needed.push(index);
                    needed.insert(index, entry);
                }
                Err(why) => wanted.refused.push((index, why)),
            }
        }
        self.needed = Some(Needed {
            root,
            channel,
            entries: needed,
        });
        Ok(wanted.value())
    }

    /// Notes files of the sender as those that stay.
    fn keep(&mut self, root: &Path, entries: &[Entry]) -> Result<(), String> {
        if !self.deletes {
            return Ok(());
        }
        let paths = || entries.iter().map(|entry| entry.path.as_str());
        self.kept = paths().fold(self.kept, |sum, path| sum.saturating_add(path.len()));
        if self.kept > PATHS_MAX {
            return Err(format!(
                "the paths of the files have more than {PATHS_MAX} bytes: sync without delete=True"
            ));
        }
        let keep = self.keep.entry(root.to_path_buf()).or_default();
        keep.extend(paths().map(str::to_owned));
        Ok(())
    }

    /// Takes a piece of a file. After a failure the file is not continued.
    fn piece(&mut self, index: usize, offset: u64, bytes: &[u8]) -> Value {
        self.write(index, offset, bytes).map_or_else(
            |why| {
                self.coming = None;
                failed(why)
            },
            Value::from,
        )
    }

    /// Writes a piece of a file. Returns whether the file is installed.
    fn write(&mut self, index: usize, offset: u64, bytes: &[u8]) -> Result<bool, String> {
        let needed = self.needed.as_mut().ok_or("there was no manifest")?;
        if offset == 0 {
            self.coming = None;
            let entry = needed.entries.remove(&index);
            let entry = entry.ok_or("this master does not need the file")?;
            let root = place::root_or_new(&needed.root)?;
            self.coming = Some((index, Coming::begin(&root, entry)?));
        }
        let coming = self.coming.as_mut().filter(|(at, _)| *at == index);
        let (_, coming) = coming.ok_or("a piece of a file that was not begun")?;
        if !coming.take(offset, bytes)? {
            return Ok(false);
        }
        if let Some((_, coming)) = self.coming.take() {
            coming.settle()?;
            let installed = self.installed.entry(needed.channel).or_default();
            *installed = installed.saturating_add(1);
        }
        Ok(true)
    }

    fn end(&mut self, is_complete: bool) -> Value {
        (self.needed, self.coming) = (None, None);
        let deleted = match self.deletes && is_complete {
            true => self.remove(),
            false => Ok(0),
        };
        for (channel, installed) in &self.installed {
            log::info(format_args!(
                "state-sync {} from {} installed {installed} items",
                channel.option(),
                self.from
            ));
        }
        match deleted {
            Ok(deleted) => Map::new().with("deleted", deleted).into(),
            Err(why) => failed(why),
        }
    }

    /// Removes the files that the sender does not have from the roots that it has sent.
    fn remove(&self) -> Result<u64, String> {
        let mut by_root: BTreeMap<Identity, (PathBuf, BTreeSet<String>)> = BTreeMap::new();
        for (path, keep) in &self.keep {
            if let Some(folder) = place::root(path)? {
                // Environments may have the same root.
                let root = by_root.entry(identity_of(&folder)?);
                let (_, all) = root.or_insert_with(|| (path.clone(), BTreeSet::new()));
                all.extend(keep.iter().cloned());
            }
        }
        let (roots, ignores) = (self.all_roots()?, Roots::states(&self.opts));
        let mut removed = 0;
        for (path, keep) in by_root.values() {
            let Some(folder) = place::root(path)? else {
                continue;
            };
            let mut removal = Removal {
                keep,
                ignores: &ignores,
                roots: &roots,
                removed: 0,
            };
            let done = removal.run(&folder, "", 0);
            removed += removal.removed;
            done.map_err(|why| format!("after {removed} files were removed: {why}"))?;
        }
        Ok(removed)
    }

    /// Returns all roots of this master.
    fn all_roots(&self) -> Result<BTreeSet<Identity>, String> {
        let mut roots = BTreeSet::new();
        for option in Channel::ALL.map(Channel::option) {
            for saltenv in self.opts.environments(option) {
                for path in self.opts.roots(option, &saltenv) {
                    if let Some(folder) = place::root(&path)? {
                        roots.insert(identity_of(&folder)?);
                    }
                }
            }
        }
        Ok(roots)
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own files")]
#[cfg(test)]
mod tests;
