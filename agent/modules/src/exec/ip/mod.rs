//! The `ip` execution module: the configuration of interfaces, of routes and of the machine's
//! network settings.

mod debian_types;
mod ifcfg;
mod ifupdown;
mod keyfile;
mod netplan;
mod networkd;
mod openwrt;
mod options;
mod system;
mod wanted;

use std::path::Path;

use machine::fs;
use machine::process::{Output, Process, which};
use python::text;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

pub(crate) use system::{apply, plan};

state::exec_module! {
    /// Manage the network configuration: interfaces, routes, and the host name, domain and state of
    /// the network.
    mod ip;

    /// Return the configuration of an interface as a list of lines.
    ///
    ///     salt-call ip.get_interface eth0
    fn get_interface(GetInterface {
        /// The interface.
        iface: String,
    });

    /// Write the configuration of an interface, and return it.
    ///
    ///     salt-call ip.build_interface eth0 eth True proto=dhcp
    fn build_interface(BuildInterface {
        /// The interface.
        iface: String,
        /// The type of the interface, such as `eth`, `bond`, `bridge` or `vlan`.
        iface_type: String,
        /// Whether the interface is brought up when the system starts.
        enabled: bool,
        ..kwargs
    });

    /// Return the configured routes of an interface as a list of lines.
    ///
    ///     salt-call ip.get_routes eth0
    fn get_routes(GetRoutes {
        /// The interface.
        iface: String,
    });

    /// Write the routes of an interface, and return them.
    ///
    ///     salt-call ip.build_routes eth0 routes='[{name: backend, ipaddr: 10.20.0.0, netmask: 255.255.0.0, gateway: 10.0.0.254}]'
    fn build_routes(BuildRoutes {
        /// The interface.
        iface: String,
        ..kwargs
    });

    /// Return the configuration of the kernel module for a bond (only on Debian).
    ///
    ///     salt-call ip.get_bond bond0
    fn get_bond(GetBond {
        /// The bond.
        iface: String,
    });

    /// Configure the kernel module for a bond, and load the module (only on Debian).
    ///
    ///     salt-call ip.build_bond bond0 mode=balance-alb
    fn build_bond(BuildBond {
        /// The bond.
        iface: String,
        ..kwargs
    });

    /// Bring an interface up with its configuration.
    ///
    ///     salt-call ip.up eth0
    fn up(Up {
        /// The interface.
        iface: String,
        /// The type of the interface. Nothing is done for a part of another interface
        /// (`slave`, `teamport` or `source`).
        iface_type: Option<String> = None,
    });

    /// Bring an interface down.
    ///
    ///     salt-call ip.down eth0
    fn down(Down {
        /// The interface.
        iface: String,
        /// The type of the interface. Nothing is done for a part of another interface
        /// (`slave`, `teamport` or `source`).
        iface_type: Option<String> = None,
    });

    /// Return the network settings of the machine as a list of lines.
    ///
    ///     salt-call ip.get_network_settings
    fn get_network_settings(GetNetworkSettings {});

    /// Write the network settings of the machine, and return the new settings.
    ///
    ///     salt-call ip.build_network_settings enabled=True hostname=web1.example.com
    fn build_network_settings(BuildNetworkSettings {
        ..kwargs
    });

    /// Apply the written settings: set the host name, and restart the network.
    ///
    ///     salt-call ip.apply_network_settings
    fn apply_network_settings(ApplyNetworkSettings {
        ..kwargs
    });
}

/// A file that a change writes.
pub(super) struct File {
    path: String,
    text: String,
    mode: Option<u32>,
}

impl File {
    fn new(path: impl Into<String>, text: String) -> Self {
        let path = path.into();
        Self {
            path,
            text,
            mode: None,
        }
    }

    fn with_mode(self, mode: u32) -> Self {
        Self {
            mode: Some(mode),
            ..self
        }
    }
}

/// A planned change: the lines before and after it, and the actions that it consists of.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) old: Vec<String>,
    pub(crate) new: Vec<String>,
    files: Vec<File>,
    /// The packages that the change requires.
    packages: Vec<&'static str>,
    /// The kernel settings to make persistent. Settings that the kernel does not have are ignored.
    sysctl: Vec<(&'static str, i64)>,
    /// The kernel module that the change requires.
    kmod: Option<&'static str>,
    /// OpenWrt: the lines of a batch for the program `uci`.
    uci: Vec<String>,
    /// Ubuntu: whether the network services start with the system.
    services: Option<bool>,
}

impl Plan {
    /// In test mode, reports the contents that the files would have to the previewer of the run.
    pub(crate) fn foretell(&self, cx: &Exec) {
        for file in &self.files {
            fs::would_hold(cx, Path::new(&file.path), || Ok(&file.text));
        }
    }

    /// Carries out the change.
    ///
    /// # Errors
    /// When a file cannot be written, a package cannot be installed, or a service cannot be changed.
    pub(crate) fn carry_out(&self, cx: &Exec) -> Result<(), Error> {
        for package in &self.packages {
            let version = cx.call_internal("pkg.version", vec![(*package).into()], Map::new())?;
            if !version.is_true() {
                cx.call_internal("pkg.install", vec![(*package).into()], Map::new())?;
            }
        }
        for file in &self.files {
            let path = Path::new(&file.path);
            let folder = path.parent().unwrap_or(path);
            if folder.extension().is_some_and(|it| it == "d") && !folder.is_dir() {
                fs::mkdirs(cx, folder).map_err(Error::io(folder))?;
            }
            if !folder.is_dir() {
                let folder = folder.display();
                return Err(
                    format!("{} cannot be written. {folder} does not exist", file.path).into(),
                );
            }
            let owner = fs::Owner {
                mode: file.mode,
                ..fs::Owner::default()
            };
            fs::write(cx, path, file.text.as_bytes(), owner)?;
        }
        if !self.uci.is_empty() {
            openwrt::carry_out(cx, &self.uci)?;
        }
        for (name, value) in &self.sysctl {
            let args = vec![(*name).into(), (*value).into()];
            if let Err(error) = cx.call_internal("sysctl.persist", args, Map::new()) {
                value::log::warning(format_args!("Failed to set sysctl: {name}: {error}"));
            }
        }
        if let Some(name) = self.kmod {
            call_is_true(cx, "kmod.load", name)?;
        }
        let Some(on) = self.services else {
            return Ok(());
        };
        let verb = if on { "enable" } else { "disable" };
        for service in ["NetworkManager", "networking"] {
            if call_is_true(cx, "service.available", service)? {
                call_is_true(cx, &format!("service.{verb}"), service)?;
            }
        }
        Ok(())
    }
}

fn call_is_true(cx: &Exec, function: &str, name: &str) -> Result<bool, Error> {
    Ok(cx
        .call_internal(function, vec![name.into()], Map::new())?
        .is_true())
}

/// Returns the text of a file; it is empty if the file does not exist.
fn read(path: &str) -> Result<String, Error> {
    let bytes = fs::read_or_none(path)?.unwrap_or_default();
    Ok(text::decoded(&bytes))
}

/// Returns the lines of a text with their line ends.
fn lines(text: &str) -> Vec<String> {
    text::owned(text::file_lines(text))
}

/// The software that configures the interfaces of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Debian's `/etc/network/interfaces`.
    Ifupdown,
    /// Red Hat's `/etc/sysconfig/network-scripts`.
    Ifcfg,
    Netplan,
    /// NetworkManager's keyfiles.
    Manager,
    /// systemd-networkd.
    Networkd,
    /// OpenWrt's `/etc/config/network`.
    OpenWrt,
}

impl Way {
    /// Returns the software that Salt would choose. On a machine without ifupdown it is the one
    /// that runs there.
    fn detect(cx: &Exec) -> Result<Self, Error> {
        let has_ifup = which("ifup").is_some();
        let is_dir = |path: &str| Path::new(path).is_dir();
        let runs = |program: &str, folder: &str| which(program).is_some() && is_dir(folder);
        let family = cx.grain("os_family");
        Ok(match family.as_str() {
            "Debian" if runs("netplan", "/etc/netplan") => Self::Netplan,
            "Debian" if has_ifup => Self::Ifupdown,
            "RedHat" if has_ifup => Self::Ifcfg,
            _ if runs("uci", "/etc/config") => Self::OpenWrt,
            _ if runs("nmcli", "/run/NetworkManager") => Self::Manager,
            _ if which("networkctl").is_some() && has_networkd_run("/run") => Self::Networkd,
            "Debian" => Self::Ifupdown,
            "RedHat" if is_dir("/etc/sysconfig/network-scripts") => Self::Ifcfg,
            _ => {
                return Err(format!(
                    "no supported network configuration found (os_family {family}; looked for netplan, ifupdown, uci, NetworkManager and systemd-networkd)"
                )
                .into());
            }
        })
    }
}

/// Returns whether systemd-networkd has run since the boot. It writes its state file only then;
/// systemd creates the folder wherever networkd is installed.
fn has_networkd_run(run: &str) -> bool {
    Path::new(run).join("systemd/netif/state").is_file()
}

/// Returns the name of an interface, or an error if the name cannot be used in a path and in a
/// command.
fn named(iface: &str) -> Result<&str, Error> {
    let is_odd = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    let refused = iface.is_empty() || iface.starts_with(['-', '.']) || iface.contains(is_odd);
    match refused {
        true => Err(format!("{iface:?} is not the name of an interface").into()),
        false => Ok(iface),
    }
}

/// Returns the current configuration of an interface, and the changes that apply these settings.
///
/// # Errors
/// When a setting is invalid (in Salt's words), or when no known software configures the interfaces
/// of this machine.
pub(crate) fn interface(
    cx: &Exec,
    iface: &str,
    kind: &str,
    enabled: bool,
    settings: &Map,
) -> Result<Plan, Error> {
    let (iface, kind) = (named(iface)?, kind.to_lowercase());
    let build = match Way::detect(cx)? {
        Way::Ifupdown => ifupdown::interface,
        Way::Ifcfg => ifcfg::interface,
        Way::Netplan => netplan::interface,
        Way::Manager => keyfile::interface,
        Way::Networkd => networkd::interface,
        Way::OpenWrt => openwrt::interface,
    };
    Ok(Plan {
        old: current_lines(cx, iface)?,
        ..build(cx, iface, &kind, enabled, settings)?
    })
}

fn current_lines(cx: &Exec, iface: &str) -> Result<Vec<String>, Error> {
    match Way::detect(cx)? {
        Way::Ifupdown => ifupdown::current_lines(iface),
        Way::Ifcfg => ifcfg::current_lines(&[&ifcfg::path("ifcfg", iface)]),
        Way::Netplan => Ok(lines(&read(&netplan::path(iface))?)),
        Way::Manager => Ok(lines(&read(&keyfile::path(iface))?)),
        Way::Networkd => networkd::current_lines(iface),
        Way::OpenWrt => openwrt::current_lines(cx, iface),
    }
}

/// Returns the current routes of an interface, and the changes that apply these settings.
///
/// # Errors
/// As for [`interface`].
pub(crate) fn routes(cx: &Exec, iface: &str, settings: &Map) -> Result<Plan, Error> {
    let given = settings.iter().find_map(|(key, value)| {
        let is_it = key.to_text().eq_ignore_ascii_case("routes");
        is_it.then(|| value.as_list().unwrap_or_default())
    });
    let given = given.ok_or_else(|| {
        let expected = "Expected: [List of routes]";
        format!("Invalid option -- Route interface: {iface}, Option: routes, {expected}")
    })?;
    let iface = named(iface)?;
    let build = match Way::detect(cx)? {
        Way::Ifupdown => ifupdown::routes,
        Way::Ifcfg => ifcfg::routes,
        Way::Netplan => netplan::routes,
        Way::Manager => keyfile::routes,
        Way::Networkd => networkd::routes,
        Way::OpenWrt => openwrt::routes,
    };
    Ok(Plan {
        old: shown_routes(cx, iface)?,
        ..build(cx, iface, given)?
    })
}

fn shown_routes(cx: &Exec, iface: &str) -> Result<Vec<String>, Error> {
    match Way::detect(cx)? {
        Way::Ifupdown => {
            let paths = ifupdown::route_paths(iface);
            Ok([lines(&read(&paths[0])?), lines(&read(&paths[1])?)].concat())
        }
        Way::Ifcfg => {
            ifcfg::current_lines(&[&ifcfg::path("route", iface), &ifcfg::path("route6", iface)])
        }
        Way::Netplan => Ok(lines(&read(&netplan::route_path(iface))?)),
        Way::Manager => keyfile::shown_routes(iface),
        Way::Networkd => Ok(lines(&read(&networkd::route_path(iface))?)),
        Way::OpenWrt => openwrt::shown_routes(cx, iface),
    }
}

/// Returns the changes to Debian's kernel module configuration for a bond; `None` on other systems.
///
/// # Errors
/// As for [`interface`].
pub(crate) fn bond(cx: &Exec, iface: &str, settings: &Map) -> Result<Option<Plan>, Error> {
    let iface = named(iface)?;
    match Way::detect(cx)? {
        Way::Ifupdown => ifupdown::module(cx, iface, settings).map(Some),
        _ => Ok(None),
    }
}

/// Returns the device of an interface. On OpenWrt its name can differ from that of the interface.
///
/// # Errors
/// When the configuration cannot be read.
pub(crate) fn device(cx: &Exec, iface: &str) -> Result<String, Error> {
    match Way::detect(cx) {
        Ok(Way::OpenWrt) => openwrt::device(cx, iface),
        _ => Ok(iface.to_owned()),
    }
}

fn run<const N: usize>(cx: &Exec, words: [&str; N]) -> Result<Output, Error> {
    Process::words(words).run(cx)
}

/// Applies what was written, for software that does not do so for each interface.
fn reloaded(cx: &Exec, way: Way) -> Result<Output, Error> {
    match way {
        Way::Netplan => match run(cx, ["netplan", "generate"])? {
            made if made.success() => run(cx, ["netplan", "apply"]),
            failed => Ok(failed),
        },
        Way::Manager => run(cx, ["nmcli", "connection", "reload"]),
        Way::OpenWrt => run(cx, ["/etc/init.d/network", "reload"]),
        _ => run(cx, ["networkctl", "reload"]),
    }
}

/// Brings an interface up or down. Does nothing for an interface that belongs to another one.
///
/// # Errors
/// When the program is missing.
pub(crate) fn switch(
    cx: &Exec,
    iface: &str,
    kind: Option<&str>,
    up: bool,
) -> Result<Option<Output>, Error> {
    let (iface, kind) = (named(iface)?, kind.map(str::to_lowercase));
    if matches!(kind.as_deref(), Some("slave" | "teamport" | "source")) {
        return Ok(None);
    }
    let verb = if up { "up" } else { "down" };
    let done = match Way::detect(cx) {
        Ok(Way::Ifupdown | Way::Ifcfg) => run(cx, [if up { "ifup" } else { "ifdown" }, iface])?,
        Ok(Way::OpenWrt) => {
            let program = if up { "ifup" } else { "ifdown" };
            run(cx, [program, &openwrt::id(iface)])?
        }
        Ok(way @ Way::Manager) => {
            if up {
                reloaded(cx, way)?;
            }
            run(cx, ["nmcli", "connection", verb, iface])?
        }
        Ok(way @ Way::Networkd) if up => match reloaded(cx, way)? {
            made if made.success() => run(cx, ["networkctl", "reconfigure", iface])?,
            failed => failed,
        },
        Ok(way @ Way::Netplan) if up => reloaded(cx, way)?,
        _ => run(cx, ["ip", "link", "set", "dev", iface, verb])?,
    };
    Ok(Some(done))
}

fn switched(cx: &Exec, iface: &str, kind: Option<&str>, up: bool) -> Result<Value, Error> {
    let done = switch(cx, iface, kind, up)?;
    Ok(done.map_or(Value::Null, |done| {
        let said = [done.stdout_regardless(), &done.stderr];
        let said = said.iter().filter(|text| !text.is_empty());
        let said: Vec<&str> = said.copied().collect();
        said.join("\n").into()
    }))
}

/// Carries out a plan unless in test mode, and returns the new lines.
fn built(cx: &Exec, plan: &Plan, settings: &Map) -> Result<Value, Error> {
    if !cx.test && !settings.get("test").is_some_and(Value::is_true) {
        plan.carry_out(cx)?;
    }
    Ok(plan.new.clone().into())
}

fn get_interface(cx: &Exec, args: GetInterface) -> Result<Value, Error> {
    Ok(current_lines(cx, named(&args.iface)?)?.into())
}

fn build_interface(cx: &Exec, args: BuildInterface) -> Result<Value, Error> {
    let settings = &args.kwargs;
    let plan = interface(cx, &args.iface, &args.iface_type, args.enabled, settings)?;
    built(cx, &plan, settings)
}

fn get_routes(cx: &Exec, args: GetRoutes) -> Result<Value, Error> {
    Ok(shown_routes(cx, named(&args.iface)?)?.into())
}

fn build_routes(cx: &Exec, args: BuildRoutes) -> Result<Value, Error> {
    let plan = routes(cx, &args.iface, &args.kwargs)?;
    built(cx, &plan, &args.kwargs)
}

fn get_bond(_cx: &Exec, args: GetBond) -> Result<Value, Error> {
    Ok(lines(&read(&ifupdown::module_path(named(&args.iface)?))?).into())
}

fn build_bond(cx: &Exec, args: BuildBond) -> Result<Value, Error> {
    match bond(cx, &args.iface, &args.kwargs)? {
        Some(plan) => built(cx, &plan, &args.kwargs),
        None => Err("ip.build_bond is only supported with Debian's ifupdown".into()),
    }
}

fn up(cx: &Exec, args: Up) -> Result<Value, Error> {
    switched(cx, &args.iface, args.iface_type.as_deref(), true)
}

fn down(cx: &Exec, args: Down) -> Result<Value, Error> {
    switched(cx, &args.iface, args.iface_type.as_deref(), false)
}

fn get_network_settings(cx: &Exec, _args: GetNetworkSettings) -> Result<Value, Error> {
    Ok(system::now(cx)?.into())
}

fn build_network_settings(cx: &Exec, args: BuildNetworkSettings) -> Result<Value, Error> {
    built(cx, &plan(cx, &args.kwargs)?, &args.kwargs)
}

fn apply_network_settings(cx: &Exec, args: ApplyNetworkSettings) -> Result<Value, Error> {
    Ok(apply(cx, &args.kwargs)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networkd_is_taken_where_it_has_run_and_not_where_it_is_only_installed() {
        let run = tempfile::tempdir().unwrap();
        let netif = run.path().join("systemd/netif");
        std::fs::create_dir_all(&netif).unwrap();
        let has_run = || has_networkd_run(&run.path().to_string_lossy());
        assert!(!has_run());
        std::fs::write(netif.join("state"), "OPER_STATE=routable\n").unwrap();
        assert!(has_run());
    }
}
