//! Runs commands in a container.

use machine::process::{Output, Process};
use python::shlex;
use state::module::Error;
use value::{Map, Value};

use super::client::{Client, WORK_SECONDS_MAX};
use super::with_input;

/// The search path for a command that does not keep the environment of the container.
const PATH: &str = "PATH=/bin:/usr/bin:/sbin:/usr/sbin:/opt/bin:/usr/local/bin:/usr/local/sbin";

/// Runs a command in a container without a shell. The command gets only the variables that are to
/// be kept.
///
/// # Errors
/// When the command is not valid, or the container does not run.
pub(super) fn run(
    client: &Client<'_>,
    name: &str,
    cmd: &str,
    kwargs: &Map,
) -> Result<Output, Error> {
    let found = super::containers::state(client, name)?;
    if found != "running" {
        return Err(Error::refused(format!("Container '{name}' is not running")));
    }
    let input = kwargs
        .get("stdin")
        .filter(|input| input.is_true())
        .map(Value::to_text);
    let words = variables(kwargs.get("keep_env"));
    let words: Vec<String> = std::iter::once(name.to_owned())
        .chain(words)
        .chain(shlex::split(cmd)?)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let interactive = input.as_ref().map(|_| "--interactive");
    let process = client.command(&["exec"], interactive, &words);
    let process = Process {
        ignore_retcode: kwargs.get("ignore_retcode").is_some_and(Value::is_true),
        ..with_input(process, &input.unwrap_or_default(), WORK_SECONDS_MAX)
    };
    let output = client.run(&process, "exec")?;
    if output.retcode != Some(0) && !process.ignore_retcode {
        client.cx.set_retcode(1);
    }
    Ok(output)
}

/// Returns the words in front of the command. There are none if the command keeps the environment
/// of the container.
fn variables(keep: Option<&Value>) -> Vec<String> {
    if matches!(keep, Some(Value::Bool(true))) {
        return Vec::new();
    }
    let keep = match keep {
        Some(keep) if !matches!(keep, Value::Bool(_) | Value::Null) => super::words(keep),
        _ => Vec::new(),
    };
    let mut words = vec!["env".to_owned(), "-i".to_owned()];
    if !keep.iter().any(|name| name == "PATH") {
        words.push(PATH.to_owned());
    }
    let own = |name: &String| Some(format!("{name}={}", std::env::var(name).ok()?));
    words.extend(keep.iter().filter_map(own));
    words
}
