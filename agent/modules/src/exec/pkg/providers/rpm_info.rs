//! rpm's data about installed packages, and the comparison of their files with the package.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::apt::words;
use super::dpkg::date;

/// The fields of `pkg.info_installed`: Salt's name and rpm's format.
const FIELDS: [(&str, &str); 20] = [
    (
        "relocations",
        "%|PREFIXES?{[%{PREFIXES} ]}:{(not relocatable)}|",
    ),
    ("version", "%{VERSION}"),
    ("vendor", "%{VENDOR}"),
    ("release", "%{RELEASE}"),
    ("epoch", "%|EPOCH?{%{EPOCH}}|"),
    ("build_date_time_t", "%{BUILDTIME}"),
    ("build_date", "%{BUILDTIME}"),
    ("install_date_time_t", "%{INSTALLTIME}"),
    ("install_date", "%{INSTALLTIME}"),
    ("build_host", "%{BUILDHOST}"),
    ("group", "%{GROUP}"),
    ("source_rpm", "%{SOURCERPM}"),
    ("size", "%{LONGSIZE}"),
    ("arch", "%{ARCH}"),
    ("license", "%{LICENSE}"),
    (
        "signature",
        "%|DSAHEADER?{%{DSAHEADER:pgpsig}}:{%|RSAHEADER?{%{RSAHEADER:pgpsig}}:{%|SIGGPG?{%{SIGGPG:pgpsig}}:{%|SIGPGP?{%{SIGPGP:pgpsig}}:{(none)}|}|}|}|",
    ),
    ("packager", "%|PACKAGER?{%{PACKAGER}}|"),
    ("url", "%|URL?{%{URL}}|"),
    ("summary", "%{SUMMARY}"),
    ("edition", "%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}"),
];

/// The characters after each record and after each field.
const RECORD: char = '\u{1e}';
const UNIT: char = '\u{1f}';

/// The marks of `rpm -V` before a file's name, with Salt's words for them.
const MISMATCHES: [(char, &str); 9] = [
    ('S', "size"),
    ('M', "mode"),
    ('5', "md5sum"),
    ('D', "device major/minor number"),
    ('L', "readlink path"),
    ('U', "user"),
    ('G', "group"),
    ('T', "mtime"),
    ('P', "capabilities"),
];

/// The words of `pkg.modified` for the marks, in the order of the marks' positions.
const CHANGES: [&str; 9] = [
    "size",
    "mode",
    "checksum",
    "device",
    "symlink",
    "owner",
    "group",
    "time",
    "capabilities",
];

/// The kinds of files that rpm marks.
const KINDS: [(&str, &str); 5] = [
    ("c", "config"),
    ("d", "doc"),
    ("g", "ghost"),
    ("l", "license"),
    ("r", "readme"),
];

/// Returns the words of a list, or of a comma-separated text.
fn list(kwargs: &Map, name: &str) -> Result<Vec<String>, Error> {
    match kwargs.get(name).filter(|value| value.is_true()) {
        None => Ok(Vec::new()),
        Some(Value::List(items)) => Ok(items.iter().map(Value::to_text).collect()),
        Some(Value::Str(text)) => Ok(text.split(',').map(|word| word.trim().to_owned()).collect()),
        Some(_) => Err(Error::refused(format!(
            "{name} must be a list or a comma-separated string"
        ))),
    }
}

/// Returns the data of these installed packages, or of all. If several versions are installed, it
/// is that of the newest, or with `all_versions` of each. `source_key` is the key of the source
/// package's name.
///
/// # Errors
/// When rpm is missing or fails, or `attr` names no known field.
pub(super) fn info(
    cx: &Exec,
    names: &[String],
    kwargs: &Map,
    source_key: &str,
) -> Result<Map, Error> {
    let asked = list(kwargs, "attr")?;
    let is_asked = |name: &str| asked.is_empty() || asked.iter().any(|one| one == name);
    let known = FIELDS
        .iter()
        .any(|(name, _)| asked.iter().any(|one| one == name));
    if !asked.is_empty() && !known && !is_asked("name") {
        return Err("No valid attributes found.".into());
    }
    let fields: String = FIELDS.map(|(_, field)| format!("{field}{UNIT}")).concat();
    let format = format!("%{{NAME}}{UNIT}{fields}%{{DESCRIPTION}}{RECORD}");
    let mut query = words(&["rpm", "-q"]);
    if names.is_empty() {
        query.push("-a".to_owned());
    }
    query.extend(["--queryformat".to_owned(), format]);
    query.extend(names.iter().cloned());
    // rpm fails when one of the packages is not installed, and reports it on the standard output.
    let output = Process::words(query).quiet().run(cx)?;
    if !output.success() && !output.stderr.is_empty() {
        return Err(Error::refused(output.stderr));
    }
    let mut found: Vec<(String, Map)> = output
        .stdout_regardless()
        .split(RECORD)
        .filter_map(read)
        .collect();
    value::sorted::sort_by(&mut found, |one, other| {
        let edition = |info: &Map| info.get("edition").map(Value::to_text).unwrap_or_default();
        crate::exec::pkg::version::rpm(&edition(&other.1), &edition(&one.1))
    });
    let all_versions = kwargs.get("all_versions").is_some_and(Value::is_true);
    let mut all = Map::new();
    for (name, mut info) in found {
        info.retain(|key, _| is_asked(&key.to_text()) || key.as_str() == Some("edition"));
        if let Some(source) = info.remove("source_rpm") {
            info.insert(source_key, source);
        }
        if all_versions {
            let versions = all.entry(&name, || Value::list([]));
            if let Some(versions) = versions.as_list_mut() {
                versions.push(info.into());
            }
        } else if !all.contains(&name) {
            info.remove("edition");
            all.insert(name, info);
        }
    }
    Ok(all)
}

/// Reads one record. Returns `None` for rpm's message about a missing package, and for a key.
fn read(record: &str) -> Option<(String, Map)> {
    let mut parts = record.split(UNIT);
    // A line about a missing package may precede the first name.
    let name = parts.next()?.lines().last()?.trim().to_owned();
    let mut info = Map::new();
    for (key, _) in FIELDS {
        let text = parts.next()?.trim();
        if text.is_empty() {
            continue;
        }
        match key {
            "build_date_time_t" | "install_date_time_t" => {
                text.parse::<i64>().ok().map(|time| info.insert(key, time))
            }
            "build_date" | "install_date" => date(text).map(|date| info.insert(key, date)),
            _ => Some(info.insert(key, text)),
        };
    }
    info.insert("description", parts.next()?);
    (!name.starts_with("gpg-pubkey")).then_some((name, info))
}

/// Returns the files that differ from those of their packages, for these packages or for all.
///
/// # Errors
/// When rpm is missing, or cannot check.
pub(super) fn verify(cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
    let ignored = list(kwargs, "ignore_types")?;
    let mut query = words(&["rpm"]);
    let options = list(kwargs, "verify_options")?;
    query.extend(options.iter().map(|option| format!("--{option}")));
    query.push(if names.is_empty() { "-Va" } else { "-V" }.to_owned());
    query.extend(names.iter().cloned());
    let output = Process::words(query).quiet().run(cx)?;
    if output.stdout_regardless().trim().is_empty() && !output.success() {
        let said = match output.stderr.is_empty() {
            true => String::new(),
            false => format!(": {}", output.stderr),
        };
        return Err(Error::refused(format!("Failed to verify package(s){said}")));
    }
    let files = output.stdout_regardless().lines().filter_map(read_verified);
    let is_ignored = |file: &Map| {
        let kind = file.get("type").map(Value::to_text);
        kind.is_some_and(|kind| ignored.contains(&kind))
    };
    Ok(files
        .filter(|(_, file)| !is_ignored(file))
        .map(|(name, file)| (Value::from(name), Value::from(file)))
        .collect())
}

/// Returns the changed files of these packages, or of all, each with the changed properties. The
/// flags in `kwargs` select the changes.
///
/// # Errors
/// When rpm is missing, or cannot check.
pub(crate) fn modified(cx: &Exec, names: &[String], kwargs: &Map) -> Result<Map, Error> {
    let mut query = words(&["rpm", "-Va"]);
    query.extend(names.iter().cloned());
    let output = Process::words(query).quiet().run(cx)?;
    // rpm returns 1 when it finds changes.
    if !matches!(output.retcode, Some(0 | 1)) {
        let said = output.stderr;
        return Err(Error::refused(format!(
            "Failed to verify package(s): {said}"
        )));
    }
    let files = output.stdout_regardless().lines().filter_map(read_modified);
    let is_wanted = |changed: &[&str]| {
        let flags = kwargs.iter().map(|(flag, wanted)| (flag.to_text(), wanted));
        let mut flags = flags.filter(|(flag, _)| !flag.starts_with('_'));
        flags.all(|(flag, wanted)| wanted.is_true() == changed.contains(&&*flag))
    };
    Ok(files
        .filter(|(_, changed)| is_wanted(changed))
        .map(|(name, changed)| {
            let changed = changed.into_iter().map(Value::from);
            (Value::from(name), Value::list(changed))
        })
        .collect())
}

/// Returns the name of a changed file, and the changed properties. For a missing file, Salt reads
/// the letters of the word `missing` as marks.
fn read_modified(line: &str) -> Option<(&str, Vec<&'static str>)> {
    let (name, file) = read_verified(line)?;
    let marks = line.split_whitespace().next()?;
    let of_marks = CHANGES.iter().zip(marks.chars());
    let mut changed: Vec<&str> = of_marks
        .filter(|(_, mark)| *mark != '.')
        .map(|(change, _)| *change)
        .collect();
    changed.extend(file.contains("type").then_some("config"));
    Some((name, changed))
}

/// Reads `S.5....T.  c /etc/x`, or `missing   c /etc/x`. Returns `None` for other lines.
fn read_verified(line: &str) -> Option<(&str, Map)> {
    let (marks, rest) = line.split_once(char::is_whitespace)?;
    let name = rest.get(rest.find('/')?..)?;
    let mut file = Map::new();
    match marks {
        "missing" => file.insert("missing", true),
        _ if marks.len() < 8 => return None,
        _ => {
            let wrong = MISMATCHES.iter().filter(|(mark, _)| marks.contains(*mark));
            let wrong = wrong.map(|(_, word)| Value::from(*word));
            file.insert("mismatch", Value::list(wrong))
        }
    };
    let kind = rest.split('/').next().unwrap_or_default().trim();
    if let Some((_, kind)) = KINDS.iter().find(|(mark, _)| *mark == kind) {
        file.insert("type", *kind);
    }
    Some((name, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn altered_files_are_read() {
        let cases = [
            (
                "S.5....T.  c /etc/demo.conf",
                r#"{"mismatch": ["size", "md5sum", "mtime"], "type": "config"}"#,
            ),
            ("missing     /usr/share/a b", r#"{"missing": true}"#),
            (
                "missing   d /usr/share/a b",
                r#"{"missing": true, "type": "doc"}"#,
            ),
            (".M.......    /usr/share/a b", r#"{"mismatch": ["mode"]}"#),
        ];
        for (line, expected) in cases {
            let (name, file) = read_verified(line).unwrap();
            assert!(name == "/etc/demo.conf" || name == "/usr/share/a b");
            assert_eq!(file, crate::testing::json(expected));
        }
        assert!(read_verified("Unsatisfied dependencies for tool-1.0:").is_none());
    }
}
