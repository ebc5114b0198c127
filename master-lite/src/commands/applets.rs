//! The applets by name, and how each of them starts.

use std::process::ExitCode;

use cli::background::{self, PidFile};
use cli::binary::PINCH;
use cli::config::{self, Loaded};
use cli::failure::{Exit, Failure};
use cli::log::Logger;
use cli::options::{About, Daemon, DaemonOptions, Program, SALT_MASTER, Settings};
use render::yaml::SaltYaml;
use state::opts::Opts;
use value::log;

use crate::commands::command;
use crate::daemon;

/// A function that runs an applet with its arguments.
pub type Applet = fn(Vec<String>) -> Result<ExitCode, Failure>;

const APPLETS: &[(&str, Applet)] = &[
    ("salt-master", master),
    ("salt", command::salt),
    ("salt-run", command::salt_run),
    ("salt-key", command::salt_key),
    ("salt-cp", command::salt_cp),
];

/// Returns the applet with this name.
#[must_use]
pub fn named(name: &str) -> Option<Applet> {
    let found = APPLETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, applet)| *applet)
}

/// Prints a program's help or version.
pub(crate) fn about(program: &Program, about: About) -> ExitCode {
    PINCH.tell(program, about)
}

/// Loads the configuration of one of the master's programs, and starts its log.
pub(crate) fn configured(settings: &Settings) -> Result<Opts, Failure> {
    Ok(begun(loaded(settings)?))
}

/// Like [`configured`], but for the daemon, which refuses a configuration that another user could
/// change.
fn trusted(settings: &Settings) -> Result<Opts, Failure> {
    let loaded = loaded(settings)?;
    config::trusted(&loaded, rustix::process::geteuid().as_raw())?;
    Ok(begun(loaded))
}

/// Reads the current configuration, with the same check as [`trusted`].
fn reread(settings: &Settings) -> Result<Opts, String> {
    let overrides = settings.overrides.clone();
    let loaded = config::load_master(&settings.config_dir, settings.program, overrides, &SaltYaml);
    let loaded = loaded.map_err(|error| error.to_string())?;
    let trusted = config::trusted(&loaded, rustix::process::geteuid().as_raw());
    trusted.map_err(|error| error.to_string())?;
    Ok(Opts::new(loaded.opts))
}

fn loaded(settings: &Settings) -> Result<Loaded, Failure> {
    let overrides = settings.overrides.clone();
    let loaded = config::load_master(&settings.config_dir, settings.program, overrides, &SaltYaml);
    loaded.map_err(|error| Failure::new(Exit::Generic, error))
}

fn begun(loaded: Loaded) -> Opts {
    let _first = Logger::from_opts(&loaded.opts).install();
    loaded.warnings.iter().for_each(log::warning);
    Opts::new(loaded.opts)
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn master(words: Vec<String>) -> Result<ExitCode, Failure> {
    let asked = Daemon::parse(&SALT_MASTER, words.clone(), env)
        .map_err(|error| Failure::usage(&SALT_MASTER, error))?;
    match asked.request {
        DaemonOptions::About(what) => Ok(about(&SALT_MASTER, what)),
        DaemonOptions::Run { background: true } => {
            let pidfile = configured(&asked.settings)?.path("pidfile");
            background::start(&SALT_MASTER, &words, &pidfile)
        }
        DaemonOptions::Run { background: false } => {
            let opts = trusted(&asked.settings)?;
            let socket = std::env::var_os("NOTIFY_SOCKET");
            let notify = link::Notify::to(socket.as_deref())
                .with_watchdog(std::env::var("WATCHDOG_USEC").ok().as_deref());
            let pid_file = || PidFile::asked_for(&asked.settings.overrides);
            let reread = || reread(&asked.settings);
            let ended = daemon::run(opts, &notify, &reread, pid_file);
            ended.map_err(|error| Failure::new(Exit::Generic, error))?;
            Ok(Exit::Ok.into())
        }
    }
}
