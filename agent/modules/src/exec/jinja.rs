//! The `jinja` execution module.

use state::exec::Exec;
use state::host::ExecHost;
use state::module::Error;
use value::{Map, Value};

use crate::fileserver::template;

state::exec_module! {
    /// Inspect the results of Jinja map files and imports.
    #[facts(pure = true)]
    mod jinja;

    /// Return the value of a variable that a map file sets.
    ///
    ///     salt-call jinja.load_map app/map.jinja app
    fn load_map(LoadMap {
        /// The path of the map file below the file roots.
        path: String,
        /// The variable.
        value: String,
    });

    /// Return the result of `import_yaml` for a file.
    ///
    ///     salt-call jinja.import_yaml app/defaults.yaml
    fn import_yaml(ImportYaml {
        /// The path of the file below the file roots.
        path: String,
    });

    /// Return the result of `import_json` for a file.
    ///
    ///     salt-call jinja.import_json app/defaults.json
    fn import_json(ImportJson {
        /// The path of the file below the file roots.
        path: String,
    });
}

fn load_map(cx: &Exec, args: LoadMap) -> Result<Value, Error> {
    let (path, value) = (args.path, args.value);
    rendered(
        cx,
        &path,
        &format!(
            "{{% from \"{path}\" import {value} with context %}}\n{{{{ {value} | tojson }}}}\n"
        ),
    )
}

fn import_yaml(cx: &Exec, args: ImportYaml) -> Result<Value, Error> {
    let path = args.path;
    rendered(
        cx,
        &path,
        &format!("{{% import_yaml \"{path}\" as imported %}}\n{{{{ imported | tojson }}}}\n"),
    )
}

fn import_json(cx: &Exec, args: ImportJson) -> Result<Value, Error> {
    let path = args.path;
    rendered(
        cx,
        &path,
        &format!("{{% import_json \"{path}\" as imported %}}\n{{{{ imported | tojson }}}}\n"),
    )
}

/// Renders a text that imports a file. As in Salt, the text has no folder (`tpldir`), and `./x` is
/// relative to the folder of the imported file.
fn rendered(cx: &Exec, path: &str, text: &str) -> Result<Value, Error> {
    let renderer = cx.opts().text("renderer").unwrap_or("jinja|yaml");
    let place = Map::new()
        .with("tplfile", ":string:")
        .with("tpldir", ".")
        .with("tpldot", "");
    let mut context = template::context(cx, ":string:", &cx.saltenv, place)?;
    path.rsplit_once('/')
        .map_or("", |(dir, _)| dir)
        .clone_into(&mut context.dir);
    let rendered = render::render(text, renderer, &context, &ExecHost::in_state_tree(cx))
        .map_err(|error| Error::refused(error.to_string()))?;
    Ok(rendered.value)
}
