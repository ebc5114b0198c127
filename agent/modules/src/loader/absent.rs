//! The parts of Salt that this program does not have: modules for other systems, and names that
//! `pinch lint` knows although nothing here declares them.

use state::custom::Kind;

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
    /// True if this build has them.
    built: bool,
    /// The state modules.
    states: &'static [&'static str],
    /// The execution modules.
    functions: &'static [&'static str],
}

const FAMILIES: &[Family] = &[
    Family {
        feature: "certificates",
        built: cfg!(feature = "certificates"),
        states: &["ssh_pki", "tls", "x509"],
        functions: &["asymmetric", "ssh_pki", "tls", "x509"],
    },
    Family {
        feature: "clouds",
        built: cfg!(feature = "clouds"),
        states: &["cloud"],
        functions: &["cloud"],
    },
    Family {
        feature: "containers",
        built: cfg!(feature = "containers"),
        states: &[
            "docker_container",
            "docker_image",
            "docker_network",
            "docker_volume",
            "helm",
        ],
        functions: &["docker", "helm"],
    },
    Family {
        feature: "databases",
        built: cfg!(feature = "databases"),
        states: &[
            "mysql_database",
            "mysql_grants",
            "mysql_query",
            "mysql_user",
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
        functions: &["mysql", "postgres", "redis"],
    },
    Family {
        feature: "disks",
        built: cfg!(feature = "disks"),
        states: &["blockdev", "lvm", "nfs_export", "quota", "raid"],
        functions: &["extfs", "lvm", "nfs3", "partition", "quota", "raid"],
    },
    Family {
        feature: "gentoo",
        built: cfg!(feature = "gentoo"),
        states: &["makeconf", "portage_config"],
        functions: &["makeconf", "portage_config"],
    },
    Family {
        feature: "interfaces",
        built: cfg!(feature = "interfaces"),
        states: &["network"],
        functions: &["ip"],
    },
    Family {
        feature: "languages",
        built: cfg!(feature = "languages"),
        states: &[
            "bower", "cabal", "composer", "gem", "npm", "pecl", "pyenv", "rbenv",
        ],
        functions: &[
            "bower", "cabal", "composer", "gem", "npm", "pecl", "pyenv", "rbenv",
        ],
    },
    Family {
        feature: "mail",
        built: cfg!(feature = "mail"),
        states: &["smtp"],
        functions: &["smtp"],
    },
    Family {
        feature: "notifications",
        built: cfg!(feature = "notifications"),
        states: &["msteams", "pagerduty", "pushover", "slack"],
        functions: &[
            "mattermost",
            "msteams",
            "pagerduty",
            "pushover",
            "slack",
            "telegram",
        ],
    },
    Family {
        feature: "packet-filters",
        built: cfg!(feature = "packet-filters"),
        states: &["firewalld", "ipset", "iptables", "nftables"],
        functions: &["firewalld", "ipset", "iptables", "nftables"],
    },
    Family {
        feature: "selinux",
        built: cfg!(feature = "selinux"),
        states: &["selinux"],
        functions: &["selinux"],
    },
    Family {
        feature: "source-control",
        built: cfg!(feature = "source-control"),
        states: &["hg", "svn"],
        functions: &["hg", "svn"],
    },
    Family {
        feature: "stores",
        built: cfg!(feature = "stores"),
        states: &[
            "etcd",
            "rabbitmq_cluster",
            "rabbitmq_plugin",
            "rabbitmq_policy",
            "rabbitmq_upstream",
            "rabbitmq_user",
            "rabbitmq_vhost",
        ],
        functions: &["consul", "etcd", "rabbitmq", "vault"],
    },
    Family {
        feature: "testing",
        built: cfg!(feature = "testing"),
        states: &[],
        functions: &["saltcheck"],
    },
    Family {
        feature: "web-servers",
        built: cfg!(feature = "web-servers"),
        states: &[
            "apache",
            "apache_conf",
            "apache_module",
            "apache_site",
            "webutil",
        ],
        functions: &["apache", "webutil"],
    },
];

/// The state modules of Salt that this program lacks.
const STATES: &str = "\
    acme ansiblegate aptpkg artifactory augeas aws_sqs bigip bluecoat_sslv btrfs ceph chef chronos \
    cimc cisconso consul container cryptdev csf cyg debconfmod dellchassis docker drac dracr \
    dvs elasticsearch eselect esxi ethtool glance glusterfs gnomedesktop grafana heat htpasswd \
    icinga2 idem influxdb infoblox ipmi jboss7 jenkins kapacitor kernelpkg keystone keystone_user \
    kubernetes layman ldap libcloud linux_acl logadm lvs lxc lxd marathon mdadm mdadm_raid \
    memcached modjk mongodb mongodb_database mongodb_user mysql net_napalm netacl netconfig netntp \
    netsnmp netusers nexus nova ntp nxos openvswitch openvswitch_bridge openvswitch_port opsgenie \
    panos pbm pcs pdbedit pip_state pkgbuild pkgng ports powerpath probes proxy pyrax pyrax_queues \
    rbac_solaris rdp reg rest_cf rvm salt_master salt_proxy saltclass saltmod serverdensity \
    smartos snapper solrcloud splunk splunk_search sqlite3 ssh ssl syslog_ng sysrc \
    telemetry testinframod tomcat trafficserver uptime vagrant vault vbox_guest victorops virt vmc \
    win_system winrepo wordpress xml xmpp zabbix_action zabbix_host zabbix_hostgroup \
    zabbix_mediatype zabbix_template zabbix_user zabbix_usergroup zabbix_usermacro zabbix_valuemap \
    zcbuildout zenoss zfs zk_concurrency zone zookeeper zpool";

/// Functions of Salt that this program lacks, although it has their modules.
pub const STATE_FUNCTIONS: &[&str] = &[
    "file.shortcut",
    "pkg.patch_downloaded",
    "pkg.patch_installed",
];

/// The runners that only a master has.
pub const RUNNERS: &[&str] = &[
    "auth.del_token",
    "auth.mk_token",
    "batch.list_active",
    "batch.status",
    "batch.stop",
    "cache.clear_all",
    "cache.clear_git_lock",
    "cache.clear_grains",
    "cache.clear_mine",
    "cache.clear_mine_func",
    "cache.clear_pillar",
    "cache.fetch",
    "cache.grains",
    "cache.list",
    "cache.mine",
    "cache.pillar",
    "cluster.accept",
    "cluster.collect_from_peers",
    "cluster.members",
    "cluster.migrate_jobs_to_cache",
    "cluster.remove",
    "cluster.ring_create",
    "cluster.ring_destroy",
    "cluster.ring_info",
    "cluster.ring_set",
    "cluster.rings",
    "cluster.route_clear",
    "cluster.route_set",
    "cluster.routes",
    "cluster.shed_status",
    "cluster.shed_unowned",
    "cluster.shed_unowned_all",
    "cluster.status",
    "cluster.sync_roots",
    "cluster.transfer_leader",
    "doc.execution",
    "doc.runner",
    "doc.wheel",
    "error.error",
    "jobs.list_jobs_filter",
    "minion.history",
    "minion.overview",
    "minion.show",
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

/// The wheel functions that only a master has.
pub const WHEEL: &[&str] = &[
    "key.finger",
    "key.finger_master",
    "key.gen",
    "key.gen_accept",
    "key.gen_keys",
    "key.key_str",
    "key.list_match",
    "key.master_key_str",
    "key.rotate_master",
    "minions.connected",
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
        || not_built(Kind::State, name).is_some()
}

/// Returns the reason why a module is not available if this build was made without it, or if it is
/// for another system.
pub(crate) fn reason(kind: Kind, module: &str) -> Option<String> {
    not_built(kind, module).or_else(|| other_system(module))
}

/// Returns the reason why a module is not available if this build was made without it.
#[must_use]
pub fn not_built(kind: Kind, module: &str) -> Option<String> {
    let names = |family: &Family| match kind {
        Kind::State => family.states,
        _ => family.functions,
    };
    let mut families = FAMILIES.iter().filter(|family| !family.built);
    let family = families.find(|family| names(family).contains(&module))?;
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
        for family in FAMILIES {
            for name in family.states {
                let has = REGISTRY.states.iter().any(|module| module.name == *name);
                assert_eq!(has, family.built, "the state module {name}");
                assert_eq!(not_built(Kind::State, name).is_none(), family.built);
            }
            for name in family.functions {
                let has = REGISTRY.functions.iter().any(|module| module.name == *name);
                assert_eq!(has, family.built, "the module {name}");
                assert_eq!(not_built(Kind::Module, name).is_none(), family.built);
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
        for name in WHEEL {
            assert!(find(REGISTRY.wheel, name).is_none(), "{name} is declared");
        }
        for (module, argument, _) in REPLACED {
            let mut functions = parts(REGISTRY.states, module).flat_map(|part| part.functions);
            let has = functions.any(|function| function.declares(argument));
            assert!(!has, "{module} declares {argument}");
        }
    }
}
