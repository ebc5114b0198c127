//! Package managers: a trait, the choice of the one for this machine, and the code that all of them
//! share.
//!
//! A provider lists the installed and available packages, and returns the commands that change
//! packages. It runs none of those itself: [`transaction`] runs them, waits for the lock, collects
//! failures, and compares the lists of installed packages before and after.

mod apk;
pub(crate) mod apt;
pub(crate) mod capabilities;
mod dnf;
pub(crate) mod downloads;
mod dpkg;
pub(crate) mod failed;
pub(crate) mod holds;
pub(crate) mod listing;
mod opkg;
mod pacman;
mod rpm;
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
use capabilities::{
    Autoremoval, Database, Descriptions, Downloads, Groups, Holds, Selections, Verification,
};

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

/// The notation of a version that the program itself accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    /// `1.*`. For `>=1.0`, the versions in the repositories are searched first.
    Globs,
    /// `>=1.0`. For `1.*`, the versions in the repositories are searched first.
    Comparisons,
}

/// The fixed properties of a package manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// The program that installs.
    pub(crate) program: &'static str,
    /// The files and folders that change whenever a package changes. A list of packages is cached
    /// until one of them does.
    pub(crate) databases: &'static [&'static str],
    /// The notation of versions.
    pub(crate) notation: Notation,
}

/// A package manager: the functions that each one has, and its capabilities.
pub(crate) trait Provider: Sync {
    /// Returns the fixed properties.
    fn about(&self) -> About;

    /// Lists the installed packages.
    fn list(&self, cx: &Exec) -> Result<Listed, Error>;

    /// Compares two versions; `None` when one is not a version.
    fn compare(&self, one: &str, other: &str) -> Option<Ordering>;

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

    /// Returns true when a command could not start because another process holds the lock.
    fn is_locked(&self, output: &Output) -> bool;

    /// Returns the error of a finished command; `None` on success.
    fn error_text(&self, output: &Output) -> Option<String> {
        failed::error_text(output)
    }

    /// Returns the error message about a failed transaction; `None` if the errors suffice. `again`
    /// is true when packages are reinstalled.
    fn sentence(&self, doing: &str, again: bool) -> Option<String> {
        let _ = again;
        Some(format!("Problem encountered {doing} package(s)"))
    }

    /// Returns the queries about files.
    fn files(&self) -> &dyn Files;

    /// Returns the database of dpkg or rpm.
    fn database(&self) -> Option<&dyn Database> {
        None
    }

    /// Returns the selections of dpkg.
    fn selections(&self) -> Option<&dyn Selections> {
        None
    }

    /// Returns the comparison of installed files with their packages.
    fn verification(&self) -> Option<&dyn Verification> {
        None
    }

    /// Returns the repositories' data about packages.
    fn descriptions(&self) -> Option<&dyn Descriptions> {
        None
    }

    /// Returns the removal of packages that are no longer needed.
    fn autoremoval(&self) -> Option<&dyn Autoremoval> {
        None
    }

    /// Returns the holds.
    fn holds(&self) -> Option<&dyn Holds> {
        None
    }

    /// Returns the commands about groups.
    fn groups(&self) -> Option<Groups> {
        None
    }

    /// Returns the place of downloaded package files.
    fn downloads(&self) -> Option<Downloads> {
        None
    }
}

impl dyn Provider + '_ {
    /// Returns the name under which a package is listed (`vim:amd64` is `vim` on amd64).
    pub(crate) fn normalize(&self, cx: &Exec, name: &str) -> String {
        match self.database() {
            Some(database) => database.normalize(cx, name),
            None => name.to_owned(),
        }
    }

    /// Returns a capability.
    ///
    /// # Errors
    /// When this package manager lacks it, and therefore the function.
    pub(crate) fn require<T>(&self, capability: Option<T>, function: &str) -> Result<T, Error> {
        capability.ok_or_else(|| self.unsupported(function))
    }

    /// Returns the error for a function that this package manager lacks.
    fn unsupported(&self, function: &str) -> Error {
        let program = self.about().program;
        Error::refused(format!("pkg.{function} is not available for {program}"))
    }
}

/// Queries about files, which the package manager answers or the database below it.
pub(crate) trait Files {
    /// Returns the name and version of a package file.
    fn file_info(&self, cx: &Exec, path: &str) -> Result<Wanted, Error>;

    /// Returns the package that a path belongs to, or an empty text.
    fn owner(&self, cx: &Exec, path: &str) -> Result<String, Error>;

    /// Returns the files of these packages, or of all, by package.
    fn by_package(&self, cx: &Exec, names: &[String]) -> Result<Packages, Error>;
}

/// Returns the package manager of this machine, or the one named by the option `providers` or a
/// state's own `provider`.
///
/// # Errors
/// When there is no supported package manager, or its program is missing.
pub(crate) fn provider(cx: &Exec) -> Result<&'static dyn Provider, Error> {
    let (os_family, os) = system(cx);
    let provider = expected(cx).ok_or_else(|| {
        Error::refused(match cx.provider("pkg") {
            Some(name) => format!("Unknown package manager {name}"),
            None => format!("No package manager is known for {os} (os_family {os_family})"),
        })
    })?;
    let program = provider.about().program;
    match process::which(program) {
        Some(_) => Ok(provider),
        None => Err(Error::refused(format!(
            "The package manager of {os}, {program}, is not installed"
        ))),
    }
}

/// Returns the package manager as [`provider`] does, whether or not its program is installed.
pub(crate) fn expected(cx: &Exec) -> Option<&'static dyn Provider> {
    match cx.provider("pkg") {
        Some(name) => family_of(&name).and_then(|family| chosen(family, family)),
        None => {
            let (os_family, os) = system(cx);
            chosen(&os_family, &os)
        }
    }
}

/// Splits a package's name and its architecture.
pub(crate) fn parse_arch(cx: &Exec, name: &str) -> Map {
    let database = expected(cx).and_then(Provider::database);
    let (name, arch) = match database {
        Some(database) => database.split_arch(name),
        None => rpm::split_arch(name),
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
            let here = all.find(|dnf| process::which(dnf.about().program).is_some());
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
