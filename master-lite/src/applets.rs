//! The applets by their names, and how each of them begins.

use std::io::Write;
use std::process::ExitCode;

use cli::background;
use cli::config::{self, Loaded};
use cli::failure::{Exit, Failure};
use cli::log::Logger;
use cli::options::{About, Daemon, DaemonAsked, Program, SALT_MASTER, Settings};
use render::yaml::SaltYaml;
use state::opts::Opts;
use value::log;

use crate::{command, daemon};

/// The Salt whose behaviour this is.
const SALT: &str = "3008.5";

/// Runs an applet with its words.
type Applet = fn(Vec<String>) -> Result<ExitCode, Failure>;

const APPLETS: &[(&str, Applet)] = &[
    ("salt-master", master),
    ("salt", command::salt),
    ("salt-run", command::salt_run),
    ("salt-key", command::salt_key),
];

/// The applet of a name.
pub(crate) fn named(name: &str) -> Option<Applet> {
    let found = APPLETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, applet)| *applet)
}

/// Runs what the first word names.
pub(crate) fn first(words: Vec<String>) -> Result<ExitCode, Failure> {
    let mut rest = words.into_iter();
    let first = rest.next().unwrap_or_default();
    match (named(&first), first.as_str()) {
        (Some(applet), _) => applet(rest.collect()),
        (None, "--version") => Ok(put(&version(false))),
        (None, "-V" | "--versions-report") => Ok(put(&version(true))),
        (None, "-h" | "--help") => Ok(put(&usage())),
        (None, "") => Err(Failure::new(Exit::Usage, "say which applet to run").hints([known()])),
        (None, other) => {
            let error = format!("'{other}' is no applet of pinch-master");
            Err(Failure::new(Exit::Usage, error).hints([known()]))
        }
    }
}

fn known() -> String {
    let names: Vec<&str> = APPLETS.iter().map(|(name, _)| *name).collect();
    format!("the applets are: {}", names.join(", "))
}

fn usage() -> String {
    format!("Usage: pinch-master APPLET [ARGUMENTS…]\n\n{}\n", known())
}

fn version(report: bool) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if report {
        format!("Pinch: {version}\nBehaves as Salt: {SALT}\n")
    } else {
        format!("pinch-master {version} (behaves as salt {SALT})\n")
    }
}

/// Writes to stdout; one who has stopped reading is no error.
pub(crate) fn put(text: &str) -> ExitCode {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Exit::Ok.into()
}

/// What a program says of itself.
pub(crate) fn about(program: &Program, about: About) -> ExitCode {
    match about {
        About::Help => put(&program.help()),
        About::Version => put(&version(false)),
        About::VersionsReport => put(&version(true)),
    }
}

/// The configuration of one of the master's programs, with its log begun.
pub(crate) fn configured(settings: &Settings) -> Result<Opts, Failure> {
    Ok(begun(loaded(settings)?))
}

/// The same for the daemon, which obeys only what nobody else can change.
fn trusted(settings: &Settings) -> Result<Opts, Failure> {
    let loaded = loaded(settings)?;
    config::trusted(&loaded, rustix::process::geteuid().as_raw())?;
    Ok(begun(loaded))
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
    match asked.asked {
        DaemonAsked::About(what) => Ok(about(&SALT_MASTER, what)),
        DaemonAsked::Run { background: true } => background::start(&SALT_MASTER, &words),
        DaemonAsked::Run { background: false } => {
            let opts = trusted(&asked.settings)?;
            let socket = std::env::var_os("NOTIFY_SOCKET");
            let ended = daemon::run(opts, &link::Notify::to(socket.as_deref()));
            ended.map_err(|error| Failure::new(Exit::Generic, error))?;
            Ok(Exit::Ok.into())
        }
    }
}
