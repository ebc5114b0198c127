//! The roster `flat`: one file that the renderers turn into a dictionary of hosts.

use std::path::Path;

use render::{Context, render};
use state::exec::Exec;
use state::host::ExecHost;
use value::{Map, Value};

use super::check;

/// The maximum depth of values in which `sdb://` is replaced.
const DEPTH_MAX: usize = 32;

/// Renders a file, and replaces each value `sdb://…` by the secret that it names.
///
/// # Errors
/// When the file cannot be read, another user can change it, it is no dictionary, or a secret
/// cannot be read.
pub(super) fn dictionary(cx: &Exec, file: &Path) -> Result<Map, String> {
    // The file is a template, and may name commands (`ProxyCommand`).
    let text = check::trusted_text(file)?;
    let variables = Map::new()
        .with("grains", cx.grains())
        .with("opts", cx.opts().map.clone());
    let context = Context {
        name: file.display().to_string(),
        variables,
        ..Context::default()
    };
    let default = cx.opts().text("renderer").unwrap_or("jinja|yaml");
    let rendered = render(&text, default, &context, &ExecHost::in_state_tree(cx));
    match rendered.map_err(|error| error.to_string())?.value {
        entries @ Value::Map(_) => match revealed(cx, &entries, 0)? {
            Value::Map(entries) => Ok(entries),
            _ => Ok(Map::new()),
        },
        Value::Null => Ok(Map::new()),
        other => Err(format!(
            "it must be a dictionary, but is a {}",
            other.type_name()
        )),
    }
}

/// Replaces each text `sdb://…` in a value.
pub(super) fn revealed(cx: &Exec, value: &Value, depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err(format!("values are more than {DEPTH_MAX} deep"));
    }
    match value {
        Value::Str(uri) if uri.starts_with("sdb://") => {
            let found = cx.call_internal("sdb.get", vec![value.clone()], Map::new());
            let found = found.map_err(|error| format!("cannot read {uri}: {error}"))?;
            match &found == value || found.is_null() {
                true => Err(format!("cannot read {uri}: it names no value")),
                false => Ok(found),
            }
        }
        Value::Map(map) => {
            let mut all = Map::new();
            for (key, value) in map {
                all.insert(key.clone(), revealed(cx, value, depth + 1)?);
            }
            Ok(all.into())
        }
        Value::List(items) => {
            let items = items.iter().map(|item| revealed(cx, item, depth + 1));
            Ok(Value::list(items.collect::<Result<Vec<_>, _>>()?))
        }
        other => Ok(other.clone()),
    }
}
