//! The `pecl` execution module: PHP extensions. Salt 3008 no longer has this module; the answers
//! are those of the last version that had it.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::tool;

state::exec_module! {
    /// Manage PHP extensions with `pecl`.
    #[needs("pecl", "The pecl execution module not loaded: pecl binary is not in the path.", "php-pear")]
    mod pecl;

    /// Install extensions.
    ///
    ///     salt-call pecl.install redis
    fn install(Install {
        /// The name of an extension, or a list of names.
        pecls: Value,
        /// Answer each question of pecl with its default.
        defaults: bool = false,
        /// Also install extensions that are already installed.
        force: bool = false,
        /// The minimum stability of a version, such as `stable` or `beta`.
        preferred_state: String = "stable".into(),
    });

    /// Remove extensions.
    ///
    ///     salt-call pecl.uninstall redis
    fn uninstall(Uninstall {
        /// The name of an extension, or a list of names.
        pecls: Value,
    });

    /// Update extensions.
    ///
    ///     salt-call pecl.update redis
    fn update(Update {
        /// The name of an extension, or a list of names.
        pecls: Value,
    });

    /// Return the installed extensions with their versions and states.
    ///
    ///     salt-call pecl.list
    fn list(List {
        /// The channel to list; the default channel of pecl if not given.
        channel: Option<String> = None,
    });
}

/// The maximum number of questions that are answered with an empty line.
const QUESTIONS_MAX: usize = 1000;

/// Runs pecl and returns its output, or an empty string if it fails.
fn run(cx: &Exec, words: &[&str], names: &[String], defaults: bool) -> Result<String, Error> {
    for name in names {
        tool::is_name("extension", name)?;
    }
    let words = ["pecl"].iter().chain(words).copied();
    let process = Process {
        stdin: defaults.then(|| "\n".repeat(QUESTIONS_MAX)),
        ..Process::words(words.chain(names.iter().map(String::as_str)))
    };
    Ok(process.run(cx)?.into_success().unwrap_or_else(|_| {
        log::error(format_args!("Problem running pecl. Is php-pear installed?"));
        String::new()
    }))
}

/// Returns the installed extensions with their versions and states.
///
/// # Errors
/// When the program is missing.
pub(crate) fn listed(cx: &Exec, channel: Option<&str>) -> Result<Map, Error> {
    let mut words = vec!["list"];
    words.extend(channel.into_iter().flat_map(|channel| ["-c", channel]));
    let said = run(cx, &words, &[], false)?;
    let entry = |line: &str| {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let name = words.next().filter(|_| !line.starts_with(' '))?;
        let about = [words.next()?.into(), words.next()?.into()];
        Some((Value::from(name), Value::list(about)))
    };
    Ok(said.lines().filter_map(entry).collect())
}

/// Installs extensions and returns whether they are installed.
///
/// # Errors
/// When the program is missing.
pub(crate) fn installed(
    cx: &Exec,
    names: &[String],
    defaults: bool,
    force: bool,
    preferred_state: &str,
) -> Result<Value, Error> {
    let state = format!("preferred_state={preferred_state}");
    let mut words = vec!["-d", &state, "install"];
    if force {
        words.push("-f");
        return Ok(run(cx, &words, names, defaults)?.into());
    }
    run(cx, &words, names, defaults)?;
    for name in names {
        // As in Salt, any installed extension of the channel is sufficient.
        let channel = name.split_once('/').map(|(channel, _)| channel);
        if listed(cx, channel)?.is_empty() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

/// Removes extensions and returns the output of pecl.
///
/// # Errors
/// When the program is missing.
pub(crate) fn removed(cx: &Exec, names: &[String]) -> Result<String, Error> {
    run(cx, &["uninstall"], names, false)
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let names = tool::texts(&args.pecls);
    installed(cx, &names, args.defaults, args.force, &args.preferred_state)
}

fn uninstall(cx: &Exec, args: Uninstall) -> Result<Value, Error> {
    Ok(removed(cx, &tool::texts(&args.pecls))?.into())
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let names = tool::texts(&args.pecls);
    Ok(run(cx, &["install", "-U"], &names, false)?.into())
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    Ok(listed(cx, args.channel.as_deref())?.into())
}
