//! The repositories of zypper. They are read from its files and changed with its own commands.

use python::{configparser, xml};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{Repos, Request, is_true};
use crate::exec::pkg::providers::zypper_cli;
use crate::fileserver::fetch::Url;

/// The repositories of SUSE.
pub(super) struct Zypper;

const FOLDER: &str = "/etc/zypp/repos.d";

/// The values that apply if a repository's file does not set them.
const DEFAULTS: [(&str, &str); 1] = [("priority", "99")];

fn root(kwargs: &Map) -> Option<String> {
    let root = kwargs.get("root").filter(|root| root.is_true());
    root.map(Value::to_text)
}

/// Returns every repository by its alias. `0` and `1` become booleans, `NONE` becomes None.
fn all(root: Option<&str>) -> Result<Map, Error> {
    let folder = format!("{}{FOLDER}", root.unwrap_or_default());
    let Some(entries) = machine::fs::list_or_none(&folder)? else {
        log::warning(format_args!("Repositories not found in {folder}"));
        return Ok(Map::new());
    };
    let mut paths: Vec<String> = entries
        .into_iter()
        .map(|entry| entry.path().to_string_lossy().into_owned())
        .filter(|path| path.ends_with(".repo"))
        .collect();
    value::sorted::sort(&mut paths);
    let mut repos = Map::new();
    for path in paths {
        let text = machine::fs::text(&path)?;
        for (alias, keys) in configparser::read(&text, configparser::Options::default())? {
            let mut keys = keys.as_map().cloned().unwrap_or_default();
            keys.insert("alias", alias.clone());
            for (_, value) in keys.iter_mut() {
                let meant = match value.as_str() {
                    Some("0") => Value::Bool(false),
                    Some("1") => Value::Bool(true),
                    Some("NONE") => Value::Null,
                    _ => continue,
                };
                *value = meant;
            }
            repos.insert(alias, keys);
        }
    }
    Ok(repos)
}

fn one(alias: &str, root: Option<&str>) -> Result<Map, Error> {
    let found = all(root)?.remove(alias);
    Ok(found
        .and_then(|repo| repo.as_map().cloned())
        .unwrap_or_default())
}

fn text(map: &Map, key: &str) -> Option<String> {
    let value = map.get(key).filter(|value| value.is_true());
    value.map(Value::to_text)
}

/// Adds a repository and checks that it exists afterwards.
fn add(cx: &Exec, alias: &str, kwargs: &Map, root: Option<&str>) -> Result<(), Error> {
    let keys = ["url", "mirrorlist", "baseurl"];
    let named = keys.iter().find(|key| kwargs.contains(key));
    let Some(url) = named.and_then(|key| text(kwargs, key)) else {
        return Err(Error::refused(format!(
            "Repository '{alias}' not found, and neither 'baseurl' nor 'mirrorlist' was specified"
        )));
    };
    if Url::parse(&url).scheme.is_empty() {
        return Err(Error::refused(format!(
            "Repository '{alias}' not found and URL for baseurl/mirrorlist is malformed"
        )));
    }
    for (known, repo) in &all(root)? {
        let repo = repo.as_map().cloned().unwrap_or_default();
        if text(&repo, "baseurl")
            .is_some_and(|known| with_root_path(&known) == with_root_path(&url))
        {
            let known = known.to_text();
            return Err(Error::refused(format!(
                "Repository '{alias}' already exists as '{known}'."
            )));
        }
    }
    zypper_cli::call(
        cx,
        zypper_cli::words(&["ar", &url, alias], true, false, root),
    )?;
    match all(root)?.contains(alias) {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "Failed add new repository '{alias}' for unspecified reason. Please check zypper logs."
        ))),
    }
}

/// Returns a local address in zypper's notation: `file:/srv` for `file:///srv`.
fn written(url: &str) -> String {
    url.replacen(":///", ":/", 1)
}

/// Returns an address with a path, which is `/` if it has none.
fn with_root_path(url: &str) -> Url {
    let mut url = Url::parse(&written(url));
    if url.path.is_empty() {
        "/".clone_into(&mut url.path);
    }
    url
}

/// Returns the options of `zypper mr` for the requested changes.
fn options(kwargs: &Map) -> Vec<String> {
    let switches = [
        ("enabled", "--enable", "--disable"),
        ("refresh", "--refresh", "--no-refresh"),
        ("cache", "--keep-packages", "--no-keep-packages"),
        ("gpgcheck", "--gpgcheck", "--no-gpgcheck"),
    ];
    let mut options = Vec::new();
    for (key, on, off) in switches {
        if let Some(value) = kwargs.get(key) {
            options.push(if value.is_true() { on } else { off }.to_owned());
        }
    }
    if let Some(priority) = kwargs.get("priority") {
        options.push(format!("--priority={}", priority.to_text()));
    }
    let name = kwargs.get("name").or_else(|| kwargs.get("humanname"));
    if let Some(name) = name.map(Value::to_text) {
        options.extend(["--name".to_owned(), name]);
    }
    options
}

fn modify(cx: &Exec, alias: &str, kwargs: &Map) -> Result<Map, Error> {
    let root = root(kwargs);
    let root = root.as_deref();
    let mut before = one(alias, root)?;
    let added = before.is_empty();
    if added {
        add(cx, alias, kwargs, root)?;
    }
    let moved = |url: &Value| {
        let known = before.get("baseurl").map(Value::to_text);
        known.is_none_or(|known| written(&known) != written(&url.to_text()))
    };
    if !added && kwargs.get("baseurl").is_some_and(moved) {
        // zypper cannot change an address, so the repository is removed and added again.
        before.update(kwargs.clone());
        before.entry("cache", || false.into());
        remove(cx, alias, root)?;
        return modify(cx, alias, &before);
    }
    let options = options(kwargs);
    if !options.is_empty() {
        let mut words: Vec<&str> = vec!["mr"];
        words.extend(options.iter().map(String::as_str));
        words.push(alias);
        zypper_cli::call(cx, zypper_cli::words(&words, true, true, root))?;
    }
    let import = kwargs.get("gpgautoimport") == Some(&Value::Bool(true));
    if import {
        let words = ["--gpg-auto-import-keys", "refresh", "--force", alias];
        zypper_cli::call(cx, zypper_cli::words(&words, false, true, root))?;
    }
    let mut after = one(alias, root)?;
    if !import && !added && options.is_empty() {
        let comment = "Specified arguments did not result in modification of repo";
        after.insert("comment", comment);
    }
    Ok(after)
}

fn remove(cx: &Exec, alias: &str, root: Option<&str>) -> Result<Map, Error> {
    if all(root)?.contains(alias) {
        let words = ["rr", "--loose-auth", "--loose-query", alias];
        let said = zypper_cli::call(cx, zypper_cli::words(&words, true, false, root))?;
        let elements = xml::elements(&said);
        let message = elements.iter().find(|element| element.name == "message");
        let progress = elements.iter().any(|element| element.name == "progress");
        if let (Some(message), true) = (message, progress) {
            let done = Map::new().with(alias, true);
            return Ok(done.with("message", message.text.as_str()));
        }
    }
    Err(Error::refused(format!("Repository '{alias}' not found.")))
}

impl Repos for Zypper {
    fn list(&self, _: &Exec, kwargs: &Map) -> Result<Map, Error> {
        all(root(kwargs).as_deref())
    }

    fn get(&self, _: &Exec, repo: &str, kwargs: &Map) -> Result<Map, Error> {
        one(repo, root(kwargs).as_deref())
    }

    fn wanted(&self, cx: &Exec, request: &Request<'_>) -> Result<Map, Error> {
        let now = self.get(cx, request.repo, request.kwargs)?;
        let mut wanted = Map::new();
        for (key, value) in request.kwargs {
            let Some(old) = now.get_value(key) else {
                let name = key.as_str().unwrap_or_default();
                let default = DEFAULTS.iter().find(|(known, _)| *known == name);
                if name == "enabled" || default.is_some_and(|(_, text)| *text != value.to_text()) {
                    wanted.insert(key.clone(), value.clone());
                }
                continue;
            };
            let truths = matches!(old, Value::Bool(_)) || matches!(value, Value::Bool(_));
            let same = match truths {
                true => is_true(old) == is_true(value),
                false => written(&old.to_text()) == written(&value.to_text()),
            };
            wanted.insert(key.clone(), if same { old.clone() } else { value.clone() });
        }
        Ok(wanted)
    }

    fn modify(&self, cx: &Exec, request: &Request<'_>) -> Result<Value, Error> {
        Ok(modify(cx, request.repo, request.kwargs)?.into())
    }

    fn delete(&self, cx: &Exec, repo: &str, kwargs: &Map) -> Result<Value, Error> {
        Ok(remove(cx, repo, root(kwargs).as_deref())?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_options_of_mr() {
        let kwargs = crate::testing::json(
            r#"{"name": "My repo", "enabled": true, "gpgcheck": false, "priority": 90, "baseurl": "http://x"}"#,
        );
        assert_eq!(
            options(&kwargs),
            [
                "--enable",
                "--no-gpgcheck",
                "--priority=90",
                "--name",
                "My repo"
            ]
        );
    }

    #[test]
    fn an_address_without_a_path_is_the_one_with_a_slash() {
        assert_eq!(with_root_path("http://x"), with_root_path("http://x/"));
        assert_ne!(with_root_path("http://x/a"), with_root_path("http://x/b"));
        assert_eq!(
            with_root_path("file:///srv/a"),
            with_root_path("file:/srv/a")
        );
    }
}
