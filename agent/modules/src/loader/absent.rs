//! The parts of Salt that this program does not have: modules for other systems, and names that
//! `pinch lint` knows although nothing here declares them.

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

/// Modules that a build for small devices leaves out.
struct Family {
    /// The cargo feature.
    feature: &'static str,
    /// True if this build has the modules.
    built: bool,
    modules: &'static [&'static str],
}

const FAMILIES: &[Family] = &[
    Family {
        feature: "certificates",
        built: cfg!(feature = "certificates"),
        modules: &["asymmetric", "tls", "x509"],
    },
    Family {
        feature: "containers",
        built: cfg!(feature = "containers"),
        modules: &[
            "docker",
            "docker_container",
            "docker_image",
            "docker_network",
            "docker_volume",
            "helm",
        ],
    },
    Family {
        feature: "databases",
        built: cfg!(feature = "databases"),
        modules: &[
            "mysql",
            "mysql_database",
            "mysql_grants",
            "mysql_query",
            "mysql_user",
            "postgres",
            "postgres_cluster",
            "postgres_database",
            "postgres_extension",
            "postgres_group",
            "postgres_initdb",
            "postgres_language",
            "postgres_privileges",
            "postgres_schema",
            "postgres_tablespace",
            "postgres_user",
            "redis",
        ],
    },
    Family {
        feature: "disks",
        built: cfg!(feature = "disks"),
        modules: &[
            "blockdev",
            "extfs",
            "lvm",
            "nfs3",
            "nfs_export",
            "partition",
            "quota",
            "raid",
        ],
    },
    Family {
        feature: "gentoo",
        built: cfg!(feature = "gentoo"),
        modules: &["makeconf", "portage_config"],
    },
    Family {
        feature: "languages",
        built: cfg!(feature = "languages"),
        modules: &[
            "bower", "cabal", "composer", "gem", "npm", "pecl", "pyenv", "rbenv",
        ],
    },
    Family {
        feature: "packet-filters",
        built: cfg!(feature = "packet-filters"),
        modules: &["firewalld", "ipset", "iptables", "nftables"],
    },
    Family {
        feature: "selinux",
        built: cfg!(feature = "selinux"),
        modules: &["selinux"],
    },
    Family {
        feature: "source-control",
        built: cfg!(feature = "source-control"),
        modules: &["hg", "svn"],
    },
    Family {
        feature: "stores",
        built: cfg!(feature = "stores"),
        modules: &[
            "consul",
            "etcd",
            "rabbitmq",
            "rabbitmq_cluster",
            "rabbitmq_plugin",
            "rabbitmq_policy",
            "rabbitmq_upstream",
            "rabbitmq_user",
            "rabbitmq_vhost",
            "vault",
        ],
    },
    Family {
        feature: "web-servers",
        built: cfg!(feature = "web-servers"),
        modules: &[
            "apache",
            "apache_conf",
            "apache_module",
            "apache_site",
            "webutil",
        ],
    },
];

/// The state modules of Salt that this program lacks.
const STATES: &str = "\
    acme ansiblegate aptpkg artifactory augeas aws_sqs bigip bluecoat_sslv btrfs ceph chef chronos \
    cimc cisconso cloud consul container cryptdev csf cyg debconfmod dellchassis docker drac dracr \
    dvs elasticsearch eselect esxi ethtool glance glusterfs gnomedesktop grafana heat htpasswd \
    icinga2 idem influxdb infoblox ipmi jboss7 jenkins kapacitor kernelpkg keystone keystone_user \
    kubernetes layman ldap libcloud linux_acl logadm lvs lxc lxd marathon mdadm mdadm_raid memcached \
    modjk mongodb mongodb_database mongodb_user msteams mysql net_napalm netacl netconfig netntp \
    netsnmp netusers nexus nova ntp nxos openvswitch openvswitch_bridge openvswitch_port opsgenie \
    pagerduty panos pbm pcs pdbedit pip_state pkgbuild pkgng ports powerpath probes proxy pushover \
    pyrax pyrax_queues rbac_solaris rdp reg rest_cf rvm salt_master salt_proxy saltclass saltmod \
    serverdensity slack smartos smtp snapper solrcloud splunk splunk_search sqlite3 ssh ssh_pki ssl \
    syslog_ng sysrc telemetry testinframod tomcat trafficserver uptime vagrant vault vbox_guest \
    victorops virt vmc win_system winrepo wordpress xml xmpp zabbix_action zabbix_host \
    zabbix_hostgroup zabbix_mediatype zabbix_template zabbix_user zabbix_usergroup zabbix_usermacro \
    zabbix_valuemap zcbuildout zenoss zfs zk_concurrency zone zookeeper zpool";

/// Functions of Salt that this program lacks, although it has their modules.
pub const STATE_FUNCTIONS: &[&str] = &[
    "file.shortcut",
    "pkg.patch_downloaded",
    "pkg.patch_installed",
];

/// The runners that only a master has.
pub const RUNNERS: &[&str] = &[
    "cache.clear_all",
    "cache.clear_grains",
    "cache.clear_mine",
    "cache.clear_mine_func",
    "cache.clear_pillar",
    "cache.fetch",
    "cache.grains",
    "cache.list",
    "cache.mine",
    "cache.pillar",
    "doc.execution",
    "doc.runner",
    "doc.wheel",
    "error.error",
    "jobs.list_jobs_filter",
    "reactor.add",
    "reactor.delete",
    "reactor.enforce",
    "reactor.explain",
    "reactor.failed",
    "reactor.history",
    "reactor.is_leader",
    "reactor.list",
    "reactor.replay",
    "reactor.set_leader",
    "reactor.test",
    "sdb.delete",
    "sdb.get",
    "sdb.get_or_set_hash",
    "sdb.set",
    "survey.diff",
    "survey.hash",
    "token.create",
    "token.list",
    "token.revoke",
];

/// Arguments that Salt has replaced: the module, the old argument and the new one.
pub const REPLACED: &[(&str, &str, &str)] = &[
    ("file", "show_diff", "show_changes"),
    ("pkgrepo", "refresh_db", "refresh"),
    ("salt", "expr_form", "tgt_type"),
    ("user", "gid_from_name", "usergroup"),
];

/// Returns whether Salt has a state module of this name that this program lacks.
#[must_use]
pub fn is_state_module(name: &str) -> bool {
    name.starts_with("boto")
        || STATES.split(' ').any(|known| known == name)
        || not_built(name).is_some()
}

/// Returns the reason why a module is not available if this build was made without it, or if it is
/// for another system.
pub(crate) fn reason(module: &str) -> Option<String> {
    not_built(module).or_else(|| other_system(module))
}

/// Returns the reason why a module is not available if this build was made without it.
#[must_use]
pub fn not_built(module: &str) -> Option<String> {
    let mut families = FAMILIES.iter().filter(|family| !family.built);
    let family = families.find(|family| family.modules.contains(&module))?;
    Some(format!(
        "this build of pinch has no {} modules; install the full agent",
        family.feature
    ))
}

/// Returns the reason why a module is not available if it is for another system.
fn other_system(module: &str) -> Option<String> {
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
    use state::exec::{find, parts};

    use super::*;
    use crate::REGISTRY;

    #[test]
    fn modules_of_other_systems_say_which() {
        let windows = "it is for Windows, which this machine does not run";
        assert_eq!(other_system("win_path").as_deref(), Some(windows));
        assert_eq!(other_system("reg").as_deref(), Some(windows));
        assert!(other_system("macpackage").is_some_and(|why| why.contains("macOS")));
        assert_eq!(other_system("no"), None);
    }

    #[test]
    fn each_family_is_declared_if_it_is_built() {
        for Family {
            feature,
            built,
            modules,
        } in FAMILIES
        {
            for name in *modules {
                let state = REGISTRY.states.iter().any(|module| module.name == *name);
                let function = REGISTRY.functions.iter().any(|module| module.name == *name);
                assert_eq!(state || function, *built, "{name} of {feature}");
                assert_eq!(not_built(name).is_none(), *built, "{name}");
            }
        }
    }

    #[test]
    fn no_absent_name_is_declared() {
        let others = OTHERS.iter().flat_map(|(_, modules)| *modules).copied();
        for name in others.clone().chain(STATES.split(' ')) {
            let has = REGISTRY.states.iter().any(|module| module.name == name);
            assert!(!has, "the state module {name} is declared");
        }
        for name in others {
            let has = REGISTRY.functions.iter().any(|module| module.name == name);
            assert!(!has, "the module {name} is declared");
        }
        for name in STATE_FUNCTIONS {
            assert!(find(REGISTRY.states, name).is_none(), "{name} is declared");
        }
        for name in RUNNERS {
            assert!(find(REGISTRY.runners, name).is_none(), "{name} is declared");
        }
        for (module, argument, _) in REPLACED {
            let mut functions = parts(REGISTRY.states, module).flat_map(|part| part.functions);
            let has = functions.any(|function| function.declares(argument));
            assert!(!has, "{module} declares {argument}");
        }
    }
}
