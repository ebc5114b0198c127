//! The `docker_container` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::running::{self, Request};
use super::{not_watched, ret_with_comments};
use crate::exec::docker::containers::{self, Removal, Running as Run};
use crate::exec::docker::create::CreateOptions;
use crate::exec::docker::{CLIENT_SECONDS, Client, Kind};

state::state_module! {
    /// Manage containers with the program docker or podman.
    #[module(virtual_ = super::missing)]
    #[facts(free_arguments = true)]
    mod docker_container;

    /// Make sure that a container exists as described, and that it runs.
    ///
    ///     web:
    ///       docker_container.running:
    ///         - image: nginx:1.27
    ///         - port_bindings: 8080:80
    fn running(Running {
        /// The name of the container.
        name: String,
        /// The image of the container.
        image: Option<String> = None,
        /// Accepted but ignored: only the options of the program itself are checked.
        skip_translate: Value = Value::Null,
        /// True to allow that an argument is given twice, by two names.
        ignore_collisions: bool = false,
        /// True to check addresses.
        validate_ip_addrs: bool = true,
        /// True to replace the container even if nothing has changed.
        force: bool = false,
        /// The reaction to a change of a watched state: `force` replaces the container; a signal is
        /// sent to it.
        watch_action: String = "force".into(),
        /// True to start the container.
        start: bool = true,
        /// The number of seconds that a replaced container has to stop.
        shutdown_timeout: Option<i64> = None,
        /// The maximum number of seconds that the program may run.
        client_timeout: i64 = CLIENT_SECONDS,
        /// The networks that the container is connected to.
        networks: Value = Value::Null,
        ..kwargs
    });

    /// Run a container once.
    ///
    ///     migrate:
    ///       docker_container.run:
    ///         - image: shop:2.1
    ///         - command: ./migrate
    fn run(RunOnce {
        /// The name of the container.
        name: String,
        /// The image of the container.
        image: Option<String> = None,
        /// True to let it run in the background.
        bg: bool = false,
        /// True if an exit code other than 0 is a failure.
        failhard: bool = true,
        /// True to replace an existing container of that name.
        replace: bool = false,
        /// True to replace even a running container.
        force: bool = false,
        /// Accepted but ignored: only the options of the program itself are checked.
        skip_translate: Value = Value::Null,
        /// True to allow that an argument is given twice, by two names.
        ignore_collisions: bool = false,
        /// True to check addresses.
        validate_ip_addrs: bool = true,
        /// The maximum number of seconds that the program may run.
        client_timeout: i64 = CLIENT_SECONDS,
        ..kwargs
    });

    /// Make sure that containers are stopped.
    ///
    ///     web:
    ///       docker_container.stopped:
    ///         - shutdown_timeout: 30
    fn stopped(Stopped {
        /// The container's name.
        name: Option<String> = None,
        /// A list of containers, instead of `name`.
        containers: Value = Value::Null,
        /// The number of seconds that each container has to stop.
        shutdown_timeout: Option<i64> = None,
        /// True to unpause a paused container so that it can be stopped. Otherwise a paused
        /// container is a failure.
        unpause: bool = false,
        /// True if a container that does not exist is a failure.
        error_on_absent: bool = true,
        ..kwargs
    });

    /// Make sure that a container does not exist.
    ///
    ///     web:
    ///       docker_container.absent:
    ///         - force: True
    fn absent(Absent {
        /// The name of the container.
        name: String,
        /// True to remove even a running container.
        force: bool = false,
    });

    /// React to a change of a watched state.
    ///
    ///     web:
    ///       docker_container.running:
    ///         - image: nginx:1.27
    ///         - watch:
    ///           - file: /etc/nginx/nginx.conf
    fn mod_watch(ModWatch {
        /// The container's name.
        name: String,
        /// The name of the watching function.
        sfun: Option<String> = None,
        ..kwargs
    });
}

const NO_IMAGE: &str = "The 'image' argument is required";

fn running(cx: &Exec, args: Running) -> Result<Ret, Error> {
    let Some(image) = args.image else {
        return Ok(Ret::failed(NO_IMAGE));
    };
    let mut given = args.kwargs;
    let send_signal = given
        .remove("send_signal")
        .is_some_and(|send| send.is_true());
    let request = Request {
        name: &args.name,
        image: &image,
        force: args.force,
        signal: send_signal.then_some(args.watch_action.as_str()),
        start: args.start,
        shutdown_timeout: args.shutdown_timeout,
        client_timeout: args.client_timeout,
        networks: &args.networks,
        ignore_collisions: args.ignore_collisions,
        validate_ip_addrs: args.validate_ip_addrs,
        given,
    };
    running::running(cx, request)
}

/// Removes `auto_remove` and `rm` from the arguments, and returns their value. They determine
/// whether the container is removed after its end.
fn taken(given: &mut Map, ignore_collisions: bool) -> Result<Option<bool>, Ret> {
    let both = ["auto_remove", "rm"].map(|key| given.remove(key));
    match both {
        [Some(_), Some(_)] if !ignore_collisions => Err(Ret::failed(
            "'rm' is an alias for 'auto_remove', they cannot both be used",
        )),
        [first, second] => Ok(first.or(second).map(|value| value.is_true())),
    }
}

/// Returns the result for a container that was run.
fn ended(done: &Map, bg: bool, failhard: bool) -> Ret {
    match done.get("ExitCode").and_then(Value::as_int) {
        _ if bg => Ret::ok("Container was run in the background"),
        None => Ret::ok(""),
        Some(code) => Ret {
            result: Some(!failhard || code == 0),
            ..Ret::ok(format!(
                "Container ran and exited with a return code of {code}"
            ))
        },
    }
}

fn run(cx: &Exec, args: RunOnce) -> Result<Ret, Error> {
    let mut given = args.kwargs;
    let refused = ["watch_action", "start", "shutdown_timeout", "follow"];
    if let Some(key) = refused.into_iter().find(|key| given.contains(key)) {
        return Ok(Ret::failed(format!(
            "The '{key}' argument is not supported"
        )));
    }
    let Some(image) = args.image else {
        return Ok(Ret::failed(NO_IMAGE));
    };
    let client = Client::detect(cx)?.patient(args.client_timeout);
    let networks = given.remove("networks").unwrap_or_default();
    let networks = match running::networks(&client, &networks) {
        Ok(networks) => networks,
        Err(ret) => return Ok(ret),
    };
    if !networks.is_empty() {
        given.insert("networks", networks);
    }
    let mut changes = Map::new();
    if let Err(why) = running::image(&client, &image, &mut changes) {
        return Ok(Ret::failed(why.to_string()));
    }
    if cx.test {
        let where_to = if args.bg { " in the background" } else { "" };
        return Ok(Ret::would(format!("Container would be run{where_to}")));
    }
    // The container is removed here after its end, and not by the program, since its exit code is
    // read only then.
    let remove = match args.bg {
        true => None,
        false => match taken(&mut given, args.ignore_collisions) {
            Ok(remove) => remove,
            Err(ret) => return Ok(ret),
        },
    };
    let arguments = CreateOptions {
        name: Some(&args.name),
        ignore_collisions: args.ignore_collisions,
        validate_ip_addrs: args.validate_ip_addrs,
        given: &given,
    };
    let (bg, replace, force) = (args.bg, args.replace, args.force);
    let how = Run { bg, replace, force };
    let done = match containers::run(&client, &image, &arguments, how) {
        Ok(done) => done,
        Err(why) => {
            return Ok(Ret::failed(format!(
                "Encountered error running container: {why}"
            )));
        }
    };
    let ret = ended(&done, bg, args.failhard);
    let id = done.get("Id").map(Value::to_text).unwrap_or_default();
    let ret = ret.changes(done);
    if remove != Some(true) {
        return Ok(ret);
    }
    Ok(match containers::rm(&client, &id, Removal::default()) {
        Ok(_) => ret,
        Err(why) => ret.warning(format!("Failed to auto_remove container: {why}")),
    })
}

/// The states of containers, each with the container's name.
struct Found(Vec<(String, &'static str)>);

impl Found {
    fn query(client: &Client<'_>, targets: &[String]) -> Result<Self, Error> {
        let one = |name: &String| {
            let found = client.found(Kind::Container, name)?;
            Ok((
                name.clone(),
                found.as_ref().map_or("absent", containers::state_of),
            ))
        };
        targets.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    fn within(&self, state: &str) -> Vec<&str> {
        let of_it = self.0.iter().filter(|(_, own)| *own == state);
        of_it.map(|(name, _)| name.as_str()).collect()
    }
}

fn stopped(cx: &Exec, args: Stopped) -> Result<Ret, Error> {
    let name = args.name.filter(|name| !name.is_empty());
    let targets = match (&args.containers, name) {
        (Value::Null, None) => {
            return Ok(Ret::failed(
                "One of 'name' and 'containers' must be provided",
            ));
        }
        (Value::List(names), _) => names.iter().map(Value::to_text).collect(),
        (Value::Null, Some(name)) => vec![name],
        _ => return Ok(Ret::failed("containers must be a list")),
    };
    let client = Client::detect(cx)?;
    let found = Found::query(&client, &targets)?;
    let (absent, paused) = (found.within("absent"), found.within("paused"));
    let mut errors = Vec::new();
    if args.error_on_absent && !absent.is_empty() {
        errors.push(format!(
            "The following container(s) are absent: {}",
            absent.join(", ")
        ));
    }
    if !args.unpause && !paused.is_empty() {
        errors.push(format!(
            "The following container(s) are paused: {}",
            paused.join(", ")
        ));
    }
    if !errors.is_empty() {
        return Ok(Ret::failed(errors.join(". ")));
    }
    let mut to_stop = found.within("running");
    to_stop.extend(paused);
    if to_stop.is_empty() {
        let who = match targets.as_slice() {
            [one] => format!("Container '{one}' is"),
            _ => "All specified containers are".to_owned(),
        };
        let or = if absent.is_empty() { "" } else { " absent or" };
        return Ok(Ret::ok(format!("{who}{or} not running")));
    }
    let names = to_stop.join(", ");
    let would = Ret::would(format!(
        "The following container(s) will be stopped: {names}"
    ));
    cx.apply(would, || {
        let (mut changes, mut failed) = (Map::new(), Vec::new());
        for target in &to_stop {
            let timeout = args.shutdown_timeout.filter(|seconds| *seconds != 0);
            let done = containers::stop(Client::detect(cx)?, target, timeout, args.unpause)?;
            match done.get("result").is_some_and(Value::is_true) {
                true => {
                    changes.insert(*target, done);
                }
                false => failed.push(done.get("comment").map_or_else(
                    || format!("Failed to stop container '{target}'"),
                    Value::to_text,
                )),
            }
        }
        Ok(match failed.is_empty() {
            true => Ret::ok(format!("The following container(s) were stopped: {names}")),
            false => Ret::failed(failed.join("; ")),
        }
        .changes(changes))
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (client, name) = (Client::detect(cx)?, args.name);
    if !containers::names(&client, true)?.contains(&name) {
        return Ok(Ret::ok(format!("Container '{name}' does not exist")));
    }
    let runs = containers::state(&client, &name)? != "stopped";
    if runs && !args.force {
        return Ok(Ret::failed(
            "Container is running, set force to True to forcibly remove it",
        ));
    }
    let would = Ret::would(format!("Container '{name}' will be removed"));
    cx.apply(would, || {
        let force = args.force;
        let removed = match containers::rm(
            &client,
            &name,
            Removal {
                force,
                ..Removal::default()
            },
        ) {
            Ok(removed) => removed,
            Err(why) => {
                return Ok(Ret::failed(format!(
                    "Failed to remove container '{name}': {why}"
                )));
            }
        };
        let how = if runs { "Forcibly" } else { "Successfully" };
        Ok(match containers::names(&client, true)?.contains(&name) {
            true => Ret::failed(format!("Failed to remove container '{name}'")),
            false => Ret::ok(format!("{how} removed container '{name}'")),
        }
        .change("removed", removed))
    })
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let mut kwargs = args.kwargs;
    let function = args.sfun.as_deref();
    if function == Some("running") {
        let action = kwargs.get("watch_action").map(Value::to_text);
        let forces = action.is_none_or(|action| action == "force");
        kwargs.insert("force", forces);
        kwargs.insert("send_signal", !forces);
    }
    let Some(function) = function.filter(|name| ["running", "stopped", "run"].contains(name))
    else {
        return Ok(not_watched(function));
    };
    let given = state::module::Arguments::new(Vec::new(), kwargs.with("name", args.name));
    let full = format!("docker_container.{function}");
    match MODULE.function(function) {
        Some(found) => found.invoke(&full, cx, given),
        None => Ok(ret_with_comments(Some(false), &[], Map::new())),
    }
}
