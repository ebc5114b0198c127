//! The `pecl` execution module: PHP's extensions. Salt 3008 has it no more; answers are those of its last one.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::tool;
use crate::process::Process;

state::exec_module! {
    /// PHP's extensions (`pecl`).
    mod pecl;

    /// Install extensions.
    fn install(Install {
        /// An extension, or several.
        pecls: Value,
        /// Take the default wherever it asks.
        defaults: bool = false,
        /// Install what is there already, too.
        force: bool = false,
        /// How ready a version must be.
        preferred_state: String = "stable".into(),
    });

    /// Remove extensions.
    fn uninstall(Uninstall {
        /// An extension, or several.
        pecls: Value,
    });

    /// Bring extensions up to date.
    fn update(Update {
        /// An extension, or several.
        pecls: Value,
    });

    /// Extensions with their versions and states.
    fn list(List {
        /// The channel.
        channel: Option<String> = None,
    });
}

/// Lines with nothing in them: as many questions as it may ask.
const QUESTIONS_MAX: usize = 1000;

/// What pecl says; nothing where it fails.
fn run(cx: &Exec, words: &[&str], names: &[String], defaults: bool) -> Result<String, Error> {
    for name in names {
        tool::is_name("extension", name)?;
    }
    let words = ["pecl"].iter().chain(words).copied();
    let process = Process {
        stdin: defaults.then(|| "\n".repeat(QUESTIONS_MAX)),
        ..Process::words(words.chain(names.iter().map(String::as_str)))
    };
    let output = process.run(cx)?;
    if !output.success() {
        log::error(format_args!("Problem running pecl. Is php-pear installed?"));
        return Ok(String::new());
    }
    Ok(output.stdout)
}

/// Extensions with their versions and states.
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

/// Installs extensions: whether it is done.
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
        // Salt is content with any extension of the channel.
        let channel = name.split_once('/').map(|(channel, _)| channel);
        if listed(cx, channel)?.is_empty() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

/// Removes extensions: what pecl says of it.
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
