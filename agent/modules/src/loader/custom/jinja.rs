//! Filters, tests and globals that custom modules register with Jinja.
//!
//! If a template mentions a name that a file of `_modules` or `_utils` registers, that file is
//! loaded. The files are searched as text, so that no Python starts for templates that mention none
//! of the names.

use std::sync::{Arc, Mutex};

use render::Extension;
use state::custom::Kind;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::folder::{self, File};
use super::{CustomModules, call_limit, lock, returned};

/// The names that files of custom modules seem to register.
#[derive(Default)]
pub(super) struct Mentions(Mutex<Option<Arc<Vec<Mention>>>>);

#[derive(Debug, PartialEq, Eq)]
struct Mention {
    kind: Extension,
    name: String,
    file: File,
}

impl Mentions {
    pub(super) fn forget(&self) {
        *lock(&self.0) = None;
    }

    fn get(&self, custom: &CustomModules) -> Arc<Vec<Mention>> {
        let mut known = lock(&self.0);
        known.get_or_insert_with(|| Arc::new(read(custom))).clone()
    }
}

fn read(custom: &CustomModules) -> Vec<Mention> {
    let utils = folder::files(&custom.folder.join("utils")).unwrap_or_default();
    let modules = custom.index(Kind::Module).files();
    let files = modules.iter().chain(&utils).filter(|file| file.python);
    files.flat_map(mentions).collect()
}

fn mentions(file: &File) -> Vec<Mention> {
    let text = match machine::fs::text(&file.path) {
        Ok(text) => text,
        Err(error) => {
            value::log::warning(error);
            return Vec::new();
        }
    };
    let found = registered(&text).into_iter();
    found
        .map(|(kind, name)| Mention {
            kind,
            name,
            file: file.clone(),
        })
        .collect()
}

/// Returns the names in `@jinja_filter("name")`, or of the function below a decorator without a
/// name.
fn registered(text: &str) -> Vec<(Extension, String)> {
    let mut found = Vec::new();
    let mut unnamed = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("def ") {
            let name = rest.split('(').next().unwrap_or_default().trim();
            found.extend(unnamed.drain(..).map(|kind| (kind, name.to_owned())));
        }
        let Some((kind, rest)) = line.strip_prefix('@').and_then(decorator) else {
            continue;
        };
        match rest.split(['"', '\'']).nth(1) {
            Some(name) => found.push((kind, name.to_owned())),
            None => unnamed.push(kind),
        }
    }
    found
}

fn decorator(line: &str) -> Option<(Extension, &str)> {
    let (name, rest) = line.split_once('(')?;
    let kind = match name.rsplit('.').next()?.trim() {
        "jinja_filter" | "JinjaFilter" => Extension::Filter,
        "jinja_test" | "JinjaTest" => Extension::Test,
        "jinja_global" | "JinjaGlobal" => Extension::Global,
        _ => return None,
    };
    Some((kind, rest))
}

/// Returns the registered names that a template mentions; `None` if no names are registered or
/// mentioned.
pub(super) fn mentioned(
    custom: &CustomModules,
    cx: &Exec,
    template: &str,
) -> Option<Vec<(Extension, String)>> {
    let known = custom.jinja.get(custom);
    if known.is_empty() {
        return None;
    }
    let wanted = known.iter().filter(|mention| {
        uses(template, mention.kind, &mention.name) && is_registered(custom, cx, mention)
    });
    Some(
        wanted
            .map(|mention| (mention.kind, mention.name.clone()))
            .collect(),
    )
}

fn is_registered(custom: &CustomModules, cx: &Exec, mention: &Mention) -> bool {
    let modules = custom.index(Kind::Module);
    let module = modules.module(custom, cx, &mention.file);
    module.is_some_and(|module| module.adds(mention.kind.plural(), &mention.name))
}

/// Returns true if a template seems to use the name: `|name`, `is name`, `name(`, or as a text for
/// `map`, `select` and `reject`.
fn uses(template: &str, kind: Extension, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    template.match_indices(name).any(|(at, _)| {
        let (Some(before), Some(after)) = (template.get(..at), template.get(at + name.len()..))
        else {
            return false;
        };
        if before.ends_with(word) || after.starts_with(word) {
            return false;
        }
        let text = before
            .strip_suffix(['"', '\''])
            .map(|before| before.trim_end().trim_end_matches(['(', ',']));
        if let Some(text) = text.filter(|_| after.starts_with(['"', '\''])) {
            return kind == Extension::Filter && text.ends_with("map")
                || kind == Extension::Test && template_selects(text);
        }
        let before = before.trim_end();
        let last = before.rsplit(|c| !word(c)).next().unwrap_or_default();
        match kind {
            Extension::Filter => before.ends_with('|') || last == "filter",
            Extension::Test => matches!(last, "is" | "not"),
            Extension::Global => {
                !before.ends_with(['.', '|']) && after.trim_start().starts_with('(')
            }
        }
    })
}

/// Recognizes `select(`, `reject(`, and `selectattr("x", `, `rejectattr("x", `.
fn template_selects(before: &str) -> bool {
    let call = before.rsplit('(').next().unwrap_or_default();
    let start = before.len().saturating_sub(call.len());
    let head = before
        .get(..start)
        .unwrap_or_default()
        .trim_end_matches('(');
    ["select", "reject"]
        .iter()
        .any(|name| before.ends_with(name))
        || ["selectattr", "rejectattr"]
            .iter()
            .any(|name| head.ends_with(name))
}

/// Calls a registered filter, test or global.
pub(super) fn called(
    custom: &CustomModules,
    cx: &Exec,
    kind: Extension,
    name: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> Result<Value, Error> {
    let known = custom.jinja.get(custom);
    let Some(mention) = known
        .iter()
        .find(|mention| mention.kind == kind && mention.name == name)
    else {
        return Err(Error::not_available(name.to_owned()));
    };
    let path = mention.file.path.display().to_string();
    let request = Map::new()
        .with("jinja", kind.plural())
        .with("name", name)
        .with("file", path.as_str())
        .with("args", Value::list(args))
        .with("kwargs", kwargs);
    let what = format!("{name} of {path}");
    let answer = custom.ask(cx, &mention.file, &what, &request, call_limit(cx))?;
    returned(cx, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decorators_name_filters_tests_and_globals() {
        let text = "@jinja_filter(\"yesno\")\n@salt.utils.decorators.jinja.jinja_test('odd')\ndef f(x):\n    pass\n@jinja_global()\ndef g():\n";
        let found = registered(text);
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(kind, name)| (kind.plural(), name.as_str()))
            .collect();
        assert_eq!(
            found,
            [("filters", "yesno"), ("tests", "odd"), ("globals", "g")]
        );
    }

    #[test]
    fn a_template_uses_a_name_where_jinja_would_look_for_it() {
        use Extension::{Filter, Global, Test};
        for (template, kind, used) in [
            ("{{ x | get('a') }}", Filter, true),
            ("{{ x.get('a') }}", Filter, false),
            ("{{ x|get_all }}", Filter, false),
            ("{{ x|map('get') }}", Filter, true),
            ("{{ salt['get']('x') }}", Filter, false),
            ("{% if x is not get %}", Test, true),
            ("{{ x|selectattr('a', 'get') }}", Test, true),
            ("{{ get() }}", Global, true),
            ("{{ x.get() }}", Global, false),
        ] {
            assert_eq!(uses(template, kind, "get"), used, "{template}");
        }
    }
}
