//! The common parts of `salt`, `salt-run`, `salt-key` and `salt-cp`: configuration, help and version, input
//! and exit codes.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cli::failure::{Exit, Failure};
use cli::options::{KeyOptions, SALT_CP, SaltCp, SaltCpOptions, SaltRunOptions};
use cli::options::{
    Program, SALT, SALT_KEY, SALT_RUN, Salt, SaltKey, SaltOptions, SaltRun, Settings,
    read_saltfile, saltfile_path,
};
use cli::output::heed_no_color;
use cli::progress;
use render::yaml::SaltYaml;
use state::opts::Opts;
use value::hint::nearest;
use value::{Map, Value};
use wire::Wheel;

use crate::commands::applets;
use crate::commands::interrupt;
use crate::commands::local_client::{AskError, Master, Socket};
use crate::commands::login::{self, NoLogin};
use crate::commands::{salt, salt_cp, salt_key, salt_run};
use crate::daemon;
use crate::store;
use cli::output::Screen;
use modules::loader::call::joined;
use modules::state_run::unknown_argument;
use state::module::Module;

/// The hint for a command line of `salt` without a target or a function.
const INCOMPLETE_HINT: &str =
    "Hint: name the minions and a function: salt '*' test.ping; salt --help lists the options\n";

/// Runs `salt` with these words.
///
/// # Errors
/// When the command line, the configuration or the output file is wrong.
pub(crate) fn salt(words: Vec<String>) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT, error);
    let mut line = Salt::parse(words, stdin, env).map_err(usage)?;
    match &line.request {
        SaltOptions::About(about) => return Ok(applets::about(&SALT, *about)),
        SaltOptions::Incomplete { help, message } => {
            // The help has a hundred lines, and would hide the line that matters.
            let (usage, hint) = match help {
                true => (SALT.usage_line() + "\n", INCOMPLETE_HINT),
                false => (String::new(), ""),
            };
            cli::failure::complain(&format!("{usage}{message}{hint}"));
            return Ok(ExitCode::from(salt::INCOMPLETE));
        }
        _ => {}
    }
    let opts = configured(&SALT, &mut line.settings)?;
    interrupt::watch();
    let socket = login::socket(&opts, &line.settings.login);
    with_screen(&opts, &line.settings, |screen| match &socket {
        Ok(socket) => salt::run(&line, &opts, socket, screen),
        Err(error) => no_login(error, salt::NOTHING, screen),
    })
}

/// Runs `salt-run` with these words.
///
/// # Errors
/// When the command line, the configuration or the output file is wrong.
pub(crate) fn salt_run(words: Vec<String>) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT_RUN, error);
    let mut line = SaltRun::parse(words, stdin, env).map_err(usage)?;
    if let SaltRunOptions::About(about) = line.request {
        return Ok(applets::about(&SALT_RUN, about));
    }
    let opts = configured(&SALT_RUN, &mut line.settings)?;
    let runs_states =
        matches!(&line.request, SaltRunOptions::Call { fun, .. } if fun.starts_with("state."));
    if runs_states || progress::is_asked(&opts) {
        progress::start(&opts, line.settings.output_file.as_ref(), env)
            .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    }
    interrupt::watch();
    let socket = login::socket(&opts, &line.settings.login);
    with_screen(&opts, &line.settings, |screen| match &socket {
        Ok(socket) => {
            let runners = crate::runners::REGISTRY.runners;
            salt_run::run(&line, &opts, runners, socket, screen)
        }
        Err(error) => no_login(error, Exit::Generic as u8, screen),
    })
}

/// Runs `salt-key` with these words.
///
/// # Errors
/// When the command line, the configuration or the output file is wrong.
pub(crate) fn salt_key(words: Vec<String>) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT_KEY, error);
    let mut line = SaltKey::parse(words, env).map_err(usage)?;
    if let KeyOptions::About(about) = line.request {
        return Ok(applets::about(&SALT_KEY, about));
    }
    let opts = configured(&SALT_KEY, &mut line.settings)?;
    let socket = login::socket(&opts, &line.settings.login);
    with_screen(&opts, &line.settings, |screen| match &socket {
        Ok(socket) => {
            let wheel = |fun: &str, kwargs: Map| wheel(&opts, socket, fun, kwargs);
            salt_key::run(&line, &opts, &wheel, &mut answer, screen)
        }
        Err(error) => no_login(error, Exit::Generic as u8, screen),
    })
}

/// Runs `salt-cp` with these words.
///
/// # Errors
/// When the command line, the configuration or the output file is wrong.
pub(crate) fn salt_cp(words: Vec<String>) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT_CP, error);
    let mut line = SaltCp::parse(words, env).map_err(usage)?;
    let (target, sources, dest, chunked) = match &line.request {
        SaltCpOptions::About(about) => return Ok(applets::about(&SALT_CP, *about)),
        SaltCpOptions::Copy {
            target,
            sources,
            dest,
            chunked,
        } => (target, sources, dest, *chunked),
    };
    let copy = salt_cp::Copy {
        target,
        sources,
        dest,
        chunked,
    };
    let opts = configured(&SALT_CP, &mut line.settings)?;
    interrupt::watch();
    with_screen(&opts, &line.settings, |screen| {
        salt_cp::run(&copy, &opts, &Socket::from_opts(&opts), screen)
    })
}

/// The pause before the store is tried again while another process holds it.
const AGAIN: Duration = Duration::from_millis(20);

/// Calls a wheel function in the running master, or in this process if no master runs.
fn wheel(opts: &Map, socket: &Socket, fun: &str, kwargs: Map) -> Result<Value, AskError> {
    let (fun, arg) = (fun.to_owned(), joined(Vec::new(), kwargs));
    let request = Wheel {
        fun: fun.clone(),
        arg: arg.clone(),
    };
    let began = Instant::now();
    loop {
        let request = request.clone().into();
        let asked = socket.ask(request, &mut |_| ControlFlow::Continue(()));
        let Err(AskError::NotRunning(_)) = asked else {
            return asked;
        };
        let done = daemon::wheel_alone(Opts::new(opts.clone()), &fun, arg.clone());
        let error = match done {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if !error.is_locked() || began.elapsed() > store::LOCK_MAX {
            let reason = match error {
                daemon::Error::NotRunning => "refused",
                _ => "failed",
            };
            let (reason, text) = (reason.to_owned(), error.to_string());
            return Err(AskError::Failed { reason, text });
        }
        // Another command holds the store, or a master that has not opened its socket yet.
        std::thread::sleep(AGAIN);
    }
}

/// Prints why a command has no login, as Salt does, and returns the exit code. `refused` is the one of
/// a refusal.
fn no_login(error: &NoLogin, refused: u8, screen: &mut Screen<'_>) -> u8 {
    match error {
        NoLogin::Unknown(text) => {
            screen.say(text);
            screen.complain("ERROR: Authentication failed\n");
            salt::NOTHING
        }
        NoLogin::Unasked(error) => {
            screen.complain(&format!("ERROR: Authentication failed: {error}\n"));
            salt::NOTHING
        }
        NoLogin::Refused(error) => {
            screen.show(&Value::from(error.to_string()), Some(""), 1);
            refused
        }
    }
}

/// Returns the options of one of the master's programs. Starts the log and logs the configuration's
/// warnings.
fn configured(program: &Program, settings: &mut Settings) -> Result<Map, Failure> {
    if let Some(path) = saltfile_path(&settings.overrides, env) {
        let saltfile = read_saltfile(&path, &SaltYaml);
        settings.merge_saltfile(&saltfile.map_err(|error| Failure::usage(program, error))?);
    }
    let mut opts = applets::configured(settings)?.map;
    heed_no_color(&mut opts, env);
    Ok(opts)
}

fn with_screen(
    opts: &Map,
    settings: &Settings,
    run: impl FnOnce(&mut Screen<'_>) -> u8,
) -> Result<ExitCode, Failure> {
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let file = settings.output_file.as_ref();
    let mut screen = Screen::new(&mut out, &mut err, opts, file, &SaltYaml)
        .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    Ok(ExitCode::from(run(&mut screen)))
}

fn stdin() -> std::io::Result<String> {
    std::io::read_to_string(std::io::stdin())
}

/// Reads one line from the user; returns `None` at the end of the input.
fn answer() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end_matches('\n').to_owned())
}

pub(super) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Refuses keyword arguments of `state.*` that the function does not take. Prints the error and
/// returns the exit code if there is one.
pub(crate) fn refused(
    modules: &[Module<Value>],
    fun: &str,
    kwargs: &Map,
    screen: &mut Screen<'_>,
) -> Option<u8> {
    let unknown = unknown_argument(modules, fun, kwargs)?;
    let failure = Failure::new(Exit::Usage, unknown.text).hints(unknown.hint);
    screen.complain(&failure.text());
    Some(Exit::Usage as u8)
}

/// Returns a hint if a return says that its function is not available, and a known function has a
/// similar name.
pub(crate) fn near_function(modules: &[Module<Value>], text: &str) -> Option<String> {
    let (name, _) = text.strip_prefix('\'')?.split_once("' is not available.")?;
    let names: Vec<String> = modules
        .iter()
        .flat_map(|module| {
            let functions = module.functions.iter();
            functions.map(|function| format!("{}.{}", module.name, function.name))
        })
        .collect();
    let near = nearest(name, names.iter().map(String::as_str))?;
    Some(format!("did you mean '{near}'?"))
}

/// Returns whether an option of the configuration is true in Python's sense.
pub(crate) fn flag(opts: &Map, name: &str) -> bool {
    opts.get(name).is_some_and(Value::is_true)
}

/// Returns a number of the configuration, which may be quoted.
pub(crate) fn number(opts: &Map, name: &str) -> Option<f64> {
    let value = opts.get(name)?;
    value
        .as_float()
        .or_else(|| value.as_str()?.trim().parse().ok())
}

/// Returns an exit code as the system has it: modulo 256.
pub(crate) fn exit_code(retcode: i64) -> u8 {
    retcode.rem_euclid(256) as u8
}

#[cfg(test)]
mod tests;
