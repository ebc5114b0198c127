//! Modules and functions that this machine does not have: modules for other systems, modules whose
//! declaration names a program that is absent, functions that its package manager or init system
//! lacks. A caller of one gets Salt's message.

use std::path::Path;

use machine::process;
use state::custom::Kind;
use state::exec::{Exec, parts};
use state::facts::{Missing, Need};
use state::module::Module;
use value::Value;

use crate::exec::pkg::providers::{self as packages, capabilities};
use crate::exec::pkg::repositories;
use crate::exec::service::providers as services;
use crate::loader::absent;

/// Returns the reason why a function is not available on this machine, in Salt's words. This runs
/// before each call, so it checks only the requirements of the function's own module.
pub(crate) fn missing(cx: &Exec, kind: Kind, full: &str) -> Option<String> {
    let (module, function) = full.split_once('.')?;
    let reason = match (kind, module) {
        (Kind::Module | Kind::State, "service") if services::find(cx, "start").is_err() => {
            no_service(cx)
        }
        (Kind::Module, _) if is_lacking(cx, module, function) => {
            return Some(format!("'{full}' is not available."));
        }
        (Kind::Module | Kind::State, "pkg") if !packages::is_known(cx) => no_packages(cx),
        (Kind::Module, "kernelpkg" | "lowpkg") => no_low_packages(cx, module)?,
        (Kind::Module | Kind::State, _) => {
            let registry = cx.shared.registry;
            let lacking = match kind {
                Kind::State => lacking(cx, registry.states, module, function),
                _ => lacking(cx, registry.functions, module, function),
            };
            match lacking {
                Some(Missing::Module(reason)) => reason,
                Some(Missing::Function) => return Some(format!("'{full}' is not available.")),
                None => absent::reason(kind, module)?,
            }
        }
        _ => return None,
    };
    Some(format!("'{module}' __virtual__ returned False: {reason}"))
}

/// Returns true if the machine's own provider of a virtual module lacks a function.
fn is_lacking(cx: &Exec, module: &str, function: &str) -> bool {
    match module {
        "pkg" => capabilities::lacks(packages::expected(cx), function),
        "lowpkg" => capabilities::lacks_low(packages::expected(cx), function),
        "service" => services::find(cx, function).is_err(),
        _ => false,
    }
}

fn no_packages(cx: &Exec) -> String {
    let (family, os) = packages::system(cx);
    format!(
        "pkg module could not be loaded (no package manager is known for os_family {family} and os {os}; set `providers: {{pkg: NAME}}` to one of {})",
        packages::FILES.map(|(file, _)| file).join(", ")
    )
}

/// Returns the reason why a module for kernels, or for dpkg or rpm, is not available.
fn no_low_packages(cx: &Exec, module: &str) -> Option<String> {
    use repositories::Kind::{Apt, Yum, Zypper};
    let reason = match (module, repositories::kind(cx)) {
        (_, Some(Apt | Yum)) | ("lowpkg", Some(Zypper)) => return None,
        ("kernelpkg", _) => "Module kernelpkg_linux_apt: no APT based system detected",
        _ => {
            "The dpkg execution module cannot be loaded: only works on Debian family systems; the rpm one only on Red Hat and SUSE family systems."
        }
    };
    Some(reason.to_owned())
}

/// Returns the reason why `service` is not available: Salt's sentence, and the places that were
/// searched.
pub(crate) fn no_service(cx: &Exec) -> String {
    let grains = cx.grains();
    let system = grains.get("osfinger").or_else(|| grains.get("os"));
    let system = system.map(Value::to_text).unwrap_or_default();
    let init = cx.grain("init");
    let mut names = services::NAMED.map(|provider| provider.name()).to_vec();
    names.sort_unstable();
    names.dedup();
    format!(
        "No service execution module loaded: check support for service management on {system} (the init system is {init}; looked for /run/systemd/system, systemctl and scripts in /etc/init.d that {system} starts; set `providers: {{service: NAME}}` to one of {})",
        names.join(", ")
    )
}

/// Returns what is missing for a function, as its module declares it.
fn lacking<R>(
    cx: &Exec,
    modules: &'static [Module<R>],
    module: &str,
    function: &str,
) -> Option<Missing> {
    parts(modules, module).find_map(|part| {
        let reason = unmet(part).map(|need| {
            let (sentence, program) = (need.sentence, need.describe());
            Missing::Module(format!("{sentence}; it needs {program}"))
        });
        reason.or_else(|| part.virtual_?(cx, function))
    })
}

/// Returns the first program that the module of a state function needs and that this machine does
/// not have.
pub(crate) fn lacks(cx: &Exec, full: &str) -> Option<&'static Need> {
    let (module, _) = full.split_once('.')?;
    parts(cx.shared.registry.states, module).find_map(unmet)
}

/// Returns the first program or folder of a module's declaration that this machine does not have.
fn unmet<R>(part: &'static Module<R>) -> Option<&'static Need> {
    part.needs.iter().find(|need| !is_met(need))
}

fn is_met(need: &Need) -> bool {
    if need.program.starts_with('/') {
        return Path::new(need.program).is_dir();
    }
    let mut programs = need.program.split('|');
    programs.any(|program| process::which(program).is_some())
}
