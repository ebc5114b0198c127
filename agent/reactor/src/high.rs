//! Compiles the SLS files of a rule to its plan: they are rendered, merged, checked and ordered, as
//! in Salt's reactor.

use std::path::{Path, PathBuf};

use render::{Allowed, Context, JinjaOptions};
use state::compile::{HighData, Plan};
use state::exec::Exec;
use state::host::{ExecHost, read};
use value::{Map, Value};

use crate::rule::Rule;

/// The plan that a rule makes from an event.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// The chunks to run; none if a fault forbids it.
    pub plan: Plan,
    /// All faults. A file that cannot be rendered does not prevent the use of the rule's other
    /// files.
    pub faults: Vec<String>,
    /// The rendered text of the files, for finding the cause of a fault.
    pub rendered: String,
}

/// The maximum number of bytes of rendered text that is kept.
const RENDERED_MAX: usize = 32 << 10;

/// Renders and compiles the SLS files of a rule for an event.
#[must_use]
pub fn compile(cx: &Exec, rule: &Rule, tag: &str, data: &Map) -> Compiled {
    let mut files = Files {
        cx,
        tag,
        data,
        high: Map::new(),
        compiled: Compiled::default(),
    };
    for reference in &rule.refs {
        files.take(reference);
    }
    files.finished(rule)
}

struct Files<'a> {
    cx: &'a Exec,
    tag: &'a str,
    data: &'a Map,
    high: Map,
    compiled: Compiled,
}

impl Files<'_> {
    fn take(&mut self, reference: &str) {
        let found = match found(self.cx, reference) {
            Ok(found) => found,
            Err(error) => return self.compiled.faults.push(error),
        };
        if found.is_empty() {
            self.compiled.faults.push(format!(
                "Can not render SLS {reference} for tag {}. File missing or not found.",
                self.tag
            ));
        }
        for path in found {
            if let Err(error) = self.file(&path) {
                let path = path.display();
                let fault = format!("Failed to render \"{path}\": {error}");
                self.compiled.faults.push(fault);
            }
        }
    }

    fn file(&mut self, path: &Path) -> Result<(), String> {
        let text = read(path).map_err(|error| error.to_string())?;
        let context = context(self.cx, path, self.tag, self.data);
        let default = self.cx.opts().text("renderer").unwrap_or("jinja|yaml");
        let host = ExecHost::in_state_tree(self.cx);
        let rendered = render::render(&text, default, &context, &host);
        let rendered = rendered.map_err(|error| error.to_string())?;
        self.keep(&rendered.text);
        let mut high = padded(rendered.value)?;
        for (_, body) in high.iter_mut() {
            if let Some(body) = body.as_map_mut() {
                body.insert("__sls__", path.display().to_string());
            }
        }
        self.high.update(high);
        Ok(())
    }

    fn keep(&mut self, text: &str) {
        let room = RENDERED_MAX.saturating_sub(self.compiled.rendered.len());
        let end = (0..=room.min(text.len())).rev();
        let end = end.into_iter().find(|end| text.is_char_boundary(*end));
        let text = text.get(..end.unwrap_or_default()).unwrap_or_default();
        self.compiled.rendered.push_str(text);
    }

    fn finished(self, rule: &Rule) -> Compiled {
        let mut compiled = self.compiled;
        if self.high.is_empty() {
            return compiled;
        }
        match HighData::from_map(self.high).plan_as_written(self.cx) {
            Ok(plan) => compiled.plan = plan,
            Err(faults) => {
                let faults = faults.iter().map(|fault| fault.text.as_str());
                compiled.faults.push(format!(
                    "Unable to render reactions for event {} due to errors ({}) in one or more of the sls files ({})",
                    self.tag,
                    faults.collect::<Vec<_>>().join("; "),
                    rule.refs.join(", ")
                ));
            }
        }
        compiled
    }
}

/// Returns the files that a reference names: a path, a pattern of paths, or a file of this
/// machine's own tree.
fn found(cx: &Exec, reference: &str) -> Result<Vec<PathBuf>, String> {
    let Some(path) = reference.strip_prefix("salt://") else {
        let found = modules::globbed(reference).into_iter();
        return Ok(found.map(PathBuf::from).collect());
    };
    let (path, saltenv) = path.split_once("?saltenv=").unwrap_or((path, "base"));
    let file = cx.shared.sources.file(path, saltenv);
    let file = file.map_err(|error| format!("{reference}: {error}"))?;
    Ok(file.into_iter().map(|file| file.path).collect())
}

/// Returns the context of a reactor's template. The data of an event is an ordinary value, and is
/// never read as a template.
fn context(cx: &Exec, path: &Path, tag: &str, data: &Map) -> Context {
    let name = path.display().to_string();
    let variables = Map::new()
        .with("tag", tag)
        .with("data", data.clone())
        .with("grains", cx.grains())
        .with("pillar", Map::new())
        .with("opts", cx.template_opts())
        .with("saltenv", "base")
        .with("sls", "")
        .with("tpldir", ".")
        .with("tplfile", name.as_str())
        .with("tplpath", name.as_str());
    Context {
        name,
        saltenv: "base".to_owned(),
        variables,
        jinja: JinjaOptions {
            trim_blocks: cx.opts().flag("jinja_trim_blocks"),
            lstrip_blocks: cx.opts().flag("jinja_lstrip_blocks"),
            allow_undefined: cx.opts().flag("allow_undefined"),
        },
        renderers: Allowed {
            only: cx.opts().texts("renderer_whitelist"),
            refused: cx.opts().texts("renderer_blacklist"),
        },
        ..Context::default()
    }
}

/// Moves a function behind a dot (`state.function`) to the end of its state's arguments (Salt's
/// `pad_funcs`).
fn padded(rendered: Value) -> Result<Map, String> {
    let mut high = match rendered {
        Value::Map(high) => high,
        other if !other.is_true() => return Ok(Map::new()),
        other => return Err(format!("expected a dictionary, got {}", other.type_name())),
    };
    for (id, body) in high.iter_mut() {
        *body = body_padded(id, body)?.into();
    }
    Ok(high)
}

fn body_padded(id: &Value, body: &Value) -> Result<Map, String> {
    if let Some((state, function)) = body.as_str().and_then(|short| short.split_once('.')) {
        return Ok(Map::new().with(state, Value::list([function.into()])));
    }
    let Some(written) = body.as_map() else {
        let (id, kind) = (id.to_text(), body.type_name());
        return Err(format!("the ID {id} must be a dictionary, not {kind}"));
    };
    let mut padded = written.clone();
    let mut keys: Vec<&str> = written.keys().filter_map(Value::as_str).collect();
    keys.sort_unstable();
    let mut seen: Vec<&str> = Vec::new();
    for key in keys.into_iter().filter(|key| !key.starts_with('_')) {
        let Some(Value::List(arguments)) = written.get(key) else {
            continue;
        };
        let Some((state, function)) = key.split_once('.') else {
            seen.push(key);
            continue;
        };
        // As in Salt, an ID has one function of each state: a second one remains as written.
        if seen.contains(&state) {
            continue;
        }
        seen.push(state);
        let arguments = arguments.iter().cloned().chain([function.into()]);
        padded.remove(key);
        padded.insert(state, Value::list(arguments));
    }
    Ok(padded)
}
