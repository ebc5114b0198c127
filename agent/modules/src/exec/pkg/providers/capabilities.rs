//! The capabilities that only some package managers have, each as a trait or type.
//! [`Provider`](super::Provider) returns `None` for those that it lacks.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::Map;

use super::{Provider, Wanted, holds};

/// The database of dpkg or rpm below a package manager, which Salt calls `lowpkg`.
pub(crate) trait Database {
    /// Returns the name under which a package is listed (`vim:amd64` is `vim` on amd64).
    fn normalize(&self, cx: &Exec, name: &str) -> String;

    /// Splits a package's name and its architecture.
    fn split_arch<'a>(&self, name: &'a str) -> (&'a str, Option<&'a str>);

    /// Returns the data of installed packages, as `pkg.info_installed` does.
    fn info_installed(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error>;

    /// Returns the data of installed packages, as `lowpkg.info` does.
    fn info(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error>;

    /// Returns the versions of installed packages, as `lowpkg.list_pkgs` does.
    fn versions(&self, cx: &Exec, names: &[String]) -> Result<Map, Error>;

    /// Returns the data of a package file, as `lowpkg.bin_pkg_info` does.
    fn bin_pkg_info(&self, cx: &Exec, path: &str) -> Result<Map, Error>;
}

/// The selections of dpkg: the wanted state of each package.
pub(crate) trait Selections {
    /// Removes the mark of packages that are marked to be purged.
    fn unpurge(&self, cx: &Exec, names: &[String]) -> Result<(), Error>;
}

/// The comparison of installed files with their packages.
pub(crate) trait Verification {
    /// Returns the files that differ from those of their package, as `pkg.verify` does.
    fn verify(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error>;
}

/// The repositories' data about packages.
pub(crate) trait Descriptions {
    /// Returns the name of Salt's function for it: `show` or `info_available`.
    fn function(&self) -> &'static str;

    /// Returns the data of these packages, as that function does.
    fn describe(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error>;
}

/// The removal of packages that are no longer needed.
pub(crate) trait Autoremoval {
    /// Returns the command that removes them, or with `list_only` only lists them.
    fn autoremove(&self, list_only: bool, purge: bool) -> Process;

    /// Reads the output of the command with `list_only`.
    fn autoremovable(&self, stdout: &str) -> Vec<String>;
}

/// Holding packages at their version.
pub(crate) trait Holds {
    /// Returns the held packages. The version is set if the hold applies to that version only.
    fn held(&self, cx: &Exec) -> Result<Vec<Wanted>, Error>;

    /// Returns the command that holds or releases a package.
    fn hold(&self, cx: &Exec, package: &Wanted, hold: bool) -> Result<Process, Error>;

    /// Returns the treatment of a held package that is to be changed.
    fn on_hold(&self) -> OnHold;

    /// Returns the messages about holds.
    fn words(&self) -> &'static holds::Words;
}

/// The treatment of a held package that is to be changed, if `update_holds` does not release it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnHold {
    /// The package is released and held again.
    Freed,
    /// The package is left out, and that is an error.
    Skipped,
    /// The package is passed to the program, which reports that it is held.
    Tried,
}

/// The commands about groups of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// `group list` and `group info`, of dnf5.
    Dnf5,
    /// `grouplist` and `groupinfo`.
    Yum,
}

/// The downloaded package files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Downloads {
    /// The folder of the files.
    pub(crate) folder: &'static str,
    /// The ending of their names.
    pub(crate) ending: &'static str,
    /// True if downloaded files are listed among the changes.
    pub(crate) are_changes: bool,
}

/// Returns true if a package manager lacks a function of `pkg`. A machine without a known one lacks
/// each function that needs a capability.
pub(crate) fn lacks(provider: Option<&dyn Provider>, function: &str) -> bool {
    let has = |capability: fn(&dyn Provider) -> bool| provider.is_some_and(capability);
    match function {
        "autoremove" => !has(|one| one.autoremoval().is_some()),
        "group_diff" | "group_info" | "group_install" | "group_list" => {
            !has(|one| one.groups().is_some())
        }
        "info_available" | "show" => {
            let descriptions = provider.and_then(|one| one.descriptions());
            descriptions.is_none_or(|descriptions| descriptions.function() != function)
        }
        "modified" | "verify" => !has(|one| one.verification().is_some()),
        "parse_arch" => !has(|one| one.database().is_some()),
        // Only Salt's module for apt has these.
        "add_repo_key"
        | "del_repo_key"
        | "get_repo_keys"
        | "get_selections"
        | "set_selections"
        | "services_need_restart"
        | "which" => !has(|one| one.selections().is_some()),
        _ => false,
    }
}

/// Returns true if the database below a package manager lacks a function of `lowpkg`: Salt's
/// modules for dpkg and rpm have different ones.
pub(crate) fn lacks_low(provider: Option<&dyn Provider>, function: &str) -> bool {
    let is_dpkg = provider.is_some_and(|one| one.selections().is_some());
    match function {
        "unpurge" => !is_dpkg,
        "checksum" | "modified" | "owner" | "verify" | "version_cmp" => is_dpkg,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{apk::Apk, apt::Apt, dnf, opkg::Opkg, pacman::Pacman, zypper::Zypper};
    use super::*;

    /// The functions that not each package manager has.
    const SOME: [&str; 17] = [
        "add_repo_key",
        "autoremove",
        "del_repo_key",
        "get_repo_keys",
        "group_diff",
        "group_info",
        "group_install",
        "group_list",
        "get_selections",
        "info_available",
        "modified",
        "parse_arch",
        "services_need_restart",
        "set_selections",
        "show",
        "verify",
        "which",
    ];

    fn functions(provider: Option<&dyn Provider>) -> Vec<&'static str> {
        let mut all = SOME.to_vec();
        all.retain(|function| !lacks(provider, function));
        all
    }

    #[test]
    fn a_package_manager_has_the_functions_of_salts_module() {
        let apt = [
            "add_repo_key",
            "autoremove",
            "del_repo_key",
            "get_repo_keys",
            "get_selections",
            "parse_arch",
            "services_need_restart",
            "set_selections",
            "show",
            "which",
        ];
        let dnf = [
            "group_diff",
            "group_info",
            "group_install",
            "group_list",
            "modified",
            "parse_arch",
            "verify",
        ];
        let zypper = ["info_available", "modified", "parse_arch", "verify"];
        assert_eq!(functions(Some(&Apt)), apt);
        for one in &dnf::ALL {
            assert_eq!(functions(Some(one)), dnf);
        }
        assert_eq!(functions(Some(&Zypper)), zypper);
        for one in [&Pacman as &dyn Provider, &Apk, &Opkg] {
            assert!(functions(Some(one)).is_empty());
        }
        assert!(functions(None).is_empty());
        assert!(!lacks(None, "install"));
    }

    #[test]
    fn lowpkg_has_the_functions_of_its_database() {
        let of_rpm = ["checksum", "modified", "owner", "verify", "version_cmp"];
        for function in of_rpm {
            assert!(lacks_low(Some(&Apt), function) && !lacks_low(Some(&Zypper), function));
        }
        assert!(!lacks_low(Some(&Apt), "unpurge") && lacks_low(Some(&Zypper), "unpurge"));
        assert!(!lacks_low(Some(&Apt), "info") && !lacks_low(Some(&Zypper), "info"));
    }
}
