//! [`Manifest`]: the files that this master sends to others: those that its file server shows.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use modules::fileserver::roots::Roots;
use state::opts::Opts;
use state::sources::Sources;

use super::message::{Channel, Entry};
use super::place::{MODE, hashed, names};
use super::{DYNAMIC, FILE_MAX, FILES_MAX, PROBLEMS_SHOWN, SENTENCE_MAX, TOTAL_MAX};

/// The files that could not be sent. Only the first ones are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Problems {
    count: usize,
    first: Vec<String>,
}

impl Problems {
    /// Adds a sentence, which may come from another master.
    pub(super) fn add(&mut self, sentence: &str) {
        self.count += 1;
        if self.first.len() < PROBLEMS_SHOWN {
            self.first.push(plain(sentence));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns all of it as one sentence; `None` if there is none.
    pub(super) fn text(&self) -> Option<String> {
        let rest = self.count.saturating_sub(self.first.len());
        let first = self.first.join("; ");
        match (self.count, rest) {
            (0, _) => None,
            (_, 0) => Some(first),
            _ => Some(format!("{first}; and {rest} more")),
        }
    }
}

/// Returns the beginning of a sentence of another master, without control characters.
pub(super) fn plain(sentence: &str) -> String {
    let plain = sentence.chars().filter(|char| !char.is_control());
    plain.take(SENTENCE_MAX).collect()
}

/// The files of an environment.
pub(super) struct Tree {
    pub(super) roots: Arc<Roots>,
    pub(super) channel: Channel,
    pub(super) saltenv: String,
    pub(super) entries: Vec<Entry>,
}

impl Tree {
    /// Returns a sentence about a file.
    pub(super) fn about(&self, path: &str, why: &str) -> String {
        format!("{} {}: {path}: {why}", self.channel.option(), self.saltenv)
    }
}

/// The files that this master sends.
pub(super) struct Manifest {
    pub(super) channels: Vec<Channel>,
    pub(super) trees: Vec<Tree>,
    pub(super) problems: Problems,
    files: usize,
    bytes: u64,
}

impl Manifest {
    /// Reads all files, and computes their hashes. Blocks.
    ///
    /// # Errors
    /// When there is more than a sync can send.
    pub(super) fn read(opts: &Opts, channels: &[Channel], deletes: bool) -> Result<Self, String> {
        let mut manifest = Self {
            channels: channels.to_vec(),
            trees: Vec::new(),
            problems: Problems::default(),
            files: 0,
            bytes: 0,
        };
        for channel in channels {
            let roots = Arc::new(Roots::for_masters(opts, channel.option()));
            let all = roots.environments().map_err(|error| error.to_string())?;
            for saltenv in all {
                manifest.add_tree(&roots, (*channel, saltenv), deletes)?;
            }
            if *channel == Channel::PillarRoots {
                manifest.add_links(&roots);
            }
        }
        Ok(manifest)
    }

    /// Adds the files of an environment.
    fn add_tree(
        &mut self,
        roots: &Arc<Roots>,
        (channel, saltenv): (Channel, String),
        deletes: bool,
    ) -> Result<(), String> {
        let problem = |why: &str| format!("{} {saltenv}: {why}", channel.option());
        if saltenv == DYNAMIC {
            let why = "environments that the configuration does not name are not sent";
            self.problems.add(&problem(why));
            return Ok(());
        }
        let listed = match roots.list(&saltenv) {
            Ok(listed) => listed,
            Err(error) => {
                self.problems.add(&problem(&error.to_string()));
                return Ok(());
            }
        };
        let mut tree = Tree {
            roots: roots.clone(),
            channel,
            saltenv: saltenv.clone(),
            entries: Vec::new(),
        };
        for path in listed.iter().filter(|path| !is_temporary(path)) {
            match entry(roots, path, &saltenv) {
                Ok(entry) => {
                    self.count(entry.size)?;
                    tree.entries.push(entry);
                }
                Err(why) => self.problems.add(&tree.about(path, &why)),
            }
        }
        match tree.entries.is_empty() {
            // An empty folder may be one that is not mounted.
            true if deletes => self.problems.add(&problem(
                "this master has no files in the environment, and removes none of the others",
            )),
            true => {}
            false => self.trees.push(tree),
        }
        Ok(())
    }

    /// Counts a file.
    fn count(&mut self, size: u64) -> Result<(), String> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(size);
        if self.files > FILES_MAX || self.bytes > TOTAL_MAX {
            return Err(format!(
                "the roots of this master have {} files with {} bytes or more; the limits of a sync are {FILES_MAX} files and {TOTAL_MAX} bytes",
                self.files, self.bytes
            ));
        }
        Ok(())
    }

    /// Adds the links that lead out of the pillar's roots. This master follows them when it compiles
    /// a pillar, so the others would lack their targets.
    fn add_links(&mut self, roots: &Roots) {
        for link in roots.refused_links() {
            self.problems.add(&format!(
                "{}: {} links to a place outside of the roots: set `fileserver_followsymlinks: True` to send it",
                Channel::PillarRoots.option(),
                link.display()
            ));
        }
    }
}

fn is_temporary(path: &str) -> bool {
    let name = Path::new(path).file_name();
    name.is_some_and(machine::fs::is_temporary)
}

/// Opens a file of the roots as the file server does.
pub(super) fn open(roots: &Roots, path: &str, saltenv: &str) -> Result<File, String> {
    let opened = roots.opened(path, saltenv);
    let opened = opened.map_err(|error| error.to_string())?;
    let (_, file) = opened.ok_or("it is missing or is not a regular file")?;
    Ok(file)
}

fn entry(roots: &Roots, path: &str, saltenv: &str) -> Result<Entry, String> {
    names(path)?;
    let mut file = open(roots, path, saltenv)?;
    let failed = |error: std::io::Error| format!("cannot read it: {error}");
    let found = file.metadata().map_err(failed)?;
    if found.len() > FILE_MAX {
        let size = found.len();
        return Err(format!("it has {size} bytes; the limit is {FILE_MAX}"));
    }
    let (size, hash) = hashed(&mut file).map_err(failed)?;
    if size != found.len() {
        return Err("it has changed during the sync".to_owned());
    }
    Ok(Entry {
        path: path.to_owned(),
        size,
        mode: found.mode() & MODE,
        hash,
    })
}

/// Returns whether no root of this master has a file.
///
/// # Errors
/// When a root cannot be read.
pub(super) fn has_no_files(opts: &Opts) -> Result<bool, String> {
    for channel in Channel::ALL {
        let roots = Roots::for_masters(opts, channel.option());
        let all = roots.environments().map_err(|error| error.to_string())?;
        for saltenv in all {
            let files = roots.list(&saltenv).map_err(|error| error.to_string())?;
            if !files.is_empty() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[expect(clippy::disallowed_methods, reason = "a test's own files")]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use value::{Map, Value};

    use super::*;

    fn opts(folder: &Path, more: Map) -> Opts {
        let roots = |name: &str| {
            let path = folder.join(name).display().to_string();
            Map::new().with("base", Value::list([path.into()]))
        };
        let mut map = Map::new()
            .with("__role", "master")
            .with("file_roots", roots("files"))
            .with("pillar_roots", roots("pillar"));
        map.update(more);
        Opts::new(map)
    }

    fn scratch() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("files/a/x.sls", "x"),
            ("files/.a.sls.1.1.pinch", "left by a killed run"),
            ("pillar/top.sls", "top"),
            ("secret", "secret"),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    fn paths(manifest: &Manifest) -> Vec<(Channel, &str)> {
        let trees = manifest.trees.iter();
        let entries = trees.flat_map(|tree| {
            let entries = tree.entries.iter();
            entries.map(|entry| (tree.channel, entry.path.as_str()))
        });
        entries.collect()
    }

    #[test]
    fn the_files_that_the_file_server_shows_are_sent_without_special_bits() {
        let dir = scratch();
        let path = dir.path().join("files/a/x.sls");
        let mode = std::fs::Permissions::from_mode(0o6755);
        File::open(&path).unwrap().set_permissions(mode).unwrap();
        symlink("a/x.sls", dir.path().join("files/inside")).unwrap();
        let opts = opts(dir.path(), Map::new());
        let manifest = Manifest::read(&opts, &Channel::ALL, false).unwrap();
        assert_eq!(
            paths(&manifest),
            [
                (Channel::FileRoots, "a/x.sls"),
                (Channel::FileRoots, "inside"),
                (Channel::PillarRoots, "top.sls"),
            ]
        );
        assert_eq!(manifest.trees[0].entries[0].mode, 0o755);
        assert!(manifest.problems.is_empty());
        assert_eq!(has_no_files(&opts), Ok(false));
    }

    /// Attack: a link in a root to a file of the machine.
    #[test]
    fn links_out_of_the_roots_are_not_sent_and_those_of_the_pillar_are_named() {
        let dir = scratch();
        for root in ["files/link", "pillar/link"] {
            symlink(dir.path().join("secret"), dir.path().join(root)).unwrap();
        }
        let read =
            |more: Map| Manifest::read(&opts(dir.path(), more), &Channel::ALL, false).unwrap();
        let manifest = read(Map::new());
        assert!(!paths(&manifest).iter().any(|(_, path)| *path == "link"));
        let text = manifest.problems.text().unwrap();
        assert!(
            text.contains("pillar/link links to a place outside"),
            "{text}"
        );
        let followed = read(Map::new().with("fileserver_followsymlinks", true));
        assert!(followed.problems.is_empty());
        assert_eq!(paths(&followed).len(), 4);
    }

    #[test]
    fn a_master_without_files_does_not_remove_those_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let opts = opts(dir.path(), Map::new());
        assert_eq!(has_no_files(&opts), Ok(true));
        let read = |deletes| Manifest::read(&opts, &[Channel::FileRoots], deletes).unwrap();
        assert!(read(false).problems.is_empty());
        let text = read(true).problems.text().unwrap();
        assert!(text.contains("removes none of the others"), "{text}");
    }

    #[test]
    fn environments_without_a_name_and_unreadable_roots_are_problems() {
        let dir = scratch();
        let roots = Map::new()
            .with("__env__", Value::list(["/srv/__env__".into()]))
            .with(
                "loop",
                Value::list([dir.path().display().to_string().into()]),
            );
        let opts = opts(dir.path(), Map::new().with("file_roots", roots));
        symlink("looped", dir.path().join("looped")).unwrap();
        std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let manifest = Manifest::read(&opts, &[Channel::FileRoots], false).unwrap();
        let text = manifest.problems.text().unwrap();
        assert!(text.contains("file_roots __env__: "), "{text}");
        assert!(
            text.contains("file_roots loop: socket: it is missing or is not a regular file"),
            "{text}"
        );
    }

    #[test]
    fn only_some_problems_are_named_and_their_texts_are_plain() {
        let mut problems = Problems::default();
        assert_eq!(problems.text(), None);
        problems.add("a\nb");
        assert_eq!(problems.text().unwrap(), "ab");
        for _ in 0..PROBLEMS_SHOWN + 3 {
            problems.add(&"x".repeat(2 * SENTENCE_MAX));
        }
        let text = problems.text().unwrap();
        assert!(text.ends_with("; and 4 more"));
        assert!(text.len() < (PROBLEMS_SHOWN + 1) * (SENTENCE_MAX + 2));
    }
}
