//! Package managers: a trait, the one that this machine has, and what is the same for all of them.
//!
//! A provider says what is installed, what could be, and with which commands packages are changed; it runs none of those itself.
//! [`transaction`] runs them: it waits for the lock, collects what failed, and compares what is installed before and after.

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

use std::cmp::Ordering;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::process::{self, Output, Process};
use crate::repos;

/// Packages by name, each with the list of its versions (texts).
pub(crate) type Packages = Map;

/// What is installed, apart from what is planned to go and what has left its configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    /// Installed, and to stay.
    pub(crate) installed: Packages,
    /// Removed, with their configuration kept.
    pub(crate) removed: Packages,
    /// Installed, and marked to be purged.
    pub(crate) purge_desired: Packages,
}

/// One package of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its name.
    pub(crate) name: String,
    /// The exact version; none takes the newest.
    pub(crate) version: Option<String>,
    /// The file that it is installed from, where it does not come from a repository.
    pub(crate) path: Option<String>,
}

impl Wanted {
    /// The word of apt, apk and opkg for it: the file, `name=1.0`, or the name.
    fn exactly(&self) -> String {
        match (&self.path, &self.version) {
            (Some(path), _) => path.clone(),
            (None, Some(version)) => format!("{}={version}", self.name),
            (None, None) => self.name.clone(),
        }
    }

    /// The word of zypper and pacman, which understand `name>=1.0` as well.
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

/// What is to be installed, sorted by what that means for the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// New, or newer than what is there.
    pub(crate) install: Vec<Wanted>,
    /// Older than what is there.
    pub(crate) downgrade: Vec<Wanted>,
    /// There already in that version.
    pub(crate) reinstall: Vec<Wanted>,
    /// True when all of it comes from files.
    pub(crate) from_files: bool,
    /// The repository or release that it is to come from.
    pub(crate) fromrepo: Option<String>,
    /// Whether signatures are not looked at.
    pub(crate) skip_verify: bool,
    /// Whether packages are fetched and not installed.
    pub(crate) downloadonly: bool,
    /// Further arguments, as the user gave them (`install_recommends`, `enablerepo` …).
    pub(crate) kwargs: Map,
}

/// What becomes of a held package that is to be changed, where `update_holds` does not free it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnHold {
    /// It is let go and held again.
    Freed,
    /// It is left out, and that is an error.
    Skipped,
    /// The program says that it cannot be.
    Tried,
}

/// A package manager. Functions with a default are those that not every one has.
pub(crate) trait Provider: Sync {
    /// The program that installs.
    fn program(&self) -> &'static str;

    /// Files and folders that change whenever a package does: a list of packages is kept for as long as they are the same.
    fn databases(&self) -> &'static [&'static str];

    /// Asks what is installed.
    fn list(&self, cx: &Exec) -> Result<Listed, Error>;

    /// The order of two versions; nothing when one is none.
    fn compare(&self, one: &str, other: &str) -> Option<Ordering>;

    /// The name under which a package is listed (`vim:amd64` is `vim` on amd64).
    fn normalize(&self, cx: &Exec, name: &str) -> String {
        let _ = cx;
        name.to_owned()
    }

    /// Reads the repositories' lists anew and gives what `pkg.refresh_db` returns. `kwargs`: `cache_valid_time`, `failhard` ….
    fn refresh(&self, cx: &Exec, kwargs: &Map) -> Result<Value, Error>;

    /// For each name the newest version to be had where it is newer than what is installed, else an empty text. `kwargs`:
    /// `fromrepo`, and `show_installed` to get the newest version in any case. A name may come back as others (`name:arch`).
    fn latest(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error>;

    /// The versions of the repositories, newest first, by name; of all packages where no names are given.
    fn available(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Packages, Error>;

    /// What an upgrade would install: names and versions.
    fn upgrades(&self, cx: &Exec, kwargs: &Map) -> Result<Map, Error>;

    /// Whether the program itself understands `>=1.0`; if not the versions of the repositories are looked through first.
    fn takes_comparisons(&self) -> bool {
        false
    }

    /// Whether the program itself understands `1.*`.
    fn takes_globs(&self) -> bool {
        true
    }

    /// The commands that install.
    fn install(&self, cx: &Exec, order: &Order) -> Result<Vec<Process>, Error>;

    /// The commands that remove, with the configuration where `purge` says so.
    fn remove(
        &self,
        cx: &Exec,
        names: &[Wanted],
        purge: bool,
        kwargs: &Map,
    ) -> Result<Vec<Process>, Error>;

    /// The commands that upgrade everything. `kwargs`: `dist_upgrade`, `pkgs` ….
    fn upgrade(&self, cx: &Exec, kwargs: &Map) -> Result<Vec<Process>, Error>;

    /// The command that removes what nothing needs any more, or with `list_only` shows it.
    fn autoremove(&self, list_only: bool, purge: bool) -> Result<Process, Error> {
        let _ = (list_only, purge);
        Err(self.cannot("autoremove"))
    }

    /// What the command of `autoremove` with `list_only` has shown.
    fn autoremovable(&self, stdout: &str) -> Vec<String> {
        let _ = stdout;
        Vec::new()
    }

    /// Name and version of a package file.
    fn file_info(&self, cx: &Exec, path: &str) -> Result<Wanted, Error>;

    /// What is known of a package file, as `lowpkg.bin_pkg_info` returns it.
    fn bin_pkg_info(&self, cx: &Exec, path: &str) -> Result<Map, Error> {
        let _ = (cx, path);
        Err(self.cannot("bin_pkg_info"))
    }

    /// Whether packages can be held at their version.
    fn can_hold(&self) -> bool {
        false
    }

    /// What becomes of a held package that is to be changed.
    fn on_hold(&self) -> OnHold {
        OnHold::Freed
    }

    /// What is said of holds.
    fn hold_words(&self) -> &'static holds::Words {
        &holds::SELECTIONS
    }

    /// The packages that are held, with the version where the manager holds that one alone.
    fn held(&self, cx: &Exec) -> Result<Vec<Wanted>, Error> {
        let _ = cx;
        Err(self.cannot("hold"))
    }

    /// The command that holds a package, or lets it go.
    fn hold(&self, cx: &Exec, package: &Wanted, hold: bool) -> Result<Process, Error> {
        let _ = (cx, package, hold);
        Err(self.cannot("hold"))
    }

    /// Marks packages that are to be purged as wanted.
    fn unpurge(&self, cx: &Exec, names: &[String]) -> Result<(), Error> {
        let _ = (cx, names);
        Err(self.cannot("unpurge"))
    }

    /// The package that a path belongs to, or an empty text.
    fn owner(&self, cx: &Exec, path: &str) -> Result<String, Error> {
        let _ = (cx, path);
        Err(self.cannot("owner"))
    }

    /// The files of these packages by package, or of all packages.
    fn files(&self, cx: &Exec, names: &[String]) -> Result<Packages, Error> {
        let _ = (cx, names);
        Err(self.cannot("file_list"))
    }

    /// What is known of installed packages, as `pkg.info_installed` returns it.
    fn info_installed(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let _ = (cx, names, kwargs);
        Err(self.cannot("info_installed"))
    }

    /// What the repositories say of packages, as `pkg.show` returns it.
    fn show(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let _ = (cx, names, kwargs);
        Err(self.cannot("show"))
    }

    /// For each of these names that the repositories do not have the names that are similar; nothing where nobody can tell.
    fn suggestions(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Packages, Error> {
        let _ = (cx, names, kwargs);
        Ok(Packages::new())
    }

    /// Which packages bring what others are asked for by, for `resolve_capabilities`: by capability a list of packages.
    fn provides(&self, cx: &Exec) -> Result<Packages, Error> {
        let _ = cx;
        Ok(Packages::new())
    }

    /// `pkgs` with capabilities replaced by the packages that have them, where `resolve_capabilities` is among `kwargs`.
    fn resolved(&self, cx: &Exec, pkgs: Value, kwargs: &Map) -> Result<Value, Error> {
        let _ = (cx, kwargs);
        Ok(pkgs)
    }

    /// Whether files can be held against the packages that brought them.
    fn can_verify(&self) -> bool {
        false
    }

    /// Files of a package that are not as it brought them, as `pkg.verify` returns them.
    fn verify(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        let _ = (cx, names, kwargs);
        Err(self.cannot("verify"))
    }

    /// The folder where downloaded packages lie, and how their names end.
    fn downloads(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Whether what was downloaded is told among the changes.
    fn tells_downloads(&self) -> bool {
        false
    }

    /// What a finished command complains about; nothing when it is content.
    fn complaint(&self, output: &Output) -> Option<String> {
        failed::complaint(output)
    }

    /// The sentence on a transaction that failed; none where the errors say it themselves. `again` when packages are
    /// installed again.
    fn sentence(&self, doing: &str, again: bool) -> Option<String> {
        let _ = again;
        Some(format!("Problem encountered {doing} package(s)"))
    }

    /// True when a command could not start because another one holds the lock.
    fn is_locked(&self, output: &Output) -> bool;

    /// The error for what this package manager does not have.
    fn cannot(&self, function: &str) -> Error {
        let program = self.program();
        Error::refused(format!("pkg.{function} is not available for {program}"))
    }
}

/// The package manager of this machine, or the one that the option `providers` or a state's own `provider` names.
///
/// # Errors
/// When it has none that is known here, or its program is missing.
pub(crate) fn provider(cx: &Exec) -> Result<&'static dyn Provider, Error> {
    let (os_family, os) = system(cx);
    let provider = match cx.provider("pkg") {
        Some(name) => family_of(&name)
            .and_then(|family| chosen(family, family))
            .ok_or_else(|| {
                Error::refused(format!("No package manager is known by the name {name}"))
            })?,
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

/// A package's name and its architecture, apart.
pub(crate) fn parse_arch(cx: &Exec, name: &str) -> Map {
    let (name, arch) = match repos::kind(cx) {
        Some(repos::Kind::Apt) => match name.rsplit_once(':') {
            Some((name, arch)) => (name, Some(arch)),
            None => (name, None),
        },
        _ => rpm::split_arch(name),
    };
    Map::new().with("name", name).with("arch", arch)
}

/// Whether the machine is of a kind that has a package manager which is known here.
pub(crate) fn is_known(cx: &Exec) -> bool {
    let (os_family, os) = system(cx);
    chosen(&os_family, &os).is_some() || cx.provider("pkg").is_some()
}

/// Salt's files, each with the family of distributions that it is for.
pub(crate) const FILES: [(&str, &str); 6] = [
    ("aptpkg", "Debian"),
    ("yumpkg", "RedHat"),
    ("zypperpkg", "Suse"),
    ("pacmanpkg", "Arch"),
    ("apkpkg", "Alpine"),
    ("opkg", "OpenWrt"),
];

/// The family of distributions that one of Salt's files is for.
pub(crate) fn family_of(file: &str) -> Option<&'static str> {
    let mut files = FILES.iter();
    files
        .find(|(name, _)| *name == file)
        .map(|(_, family)| *family)
}

/// The family of this machine's distribution, and its name.
pub(crate) fn system(cx: &Exec) -> (String, String) {
    (cx.grain("os_family"), cx.grain("os"))
}

/// The package manager of a family of distributions.
fn chosen(os_family: &str, os: &str) -> Option<&'static dyn Provider> {
    if os_family == "Arch" {
        return Some(&pacman::Pacman);
    }
    match repos::of_family(os_family, os)? {
        repos::Kind::Apt => Some(&apt::Apt),
        repos::Kind::Yum => {
            let mut all = dnf::ALL.iter();
            let here = all.find(|dnf| process::which(dnf.program()).is_some());
            here.or_else(|| dnf::ALL.first())
                .map(|dnf| dnf as &dyn Provider)
        }
        repos::Kind::Zypper => Some(&zypper::Zypper),
        repos::Kind::Apk => Some(&apk::Apk),
        // Newer OpenWrt has changed to apk.
        repos::Kind::Opkg
            if process::which("opkg").is_none() && process::which("apk").is_some() =>
        {
            Some(&apk::Apk)
        }
        repos::Kind::Opkg => Some(&opkg::Opkg),
    }
}
