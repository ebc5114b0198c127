//! Sources of top file data in addition to the top files (`master_tops`): the command of
//! `ext_nodes`, and custom modules of `_tops`. If a source fails, that is an error; its data is never
//! taken as empty.

use value::{Map, Value, merge};

use crate::custom::Kind;
use crate::exec::Exec;
use crate::module::Error;

/// The source that runs a command.
const EXT_NODES: &str = "ext_nodes";

/// The maximum time in seconds that the command may take.
const TIMEOUT_S: i64 = 60;

/// Returns the SLS that the sources of this machine's configuration assign to a minion, by
/// environment. The minion is that of the context.
///
/// # Errors
/// The reason why a source provides no data.
pub fn load(cx: &Exec) -> Result<Map, Error> {
    let mut all = Map::new();
    let sources = cx.opts().get("master_tops").and_then(Value::as_map);
    for (name, settings) in sources.into_iter().flatten() {
        let name = name.to_text();
        let found = source(cx, &name, settings).and_then(checked);
        let found =
            found.map_err(|error| Error::refused(format!("master_tops: {name}: {error}")))?;
        all = merge::recurse(&all, &found, true);
    }
    Ok(all)
}

fn source(cx: &Exec, name: &str, settings: &Value) -> Result<Value, Error> {
    if cx.is_disabled(Kind::Top, name) {
        return Err("it is disabled by disable_tops".into());
    }
    let may_be_custom = name != EXT_NODES || cx.shared.custom.has_file(Kind::Top, name);
    if may_be_custom && let Some(found) = custom(cx, name) {
        return found;
    }
    match name {
        EXT_NODES => ext_nodes(cx, &settings.to_text()),
        _ => Err(Error::refused(format!(
            "unknown source; expected {EXT_NODES} or a file of _tops that saltutil.sync_tops has copied"
        ))),
    }
}

/// Calls the custom module of this name. Returns `None` if there is none.
fn custom(cx: &Exec, name: &str) -> Option<Result<Value, Error>> {
    let kwargs = Map::new()
        .with("opts", cx.opts().map.clone())
        .with("grains", cx.grains());
    let function = format!("{name}.top");
    let custom = &cx.shared.custom;
    custom.call_client(cx, Kind::Top, &function, Vec::new(), kwargs)
}

/// Checks that each environment has a list of names.
fn checked(found: Value) -> Result<Map, Error> {
    let found = match found {
        Value::Map(found) => found,
        other if !other.is_true() => return Ok(Map::new()),
        other => {
            return Err(Error::refused(format!(
                "it must return a dictionary, but returned a {}",
                other.type_name()
            )));
        }
    };
    let is_names = |names: &Value| {
        let names = names.as_list();
        names.is_some_and(|names| names.iter().all(|name| name.as_str().is_some()))
    };
    match found.iter().find(|(_, names)| !is_names(names)) {
        None => Ok(found),
        Some((env, _)) => Err(Error::refused(format!(
            "the SLS of the environment {} are not a list of names",
            env.as_text()
        ))),
    }
}

/// Runs the command with the id of the minion. It prints YAML with `classes` and `environment`.
fn ext_nodes(cx: &Exec, command: &str) -> Result<Value, Error> {
    let id = cx.opts().id();
    if id.contains('\'') {
        return Err(Error::refused(format!("the id {id} contains a quote")));
    }
    let line = format!("{command} '{id}'");
    let options = Map::new()
        .with("python_shell", false)
        .with("timeout", TIMEOUT_S);
    let done = cx.call_internal("cmd.run_all", vec![line.as_str().into()], options)?;
    let text = |key| done.get(key).map(Value::to_text).unwrap_or_default();
    if done.get("retcode") != Some(&Value::Int(0)) {
        let (code, stderr) = (text("retcode"), text("stderr"));
        return Err(Error::refused(format!(
            "{line} failed with exit status {code}: {stderr}"
        )));
    }
    let data = render::yaml::load(&text("stdout"))
        .map_err(|error| Error::refused(format!("{line}: {}", error.salt_message())))?;
    let Value::Map(data) = data else {
        return Err(Error::refused(format!(
            "{line} must print a dictionary, but printed a {}",
            data.type_name()
        )));
    };
    let env = data.get("environment").map(Value::to_text);
    let env = env.unwrap_or_else(|| "base".into());
    Ok(match data.get("classes") {
        Some(Value::Map(classes)) => {
            let names = Value::list(classes.keys().cloned());
            Map::new().with(&env, names).into()
        }
        Some(Value::List(classes)) => Map::new().with(&env, Value::List(classes.clone())).into(),
        _ => {
            value::log::info(
                "master_tops ext_nodes call did not have a dictionary with a \"classes\" key.",
            );
            Value::Null
        }
    })
}
