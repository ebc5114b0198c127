//! dpkg's data about packages and their files.

use std::path::Path;

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::apt::command;
use super::capabilities::{Database, Selections};
use super::failed::error_text;
use super::{Files, Packages, Wanted};

/// The fields of `lowpkg.info`: Salt's name and dpkg-query's format.
const FIELDS: [(&str, &str); 16] = [
    ("package", "${Package}"),
    ("revision", "${binary:Revision}"),
    ("architecture", "${Architecture}"),
    ("maintainer", "${Maintainer}"),
    ("summary", "${Summary}"),
    ("source", "${source:Package}"),
    ("version", "${Version}"),
    ("section", "${Section}"),
    ("size", "${Size}"),
    ("MD5", "${MD5sum}"),
    ("SHA1", "${SHA1}"),
    ("SHA256", "${SHA256}"),
    ("origin", "${Origin}"),
    ("homepage", "${Homepage}"),
    ("status", "${db:Status-Abbrev}"),
    ("install_date", "${db-fsys:Last-Modified}"),
];

/// The fields that have another name in `pkg.info_installed`, where all package managers use the
/// same names.
const COMMON: [(&str, &str); 5] = [
    ("package", "name"),
    ("origin", "vendor"),
    ("section", "group"),
    ("maintainer", "packager"),
    ("homepage", "url"),
];

/// The separators: between records, and between fields. The description, which comes last, may
/// contain line breaks.
const RECORD: char = '\u{1e}';
const UNIT: char = '\u{1f}';

/// The database of dpkg.
pub(super) struct Dpkg;

impl Files for Dpkg {
    fn file_info(&self, cx: &Exec, path: &str) -> Result<Wanted, Error> {
        Ok(package_file(cx, path)?.0)
    }

    fn owner(&self, cx: &Exec, path: &str) -> Result<String, Error> {
        owner(cx, path)
    }

    fn by_package(&self, cx: &Exec, names: &[String]) -> Result<Packages, Error> {
        files(cx, names)
    }
}

impl Database for Dpkg {
    fn normalize(&self, cx: &Exec, name: &str) -> String {
        let own = cx.grain("osarch");
        match name.rsplit_once(':') {
            Some((bare, arch)) if arch == own || arch == "all" || arch == "any" => bare.to_owned(),
            _ => name.to_owned(),
        }
    }

    fn split_arch<'a>(&self, name: &'a str) -> (&'a str, Option<&'a str>) {
        match name.rsplit_once(':') {
            Some((name, arch)) => (name, Some(arch)),
            None => (name, None),
        }
    }

    fn info_installed(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        info_installed(cx, names, kwargs)
    }

    fn info(&self, cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
        info(cx, names, kwargs)
    }

    fn versions(&self, cx: &Exec, names: &[String]) -> Result<Map, Error> {
        versions(cx, names)
    }

    fn bin_pkg_info(&self, cx: &Exec, path: &str) -> Result<Map, Error> {
        let (found, arch) = package_file(cx, path)?;
        Ok(Map::new()
            .with("name", found.name)
            .with("version", found.version)
            .with("arch", arch))
    }
}

impl Selections for Dpkg {
    fn unpurge(&self, cx: &Exec, names: &[String]) -> Result<(), Error> {
        let lines: Vec<String> = names.iter().map(|name| format!("{name} install")).collect();
        let set = Process {
            stdin: Some(lines.join("\n")),
            ..command(["dpkg", "--set-selections"])
        };
        match error_text(&set.run(cx)?) {
            Some(error) => Err(Error::refused(error)),
            None => Ok(()),
        }
    }
}

/// Returns the data of these packages if they are installed, or of all installed packages.
///
/// # Errors
/// When one is not installed, unless `failhard` is false.
fn info_installed(cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
    let mut installed = Map::new();
    for (name, about) in info(cx, names, kwargs)? {
        let mut about = about.as_map().cloned().unwrap_or_default();
        let status = about.remove("status").unwrap_or_default().to_text();
        for (own, common) in COMMON {
            if let Some(value) = about.remove(own) {
                about.insert(common, value);
            }
        }
        if status.chars().nth(1).is_none_or(|state| state == 'i') {
            installed.insert(name, about);
        }
    }
    Ok(installed)
}

/// Returns the data of these packages, or of all, including removed packages that left their
/// configuration.
///
/// # Errors
/// When one does not exist, unless `failhard` is false.
fn info(cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
    let fields: String = FIELDS.map(|(_, field)| format!("{field}{UNIT}")).concat();
    let format = format!("-f={fields}${{Description}}{RECORD}");
    let mut words = vec!["dpkg-query".to_owned(), "-W".to_owned(), format];
    words.extend(names.iter().cloned());
    let output = Process::words(words).quiet().run(cx)?;
    if let Some(said) = error_text(&output) {
        return match kwargs.get("failhard").is_none_or(Value::is_true) {
            true => Err(Error::refused(format!(
                "Error getting packages information: {said}"
            ))),
            false => Ok(Map::new()),
        };
    }
    let records = output
        .stdout_regardless()
        .split(RECORD)
        .filter(|record| !record.trim().is_empty());
    Ok(records.filter_map(read_info).collect())
}

/// Reads one package.
fn read_info(record: &str) -> Option<(Value, Value)> {
    let mut parts = record.split(UNIT);
    let mut info = Map::new();
    for ((name, _), part) in FIELDS.iter().zip(parts.by_ref()) {
        let part = part.trim();
        match *name {
            "install_date" => {
                if let Some(date) = date(part) {
                    info.insert("install_date", date);
                }
            }
            _ if part.is_empty() => {}
            name => {
                info.insert(name, part);
            }
        }
    }
    let description = parts.next().unwrap_or_default();
    info.insert("description", format!("{description}\n"));
    let name = info.get("package").map(Value::to_text)?;
    if let Some(license) = license(&name) {
        info.insert("license", license);
    }
    Some((name.into(), info.into()))
}

/// Formats seconds since 1970 as Salt formats a date.
pub(super) fn date(seconds: &str) -> Option<String> {
    let seconds = seconds.parse().ok()?;
    let time = jiff::Timestamp::from_second(seconds).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Returns the licences named in a package's copyright file.
fn license(package: &str) -> Option<String> {
    let path = format!("/usr/share/doc/{package}/copyright");
    let text = machine::fs::read(path)
        .inspect_err(|error| value::log::debug(error))
        .ok()?;
    let text = String::from_utf8_lossy(&text);
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("License:"));
    let mut names: Vec<String> = lines.map(|name| name.trim().to_owned()).collect();
    value::sorted::sort(&mut names);
    names.dedup();
    Some(names.join(", ")).filter(|names| !names.is_empty())
}

/// Returns the versions of these installed packages, or of all.
///
/// # Errors
/// When one does not exist.
fn versions(cx: &Exec, names: &[String]) -> Result<Map, Error> {
    let found = installed(cx, names, "${binary:Package}\t${Version}")?;
    let pair = |line: &String| {
        let (name, version) = line.split_once('\t')?;
        Some((Value::from(name), Value::from(version)))
    };
    Ok(found.iter().filter_map(pair).collect())
}

/// Returns dpkg's output for these packages, or for all, in the given format: one line for each
/// installed package.
fn installed(cx: &Exec, names: &[String], format: &str) -> Result<Vec<String>, Error> {
    let format = format!("-f=${{db:Status-Status}}\t{format}\n");
    let mut words = vec!["dpkg-query".to_owned(), format, "-W".to_owned()];
    words.extend(names.iter().cloned());
    let output = Process::words(words).quiet().run(cx)?;
    if let Some(said) = error_text(&output) {
        return Err(Error::refused(said));
    }
    let lines = output.stdout_regardless().lines();
    let lines = lines.filter_map(|line| line.strip_prefix("installed\t"));
    Ok(lines.map(str::to_owned).collect())
}

/// Returns the files of these installed packages, or of all.
///
/// # Errors
/// When one does not exist.
fn files(cx: &Exec, names: &[String]) -> Result<Packages, Error> {
    let mut files = Packages::new();
    for name in installed(cx, names, "${binary:Package}")? {
        let list = Process::words(["dpkg", "-L", &name])
            .quiet()
            .run(cx)?
            .stdout_of_success("dpkg -L")?;
        files.insert(name, Value::list(list.lines().map(Value::from)));
    }
    Ok(files)
}

/// Returns the package that a path belongs to, or an empty text.
///
/// # Errors
/// When dpkg cannot be started.
fn owner(cx: &Exec, path: &str) -> Result<String, Error> {
    let output = Process::words(["dpkg", "-S", path]).quiet().run(cx)?;
    let owner = output
        .stdout_regardless()
        .split(':')
        .next()
        .unwrap_or_default();
    Ok(owner.to_owned())
}

/// Reads the records of `apt-cache show`. Returns, by name and version, the fields in `filter`, or
/// all fields if it is empty.
pub(super) fn read_show(text: &str, filter: &[String]) -> Map {
    let mut all = Map::new();
    for record in text.split("\n\n") {
        let mut fields = Map::new();
        for line in record.lines() {
            if let Some((name, value)) = line.trim().split_once(':') {
                fields.insert(name.trim(), value.trim());
            }
        }
        let (Some(name), Some(version)) = (fields.remove("Package"), fields.remove("Version"))
        else {
            continue;
        };
        fields
            .retain(|name, _| filter.is_empty() || filter.contains(&name.to_text().to_lowercase()));
        let versions = all.entry(name, || Map::new().into()).as_map_mut();
        let known = versions.map(|versions| versions.entry(version, || Map::new().into()));
        if let Some(known) = known.and_then(Value::as_map_mut) {
            known.update(fields);
        }
    }
    all
}

/// Returns the machine's architecture, if packages of another one have theirs in the name.
pub(super) fn own_arch(cx: &Exec) -> Option<&'static str> {
    let is_pc = cx.grain("cpuarch") == "x86_64" && cx.grain("osarch") == "amd64";
    is_pc.then_some("amd64")
}

pub(super) fn with_arch(name: &str, arch: &str, own: Option<&str>) -> String {
    match own.is_some_and(|own| arch != "all" && arch != own) {
        true => format!("{name}:{arch}"),
        false => name.to_owned(),
    }
}

/// Reads a package file. Returns the package and its architecture.
fn package_file(cx: &Exec, path: &str) -> Result<(Wanted, String), Error> {
    if !Path::new(path).exists() {
        return Err(Error::refused(format!("{path} does not exist on minion")));
    }
    let output = command(["dpkg", "-I", path]).run(cx)?;
    if let Some(complaint) = error_text(&output) {
        return Err(Error::refused(format!(
            "Unable to get info for {path}: {complaint}"
        )));
    }
    read_file_info(output.stdout_regardless(), path, own_arch(cx))
}

fn read_file_info(text: &str, path: &str, own: Option<&str>) -> Result<(Wanted, String), Error> {
    let field = |name: &str| {
        let mut lines = text.lines().map(str::trim);
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        value.and_then(|value| value.split_whitespace().last())
    };
    let fields = [
        ("name", field("Package")),
        ("version", field("Version")),
        ("arch", field("Architecture")),
    ];
    let missing: Vec<&str> = fields
        .iter()
        .filter(|(_, value)| value.is_none())
        .map(|(name, _)| *name)
        .collect();
    let [(_, Some(name)), (_, Some(version)), (_, Some(arch))] = fields else {
        return Err(Error::refused(format!(
            "Unable to get {} for {path}",
            missing.join(", ")
        )));
    };
    let wanted = Wanted {
        name: with_arch(name, arch, own),
        version: Some(version.to_owned()),
        path: Some(path.to_owned()),
    };
    Ok((wanted, arch.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_apt_are_read_by_name_and_version() {
        let text = "Package: a\nVersion: 1\nSection: misc\nDescription: short\n long\n\nPackage: a\nVersion: 2\n";
        let shown = read_show(text, &["section".to_owned()]);
        let expected = crate::testing::json(r#"{"a": {"1": {"Section": "misc"}, "2": {}}}"#);
        assert_eq!(shown, expected);
    }
}
