//! The `service` execution module: the same functions for each init system.

pub(crate) mod inverse;
pub(crate) mod providers;

use machine::process::Process;
use state::exec::Exec;
use state::module::{Error, invalid_keywords};
use value::glob::{fnmatch, is_glob};
use value::{Map, Value};

use crate::exec::status;
use providers::{Which, names};

state::exec_module! {
    /// Manage services of this machine's init system.
    #[module(inverses = [&inverse::ENABLED, &inverse::RUNNING])]
    mod service;

    /// Start a service.
    ///
    ///     salt-call service.start nginx
    fn start(Start {
        /// The name of the service.
        name: String,
        /// systemd: True to return without waiting for the job to finish.
        no_block: Value = false.into(),
        /// systemd: True to remove the mask of the unit first.
        unmask: bool = false,
        /// systemd: True to first remove the mask that lasts until the next reboot.
        unmask_runtime: bool = false,
    });

    /// Stop a service.
    ///
    ///     salt-call service.stop nginx
    fn stop(Stop {
        /// The name of the service.
        name: String,
        /// systemd: True to return without waiting for the job to finish.
        no_block: Value = Value::Null,
    });

    /// Restart a service.
    ///
    ///     salt-call service.restart nginx
    fn restart(Restart {
        /// The name of the service.
        name: String,
        /// systemd: True to return without waiting for the job to finish.
        no_block: Value = Value::Null,
        /// systemd: True to remove the mask of the unit first.
        unmask: bool = false,
        /// systemd: True to first remove the mask that lasts until the next reboot.
        unmask_runtime: bool = false,
    });

    /// Make a service reload its configuration.
    ///
    ///     salt-call service.reload nginx
    fn reload(Reload {
        /// The name of the service.
        name: String,
        /// systemd: True to return without waiting for the job to finish.
        no_block: Value = false.into(),
        /// systemd: True to remove the mask of the unit first.
        unmask: bool = false,
        /// systemd: True to first remove the mask that lasts until the next reboot.
        unmask_runtime: bool = false,
    });

    /// Make a service reload its configuration, or restart it if it cannot reload.
    ///
    ///     salt-call service.force_reload nginx
    fn force_reload(ForceReload {
        /// The name of the service.
        name: String,
        /// systemd: True to return without waiting for the job to finish.
        no_block: Value = true.into(),
        /// systemd: True to remove the mask of the unit first.
        unmask: bool = false,
        /// systemd: True to first remove the mask that lasts until the next reboot.
        unmask_runtime: bool = false,
    });

    /// Stop and start a service, if the init system distinguishes this from a restart.
    ///
    ///     salt-call service.full_restart nginx
    fn full_restart(FullRestart {
        /// The name of the service.
        name: String,
    });

    /// Call an init script with an action.
    ///
    ///     salt-call service.run nginx configtest
    fn run(Run {
        /// The name of the init script.
        name: String,
        /// The action.
        action: String,
    });

    /// OpenRC: reset the state of a service to stopped, without stopping it.
    ///
    ///     salt-call service.zap nginx
    fn zap(Zap {
        /// The name of the service.
        name: String,
    });

    /// Return whether a service runs. For a glob, return a dictionary with all services that match.
    ///
    ///     salt-call service.status nginx
    fn status(Status {
        /// The name of the service, or a glob.
        name: String,
        /// A text in the output of `ps` that shows that the service runs. systemd does not need it.
        sig: Option<String> = None,
    });

    /// Return whether a service exists.
    ///
    ///     salt-call service.available nginx
    fn available(Available {
        /// The name of the service.
        name: String,
    });

    /// Return whether a service does not exist.
    ///
    ///     salt-call service.missing nginx
    fn missing(Missing {
        /// The name of the service.
        name: String,
    });

    /// Enable a service, so that it starts at boot.
    ///
    ///     salt-call service.enable nginx
    fn enable(Enable {
        /// The name of the service.
        name: String,
        /// systemd: True to return without waiting for the job to finish.
        no_block: bool = false,
        /// systemd: True to remove the mask of the unit first.
        unmask: bool = false,
        /// systemd: True to first remove the mask that lasts until the next reboot.
        unmask_runtime: bool = false,
        /// systemd: the root folder of the files.
        root: Option<String> = None,
        ..kwargs
    });

    /// Disable a service, so that it does not start at boot.
    ///
    ///     salt-call service.disable nginx
    fn disable(Disable {
        /// The name of the service.
        name: String,
        /// systemd: True to return without waiting for the job to finish.
        no_block: bool = false,
        /// systemd: the root folder of the files.
        root: Option<String> = None,
        ..kwargs
    });

    /// Return whether a service is enabled.
    ///
    ///     salt-call service.enabled nginx
    fn enabled(Enabled {
        /// The name of the service.
        name: String,
        /// systemd: the root folder of the files.
        root: Option<String> = None,
        ..kwargs
    });

    /// Return whether a service is disabled.
    ///
    ///     salt-call service.disabled nginx
    fn disabled(Disabled {
        /// The name of the service.
        name: String,
        /// systemd: the root folder of the files.
        root: Option<String> = None,
    });

    /// `chkconfig`: remove a service from the runlevels.
    ///
    ///     salt-call service.delete nginx
    fn delete(Delete {
        /// The name of the service.
        name: String,
        ..kwargs
    });

    /// Return the names of all services.
    ///
    ///     salt-call service.get_all
    fn get_all(GetAll {
        /// systemd: the root folder of the files.
        root: Option<String> = None,
        /// `chkconfig`: accepted and ignored, because all services are of one kind.
        limit: String = String::new(),
    });

    /// Return the names of the enabled services.
    ///
    ///     salt-call service.get_enabled
    fn get_enabled(GetEnabled {
        /// systemd: the root folder of the files.
        root: Option<String> = None,
        /// `chkconfig`: accepted and ignored, because all services are of one kind.
        limit: String = String::new(),
    });

    /// Return the names of the disabled services.
    ///
    ///     salt-call service.get_disabled
    fn get_disabled(GetDisabled {
        /// systemd: the root folder of the files.
        root: Option<String> = None,
        /// `chkconfig`: accepted and ignored, because all services are of one kind.
        limit: String = String::new(),
    });

    /// systemd: return the names of the running units.
    ///
    ///     salt-call service.get_running
    fn get_running(GetRunning {});

    /// systemd: return the names of the static units, which cannot be enabled.
    ///
    ///     salt-call service.get_static
    fn get_static(GetStatic {
        /// systemd: the root folder of the files.
        root: Option<String> = None,
    });

    /// systemd: return the properties of a unit.
    ///
    ///     salt-call service.show nginx
    fn show(Show {
        /// The name of the unit.
        name: String,
        /// systemd: the root folder of the files.
        root: Option<String> = None,
    });

    /// systemd: return the command of each service.
    ///
    ///     salt-call service.execs
    fn execs(Execs {
        /// systemd: the root folder of the files.
        root: Option<String> = None,
    });

    /// systemd: mask a unit, so that it cannot be started.
    ///
    ///     salt-call service.mask telnet
    fn mask(Mask {
        /// The name of the unit.
        name: String,
        /// True to mask the unit only until the next reboot.
        runtime: bool = false,
        /// systemd: the root folder of the files.
        root: Option<String> = None,
    });

    /// systemd: remove the mask of a unit.
    ///
    ///     salt-call service.unmask telnet
    fn unmask(Unmask {
        /// The name of the unit.
        name: String,
        /// True to remove the mask that lasts until the next reboot.
        runtime: bool = false,
        /// systemd: the root folder of the files.
        root: Option<String> = None,
    });

    /// systemd: return whether a unit is masked.
    ///
    ///     salt-call service.masked telnet
    fn masked(Masked {
        /// The name of the unit.
        name: String,
        /// True to check for the mask that lasts until the next reboot.
        runtime: bool = false,
        /// systemd: the root folder of the files.
        root: Option<String> = None,
    });

    /// systemd: reload the unit files.
    ///
    ///     salt-call service.systemctl_reload
    fn systemctl_reload(SystemctlReload {});

    /// systemd: return whether systemd is installed but does not run, so that no service can be
    /// started.
    ///
    ///     salt-call service.offline
    fn offline(Offline {});

    /// systemd: set the basic settings of a new system with `systemd-firstboot`.
    ///
    ///     salt-call service.firstboot hostname=web1 timezone=UTC
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
        /// The machine ID.
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

/// Calls `function`, whose name is `verb` for the init system. Only systemd accepts options that
/// are set.
fn act(
    cx: &Exec,
    function: &str,
    verb: &str,
    name: &str,
    given: &[(&str, Value)],
) -> Result<Value, Error> {
    let provider = providers::find(cx, function)?;
    if provider.units().is_none() {
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
    let provider = providers::find(cx, "status")?;
    if let Some(sig) = args.sig.filter(|sig| !sig.is_empty())
        && provider.units().is_none()
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
    let found = providers::find(cx, "available")?.available(cx, &args.name)?;
    Ok(found.into())
}

fn missing(cx: &Exec, args: Missing) -> Result<Value, Error> {
    let found = providers::find(cx, "missing")?.available(cx, &args.name)?;
    Ok((!found).into())
}

fn enable(cx: &Exec, args: Enable) -> Result<Value, Error> {
    let options = args
        .kwargs
        .with("no_block", args.no_block)
        .with("unmask", args.unmask)
        .with("unmask_runtime", args.unmask_runtime)
        .with("root", args.root);
    let done = providers::boot(cx, "enable")?.enable(cx, &args.name, true, &options)?;
    Ok(done.into())
}

fn disable(cx: &Exec, args: Disable) -> Result<Value, Error> {
    let options = args
        .kwargs
        .with("no_block", args.no_block)
        .with("root", args.root);
    let done = providers::boot(cx, "disable")?.enable(cx, &args.name, false, &options)?;
    Ok(done.into())
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Value, Error> {
    let options = args.kwargs.with("root", args.root);
    let found = providers::boot(cx, "enabled")?.enabled(cx, &args.name, &options)?;
    Ok(found.into())
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Value, Error> {
    let options = Map::new().with("root", args.root);
    let found = providers::boot(cx, "disabled")?.disabled(cx, &args.name, &options)?;
    Ok(found.into())
}

fn listed(cx: &Exec, function: &str, which: Which, root: Option<String>) -> Result<Value, Error> {
    providers::find(cx, function)?.list(cx, which, &Map::new().with("root", root))
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
    Ok(providers::units(cx, "get_running")?.running(cx)?.into())
}

fn get_static(cx: &Exec, args: GetStatic) -> Result<Value, Error> {
    let units = providers::units(cx, "get_static")?;
    Ok(units.in_state(cx, "static", args.root.as_deref())?.into())
}

fn show(cx: &Exec, args: Show) -> Result<Value, Error> {
    let units = providers::units(cx, "show")?;
    Ok(units.show(cx, &args.name, args.root.as_deref())?.into())
}

fn execs(cx: &Exec, args: Execs) -> Result<Value, Error> {
    let (provider, units) = (
        providers::find(cx, "execs")?,
        providers::units(cx, "execs")?,
    );
    let options = Map::new().with("root", args.root.clone());
    let mut found = Map::new();
    for name in names(&provider.list(cx, Which::All, &options)?) {
        let shown = units.show(cx, &name, args.root.as_deref())?;
        if let Some(path) = shown.get("ExecStart").and_then(|start| start.get("path")) {
            found.insert(name, path.clone());
        }
    }
    Ok(found.into())
}

fn mask(cx: &Exec, args: Mask) -> Result<Value, Error> {
    let units = providers::units(cx, "mask")?;
    units.mask(cx, &args.name, true, args.runtime, args.root.as_deref())?;
    Ok(true.into())
}

fn unmask(cx: &Exec, args: Unmask) -> Result<Value, Error> {
    let units = providers::units(cx, "unmask")?;
    units.mask(cx, &args.name, false, args.runtime, args.root.as_deref())?;
    Ok(true.into())
}

fn masked(cx: &Exec, args: Masked) -> Result<Value, Error> {
    let units = providers::units(cx, "masked")?;
    Ok(units
        .is_masked(cx, &args.name, args.runtime, args.root.as_deref())?
        .into())
}

fn systemctl_reload(cx: &Exec, _args: SystemctlReload) -> Result<Value, Error> {
    providers::units(cx, "systemctl_reload")?.reload(cx)?;
    Ok(true.into())
}

fn offline(cx: &Exec, _args: Offline) -> Result<Value, Error> {
    Ok(providers::units(cx, "offline")?.is_offline().into())
}

fn firstboot(cx: &Exec, args: Firstboot) -> Result<Value, Error> {
    providers::units(cx, "firstboot")?;
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
