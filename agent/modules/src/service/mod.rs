//! The init systems behind `service`, chosen as Salt chooses among its modules of that name.

mod openrc;
mod procd;
mod runit;
pub(crate) mod systemd;
mod sysvinit;

use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::Access;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::fs;
use crate::process::{Output, Process, which};

/// Which services are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All that are there.
    All,
    /// Those that start with the system.
    Enabled,
    /// Those that do not.
    Disabled,
}

/// One init system.
pub(crate) trait Provider: Sync {
    /// The name of Salt's module for it.
    fn name(&self) -> &'static str;

    /// Whether it has a function of Salt's `service`.
    fn has(&self, function: &str) -> bool;

    /// Starts, stops, restarts, reloads … a service; `options` are keyword arguments as Salt's function has them.
    fn act(&self, cx: &Exec, verb: &str, name: &str, options: &Map) -> Result<bool, Error>;

    /// Whether a service runs.
    fn runs(&self, cx: &Exec, name: &str) -> Result<Value, Error>;

    /// Names of services: a list, or names with their runlevels.
    fn list(&self, cx: &Exec, which: Which, options: &Map) -> Result<Value, Error>;

    /// Whether there is a service.
    fn available(&self, cx: &Exec, name: &str) -> Result<bool, Error> {
        Ok(names(&self.list(cx, Which::All, &Map::new())?)
            .iter()
            .any(|each| each == name))
    }

    /// Lets a service start with the system, or not.
    fn enable(&self, cx: &Exec, name: &str, on: bool, options: &Map) -> Result<bool, Error>;

    /// Whether a service starts with the system.
    fn enabled(&self, cx: &Exec, name: &str, options: &Map) -> Result<bool, Error>;

    /// Whether a service is known not to start with the system.
    fn disabled(&self, cx: &Exec, name: &str, options: &Map) -> Result<bool, Error> {
        self.enabled(cx, name, options).map(|enabled| !enabled)
    }
}

/// True where systemd started this system. It is looked at once: `systemctl mask --runtime` makes the folder elsewhere too.
#[must_use]
pub(crate) fn booted() -> bool {
    static BOOTED: OnceLock<bool> = OnceLock::new();
    *BOOTED.get_or_init(|| Path::new("/run/systemd/system").exists())
}

/// Distributions for which Salt's plain module is not meant: they have one of their own, or none.
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

/// The init systems that the option `providers` or a state's own `provider` can name, by Salt's names for them.
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

/// The init systems of this machine, the one that is asked first in front: what it does not have is that of the others.
fn providers(cx: &Exec) -> Vec<&'static dyn Provider> {
    let mut found = own_providers(cx);
    if let Some(name) = cx.provider("service") {
        let named = NAMED.iter().find(|provider| provider.name() == name);
        found.splice(..0, named.copied());
    }
    found
}

/// Those that belong to it: where systemd is installed and not running, what the first does not have is systemd's.
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

/// The init system that has a function of `service`.
///
/// # Errors
/// When none has.
pub(crate) fn of(cx: &Exec, function: &str) -> Result<&'static dyn Provider, Error> {
    let mut found = providers(cx).into_iter();
    found
        .find(|provider| provider.has(function))
        .ok_or_else(|| Error::not_available(format!("service.{function}")))
}

/// The names in what [`Provider::list`] returns.
pub(crate) fn names(listed: &Value) -> Vec<String> {
    match listed {
        Value::Map(map) => map.keys().map(Value::to_text).collect(),
        other => other.texts(),
    }
}

/// Runs a program that changes something; a failure is in the log.
fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    Process::words(words.iter().copied()).run(cx)
}

/// Runs a program that answers a question.
fn ask(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    Process::words(words.iter().copied()).quiet().run(cx)
}

/// Refuses what cannot be the name of an init script: a way out of its folder, or an option of the program that is called with it.
fn script_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.starts_with(['-', '.']) || name.contains(['/', '\0']) {
        return Err(Error::refused(format!("'{name}' is no name of a service")));
    }
    Ok(())
}

/// The sorted names in a folder; none where it is not there.
fn folder(path: &str) -> Result<Vec<String>, Error> {
    let names = fs::names(path)?;
    let names = names.iter().map(|name| name.to_string_lossy().into_owned());
    Ok(names.collect())
}

/// The services that a folder of links such as `/etc/rc2.d` starts, sorted: what follows `S` and the digits.
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

/// True for a file that this program may run.
fn runnable(path: &Path) -> bool {
    rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// The second word of what `runlevel` says; none where that is unknown.
fn runlevel(cx: &Exec) -> Option<String> {
    let out = ask(cx, &[&which("runlevel")?]).ok()?.stdout;
    let level = out.split_whitespace().nth(1)?;
    Some(level.to_owned())
}
