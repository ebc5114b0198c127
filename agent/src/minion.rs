//! `salt-minion` and the processes of its jobs.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use cli::background;
use cli::config::{self, Loaded};
use cli::failure::{Exit, Failure};
use cli::log::Logger;
use cli::options::{self, About, DaemonAsked, SALT_MINION};
use minion::Daemon;
use render::yaml::SaltYaml;
use state::opts::Opts;
use value::{Map, log};

use crate::version;

/// The word that starts the process of a job.
pub(crate) const JOB: &str = "job";

fn loaded(dir: &Path, overrides: Map) -> Result<Loaded, Failure> {
    let loaded = config::load(dir, overrides, &SaltYaml)?;
    config::trusted(&loaded, rustix::process::geteuid().as_raw())?;
    Ok(loaded)
}

/// Runs `salt-minion` with these words.
///
/// # Errors
/// When the command line is wrong, or the configuration, the keys or the spool cannot be used.
pub(crate) fn run(words: Vec<String>) -> Result<ExitCode, Failure> {
    let env = |name: &str| std::env::var(name).ok();
    let daemon = options::Daemon::parse(&SALT_MINION, words.clone(), env)
        .map_err(|error| Failure::usage(&SALT_MINION, error))?;
    match daemon.asked {
        DaemonAsked::About(About::Help) => Ok(version::put(&SALT_MINION.help())),
        DaemonAsked::About(About::Version) => Ok(version::print(false)),
        DaemonAsked::About(About::VersionsReport) => Ok(version::print(true)),
        DaemonAsked::Run { background: true } => background::start(&SALT_MINION, &words),
        DaemonAsked::Run { background: false } => stay(daemon),
    }
}

fn stay(daemon: options::Daemon) -> Result<ExitCode, Failure> {
    let dir = daemon.settings.config_dir;
    let loaded = loaded(&dir, daemon.settings.overrides)?;
    let _first = Logger::from_opts(&loaded.opts).install();
    loaded.warnings.iter().for_each(log::warning);
    crate::call::keep_id(&loaded);
    let settings = minion::Settings {
        opts: Opts::new(loaded.opts),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        job: vec![own_program(), JOB.into(), dir.into()],
        reload,
    };
    let ended = Daemon::open(settings).and_then(Daemon::run);
    ended.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(Exit::Ok.into())
}

/// The configuration as it is now, of the folder that another one came from.
fn reload(opts: &Opts) -> Result<Opts, String> {
    let dir = opts.path("conf_file");
    let dir = dir.parent().unwrap_or_else(|| Path::new("/etc/salt"));
    let loaded = config::load(dir, Map::new(), &SaltYaml).and_then(|loaded| {
        config::trusted(&loaded, rustix::process::geteuid().as_raw())?;
        Ok(loaded)
    });
    loaded
        .map(|loaded| Opts::new(loaded.opts))
        .map_err(|error| error.to_string())
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
        return Err(Failure::new(
            Exit::Usage,
            "a minion's daemon starts its jobs",
        ));
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
