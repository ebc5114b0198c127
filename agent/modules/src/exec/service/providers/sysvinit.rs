//! Init scripts in `/etc/init.d`: Debian and Ubuntu with `update-rc.d`, older Red Hat systems with
//! `chkconfig`, others without a tool.

use std::path::Path;

use machine::process::which;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Boot, Provider, Which, ask, folder, run, runlevel, runnable, script_name, started_by};
use crate::exec::status;

/// The folder of the scripts.
pub(super) const SCRIPTS: &str = "/etc/init.d";

/// The tools that handle init scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scripts {
    /// `service`, `insserv` and `update-rc.d`.
    Debian,
    /// `service` and `update-rc.d`.
    Ubuntu,
    /// `service` and `chkconfig`.
    RedHat,
    /// The scripts themselves.
    Plain,
}

pub(super) const DEBIAN: Scripts = Scripts::Debian;
pub(super) const UBUNTU: Scripts = Scripts::Ubuntu;
pub(super) const RED_HAT: Scripts = Scripts::RedHat;
pub(super) const PLAIN: Scripts = Scripts::Plain;

/// Distributions with `chkconfig`, and the first release with systemd.
const CHKCONFIG: &[(&str, i64)] = &[
    ("XenServer", 7),
    ("XCP-ng", 7),
    ("RedHat", 7),
    ("CentOS", 7),
    ("ScientificLinux", 7),
    ("CloudLinux", 7),
    ("OEL", 7),
    ("Fedora", 15),
    ("SUSE", 12),
    ("Amazon", i64::MAX),
    ("ALT", i64::MAX),
    ("SUSE  Enterprise Server", i64::MAX),
    ("McAfee  OS Server", i64::MAX),
    ("VirtuozzoLinux", i64::MAX),
];

/// Returns true for a distribution that uses `chkconfig`.
pub(super) fn has_chkconfig(os: &str, release: Option<&Value>) -> bool {
    let release = release.and_then(Value::as_list).and_then(<[Value]>::first);
    let major = release.and_then(Value::as_int).unwrap_or(0);
    CHKCONFIG
        .iter()
        .any(|(name, until)| *name == os && major < *until)
}

impl Scripts {
    /// Calls a script with the same command as Salt, and returns whether it succeeded.
    fn script(self, cx: &Exec, name: &str, verb: &str, asks: bool) -> Result<bool, Error> {
        script_name(name)?;
        let path = format!("{SCRIPTS}/{name}");
        let words: &[&str] = match self {
            Self::Plain => &[&path, verb],
            Self::RedHat => &["/sbin/service", name, verb],
            Self::Debian | Self::Ubuntu => &["service", name, verb],
        };
        let out = if asks { ask(cx, words) } else { run(cx, words) };
        Ok(out?.success())
    }

    /// Returns the names of the services that start in the current runlevel.
    fn started(self, cx: &Exec) -> Result<Vec<String>, Error> {
        let level = runlevel(cx).unwrap_or_else(|| "2".to_owned());
        let folder = format!("/etc/rc{level}.d");
        match self {
            Self::Debian => started_by(&["/etc/rcS.d", &folder]),
            _ => started_by(&[&folder]),
        }
    }

    fn all(self, cx: &Exec) -> Result<Vec<String>, Error> {
        let mut names = folder(SCRIPTS)?;
        match self {
            Self::Plain => {}
            Self::Debian => {
                names.retain(|name| name != "README" && !name.starts_with('.'));
                names.extend(self.started(cx)?);
            }
            Self::Ubuntu => names.retain(|name| is_script(name)),
            Self::RedHat => names = chkconfig_names(cx)?,
        }
        names.sort();
        names.dedup();
        Ok(names)
    }
}

fn is_script(name: &str) -> bool {
    runnable(&Path::new(SCRIPTS).join(name))
}

/// Returns the services in `chkconfig --list` that have a script.
fn chkconfig_names(cx: &Exec) -> Result<Vec<String>, Error> {
    let out = ask(cx, &["chkconfig", "--list"])?.into_stdout_regardless();
    let services = out.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        words.next()?.starts_with("0:").then(|| name.to_owned())
    });
    Ok(services.filter(|name| is_script(name)).collect())
}

fn chkconfig_starts(cx: &Exec, name: &str) -> Result<bool, Error> {
    script_name(name)?;
    let level = runlevel(cx).unwrap_or_else(|| "3".to_owned());
    let listed = ask(cx, &["/sbin/chkconfig", "--list", name])?;
    let on = format!("{level}:on");
    let mut lines = listed.stdout_regardless().lines();
    let starts = lines.any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.first() == Some(&name) && (line.contains(&on) || words == [name, "on"])
    });
    Ok(listed.success() && starts
        || started_by(&[&format!("/etc/rc.d/rc{level}.d")])?
            .iter()
            .any(|each| each == name))
}

/// Adds a script to `chkconfig` if necessary, then changes it.
fn chkconfig(cx: &Exec, name: &str, word: &str) -> Result<bool, Error> {
    let known = ask(cx, &["/sbin/chkconfig", "--list", name])?.success()
        || run(cx, &["/sbin/chkconfig", "--add", name])?.success();
    Ok(known && run(cx, &["/sbin/chkconfig", name, word])?.success())
}

/// Runs Debian's two steps. Where `insserv` is not installed, only `update-rc.d` creates the links.
fn update_rc_d(cx: &Exec, name: &str, on: bool) -> Result<bool, Error> {
    if !on {
        return Ok(run(cx, &["update-rc.d", name, "disable"])?.success());
    }
    let linked = match which("insserv") {
        Some(insserv) => run(cx, &[&insserv, name])?,
        None => run(cx, &["update-rc.d", name, "defaults"])?,
    };
    Ok(linked.success() && run(cx, &["update-rc.d", name, "enable"])?.success())
}

impl Provider for Scripts {
    fn name(&self) -> &'static str {
        match self {
            Self::Debian => "debian_service",
            Self::Ubuntu => "upstart_service",
            Self::RedHat => "rh_service",
            Self::Plain => "linux_service",
        }
    }

    fn act(&self, cx: &Exec, verb: &str, name: &str, _options: &Map) -> Result<bool, Error> {
        match verb {
            "full-restart" => self.script(cx, name, "--full-restart", false),
            "delete" => {
                script_name(name)?;
                Ok(ask(cx, &["/sbin/chkconfig", "--list", name])?.success()
                    && run(cx, &["/sbin/chkconfig", "--del", name])?.success())
            }
            verb => self.script(cx, name, verb, false),
        }
    }

    fn runs(&self, cx: &Exec, name: &str) -> Result<Value, Error> {
        match self {
            // Salt's plain module searches for a process with the name of the service.
            Self::Plain => status::pids(name).map(Value::from),
            _ => self.script(cx, name, "status", true).map(Value::from),
        }
    }

    fn list(&self, cx: &Exec, which: Which, _options: &Map) -> Result<Value, Error> {
        let mut names = match (self, which) {
            (Self::Debian, Which::Enabled) => self.started(cx)?,
            _ => self.all(cx)?,
        };
        if *self == Self::RedHat && which != Which::All {
            let mut kept = Vec::new();
            for name in names {
                if chkconfig_starts(cx, &name)? == (which == Which::Enabled) {
                    kept.push(name);
                }
            }
            return Ok(kept.into());
        }
        if which != Which::All {
            let started = self.started(cx)?;
            names.retain(|name| started.contains(name) == (which == Which::Enabled));
        }
        Ok(names.into())
    }

    fn available(&self, cx: &Exec, name: &str) -> Result<bool, Error> {
        match self {
            Self::RedHat => {
                script_name(name)?;
                Ok(is_script(name) || ask(cx, &["/sbin/chkconfig", "--list", name])?.success())
            }
            _ => Ok(self.all(cx)?.iter().any(|each| each == name)),
        }
    }

    fn actions(&self) -> &'static [&'static str] {
        match self {
            Self::Debian => &["force_reload"],
            Self::Ubuntu => &["force_reload", "full_restart"],
            Self::RedHat => &["delete"],
            Self::Plain => &["run"],
        }
    }

    fn boot(&self) -> Option<&dyn Boot> {
        match self {
            Self::Plain => None,
            _ => Some(self),
        }
    }
}

impl Boot for Scripts {
    fn enable(&self, cx: &Exec, name: &str, on: bool, _options: &Map) -> Result<bool, Error> {
        script_name(name)?;
        match (self, on) {
            (Self::RedHat, on) => chkconfig(cx, name, if on { "on" } else { "off" }),
            (Self::Debian, on) => update_rc_d(cx, name, on),
            (_, true) => Ok(run(cx, &["update-rc.d", "-f", name, "defaults"])?.success()),
            (_, false) => Ok(run(cx, &["update-rc.d", "-f", name, "remove"])?.success()),
        }
    }

    fn enabled(&self, cx: &Exec, name: &str, _options: &Map) -> Result<bool, Error> {
        match self {
            Self::RedHat => chkconfig_starts(cx, name),
            _ => Ok(self.started(cx)?.iter().any(|each| each == name)),
        }
    }

    fn disabled(&self, cx: &Exec, name: &str, options: &Map) -> Result<bool, Error> {
        match self {
            Self::RedHat => self.enabled(cx, name, options).map(|enabled| !enabled),
            _ => Ok(self.available(cx, name)? && !self.enabled(cx, name, options)?),
        }
    }
}
