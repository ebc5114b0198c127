//! `salt-minion` and the processes of its jobs.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use cli::config::{self, Loaded};
use cli::failure::{Exit, Failure};
use cli::log::Logger;
use minion::Daemon;
use render::yaml::SaltYaml;
use state::opts::Opts;
use value::{Map, log};

/// The word that starts the process of a job.
pub(crate) const JOB: &str = "job";

fn loaded(dir: &Path, overrides: Map) -> Result<Loaded, Failure> {
    let loaded = config::load(dir, overrides, &SaltYaml);
    loaded.map_err(|error| Failure::new(Exit::Generic, error))
}

/// Runs the daemon until it is asked to end.
///
/// # Errors
/// When the configuration, the keys or the spool cannot be used.
pub(crate) fn run(dir: &Path, overrides: Map) -> Result<ExitCode, Failure> {
    let loaded = loaded(dir, overrides)?;
    let _first = Logger::from_opts(&loaded.opts).install();
    loaded.warnings.iter().for_each(log::warning);
    crate::call::keep_id(&loaded);
    let opts = Opts::new(loaded.opts);
    let job = [own_program(), JOB.into(), dir.into()];
    let settings = minion::Settings {
        opts,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        job: job.to_vec(),
    };
    let ended = Daemon::open(settings).and_then(Daemon::run);
    ended.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(Exit::Ok.into())
}

/// This program, even where a newer one has taken its place: a job must speak as its daemon does.
fn own_program() -> OsString {
    "/proc/self/exe".into()
}

/// Does one job: `pinch job DIR JID`, with its daemon's socket as its stdin.
///
/// # Errors
/// When it was not started by a daemon, or the daemon is gone.
pub(crate) fn job(words: &[String]) -> Result<ExitCode, Failure> {
    let Some(dir) = words.first() else {
        return Err(Failure::new(Exit::Usage, "a minion's daemon starts its jobs"));
    };
    let socket = take_stdin().map_err(|error| Failure::new(Exit::Generic, error))?;
    let loaded = loaded(Path::new(dir), Map::new())?;
    let _first = Logger::from_opts(&loaded.opts).install();
    let done = minion::job::run(Opts::new(loaded.opts), socket);
    done.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(Exit::Ok.into())
}

/// The socket that came as stdin; in its place is `/dev/null`, so that no command of the job gets it.
fn take_stdin() -> std::io::Result<OwnedFd> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(nothing)?;
    Ok(socket)
}
