//! Finds and renders the SLS files of a tree, for states and for pillar.

use std::time::Instant;

use render::{Allowed, Context, JinjaOptions, Rendered};
use value::glob::{fnmatch, is_glob};
use value::{Map, Value, log};

use crate::exec::Exec;
use crate::host::{ExecHost, Tree};
use crate::module::Error;
use crate::sources::SourceFile;

/// An SLS file that was found.
#[derive(Clone, Debug)]
pub struct SlsFile {
    /// Its file.
    pub file: SourceFile,
    /// Its path relative to its root: `nginx/init.sls`.
    pub path: String,
}

/// Finds the file of the SLS `a.b`: `a/b.sls`, else `a/b/init.sls`.
///
/// # Errors
/// When it cannot be looked up.
pub fn find(cx: &Exec, tree: &Tree, sls: &str, saltenv: &str) -> Result<Option<SlsFile>, Error> {
    let stem = sls.replace('.', "/");
    for path in [format!("{stem}.sls"), format!("{stem}/init.sls")] {
        if let Some(file) = tree.sources(cx).file(&path, saltenv)? {
            return Ok(Some(SlsFile { file, path }));
        }
    }
    Ok(None)
}

/// Returns true if an environment has an SLS of this name. No SLS has a name that contains a slash.
///
/// # Errors
/// When it cannot be looked up.
pub fn has(cx: &Exec, tree: &Tree, sls: &str, saltenv: &str) -> Result<bool, Error> {
    Ok(!sls.contains('/') && find(cx, tree, sls, saltenv)?.is_some())
}

/// Returns the names of the SLS that match a pattern of a top file or an `include`, sorted. Only a
/// glob requires a listing of the whole environment.
///
/// # Errors
/// When they cannot be looked up.
pub fn matching(
    cx: &Exec,
    tree: &Tree,
    pattern: &str,
    saltenv: &str,
) -> Result<Vec<String>, Error> {
    if !is_glob(pattern) {
        let found = has(cx, tree, pattern, saltenv)?;
        return Ok(found.then(|| pattern.to_owned()).into_iter().collect());
    }
    let mut names = names(cx, tree, saltenv)?;
    names.retain(|name| fnmatch(pattern, name));
    Ok(names)
}

/// Returns the names of all SLS of an environment, sorted.
///
/// # Errors
/// When the environment cannot be listed.
pub fn names(cx: &Exec, tree: &Tree, saltenv: &str) -> Result<Vec<String>, Error> {
    let files = tree.sources(cx).list(saltenv)?;
    let mut names: Vec<String> = files.iter().filter_map(|path| name_of(path)).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn name_of(path: &str) -> Option<String> {
    let stem = path
        .strip_suffix("/init.sls")
        .or_else(|| path.strip_suffix(".sls"))?;
    Some(stem.replace('/', "."))
}

/// Renders an SLS file, or a top file if `sls` is empty.
///
/// # Errors
/// Faults of the file, and a pillar that does not render.
pub fn render(
    cx: &Exec,
    tree: &Tree,
    found: &SlsFile,
    sls: &str,
    saltenv: &str,
    extra: &Map,
) -> Result<Rendered, render::Error> {
    let text = tree.sources(cx).text(&found.file);
    let text =
        text.map_err(|error| render::Error::new(render::Kind::Document, error.to_string()))?;
    let default = cx
        .opts()
        .text("renderer")
        .unwrap_or("jinja|yaml")
        .to_owned();
    let mut context = context(cx, found, sls, saltenv, extra)?;
    if matches!(tree, Tree::State) {
        context.shared = cx.templates.clone();
    }
    let began = Instant::now();
    let rendered = render::render(&text, &default, &context, &ExecHost::in_tree(cx, tree));
    log_render(&rendered, found, sls, saltenv, began);
    match rendered {
        // As in Salt, an SLS for a renderer that does not exist is empty, and an error is logged.
        Err(error) if error.kind == render::Kind::Renderer => {
            log::error(format_args!("{}: {}", found.file.shown, error.message));
            Ok(Rendered {
                value: Map::new().into(),
                text: String::new(),
            })
        }
        other => other,
    }
}

/// Logs the time that an SLS or a top file took to render.
fn log_render(
    rendered: &Result<Rendered, render::Error>,
    found: &SlsFile,
    sls: &str,
    saltenv: &str,
    began: Instant,
) {
    if rendered.is_err() {
        return;
    }
    let ms = began.elapsed().as_secs_f64() * 1000.0;
    let file = &found.file.shown;
    match sls {
        "" => log::debug(format_args!("rendered the top file {file} in {ms:.3} ms")),
        _ => log::debug(format_args!(
            "rendered SLS '{saltenv}:{sls}' from {file} in {ms:.3} ms"
        )),
    }
}

/// Returns the variables of the templates of an SLS (Salt's `generate_sls_context`, and those that
/// Salt adds elsewhere).
///
/// # Errors
/// When the pillar does not render.
pub fn context(
    cx: &Exec,
    found: &SlsFile,
    sls: &str,
    saltenv: &str,
    extra: &Map,
) -> Result<Context, render::Error> {
    let pillar = cx
        .pillar()
        .map_err(|error| render::Error::new(render::Kind::Document, error.to_string()))?;
    let dir = found.path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let tpldir = if sls.is_empty() || dir.is_empty() {
        "."
    } else {
        dir
    };
    let tplfile = if sls.is_empty() {
        found.path.rsplit('/').next().unwrap_or_default()
    } else {
        &found.path
    };
    let slspath = if sls.is_empty() { "" } else { dir };
    let mut variables = Map::new()
        .with("grains", cx.grains())
        .with("pillar", pillar)
        .with("opts", cx.template_opts())
        .with("saltenv", saltenv)
        .with("env", saltenv)
        .with("sls", sls)
        .with("proxy", Value::Map(Map::new()))
        .with("tplpath", found.file.path.display().to_string())
        .with("tplfile", tplfile)
        .with("tpldir", tpldir)
        .with("tpldot", slspath.replace('/', "."))
        .with("slspath", slspath)
        .with("slsdotpath", slspath.replace('/', "."))
        .with("slscolonpath", slspath.replace('/', ":"))
        .with("sls_path", slspath.replace('/', "_"));
    variables.update(extra.clone());
    Ok(Context {
        name: found.file.shown.to_string(),
        saltenv: saltenv.to_owned(),
        dir: dir.to_owned(),
        variables,
        jinja: sls_options(cx),
        renderers: Allowed {
            only: cx.opts().texts("renderer_whitelist"),
            refused: cx.opts().texts("renderer_blacklist"),
        },
        ..Context::default()
    })
}

/// Returns the Jinja options of SLS: `jinja_sls_env`, and the older `jinja_trim_blocks` and
/// `jinja_lstrip_blocks`.
fn sls_options(cx: &Exec) -> JinjaOptions {
    let opts = cx.opts();
    let env = opts
        .get("jinja_sls_env")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    let either = |key: &str, old: &str| env.get(key).is_some_and(Value::is_true) || opts.flag(old);
    JinjaOptions {
        trim_blocks: either("trim_blocks", "jinja_trim_blocks"),
        lstrip_blocks: either("lstrip_blocks", "jinja_lstrip_blocks"),
        allow_undefined: opts.flag("allow_undefined"),
    }
}
