//! What dpkg knows of packages and their files.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::Packages;
use super::failed::complaint;
use crate::process::Process;

/// What `pkg.info_installed` shows: Salt's name for a field, and dpkg-query's.
const FIELDS: [(&str, &str); 16] = [
    ("name", "${Package}"),
    ("revision", "${binary:Revision}"),
    ("architecture", "${Architecture}"),
    ("packager", "${Maintainer}"),
    ("summary", "${Summary}"),
    ("source", "${source:Package}"),
    ("version", "${Version}"),
    ("group", "${Section}"),
    ("size", "${Size}"),
    ("MD5", "${MD5sum}"),
    ("SHA1", "${SHA1}"),
    ("SHA256", "${SHA256}"),
    ("vendor", "${Origin}"),
    ("url", "${Homepage}"),
    ("status", "${db:Status-Abbrev}"),
    ("install_date", "${db-fsys:Last-Modified}"),
];

/// What stands between the records, and before the description, which has lines of its own.
const RECORD: char = '\u{1e}';
const UNIT: char = '\u{1f}';

/// What is known of these installed packages, or of all.
///
/// # Errors
/// When one is not there, unless `failhard` is false.
pub(super) fn info(cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
    let fields: String = FIELDS.map(|(_, field)| format!("{field}{UNIT}")).concat();
    let format = format!("-f={fields}${{Description}}{RECORD}");
    let mut words = vec!["dpkg-query".to_owned(), "-W".to_owned(), format];
    words.extend(names.iter().cloned());
    let output = Process::words(words).quiet().run(cx)?;
    if let Some(said) = complaint(&output) {
        return match kwargs.get("failhard").is_none_or(Value::is_true) {
            true => Err(Error::refused(format!(
                "Error getting packages information: {said}"
            ))),
            false => Ok(Map::new()),
        };
    }
    let records = output
        .stdout
        .split(RECORD)
        .filter(|record| !record.trim().is_empty());
    Ok(records.filter_map(read_info).collect())
}

/// One installed package; nothing for one that is not.
fn read_info(record: &str) -> Option<(Value, Value)> {
    let mut parts = record.split(UNIT);
    let mut info = Map::new();
    let mut installed = false;
    for ((name, _), part) in FIELDS.iter().zip(parts.by_ref()) {
        let part = part.trim();
        match *name {
            "status" => installed = part.chars().nth(1) == Some('i'),
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
    let name = info.get("name").map(Value::to_text)?;
    if let Some(license) = license(&name) {
        info.insert("license", license);
    }
    installed.then(|| (name.into(), info.into()))
}

/// Seconds since 1970 as Salt writes a day.
pub(super) fn date(seconds: &str) -> Option<String> {
    let seconds = seconds.parse().ok()?;
    let time = jiff::Timestamp::from_second(seconds).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The licences that a package's copyright file names.
fn license(package: &str) -> Option<String> {
    let path = format!("/usr/share/doc/{package}/copyright");
    let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("License:"));
    let mut names: Vec<String> = lines.map(|name| name.trim().to_owned()).collect();
    value::sorted::sort(&mut names);
    names.dedup();
    Some(names.join(", ")).filter(|names| !names.is_empty())
}

/// The files of these installed packages, or of all.
///
/// # Errors
/// When one is not there.
pub(super) fn files(cx: &Exec, names: &[String]) -> Result<Packages, Error> {
    let format = "-f=${db:Status-Status}\t${binary:Package}\n";
    let mut words = vec!["dpkg-query".to_owned(), format.to_owned(), "-W".to_owned()];
    words.extend(names.iter().cloned());
    let output = Process::words(words).quiet().run(cx)?;
    if let Some(said) = complaint(&output) {
        return Err(Error::refused(said));
    }
    let mut files = Packages::new();
    let installed = output.stdout.lines();
    for name in installed.filter_map(|line| line.strip_prefix("installed\t")) {
        let list = Process::words(["dpkg", "-L", name]).quiet().run(cx)?.stdout;
        files.insert(name, Value::list(list.lines().map(Value::from)));
    }
    Ok(files)
}

/// The package that a path belongs to, or an empty text.
///
/// # Errors
/// When dpkg cannot be started.
pub(super) fn owner(cx: &Exec, path: &str) -> Result<String, Error> {
    let output = Process::words(["dpkg", "-S", path]).quiet().run(cx)?;
    let owner = output.stdout.split(':').next().unwrap_or_default();
    Ok(owner.to_owned())
}

/// Reads the records of `apt-cache show`: by name and version the fields that `filter` names, or all.
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
