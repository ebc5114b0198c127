//! Package managers: a trait, the choice of the one for this machine, and the code that all of them
//! share.
//!
//! A provider lists the installed and available packages, and returns the commands that change
//! packages. It runs none of those itself: [`transaction`] runs them, waits for the lock, collects
//! failures, and compares the lists of installed packages before and after.

mod apk;
pub(crate) mod apt;
mod dnf;
pub(crate) mod downloads;
pub(crate) mod dpkg;
pub(crate) mod failed;
pub(crate) mod holds;
pub(crate) mod listing;
mod opkg;
mod pacman;
pub(crate) mod rpm;
pub(crate) mod rpm_info;
pub(crate) mod spec;
pub(crate) mod targets;
pub(crate) mod transaction;
mod zypper;
pub(crate) mod zypper_cli;

use std::cmp::Ordering;

use machine::process::{self, Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::pkg::repositories;

/// Packages by name, each with the list of its versions (texts).
pub(crate) type Packages = Map;

/// The packages of a machine by state: installed, removed with the configuration left, or marked to
/// be purged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    /// Installed, and not marked for removal.
    pub(crate) installed: Packages,
    /// Removed, with the configuration kept.
    pub(crate) removed: Packages,
    /// Installed, and marked to be purged.
    pub(crate) purge_desired: Packages,
}

/// One package of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The name.
    pub(crate) name: String,
    /// The exact version; `None` selects the newest.
    pub(crate) version: Option<String>,
    /// The file to install from; `None` selects a repository.
    pub(crate) path: Option<String>,
}

impl Wanted {
    /// Returns the notation of apt, apk and opkg: the file, `name=1.0`, or the name.
    fn exactly(&self) -> String {
        match (&self.path, &self.version) {
            (Some(path), _) => path.clone(),
            (None, Some(version)) => format!("{}={version}", self.name),
            (None, None) => self.name.clone(),
        }
    }

    /// Returns the notation of zypper and pacman, which accept `name>=1.0` as well.
    fn compared(&self) -> String {
        match (&self.path, &self.version) {
            (None, Some(version)) => {
                let (sign, number) = spec::split(version);
                let sign = if sign.is_empty() { "=" } else { sign };
                format!("{}{sign}{number}", self.name)
            }
            _ => self.exactly(),
        }
    }
}

/// The packages to install, sorted by their relation to the installed ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// Packages that are new, or newer than the installed version.
    pub(crate) install: Vec<Wanted>,
    /// Packages that are older than the installed version.
    pub(crate) downgrade: Vec<Wanted>,
    /// Packages that are installed in this version already.
    pub(crate) reinstall: Vec<Wanted>,
    /// True when all packages come from files.
    pub(crate) from_files: bool,
    /// The repository or release to install from.
    pub(crate) fromrepo: Option<String>,
    /// True to skip the check of signatures.
    pub(crate) skip_verify: bool,
    /// True to download the packages without installing them.
    pub(crate) downloadonly: bool,
    /// Further arguments of the user (`install_recommends`, `enablerepo` …).
    pub(crate) kwargs: Map,
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

/// A package manager. Functions with a default are those that some package managers lack.
pub(crate) trait Provider: Sync {
    /// Returns the program that installs.
    fn program(&self) -> &'static str;

    /// Returns the files and folders that change whenever a package changes. A list of packages is
    /// cached until one of them does.
    fn databases(&self) -> &'static [&'static str];

    /// Lists the installed packages.
    fn list(&self, cx: &Exec) -> Result<Listed, Error>;

    /// Compares two versions; `None` when one is not a version.
    fn compare(&self, one: &str, other: &str) -> Option<Ordering>;

    /// Returns the name under which a package is listed (`vim:amd64` is `vim` on amd64).
    fn normalize(&self, cx: &Exec, name: &str) -> String {
        let _ = cx;
        name.to_owned()
    }

    /// Updates the repositories' lists and returns the result of `pkg.refresh_db`. `kwargs`:
    /// `cache_valid_time`, `failhard` ….
    fn refresh(&self, cx: &Exec, kwargs: &Map) -> Result<Value, Error>;

    /// Returns the newest available version of each name if it is newer than the installed one,
    /// else an empty text. `kwargs`: `fromrepo`, and `show_installed` to get the newest version in
    /// any case. One name may yield several (`name:arch`).
    fn latest(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error>;

    /// Returns the versions in the repositories by name, newest first. Without names, returns those
    /// of all packages.
    fn available(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Packages, Error>;

    /// Returns the names and versions of the packages that an upgrade would install.
    fn upgrades(&self, cx: &Exec, kwargs: &Map) -> Result<Map, Error>;

    /// Returns true if the program itself accepts `>=1.0`. If not, the versions in the repositories
    /// are searched first.
    fn takes_comparisons(&self) -> bool {
        false
    }

    /// Returns true if the program itself accepts `1.*`.
    fn takes_globs(&self) -> bool {
        true
    }

    /// Returns the commands that install.
    fn install(&self, cx: &Exec, order: &Order) -> Result<Vec<Process>, Error>;

    /// Returns the commands that remove; with `purge`, also the configuration.
    fn remove(
        &self,
        cx: &Exec,
        names: &[Wanted],
        purge: bool,
        kwargs: &Map,
    ) -> Result<Vec<Process>, Error>;

    /// Returns the commands that upgrade everything. `kwargs`: `dist_upgrade`, `pkgs` ….
    fn upgrade(&self, cx: &Exec, kwargs: &Map) -> Result<Vec<Process>, Error>;

    /// Returns the command that removes packages which are no longer needed, or with `list_only`
    /// only lists them.
    fn autoremove(&self, list_only: bool, purge: bool) -> Result<Process, Error> {
        let _ = (list_only, purge);
        Err(self.cannot("autoremove"))
    }

    /// Reads the output of the command from `autoremove` with `list_only`.
    fn autoremovable(&self, stdout: &str) -> Vec<String> {
        let _ = stdout;
        Vec::new()
    }

    /// Returns the name and version of a package file.
    fn file_info(&self, cx: &Exec, path: &str) -> Result<Wanted, Error>;

    /// Returns the data of a package file, as `lowpkg.bin_pkg_info` does.
    fn bin_pkg_info(&self, cx: &Exec, path: &str) -> Result<Map, Error> {
        let _ = (cx, path);
        Err(self.cannot("bin_pkg_info"))
    }

    /// Returns true if packages can be held at their version.
    fn can_hold(&self) -> bool {
        false
    }

    /// Returns the treatment of a held package that is to be changed.
    fn on_hold(&self) -> OnHold {
        OnHold::Freed
    }

    /// Returns the messages about holds.
    fn hold_words(&self) -> &'static holds::Words {
        &holds::SELECTIONS
    }

    /// Returns the held packages. The version is set if the hold applies to that version only.
    fn held(&self, cx: &Exec) -> Result<Vec<Wanted>, Error> {
        let _ = cx;
        Err(self.cannot("hold"))
    }

    /// Returns the command that holds or releases a package.
    fn hold(&self, cx: &Exec, package: &Wanted, hold: bool) -> Result<Process, Error> {
        let _ = (cx, package, hold);
        Err(self.cannot("hold"))
    }

    /// Removes the mark of packages that are marked to be purged.
    fn unpurge(&self, cx: &Exec, names: &[String]) -> Result<(), Error> {
        let _ = (cx, names);
        Err(self.cannot("unpurge"))
    }

    /// Returns the package that a path belongs to, or an empty text.
    fn owner(&self, cx: &Exec, path: &str) -> Result<String, Error> {
        let _ = (cx, path);
        Err(self.cannot("owner"))
    }

    /// Returns the files of these packages, or of all, by package.
    fn files(&self, cx: &Exec, names: &[String]) -> Result<Packages, Error> {
        let _ = (cx, names);
        Err(self.cannot("file_list"))
    }

    /// Returns the data of installed packages, as `pkg.info_installed` does.
    fn info_installed(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let _ = (cx, names, kwargs);
        Err(self.cannot("info_installed"))
    }

    /// Returns the repositories' data about packages, as `pkg.show` does.
    fn show(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let _ = (cx, names, kwargs);
        Err(self.cannot("show"))
    }

    /// Returns similar names for each of these names that the repositories do not have; nothing if
    /// the package manager cannot search for them.
    fn suggestions(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Packages, Error> {
        let _ = (cx, names, kwargs);
        Ok(Packages::new())
    }

    /// Returns the packages that provide each capability, for `resolve_capabilities`.
    fn provides(&self, cx: &Exec) -> Result<Packages, Error> {
        let _ = cx;
        Ok(Packages::new())
    }

    /// Replaces capabilities in `pkgs` by the packages that provide them, if `kwargs` has
    /// `resolve_capabilities`.
    fn resolved(&self, cx: &Exec, pkgs: Value, kwargs: &Map) -> Result<Value, Error> {
        let _ = (cx, kwargs);
        Ok(pkgs)
    }

    /// Returns true if installed files can be compared with their packages.
    fn can_verify(&self) -> bool {
        false
    }

    /// Returns the files that differ from those of their package, as `pkg.verify` does.
    fn verify(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let _ = (cx, names, kwargs);
        Err(self.cannot("verify"))
    }

    /// Returns the folder of downloaded packages, and the ending of their names.
    fn downloads(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Returns true if downloaded files are listed among the changes.
    fn tells_downloads(&self) -> bool {
        false
    }

    /// Returns the error of a finished command; `None` on success.
    fn complaint(&self, output: &Output) -> Option<String> {
        failed::complaint(output)
    }

    /// Returns the error message about a failed transaction; `None` if the errors suffice. `again`
    /// is true when packages are reinstalled.
    fn sentence(&self, doing: &str, again: bool) -> Option<String> {
        let _ = again;
        Some(format!("Problem encountered {doing} package(s)"))
    }

    /// Returns true when a command could not start because another process holds the lock.
    fn is_locked(&self, output: &Output) -> bool;

    /// Returns the error for a function that this package manager lacks.
    fn cannot(&self, function: &str) -> Error {
        let program = self.program();
        Error::refused(format!("pkg.{function} is not available for {program}"))
    }
}

/// Returns the package manager of this machine, or the one named by the option `providers` or a
/// state's own `provider`.
///
/// # Errors
/// When there is no supported package manager, or its program is missing.
pub(crate) fn provider(cx: &Exec) -> Result<&'static dyn Provider, Error> {
    let (os_family, os) = system(cx);
    let provider = match cx.provider("pkg") {
        Some(name) => family_of(&name)
            .and_then(|family| chosen(family, family))
            .ok_or_else(|| Error::refused(format!("Unknown package manager {name}")))?,
        None => chosen(&os_family, &os).ok_or_else(|| {
            let text = format!("No package manager is known for {os} (os_family {os_family})");
            Error::refused(text)
        })?,
    };
    let program = provider.program();
    match process::which(program) {
        Some(_) => Ok(provider),
        None => Err(Error::refused(format!(
            "The package manager of {os}, {program}, is not installed"
        ))),
    }
}

/// Splits a package's name and its architecture.
pub(crate) fn parse_arch(cx: &Exec, name: &str) -> Map {
    let (name, arch) = match repositories::kind(cx) {
        Some(repositories::Kind::Apt) => match name.rsplit_once(':') {
            Some((name, arch)) => (name, Some(arch)),
            None => (name, None),
        },
        _ => rpm::split_arch(name),
    };
    Map::new().with("name", name).with("arch", arch)
}

/// Returns true if the machine's distribution has a supported package manager.
pub(crate) fn is_known(cx: &Exec) -> bool {
    let (os_family, os) = system(cx);
    chosen(&os_family, &os).is_some() || cx.provider("pkg").is_some()
}

/// The names of Salt's modules, each with its family of distributions.
pub(crate) const FILES: [(&str, &str); 6] = [
    ("aptpkg", "Debian"),
    ("yumpkg", "RedHat"),
    ("zypperpkg", "Suse"),
    ("pacmanpkg", "Arch"),
    ("apkpkg", "Alpine"),
    ("opkg", "OpenWrt"),
];

/// Returns the family of distributions for one of Salt's modules.
pub(crate) fn family_of(file: &str) -> Option<&'static str> {
    let mut files = FILES.iter();
    files
        .find(|(name, _)| *name == file)
        .map(|(_, family)| *family)
}

/// Returns the family of this machine's distribution, and the distribution's name.
pub(crate) fn system(cx: &Exec) -> (String, String) {
    (cx.grain("os_family"), cx.grain("os"))
}

/// Returns the package manager of a family of distributions.
fn chosen(os_family: &str, os: &str) -> Option<&'static dyn Provider> {
    if os_family == "Arch" {
        return Some(&pacman::Pacman);
    }
    match repositories::of_family(os_family, os)? {
        repositories::Kind::Apt => Some(&apt::Apt),
        repositories::Kind::Yum => {
            let mut all = dnf::ALL.iter();
            let here = all.find(|dnf| process::which(dnf.program()).is_some());
            here.or_else(|| dnf::ALL.first())
                .map(|dnf| dnf as &dyn Provider)
        }
        repositories::Kind::Zypper => Some(&zypper::Zypper),
        repositories::Kind::Apk => Some(&apk::Apk),
        // Newer versions of OpenWrt use apk.
        repositories::Kind::Opkg
            if process::which("opkg").is_none() && process::which("apk").is_some() =>
        {
            Some(&apk::Apk)
        }
        repositories::Kind::Opkg => Some(&opkg::Opkg),
    }
}
