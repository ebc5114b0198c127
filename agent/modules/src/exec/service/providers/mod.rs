//! The init systems that provide `service`. They are chosen as Salt chooses among its modules of
//! that name.

mod openrc;
mod procd;
mod runit;
pub(crate) mod systemd;
mod sysvinit;

use std::path::Path;

use machine::fs;
use machine::process::{Output, Process, which};
use machine::systemd::booted;
use rustix::fs::Access;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

/// The services to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All services.
    All,
    /// The services that start with the system.
    Enabled,
    /// The services that do not start with the system.
    Disabled,
}

/// An init system: the functions that each one has, and its capabilities.
pub(crate) trait Provider: Sync {
    /// Returns the name of Salt's module for it.
    fn name(&self) -> &'static str;

    /// Starts, stops, restarts, reloads … a service. `options` are the keyword arguments of Salt's
    /// function.
    fn act(&self, cx: &Exec, verb: &str, name: &str, options: &Map) -> Result<bool, Error>;

    /// Returns the functions of Salt's `service` that call [`Provider::act`], beyond those that
    /// each init system has.
    fn actions(&self) -> &'static [&'static str];

    /// Returns whether a service runs.
    fn runs(&self, cx: &Exec, name: &str) -> Result<Value, Error>;

    /// Lists the names of services: a list, or names with their runlevels.
    fn list(&self, cx: &Exec, which: Which, options: &Map) -> Result<Value, Error>;

    /// Returns whether a service exists.
    fn available(&self, cx: &Exec, name: &str) -> Result<bool, Error> {
        Ok(names(&self.list(cx, Which::All, &Map::new())?)
            .iter()
            .any(|each| each == name))
    }

    /// Returns the start of services with the system.
    fn boot(&self) -> Option<&dyn Boot> {
        None
    }

    /// Returns the units of systemd.
    fn units(&self) -> Option<&dyn Units> {
        None
    }
}

/// The start of services with the system.
pub(crate) trait Boot {
    /// Enables or disables the start of a service with the system.
    fn enable(&self, cx: &Exec, name: &str, on: bool, options: &Map) -> Result<bool, Error>;

    /// Returns whether a service starts with the system.
    fn enabled(&self, cx: &Exec, name: &str, options: &Map) -> Result<bool, Error>;

    /// Returns whether a service is known not to start with the system.
    fn disabled(&self, cx: &Exec, name: &str, options: &Map) -> Result<bool, Error> {
        self.enabled(cx, name, options).map(|enabled| !enabled)
    }
}

/// The units of systemd.
pub(crate) trait Units {
    /// Returns the running units.
    fn running(&self, cx: &Exec) -> Result<Vec<String>, Error>;

    /// Returns the units whose files are in a state such as `static`.
    fn in_state(&self, cx: &Exec, state: &str, root: Option<&str>) -> Result<Vec<String>, Error>;

    /// Returns the properties of a unit.
    fn show(&self, cx: &Exec, name: &str, root: Option<&str>) -> Result<Map, Error>;

    /// Masks or unmasks a unit, with `runtime` until the next reboot.
    fn mask(
        &self,
        cx: &Exec,
        name: &str,
        on: bool,
        runtime: bool,
        root: Option<&str>,
    ) -> Result<(), Error>;

    /// Returns whether a unit is masked.
    fn is_masked(
        &self,
        cx: &Exec,
        name: &str,
        runtime: bool,
        root: Option<&str>,
    ) -> Result<bool, Error>;

    /// Reads new and changed unit files.
    fn reload(&self, cx: &Exec) -> Result<(), Error>;

    /// Returns true if systemd is installed and has not started this system.
    fn is_offline(&self) -> bool;
}

impl dyn Provider + '_ {
    /// Returns true if it has this function of Salt's `service`.
    pub(crate) fn has(&self, function: &str) -> bool {
        match function {
            "start" | "stop" | "restart" | "reload" | "status" | "available" | "missing"
            | "get_all" => true,
            "enable" | "disable" | "enabled" | "disabled" | "get_enabled" | "get_disabled" => {
                self.boot().is_some()
            }
            "get_running" | "get_static" | "show" | "execs" | "mask" | "unmask" | "masked"
            | "systemctl_reload" | "offline" | "firstboot" => self.units().is_some(),
            action => self.actions().contains(&action),
        }
    }
}

/// Distributions on which Salt does not use its plain module: they have another one, or none.
const NOT_PLAIN: &[&str] = &[
    "RedHat",
    "CentOS",
    "Amazon",
    "ScientificLinux",
    "CloudLinux",
    "Fedora",
    "Gentoo",
    "Ubuntu",
    "Debian",
    "Devuan",
    "ALT",
    "OEL",
    "Linaro",
    "elementary OS",
    "McAfee  OS Server",
    "Raspbian",
    "SUSE",
    "Slackware",
];

/// The init systems that the option `providers` or a state's own `provider` can name, by Salt's
/// names.
pub(crate) const NAMED: [&dyn Provider; 8] = [
    &systemd::Systemd,
    &sysvinit::DEBIAN,
    &sysvinit::RED_HAT,
    &sysvinit::UBUNTU,
    &openrc::OpenRc,
    &procd::Procd,
    &runit::Runit,
    &sysvinit::PLAIN,
];

/// Returns the init systems of this machine, in order of preference. The first one with a wanted
/// function is used.
fn providers(cx: &Exec) -> Vec<&'static dyn Provider> {
    let mut found = own_providers(cx);
    if let Some(name) = cx.provider("service") {
        let named = NAMED.iter().find(|provider| provider.name() == name);
        found.splice(..0, named.copied());
    }
    found
}

/// Returns the machine's own init systems. Where systemd is installed and does not run, it provides
/// the functions that the first one lacks.
fn own_providers(cx: &Exec) -> Vec<&'static dyn Provider> {
    let grains = cx.grains();
    let grain = |name: &str| grains.get(name).map(Value::to_text).unwrap_or_default();
    if booted() {
        return vec![&systemd::Systemd];
    }
    let (os, init) = (grain("os"), grain("init"));
    let mut found: Vec<&'static dyn Provider> = Vec::new();
    match os.as_str() {
        "Debian" | "Raspbian" | "Devuan" | "NILinuxRT" => found.push(&sysvinit::DEBIAN),
        "Gentoo" | "Alpine" => found.push(&openrc::OpenRc),
        "OpenWrt" => found.push(&procd::Procd),
        os if sysvinit::has_chkconfig(os, grains.get("osrelease_info")) => {
            found.push(&sysvinit::RED_HAT);
        }
        _ if init == "runit" => found.push(&runit::Runit),
        os if !NOT_PLAIN.contains(&os)
            && matches!(init.as_str(), "" | "None" | "sysvinit" | "unknown")
            && Path::new(sysvinit::SCRIPTS).is_dir() =>
        {
            found.push(&sysvinit::PLAIN);
        }
        _ => {}
    }
    if which("systemctl").is_some() {
        found.push(&systemd::Systemd);
    }
    if matches!(os.as_str(), "Ubuntu" | "Linaro" | "elementary OS" | "Mint") {
        found.push(&sysvinit::UBUNTU);
    }
    found
}

/// Returns the init system that has a function of `service`.
///
/// # Errors
/// When none has it.
pub(crate) fn find(cx: &Exec, function: &str) -> Result<&'static dyn Provider, Error> {
    capability(cx, function, |one| one.has(function).then_some(one))
}

/// Returns the start of services with the system, for a function of `service`.
///
/// # Errors
/// When no init system has it.
pub(crate) fn boot(cx: &Exec, function: &str) -> Result<&'static dyn Boot, Error> {
    capability(cx, function, |one| one.boot())
}

/// Returns the units of systemd, for a function of `service`.
///
/// # Errors
/// When no init system has them.
pub(crate) fn units(cx: &Exec, function: &str) -> Result<&'static dyn Units, Error> {
    capability(cx, function, |one| one.units())
}

/// Returns a capability of the first init system that has it.
fn capability<T>(
    cx: &Exec,
    function: &str,
    of: impl Fn(&'static dyn Provider) -> Option<T>,
) -> Result<T, Error> {
    let found = providers(cx).into_iter().find_map(of);
    found.ok_or_else(|| Error::not_available(format!("service.{function}")))
}

/// Returns the names in a return of [`Provider::list`].
pub(crate) fn names(listed: &Value) -> Vec<String> {
    match listed {
        Value::Map(map) => map.keys().map(Value::to_text).collect(),
        other => other.texts(),
    }
}

/// Runs a program that makes a change. A failure is logged.
fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    Process::words(words.iter().copied()).run(cx)
}

/// Runs a query. A failure is an answer and is not logged.
fn ask(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    Process::words(words.iter().copied()).quiet().run(cx)
}

/// Refuses a text that cannot be the name of an init script: one that leads out of the folder, or
/// is an option of the program.
fn script_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.starts_with(['-', '.']) || name.contains(['/', '\0']) {
        return Err(Error::refused(format!("invalid service name '{name}'")));
    }
    Ok(())
}

/// Returns the sorted names in a folder; none where it does not exist.
fn folder(path: &str) -> Result<Vec<String>, Error> {
    let names = fs::names(path)?;
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    Ok(names.collect())
}

/// Returns the services that a folder of links such as `/etc/rc2.d` starts, sorted. The name is the
/// text after `S` and the digits.
fn started_by(folders: &[&str]) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for path in folders {
        let links = folder(path)?;
        let links = links.iter().filter_map(|link| link.strip_prefix('S'));
        names.extend(links.map(|name| {
            name.trim_start_matches(|sign: char| sign.is_ascii_digit())
                .to_owned()
        }));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns true for a file that this program may execute.
fn runnable(path: &Path) -> bool {
    rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Returns the second word of the output of `runlevel`; `None` where it is unknown.
fn runlevel(cx: &Exec) -> Option<String> {
    let out = ask(cx, &[&which("runlevel")?])
        .ok()?
        .into_stdout_regardless();
    let level = out.split_whitespace().nth(1)?;
    Some(level.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_system_has_the_functions_of_salts_module() {
        let have = |function: &str| -> Vec<&str> {
            let named = NAMED.iter().filter(|one| one.has(function));
            named.map(|one| one.name()).collect()
        };
        let all: Vec<&str> = NAMED.iter().map(|one| one.name()).collect();
        let (plain, levels) = all.split_last().unwrap();
        assert_eq!(have("get_all"), all);
        assert_eq!(
            (*plain, have("enable").as_slice()),
            ("linux_service", levels)
        );
        assert_eq!(have("masked"), ["systemd_service"]);
        let forced = ["systemd_service", "debian_service", "upstart_service"];
        assert_eq!(have("force_reload"), forced);
        assert_eq!(have("full_restart"), ["upstart_service", "runit"]);
        assert_eq!(have("run"), ["linux_service"; 2]);
        assert_eq!(have("zap"), ["gentoo_service"]);
        assert_eq!(have("delete"), ["rh_service"]);
        assert!(have("nothing").is_empty());
    }
}
