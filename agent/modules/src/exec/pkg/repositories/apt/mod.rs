//! APT's repositories: lines of `sources.list` and deb822 sections, their keys, and Ubuntu's
//! personal archives.

mod entry;
pub(crate) mod keys;
mod line;
mod modify;
mod ppa;
mod section;
mod sources;

use machine::process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

pub(crate) use self::ppa::short_key;

use self::line::Line;
use self::sources::Sources;
use super::{Repos, Request};

/// The repositories of Debian and its derivatives.
pub(super) struct Apt;

/// Returns a list of words, from a list or a comma-separated text.
fn texts(value: &Value) -> Vec<String> {
    let trimmed = |text: String| text.trim().to_owned();
    match value.as_list() {
        Some(list) => list.iter().map(Value::to_text).map(trimmed).collect(),
        None => value
            .to_text()
            .split(',')
            .map(str::to_owned)
            .map(trimmed)
            .filter(|text| !text.is_empty())
            .collect(),
    }
}

fn is_yes(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["yes", "true", "with", "on", "enable", "1"].contains(&word.as_str())
}

fn is_no(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["no", "false", "without", "off", "disable", "0"].contains(&word.as_str())
}

/// Returns true if `apt-key` is used for keys: only if it is requested and installed. Otherwise
/// keys are files.
pub(crate) fn uses_apt_key(requested: bool) -> bool {
    requested && process::which("apt-key").is_some()
}

/// Returns true when a definition is for the architectures of an existing repository.
pub(crate) fn same_architectures(repo: &str, found: &Map) -> bool {
    let sorted = |mut all: Vec<String>| {
        value::sorted::sort(&mut all);
        all
    };
    let named = Line::parse(repo).unwrap_or_default().architectures;
    let has = found.get("architectures").map(texts).unwrap_or_default();
    sorted(named) == sorted(has)
}

impl Repos for Apt {
    fn list(&self, _: &Exec, _: &Map) -> Result<Map, Error> {
        let mut repos = Map::new();
        let entries = Sources::read()?.entries;
        for shown in entries.iter().flat_map(entry::Entry::to_maps) {
            let uri = shown.get("uri").cloned().unwrap_or_default();
            let same = repos.entry(uri, || Vec::<Value>::new().into());
            if let Some(same) = same.as_list_mut() {
                same.push(shown.into());
            }
        }
        Ok(repos)
    }

    fn get(&self, cx: &Exec, repo: &str, kwargs: &Map) -> Result<Map, Error> {
        let repo = ppa::spelled_out(cx, repo, kwargs)?;
        let line = ppa::with_login(Line::parse(&repo)?, kwargs);
        Ok(Sources::read()?.find(&line).unwrap_or_default())
    }

    fn modify(&self, cx: &Exec, request: &Request<'_>) -> Result<Value, Error> {
        let apt_key = uses_apt_key(request.apt_key);
        let mut kwargs = request.kwargs.clone();
        let mut repo = request.repo.to_owned();
        if request.repo.starts_with("ppa:") {
            match ppa::added(cx, request, &mut kwargs)? {
                ppa::Added::Done(answer) => return Ok(answer),
                ppa::Added::Definition(definition) => repo = definition,
            }
        }
        let line = modify::definition(&repo)?;
        let before = Sources::read()?;
        let (after, consolidated) = modified(&before, &repo, &kwargs, apt_key)?;
        keys::provide(cx, &line, &kwargs, request.saltenv, apt_key)?;
        after.save(cx, &before, consolidated)?;
        if super::wants_refresh(&kwargs) {
            super::refresh(cx)?;
        }
        let found = self.get(cx, &repo, &Map::new())?;
        Ok(Map::new().with(&repo, found).into())
    }

    fn wanted(&self, cx: &Exec, request: &Request<'_>) -> Result<Map, Error> {
        let repo = ppa::spelled_out(cx, request.repo, request.kwargs)?;
        if repo.starts_with("ppa:") {
            return Ok(Map::new());
        }
        let apt_key = uses_apt_key(request.apt_key) || request.repo.starts_with("ppa:");
        let line = modify::definition(&repo)?;
        let before = Sources::read()?;
        let (after, _) = modified(&before, &repo, request.kwargs, apt_key)?;
        let mut wanted = after.find(&line).unwrap_or_default();
        wanted.remove("enabled");
        if let Some(found) = before.find(&line) {
            let comments = request.kwargs.contains("comments");
            keep_spelling(&mut wanted, &found, comments);
        }
        Ok(wanted)
    }

    fn delete(&self, cx: &Exec, repo: &str, kwargs: &Map) -> Result<Value, Error> {
        let is_ppa = ppa::is_known(cx, repo);
        let repo = ppa::spelled_out(cx, repo, kwargs)?;
        let before = Sources::read()?;
        let mut after = before.clone();
        let files = after.remove(&repo, is_ppa)?;
        if files.is_empty() {
            return Err(Error::refused(format!(
                "Repo {repo} doesn't exist in the sources.list(s)"
            )));
        }
        let removed = after.save(cx, &before, true)?;
        let mut said = String::new();
        for file in files {
            said += &match removed.contains(&file) {
                true => format!("File {file} containing repo '{repo}' has been removed."),
                false => format!("Repo '{repo}' has been removed from {file}.\n"),
            };
        }
        super::refresh(cx)?;
        Ok(said.into())
    }
}

/// Returns the sources with a definition added or changed. The bool is true if files without any
/// remaining source are to be removed.
fn modified(
    before: &Sources,
    repo: &str,
    kwargs: &Map,
    apt_key: bool,
) -> Result<(Sources, bool), Error> {
    let on = |name: &str| kwargs.get(name).is_some_and(Value::is_true);
    let mut after = before.clone();
    if on("clean_file") {
        after = after.without(&kwargs.get("file").map(Value::to_text).unwrap_or_default());
    }
    if on("consolidate") {
        after.consolidate();
    }
    after.modify(repo, kwargs, apt_key)?;
    Ok((after, on("consolidate")))
}

/// Keeps the notation of the file if only spaces or the order of components or options differ.
fn keep_spelling(wanted: &mut Map, found: &Map, comments: bool) {
    for name in ["comps", "architectures"] {
        let sorted = |map: &Map| {
            let mut all = map.get(name).map(texts).unwrap_or_default();
            value::sorted::sort(&mut all);
            all
        };
        if sorted(wanted) == sorted(found) {
            wanted.insert(name, found.get(name).cloned().unwrap_or_default());
        }
    }
    let line = |map: &Map| {
        let text = map.get("line").map(Value::to_text).unwrap_or_default();
        Line::parse(&text).unwrap_or_default()
    };
    if line(wanted).says(comments) == line(found).says(comments) {
        wanted.insert("line", found.get("line").cloned().unwrap_or_default());
    }
}
