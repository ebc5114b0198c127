//! `pinch init`: writes a first configuration, state and pillar for a machine without a master.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cli::binary;
use cli::config;
use cli::failure::{Exit, Failure};
use cli::options::{INIT, Parsed};
use value::{PushFmt, json};

use crate::setup;

/// Runs `pinch init` with the arguments `words`.
///
/// # Errors
/// If the command line is wrong, a file exists already, or one cannot be written.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&INIT, words, written)
}

fn written(parsed: &Parsed) -> Result<ExitCode, Failure> {
    let place = match parsed.words.as_slice() {
        [] => Place::system(),
        [dir] => Place::below(Path::new(&setup::absolute(dir))),
        _ => {
            return Err(Failure::new(
                Exit::Usage,
                "expected at most one directory: pinch init DIR",
            ));
        }
    };
    let files = place.files();
    let existing: Vec<String> = files
        .iter()
        .filter(|file| file.path.symlink_metadata().is_ok())
        .map(|file| file.path.display().to_string())
        .collect();
    if !existing.is_empty() {
        let error = format!(
            "nothing was written, because these files exist: {}",
            existing.join(", ")
        );
        let hint = "name another directory: pinch init DIR";
        return Err(Failure::new(Exit::CantCreate, error).hints([hint.to_owned()]));
    }
    let mut out = String::new();
    for file in &files {
        file.write()?;
        out.push_fmt(format_args!(
            "wrote {} ({})\n",
            file.path.display(),
            file.about
        ));
    }
    out += &place.next();
    Ok(binary::put(&out))
}

/// The folders of the new files.
struct Place {
    etc: PathBuf,
    states: PathBuf,
    pillar: PathBuf,
    /// The file that the first state creates.
    greeting: PathBuf,
    /// The folder of all other files of the machine, if not those of the system.
    own: Option<PathBuf>,
}

impl Place {
    /// Returns the folders that Salt uses by default.
    fn system() -> Self {
        Self {
            etc: config::DEFAULT_DIR.into(),
            states: "/srv/salt".into(),
            pillar: "/srv/pillar".into(),
            greeting: "/srv/hello.txt".into(),
            own: None,
        }
    }

    fn below(dir: &Path) -> Self {
        Self {
            etc: dir.join("etc"),
            states: dir.join("salt"),
            pillar: dir.join("pillar"),
            greeting: dir.join("hello.txt"),
            own: Some(dir.to_owned()),
        }
    }

    fn files(&self) -> [NewFile; 5] {
        let file = |path: PathBuf, text: String, about| NewFile { path, text, about };
        let greeting = quoted(&self.greeting);
        let state = format!(
            "# The file exists and has this content. The name comes from the pillar.\n{greeting}:\n  file.managed:\n    - contents: \"Hello, {{{{ pillar['hello']['name'] }}}}!\"\n"
        );
        let top = |what| {
            format!(
                "# The {what} of each machine; '*' matches all machines.\nbase:\n  '*':\n    - hello\n"
            )
        };
        [
            file(
                self.etc.join("minion"),
                self.configuration(),
                "the configuration",
            ),
            file(
                self.states.join("top.sls"),
                top("states"),
                "the states of each machine",
            ),
            file(self.states.join("hello.sls"), state, "a state: a file"),
            file(
                self.pillar.join("top.sls"),
                top("pillar"),
                "the pillar of each machine",
            ),
            file(
                self.pillar.join("hello.sls"),
                "hello:\n  name: world\n".to_owned(),
                "a value for that state",
            ),
        ]
    }

    fn configuration(&self) -> String {
        let (states, pillar) = (quoted(&self.states), quoted(&self.pillar));
        let mut text = format!(
            "# This machine has no master. Its states and its pillar are in these folders.\nfile_client: local\nfile_roots:\n  base:\n    - {states}\npillar_roots:\n  base:\n    - {pillar}\n\n# An argument that no state function takes is an error, not a warning.\nstrict_arguments: True\n"
        );
        if let Some(own) = &self.own {
            text += "\n# Everything else is below the same folder.\n";
            for (option, name) in [
                ("cachedir", "cache"),
                ("pki_dir", "pki"),
                ("sock_dir", "run"),
                ("log_file", "log"),
            ] {
                text.push_fmt(format_args!("{option}: {}\n", quoted(&own.join(name))));
            }
        }
        text
    }

    /// Returns the commands to run next.
    fn next(&self) -> String {
        let dir = match self.own {
            Some(_) => format!(" -c {}", shell_word(&self.etc)),
            None => String::new(),
        };
        format!(
            "\nNext:\n  pinch plan{dir} highstate           # what would change\n  pinch salt-call{dir} state.apply    # change it\n  pinch undo{dir} last                # revert it\n"
        )
    }
}

/// A file to write.
struct NewFile {
    path: PathBuf,
    text: String,
    about: &'static str,
}

impl NewFile {
    /// Writes the file, and creates its folder. A file that exists is not changed.
    fn write(&self) -> Result<(), Failure> {
        self.try_write().map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::PermissionDenied => {
                    Some("run as root, or name a directory of yours: pinch init DIR")
                }
                _ => None,
            };
            let error = format!("cannot write {}: {error}", self.path.display());
            Failure::new(Exit::CantCreate, error).hints(hint.map(str::to_owned))
        })
    }

    fn try_write(&self) -> std::io::Result<()> {
        if let Some(folder) = self.path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(folder)?;
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&self.path)?;
        file.write_all(self.text.as_bytes())
    }
}

/// Returns whether a path has only letters that neither YAML nor a shell treats in a special way.
fn is_plain(path: &str) -> bool {
    path.chars()
        .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
}

/// Returns a path as a YAML scalar, in quotes if necessary.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    match is_plain(&text) {
        true => text,
        false => json::write(&text.into(), json::Layout::default()),
    }
}

/// Returns a path as a word of a shell, in quotes if necessary.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    match is_plain(&text) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_special_letters_are_quoted() {
        let path = Path::new("/a b/it's: #1");
        assert_eq!(quoted(path), r#""/a b/it's: #1""#);
        assert_eq!(shell_word(path), r"'/a b/it'\''s: #1'");
        assert_eq!(quoted(Path::new("/srv/salt")), "/srv/salt");
    }
}
