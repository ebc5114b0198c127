//! Modules of Salt that are for other systems: who calls one here is told so.

/// Modules by the system that they are for. Those whose names begin with `win_` or `mac_` are not listed.
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
    (
        "Gentoo",
        &["eselect", "layman", "makeconf", "portage_config"],
    ),
    ("Solaris or SmartOS", &["imgadm", "smartos", "zone"]),
];

/// Why a module is not there, where it is for another system.
#[must_use]
pub(crate) fn reason(module: &str) -> Option<String> {
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
        assert_eq!(reason("win_path").as_deref(), Some(windows));
        assert_eq!(reason("reg").as_deref(), Some(windows));
        assert!(reason("macpackage").is_some_and(|why| why.contains("macOS")));
        assert_eq!(reason("no"), None);
    }
}
