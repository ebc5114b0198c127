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

/// The system that a function's module is for, where that is another one.
fn system(full: &str) -> Option<&'static str> {
    let module = full.split('.').next().unwrap_or_default();
    if module.starts_with("win_") {
        return Some("Windows");
    }
    if module.starts_with("mac_") {
        return Some("macOS");
    }
    let mut others = OTHERS.iter();
    others
        .find(|(_, modules)| modules.contains(&module))
        .map(|(system, _)| *system)
}

/// Why a state function is not there, in the layout of Salt.
#[must_use]
pub(crate) fn reason(full: &str) -> String {
    match system(full) {
        Some(system) => {
            let module = full.split('.').next().unwrap_or_default();
            format!(
                "Reason: '{module}' __virtual__ returned False: it is for {system}, which this machine does not run"
            )
        }
        None => format!("Reason: '{full}' is not available."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_other_systems_say_which() {
        assert!(
            reason("win_path.exists")
                .ends_with("it is for Windows, which this machine does not run")
        );
        assert!(
            reason("reg.present").contains("'reg' __virtual__ returned False: it is for Windows")
        );
        assert!(reason("macpackage.installed").contains("macOS"));
        assert_eq!(reason("no.such"), "Reason: 'no.such' is not available.");
    }
}
