//! The repositories of apk: lines of `/etc/apk/repositories`, each an address or a folder,
//! optionally preceded by a tag.
//!
//! Salt has no support for them. Where arguments and results have the same meaning as for APT's
//! lines, they are the same.

use std::path::Path;

use machine::fs;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Repos, Request, is_true};

/// The repositories of Alpine.
pub(super) struct Apk;

const FILE: &str = "/etc/apk/repositories";
/// The folder of further files, which apk reads since version 3.
const FOLDER: &str = "/etc/apk/repositories.d";

/// An address with its tag: `@edge http://…`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Repo {
    tag: String,
    uri: String,
    enabled: bool,
}

impl Repo {
    /// Parses a line; `None` for a comment.
    fn parse(line: &str) -> Option<Self> {
        let bare = line.trim().strip_prefix('#');
        let enabled = bare.is_none();
        let mut words = bare.unwrap_or(line).split_whitespace();
        let mut uri = words.next()?;
        let mut tag = "";
        if uri.starts_with('@') {
            (tag, uri) = (uri, words.next()?);
        }
        let address = uri.starts_with('/') || uri.contains("://");
        (address && words.next().is_none()).then(|| Self {
            tag: tag.to_owned(),
            uri: uri.to_owned(),
            enabled,
        })
    }

    fn is(&self, other: &Self) -> bool {
        let bare = |uri: &str| uri.trim_end_matches('/').to_owned();
        self.tag == other.tag && bare(&self.uri) == bare(&other.uri)
    }

    fn line(&self) -> String {
        let mark = if self.enabled { "" } else { "#" };
        let tag = match self.tag.is_empty() {
            true => String::new(),
            false => format!("{} ", self.tag),
        };
        format!("{mark}{tag}{}", self.uri)
    }

    fn to_map(&self, file: &str) -> Map {
        Map::new()
            .with("file", file)
            .with("tag", self.tag.as_str())
            .with("uri", self.uri.as_str())
            .with("line", self.line())
            .with("enabled", self.enabled)
            .with("disabled", !self.enabled)
    }
}

fn named(repo: &str) -> Result<Repo, Error> {
    Repo::parse(repo).ok_or_else(|| {
        Error::refused(format!(
            "Name {repo} is not valid. This must be the complete repo entry as seen in {FILE}"
        ))
    })
}

/// Returns the files, each with its lines.
fn files() -> Result<Vec<(String, Vec<String>)>, Error> {
    let entries = fs::list_or_none(FOLDER)?.unwrap_or_default().into_iter();
    let mut paths: Vec<String> = entries
        .map(|entry| entry.path().to_string_lossy().into_owned())
        .filter(|path| path.ends_with(".list"))
        .collect();
    value::sorted::sort(&mut paths);
    let read = |path: String| {
        let text = fs::text_or_none(&path)?.unwrap_or_default();
        Ok((path, text.lines().map(str::to_owned).collect()))
    };
    let all = [FILE.to_owned()].into_iter().chain(paths);
    all.map(read).collect()
}

fn write(cx: &Exec, file: &str, lines: &[String]) -> Result<(), Error> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(cx, Path::new(file), text.as_bytes(), fs::Owner::default())
}

fn wanted(request: &Request<'_>) -> Result<Repo, Error> {
    let enabled = match (
        request.kwargs.get("enabled"),
        request.kwargs.get("disabled"),
    ) {
        (Some(enabled), _) => is_true(enabled),
        (None, Some(disabled)) => !is_true(disabled),
        (None, None) => true,
    };
    let named = named(request.repo)?;
    Ok(Repo { enabled, ..named })
}

impl Repos for Apk {
    fn list(&self, _: &Exec, _: &Map) -> Result<Map, Error> {
        let mut repos = Map::new();
        for (file, lines) in files()? {
            for repo in lines.iter().filter_map(|line| Repo::parse(line)) {
                let same = repos.entry(repo.uri.as_str(), || Vec::<Value>::new().into());
                if let Some(same) = same.as_list_mut() {
                    same.push(repo.to_map(&file).into());
                }
            }
        }
        Ok(repos)
    }

    fn get(&self, _: &Exec, repo: &str, _: &Map) -> Result<Map, Error> {
        let named = named(repo)?;
        for (file, lines) in files()? {
            let mut all = lines.iter().filter_map(|line| Repo::parse(line));
            if let Some(found) = all.find(|found| found.is(&named)) {
                return Ok(found.to_map(&file));
            }
        }
        Ok(Map::new())
    }

    fn wanted(&self, _: &Exec, request: &Request<'_>) -> Result<Map, Error> {
        Ok(wanted(request)?.to_map(""))
    }

    fn modify(&self, cx: &Exec, request: &Request<'_>) -> Result<Value, Error> {
        let wanted = wanted(request)?;
        let mut all = files()?;
        let found = all.iter_mut().find_map(|(file, lines)| {
            let is = |line: &String| Repo::parse(line).is_some_and(|repo| repo.is(&wanted));
            let place = lines.iter().position(is)?;
            Some((file.clone(), lines, place))
        });
        if let Some((file, lines, place)) = found {
            if let Some(line) = lines.get_mut(place) {
                *line = wanted.line();
            }
            write(cx, &file, lines)?;
        } else {
            let file = request.kwargs.get("file").map(Value::to_text);
            let file = file.unwrap_or_else(|| FILE.to_owned());
            let known = all.into_iter().find(|(known, _)| *known == file);
            let mut lines = known.map(|(_, lines)| lines).unwrap_or_default();
            lines.push(wanted.line());
            write(cx, &file, &lines)?;
        }
        if super::wants_refresh(request.kwargs) {
            super::refresh(cx)?;
        }
        let found = self.get(cx, request.repo, request.kwargs)?;
        Ok(Map::new().with(request.repo, found).into())
    }

    fn delete(&self, cx: &Exec, repo: &str, _: &Map) -> Result<Value, Error> {
        let named = named(repo)?;
        let mut said = String::new();
        for (file, mut lines) in files()? {
            let before = lines.len();
            lines.retain(|line| !Repo::parse(line).is_some_and(|found| found.is(&named)));
            if lines.len() < before {
                write(cx, &file, &lines)?;
                said += &format!("Repo '{repo}' has been removed from {file}.\n");
            }
        }
        if said.is_empty() {
            return Err(Error::refused(format!("Repo {repo} doesn't exist")));
        }
        super::refresh(cx)?;
        Ok(said.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_address_with_a_tag_or_without() {
        let repo = Repo::parse("#@edge https://x/edge/main/").unwrap();
        assert!(!repo.enabled && repo.tag == "@edge");
        assert_eq!(repo.line(), "#@edge https://x/edge/main/");
        assert!(repo.is(&Repo::parse("@edge https://x/edge/main").unwrap()));
        assert!(Repo::parse("/media/cdrom/apks").is_some());
        assert_eq!(Repo::parse("# add your own here"), None);
        assert_eq!(Repo::parse(""), None);
    }
}
