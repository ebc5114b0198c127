//! A minion's folders in a scratch folder, and the placeholders for values that differ between
//! machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::program::program;

/// The user and the group that run the tests.
static USER: LazyLock<String> = LazyLock::new(|| name_of("-un"));
static GROUP: LazyLock<String> = LazyLock::new(|| name_of("-gn"));
/// The release of the kernel that runs.
static KERNEL: LazyLock<String> = LazyLock::new(|| {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    assert!(!release.is_empty());
    release
});

fn name_of(option: &str) -> String {
    let output = Command::new("id").arg(option).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The folder `tests/corpus`.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// A folder with `etc`, `srv/salt`, `srv/pillar` and `out`; dropping it deletes it.
pub struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    /// Creates a minion without files.
    pub fn new() -> Self {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let dir = tempfile::Builder::new()
            .prefix("conform-")
            .tempdir()
            .unwrap();
        let scratch = Self { dir };
        for folder in ["etc", "root", "run", "srv/salt", "srv/pillar", "out"] {
            fs::create_dir_all(scratch.path().join(folder)).unwrap();
        }
        let minion = fs::read_to_string(corpus().join("minion")).unwrap();
        scratch.write("etc/minion", &minion);
        scratch
    }

    /// Creates a minion with the files of a folder, with the placeholders filled in.
    pub fn with_tree(tree: &Path) -> Self {
        let scratch = Self::new();
        scratch.add(tree, Path::new(""));
        scratch
    }

    /// Copies the files of a folder to one below this, placeholders filled in.
    pub fn add(&self, tree: &Path, below: &Path) {
        for entry in fs::read_dir(tree).unwrap() {
            let entry = entry.unwrap();
            let (path, below) = (entry.path(), below.join(entry.file_name()));
            if path.is_dir() {
                self.add(&path, &below);
            } else {
                self.write(&below, &fs::read_to_string(&path).unwrap());
            }
        }
    }

    /// Writes a file below the folder, placeholders filled in.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.filled(text)).unwrap();
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the folder that replaces `@TMP@`: the folder that a case changes.
    pub fn tmp(&self) -> PathBuf {
        self.path().join("out")
    }

    /// Returns the path at which the throw-away root keeps a file that was changed.
    pub fn changed(&self, path: &str) -> PathBuf {
        let below = path.trim_start_matches('/');
        self.path().join("over/changed").join(below)
    }

    /// Returns the same path after creating the folders above it as they are on this machine.
    pub fn changeable(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        for folder in above.into_iter().rev() {
            let changed = self.changed(&folder.display().to_string());
            if !changed.is_dir() {
                fs::create_dir_all(&changed).unwrap();
                if let Ok(meta) = fs::metadata(folder) {
                    fs::set_permissions(&changed, meta.permissions()).unwrap();
                }
            }
        }
        self.changed(&path.display().to_string())
    }

    /// Returns the text with the placeholders filled in.
    pub fn filled(&self, text: &str) -> String {
        text.replace("@TMP@", &self.tmp().display().to_string())
            .replace("@ENV@", &self.path().display().to_string())
            .replace("@USER@", &USER)
            .replace("@GROUP@", &GROUP)
            .replace("@CORPUS@", &corpus().display().to_string())
            .replace("@PINCH@", &program().join(" "))
            .replace("@KERNEL@", &KERNEL)
    }

    /// Returns the text with placeholders in place of the folders.
    pub fn masked(&self, text: &str) -> String {
        text.replace(&program().join(" "), "@PINCH@")
            .replace(&self.path().display().to_string(), "@ENV@")
            .replace("@ENV@/out", "@TMP@")
            .replace(&*KERNEL, "@KERNEL@")
    }
}

impl Drop for Scratch {
    /// Ends the processes that a case left running in its throw-away root.
    fn drop(&mut self) {
        if !self.path().join("over").exists() {
            return;
        }
        let upper = format!("upperdir={}/over/changed,", self.path().display());
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let number = entry.file_name().to_string_lossy().parse::<i32>();
            let mounts = fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
            if let (Ok(number), true) = (number, mounts.contains(&upper)) {
                let process = rustix::process::Pid::from_raw(number).unwrap();
                let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            }
        }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns `@USER@` for the user that runs the tests, and any other name unchanged.
pub fn masked_user(name: &str) -> String {
    if name == *USER {
        "@USER@".to_owned()
    } else {
        name.to_owned()
    }
}

/// Returns `@GROUP@` for the group that runs the tests, and any other name unchanged.
pub fn masked_group(name: &str) -> String {
    if name == *GROUP {
        "@GROUP@".to_owned()
    } else {
        name.to_owned()
    }
}
