//! Functions that the text editing states have in common.

use std::path::Path;

use machine::fs;
use python::{difflib, path, text};
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, log};

use crate::fileserver::fetch::{self, How};
use crate::fileserver::template;

/// Returns the path with `~` expanded.
pub(super) fn expanded(name: &str) -> String {
    path::expand_user(name).display().to_string()
}

/// Returns a result with the expanded path as its name.
pub(super) fn named(ret: Ret, name: &str) -> Ret {
    Ret {
        name: Some(name.to_owned()),
        ..ret
    }
}

/// Returns the problem with the path of a file that must exist, or `None` if there is none.
pub(super) fn unusable(name: &str) -> Option<String> {
    let path = Path::new(name);
    if !path.is_absolute() {
        Some(format!("Specified file {name} is not an absolute path"))
    } else if !path.exists() {
        Some(format!("{name}: file not found"))
    } else {
        None
    }
}

/// Returns the texts in an argument, like Salt's `_validate_str_list`.
pub(super) fn texts(given: &Value) -> Vec<String> {
    match given {
        Value::List(items) | Value::Tuple(items) => items.iter().map(Value::to_text).collect(),
        Value::Set(items) => items.keys().map(Value::to_text).collect(),
        Value::Bytes(bytes) => vec![text::decoded(bytes)],
        one => vec![one.to_text()],
    }
}

state::argument_group! {
    /// The sources of a state's text, apart from the text that the state gives directly.
    pub(super) struct Sources {
        /// The source of the text.
        source: Option<String> = None,
        /// The hash of a source from the web.
        source_hash: Value = Value::Null,
        /// The template engine for the sources.
        template: String = "jinja".into(),
        /// Several sources of the text, instead of `source`.
        sources: Option<Vec<String>> = None,
        /// The hashes of `sources`.
        source_hashes: Option<Vec<String>> = None,
        /// Default variables of the template; those in `context` take precedence.
        defaults: Option<Map> = None,
        /// Variables of the template.
        context: Option<Map> = None,
    }
}

impl Sources {
    /// Returns the files to read, each with its hash.
    ///
    /// # Errors
    /// When `source` and `sources` are both given, or `source_hash` and `source_hashes`.
    pub(super) fn list(&self) -> Result<Vec<(String, Option<String>)>, Error> {
        let sources = self.sources.as_deref().unwrap_or_default();
        let hashes = self.source_hashes.as_deref().unwrap_or_default();
        if self.source.is_some() && !sources.is_empty() {
            return Err("source and sources are mutually exclusive".into());
        }
        if self.source_hash.is_true() && !hashes.is_empty() {
            return Err("source_hash and source_hashes are mutually exclusive".into());
        }
        if let Some(source) = &self.source {
            let hash = self
                .source_hash
                .is_true()
                .then(|| self.source_hash.to_text());
            return Ok(vec![(source.clone(), hash)]);
        }
        let hashes = hashes.iter().cloned().map(Some);
        let hashes = hashes.chain(std::iter::repeat(None));
        Ok(sources.iter().cloned().zip(hashes).collect())
    }

    /// Returns the rendered texts of the files.
    ///
    /// # Errors
    /// A failed return for the first file that cannot be fetched or rendered. In some cases its
    /// name is that of the source.
    pub(super) fn rendered(
        &self,
        cx: &Exec,
        list: &[(String, Option<String>)],
    ) -> Result<Vec<String>, Ret> {
        list.iter()
            .map(|(source, hash)| self.render(cx, source, hash.as_deref()))
            .collect()
    }

    fn render(&self, cx: &Exec, source: &str, hash: Option<&str>) -> Result<String, Ret> {
        let failed = || {
            let problem = format!("Failed to load template file {source}");
            named(Ret::failed(problem).with("data", Value::list([])), source)
        };
        let how = How {
            hash,
            ..How::default()
        };
        let found = fetch::cached(cx, source, &cx.saltenv, how)
            .map_err(|error| Ret::failed(error.to_string()))?;
        let path = found
            .filter(|path| Path::new(path).is_file())
            .ok_or_else(failed)?;
        let text = fs::read(&path).map_err(|_| failed())?;
        let mut variables = self.defaults.clone().unwrap_or_default();
        variables.update(self.context.clone().unwrap_or_default());
        if !template::is_supported(&self.template) {
            log::error(template::unsupported(&self.template));
            return Err(failed());
        }
        let text = text::decoded(&text);
        let text = template::render(cx, &path, &text, &cx.saltenv, variables)
            .map_err(|error| Ret::failed(error.to_string()))?;
        if text.is_empty() {
            let problem = format!("Failed to read rendered template file {path} ({source})");
            return Err(named(
                Ret::failed(problem).with("data", Value::list([])),
                source,
            ));
        }
        Ok(text)
    }
}

/// Returns the value that represents a change: the diff, or Salt's text if the file is binary or
/// diffs are off.
pub(super) fn shown_diff(name: &str, show_changes: bool, diff: impl FnOnce() -> String) -> Value {
    if !fs::is_text_file(Path::new(name)).unwrap_or(false) {
        "Replace binary file".into()
    } else if !show_changes {
        "<show_changes=False>".into()
    } else {
        diff().into()
    }
}

/// Returns a diff of lines with their line ends.
pub(super) fn line_diff(old: &str, new: &str) -> String {
    let lines = |text| text::owned(text::split_lines(text));
    difflib::get_diff(&lines(old), &lines(new), "", "")
}

/// Returns a diff of lines without their line ends. As in `file.append`, there is an empty line
/// after each line of its header.
pub(super) fn bare_diff(old: &[String], new: &[String]) -> String {
    difflib::unified(old, new, "", "").join("\n")
}

/// Returns the result of `file.touch` in test mode for a file that does not exist.
pub(super) fn would_touch(name: &str) -> Ret {
    if Path::new(name).is_absolute() {
        Ret::would(format!("File {name} is set to be created")).change("new", name)
    } else {
        Ret::failed(format!("Specified file {name} is not an absolute path"))
    }
}
