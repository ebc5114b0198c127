//! What `salt`, `salt-run` and `salt-key` have in common: their configuration, what they say of themselves, how they end.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use cli::config;
use cli::failure::{Exit, Failure};
use cli::log::Logger;
use cli::options::{
    About, Program, SALT, SALT_KEY, SALT_RUN, Salt, SaltAsked, SaltKey, SaltRun, Settings,
    read_saltfile, saltfile_path,
};
use cli::options::{KeyAsked, RunAsked};
use render::yaml::SaltYaml;
use state::module::Module;
use value::{Map, Value, log};

use crate::ask::{AskError, Socket};
use crate::screen::Screen;
use crate::{salt, salt_key, salt_run};

/// The Salt whose behaviour this is.
const LIKE: &str = "3008.5";

/// Runs `salt` with these words.
///
/// # Errors
/// When the command line, the configuration or the output file is wrong.
pub(crate) fn salt(words: Vec<String>) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT, error);
    let mut line = Salt::parse(words, stdin, env).map_err(usage)?;
    match &line.asked {
        SaltAsked::About(about) => return Ok(print(&self::about(&SALT, *about))),
        SaltAsked::Incomplete { help, message } => {
            if *help {
                print(&SALT.help());
            }
            eprint(message);
            return Ok(ExitCode::from(salt::INCOMPLETE));
        }
        _ => {}
    }
    let opts = configured(&SALT, &mut line.settings)?;
    with_screen(&opts, &line.settings, |screen| {
        salt::run(&line, &opts, &Socket::of(&opts), screen)
    })
}

/// Runs `salt-run` with these words; `runners` are those that it can explain.
///
/// # Errors
/// When the command line, the configuration or the output file is wrong.
pub(crate) fn salt_run(words: Vec<String>, runners: &[Module<Value>]) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT_RUN, error);
    let mut line = SaltRun::parse(words, stdin, env).map_err(usage)?;
    if let RunAsked::About(about) = line.asked {
        return Ok(print(&self::about(&SALT_RUN, about)));
    }
    let opts = configured(&SALT_RUN, &mut line.settings)?;
    with_screen(&opts, &line.settings, |screen| {
        salt_run::run(&line, &opts, runners, &Socket::of(&opts), screen)
    })
}

/// Runs `salt-key` with these words; `wheel` does the work by the options, a function's name and its named arguments: through a master
/// that runs, else on its store.
///
/// # Errors
/// When the command line, the configuration or the output file is wrong.
pub(crate) fn salt_key(
    words: Vec<String>,
    wheel: impl Fn(&Map, &str, Map) -> Result<Value, AskError>,
) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT_KEY, error);
    let mut line = SaltKey::parse(words, env).map_err(usage)?;
    if let KeyAsked::About(about) = line.asked {
        return Ok(print(&self::about(&SALT_KEY, about)));
    }
    let opts = configured(&SALT_KEY, &mut line.settings)?;
    let wheel = |fun: &str, kwargs: Map| wheel(&opts, fun, kwargs);
    with_screen(&opts, &line.settings, |screen| {
        salt_key::run(&line, &opts, &wheel, &mut answer, screen)
    })
}

/// The options of a program of the master, with the log set up and the user warned.
///
/// # Errors
/// When the Saltfile or the configuration is wrong.
pub(crate) fn configured(program: &Program, settings: &mut Settings) -> Result<Map, Failure> {
    if let Some(path) = saltfile_path(&settings.overrides, env) {
        let saltfile = read_saltfile(&path, &SaltYaml);
        settings.merge_saltfile(&saltfile.map_err(|error| Failure::usage(program, error))?);
    }
    let loaded = config::load_master(
        &settings.config_dir,
        program.name,
        settings.overrides.clone(),
        &SaltYaml,
    )
    .map_err(|error| Failure::new(Exit::Generic, error))?;
    let _first = Logger::from_opts(&loaded.opts).install();
    loaded.warnings.iter().for_each(log::warning);
    Ok(loaded.opts)
}

/// What a program says of itself.
pub(crate) fn about(program: &Program, about: About) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match about {
        About::Help => program.help(),
        About::Version => format!("pinch-master {version} (behaves as salt {LIKE})\n"),
        About::VersionsReport => format!("Pinch: {version}\nBehaves as Salt: {LIKE}\n"),
    }
}

/// Prints on stdout and is content.
pub(crate) fn print(text: &str) -> ExitCode {
    let (mut out, mut err) = (std::io::stdout(), std::io::sink());
    if let Ok(mut screen) = Screen::new(&mut out, &mut err, &Map::new(), None) {
        screen.put(text);
    }
    Exit::Ok.into()
}

fn eprint(text: &str) {
    let (mut out, mut err) = (std::io::sink(), std::io::stderr());
    if let Ok(mut screen) = Screen::new(&mut out, &mut err, &Map::new(), None) {
        screen.complain(text);
    }
}

fn with_screen(
    opts: &Map,
    settings: &Settings,
    run: impl FnOnce(&mut Screen<'_>) -> u8,
) -> Result<ExitCode, Failure> {
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let file = settings.output_file.as_ref();
    let mut screen = Screen::new(&mut out, &mut err, opts, file)
        .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    Ok(ExitCode::from(run(&mut screen)))
}

fn stdin() -> String {
    let mut text = String::new();
    // What cannot be read adds no words.
    let _ = std::io::stdin().read_to_string(&mut text);
    text
}

/// One line from the user; none at the end of the input.
fn answer() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end_matches('\n').to_owned())
}

/// Whether progress can be drawn.
pub(crate) fn draws() -> bool {
    std::io::stderr().is_terminal()
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// True when an option of the configuration is set to something.
pub(crate) fn flag(opts: &Map, name: &str) -> bool {
    opts.get(name).is_some_and(Value::is_true)
}

/// A number of the configuration, which may be in quotes.
pub(crate) fn number(opts: &Map, name: &str) -> Option<f64> {
    let value = opts.get(name)?;
    value
        .as_float()
        .or_else(|| value.as_str()?.trim().parse().ok())
}

/// An exit code as the system takes it.
pub(crate) fn exit_code(retcode: i64) -> u8 {
    retcode.rem_euclid(256) as u8
}
