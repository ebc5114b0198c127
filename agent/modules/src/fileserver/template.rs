//! Templates of files: the effect of `template: jinja` on a source or on contents.

use state::exec::Exec;
use state::host::ExecHost;
use state::module::Error;
use value::{Map, Value};

/// Returns the error message for an unsupported template engine.
pub(crate) fn unsupported(engine: &str) -> String {
    format!("Specified template format {engine} is not supported")
}

/// Returns true for a built-in engine.
pub(crate) fn is_supported(engine: &str) -> bool {
    engine == "jinja"
}

/// Returns true for an engine that renders files: a built-in one, or one of this machine's Python.
pub(crate) fn renders_files(engine: &str) -> bool {
    is_supported(engine) || ["mako", "py"].contains(&engine)
}

/// Renders a text with the variables of a file template (`grains`, `pillar`, `opts`, `saltenv`) and
/// with `variables`, which take precedence.
///
/// # Errors
/// When it does not render.
pub(crate) fn render(
    cx: &Exec,
    name: &str,
    text: &str,
    saltenv: &str,
    variables: Map,
) -> Result<String, Error> {
    let context = context(cx, name, saltenv, variables)?;
    render::jinja::render(text, &context, &ExecHost::in_state_tree(cx))
        .map_err(|error| Error::refused(error.to_string()))
}

/// Like [`render()`], for a file. The file may also be a Python program (`template: py`) or a
/// template of Mako.
///
/// # Errors
/// When it does not render.
pub(crate) fn render_file(
    cx: &Exec,
    engine: &str,
    file: &str,
    text: &str,
    saltenv: &str,
    variables: Map,
) -> Result<String, Error> {
    let variables = match engine {
        // A Python template finds its variables in one named `context`.
        "py" => Map::new().with("context", variables),
        "mako" => variables,
        _ => return render(cx, file, text, saltenv, variables),
    };
    let context = context(cx, file, saltenv, variables)?;
    let rendered = ExecHost::in_state_tree(cx).renderer(engine, "", text.into(), &context);
    rendered
        .map(|value| value.to_text())
        .map_err(Error::refused)
}

/// Returns the variables for a template.
///
/// # Errors
/// When the pillar does not render.
pub(crate) fn context(
    cx: &Exec,
    name: &str,
    saltenv: &str,
    variables: Map,
) -> Result<render::Context, Error> {
    let mut all = Map::new()
        .with("grains", cx.grains())
        .with("pillar", cx.pillar()?)
        .with("opts", cx.template_opts())
        .with("saltenv", saltenv);
    all.update(variables);
    Ok(render::Context {
        name: name.to_owned(),
        saltenv: saltenv.to_owned(),
        dir: String::new(),
        variables: all,
        jinja: options(cx),
        ..render::Context::default()
    })
}

/// Returns the names that Salt defines for a template of this path and SLS: `tplpath`, `slspath`
/// and the like.
pub(crate) fn sls_names(path: &str, sls: &str) -> Map {
    let named = sls.replace('.', "/");
    let named = named.trim_end_matches('/');
    let ends = ["", "/init"].map(|end| format!("{named}{end}.sls"));
    let file = match ends.iter().find(|end| path.ends_with(*end)) {
        _ if sls.is_empty() => path.rsplit('/').next().unwrap_or_default(),
        Some(end) => end,
        None => {
            let dir = sls.rsplit_once('/').map_or(".", |(dir, _)| dir);
            let names = Map::new().with("tplpath", path);
            return names.with("tplfile", sls).with("tpldir", dir);
        }
    };
    let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
    Map::new()
        .with("tplpath", path)
        .with("tplfile", file)
        .with("tpldir", if dir.is_empty() { "." } else { dir })
        .with("tpldot", dir.replace('/', "."))
        .with("slspath", dir)
        .with("slsdotpath", dir.replace('/', "."))
        .with("slscolonpath", dir.replace('/', ":"))
        .with("sls_path", dir.replace('/', "_"))
}

fn options(cx: &Exec) -> render::JinjaOptions {
    let opts = cx.opts();
    let of_env = |key: &str| {
        let env = opts.get("jinja_env").and_then(Value::as_map);
        env.and_then(|env| env.get(key)).is_some_and(Value::is_true)
    };
    render::JinjaOptions {
        trim_blocks: opts.flag("jinja_trim_blocks") || of_env("trim_blocks"),
        lstrip_blocks: opts.flag("jinja_lstrip_blocks") || of_env("lstrip_blocks"),
        allow_undefined: opts.flag("allow_undefined"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from `generate_sls_context` of Salt 3008.5.
    #[test]
    fn a_template_has_the_names_that_salt_gives_it() {
        let names = |path: &str, sls: &str| {
            let names = sls_names(path, sls);
            let keys = ["tplfile", "tpldir", "tpldot", "slspath", "slscolonpath"];
            keys.map(|key| names.get(key).map(Value::to_text))
        };
        let some = |words: [&str; 5]| words.map(|word| Some(word.to_owned()));
        let without = some(["m.sls", ".", "", "", ""]);
        assert_eq!(names("/srv/salt/sub/m.sls", ""), without);
        let sub = some(["a/b/m.sls", "a/b", "a.b", "a/b", "a:b"]);
        assert_eq!(names("/srv/salt/a/b/m.sls", "a.b.m"), sub);
        let init = some(["a/b/init.sls", "a/b", "a.b", "a/b", "a:b"]);
        assert_eq!(names("/srv/salt/a/b/init.sls", "a.b"), init);
        let [file, dir, dot, ..] = names("/srv/salt/sub/m.sls", "a.b");
        assert_eq!(
            (file.as_deref(), dir.as_deref(), dot),
            (Some("a.b"), Some("."), None)
        );
    }
}
