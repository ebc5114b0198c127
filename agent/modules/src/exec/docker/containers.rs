//! Containers: creates, starts, stops, connects and removes them.

use std::time::Instant;

use machine::process::{Process, Stderr};
use state::module::Error;
use value::{Map, Value};

use super::client::{Client, Kind, WORK_SECONDS_MAX, program_error};
use super::compare::{self, from_to};
use super::create::{self, CreateOptions, Wanted};
use super::images;

/// The time that a container has to stop if neither the caller nor the container sets one, in
/// seconds.
const SHUTDOWN_SECONDS: i64 = 10;

/// The prefix for the name of a temporary container that is created only for a comparison.
pub(crate) const WANTED: &str = "pinch-wanted-";

/// Returns the state of a container.
pub(crate) fn state_of(container: &Map) -> &'static str {
    let state = container.get("State");
    let is = |key: &str| {
        state
            .and_then(|state| state.get(key))
            .is_some_and(Value::is_true)
    };
    match (is("Paused"), is("Running")) {
        (true, _) => "paused",
        (false, true) => "running",
        (false, false) => "stopped",
    }
}

/// Returns the state of a container that must exist.
///
/// # Errors
/// When the container does not exist.
pub(crate) fn state(client: &Client<'_>, name: &str) -> Result<&'static str, Error> {
    Ok(state_of(&client.inspect(Kind::Container, name)?))
}

fn state_or_gone(client: &Client<'_>, name: &str) -> Result<Option<&'static str>, Error> {
    let found = client.found(Kind::Container, name)?;
    Ok(found.as_ref().map(state_of))
}

/// Returns the names of all containers, or only of those that run.
///
/// # Errors
/// When the program fails.
pub(crate) fn names(client: &Client<'_>, all: bool) -> Result<Vec<String>, Error> {
    let mut options = vec!["--format={{.Names}}".to_owned()];
    if all {
        options.push("--all".into());
    }
    let said = client.tell(&["ps"], &options, &[])?;
    let own = |names: &str| -> Vec<String> { names.split(',').map(str::to_owned).collect() };
    let mut names: Vec<String> = said
        .lines()
        .flat_map(own)
        .filter(|name| !name.contains('/'))
        .collect();
    value::sorted::sort(&mut names);
    Ok(names)
}

/// Runs a command that changes the state of a container, and compares the new state with the
/// expected one.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn change(
    client: &Client<'_>,
    name: &str,
    (verb, expected): (&str, &str),
    options: &[String],
) -> Result<Map, Error> {
    let before = state(client, name)?;
    if verb != "restart" && before == expected {
        return Ok(rejection(
            before,
            format!("Container '{name}' already {expected}"),
        ));
    }
    client.tell(&[verb], options, &[name])?;
    let after = state_or_gone(client, name)?;
    Ok(Map::new()
        .with("result", after == Some(expected))
        .with("state", from_to(before, after)))
}

fn rejection(state: &str, comment: String) -> Map {
    Map::new()
        .with("result", false)
        .with("state", from_to(state, state))
        .with("comment", comment)
}

/// Like [`change`], but refuses if the container is in the forbidden state.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn change_unless(
    client: &Client<'_>,
    name: &str,
    (verb, expected): (&str, &str),
    forbidden: &str,
) -> Result<Map, Error> {
    match state(client, name)? {
        before if before == forbidden => Ok(rejection(
            before,
            format!("Container '{name}' is {before}, cannot {verb}"),
        )),
        _ => change(client, name, (verb, expected), &[]),
    }
}

/// Starts a container.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn start(client: &Client<'_>, name: &str) -> Result<Map, Error> {
    change_unless(client, name, ("start", "running"), "paused")
}

/// Stops a container.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn stop(
    client: Client<'_>,
    name: &str,
    timeout: Option<i64>,
    unpause: bool,
) -> Result<Map, Error> {
    let found = client.inspect(Kind::Container, name)?;
    let own = found
        .get("Config")
        .and_then(|config| config.get("StopTimeout"));
    let timeout = timeout
        .or_else(|| own.and_then(Value::as_int))
        .unwrap_or(SHUTDOWN_SECONDS);
    let before = state_of(&found);
    if before == "paused" {
        if !unpause {
            return Ok(rejection(
                before,
                format!(
                    "Container '{name}' is paused, run with unpause=True to unpause before stopping"
                ),
            ));
        }
        let done = change(&client, name, ("unpause", "running"), &[])?;
        if !done.get("result").is_some_and(Value::is_true) {
            return Ok(done.with("comment", format!("Failed to unpause container '{name}'")));
        }
    }
    let client = client.patient(timeout.max(0).saturating_add(super::client::CLIENT_SECONDS));
    let mut done = change(
        &client,
        name,
        ("stop", "stopped"),
        &[format!("-t={timeout}")],
    )?;
    if let Some(Value::Map(state)) = done.get_mut("state") {
        state.insert("old", before);
    }
    Ok(done)
}

/// The options for the removal of a container.
#[derive(Clone, Copy, Default)]
pub(crate) struct Removal {
    pub(crate) force: bool,
    pub(crate) volumes: bool,
    pub(crate) stop: bool,
    pub(crate) timeout: Option<i64>,
}

/// Removes a container, and returns the ids of the removed containers.
///
/// # Errors
/// When the container is running and neither `force` nor `stop` is set, or the message of the
/// program when it fails.
pub(crate) fn rm(client: &Client<'_>, name: &str, how: Removal) -> Result<Vec<String>, Error> {
    let found = client.inspect(Kind::Container, name)?;
    let id = found.get("Id").map(Value::to_text).unwrap_or_default();
    if state_of(&found) == "running" && !how.force && !how.stop {
        return Err(Error::refused(format!(
            "Container '{name}' is running, use force=True to forcibly remove this container"
        )));
    }
    let host = found.get("HostConfig");
    let mut goes = false;
    if how.stop && !how.force {
        stop(Client::detect(client.cx)?, name, how.timeout, false)?;
        goes = host
            .and_then(|host| host.get("AutoRemove"))
            .is_some_and(Value::is_true)
            && state_of(&found) == "running";
    }
    if !goes {
        let flags = [("--force", how.force), ("--volumes", how.volumes)];
        let flags = flags.into_iter().filter(|(_, wanted)| *wanted);
        let flags: Vec<String> = flags.map(|(flag, _)| flag.to_owned()).collect();
        client.tell(&["rm"], &flags, &[&id])?;
    }
    Ok(match client.found(Kind::Container, &id)? {
        None => vec![id],
        Some(_) => Vec::new(),
    })
}

/// Renames a container.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn rename(client: &Client<'_>, name: &str, new_name: &str) -> Result<bool, Error> {
    let id = |name: &str| -> Result<Option<Value>, Error> {
        Ok(client.inspect(Kind::Container, name)?.get("Id").cloned())
    };
    let before = id(name)?;
    client.tell(&["rename"], &[], &[name, new_name])?;
    Ok(id(new_name)? == before)
}

/// Creates a container. Fetches its image first if the image is missing.
///
/// # Errors
/// The invalid arguments, or the message of the program when it fails.
pub(crate) fn create(
    client: &Client<'_>,
    image: &str,
    arguments: &CreateOptions<'_>,
) -> Result<Map, Error> {
    let wanted = Wanted::parse(arguments)?;
    fetched(client, image, arguments.given)?;
    let began = Instant::now();
    let made = wanted.make(client, image, arguments.name)?;
    named(
        client,
        made.with("Time_Elapsed", began.elapsed().as_secs_f64()),
        arguments.name,
    )
}

fn fetched(client: &Client<'_>, image: &str, given: &Map) -> Result<(), Error> {
    let looks = given.get("inspect").is_none_or(Value::is_true);
    if looks && client.found(Kind::Image, image)?.is_none() {
        images::pull(client, image)?;
    }
    Ok(())
}

fn named(client: &Client<'_>, made: Map, name: Option<&str>) -> Result<Map, Error> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => {
            let id = made.get("Id").map(Value::to_text).unwrap_or_default();
            compare::name(&client.inspect(Kind::Container, &id)?)
        }
    };
    Ok(made.with("Name", name))
}

/// The options for running a new container.
#[derive(Clone, Copy)]
pub(crate) struct Running {
    pub(crate) bg: bool,
    pub(crate) replace: bool,
    pub(crate) force: bool,
}

/// Removes an existing container of this name if the options allow it.
fn replaced(client: &Client<'_>, name: &str, how: Running) -> Result<Option<Vec<String>>, Error> {
    match state_or_gone(client, name)? {
        None => Ok(None),
        Some("running") if !(how.replace && how.force) => Err(Error::refused(format!(
            "Container '{name}' exists and is running. Run with replace=True and force=True to force removal of the existing container."
        ))),
        Some(_) if !how.replace => Err(Error::refused(format!(
            "Container '{name}' exists. Run with replace=True to remove the existing container"
        ))),
        Some(_) => {
            let force = how.force;
            rm(
                client,
                name,
                Removal {
                    force,
                    ..Removal::default()
                },
            )
            .map(Some)
        }
    }
}

/// Creates a container and starts it. Unless it runs in the background, waits until it ends.
///
/// # Errors
/// The invalid arguments, or the message of the program when it fails.
pub(crate) fn run(
    client: &Client<'_>,
    image: &str,
    arguments: &CreateOptions<'_>,
    how: Running,
) -> Result<Map, Error> {
    let wanted = Wanted::parse(arguments)?;
    fetched(client, image, arguments.given)?;
    let removed = match arguments.name {
        Some(name) => replaced(client, name, how)?,
        None => None,
    };
    let began = Instant::now();
    let mut made = wanted.make(client, image, arguments.name)?;
    if let Some(removed) = removed {
        made.insert("Replaces", removed);
    }
    let id = made.get("Id").map(Value::to_text).unwrap_or_default();
    let mut made = named(client, made, arguments.name)?;
    for (net, config) in networks(arguments.given.get("networks"))? {
        if let Err(why) = connect(client, &id, &net, &config) {
            if wanted.auto_remove() {
                rm(client, &id, Removal::default())?;
            }
            return Err(why);
        }
    }
    let logs = match how.bg {
        true => client.tell(&["start"], &[], &[&id]).map(|_| None)?,
        false => Some(attached(client, &id)?),
    };
    made.insert("Time_Elapsed", began.elapsed().as_secs_f64());
    if let Some(logs) = logs {
        made.insert("Logs", logs);
        if !wanted.auto_remove() {
            let ended = client.inspect(Kind::Container, &id)?;
            let state = ended.get("State");
            let part = |key: &str| {
                state
                    .and_then(|state| state.get(key))
                    .cloned()
                    .unwrap_or_default()
            };
            if part("Status").as_str() != Some("exited") {
                made.insert(
                    "Warnings",
                    Value::from(vec!["Container state is not 'exited'"]),
                );
            }
            made.insert("ExitCode", part("ExitCode"));
        }
    }
    Ok(made)
}

/// Starts a container, waits until it ends, and returns its output.
fn attached(client: &Client<'_>, id: &str) -> Result<String, Error> {
    let process = Process {
        timeout: Some(WORK_SECONDS_MAX.into()),
        stderr: Stderr::Merged,
        rstrip: false,
        ..client.command(&["start"], ["--attach"], &[id])
    };
    let output = client.run(&process, "start")?;
    // The exit code is that of the container. The state of the container shows whether it has
    // started at all.
    let never = client.found(Kind::Container, id)?.is_some_and(|container| {
        let state = container.get("State").and_then(|state| state.get("Status"));
        matches!(
            state.and_then(Value::as_str),
            Some("created" | "configured" | "initialized")
        )
    });
    match never {
        true => Err(program_error(&output)),
        false => Ok(output.into_stdout_regardless()),
    }
}

/// Parses the argument `networks`. Returns each network with the settings of the container in it.
///
/// # Errors
/// When the argument has an invalid format.
pub(crate) fn networks(given: Option<&Value>) -> Result<Vec<(String, Map)>, Error> {
    let wrong = || Error::from("Invalid format for networks argument");
    match given {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Map(map)) => {
            let one = |(name, config): (&Value, &Value)| match config {
                Value::Map(config) => Ok((name.to_text(), config.clone())),
                _ => Err(wrong()),
            };
            map.iter().map(one).collect()
        }
        Some(Value::Str(names)) => Ok(names
            .split(',')
            .map(|name| (name.to_owned(), Map::new()))
            .collect()),
        Some(_) => Err(wrong()),
    }
}

/// Connects a container to a network.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn connect(
    client: &Client<'_>,
    container: &str,
    net: &str,
    config: &Map,
) -> Result<(), Error> {
    let options = create::endpoint(config, "alias");
    client
        .tell(&["network", "connect"], &options, &[net, container])
        .map(drop)
}

/// Disconnects a container from a network.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn disconnect(client: &Client<'_>, container: &str, net: &str) -> Result<(), Error> {
    client
        .tell(&["network", "disconnect"], &[], &[net, container])
        .map(drop)
}

/// Returns the containers that are connected to a network, by name.
///
/// # Errors
/// When the network does not exist.
pub(crate) fn connected(client: &Client<'_>, net: &str) -> Result<Map, Error> {
    let found = client.inspect(Kind::Network, net)?;
    let containers = found.get("Containers").and_then(Value::as_map).cloned();
    let one = |(id, told): (&Value, &Value)| {
        let mut told = told.as_map()?.clone();
        let name = told.remove("Name")?;
        Some((name, Value::from(told.with("Id", id.clone()))))
    };
    Ok(containers
        .unwrap_or_default()
        .iter()
        .filter_map(one)
        .collect())
}
