//! The options that restrict which modules may be used: `whitelist_modules`,
//! `whitelist_state_modules` and Salt's `disable_*` lists.
//!
//! As in Salt, `whitelist_modules` only restricts the functions that an SLS, a template, a job or a
//! command line names. State modules may still call the functions that they need. A `disable_*`
//! list disables a module for every caller.

use crate::custom::Kind;
use crate::exec::Exec;

/// Salt's files whose name differs from the module in them: kind, file, module. A `disable_*` list
/// can name the file.
const FILES: &[(Kind, &str, &str)] = &[
    (Kind::Module, "aptpkg", "pkg"),
    (Kind::Module, "cmdmod", "cmd"),
    (Kind::Module, "debconfmod", "debconf"),
    (Kind::Module, "debian_ip", "ip"),
    (Kind::Module, "debian_service", "service"),
    (Kind::Module, "dockermod", "docker"),
    (Kind::Module, "dpkg_lowpkg", "lowpkg"),
    (Kind::Module, "etcd_mod", "etcd"),
    (Kind::Module, "gentoo_service", "service"),
    (Kind::Module, "groupadd", "group"),
    (Kind::Module, "ini_manage", "ini"),
    (Kind::Module, "kernelpkg_linux_apt", "kernelpkg"),
    (Kind::Module, "linux_acl", "acl"),
    (Kind::Module, "linux_ip", "ip"),
    (Kind::Module, "linux_lvm", "lvm"),
    (Kind::Module, "linux_shadow", "shadow"),
    (Kind::Module, "linux_sysctl", "sysctl"),
    (Kind::Module, "localemod", "locale"),
    (Kind::Module, "logmod", "log"),
    (Kind::Module, "mdadm_raid", "raid"),
    (Kind::Module, "mod_random", "random"),
    (Kind::Module, "openrc_service", "service"),
    (Kind::Module, "pacmanpkg", "pkg"),
    (Kind::Module, "parted_partition", "partition"),
    (Kind::Module, "rh_ip", "ip"),
    (Kind::Module, "rh_service", "service"),
    (Kind::Module, "rpm_lowpkg", "lowpkg"),
    (Kind::Module, "scp_mod", "scp"),
    (Kind::Module, "slack_notify", "slack"),
    (Kind::Module, "sysmod", "sys"),
    (Kind::Module, "systemd_service", "service"),
    (Kind::Module, "useradd", "user"),
    (Kind::Module, "virtualenv_mod", "virtualenv"),
    (Kind::Module, "x509_v2", "x509"),
    (Kind::Module, "yumpkg", "pkg"),
    (Kind::Module, "zypperpkg", "pkg"),
    (Kind::State, "debconfmod", "debconf"),
    (Kind::State, "etcd_mod", "etcd"),
    (Kind::State, "ini_manage", "ini"),
    (Kind::State, "linux_acl", "acl"),
    (Kind::State, "mdadm_raid", "raid"),
    (Kind::State, "pip_state", "pip"),
    (Kind::State, "saltmod", "salt"),
    (Kind::State, "virtualenv_mod", "virtualenv"),
    (Kind::State, "x509_v2", "x509"),
];

/// Returns the option that disables modules of a kind, and the option that lists the modules that
/// users may name.
fn options(kind: Kind) -> (&'static str, Option<&'static str>) {
    match kind {
        Kind::Module => ("disable_modules", Some("whitelist_modules")),
        Kind::State => ("disable_states", Some("whitelist_state_modules")),
        Kind::Runner => ("disable_runners", None),
        Kind::Wheel => ("disable_wheels", None),
        Kind::Returner => ("disable_returners", None),
        Kind::Grain => ("disable_grains", None),
        Kind::Renderer => ("disable_renders", None),
        Kind::Pillar => ("disable_pillars", None),
        Kind::Sdb => ("disable_sdbs", None),
        Kind::Roster => ("disable_rosters", None),
        Kind::Engine => ("disable_engines", None),
        Kind::Top => ("disable_tops", None),
        Kind::Auth => ("disable_auths", None),
        Kind::Cloud => ("disable_clouds", None),
    }
}

fn module(full: &str) -> &str {
    full.split_once('.').map_or(full, |(module, _)| module)
}

impl Exec {
    /// Returns whether the configuration lets users call this function by name: its module is not
    /// disabled, and it is in the list of permitted modules if there is one.
    #[must_use]
    pub fn permits(&self, kind: Kind, full: &str) -> bool {
        self.is_listed(kind, full) && !self.is_disabled(kind, full)
    }

    /// Returns whether the list of modules that users may name contains the module of this
    /// function. Also true if there is no list.
    pub(crate) fn is_listed(&self, kind: Kind, full: &str) -> bool {
        let listed = options(kind).1.map(|option| self.opts().texts(option));
        let listed = listed.unwrap_or_default();
        listed.is_empty() || listed.iter().any(|name| name == module(full))
    }

    /// Returns whether a `disable_*` list contains the module of this function, by the module's
    /// name or by its file in Salt.
    #[must_use]
    pub fn is_disabled(&self, kind: Kind, full: &str) -> bool {
        let disabled = self.opts().texts(options(kind).0);
        let is_file = |name: &str| {
            let mut files = FILES.iter();
            files.any(|(of, file, module_of)| {
                *of == kind && *file == name && *module_of == module(full)
            })
        };
        disabled
            .iter()
            .any(|name| name == module(full) || is_file(name))
    }
}
