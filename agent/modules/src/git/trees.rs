//! The trees of a mirror: the files of commits as folders, which are never changed. A file that a commit
//! has in common with an earlier one is a hard link, so that it takes neither time nor space.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use state::module::Error;
use value::{log, remove, trust};

use super::heads::Heads;
use super::mirror::{LOCAL_MAX, Mirror, publish, remove_file, remove_folder};
use super::program::Git;
use super::remotes::is_hex;

/// The modes of regular files, which later trees link.
const REGULAR: [&str; 2] = ["100644", "100755"];

/// A file of a commit.
#[derive(PartialEq, Eq)]
struct Entry {
    mode: String,
    object: String,
    /// In bytes; 0 for a submodule.
    size: u64,
}

/// The files of a commit by their paths.
type Listing = BTreeMap<String, Entry>;

impl Mirror {
    fn trees(&self) -> PathBuf {
        self.folder.join("trees")
    }

    /// Returns whether there is a folder with the files of a commit.
    pub(super) fn has_tree(&self, commit: &str) -> bool {
        self.trees().join(commit).is_dir()
    }

    /// Returns the folder with the files of a commit, which is made if it does not exist.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn tree(&self, commit: &str) -> Result<PathBuf, Error> {
        let trees = self.trees();
        let tree = trees.join(commit);
        if tree.is_dir() {
            return Ok(tree);
        }
        trust::folder(&trees).map_err(Error::io(&trees))?;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let part = trees.join(format!(".{}-{number}.part", std::process::id()));
        let made = self.write_tree(commit, &part);
        let made = made.and_then(|()| match tree.is_dir() {
            // Another process was faster.
            true => remove_folder(&part),
            false => publish(&part, &tree),
        });
        if made.is_err() && !tree.is_dir() {
            remove_folder(&part)?;
            made.map_err(|error| self.error(error.sentence()))?;
        }
        Ok(tree)
    }

    /// Writes the files of a commit into a new folder.
    fn write_tree(&self, commit: &str, folder: &Path) -> Result<(), Error> {
        let listing = self.listing(commit)?;
        self.check_size_of(commit, &listing)?;
        remove_folder(folder)?;
        trust::folder(folder).map_err(Error::io(folder))?;
        let index = folder.with_extension("index");
        let git = Git {
            variables: vec![
                ("GIT_INDEX_FILE", index.clone()),
                ("GIT_WORK_TREE", folder.to_owned()),
            ],
            ..self.git(LOCAL_MAX)
        };
        // `read-tree` refuses paths that lead out of the tree.
        let written = git
            .run(&["read-tree", commit], "")
            .and_then(|_| self.check_out(&git, &listing, folder));
        remove::or_log(&index, remove_file(&index));
        written
    }

    /// Writes the files of the index of git into a folder, those of the newest tree as links to it.
    fn check_out(&self, git: &Git<'_>, listing: &Listing, folder: &Path) -> Result<(), Error> {
        let command = ["checkout-index", "--force", "--quiet"];
        // The names are not all UTF-8.
        if listing.keys().any(|path| path.contains('\u{fffd}')) {
            let all = [&command[..], &["--all"]].concat();
            return git.run(&all, "").map(drop);
        }
        let linked = self.link_unchanged(listing, folder)?;
        let others = listing.keys().map(String::as_str);
        let others: String = others
            .filter(|path| !linked.contains(path))
            .flat_map(|path| [path, "\0"])
            .collect();
        let these = [&command[..], &["-z", "--stdin"]].concat();
        git.run(&these, &others).map(drop)
    }

    /// Returns the files of a commit.
    ///
    /// # Errors
    /// When git cannot list them.
    fn listing(&self, commit: &str) -> Result<Listing, Error> {
        let words = ["ls-tree", "-r", "-l", "-z", "--full-tree", commit];
        let listed = self.git(LOCAL_MAX).run(&words, "")?;
        let entries = listed.split_terminator('\0').map(|line| {
            entry(line).ok_or_else(|| Error::refused(format!("git ls-tree printed {line:?}")))
        });
        entries.collect()
    }

    /// Checks the size of the files of a commit: compressed, they may be a thousand times smaller.
    fn check_size_of(&self, commit: &str, listing: &Listing) -> Result<(), Error> {
        let sizes = listing.values().map(|entry| entry.size);
        match sizes.fold(0, u64::saturating_add) > self.remote.size_max {
            true => Err(Error::refused(format!(
                "the files of the commit {commit} are larger than {} MiB (`max_size`)",
                self.remote.size_max >> 20
            ))),
            false => Ok(()),
        }
    }

    /// Links the files that the newest tree has in common with a commit into a folder, and returns their
    /// paths. A file that cannot be linked is left out.
    ///
    /// # Errors
    /// When a folder cannot be read or created.
    fn link_unchanged<'a>(
        &self,
        listing: &'a Listing,
        folder: &Path,
    ) -> Result<BTreeSet<&'a str>, Error> {
        let mut linked = BTreeSet::new();
        let Some((tree, known)) = self.newest_tree()? else {
            return Ok(linked);
        };
        // The listing is sorted, so that a folder is created once.
        let mut above = folder.to_owned();
        for (path, entry) in listing {
            if !REGULAR.contains(&entry.mode.as_str()) || known.get(path) != Some(entry) {
                continue;
            }
            let new = folder.join(path);
            let parent = new.parent().unwrap_or(folder);
            if above != parent {
                fs::create_dir_all(parent).map_err(Error::io(parent))?;
                above = parent.to_owned();
            }
            if fs::hard_link(tree.join(path), &new).is_ok() {
                linked.insert(path.as_str());
            }
        }
        Ok(linked)
    }

    /// Returns the folder and the files of the tree that was made last, if git still has its commit.
    ///
    /// # Errors
    /// When the folder of the trees cannot be read.
    fn newest_tree(&self) -> Result<Option<(PathBuf, Listing)>, Error> {
        let entries = machine::fs::list_or_none(self.trees())?;
        let entries = entries.unwrap_or_default();
        let trees = entries.iter().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let changed = entry.metadata().and_then(|found| found.modified()).ok()?;
            is_hex(&name).then_some((changed, name))
        });
        let Some((_, commit)) = trees.max() else {
            return Ok(None);
        };
        let known = self.listing(&commit).ok();
        Ok(known.map(|known| (self.trees().join(commit), known)))
    }

    /// Removes the trees that no branch or tag has, after a time in which a run may still use them.
    pub(super) fn remove_old_trees(&self, heads: &Heads) {
        let listed = machine::fs::list_or_none(self.folder.join("trees"));
        let entries = listed.unwrap_or_else(|error| {
            log::warning(error.to_string());
            None
        });
        for entry in entries.into_iter().flatten() {
            let name = entry.file_name();
            let is_used = heads.commits().any(|commit| name.as_os_str() == commit);
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            let is_old =
                matches!(changed.map(|time| time.elapsed()), Ok(Ok(age)) if age > self.remote.keep);
            if !is_used && is_old {
                let removed = remove_folder(&entry.path());
                if let Err(error) = removed {
                    log::warning(error.sentence());
                }
            }
        }
    }
}

/// Parses a line of `git ls-tree -l`: `MODE TYPE OBJECT SIZE`, a tab, and the path.
fn entry(line: &str) -> Option<(String, Entry)> {
    let (facts, path) = line.split_once('\t')?;
    let mut words = facts.split_whitespace();
    let (mode, _, object, size) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let entry = Entry {
        mode: mode.to_owned(),
        object: object.to_owned(),
        size: match size {
            "-" => 0,
            size => size.parse().ok()?,
        },
    };
    Some((path.to_owned(), entry))
}
