//! The common parts of the commands that examine this machine's states: their arguments and the
//! configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use cli::binary;
use cli::config::{self, Loaded};
use cli::failure::Failure;
use cli::heap;
use cli::options::{Parsed, Program};
use render::yaml::SaltYaml;
use value::Map;

/// Runs a command with its arguments, or prints its help.
///
/// # Errors
/// If the arguments are wrong, or the command fails.
pub(crate) fn run(
    program: &Program,
    words: &[String],
    command: fn(&Parsed) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    heap::claim();
    let parsed = program.parse(words.to_vec());
    let parsed = parsed.map_err(|error| Failure::usage(program, error))?;
    if parsed.has("help") {
        return Ok(binary::put(&program.help()));
    }
    command(&parsed)
}

/// Returns the configuration with the overrides of the command line.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn loaded(parsed: &Parsed, local: bool) -> Result<Loaded, Failure> {
    let mut over = Map::new();
    if local || parsed.has("local") {
        over.insert("file_client", "local");
    }
    for (word, key) in [("file_root", "file_roots"), ("pillar_root", "pillar_roots")] {
        let folders: Vec<String> = parsed.all(word).map(absolute).collect();
        if !folders.is_empty() {
            over.insert(key, Map::new().with("base", folders));
        }
    }
    let dir = config_dir(parsed);
    let loaded = config::load(&dir, over, &SaltYaml)?;
    config::obeyed(&loaded, &dir)?;
    Ok(loaded)
}

/// Returns the folder of the configuration.
pub(crate) fn config_dir(parsed: &Parsed) -> PathBuf {
    let given = parsed.text("config_dir").map(str::to_owned);
    let given = given.or_else(|| std::env::var("SALT_CONFIG_DIR").ok());
    given.map_or_else(|| config::DEFAULT_DIR.into(), |dir| absolute(&dir).into())
}

/// Returns a hint for an error about permissions, if the user is not root.
pub(crate) fn as_root() -> Option<String> {
    let hint = "run as root, or use a configuration of yours: pinch init DIR, then -c DIR/etc";
    (!rustix::process::geteuid().is_root()).then(|| hint.to_owned())
}

/// Returns the absolute path of a folder.
pub(crate) fn absolute(folder: &str) -> String {
    let path = std::path::absolute(folder);
    path.map_or_else(|_| folder.to_owned(), |path| path.display().to_string())
}
