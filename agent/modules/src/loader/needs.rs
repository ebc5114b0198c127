//! Modules and functions that this machine does not have: modules for other systems, modules whose
//! program is absent, functions that its package manager or init system lacks. A caller of one gets
//! Salt's message.

use std::path::Path;

use machine::process;
use state::custom::Kind;
use state::exec::Exec;
use value::Value;

use crate::exec::pkg::providers::{self as packages, capabilities};
use crate::exec::pkg::repositories;
use crate::exec::service::providers as services;
use crate::exec::{docker, mysql, postgres, rabbitmq};

/// Modules by the system that they are for. Names that begin with `win_` or `mac_` are recognized
/// by that and not listed.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "Windows",
        &[
            "appx",
            "certutil",
            "chocolatey",
            "dism",
            "dsc_resource",
            "lgpo",
            "lgpo_reg",
            "license",
            "ntp",
            "powercfg",
            "reg",
            "shortcut",
            "task",
            "wua",
            "wusa",
        ],
    ),
    (
        "macOS",
        &[
            "assistive",
            "brew",
            "keychain",
            "macdefaults",
            "macpackage",
            "xattr",
        ],
    ),
    ("FreeBSD", &["pkgng", "sysrc"]),
    ("Gentoo", &["eselect", "layman"]),
    ("Solaris or SmartOS", &["imgadm", "smartos", "zone"]),
];

/// A module with the program or folder that it requires.
struct Needs {
    module: &'static str,
    /// A program in the `PATH`, or several separated by |, one of which suffices; or a folder.
    needs: &'static str,
    /// The message of the execution module.
    function: &'static str,
    /// The message of the state module; an empty text if the state module does not check.
    state: &'static str,
}

const NO_OPENSSL: &str = "The program openssl is not in the path: install it";
const NO_APACHE: &str = "The apache execution module cannot be loaded: apache is not installed.";
const NO_APACHE_STATE: &str = "apache module could not be loaded";

const NEEDS: &[Needs] = &[
    Needs {
        module: "acl",
        needs: "getfacl",
        function: "The linux_acl execution module cannot be loaded: the getfacl binary is not in the path.",
        state: "The linux_acl state cannot be loaded: the getfacl or setfacl binary is not in the path.",
    },
    Needs {
        module: "acl",
        needs: "setfacl",
        function: "",
        state: "The linux_acl state cannot be loaded: the getfacl or setfacl binary is not in the path.",
    },
    Needs {
        module: "alternatives",
        needs: "/etc/alternatives",
        function: "Cannot load alternatives module: /etc/alternatives dir not found",
        state: "",
    },
    Needs {
        module: "apache",
        // Debian and SUSE have the first, others the second.
        needs: "apache2ctl|apachectl",
        function: NO_APACHE,
        state: NO_APACHE_STATE,
    },
    Needs {
        module: "apache_conf",
        needs: "a2enconf",
        function: "",
        state: NO_APACHE_STATE,
    },
    Needs {
        module: "apache_module",
        needs: "a2enmod",
        function: "",
        state: NO_APACHE_STATE,
    },
    Needs {
        module: "apache_site",
        needs: "a2ensite",
        function: "",
        state: NO_APACHE_STATE,
    },
    Needs {
        module: "cron",
        needs: "crontab",
        function: "Cannot load cron module: crontab command not found",
        state: "cron module could not be loaded",
    },
    Needs {
        module: "debconf",
        needs: "debconf-get-selections",
        function: "The debconfmod module could not be loaded: debconf-utils is not installed.",
        state: "debconf module could not be loaded",
    },
    Needs {
        module: "dig",
        needs: "dig",
        function: "The dig execution module cannot be loaded: the dig binary is not in the path.",
        state: "",
    },
    Needs {
        module: "firewalld",
        needs: "firewall-cmd",
        function: "The firewalld execution module cannot be loaded: the firewall-cmd binary is not in the path.",
        state: "firewall-cmd is not available, firewalld is probably not installed.",
    },
    Needs {
        module: "git",
        needs: "git",
        function: "The git execution module cannot be loaded: git unavailable.",
        state: "git module could not be loaded",
    },
    Needs {
        module: "gpg",
        needs: "gpg",
        function: "The gpg execution module cannot be loaded: gpg binary is not in the path.",
        state: "",
    },
    Needs {
        module: "at",
        needs: "at",
        function: "The at module could not be loaded: at command not found",
        state: "at module could not be loaded",
    },
    Needs {
        module: "ddns",
        needs: "nsupdate",
        function: "the program nsupdate is not in the path",
        state: "ddns module could not be loaded",
    },
    Needs {
        module: "ddns",
        needs: "dig",
        function: "the program dig is not in the path",
        state: "ddns module could not be loaded",
    },
    Needs {
        module: "nfs3",
        needs: "showmount",
        function: "The nfs3 execution module failed to load: the showmount binary is not in the path.",
        state: "",
    },
    Needs {
        module: "nfs_export",
        needs: "exportfs",
        function: "",
        state: "The nfs_exports state module failed to load: the exportfs binary is not in the path",
    },
    Needs {
        module: "ipset",
        needs: "ipset",
        function: "The ipset execution modules cannot be loaded: ipset binary not in path.",
        state: "ipset module could not be loaded",
    },
    Needs {
        module: "nftables",
        needs: "nft",
        function: "The nftables execution module failed to load: nftables is not installed.",
        state: "nftables module could not be loaded",
    },
    Needs {
        module: "helm",
        needs: "helm",
        function: "the program helm is not in the path",
        state: "the program helm is not in the path",
    },
    Needs {
        module: "iptables",
        needs: "iptables",
        function: "The iptables execution module cannot be loaded: iptables not installed.",
        state: "iptables module could not be loaded",
    },
    Needs {
        module: "lvm",
        needs: "lvm",
        function: "The linux_lvm execution module cannot be loaded: the lvm binary is not in the path.",
        state: "lvm command not found",
    },
    Needs {
        module: "quota",
        needs: "setquota",
        function: "The quota execution module cannot be loaded: the module is only available on POSIX-like systems with the setquota binary available.",
        state: "quota module could not be loaded",
    },
    Needs {
        module: "raid",
        needs: "mdadm",
        function: "The mdadm execution module cannot be loaded: the mdadm binary is not in the path.",
        state: "Unable to locate command: mdadm",
    },
    Needs {
        module: "selinux",
        needs: "semanage",
        function: "semanage is not in the path",
        state: "selinux module could not be loaded",
    },
    Needs {
        module: "selinux",
        needs: "setsebool",
        function: "setsebool is not in the path",
        state: "selinux module could not be loaded",
    },
    Needs {
        module: "selinux",
        needs: "semodule",
        function: "semodule is not in the path",
        state: "selinux module could not be loaded",
    },
    Needs {
        module: "npm",
        needs: "npm",
        function: "npm execution module could not be loaded because the npm binary could not be located",
        state: "'npm' binary not found on system",
    },
    Needs {
        module: "ssh",
        needs: "ssh",
        function: "The module requires the ssh binary.",
        state: "",
    },
    Needs {
        module: "tls",
        needs: "openssl",
        function: NO_OPENSSL,
        state: NO_OPENSSL,
    },
    Needs {
        module: "bower",
        needs: "bower",
        function: "The bower module could not be loaded: bower command not found",
        state: "bower module could not be loaded",
    },
    Needs {
        module: "cabal",
        needs: "cabal",
        function: "cabal or ghc-pkg commands not found",
        state: "cabal or ghc-pkg commands not found",
    },
    Needs {
        module: "cabal",
        needs: "ghc-pkg",
        function: "cabal or ghc-pkg commands not found",
        state: "cabal or ghc-pkg commands not found",
    },
    Needs {
        module: "partition",
        needs: "parted",
        function: "The parted execution module failed to load parted binary is not in the path.",
        state: "",
    },
    Needs {
        module: "partition",
        needs: "lsblk",
        function: "The parted execution module failed to load lsblk binary is not in the path.",
        state: "",
    },
    Needs {
        module: "partition",
        needs: "partprobe",
        function: "The parted execution module failed to load partprobe binary is not in the path.",
        state: "",
    },
    Needs {
        module: "pecl",
        needs: "pecl",
        function: "The pecl execution module not loaded: pecl binary is not in the path.",
        state: "pecl module could not be loaded",
    },
    Needs {
        module: "monit",
        needs: "monit",
        function: "The monit execution module cannot be loaded: the monit binary is not in the path.",
        state: "monit module could not be loaded",
    },
    Needs {
        module: "tuned",
        needs: "tuned-adm",
        function: "The tuned execution module failed to load: the tuned-adm binary is not in the path.",
        state: "",
    },
    Needs {
        module: "hg",
        needs: "hg",
        function: "The hg execution module cannot be loaded: hg unavailable.",
        state: "Command hg not found",
    },
    Needs {
        module: "rsync",
        needs: "rsync",
        function: "The rsync execution module cannot be loaded: the rsync binary is not in the path.",
        state: "Command not found: rsync",
    },
    Needs {
        module: "svn",
        needs: "svn",
        function: "The svn execution module cannot be loaded: svn unavailable.",
        state: "Command not found: svn",
    },
    Needs {
        module: "webutil",
        needs: "htpasswd",
        function: "The htpasswd execution mdule cannot be loaded: htpasswd binary not in path.",
        state: "Command not found: htpasswd",
    },
    Needs {
        module: "x509",
        needs: "openssl",
        function: NO_OPENSSL,
        state: NO_OPENSSL,
    },
    Needs {
        module: "uci",
        needs: "uci",
        function: "OpenWrt's program uci is not in the path",
        state: "OpenWrt's program uci is not in the path",
    },
];

/// Returns the reason why a function is not available on this machine, in Salt's words. This runs
/// before each call, so it checks only the requirements of the function's own module.
pub(crate) fn missing(cx: &Exec, kind: Kind, full: &str) -> Option<String> {
    let (module, function) = full.split_once('.')?;
    let reason = match (kind, module) {
        (Kind::Module | Kind::State, "service") if services::of(cx, "start").is_err() => {
            no_service(cx)
        }
        (Kind::Module, _) if is_lacking(cx, module, function) => {
            return Some(format!("'{full}' is not available."));
        }
        (Kind::Module | Kind::State, "pkg") if !packages::is_known(cx) => no_packages(cx),
        (Kind::Module, "kernelpkg" | "lowpkg") => no_low_packages(cx, module)?,
        (Kind::Module | Kind::State, _) if module.starts_with("postgres") => {
            no_postgres(cx, kind, module)?
        }
        (Kind::Module | Kind::State, _) if module == "mysql" || module.starts_with("mysql_") => {
            let reason = match kind {
                Kind::State => "mysql module could not be loaded",
                _ => "the program mariadb or mysql is not in the path",
            };
            mysql::client().is_none().then(|| reason.to_owned())?
        }
        (Kind::Module | Kind::State, _)
            if module == "rabbitmq" || module.starts_with("rabbitmq_") =>
        {
            let reason = match (kind, module) {
                (Kind::State, "rabbitmq_upstream") => "rabbitmq module could not be loaded",
                (Kind::State, _) => "Command not found: rabbitmqctl",
                _ => "Module rabbitmq: module only works when RabbitMQ is installed",
            };
            rabbitmq::client().is_none().then(|| reason.to_owned())?
        }
        (Kind::Module | Kind::State, "makeconf" | "portage_config") => no_gentoo(cx, kind, module)?,
        (Kind::Module | Kind::State, _) if module == "docker" || module.starts_with("docker_") => {
            let why = docker::program(cx).err()?;
            match kind {
                Kind::State => format!("'docker' __virtual__ returned False: {why}"),
                _ => why.to_string(),
            }
        }
        (Kind::Module | Kind::State, _) => absent(kind, module).or_else(|| foreign(module))?,
        _ => return None,
    };
    Some(format!("'{module}' __virtual__ returned False: {reason}"))
}

/// Returns true if the machine's own provider of a virtual module lacks a function.
fn is_lacking(cx: &Exec, module: &str, function: &str) -> bool {
    match module {
        "pkg" => capabilities::lacks(packages::known(cx), function),
        "lowpkg" => capabilities::lacks_low(packages::known(cx), function),
        "service" => services::of(cx, function).is_err(),
        "postgres" if function.starts_with("cluster_") => {
            process::which("pg_createcluster").is_none()
        }
        _ => false,
    }
}

/// Returns the reason why `postgres`, or one of its states, is not available.
fn no_postgres(cx: &Exec, kind: Kind, module: &str) -> Option<String> {
    let program = match module {
        "postgres_cluster" => "pg_createcluster",
        _ => "psql",
    };
    let is_there = process::which(program).is_some() || postgres::program(cx, program).is_some();
    let reason = match kind {
        Kind::State => "Unable to load postgres module.  Make sure `postgres.bins_dir` is set.",
        _ => "psql was not found",
    };
    (!is_there).then(|| reason.to_owned())
}

/// Returns the reason why a module for Gentoo's files is not available.
fn no_gentoo(cx: &Exec, kind: Kind, module: &str) -> Option<String> {
    let reason = match (kind, module) {
        (Kind::State, "makeconf") => "makeconf module could not be loaded",
        (Kind::State, _) => "portage module could not be loaded",
        (_, "makeconf") => {
            "The makeconf execution module cannot be loaded: only available on Gentoo systems."
        }
        _ => {
            "portage_config execution module cannot be loaded: only available on Gentoo with portage installed."
        }
    };
    (cx.grain("os") != "Gentoo").then(|| reason.to_owned())
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

/// Returns the reason why a module is not available if its program or folder is absent.
fn absent(kind: Kind, module: &str) -> Option<String> {
    let reason = |one: &Needs| match kind {
        Kind::State => one.state,
        _ => one.function,
    };
    let is_there = |one: &Needs| {
        if one.needs.starts_with('/') {
            Path::new(one.needs).is_dir()
        } else {
            let mut programs = one.needs.split('|');
            programs.any(|program| process::which(program).is_some())
        }
    };
    let of_it = NEEDS.iter().filter(|one| one.module == module);
    let mut lacking = of_it.filter(|one| !reason(one).is_empty() && !is_there(one));
    lacking.next().map(|one| reason(one).to_owned())
}

/// Returns the reason why a module is not available if it is for another system.
fn foreign(module: &str) -> Option<String> {
    let system = if module.starts_with("win_") {
        "Windows"
    } else if module.starts_with("mac_") {
        "macOS"
    } else {
        let mut others = OTHERS.iter();
        others.find(|(_, modules)| modules.contains(&module))?.0
    };
    Some(format!(
        "it is for {system}, which this machine does not run"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_other_systems_say_which() {
        let windows = "it is for Windows, which this machine does not run";
        assert_eq!(foreign("win_path").as_deref(), Some(windows));
        assert_eq!(foreign("reg").as_deref(), Some(windows));
        assert!(foreign("macpackage").is_some_and(|why| why.contains("macOS")));
        assert_eq!(foreign("no"), None);
    }
}
