//! The `docker` execution module: containers, images, networks and volumes, through the program docker or podman.

mod client;
pub(crate) mod compare;
pub(crate) mod containers;
pub(crate) mod create;
pub(crate) mod image_functions;
pub(crate) mod images;
mod inside;
mod lists;
mod networks;
mod ports;
mod registries;
mod translate;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

pub(crate) use client::{CLIENT_SECONDS, Client, Kind, program};
pub(crate) use lists::create_volume as make_volume;
pub(crate) use translate::repacked;

use crate::process::Process;
use crate::state_run::split_input;
use containers::{Removal, Running};
use create::{Asked, patience};

state::exec_module! {
    /// Containers, through the program docker or podman. The option `docker.program` says which where both are there.
    mod docker;

    /// What differs in the configuration of two containers.
    fn compare_containers(CompareContainers {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// Keys that are left out.
        ignore: Value = Value::Null,
    });

    /// What differs in the networks of two containers.
    fn compare_container_networks(CompareContainerNetworks {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    });

    /// What differs in two networks.
    fn compare_networks(CompareNetworks {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// Keys that are left out.
        ignore: Value = "Name,Id,Created,Containers".into(),
    });

    /// Connect a container to a network.
    fn connect_container_to_network(ConnectContainerToNetwork {
        /// Which container.
        container: String,
        /// Which network.
        net_id: String,
        ..kwargs
    });

    /// The containers that are connected to a network.
    fn connected(Connected {
        /// Which network.
        name: String,
        /// Whether all is told of each.
        verbose: bool = false,
    });

    /// Make a container.
    fn create(Create {
        /// Its image.
        image: String,
        /// Its name.
        name: Option<String> = None,
        /// Whether it is started.
        start: bool = false,
        /// Has no meaning here: what the program can be told is what is checked.
        skip_translate: Value = Value::Null,
        /// Whether an argument may be given twice, by two names.
        ignore_collisions: bool = false,
        /// Whether addresses are checked.
        validate_ip_addrs: bool = true,
        /// Seconds that the program may take.
        client_timeout: i64 = CLIENT_SECONDS,
        ..kwargs
    });

    /// Make a network.
    fn create_network(CreateNetwork {
        /// Its name.
        name: String,
        /// Has no meaning here: what the program can be told is what is checked.
        skip_translate: Value = Value::Null,
        /// Whether an argument may be given twice, by two names.
        ignore_collisions: bool = false,
        /// Whether addresses are checked.
        validate_ip_addrs: bool = true,
        /// Seconds that the program may take.
        client_timeout: i64 = CLIENT_SECONDS,
        ..kwargs
    });

    /// Make a volume.
    fn create_volume(CreateVolume {
        /// Its name.
        name: String,
        /// Its driver.
        driver: Option<String> = None,
        /// What the driver is told.
        driver_opts: Map = Map::new(),
    });

    /// Disconnect a container from a network.
    fn disconnect_container_from_network(DisconnectContainerFromNetwork {
        /// Which container.
        container: String,
        /// Which network.
        network_id: String,
    });

    /// Whether there is a container.
    fn exists(Exists {
        /// Its name or id.
        name: String,
    });

    /// What the program says of itself and the machine.
    fn info(Info {});

    /// What is known of a container, image, volume or network.
    fn inspect(Inspect {
        /// Its name or id.
        name: String,
    });

    /// What is known of a container.
    fn inspect_container(InspectContainer {
        /// Its name or id.
        name: String,
    });

    /// What is known of a network.
    fn inspect_network(InspectNetwork {
        /// Its name or id.
        network_id: String,
    });

    /// What is known of a volume.
    fn inspect_volume(InspectVolume {
        /// Its name.
        name: String,
    });

    /// Kill a container's processes.
    fn kill(Kill {
        /// Its name or id.
        name: String,
    });

    /// The names of the containers.
    fn list_containers(ListContainers {
        ..kwargs
    });

    /// What a container has written.
    fn logs(Logs {
        /// Its name or id.
        name: String,
        ..kwargs
    });

    /// The networks.
    fn networks(Networks {
        /// Their names.
        names: Value = Value::Null,
        /// Their ids.
        ids: Value = Value::Null,
    });

    /// Hold a container's processes.
    fn pause(Pause {
        /// Its name or id.
        name: String,
    });

    /// The containers with what is known of each.
    fn ps(Ps {
        /// Filters of the program, such as `label`.
        filters: Map = Map::new(),
        ..kwargs
    });

    /// Remove a network.
    fn remove_network(RemoveNetwork {
        /// Its name or id.
        network_id: String,
    });

    /// Remove a volume.
    fn remove_volume(RemoveVolume {
        /// Its name.
        name: String,
    });

    /// Give a container another name.
    fn rename(Rename {
        /// Its name or id.
        name: String,
        /// The other name.
        new_name: String,
    });

    /// Stop a container and start it again.
    fn restart(Restart {
        /// Its name or id.
        name: String,
        /// Seconds that it has to stop.
        timeout: i64 = 10,
    });

    /// Return the exit code of a command in a container.
    fn retcode(Retcode {
        /// The container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Remove a container.
    fn rm(Rm {
        /// Its name or id.
        name: String,
        /// Whether one that runs is removed too.
        force: bool = false,
        /// Whether its volumes go with it.
        volumes: bool = false,
        ..kwargs
    });

    /// Return what a command in a container writes.
    fn run(Run {
        /// The container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Return all that is to be said of a command in a container.
    fn run_all(RunAll {
        /// The container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Make a container, start it and, unless it is in the background, wait for its end.
    fn run_container(RunContainer {
        /// Its image.
        image: String,
        /// Its name.
        name: Option<String> = None,
        /// Has no meaning here: what the program can be told is what is checked.
        skip_translate: Value = Value::Null,
        /// Whether an argument may be given twice, by two names.
        ignore_collisions: bool = false,
        /// Whether addresses are checked.
        validate_ip_addrs: bool = true,
        /// Seconds that the program may take.
        client_timeout: i64 = CLIENT_SECONDS,
        /// Whether it is left to run.
        bg: bool = false,
        /// Whether a container of that name is removed.
        replace: bool = false,
        /// Whether it is removed though it runs.
        force: bool = false,
        /// The networks that it is connected to.
        networks: Value = Value::Null,
        ..kwargs
    });

    /// Return what a command in a container writes on its standard error.
    fn run_stderr(RunStderr {
        /// The container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Return what a command in a container writes on its standard output.
    fn run_stdout(RunStdout {
        /// The container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Send a signal to a container.
    fn signal(Signal {
        /// Its name or id.
        name: String,
        /// The signal.
        signal: String,
    });

    /// Start a container.
    fn start(Start {
        /// Its name or id.
        name: String,
    });

    /// What a container is doing: `running`, `paused` or `stopped`.
    fn state(State {
        /// Its name or id.
        name: String,
    });

    /// Stop a container.
    fn stop(Stop {
        /// Its name or id.
        name: String,
        /// Seconds before its processes are killed.
        timeout: Option<i64> = None,
        ..kwargs
    });

    /// Let a container's processes go on.
    fn unpause(Unpause {
        /// Its name or id.
        name: String,
    });

    /// The versions of the program.
    fn version(Version {});

    /// The volumes.
    fn volumes(Volumes {
        /// Filters of the program, such as `label`.
        filters: Map = Map::new(),
    });

    /// Wait for a container's end.
    fn wait(Wait {
        /// Its name or id.
        name: String,
        /// Whether it is right that it has stopped already, or is gone.
        ignore_already_stopped: bool = false,
        /// Whether an exit code other than 0 is a failure.
        fail_on_exit_status: bool = false,
    });
}

fn flag(kwargs: &Map, key: &str) -> bool {
    kwargs.get(key).is_some_and(Value::is_true)
}

fn compare_containers(cx: &Exec, args: CompareContainers) -> Result<Value, Error> {
    let client = Client::of(cx)?;
    let first = client.inspect(Kind::Container, &args.first)?;
    let second = client.inspect(Kind::Container, &args.second)?;
    Ok(compare::containers(&first, &second, &words(&args.ignore)).into())
}

fn compare_container_networks(cx: &Exec, args: CompareContainerNetworks) -> Result<Value, Error> {
    let client = Client::of(cx)?;
    let first = client.inspect(Kind::Container, &args.first)?;
    let second = client.inspect(Kind::Container, &args.second)?;
    Ok(compare::networks(&first, &second).into())
}

fn compare_networks(cx: &Exec, args: CompareNetworks) -> Result<Value, Error> {
    let client = Client::of(cx)?;
    let first = client.inspect(Kind::Network, &args.first)?;
    let second = client.inspect(Kind::Network, &args.second)?;
    Ok(compare::two_networks(&first, &second, &words(&args.ignore)).into())
}

fn words(value: &Value) -> Vec<String> {
    match value.is_true() {
        true => split_input(value),
        false => Vec::new(),
    }
}

fn connect_container_to_network(
    cx: &Exec,
    args: ConnectContainerToNetwork,
) -> Result<Value, Error> {
    let client = Client::of(cx)?;
    containers::connect(&client, &args.container, &args.net_id, &args.kwargs)?;
    Ok(true.into())
}

fn connected(cx: &Exec, args: Connected) -> Result<Value, Error> {
    let all = containers::connected(&Client::of(cx)?, &args.name)?;
    Ok(match args.verbose {
        true => all.into(),
        false => Value::list(all.keys().cloned()),
    })
}

fn create(cx: &Exec, args: Create) -> Result<Value, Error> {
    let client = Client::of(cx)?.patient(patience(Some(args.client_timeout)));
    let asked = Asked {
        name: args.name.as_deref(),
        ignore_collisions: args.ignore_collisions,
        validate_ip_addrs: args.validate_ip_addrs,
        given: &args.kwargs,
    };
    let made = containers::create(&client, &args.image, &asked)?;
    if !args.start {
        return Ok(made.into());
    }
    let name = made.get("Name").map(Value::to_text).unwrap_or_default();
    containers::start(&client, &name).map_err(|why| {
        Error::refused(format!("Failed to start container after creation: {why}"))
    })?;
    Ok(made.with("Started", true).into())
}

fn create_network(cx: &Exec, args: CreateNetwork) -> Result<Value, Error> {
    let client = Client::of(cx)?.patient(patience(Some(args.client_timeout)));
    let checks = (args.ignore_collisions, args.validate_ip_addrs);
    let known = create::network(&args.kwargs, checks)?;
    create::make_network(&client, &args.name, &known)?;
    let made = client.inspect(Kind::Network, &args.name)?;
    let id = made.get("Id").cloned().unwrap_or_default();
    Ok(Map::new().with("Id", id).with("Warning", "").into())
}

fn create_volume(cx: &Exec, args: CreateVolume) -> Result<Value, Error> {
    lists::create_volume(
        &Client::of(cx)?,
        &args.name,
        args.driver.as_deref(),
        &args.driver_opts,
    )
    .map(Value::from)
}

fn disconnect_container_from_network(
    cx: &Exec,
    args: DisconnectContainerFromNetwork,
) -> Result<Value, Error> {
    containers::disconnect(&Client::of(cx)?, &args.container, &args.network_id)?;
    Ok(true.into())
}

fn exists(cx: &Exec, args: Exists) -> Result<Value, Error> {
    let found = Client::of(cx)?.found(Kind::Container, &args.name)?;
    Ok(found.is_some().into())
}

fn info(cx: &Exec, _: Info) -> Result<Value, Error> {
    client::read(&Client::of(cx)?.tell(&["info"], &["--format={{json .}}".into()], &[])?)
}

fn inspect(cx: &Exec, args: Inspect) -> Result<Value, Error> {
    let client = Client::of(cx)?;
    for kind in [Kind::Container, Kind::Image, Kind::Volume, Kind::Network] {
        if let Some(found) = client.found(kind, &args.name)? {
            return Ok(found.into());
        }
    }
    let name = args.name;
    Err(format!("Error 404: No such image/container/volume/network: {name}").into())
}

fn inspect_container(cx: &Exec, args: InspectContainer) -> Result<Value, Error> {
    Client::of(cx)?
        .inspect(Kind::Container, &args.name)
        .map(Value::from)
}

fn inspect_network(cx: &Exec, args: InspectNetwork) -> Result<Value, Error> {
    Client::of(cx)?
        .inspect(Kind::Network, &args.network_id)
        .map(Value::from)
}

fn inspect_volume(cx: &Exec, args: InspectVolume) -> Result<Value, Error> {
    Client::of(cx)?
        .inspect(Kind::Volume, &args.name)
        .map(Value::from)
}

fn kill(cx: &Exec, args: Kill) -> Result<Value, Error> {
    containers::change(&Client::of(cx)?, &args.name, ("kill", "stopped"), &[]).map(Value::from)
}

fn list_containers(cx: &Exec, args: ListContainers) -> Result<Value, Error> {
    containers::names(&Client::of(cx)?, flag(&args.kwargs, "all")).map(Value::from)
}

fn logs(cx: &Exec, args: Logs) -> Result<Value, Error> {
    lists::logs(&Client::of(cx)?, &args.name, &args.kwargs).map(Value::from)
}

fn networks(cx: &Exec, args: Networks) -> Result<Value, Error> {
    lists::networks(&Client::of(cx)?, &words(&args.names), &words(&args.ids)).map(Value::from)
}

fn pause(cx: &Exec, args: Pause) -> Result<Value, Error> {
    let client = Client::of(cx)?;
    containers::change_unless(&client, &args.name, ("pause", "paused"), "stopped").map(Value::from)
}

fn ps(cx: &Exec, args: Ps) -> Result<Value, Error> {
    lists::ps(&Client::of(cx)?, &args.filters, &args.kwargs).map(Value::from)
}

fn remove_network(cx: &Exec, args: RemoveNetwork) -> Result<Value, Error> {
    drop_network(&Client::of(cx)?, &args.network_id)?;
    Ok(true.into())
}

/// Removes a network.
///
/// # Errors
/// What the program says against it.
pub(crate) fn drop_network(client: &Client<'_>, name: &str) -> Result<(), Error> {
    client.tell(&["network", "rm"], &[], &[name]).map(drop)
}

fn remove_volume(cx: &Exec, args: RemoveVolume) -> Result<Value, Error> {
    drop_volume(&Client::of(cx)?, &args.name)?;
    Ok(true.into())
}

/// Removes a volume.
///
/// # Errors
/// What the program says against it.
pub(crate) fn drop_volume(client: &Client<'_>, name: &str) -> Result<(), Error> {
    client.tell(&["volume", "rm"], &[], &[name]).map(drop)
}

fn rename(cx: &Exec, args: Rename) -> Result<Value, Error> {
    containers::rename(&Client::of(cx)?, &args.name, &args.new_name).map(Value::from)
}

fn restart(cx: &Exec, args: Restart) -> Result<Value, Error> {
    let seconds = args.timeout.max(0);
    let client = Client::of(cx)?.patient(seconds.saturating_add(CLIENT_SECONDS));
    let options = [format!("-t={seconds}")];
    let done = containers::change(&client, &args.name, ("restart", "running"), &options)?;
    Ok(match flag(&done, "result") {
        true => done.with("restarted", true).into(),
        false => done.into(),
    })
}

fn retcode(cx: &Exec, args: Retcode) -> Result<Value, Error> {
    let output = inside::run(&Client::of(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    Ok(output.retcode.into())
}

fn rm(cx: &Exec, args: Rm) -> Result<Value, Error> {
    let how = Removal {
        force: args.force,
        volumes: args.volumes,
        stop: flag(&args.kwargs, "stop"),
        timeout: args.kwargs.get("timeout").and_then(Value::as_int),
    };
    containers::rm(&Client::of(cx)?, &args.name, how).map(Value::from)
}

fn run(cx: &Exec, args: Run) -> Result<Value, Error> {
    let output = inside::run(&Client::of(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    let mut said = output.stdout;
    if !said.is_empty() && !output.stderr.is_empty() {
        said.push('\n');
    }
    Ok(format!("{said}{}", output.stderr).into())
}

fn run_all(cx: &Exec, args: RunAll) -> Result<Value, Error> {
    let output = inside::run(&Client::of(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    Ok(output.to_map().into())
}

fn run_container(cx: &Exec, args: RunContainer) -> Result<Value, Error> {
    let client = Client::of(cx)?.patient(patience(Some(args.client_timeout)));
    let mut given = args.kwargs;
    given.insert("networks", args.networks);
    let asked = Asked {
        name: args.name.as_deref(),
        ignore_collisions: args.ignore_collisions,
        validate_ip_addrs: args.validate_ip_addrs,
        given: &given,
    };
    let (bg, replace, force) = (args.bg, args.replace, args.force);
    let how = Running { bg, replace, force };
    containers::run(&client, &args.image, &asked, how).map(Value::from)
}

fn run_stderr(cx: &Exec, args: RunStderr) -> Result<Value, Error> {
    let output = inside::run(&Client::of(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    Ok(output.stderr.into())
}

fn run_stdout(cx: &Exec, args: RunStdout) -> Result<Value, Error> {
    let output = inside::run(&Client::of(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    Ok(output.stdout.into())
}

fn signal(cx: &Exec, args: Signal) -> Result<Value, Error> {
    send(&Client::of(cx)?, &args.name, &args.signal)?;
    Ok(true.into())
}

/// Sends a signal to a container.
///
/// # Errors
/// What the program says against it.
pub(crate) fn send(client: &Client<'_>, name: &str, signal: &str) -> Result<(), Error> {
    client
        .tell(&["kill"], &[format!("--signal={signal}")], &[name])
        .map(drop)
}

fn start(cx: &Exec, args: Start) -> Result<Value, Error> {
    containers::start(&Client::of(cx)?, &args.name).map(Value::from)
}

fn state(cx: &Exec, args: State) -> Result<Value, Error> {
    containers::state(&Client::of(cx)?, &args.name).map(Value::from)
}

fn stop(cx: &Exec, args: Stop) -> Result<Value, Error> {
    let unpause = flag(&args.kwargs, "unpause");
    containers::stop(Client::of(cx)?, &args.name, args.timeout, unpause).map(Value::from)
}

fn unpause(cx: &Exec, args: Unpause) -> Result<Value, Error> {
    let client = Client::of(cx)?;
    containers::change_unless(&client, &args.name, ("unpause", "running"), "stopped")
        .map(Value::from)
}

fn version(cx: &Exec, _: Version) -> Result<Value, Error> {
    lists::version(&Client::of(cx)?).map(Value::from)
}

fn volumes(cx: &Exec, args: Volumes) -> Result<Value, Error> {
    lists::volumes(&Client::of(cx)?, &args.filters).map(Value::from)
}

fn wait(cx: &Exec, args: Wait) -> Result<Value, Error> {
    let told = lists::wait(&Client::of(cx)?, &args.name, args.ignore_already_stopped)?;
    let code = told.get("exit_status").and_then(Value::as_int);
    let is_wrong = args.fail_on_exit_status && flag(&told, "result") && code != Some(0);
    Ok(match is_wrong {
        true => told.with("result", false).into(),
        false => told.into(),
    })
}

/// A command of the program with this patience and this input.
fn with_input(process: Process, input: &str, seconds: i64) -> Process {
    Process {
        stdin: Some(input.to_owned()),
        timeout: Some(seconds.into()),
        ..process
    }
}
