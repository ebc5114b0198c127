//! The feeds of opkg: lines `src/gz NAME URL` of the files in `/etc/opkg`.

use std::path::Path;

use machine::fs;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Repos, Request, is_true};

/// The feeds of OpenWrt, NI Linux Real-Time and Poky.
pub(super) struct Opkg;

const FOLDER: &str = "/etc/opkg";

/// One line of a file: a feed, or another line that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Feed {
        enabled: bool,
        compressed: bool,
        name: String,
        uri: String,
    },
    Other(String),
}

impl Line {
    fn parse(text: &str) -> Self {
        let bare = text.strip_prefix('#');
        let enabled = bare.is_none();
        let mut words = bare.unwrap_or(text).split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(kind @ ("src" | "src/gz")), Some(name), Some(uri)) => Self::Feed {
                enabled,
                compressed: kind == "src/gz",
                name: name.to_owned(),
                uri: uri.to_owned(),
            },
            _ => Self::Other(text.to_owned()),
        }
    }

    fn is(&self, alias: &str) -> bool {
        matches!(self, Self::Feed { name, .. } if name == alias)
    }

    fn text(&self) -> String {
        match self {
            Self::Other(text) => text.clone(),
            Self::Feed {
                enabled,
                compressed,
                name,
                uri,
            } => {
                let mark = if *enabled { "" } else { "# " };
                let kind = if *compressed { "src/gz" } else { "src" };
                format!("{mark}{kind} {name} {uri}")
            }
        }
    }

    fn to_map(&self, file: &str) -> Option<Map> {
        match self {
            Self::Other(_) => None,
            Self::Feed {
                enabled,
                compressed,
                name,
                uri,
            } => Some(
                Map::new()
                    .with("enabled", *enabled)
                    .with("compressed", *compressed)
                    .with("name", name.as_str())
                    .with("uri", uri.as_str())
                    .with("file", file),
            ),
        }
    }

    /// Returns the feed with the requested changes.
    fn changed(&self, kwargs: &Map) -> Self {
        let text = |key: &str, old: &str| {
            kwargs
                .get(key)
                .map_or_else(|| old.to_owned(), Value::to_text)
        };
        let truth = |key: &str, old: bool| kwargs.get(key).map_or(old, is_true);
        match self {
            Self::Other(_) => self.clone(),
            Self::Feed {
                enabled,
                compressed,
                name,
                uri,
            } => Self::Feed {
                enabled: truth("enabled", *enabled),
                compressed: truth("compressed", *compressed),
                name: text("alias", name),
                uri: text("uri", uri),
            },
        }
    }
}

/// Returns the files, each with its lines.
fn files() -> Result<Vec<(String, Vec<Line>)>, Error> {
    let entries = fs::list_or_none(FOLDER)?.unwrap_or_default().into_iter();
    let mut paths: Vec<String> = entries
        .map(|entry| entry.path().to_string_lossy().into_owned())
        .filter(|path| path.ends_with(".conf"))
        .collect();
    value::sorted::sort(&mut paths);
    let read = |path: String| {
        let text = fs::text_or_none(&path)?.unwrap_or_default();
        let lines = text.lines().map(Line::parse).collect();
        Ok((path, lines))
    };
    paths.into_iter().map(read).collect()
}

fn write(cx: &Exec, file: &str, lines: &[Line]) -> Result<(), Error> {
    let text: String = lines.iter().map(|line| line.text() + "\n").collect();
    fs::write(cx, Path::new(file), text.as_bytes(), fs::Owner::default())
}

/// Returns the requested feed: the existing one with the changes, or a new one.
fn asked_for(request: &Request<'_>) -> Result<Line, Error> {
    let all = files()?;
    let mut lines = all.iter().flat_map(|(_, lines)| lines);
    let uri = request.kwargs.get("uri").map(Value::to_text);
    let taken = lines.clone().find(|line| {
        !line.is(request.repo)
            && matches!(line, Line::Feed { uri: known, .. } if Some(known) == uri.as_ref())
    });
    if let (Some(Line::Feed { name, uri, .. }), _) = (taken, ()) {
        return Err(Error::refused(format!(
            "Repository '{uri}' already exists as '{name}'."
        )));
    }
    if let Some(line) = lines.find(|line| line.is(request.repo)) {
        return Ok(line.changed(request.kwargs));
    }
    let Some(uri) = uri else {
        return Err(Error::refused(format!(
            "Repository '{}' not found and no URI passed to create one.",
            request.repo
        )));
    };
    let new = Line::Feed {
        enabled: true,
        compressed: true,
        name: request.repo.to_owned(),
        uri,
    };
    Ok(new.changed(request.kwargs))
}

impl Repos for Opkg {
    fn list(&self, _: &Exec, _: &Map) -> Result<Map, Error> {
        let mut repos = Map::new();
        for (file, lines) in files()? {
            for shown in lines.iter().filter_map(|line| line.to_map(&file)) {
                let uri = shown.get("uri").cloned().unwrap_or_default();
                repos.entry(uri, || vec![Value::from(shown)].into());
            }
        }
        Ok(repos)
    }

    fn get(&self, _: &Exec, repo: &str, _: &Map) -> Result<Map, Error> {
        let found = files()?.into_iter().find_map(|(file, lines)| {
            let line = lines.iter().find(|line| line.is(repo))?;
            line.to_map(&file)
        });
        Ok(found.unwrap_or_default())
    }

    fn wanted(&self, _: &Exec, request: &Request<'_>) -> Result<Map, Error> {
        Ok(asked_for(request)?.to_map("").unwrap_or_default())
    }

    fn modify(&self, cx: &Exec, request: &Request<'_>) -> Result<Value, Error> {
        let wanted = asked_for(request)?;
        let mut all = files()?;
        let found = all.iter_mut().find_map(|(file, lines)| {
            let place = lines.iter().position(|line| line.is(request.repo))?;
            Some((file.clone(), lines, place))
        });
        match found {
            Some((file, lines, place)) => {
                if let Some(line) = lines.get_mut(place) {
                    *line = wanted;
                }
                write(cx, &file, lines)?;
            }
            None => write(cx, &format!("{FOLDER}/{}.conf", request.repo), &[wanted])?,
        }
        if request.kwargs.contains("refresh") && super::wants_refresh(request.kwargs) {
            super::refresh(cx)?;
        }
        Ok(Value::Null)
    }

    fn delete(&self, cx: &Exec, repo: &str, _: &Map) -> Result<Value, Error> {
        let mut said = String::new();
        for (file, mut lines) in files()? {
            let before = lines.len();
            lines.retain(|line| !line.is(repo));
            if lines.len() == before {
                continue;
            }
            let feeds = lines.iter().any(|line| matches!(line, Line::Feed { .. }));
            if feeds {
                write(cx, &file, &lines)?;
                said += &format!("Repo '{repo}' has been removed from {file}.\n");
            } else {
                fs::remove(cx, Path::new(&file)).map_err(Error::io(&file))?;
                said += &format!("File {file} containing repo '{repo}' has been removed.\n");
            }
        }
        if said.is_empty() {
            return Ok(format!("Repo {repo} doesn't exist in the opkg repo lists").into());
        }
        super::refresh(cx)?;
        Ok(said.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_and_other_lines_are_told_apart() {
        let feed = Line::parse("# src/gz base http://x/base");
        assert!(feed.is("base"));
        assert_eq!(feed.text(), "# src/gz base http://x/base");
        let kwargs = crate::testing::json(r#"{"enabled": true, "uri": "http://y"}"#);
        assert_eq!(feed.changed(&kwargs).text(), "src/gz base http://y");
        let other = Line::parse("option check_signature");
        assert_eq!(other, Line::Other("option check_signature".into()));
    }
}
