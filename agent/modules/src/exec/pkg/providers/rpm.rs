//! rpm's data about packages, for every package manager that is based on rpm.

use std::path::Path;

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::apt::words;
use super::capabilities::{Database, Verification};
use super::failed::error_text;
use super::{Files, Listed, Packages, Wanted, listing, rpm_info};

/// The fields of a query, and the separator.
const FORMAT: &str =
    "%{NAME}_|-%{EPOCH}_|-%{VERSION}_|-%{RELEASE}_|-%{ARCH}_|-(none)_|-%{INSTALLTIME}\n";

const X86_64: [&str; 2] = ["x86_64", "x86_64_v2"];
const X86_32: [&str; 4] = ["i386", "i486", "i586", "i686"];
const ARM_32: [&str; 7] = [
    "armv5tel",
    "armv5tejl",
    "armv6l",
    "armv6hl",
    "armv7l",
    "armv7hl",
    "armv7hnl",
];
/// Further architectures that may be at the end of a package's name.
const OTHERS: [&str; 28] = [
    "athlon",
    "amd64",
    "ia32e",
    "ia64",
    "geode",
    "ppc",
    "ppc64",
    "ppc64le",
    "ppc64iseries",
    "ppc64pseries",
    "s390",
    "s390x",
    "alpha",
    "alphaev4",
    "alphaev45",
    "alphaev5",
    "alphaev56",
    "alphapca56",
    "alphaev6",
    "alphaev67",
    "alphaev68",
    "alphaev7",
    "aarch64",
    "sh3",
    "sh4",
    "sh4a",
    "riscv64",
    "loongarch64",
];

/// The database of rpm.
pub(super) struct Rpm;

impl Files for Rpm {
    fn file_info(&self, cx: &Exec, path: &str) -> Result<Wanted, Error> {
        let package = package_file(cx, path)?;
        Ok(Wanted {
            name: package.name,
            version: Some(package.version),
            path: Some(path.to_owned()),
        })
    }

    fn owner(&self, cx: &Exec, path: &str) -> Result<String, Error> {
        owner(cx, path)
    }

    fn by_package(&self, cx: &Exec, names: &[String]) -> Result<Packages, Error> {
        files(cx, names)
    }
}

impl Database for Rpm {
    fn normalize(&self, cx: &Exec, name: &str) -> String {
        match split_arch(name) {
            (bare, Some(arch)) if is_own(arch, &cx.grain("osarch")) => bare.to_owned(),
            _ => name.to_owned(),
        }
    }

    fn split_arch<'a>(&self, name: &'a str) -> (&'a str, Option<&'a str>) {
        split_arch(name)
    }

    fn info_installed(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        rpm_info::info(cx, names, kwargs, "source")
    }

    fn info(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        rpm_info::info(cx, names, kwargs, "source_rpm")
    }

    fn versions(&self, cx: &Exec, names: &[String]) -> Result<Map, Error> {
        versions(cx, names)
    }

    fn bin_pkg_info(&self, cx: &Exec, path: &str) -> Result<Map, Error> {
        let package = package_file(cx, path)?;
        Ok(Map::new()
            .with("name", package.name)
            .with("version", package.version)
            .with("arch", package.arch)
            .with("repoid", "none")
            .with("install_date", Value::Null)
            .with("install_date_time_t", Value::Null))
    }
}

impl Verification for Rpm {
    fn verify(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        rpm_info::verify(cx, names, kwargs)
    }
}

/// A package as rpm, dnf or zypper lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    /// The name. It includes the architecture if that is a foreign one.
    pub(super) name: String,
    /// `epoch:version-release`, without an epoch of 0.
    pub(super) version: String,
    pub(super) arch: String,
}

fn is_32(arch: &str, own: &str) -> bool {
    X86_32.contains(&arch) && X86_32.contains(&own)
        || ARM_32.contains(&arch) && ARM_32.contains(&own)
}

/// Returns true for an architecture that is not foreign on a machine of `own`.
pub(super) fn is_own(arch: &str, own: &str) -> bool {
    arch == own
        || arch == "noarch"
        || is_32(arch, own)
        || X86_64.contains(&arch) && X86_64.contains(&own)
}

/// Returns a package's name, with its architecture if that is a foreign one.
pub(super) fn resolved(name: &str, arch: &str, own: &str) -> String {
    match is_own(arch, own) {
        true => name.to_owned(),
        false => format!("{name}.{arch}"),
    }
}

/// Splits the architecture from the end of a name.
pub(super) fn split_arch(name: &str) -> (&str, Option<&str>) {
    let known = |arch: &str| {
        X86_64.contains(&arch)
            || X86_32.contains(&arch)
            || ARM_32.contains(&arch)
            || OTHERS.contains(&arch)
            || arch == "noarch"
    };
    match name.rsplit_once('.') {
        Some((bare, arch)) if known(arch) => (bare, Some(arch)),
        _ => (name, None),
    }
}

/// Reads a line in the format [`FORMAT`].
fn read(line: &str, own: &str) -> Option<Package> {
    let mut parts = line.split("_|-");
    let (name, epoch) = (parts.next()?, parts.next()?);
    let (version, release, arch) = (parts.next()?, parts.next()?, parts.next()?);
    let mut version = version.to_owned();
    if !release.is_empty() {
        version = format!("{version}-{release}");
    }
    if !matches!(epoch, "(none)" | "0" | "") {
        version = format!("{epoch}:{version}");
    }
    Some(Package {
        name: resolved(name, arch, own),
        version,
        arch: arch.to_owned(),
    })
}

/// Checks the result of a query for installed packages. A failure is an error and not an empty
/// list.
pub(super) fn answered(output: Output) -> Result<Output, Error> {
    match error_text(&output) {
        Some(said) => Err(Error::refused(said)),
        None => Ok(output),
    }
}

/// Returns all installed packages. The keys that rpm stores as packages are included only with
/// `keys`.
///
/// # Errors
/// When rpm is missing.
pub(super) fn list(cx: &Exec, keys: bool) -> Result<Listed, Error> {
    let words = ["rpm", "-qa", "--nodigest", "--nosignature", "--queryformat"];
    let query = Process::words(words.into_iter().chain([FORMAT]));
    let output = answered(query.quiet().run(cx)?)?;
    let own = cx.grain("osarch");
    let mut listed = Listed::default();
    for line in output.stdout_regardless().lines() {
        if let Some(package) = read(line, &own)
            && (keys || !package.name.starts_with("gpg-pubkey"))
        {
            listing::add(&mut listed.installed, &package.name, &package.version);
        }
    }
    Ok(listed)
}

/// Returns the versions of these packages if they are installed, or of all, without epoch and
/// release.
///
/// # Errors
/// When rpm is missing, or fails.
fn versions(cx: &Exec, names: &[String]) -> Result<Map, Error> {
    let all = if names.is_empty() { "-qa" } else { "-q" };
    let mut query = words(&["rpm", all, "--queryformat", "%{NAME} %{VERSION}\n"]);
    query.extend(names.iter().cloned());
    // rpm fails when one of the packages is not installed, and reports it on the standard output.
    let output = Process::words(query).quiet().run(cx)?;
    if !output.success() && !output.stderr.is_empty() {
        return Err(Error::refused(output.stderr));
    }
    let lines = output.stdout_regardless().lines();
    let pairs = lines.filter_map(|line| line.split_once(' '));
    Ok(pairs
        .filter(|(_, version)| !version.contains(' '))
        .map(|(name, version)| (Value::from(name), Value::from(version)))
        .collect())
}

fn package_file(cx: &Exec, path: &str) -> Result<Package, Error> {
    if !Path::new(path).exists() {
        return Err(Error::refused(format!("{path} does not exist on minion")));
    }
    let output = Process::words(["rpm", "-qp", "--queryformat", FORMAT, path])
        .quiet()
        .run(cx)?;
    let own = cx.grain("osarch");
    let package = output
        .stdout_regardless()
        .lines()
        .find_map(|line| read(line, &own));
    package.ok_or_else(|| {
        let said = output.stderr;
        Error::refused(format!("Unable to get info for {path}: {said}"))
    })
}

/// Returns the package that a path belongs to, or an empty text.
///
/// # Errors
/// When rpm is missing.
fn owner(cx: &Exec, path: &str) -> Result<String, Error> {
    let query = ["rpm", "-qf", "--queryformat", "%{name}", path];
    let output = Process::words(query).quiet().run(cx)?;
    Ok(output.into_success().unwrap_or_default())
}

/// Returns the files of these packages, or of all.
///
/// # Errors
/// When one is not installed.
fn files(cx: &Exec, names: &[String]) -> Result<Packages, Error> {
    let mut query = words(&["rpm", "-q", "--queryformat"]);
    query.push("[%{=NAME} %{FILENAMES}\n]".to_owned());
    match names.is_empty() {
        true => query.push("-a".to_owned()),
        false => query.extend(names.iter().cloned()),
    }
    let output = Process::words(query).quiet().run(cx)?;
    if !output.success() {
        return Err(Error::refused(output.into_stdout_regardless()));
    }
    let mut files = Packages::new();
    for line in output.stdout_regardless().lines() {
        if let Some((name, file)) = line.split_once(' ') {
            listing::add(&mut files, name, file);
        }
    }
    Ok(files)
}

/// Sorts the versions, newest first.
pub(super) fn newest_first(packages: &mut Packages) {
    for (_, versions) in packages.iter_mut() {
        if let Some(versions) = versions.as_list_mut() {
            let mut seen: Vec<Value> = Vec::new();
            versions.retain(|version| {
                let new = !seen.contains(version);
                seen.push(version.clone());
                new
            });
            value::sorted::sort_by(versions, |one, other| {
                crate::exec::pkg::version::rpm(&other.to_text(), &one.to_text())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_rpm_are_read() {
        let package = read("vim-enhanced_|-2_|-9.0.2120_|-1.fc39_|-x86_64", "x86_64").unwrap();
        assert_eq!(package.name, "vim-enhanced");
        assert_eq!(package.version, "2:9.0.2120-1.fc39");
        let foreign = read("glibc_|-(none)_|-2.38_|-14.fc39_|-i686", "x86_64").unwrap();
        assert_eq!(
            (&*foreign.name, &*foreign.version),
            ("glibc.i686", "2.38-14.fc39")
        );
        assert_eq!(read("package x is not installed", "x86_64"), None);
    }

    #[test]
    fn an_architecture_is_told_from_a_name() {
        assert_eq!(split_arch("glibc.i686"), ("glibc", Some("i686")));
        assert_eq!(split_arch("python3.11"), ("python3.11", None));
        assert!(is_own("noarch", "aarch64") && !is_own("i686", "x86_64"));
    }
}
