//! Renderers in Python: `py`, `mako`, and those of `_renderers`.

use state::custom::{Kind, Rendering};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::folder::{self, File};
use super::host::Failed;
use super::{CustomModules, call_limit, returned};

/// The renderer whose templates are Python programs.
const PY: &str = "py";

/// The renderer of the Python package Mako.
const MAKO: &str = "mako";

pub(super) fn has(custom: &CustomModules, name: &str) -> bool {
    [PY, MAKO].contains(&name) || custom.index(Kind::Renderer).file(name).is_some()
}

pub(super) fn rendered(
    custom: &CustomModules,
    cx: &Exec,
    rendering: &Rendering<'_>,
) -> Result<Value, Error> {
    if rendering.name == PY {
        return by_py(custom, cx, rendering);
    }
    if rendering.name == MAKO && custom.index(Kind::Renderer).file(MAKO).is_none() {
        return by_mako(custom, cx, rendering);
    }
    let full = format!("{}.render", rendering.name);
    let renderers = custom.index(Kind::Renderer);
    let Some((file, _)) = renderers.find(custom, cx, &full) else {
        return Err(renderers.missing(custom, cx, &full));
    };
    let sls = rendering.variables.get("sls").cloned();
    let args = vec![
        rendering.input.clone(),
        rendering.saltenv.into(),
        sls.unwrap_or_else(|| "".into()),
    ];
    let mut kwargs = Map::new().with("tmplpath", rendering.path.display().to_string());
    if !rendering.argline.is_empty() {
        kwargs.insert("argline", rendering.argline);
    }
    let answer = custom.run(cx, &file, &full, args, kwargs)?;
    returned(cx, answer)
}

/// Returns the variables of a template, without those that the host gives to every module.
fn variables(rendering: &Rendering<'_>) -> Map {
    let mut given = rendering.variables.clone();
    given.retain(|key, _| {
        let own = ["grains", "pillar", "opts", "salt", "proxy"];
        !key.as_str().is_some_and(|key| own.contains(&key))
    });
    given
}

/// Renders a text with Mako.
fn by_mako(custom: &CustomModules, cx: &Exec, rendering: &Rendering<'_>) -> Result<Value, Error> {
    if custom.python.get_or_init(folder::python).is_none() {
        return Err(
            "The renderer mako needs python3 with the package Mako, and there is no python3 on this machine: install both"
                .into(),
        );
    }
    let path = rendering.path.display().to_string();
    let request = Map::new()
        .with("mako", path.as_str())
        .with("text", rendering.input.to_text())
        .with(
            "kwargs",
            variables(rendering).with("saltenv", rendering.saltenv),
        );
    let file = File {
        stem: MAKO.to_owned(),
        path: rendering.path.to_owned(),
        python: true,
    };
    let what = format!("The template {path}");
    let answer = custom.ask(cx, &file, &what, &request, call_limit(cx))?;
    returned(cx, answer)
}

/// Calls the function `run` of a Python file and returns its result.
fn by_py(custom: &CustomModules, cx: &Exec, rendering: &Rendering<'_>) -> Result<Value, Error> {
    let given = variables(rendering);
    let path = rendering.path.display().to_string();
    let mut request = Map::new()
        .with("py", path.as_str())
        .with("kwargs", given.with("saltenv", rendering.saltenv));
    if !rendering.path.is_file() {
        request.insert("text", rendering.input.to_text());
    }
    let file = File {
        stem: PY.to_owned(),
        path: rendering.path.to_owned(),
        python: true,
    };
    let what = format!("The template {path}");
    let answer = custom.ask(cx, &file, &what, &request, call_limit(cx))?;
    // As in Salt, the text of an exception in a template is its traceback.
    returned(
        cx,
        answer.map_err(|failed| Failed {
            salt: true,
            ..failed
        }),
    )
}
