//! The roster `flat`: one file that the renderers turn into a dictionary of hosts.

use std::path::Path;

use render::{Context, render};
use state::exec::Exec;
use state::host::ExecHost;
use value::{Map, Value, trust};

/// Returns the entries of a roster file, by id.
///
/// # Errors
/// When the file cannot be read, another user can change it, or it is no dictionary.
pub(super) fn entries(cx: &Exec, file: &Path) -> Result<Map, String> {
    let shown = file.display();
    let failed = |error: &dyn std::fmt::Display| format!("cannot read the roster {shown}: {error}");
    // The file is a template, and may name commands (`ProxyCommand`).
    trust::path(file, trust::user()).map_err(|error| error.sentence())?;
    let text = machine::fs::text(file).map_err(|error| failed(&error))?;
    let variables = Map::new()
        .with("grains", cx.grains())
        .with("opts", cx.opts().map.clone());
    let context = Context {
        name: shown.to_string(),
        variables,
        ..Context::default()
    };
    let default = cx.opts().text("renderer").unwrap_or("jinja|yaml");
    let rendered = render(&text, default, &context, &ExecHost::in_state_tree(cx));
    match rendered.map_err(|error| failed(&error))?.value {
        Value::Map(entries) => Ok(entries),
        Value::Null => Ok(Map::new()),
        other => Err(failed(&format!(
            "it must be a dictionary of hosts, but is a {}",
            other.type_name()
        ))),
    }
}
