//! Runs `salt-minion`, and the processes of its jobs.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cli::background::{self, PidFile};
use cli::binary::{self, PINCH};
use cli::config::{self, ConfigError, Loaded};
use cli::failure::{Exit, Failure};
use cli::heap;
use cli::log::Logger;
use cli::options::{self, DaemonOptions, SALT_MINION};
use cli::resident;
use minion::Daemon;
use render::yaml::SaltYaml;
use state::opts::Opts;
use value::{Map, log};

/// The first argument of a job's process.
pub(crate) const JOB: &str = "job";

fn loaded(dir: &Path, overrides: Map) -> Result<Loaded, ConfigError> {
    let loaded = config::load(dir, overrides, &SaltYaml)?;
    config::trusted(&loaded, rustix::process::geteuid().as_raw())?;
    Ok(loaded)
}

/// Runs `salt-minion` with the arguments `words`.
///
/// # Errors
/// If the command line is wrong, or the configuration, the keys or the spool cannot be used.
pub(crate) fn run(words: Vec<String>) -> Result<ExitCode, Failure> {
    let env = |name: &str| std::env::var(name).ok();
    let daemon = options::Daemon::parse(&SALT_MINION, words.clone(), env)
        .map_err(|error| Failure::usage(&SALT_MINION, error))?;
    match daemon.request {
        DaemonOptions::About(about) => Ok(PINCH.tell(&SALT_MINION, about)),
        DaemonOptions::Run { background: true } => {
            let settings = daemon.settings;
            let loaded = loaded(&settings.config_dir, settings.overrides)?;
            let pidfile = Opts::new(loaded.opts).path("pidfile");
            background::start(&SALT_MINION, &words, &pidfile)
        }
        DaemonOptions::Run { background: false } => stay(daemon),
    }
}

fn stay(daemon: options::Daemon) -> Result<ExitCode, Failure> {
    let token = token()?;
    let dir = daemon.settings.config_dir;
    let mut overrides = daemon.settings.overrides;
    if let Some(token) = token {
        overrides.insert("enroll_token", token);
    }
    let loaded = loaded(&dir, overrides.clone())?;
    let _first = Logger::from_opts(&loaded.opts).install();
    loaded.warnings.iter().for_each(log::warning);
    crate::call::keep_id(&loaded);
    let settings = minion::Settings {
        opts: Opts::new(loaded.opts),
        dir: dir.clone(),
        overrides: overrides.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        job: vec![own_program()?.into(), JOB.into(), dir.into()],
        reload,
        at_rest: (resident::AT_REST, || {
            resident::let_code_go();
        }),
        notify: link::Notify::to(std::env::var_os("NOTIFY_SOCKET").as_deref())
            .with_watchdog(std::env::var("WATCHDOG_USEC").ok().as_deref()),
    };
    let ended = Daemon::open(settings).and_then(|daemon| {
        let _until_it_ends = PidFile::asked_for(&overrides);
        daemon.run()
    });
    ended.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(Exit::Ok.into())
}

/// The environment variable that may contain an enrolment token.
const TOKEN: &str = "PINCH_TOKEN";
/// The value of the variable if the token is on stdin.
const ON_STDIN: &str = "-";
/// The maximum number of bytes read of the token.
const TOKEN_MAX: u64 = 4096;

/// Returns the enrolment token of the environment. The system shows a process's initial environment
/// to every process of the same user. The program therefore executes itself once more without the
/// token in its environment, and reads it from a pipe.
#[expect(
    clippy::disallowed_methods,
    reason = "the process replaces itself and starts no child"
)]
fn token() -> Result<Option<String>, Failure> {
    let failed = |error: std::io::Error| Failure::new(Exit::Generic, error);
    let Some(token) = std::env::var(TOKEN).ok().filter(|token| !token.is_empty()) else {
        return Ok(None);
    };
    if token == ON_STDIN {
        let mut token = String::new();
        let stdin = std::io::stdin().take(TOKEN_MAX);
        std::io::BufReader::new(stdin)
            .read_to_string(&mut token)
            .map_err(failed)?;
        return Ok(Some(token.trim().to_owned()).filter(|token| !token.is_empty()));
    }
    let (reader, mut writer) = std::io::pipe().map_err(failed)?;
    // A pipe buffers this many bytes even if no process reads it yet.
    let token = token.bytes().take(TOKEN_MAX as usize).collect::<Vec<u8>>();
    writer.write_all(&token).map_err(failed)?;
    drop(writer);
    let error = std::process::Command::new(own_program()?)
        .args(std::env::args_os().skip(1))
        .arg0(std::env::args_os().next().unwrap_or_default())
        .env(TOKEN, ON_STDIN)
        .stdin(reader)
        .exec();
    Err(failed(error))
}

/// Returns the options of the current configuration files.
fn reload(dir: &Path, overrides: Map) -> Result<Opts, String> {
    let loaded = loaded(dir, overrides).map_err(|error| error.to_string())?;
    Ok(Opts::new(loaded.opts))
}

/// Returns the path of this program's own executable, even if a newer version has replaced it. A
/// job must speak the same protocol as its daemon.
fn own_program() -> Result<PathBuf, Failure> {
    binary::own_program().map_err(|error| Failure::new(Exit::Software, error))
}

/// Does one job: `pinch job DIR JID`, with its daemon's socket as stdin.
///
/// # Errors
/// If no daemon started this process, or the daemon has ended.
pub(crate) fn job(words: &[String]) -> Result<ExitCode, Failure> {
    let Some(dir) = words.first() else {
        return Err(Failure::new(
            Exit::Usage,
            "`job` is internal: only the minion daemon starts it",
        ));
    };
    heap::claim();
    let socket = take_stdin().map_err(|error| Failure::new(Exit::Generic, error))?;
    let loaded = loaded(Path::new(dir), Map::new())?;
    let _first = Logger::from_opts(&loaded.opts).install();
    let done = minion::job::run(Opts::new(loaded.opts), socket);
    done.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(Exit::Ok.into())
}

/// Takes the socket from stdin and replaces stdin by `/dev/null`, so that no command of the job
/// inherits the socket.
fn take_stdin() -> std::io::Result<OwnedFd> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    // A chroot may have no `/dev`. The read end of a pipe without a writer is just as empty.
    let nothing = match std::fs::File::open("/dev/null") {
        Ok(null) => OwnedFd::from(null),
        Err(_) => OwnedFd::from(std::io::pipe()?.0),
    };
    rustix::stdio::dup2_stdin(nothing)?;
    Ok(socket)
}
