//! `cmd.script` and `cmd.exec_code`: write a script or code to a temporary file, and run it.

use std::path::PathBuf;

use machine::fs::Temporary;
use python::shlex;
use render::{Context, Pipe};
use state::exec::Exec;
use state::host::ExecHost;
use state::module::Error;
use value::{Map, Value, log};

use super::{Stderr, execute, hide, run_all_with};

/// Runs `cmd.script` with its options in a dictionary.
pub(crate) fn script_with(
    cx: &Exec,
    source: &str,
    args: &Value,
    options: &Map,
) -> Result<Map, Error> {
    let saltenv = options
        .get("saltenv")
        .and_then(Value::as_str)
        .unwrap_or(&cx.saltenv);
    let Some(text) = fetched(cx, source, saltenv)? else {
        log::error(format_args!(
            "Unable to cache file '{source}' from saltenv '{saltenv}'."
        ));
        return Ok(not_cached());
    };
    let text = match options.get("template").filter(|engine| engine.is_true()) {
        Some(engine) => {
            let text = String::from_utf8_lossy(&text);
            rendered(cx, &text, &engine.to_text(), options)?.into_bytes()
        }
        None => text,
    };
    let runas = options.get("runas").filter(|user| user.is_true());
    let file = Temporary::script(extension(source), &text, runas)?;
    run_file(cx, &file, args, options)
}

fn run_file(cx: &Exec, file: &Temporary, args: &Value, options: &Map) -> Result<Map, Error> {
    let mut words = vec![file.path().display().to_string()];
    words.extend(arguments(args)?);
    let mut options = options.clone();
    options.remove("template");
    if args.is_true() {
        options.insert("python_shell", false);
    }
    let (_, output) = execute(cx, &words.into(), &options, Stderr::Apart)?;
    Ok(hide(&options, output.to_map()))
}

fn arguments(args: &Value) -> Result<Vec<String>, Error> {
    match args {
        Value::Str(line) => Ok(shlex::split(line)?),
        other => Ok(other.texts()),
    }
}

fn not_cached() -> Map {
    Map::new()
        .with("pid", 0)
        .with("retcode", 1)
        .with("stdout", "")
        .with("stderr", "")
        .with("cache_error", true)
}

/// Returns the bytes of a source, or `None` if there is no such file.
fn fetched(cx: &Exec, source: &str, saltenv: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = if let Some(inside) = source.strip_prefix("salt://") {
        let (path, query) = inside.split_once('?').unwrap_or((inside, ""));
        let saltenv = query.strip_prefix("saltenv=").unwrap_or(saltenv);
        cx.shared.sources.file(path, saltenv)?.map(|file| file.path)
    } else if source.starts_with('/') {
        Some(PathBuf::from(source))
    } else {
        let args = vec![source.into(), saltenv.into()];
        let path = cx.call_internal("cp.cache_file", args, Map::new())?;
        path.as_str().map(PathBuf::from)
    };
    let Some(path) = path.filter(|path| path.is_file()) else {
        return Ok(None);
    };
    machine::fs::read(&path).map(Some)
}

/// Renders a text with the variables that Salt offers to the templates of commands and scripts.
pub(crate) fn rendered(
    cx: &Exec,
    text: &str,
    engine: &str,
    options: &Map,
) -> Result<String, Error> {
    let failed = |error: render::Error| Error::refused(error.to_string());
    // The pipe is created without the text because the first line of a script names its
    // interpreter, not a renderer.
    let pipe = Pipe::from_text("", engine, &*ExecHost::in_state_tree(cx)).map_err(|_| {
        Error::refused(format!(
            "Attempted to render file paths with unavailable engine {engine}"
        ))
    })?;
    let given = options.get("pillar").and_then(Value::as_map).cloned();
    let cx = match given {
        Some(pillar) => &cx.with_override(Some(pillar)),
        None => cx,
    };
    let mut variables = Map::new()
        .with("pillar", cx.pillar()?)
        .with("grains", cx.grains())
        .with("opts", cx.opts().map.clone())
        .with("saltenv", cx.saltenv.as_str());
    variables.update(
        options
            .get("context")
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default(),
    );
    let context = Context {
        name: "the command".into(),
        saltenv: cx.saltenv.clone(),
        variables,
        ..Context::default()
    };
    let rendered = pipe.render(text, &context, &ExecHost::in_state_tree(cx));
    Ok(rendered.map_err(failed)?.text)
}

/// Runs `cmd.exec_code_all` with its options in a dictionary.
pub(super) fn code(
    cx: &Exec,
    lang: &str,
    code: &str,
    args: &Value,
    options: Map,
) -> Result<Map, Error> {
    let runas = options.get("runas").filter(|user| user.is_true());
    let file = Temporary::written("", code.as_bytes(), runas)?;
    let mut words = vec![lang.to_owned(), file.path().display().to_string()];
    match args {
        Value::Str(word) => words.push(word.to_string()),
        other => words.extend(arguments(other)?),
    }
    run_all_with(cx, &words.into(), &options.with("python_shell", false))
}

fn extension(source: &str) -> &str {
    let path = source.split('?').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let stem = name.trim_start_matches('.');
    stem.rfind('.')
        .and_then(|dot| stem.get(dot..))
        .unwrap_or("")
}
