//! The `service` execution module: the same functions for every init system.

use state::exec::Exec;
use state::module::{Error, invalid_keywords};
use value::glob::{fnmatch, is_glob};
use value::{Map, Value};

use crate::exec::status;
use crate::process::Process;
use crate::service::{self, Which, names, systemd};

state::exec_module! {
    /// Services of this machine's init system.
    mod service;

    /// Start a service.
    fn start(Start {
        /// Its name.
        name: String,
        /// systemd: do not wait for it.
        no_block: Value = false.into(),
        /// systemd: remove its mask before.
        unmask: bool = false,
        /// systemd: remove its mask until the next start of the system before.
        unmask_runtime: bool = false,
    });

    /// Stop a service.
    fn stop(Stop {
        /// Its name.
        name: String,
        /// As of `service.start`.
        no_block: Value = Value::Null,
    });

    /// Restart a service.
    fn restart(Restart {
        /// Its name.
        name: String,
        /// As of `service.start`.
        no_block: Value = Value::Null,
        /// As of `service.start`.
        unmask: bool = false,
        /// As of `service.start`.
        unmask_runtime: bool = false,
    });

    /// Let a service read its configuration again.
    fn reload(Reload {
        /// Its name.
        name: String,
        /// As of `service.start`.
        no_block: Value = false.into(),
        /// As of `service.start`.
        unmask: bool = false,
        /// As of `service.start`.
        unmask_runtime: bool = false,
    });

    /// Let a service read its configuration again, or restart it where it cannot do that.
    fn force_reload(ForceReload {
        /// Its name.
        name: String,
        /// As of `service.start`.
        no_block: Value = true.into(),
        /// As of `service.start`.
        unmask: bool = false,
        /// As of `service.start`.
        unmask_runtime: bool = false,
    });

    /// Stop and start a service, where the init system tells that from a restart.
    fn full_restart(FullRestart {
        /// Its name.
        name: String,
    });

    /// Call an init script with any word.
    fn run(Run {
        /// The script's name.
        name: String,
        /// The word.
        action: String,
    });

    /// OpenRC: forget that a service was started.
    fn zap(Zap {
        /// Its name.
        name: String,
    });

    /// Whether a service runs; a pattern asks for all that match.
    fn status(Status {
        /// Its name, or a pattern.
        name: String,
        /// What a line of `ps` has when it runs; systemd knows without.
        sig: Option<String> = None,
    });

    /// Whether there is a service of this name.
    fn available(Available {
        /// Its name.
        name: String,
    });

    /// Whether there is no service of this name.
    fn missing(Missing {
        /// Its name.
        name: String,
    });

    /// Let a service start with the system.
    fn enable(Enable {
        /// Its name.
        name: String,
        /// As of `service.start`.
        no_block: bool = false,
        /// As of `service.start`.
        unmask: bool = false,
        /// As of `service.start`.
        unmask_runtime: bool = false,
        /// systemd: the root folder whose files are changed.
        root: Option<String> = None,
        ..kwargs
    });

    /// Let a service not start with the system.
    fn disable(Disable {
        /// Its name.
        name: String,
        /// As of `service.start`.
        no_block: bool = false,
        /// As of `service.enable`.
        root: Option<String> = None,
        ..kwargs
    });

    /// Whether a service starts with the system.
    fn enabled(Enabled {
        /// Its name.
        name: String,
        /// As of `service.enable`.
        root: Option<String> = None,
        ..kwargs
    });

    /// Whether a service does not start with the system.
    fn disabled(Disabled {
        /// Its name.
        name: String,
        /// As of `service.enable`.
        root: Option<String> = None,
    });

    /// `chkconfig`: remove a service from the runlevels.
    fn delete(Delete {
        /// Its name.
        name: String,
        ..kwargs
    });

    /// The names of all services.
    fn get_all(GetAll {
        /// As of `service.enable`.
        root: Option<String> = None,
        /// `chkconfig`: accepted, all are of one kind.
        limit: String = String::new(),
    });

    /// The names of the services that start with the system.
    fn get_enabled(GetEnabled {
        /// As of `service.enable`.
        root: Option<String> = None,
        /// As of `service.get_all`.
        limit: String = String::new(),
    });

    /// The names of the services that do not start with the system.
    fn get_disabled(GetDisabled {
        /// As of `service.enable`.
        root: Option<String> = None,
        /// As of `service.get_all`.
        limit: String = String::new(),
    });

    /// systemd: the names of the units that run.
    fn get_running(GetRunning {});

    /// systemd: the names of the units that cannot be enabled.
    fn get_static(GetStatic {
        /// As of `service.enable`.
        root: Option<String> = None,
    });

    /// systemd: the properties of a unit.
    fn show(Show {
        /// Its name.
        name: String,
        /// As of `service.enable`.
        root: Option<String> = None,
    });

    /// systemd: the program of each service.
    fn execs(Execs {
        /// As of `service.enable`.
        root: Option<String> = None,
    });

    /// systemd: keep a unit from being started.
    fn mask(Mask {
        /// Its name.
        name: String,
        /// Only until the next start of the system.
        runtime: bool = false,
        /// As of `service.enable`.
        root: Option<String> = None,
    });

    /// systemd: remove the mask of a unit.
    fn unmask(Unmask {
        /// Its name.
        name: String,
        /// The mask that lasts until the next start of the system.
        runtime: bool = false,
        /// As of `service.enable`.
        root: Option<String> = None,
    });

    /// systemd: whether a unit is masked.
    fn masked(Masked {
        /// Its name.
        name: String,
        /// As of `service.unmask`.
        runtime: bool = false,
        /// As of `service.enable`.
        root: Option<String> = None,
    });

    /// systemd: read unit files again.
    fn systemctl_reload(SystemctlReload {});

    /// systemd: whether it is installed and does not run; nothing is started then.
    fn offline(Offline {});

    /// systemd: set what a new system needs, with `systemd-firstboot`.
    fn firstboot(Firstboot {
        /// The locale.
        locale: Option<String> = None,
        /// The locale of messages.
        locale_message: Option<String> = None,
        /// The keymap.
        keymap: Option<String> = None,
        /// The time zone.
        timezone: Option<String> = None,
        /// The host name.
        hostname: Option<String> = None,
        /// The machine id.
        machine_id: Option<String> = None,
        /// The root folder of the new system.
        root: Option<String> = None,
    });
}

fn options(pairs: &[(&str, Value)]) -> Map {
    pairs
        .iter()
        .map(|(name, value)| (*name, value.clone()))
        .collect()
}

/// Calls `function`, which is `verb` for the init system. Options that are set are of systemd only.
fn act(
    cx: &Exec,
    function: &str,
    verb: &str,
    name: &str,
    given: &[(&str, Value)],
) -> Result<Value, Error> {
    let provider = service::of(cx, function)?;
    if provider.name() != "systemd_service" {
        let set = given.iter().filter(|(_, value)| value.is_true());
        let set: Vec<String> = set.map(|(name, _)| (*name).to_owned()).collect();
        if !set.is_empty() && verb != "force-reload" {
            let full = format!("service.{function}");
            return Err(Error::unexpected(invalid_keywords(&set, &full)));
        }
    }
    let done = provider.act(cx, verb, name, &options(given))?;
    Ok(done.into())
}

fn start(cx: &Exec, args: Start) -> Result<Value, Error> {
    let given = [
        ("no_block", args.no_block),
        ("unmask", args.unmask.into()),
        ("unmask_runtime", args.unmask_runtime.into()),
    ];
    act(cx, "start", "start", &args.name, &given)
}

fn stop(cx: &Exec, args: Stop) -> Result<Value, Error> {
    let given = [("no_block", args.no_block)];
    act(cx, "stop", "stop", &args.name, &given)
}

fn restart(cx: &Exec, args: Restart) -> Result<Value, Error> {
    let given = [
        ("no_block", args.no_block),
        ("unmask", args.unmask.into()),
        ("unmask_runtime", args.unmask_runtime.into()),
    ];
    act(cx, "restart", "restart", &args.name, &given)
}

fn reload(cx: &Exec, args: Reload) -> Result<Value, Error> {
    let given = [
        ("no_block", args.no_block),
        ("unmask", args.unmask.into()),
        ("unmask_runtime", args.unmask_runtime.into()),
    ];
    act(cx, "reload", "reload", &args.name, &given)
}

fn force_reload(cx: &Exec, args: ForceReload) -> Result<Value, Error> {
    let given = [
        ("no_block", args.no_block),
        ("unmask", args.unmask.into()),
        ("unmask_runtime", args.unmask_runtime.into()),
    ];
    act(cx, "force_reload", "force-reload", &args.name, &given)
}

fn full_restart(cx: &Exec, args: FullRestart) -> Result<Value, Error> {
    act(cx, "full_restart", "full-restart", &args.name, &[])
}

fn run(cx: &Exec, args: Run) -> Result<Value, Error> {
    act(cx, "run", &args.action, &args.name, &[])
}

fn zap(cx: &Exec, args: Zap) -> Result<Value, Error> {
    act(cx, "zap", "zap", &args.name, &[])
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    act(cx, "delete", "delete", &args.name, &[])
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let provider = service::of(cx, "status")?;
    if let Some(sig) = args.sig.filter(|sig| !sig.is_empty())
        && provider.name() != "systemd_service"
    {
        let pids = status::pids(&sig)?;
        return Ok(match provider.name() {
            "linux_service" => pids.into(),
            _ => (!pids.is_empty()).into(),
        });
    }
    if !is_glob(&args.name) {
        return provider.runs(cx, &args.name);
    }
    let mut found = Map::new();
    for name in names(&provider.list(cx, Which::All, &Map::new())?) {
        if fnmatch(&args.name, &name) {
            found.insert(name.as_str(), provider.runs(cx, &name)?);
        }
    }
    Ok(found.into())
}

fn available(cx: &Exec, args: Available) -> Result<Value, Error> {
    let found = service::of(cx, "available")?.available(cx, &args.name)?;
    Ok(found.into())
}

fn missing(cx: &Exec, args: Missing) -> Result<Value, Error> {
    let found = service::of(cx, "missing")?.available(cx, &args.name)?;
    Ok((!found).into())
}

fn enable(cx: &Exec, args: Enable) -> Result<Value, Error> {
    let options = args
        .kwargs
        .with("no_block", args.no_block)
        .with("unmask", args.unmask)
        .with("unmask_runtime", args.unmask_runtime)
        .with("root", args.root);
    let done = service::of(cx, "enable")?.enable(cx, &args.name, true, &options)?;
    Ok(done.into())
}

fn disable(cx: &Exec, args: Disable) -> Result<Value, Error> {
    let options = args
        .kwargs
        .with("no_block", args.no_block)
        .with("root", args.root);
    let done = service::of(cx, "disable")?.enable(cx, &args.name, false, &options)?;
    Ok(done.into())
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Value, Error> {
    let options = args.kwargs.with("root", args.root);
    let found = service::of(cx, "enabled")?.enabled(cx, &args.name, &options)?;
    Ok(found.into())
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Value, Error> {
    let options = Map::new().with("root", args.root);
    let found = service::of(cx, "disabled")?.disabled(cx, &args.name, &options)?;
    Ok(found.into())
}

fn listed(cx: &Exec, function: &str, which: Which, root: Option<String>) -> Result<Value, Error> {
    service::of(cx, function)?.list(cx, which, &Map::new().with("root", root))
}

fn get_all(cx: &Exec, args: GetAll) -> Result<Value, Error> {
    listed(cx, "get_all", Which::All, args.root)
}

fn get_enabled(cx: &Exec, args: GetEnabled) -> Result<Value, Error> {
    listed(cx, "get_enabled", Which::Enabled, args.root)
}

fn get_disabled(cx: &Exec, args: GetDisabled) -> Result<Value, Error> {
    listed(cx, "get_disabled", Which::Disabled, args.root)
}

fn get_running(cx: &Exec, _args: GetRunning) -> Result<Value, Error> {
    service::of(cx, "get_running")?;
    Ok(systemd::running(cx)?.into())
}

fn get_static(cx: &Exec, args: GetStatic) -> Result<Value, Error> {
    service::of(cx, "get_static")?;
    Ok(systemd::unit_files_that_are(cx, "static", args.root.as_deref())?.into())
}

fn show(cx: &Exec, args: Show) -> Result<Value, Error> {
    service::of(cx, "show")?;
    Ok(systemd::show(cx, &args.name, args.root.as_deref())?.into())
}

fn execs(cx: &Exec, args: Execs) -> Result<Value, Error> {
    let provider = service::of(cx, "execs")?;
    let options = Map::new().with("root", args.root.clone());
    let mut found = Map::new();
    for name in names(&provider.list(cx, Which::All, &options)?) {
        let shown = systemd::show(cx, &name, args.root.as_deref())?;
        if let Some(path) = shown.get("ExecStart").and_then(|start| start.get("path")) {
            found.insert(name, path.clone());
        }
    }
    Ok(found.into())
}

fn mask(cx: &Exec, args: Mask) -> Result<Value, Error> {
    service::of(cx, "mask")?;
    systemd::mask(cx, &args.name, true, args.runtime, args.root.as_deref())?;
    Ok(true.into())
}

fn unmask(cx: &Exec, args: Unmask) -> Result<Value, Error> {
    service::of(cx, "unmask")?;
    systemd::mask(cx, &args.name, false, args.runtime, args.root.as_deref())?;
    Ok(true.into())
}

fn masked(cx: &Exec, args: Masked) -> Result<Value, Error> {
    service::of(cx, "masked")?;
    Ok(systemd::is_masked(cx, &args.name, args.runtime, args.root.as_deref())?.into())
}

fn systemctl_reload(cx: &Exec, _args: SystemctlReload) -> Result<Value, Error> {
    service::of(cx, "systemctl_reload")?;
    systemd::reload_units(cx)?;
    Ok(true.into())
}

fn offline(cx: &Exec, _args: Offline) -> Result<Value, Error> {
    service::of(cx, "offline")?;
    Ok(systemd::is_offline().into())
}

fn firstboot(cx: &Exec, args: Firstboot) -> Result<Value, Error> {
    service::of(cx, "firstboot")?;
    let mut words = vec!["systemd-firstboot".to_owned()];
    let given = [
        ("--locale", args.locale),
        ("--locale-message", args.locale_message),
        ("--keymap", args.keymap),
        ("--timezone", args.timezone),
        ("--hostname", args.hostname),
        ("--machine-id", args.machine_id),
        ("--root", args.root),
    ];
    for (option, value) in given {
        words.extend(
            value
                .filter(|value| !value.is_empty())
                .map(|value| format!("{option}={value}")),
        );
    }
    let out = Process::words(words).run(cx)?;
    if out.success() {
        return Ok(Value::Null);
    }
    Err(Error::refused(format!(
        "systemd-firstboot error: {}",
        out.stderr
    )))
}
