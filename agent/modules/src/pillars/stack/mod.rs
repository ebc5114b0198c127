//! The external pillar `stack` (PillarStack): YAML files that configuration files list, merged in their
//! order.
//!
//! ```text
//! arguments -> configuration files -> Jinja: a list of patterns -> YAML files -> Jinja, YAML -> merge
//! ```

mod merge;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use render::{Context, Host, JinjaOptions, jinja, sentence, yaml};
use state::exec::Exec;
use state::host::{ExecHost, Tree, read};
use state::module::Error;
use value::glob::is_glob;
use value::{Map, Value, log};

use super::environment;
use crate::exec::file::paths::globbed;
use crate::fileserver::roots::Roots;
use crate::git::Checkout;

/// The part of an argument that the environment replaces.
const ENVIRONMENT: &str = "__env__";
/// The environment of the templates that are imported: it has the folder of the configuration alone.
const OF_FOLDER: &str = "stack";

/// Returns the merged data of all files.
///
/// # Errors
/// When an argument is wrong, a configuration file or a file that it names does not exist, or a file
/// does not render to a dictionary.
pub(super) fn load(cx: &Exec, val: &Value, pillar: &Map) -> Result<Map, Error> {
    let variables = Map::new()
        .with("__grains__", cx.grains())
        .with("__opts__", options(cx))
        .with("minion_id", cx.opts().id())
        .with("pillar", pillar.clone())
        .with("pillarenv", cx.pillarenv.clone());
    let mut stack = Map::new();
    for path in configurations(val, &variables, &environment(cx)).map_err(Error::refused)? {
        stack = Configuration::new(cx, &path, &variables)?.merged(stack)?;
    }
    Ok(stack)
}

/// Returns the options with the environments of the call.
fn options(cx: &Exec) -> Map {
    let mut options = cx.template_opts();
    if let Some(env) = &cx.pillarenv {
        options.insert("pillarenv", env.as_str());
    }
    // As in Salt, there is no environment unless the call names one.
    if cx.saltenv != "base" {
        options.insert("saltenv", cx.saltenv.as_str());
    }
    options
}

/// Returns the paths of the configuration files that apply.
fn configurations(val: &Value, variables: &Map, env: &str) -> Result<Vec<String>, String> {
    let Value::Map(matchers) = val else {
        return paths(val);
    };
    let mut all = Vec::new();
    for (matcher, choices) in matchers {
        let chosen = chosen(&matcher.to_text(), choices, variables, env)?;
        for path in paths(&chosen)? {
            all.push(of_environment(&path, env)?);
        }
    }
    Ok(all)
}

/// Returns a path or a list of paths as a list.
fn paths(val: &Value) -> Result<Vec<String>, String> {
    let items = match val {
        Value::List(items) => items.as_slice(),
        only => std::slice::from_ref(only),
    };
    let path = |item: &Value| match item.as_str() {
        Some(path) if path.starts_with('/') => Ok(path.to_owned()),
        _ => Err(format!(
            "a configuration file must be an absolute path, not {}",
            item.to_text()
        )),
    };
    items.iter().map(path).collect()
}

/// Returns the path that the data of the minion choose, or a list of paths; an empty list if they choose
/// none.
fn chosen(matcher: &str, choices: &Value, variables: &Map, env: &str) -> Result<Value, String> {
    let (of, path) = matcher.split_once(':').unwrap_or((matcher, ""));
    let data = match of {
        "pillar" => variables.get("pillar"),
        "grains" => variables.get("__grains__"),
        "opts" => variables.get("__opts__"),
        _ => None,
    };
    let data = data.filter(|_| matcher.contains(':')).ok_or_else(|| {
        format!("it has the key {matcher}; expected pillar:KEY, grains:KEY or opts:KEY")
    })?;
    let choices = choices
        .as_map()
        .ok_or_else(|| format!("{matcher} must be a dictionary of values and paths"))?;
    let wanted = data.traverse(path, ":").cloned().unwrap_or_default();
    if matches!(wanted, Value::List(_) | Value::Map(_)) {
        return Err(format!(
            "the value of {matcher} is a {}, which cannot choose a path",
            wanted.type_name()
        ));
    }
    let mut matching = choices.iter().filter(|(choice, _)| match choice.as_str() {
        Some(ENVIRONMENT) => wanted == Value::from(env),
        _ => **choice == wanted,
    });
    let last = matching.next_back().map(|(_, paths)| paths.clone());
    Ok(last.unwrap_or_else(|| Value::list([])))
}

/// Returns a path with the environment in the place of `__env__`. A minion chooses its environment.
fn of_environment(path: &str, env: &str) -> Result<String, String> {
    if path.contains(ENVIRONMENT) && env.split('/').any(|part| part == "..") {
        return Err(format!("the environment {env} cannot be a part of {path}"));
    }
    Ok(path.replace(ENVIRONMENT, env))
}

/// A configuration file.
struct Configuration {
    path: PathBuf,
    /// Its folder, to which the paths of the YAML files are relative.
    folder: PathBuf,
    /// The variables of all templates.
    variables: Map,
    host: Arc<dyn Host>,
}

impl Configuration {
    fn new(cx: &Exec, path: &str, variables: &Map) -> Result<Self, Error> {
        let path = PathBuf::from(path);
        let folder = path.parent().unwrap_or_else(|| Path::new("/")).to_owned();
        let imported = Checkout {
            env: OF_FOLDER.to_owned(),
            folder: folder.clone(),
            // Links may lead anywhere, as those to the YAML files.
            tree: PathBuf::from("/"),
            mountpoint: String::new(),
        };
        let roots = Roots::of_checkouts(cx.opts(), OF_FOLDER, &[&imported]);
        let own = Map::new().with("cfg_path", path.display().to_string());
        Ok(Self {
            variables: variables.clone().with("__stack__", own),
            host: ExecHost::in_tree(cx, &Tree::Other(Arc::new(roots))),
            path,
            folder,
        })
    }

    /// Returns the earlier data with those of the files that the configuration lists.
    fn merged(&self, mut stack: Map) -> Result<Map, Error> {
        let source = text(&self.path)?;
        let rendered = self.rendered(&self.path, &source, &mut stack)?;
        for entry in entries(&rendered).map_err(|problem| wrong(&self.path, &problem))? {
            if entry.trim().is_empty() || entry.starts_with('#') {
                continue;
            }
            for path in self.files(&entry, &source)? {
                stack = self.with_file(&path, stack)?;
            }
        }
        Ok(stack)
    }

    /// Returns the files that an entry of the configuration names, sorted.
    fn files(&self, entry: &str, source: &str) -> Result<Vec<PathBuf>, Error> {
        let pattern = self.folder.join(entry);
        if entry.split('/').any(|part| part == "..") || !pattern.starts_with(&self.folder) {
            let folder = self.folder.display();
            let problem = format!("{entry} is outside of the folder {folder}");
            return Err(wrong(&self.path, &problem));
        }
        let found = globbed(&pattern.to_string_lossy());
        if found.is_empty() && !is_glob(entry) && is_written(entry, source) {
            let problem = format!("the file {} does not exist", pattern.display());
            return Err(wrong(&self.path, &problem));
        }
        if found.is_empty() {
            log::info(format_args!(
                "Ignoring pillar stack template \"{entry}\": can't find from root dir \"{}\"",
                self.folder.display()
            ));
        }
        Ok(found.into_iter().map(PathBuf::from).collect())
    }

    /// Returns the earlier data with those of a YAML file.
    fn with_file(&self, path: &Path, mut stack: Map) -> Result<Map, Error> {
        let rendered = self.rendered(path, &text(path)?, &mut stack)?;
        let data = yaml::load(&rendered).map_err(|error| {
            let (shown, problem) = (path.display(), sentence(&error.salt_message()));
            Error::refused(format!(
                "Stack pillar yaml parsing error in {shown}: {problem}"
            ))
        })?;
        match data {
            Value::Map(data) => merge::merged(stack, data).map_err(|problem| wrong(path, &problem)),
            Value::Null => Ok(stack),
            other => Err(wrong(
                path,
                &format!("it must be a dictionary, but is a {}", other.type_name()),
            )),
        }
    }

    /// Renders a file. A template can change the data so far.
    fn rendered(&self, path: &Path, source: &str, stack: &mut Map) -> Result<String, Error> {
        let shown = path.display().to_string();
        let below = path.strip_prefix(&self.folder).unwrap_or(path);
        let dir = below.parent().unwrap_or_else(|| Path::new(""));
        let context = Context {
            name: shown.clone(),
            saltenv: OF_FOLDER.to_owned(),
            dir: dir.display().to_string(),
            variables: Map::new()
                .with("stack", stack.clone())
                .with("ymlpath", shown.as_str()),
            of_stack: Some(self.variables.clone()),
            jinja: JinjaOptions {
                allow_undefined: true,
                ..JinjaOptions::default()
            },
            ..Context::default()
        };
        let rendered = jinja::render(source, &context, &self.host).map_err(|error| {
            let problem = sentence(&error.message);
            let place = match &error.place {
                Some(place) => format!("{}:{}", place.file, place.line),
                None => shown,
            };
            Error::refused(format!(
                "Stack pillar template render error in {place}: {problem}"
            ))
        })?;
        if let Some(Value::Map(changed)) = context.shared.get("stack") {
            *stack = changed;
        }
        // As in Jinja2, the last newline of a template is no part of it.
        let shorter = rendered
            .strip_suffix('\n')
            .filter(|_| source.ends_with('\n'));
        Ok(shorter.map_or_else(|| rendered.clone(), str::to_owned))
    }
}

fn wrong(path: &Path, problem: &str) -> Error {
    Error::refused(format!("{}: {problem}", path.display()))
}

/// Reads a template.
fn text(path: &Path) -> Result<Arc<str>, Error> {
    let metadata = path.metadata().map_err(Error::io(path))?;
    match metadata.is_file() {
        true => read(path),
        false => Err(wrong(path, "it is not a regular file")),
    }
}

/// Returns the entries of a rendered configuration: the items of a list in YAML, or else the lines.
fn entries(rendered: &str) -> Result<Vec<String>, String> {
    let Ok(Value::List(items)) = yaml::load(rendered) else {
        return Ok(rendered.lines().map(str::to_owned).collect());
    };
    let entry = |item: &Value| match item {
        Value::Str(entry) => Ok(entry.to_string()),
        other => Err(format!("an entry must be a path, not {}", other.to_text())),
    };
    items.iter().map(entry).collect()
}

/// Returns whether an entry is a line of the configuration, and not the result of a template. Its file
/// must exist: one for a role or an id may be missing.
fn is_written(entry: &str, source: &str) -> bool {
    source.lines().any(|line| {
        let line = line.trim();
        let item = line.strip_prefix("- ").unwrap_or(line).trim();
        line == entry.trim() || item.trim_matches(['\'', '"']) == entry
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(yaml: &str, env: &str) -> Result<Vec<String>, String> {
        let variables = Map::new()
            .with(
                "pillar",
                Map::new().with("role", "web").with("list", Value::list([])),
            )
            .with(
                "__grains__",
                Map::new().with("os", Map::new().with("major", 12)),
            )
            .with("__opts__", Map::new().with("saltenv", env));
        configurations(&yaml::load(yaml).unwrap(), &variables, env)
    }

    #[test]
    fn configurations_are_a_path_or_a_list_or_chosen_by_the_data_of_the_minion() {
        for (yaml, wanted) in [
            ("/a", vec!["/a"]),
            ("[/a, /b]", vec!["/a", "/b"]),
            ("[]", vec![]),
            ("{'pillar:role': {web: /w, db: /d}}", vec!["/w"]),
            ("{'pillar:nosuch': {web: /w}}", vec![]),
            ("{'pillar:nosuch': {null: /w}}", vec!["/w"]),
            (
                "{'grains:os:major': {12: [/x, /__env__/y]}}",
                vec!["/x", "/dev/y"],
            ),
            (
                "{'opts:saltenv': {dev: /a, __env__: /b/__env__}}",
                vec!["/b/dev"],
            ),
            ("{'opts:saltenv': {__env__: /b, dev: /a}}", vec!["/a"]),
        ] {
            assert_eq!(found(yaml, "dev").unwrap(), wanted, "{yaml}");
        }
    }

    #[test]
    fn wrong_arguments_are_errors() {
        for (yaml, part) in [
            ("null", "must be an absolute path, not None"),
            ("a.cfg", "must be an absolute path, not a.cfg"),
            ("[{a: 1}]", "must be an absolute path"),
            ("{role: {a: /b}}", "it has the key role; expected"),
            ("{'mine:a': {a: /b}}", "it has the key mine:a; expected"),
            ("{'pillar:role': /b}", "pillar:role must be a dictionary"),
            (
                "{'pillar:role': {web: null}}",
                "must be an absolute path, not None",
            ),
            (
                "{'pillar:list': {web: /a}}",
                "is a list, which cannot choose",
            ),
        ] {
            let error = found(yaml, "base").unwrap_err();
            assert!(error.contains(part), "{yaml}: {error}");
        }
    }

    #[test]
    fn an_environment_cannot_lead_out_of_a_path() {
        let yaml = "{'opts:saltenv': {__env__: /b/__env__/c}}";
        assert_eq!(found(yaml, "feature/x").unwrap(), ["/b/feature/x/c"]);
        assert!(found(yaml, "x/../../etc").is_err() && found(yaml, "..").is_err());
    }

    #[test]
    fn entries_are_lines_or_items_of_a_list() {
        assert_eq!(
            entries("a.yml\n\nb/*.yml\n").unwrap(),
            ["a.yml", "", "b/*.yml"]
        );
        assert_eq!(
            entries("# c\n- a.yml\n- 'b.yml'\n").unwrap(),
            ["a.yml", "b.yml"]
        );
        assert!(entries("- {a: 1}\n").is_err() && entries("").unwrap().is_empty());
    }

    #[test]
    fn an_entry_of_a_template_is_not_written() {
        let source = "a.yml\n - 'b.yml'\n{{ x }}.yml\n";
        assert!(is_written("a.yml", source) && is_written("b.yml", source));
        assert!(!is_written("x.yml", source) && !is_written("yml", source));
    }
}
