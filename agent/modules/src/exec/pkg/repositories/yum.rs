//! The repositories of dnf and yum: sections of `.repo` files.

use std::path::Path;

use machine::fs;
use machine::process::{self, Process};
use python::{configparser, path};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{Repos, Request, is_true};

/// The repositories of Fedora, Red Hat and their derivatives.
pub(super) struct Yum;

const CONFIGURATIONS: [&str; 4] = [
    "/etc/yum/yum.conf",
    "/etc/yum.conf",
    "/etc/dnf/dnf.conf",
    "/etc/tdnf/tdnf.conf",
];
const FOLDERS: &str = "/etc/yum/repos.d,/etc/yum.repos.d";
const LINKS: [&str; 3] = ["baseurl", "mirrorlist", "metalink"];

/// The arguments that control a change and are not part of a repository.
const OURS: [&str; 5] = ["basedir", "saltenv", "strict_config", "copr", "aptkey"];

/// The arguments for APT only. One that a section lacks is not reported as a change.
const OF_APT: [&str; 13] = [
    "architectures",
    "clean_file",
    "comps",
    "consolidate",
    "dist",
    "file",
    "key_text",
    "key_url",
    "keyid",
    "keyserver",
    "ppa_auth",
    "refresh",
    "refresh_db",
];

/// The contents of a `.repo` file: its leading comments, and its sections in order.
#[derive(Debug, Default)]
struct File {
    header: String,
    sections: Map,
}

impl File {
    fn read(path: &str) -> Result<Self, Error> {
        let text = fs::read(path)?;
        Ok(
            Self::parse(&String::from_utf8_lossy(&text)).unwrap_or_else(|problem| {
                log::error(format_args!(
                    "Failed to parse file {path}, error: {problem}"
                ));
                Self::default()
            }),
        )
    }

    /// Parses a file. The comments of a section become one of its entries.
    fn parse(text: &str) -> Result<Self, Error> {
        let mut file = Self {
            header: String::new(),
            sections: configparser::read_raw(text)?,
        };
        file.sections.remove("DEFAULT");
        let mut section = None;
        for line in text.lines().map(str::trim) {
            if let Some(comment) = line.strip_prefix('#') {
                file.take_comment(section, line, comment.trim_start());
            } else if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                section = Some(name);
            }
        }
        Ok(file)
    }

    fn take_comment(&mut self, section: Option<&str>, line: &str, comment: &str) {
        let Some(section) = section else {
            self.header.push_str(line);
            self.header.push('\n');
            return;
        };
        let keys = self.sections.get_mut(section).and_then(Value::as_map_mut);
        let comments = keys.map(|keys| keys.entry("comments", || Vec::<Value>::new().into()));
        if let Some(comments) = comments.and_then(Value::as_list_mut) {
            comments.push(comment.into());
        }
    }

    /// Returns the file's text. `gap` precedes each section.
    fn text(&self, gap: &str) -> String {
        let mut text = self.header.clone();
        for (name, keys) in &self.sections {
            text += &format!("{gap}[{}]\n", name.to_text());
            let keys = keys.as_map().cloned().unwrap_or_default();
            for (key, value) in &keys {
                if key.as_str() != Some("comments") {
                    text += &format!("{}={}\n", key.to_text(), written(value));
                }
            }
            text += &keys.get("comments").map(marked).unwrap_or_default();
            text.push('\n');
        }
        text
    }

    fn section(&self, name: &str) -> Map {
        let section = self.sections.get(name).and_then(Value::as_map);
        section.cloned().unwrap_or_default()
    }
}

/// Returns the text of a value in a file. Its further lines begin with a space.
fn written(value: &Value) -> String {
    match value {
        Value::Bool(truth) => i32::from(*truth).to_string(),
        other => other.to_text().replace('\n', "\n "),
    }
}

/// Returns comments as lines with `#`.
fn marked(comments: &Value) -> String {
    let all = match comments.as_list() {
        Some(list) => list.to_vec(),
        None => vec![comments.clone()],
    };
    all.iter()
        .map(Value::to_text)
        .map(|text| format!("# {}\n", text.trim_start_matches('#').trim_start()))
        .collect()
}

/// Returns the folders of `.repo` files: the given ones, or those of the configuration.
fn folders(kwargs: &Map) -> Result<Vec<String>, Error> {
    let list = |text: &str| text.split(',').map(|one| one.trim().to_owned()).collect();
    match kwargs.get("basedir").filter(|given| given.is_true()) {
        Some(Value::Str(given)) => return Ok(list(given)),
        Some(given) => {
            let given = given.as_list().unwrap_or_default();
            return Ok(given.iter().map(Value::to_text).collect());
        }
        None => {}
    }
    let mut files = CONFIGURATIONS.iter();
    let Some(file) = files.find(|file| path::exists(file)) else {
        let known = CONFIGURATIONS.map(|file| format!("'{file}'")).join(", ");
        return Err(Error::refused(format!(
            "No suitable yum config file found in: ({known})"
        )));
    };
    let main = File::read(file)?.section("main");
    let named = main.get("reposdir").map(Value::to_text);
    Ok(list(named.as_deref().unwrap_or(FOLDERS)))
}

/// Returns the name of the section that dnf's copr plugin creates for `copr:OWNER/NAME`. Any other
/// name is returned unchanged.
fn section_name(repo: &str) -> String {
    match repo.strip_prefix("copr:").map(|copr| copr.split_once('/')) {
        Some(Some((owner, name))) => format!("copr:copr.fedorainfracloud.org:{owner}:{name}"),
        _ => repo.to_owned(),
    }
}

fn all(kwargs: &Map) -> Result<Map, Error> {
    let mut repos = Map::new();
    for folder in folders(kwargs)? {
        let entries = fs::list_or_none(&folder)?.unwrap_or_default().into_iter();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".repo"))
            .collect();
        value::sorted::sort(&mut names);
        for name in names {
            let path = format!("{folder}/{name}");
            for (section, keys) in File::read(&path)?.sections {
                let mut keys = keys.as_map().cloned().unwrap_or_default();
                keys.insert("file", path.as_str());
                repos.insert(section, keys);
            }
        }
    }
    Ok(repos)
}

/// Returns the file that contains a section.
fn file_of(repos: &Map, section: &str) -> Option<String> {
    let repo = repos.get(section)?;
    Some(repo.get("file")?.to_text())
}

/// Returns the keys to set in the section, and the keys to remove, which are those with an empty
/// value.
fn options(kwargs: &Map) -> (Map, Vec<String>) {
    let (mut kept, mut gone) = (Map::new(), Vec::new());
    for (key, value) in kwargs {
        let name = key.to_text();
        if OURS.contains(&name.as_str()) || name.starts_with("__") {
            continue;
        }
        let zero = matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_));
        match value.is_true() || zero {
            true => drop(kept.insert(key.clone(), value.clone())),
            false => gone.push(name),
        }
    }
    if let Some(link) = LINKS.iter().find(|link| kept.contains(link)) {
        let others = LINKS.iter().filter(|other| *other != link);
        gone.extend(others.map(|other| (*other).to_owned()));
    }
    (kept, gone)
}

/// Checks the arguments against the present section `now`, and returns an error for an invalid
/// change.
fn check(now: Option<&Map>, kept: &Map, gone: &[String]) -> Result<(), Error> {
    let links = LINKS.iter().filter(|link| kept.contains(link)).count();
    if links > 1 {
        return Err("One and only one of baseurl, mirrorlist, metalink can be used".into());
    }
    if gone.iter().any(|key| key == "name") {
        return Err("The repo name cannot be deleted".into());
    }
    let Some(now) = now else {
        let missing = match (kept.contains("name"), links) {
            (true, 1) => return Ok(()),
            (false, _) => "a name was not given",
            _ => "none of baseurl, mirrorlist, metalink was given",
        };
        return Err(Error::refused(format!(
            "The repo does not exist and needs to be created, but {missing}"
        )));
    };
    let cut = LINKS
        .iter()
        .find(|link| gone.iter().any(|key| key == *link));
    let left = |link: &&str| now.contains(link) && !gone.iter().any(|key| key == *link);
    match cut {
        Some(cut) if links == 0 && !LINKS.iter().any(left) => {
            let others: Vec<&str> = LINKS.iter().copied().filter(|link| link != cut).collect();
            Err(Error::refused(format!(
                "Cannot delete {cut} without specifying {}",
                others.join(" or ")
            )))
        }
        _ => Ok(()),
    }
}

/// Returns a section with the requested changes.
fn changed(mut section: Map, kept: Map, gone: &[String]) -> Map {
    for key in gone {
        section.remove(key);
    }
    section.update(kept);
    section
}

/// Adds a copr repository with dnf's own plugin.
fn add_copr(cx: &Exec, copr: &str) -> Result<(), Error> {
    let mut programs = ["dnf5", "dnf", "yum"].into_iter();
    let program = programs
        .find(|program| process::which(program).is_some())
        .ok_or("Neither dnf nor yum is installed")?;
    let output = Process::words([program, "copr", "enable", copr, "-y"]).run(cx)?;
    match output.success() {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "Unable to add COPR '{copr}'. '{program}' exited with status {}: '{}' ",
            output.retcode.unwrap_or_default(),
            output.stderr
        ))),
    }
}

/// Returns the file for a new section, in the first folder that exists.
fn new_file(folders: &[String], section: &str) -> Result<String, Error> {
    match folders.iter().find(|folder| Path::new(folder).exists()) {
        Some(folder) => Ok(format!("{folder}/{section}.repo")),
        None => Err(Error::refused(format!(
            "The repo does not exist and needs to be created, but none of the following basedir directories exist: {}",
            folders.join(", ")
        ))),
    }
}

impl Repos for Yum {
    fn list(&self, _: &Exec, kwargs: &Map) -> Result<Map, Error> {
        all(kwargs)
    }

    fn get(&self, _: &Exec, repo: &str, kwargs: &Map) -> Result<Map, Error> {
        let section = section_name(repo);
        let found = all(kwargs)?.remove(&section);
        let mut found = found
            .and_then(|repo| repo.as_map().cloned())
            .unwrap_or_default();
        found.remove("file");
        Ok(found)
    }

    fn wanted(&self, cx: &Exec, request: &Request<'_>) -> Result<Map, Error> {
        let now = self.get(cx, request.repo, request.kwargs)?;
        let is_copr = request.repo.starts_with("copr:");
        let (kept, gone) = options(request.kwargs);
        if !is_copr {
            check((!now.is_empty()).then_some(&now), &kept, &gone)?;
        }
        let mut wanted = Map::new();
        for (key, value) in kept {
            let name = key.to_text();
            let old = now.get_value(&key);
            let value = match old {
                Some(old) if same(&name, old, &value) => old.clone(),
                // Without `enabled`, a section is enabled.
                None if name == "enabled" && is_true(&value) && !now.is_empty() => continue,
                None if OF_APT.contains(&name.as_str()) => continue,
                _ if name == "comments" => lines(&value),
                _ => written(&value).into(),
            };
            wanted.insert(key, value);
        }
        for key in gone
            .into_iter()
            .filter(|key| now.contains(key) && request.kwargs.contains(key))
        {
            wanted.insert(key, Value::Null);
        }
        Ok(wanted)
    }

    fn modify(&self, cx: &Exec, request: &Request<'_>) -> Result<Value, Error> {
        let section = section_name(request.repo);
        let (kept, gone) = options(request.kwargs);
        let mut path = file_of(&all(request.kwargs)?, &section);
        let copr = request.repo.strip_prefix("copr:");
        if let (None, Some(copr)) = (&path, copr) {
            add_copr(cx, copr)?;
            path = file_of(&all(request.kwargs)?, &section);
        }
        let (path, mut file) = match path {
            Some(path) => {
                let file = File::read(&path)?;
                check(Some(&file.section(&section)), &kept, &gone)?;
                (path, file)
            }
            None => {
                check(None, &kept, &gone)?;
                let path = new_file(&folders(request.kwargs)?, &section)?;
                (path, File::default())
            }
        };
        let now = changed(file.section(&section), kept, &gone);
        file.sections.insert(section, now);
        let text = file.text("");
        fs::write(cx, Path::new(&path), text.as_bytes(), fs::Owner::default())?;
        for (_, keys) in file.sections.iter_mut() {
            keys.as_map_mut().map(|keys| keys.remove("comments"));
        }
        Ok(Map::new().with(&path, file.sections).into())
    }

    fn delete(&self, cx: &Exec, repo: &str, kwargs: &Map) -> Result<Value, Error> {
        let section = section_name(repo);
        let repos = all(kwargs)?;
        let Some(path) = file_of(&repos, &section) else {
            let folders = Value::list(folders(kwargs)?.into_iter().map(Value::from));
            return Ok(format!(
                "Error: the {section} repo does not exist in {}",
                value::python::repr(&folders)
            )
            .into());
        };
        let mut file = File::read(&path)?;
        file.sections.remove(&section);
        let place = Path::new(&path);
        if file.sections.is_empty() {
            fs::remove(cx, place).map_err(Error::io(place))?;
            return Ok(format!("File {path} containing repo {section} has been removed").into());
        }
        let text = file.text("\n");
        fs::write(cx, place, text.as_bytes(), fs::Owner::default())?;
        Ok(format!("Repo {section} has been removed from {path}").into())
    }
}

/// Returns comments as they are read from a file.
fn lines(comments: &Value) -> Value {
    let text = marked(comments);
    Value::list(
        text.lines()
            .map(|line| line.trim_start_matches("# ").into()),
    )
}

/// Returns true when a new value has the same meaning as the present one: `1` is True, and comments
/// may begin with `#` or not.
fn same(name: &str, old: &Value, new: &Value) -> bool {
    match (name, new) {
        ("comments", _) => marked(old) == marked(new),
        (_, Value::Bool(truth)) => is_true(old) == *truth,
        _ => old.to_text() == new.to_text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# head\n[a]\nname=A\nbaseurl=http://x\n http://y\n#mine\nenabled=1\n\n[b]\nname = B\nmirrorlist: http://m\n";

    #[test]
    fn a_file_keeps_its_comments_and_long_values() {
        let file = File::parse(TEXT).unwrap();
        assert_eq!(
            file.text(""),
            "# head\n[a]\nname=A\nbaseurl=http://x\n http://y\nenabled=1\n# mine\n\n[b]\nname=B\nmirrorlist=http://m\n\n"
        );
        assert_eq!(
            file.section("a").get("baseurl"),
            Some(&"http://x\nhttp://y".into())
        );
    }

    #[test]
    fn one_link_takes_the_place_of_another() {
        let file = File::parse(TEXT).unwrap();
        let (kept, gone) = options(&crate::testing::json(
            r#"{"mirrorlist": "http://z", "gpgcheck": 0, "enabled": false, "priority": ""}"#,
        ));
        assert!(check(Some(&file.section("a")), &kept, &gone).is_ok());
        let now = changed(file.section("a"), kept, &gone);
        assert!(!now.contains("baseurl") && now.contains("gpgcheck") && now.contains("enabled"));
        let none = crate::testing::json(r#"{"baseurl": ""}"#);
        let (kept, gone) = options(&none);
        let error = check(Some(&file.section("a")), &kept, &gone).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Cannot delete baseurl without specifying mirrorlist or metalink"
        );
        assert!(check(None, &Map::new().with("name", "x"), &[]).is_err());
    }

    #[test]
    fn what_means_the_same_is_no_change() {
        assert!(same("enabled", &"1".into(), &true.into()));
        assert!(same("gpgcheck", &"0".into(), &0.into()));
        assert!(!same("gpgcheck", &"1".into(), &0.into()));
        assert_eq!(
            section_name("copr:a/b"),
            "copr:copr.fedorainfracloud.org:a:b"
        );
    }
}
