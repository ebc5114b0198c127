//! The `docker` execution module: manages containers, images, networks and volumes with the program
//! docker or podman.

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

use machine::process::Process;
use state::exec::Exec;
use state::facts::Missing;
use state::module::Error;
use value::{Map, Value};

pub(crate) use client::{CLIENT_SECONDS, Client, Kind, program};
pub(crate) use lists::create_volume as make_volume;
pub(crate) use translate::repacked;

use containers::{Removal, Running};
use create::{CreateOptions, patience};

state::exec_module! {
    /// Manage containers with the program docker or podman. The option `docker.program` selects the
    /// program; the default is docker if it is installed, else podman.
    #[module(virtual_ = missing)]
    mod docker;

    /// Return the differences between the configurations of two containers.
    ///
    ///     salt-call docker.compare_containers web1 web2
    fn compare_containers(CompareContainers {
        /// The name or id of the first container.
        first: String,
        /// The name or id of the second container.
        second: String,
        /// The keys to ignore.
        ignore: Value = Value::Null,
    });

    /// Return the differences between the networks of two containers.
    ///
    ///     salt-call docker.compare_container_networks web1 web2
    fn compare_container_networks(CompareContainerNetworks {
        /// The name or id of the first container.
        first: String,
        /// The name or id of the second container.
        second: String,
    });

    /// Return the differences between two networks.
    ///
    ///     salt-call docker.compare_networks backend frontend
    fn compare_networks(CompareNetworks {
        /// The name or id of the first network.
        first: String,
        /// The name or id of the second network.
        second: String,
        /// The keys to ignore.
        ignore: Value = "Name,Id,Created,Containers".into(),
    });

    /// Connect a container to a network.
    ///
    ///     salt-call docker.connect_container_to_network web backend
    fn connect_container_to_network(ConnectContainerToNetwork {
        /// The name or id of the container.
        container: String,
        /// The name or id of the network.
        net_id: String,
        ..kwargs
    });

    /// Return the containers that are connected to a network.
    ///
    ///     salt-call docker.connected backend
    fn connected(Connected {
        /// The name or id of the network.
        name: String,
        /// True to return the details of each container.
        verbose: bool = false,
    });

    /// Create a container.
    ///
    ///     salt-call docker.create nginx:1.27 name=web
    fn create(Create {
        /// The name of the image.
        image: String,
        /// The name of the container. By default the program chooses one.
        name: Option<String> = None,
        /// True to start the container.
        start: bool = false,
        /// Accepted and ignored: the arguments are always translated and checked.
        skip_translate: Value = Value::Null,
        /// True to accept an argument that is given twice, under two names.
        ignore_collisions: bool = false,
        /// True to check whether IP addresses are valid.
        validate_ip_addrs: bool = true,
        /// The timeout of the program, in seconds.
        client_timeout: i64 = CLIENT_SECONDS,
        ..kwargs
    });

    /// Create a network.
    ///
    ///     salt-call docker.create_network backend subnet=10.20.0.0/24
    fn create_network(CreateNetwork {
        /// The name of the network.
        name: String,
        /// Accepted and ignored: the arguments are always translated and checked.
        skip_translate: Value = Value::Null,
        /// True to accept an argument that is given twice, under two names.
        ignore_collisions: bool = false,
        /// True to check whether IP addresses are valid.
        validate_ip_addrs: bool = true,
        /// The timeout of the program, in seconds.
        client_timeout: i64 = CLIENT_SECONDS,
        ..kwargs
    });

    /// Create a volume.
    ///
    ///     salt-call docker.create_volume shop-data
    fn create_volume(CreateVolume {
        /// The name of the volume.
        name: String,
        /// The driver of the volume.
        driver: Option<String> = None,
        /// The options of the driver.
        driver_opts: Map = Map::new(),
    });

    /// Disconnect a container from a network.
    ///
    ///     salt-call docker.disconnect_container_from_network web backend
    fn disconnect_container_from_network(DisconnectContainerFromNetwork {
        /// The name or id of the container.
        container: String,
        /// The name or id of the network.
        network_id: String,
    });

    /// Return whether a container exists.
    ///
    ///     salt-call docker.exists web
    fn exists(Exists {
        /// The name or id of the container.
        name: String,
    });

    /// Return information about the program and the machine.
    ///
    ///     salt-call docker.info
    fn info(Info {});

    /// Return the details of a container, image, volume or network.
    ///
    ///     salt-call docker.inspect web
    fn inspect(Inspect {
        /// The name or id.
        name: String,
    });

    /// Return the details of a container.
    ///
    ///     salt-call docker.inspect_container web
    fn inspect_container(InspectContainer {
        /// The name or id of the container.
        name: String,
    });

    /// Return the details of a network.
    ///
    ///     salt-call docker.inspect_network backend
    fn inspect_network(InspectNetwork {
        /// The name or id of the network.
        network_id: String,
    });

    /// Return the details of a volume.
    ///
    ///     salt-call docker.inspect_volume shop-data
    fn inspect_volume(InspectVolume {
        /// The name of the volume.
        name: String,
    });

    /// Kill the processes of a container.
    ///
    ///     salt-call docker.kill web
    fn kill(Kill {
        /// The name or id of the container.
        name: String,
    });

    /// Return the names of the containers.
    ///
    ///     salt-call docker.list_containers all=True
    fn list_containers(ListContainers {
        ..kwargs
    });

    /// Return the output of a container.
    ///
    ///     salt-call docker.logs web tail=20
    fn logs(Logs {
        /// The name or id of the container.
        name: String,
        ..kwargs
    });

    /// Return the networks.
    ///
    ///     salt-call docker.networks
    fn networks(Networks {
        /// The names of the networks to return. The default is all networks.
        names: Value = Value::Null,
        /// The ids of the networks to return. The default is all networks.
        ids: Value = Value::Null,
    });

    /// Pause the processes of a container.
    ///
    ///     salt-call docker.pause web
    fn pause(Pause {
        /// The name or id of the container.
        name: String,
    });

    /// Return the containers with their properties.
    ///
    ///     salt-call docker.ps
    fn ps(Ps {
        /// The filters of the program, such as `label`.
        filters: Map = Map::new(),
        ..kwargs
    });

    /// Remove a network.
    ///
    ///     salt-call docker.remove_network backend
    fn remove_network(RemoveNetwork {
        /// The name or id of the network.
        network_id: String,
    });

    /// Remove a volume.
    ///
    ///     salt-call docker.remove_volume shop-data
    fn remove_volume(RemoveVolume {
        /// The name of the volume.
        name: String,
    });

    /// Rename a container.
    ///
    ///     salt-call docker.rename web old-web
    fn rename(Rename {
        /// The name or id of the container.
        name: String,
        /// The new name.
        new_name: String,
    });

    /// Restart a container.
    ///
    ///     salt-call docker.restart web
    fn restart(Restart {
        /// The name or id of the container.
        name: String,
        /// The number of seconds that the container has to stop.
        timeout: i64 = 10,
    });

    /// Return the exit code of a command that runs in a container.
    ///
    ///     salt-call docker.retcode web 'nginx -t'
    fn retcode(Retcode {
        /// The name or id of the container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Remove a container.
    ///
    ///     salt-call docker.rm old-web
    fn rm(Rm {
        /// The name or id of the container.
        name: String,
        /// True to remove the container even if it is running.
        force: bool = false,
        /// True to remove the volumes of the container, too.
        volumes: bool = false,
        ..kwargs
    });

    /// Return the output of a command that runs in a container.
    ///
    ///     salt-call docker.run web 'nginx -v'
    fn run(Run {
        /// The name or id of the container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Return the full result of a command that runs in a container.
    ///
    ///     salt-call docker.run_all web 'nginx -t'
    fn run_all(RunAll {
        /// The name or id of the container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Create a container and start it. Unless `bg` is set, wait until it ends.
    ///
    ///     salt-call docker.run_container shop:2.1 name=migrate command=./migrate
    fn run_container(RunContainer {
        /// The name of the image.
        image: String,
        /// The name of the container. By default the program chooses one.
        name: Option<String> = None,
        /// Accepted and ignored: the arguments are always translated and checked.
        skip_translate: Value = Value::Null,
        /// True to accept an argument that is given twice, under two names.
        ignore_collisions: bool = false,
        /// True to check whether IP addresses are valid.
        validate_ip_addrs: bool = true,
        /// The timeout of the program, in seconds.
        client_timeout: i64 = CLIENT_SECONDS,
        /// True to let the container run in the background.
        bg: bool = false,
        /// True to remove an existing container of that name first.
        replace: bool = false,
        /// True to remove the existing container even if it is running.
        force: bool = false,
        /// The networks to connect the container to.
        networks: Value = Value::Null,
        ..kwargs
    });

    /// Return the standard error of a command that runs in a container.
    ///
    ///     salt-call docker.run_stderr web 'nginx -t'
    fn run_stderr(RunStderr {
        /// The name or id of the container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Return the standard output of a command that runs in a container.
    ///
    ///     salt-call docker.run_stdout web 'cat /etc/os-release'
    fn run_stdout(RunStdout {
        /// The name or id of the container.
        name: String,
        /// The command.
        cmd: String,
        ..kwargs
    });

    /// Send a signal to a container.
    ///
    ///     salt-call docker.signal web HUP
    fn signal(Signal {
        /// The name or id of the container.
        name: String,
        /// The name or number of the signal.
        signal: String,
    });

    /// Start a container.
    ///
    ///     salt-call docker.start web
    fn start(Start {
        /// The name or id of the container.
        name: String,
    });

    /// Return the state of a container: `running`, `paused` or `stopped`.
    ///
    ///     salt-call docker.state web
    fn state(State {
        /// The name or id of the container.
        name: String,
    });

    /// Stop a container.
    ///
    ///     salt-call docker.stop web timeout=30
    fn stop(Stop {
        /// The name or id of the container.
        name: String,
        /// The number of seconds before the processes of the container are killed.
        timeout: Option<i64> = None,
        ..kwargs
    });

    /// Resume the paused processes of a container.
    ///
    ///     salt-call docker.unpause web
    fn unpause(Unpause {
        /// The name or id of the container.
        name: String,
    });

    /// Return the versions of the program.
    ///
    ///     salt-call docker.version
    fn version(Version {});

    /// Return the volumes.
    ///
    ///     salt-call docker.volumes
    fn volumes(Volumes {
        /// The filters of the program, such as `label`.
        filters: Map = Map::new(),
    });

    /// Wait until a container ends.
    ///
    ///     salt-call docker.wait migrate
    fn wait(Wait {
        /// The name or id of the container.
        name: String,
        /// True to count it as success if the container has already stopped or does not exist.
        ignore_already_stopped: bool = false,
        /// True to count an exit code other than 0 as a failure.
        fail_on_exit_status: bool = false,
    });
}

/// Returns what is missing if neither docker nor podman is installed.
fn missing(cx: &Exec, _: &str) -> Option<Missing> {
    program(cx)
        .err()
        .map(|why| Missing::Module(why.to_string()))
}

fn flag(kwargs: &Map, key: &str) -> bool {
    kwargs.get(key).is_some_and(Value::is_true)
}

fn compare_containers(cx: &Exec, args: CompareContainers) -> Result<Value, Error> {
    let client = Client::detect(cx)?;
    let first = client.inspect(Kind::Container, &args.first)?;
    let second = client.inspect(Kind::Container, &args.second)?;
    Ok(compare::containers(&first, &second, &words(&args.ignore)).into())
}

fn compare_container_networks(cx: &Exec, args: CompareContainerNetworks) -> Result<Value, Error> {
    let client = Client::detect(cx)?;
    let first = client.inspect(Kind::Container, &args.first)?;
    let second = client.inspect(Kind::Container, &args.second)?;
    Ok(compare::networks(&first, &second).into())
}

fn compare_networks(cx: &Exec, args: CompareNetworks) -> Result<Value, Error> {
    let client = Client::detect(cx)?;
    let first = client.inspect(Kind::Network, &args.first)?;
    let second = client.inspect(Kind::Network, &args.second)?;
    Ok(compare::two_networks(&first, &second, &words(&args.ignore)).into())
}

fn words(value: &Value) -> Vec<String> {
    match value.is_true() {
        true => value.split_input(),
        false => Vec::new(),
    }
}

fn connect_container_to_network(
    cx: &Exec,
    args: ConnectContainerToNetwork,
) -> Result<Value, Error> {
    let client = Client::detect(cx)?;
    containers::connect(&client, &args.container, &args.net_id, &args.kwargs)?;
    Ok(true.into())
}

fn connected(cx: &Exec, args: Connected) -> Result<Value, Error> {
    let all = containers::connected(&Client::detect(cx)?, &args.name)?;
    Ok(match args.verbose {
        true => all.into(),
        false => Value::list(all.keys().cloned()),
    })
}

fn create(cx: &Exec, args: Create) -> Result<Value, Error> {
    let client = Client::detect(cx)?.patient(patience(Some(args.client_timeout)));
    let asked = CreateOptions {
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
    let client = Client::detect(cx)?.patient(patience(Some(args.client_timeout)));
    let checks = (args.ignore_collisions, args.validate_ip_addrs);
    let known = create::network(&args.kwargs, checks)?;
    create::make_network(&client, &args.name, &known)?;
    let made = client.inspect(Kind::Network, &args.name)?;
    let id = made.get("Id").cloned().unwrap_or_default();
    Ok(Map::new().with("Id", id).with("Warning", "").into())
}

fn create_volume(cx: &Exec, args: CreateVolume) -> Result<Value, Error> {
    lists::create_volume(
        &Client::detect(cx)?,
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
    containers::disconnect(&Client::detect(cx)?, &args.container, &args.network_id)?;
    Ok(true.into())
}

fn exists(cx: &Exec, args: Exists) -> Result<Value, Error> {
    let found = Client::detect(cx)?.found(Kind::Container, &args.name)?;
    Ok(found.is_some().into())
}

fn info(cx: &Exec, _: Info) -> Result<Value, Error> {
    client::read(&Client::detect(cx)?.tell(&["info"], &["--format={{json .}}".into()], &[])?)
}

fn inspect(cx: &Exec, args: Inspect) -> Result<Value, Error> {
    let client = Client::detect(cx)?;
    for kind in [Kind::Container, Kind::Image, Kind::Volume, Kind::Network] {
        if let Some(found) = client.found(kind, &args.name)? {
            return Ok(found.into());
        }
    }
    let name = args.name;
    Err(format!("Error 404: No such image/container/volume/network: {name}").into())
}

fn inspect_container(cx: &Exec, args: InspectContainer) -> Result<Value, Error> {
    Client::detect(cx)?
        .inspect(Kind::Container, &args.name)
        .map(Value::from)
}

fn inspect_network(cx: &Exec, args: InspectNetwork) -> Result<Value, Error> {
    Client::detect(cx)?
        .inspect(Kind::Network, &args.network_id)
        .map(Value::from)
}

fn inspect_volume(cx: &Exec, args: InspectVolume) -> Result<Value, Error> {
    Client::detect(cx)?
        .inspect(Kind::Volume, &args.name)
        .map(Value::from)
}

fn kill(cx: &Exec, args: Kill) -> Result<Value, Error> {
    containers::change(&Client::detect(cx)?, &args.name, ("kill", "stopped"), &[]).map(Value::from)
}

fn list_containers(cx: &Exec, args: ListContainers) -> Result<Value, Error> {
    containers::names(&Client::detect(cx)?, flag(&args.kwargs, "all")).map(Value::from)
}

fn logs(cx: &Exec, args: Logs) -> Result<Value, Error> {
    lists::logs(&Client::detect(cx)?, &args.name, &args.kwargs).map(Value::from)
}

fn networks(cx: &Exec, args: Networks) -> Result<Value, Error> {
    lists::networks(&Client::detect(cx)?, &words(&args.names), &words(&args.ids)).map(Value::from)
}

fn pause(cx: &Exec, args: Pause) -> Result<Value, Error> {
    let client = Client::detect(cx)?;
    containers::change_unless(&client, &args.name, ("pause", "paused"), "stopped").map(Value::from)
}

fn ps(cx: &Exec, args: Ps) -> Result<Value, Error> {
    lists::ps(&Client::detect(cx)?, &args.filters, &args.kwargs).map(Value::from)
}

fn remove_network(cx: &Exec, args: RemoveNetwork) -> Result<Value, Error> {
    drop_network(&Client::detect(cx)?, &args.network_id)?;
    Ok(true.into())
}

/// Removes a network.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn drop_network(client: &Client<'_>, name: &str) -> Result<(), Error> {
    client.tell(&["network", "rm"], &[], &[name]).map(drop)
}

fn remove_volume(cx: &Exec, args: RemoveVolume) -> Result<Value, Error> {
    drop_volume(&Client::detect(cx)?, &args.name)?;
    Ok(true.into())
}

/// Removes a volume.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn drop_volume(client: &Client<'_>, name: &str) -> Result<(), Error> {
    client.tell(&["volume", "rm"], &[], &[name]).map(drop)
}

fn rename(cx: &Exec, args: Rename) -> Result<Value, Error> {
    containers::rename(&Client::detect(cx)?, &args.name, &args.new_name).map(Value::from)
}

fn restart(cx: &Exec, args: Restart) -> Result<Value, Error> {
    let seconds = args.timeout.max(0);
    let client = Client::detect(cx)?.patient(seconds.saturating_add(CLIENT_SECONDS));
    let options = [format!("-t={seconds}")];
    let done = containers::change(&client, &args.name, ("restart", "running"), &options)?;
    Ok(match flag(&done, "result") {
        true => done.with("restarted", true).into(),
        false => done.into(),
    })
}

fn retcode(cx: &Exec, args: Retcode) -> Result<Value, Error> {
    let output = inside::run(&Client::detect(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    Ok(output.retcode.into())
}

fn rm(cx: &Exec, args: Rm) -> Result<Value, Error> {
    let how = Removal {
        force: args.force,
        volumes: args.volumes,
        stop: flag(&args.kwargs, "stop"),
        timeout: args.kwargs.get("timeout").and_then(Value::as_int),
    };
    containers::rm(&Client::detect(cx)?, &args.name, how).map(Value::from)
}

fn run(cx: &Exec, args: Run) -> Result<Value, Error> {
    let output = inside::run(&Client::detect(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    let mut said = output.stdout_regardless().to_owned();
    if !said.is_empty() && !output.stderr.is_empty() {
        said.push('\n');
    }
    Ok(format!("{said}{}", output.stderr).into())
}

fn run_all(cx: &Exec, args: RunAll) -> Result<Value, Error> {
    let output = inside::run(&Client::detect(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    Ok(output.to_map().into())
}

fn run_container(cx: &Exec, args: RunContainer) -> Result<Value, Error> {
    let client = Client::detect(cx)?.patient(patience(Some(args.client_timeout)));
    let mut given = args.kwargs;
    given.insert("networks", args.networks);
    let asked = CreateOptions {
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
    let output = inside::run(&Client::detect(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    Ok(output.stderr.into())
}

fn run_stdout(cx: &Exec, args: RunStdout) -> Result<Value, Error> {
    let output = inside::run(&Client::detect(cx)?, &args.name, &args.cmd, &args.kwargs)?;
    Ok(output.into_stdout_regardless().into())
}

fn signal(cx: &Exec, args: Signal) -> Result<Value, Error> {
    send(&Client::detect(cx)?, &args.name, &args.signal)?;
    Ok(true.into())
}

/// Sends a signal to a container.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn send(client: &Client<'_>, name: &str, signal: &str) -> Result<(), Error> {
    client
        .tell(&["kill"], &[format!("--signal={signal}")], &[name])
        .map(drop)
}

fn start(cx: &Exec, args: Start) -> Result<Value, Error> {
    containers::start(&Client::detect(cx)?, &args.name).map(Value::from)
}

fn state(cx: &Exec, args: State) -> Result<Value, Error> {
    containers::state(&Client::detect(cx)?, &args.name).map(Value::from)
}

fn stop(cx: &Exec, args: Stop) -> Result<Value, Error> {
    let unpause = flag(&args.kwargs, "unpause");
    containers::stop(Client::detect(cx)?, &args.name, args.timeout, unpause).map(Value::from)
}

fn unpause(cx: &Exec, args: Unpause) -> Result<Value, Error> {
    let client = Client::detect(cx)?;
    containers::change_unless(&client, &args.name, ("unpause", "running"), "stopped")
        .map(Value::from)
}

fn version(cx: &Exec, _: Version) -> Result<Value, Error> {
    lists::version(&Client::detect(cx)?).map(Value::from)
}

fn volumes(cx: &Exec, args: Volumes) -> Result<Value, Error> {
    lists::volumes(&Client::detect(cx)?, &args.filters).map(Value::from)
}

fn wait(cx: &Exec, args: Wait) -> Result<Value, Error> {
    let told = lists::wait(
        &Client::detect(cx)?,
        &args.name,
        args.ignore_already_stopped,
    )?;
    let code = told.get("exit_status").and_then(Value::as_int);
    let is_wrong = args.fail_on_exit_status && flag(&told, "result") && code != Some(0);
    Ok(match is_wrong {
        true => told.with("result", false).into(),
        false => told.into(),
    })
}

/// Returns the process with the given standard input and timeout.
fn with_input(process: Process, input: &str, seconds: i64) -> Process {
    Process {
        stdin: Some(input.to_owned()),
        timeout: Some(seconds.into()),
        ..process
    }
}
