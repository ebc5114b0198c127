//! Compiles single templates: a file outside the tree (`state.template`) and a string
//! (`state.template_str`).

use render::{Context, render};
use value::{Map, Value};

use super::declarations::split;
use super::render::Single;
use super::{Fault, HighData, auto_order, sls};
use crate::exec::Exec;
use crate::host::ExecHost;

/// The name in messages of a template that is not a file.
const TEXT: &str = "<template-str>";

/// Returns the high data of one file by its path, with or without `.sls`.
///
/// # Errors
/// All faults of the file.
pub fn template(cx: &Exec, path: &str, saltenv: &str) -> Result<HighData, Vec<Fault>> {
    let path = match path.ends_with(".sls") {
        true => path.to_owned(),
        false => format!("{path}.sls"),
    };
    let library = Single { cx, path: &path };
    let rendered = sls::alone(&library, &path, saltenv, auto_order(cx));
    if rendered.faults.is_empty() {
        Ok(rendered.high)
    } else {
        Err(rendered.faults)
    }
}

/// Returns the high data of a string. It must not contain includes, excludes or extends.
///
/// # Errors
/// All faults of the string.
pub fn template_str(cx: &Exec, text: &str) -> Result<HighData, Vec<Fault>> {
    let renderer = cx.opts().text("renderer").unwrap_or("jinja|yaml");
    let context = Context {
        name: TEXT.into(),
        saltenv: "base".into(),
        variables: variables(cx)?,
        ..Context::default()
    };
    let rendered = render(text, renderer, &context, &ExecHost::in_state_tree(cx));
    let rendered =
        rendered.map_err(|error| vec![Fault::of_render(error.message.as_str(), &error)])?;
    match rendered.value {
        Value::Map(high) => declared(high),
        other if !other.is_true() => Ok(HighData::default()),
        _ => Err(vec![Fault::new(format!(
            "Template {TEXT} does not render to a dictionary"
        ))]),
    }
}

fn variables(cx: &Exec) -> Result<Map, Vec<Fault>> {
    let pillar = cx
        .pillar()
        .map_err(|error| vec![Fault::new(error.to_string())])?;
    Ok(Map::new()
        .with("grains", cx.grains())
        .with("pillar", pillar)
        .with("opts", cx.template_opts())
        .with("saltenv", "base")
        .with("env", "base")
        .with("sls", "")
        .with("tplpath", ":string:")
        .with("proxy", Map::new()))
}

/// Converts short declarations and splits functions, as Salt's `render_template` does.
fn declared(mut high: Map) -> Result<HighData, Vec<Fault>> {
    for item in ["include", "exclude", "extends"] {
        if high.contains(item) {
            return Err(vec![Fault::new(format!(
                "The '{item}' declaration found on '{TEXT}' is invalid when rendering single templates"
            ))]);
        }
    }
    let mut faults = Vec::new();
    for (id, body) in high.iter_mut() {
        declare(id, body, &mut faults);
    }
    if faults.is_empty() {
        Ok(HighData::from_map(high))
    } else {
        Err(faults)
    }
}

fn declare(id: &Value, body: &mut Value, faults: &mut Vec<Fault>) {
    let name = id.to_text();
    if let Some((module, rest)) = body.as_str().and_then(|short| short.split_once('.')) {
        let fun = rest.split('.').next().unwrap_or(rest);
        *body = [(module, Value::list([fun.into()]))].into_iter().collect();
        return;
    }
    let Some(body) = body.as_map_mut() else {
        let text = format!("ID {name} in template {TEXT} is not a dictionary");
        return faults.push(Fault::new(text));
    };
    let mut keys: Vec<String> = body.keys().map(Value::to_text).collect();
    keys.sort();
    let mut seen: Vec<String> = Vec::new();
    for key in keys.iter().filter(|key| !key.starts_with('_')) {
        match body.get(key) {
            Some(Value::Null) => faults.push(Fault::new(format!(
                "ID '{name}' in template {TEXT} contains a short declaration ({key}) with a trailing colon. When not passing any arguments to a state, the colon must be omitted."
            ))),
            Some(Value::List(_)) => {
                let module = key.split('.').next().unwrap_or(key).to_owned();
                let dotted = key.contains('.');
                if dotted && seen.contains(&module) {
                    faults.push(Fault::new(format!(
                        "ID '{name}' in template '{TEXT}' contains multiple state declarations of the same type"
                    )));
                } else {
                    split(body, key);
                    seen.push(module);
                }
            }
            _ => {}
        }
    }
}
