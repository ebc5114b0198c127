//! The part of the `state` execution module in which one user requests a run and another one starts
//! it.

use std::path::PathBuf;

use ::state::exec::Exec;
use ::state::module::Error;
use value::{Map, Value};

use super::data::{read, write};

::state::exec_module! {
    /// Apply states to this machine, and show their data.
    mod state;

    /// Request a run: report what it would change, and store the request for `state.run_request`.
    ///
    ///     salt-call state.request nginx
    #[facts(outputter = "highstate")]
    fn request(Request {
        /// The names of the SLS files, as for `state.apply`.
        mods: Value = Value::Null,
        ..kwargs
    });

    /// Return the stored requests.
    ///
    ///     salt-call state.check_request
    #[facts(outputter = "highstate")]
    fn check_request(CheckRequest {
        /// The name of the request; all requests if not given.
        name: Option<String> = None,
    });

    /// Remove stored requests without running them.
    ///
    ///     salt-call state.clear_request
    fn clear_request(ClearRequest {
        /// The name of the request; all requests if not given.
        name: Option<String> = None,
    });

    /// Run a stored request.
    ///
    ///     salt-call state.run_request
    #[facts(outputter = "highstate")]
    fn run_request(RunRequest {
        /// The name of the request.
        name: String = "default".into(),
        ..kwargs
    });
}

fn place(cx: &Exec) -> PathBuf {
    cx.opts().cachedir().join("req_state.json")
}

/// Returns the keywords of a call without those that Salt adds.
fn own(kwargs: Map) -> Map {
    let is_own = |key: &Value| !key.to_text().starts_with("__");
    kwargs.into_iter().filter(|(key, _)| is_own(key)).collect()
}

fn request(cx: &Exec, args: Request) -> Result<Value, Error> {
    let kwargs = own(args.kwargs).with("test", true);
    let given = vec![args.mods.clone()];
    let ret = cx.call_internal("state.apply", given, kwargs.clone())?;
    let name = kwargs
        .get("name")
        .map_or_else(|| "default".into(), Value::to_text);
    let asked = Map::new()
        .with("test_run", ret.clone())
        .with("mods", args.mods)
        .with("kwargs", kwargs);
    let all = read(&place(cx))?.with(&name, asked);
    write(cx, &place(cx), all)?;
    Ok(ret)
}

fn check_request(cx: &Exec, args: CheckRequest) -> Result<Value, Error> {
    let all = read(&place(cx))?;
    match args.name.filter(|name| !name.is_empty()) {
        None => Ok(all.into()),
        Some(name) => all
            .get(name.as_str())
            .cloned()
            .ok_or_else(|| Error::refused(format!("No request named '{name}'"))),
    }
}

fn clear_request(cx: &Exec, args: ClearRequest) -> Result<Value, Error> {
    let mut all = read(&place(cx))?;
    if all.is_empty() {
        return Ok(true.into());
    }
    match args.name.filter(|name| !name.is_empty()) {
        None => all = Map::new(),
        Some(name) if all.remove(name.as_str()).is_none() => return Ok(false.into()),
        Some(_) => {}
    }
    write(cx, &place(cx), all)?;
    Ok(true.into())
}

fn run_request(cx: &Exec, args: RunRequest) -> Result<Value, Error> {
    let all = read(&place(cx))?;
    let Some(asked) = all.get(args.name.as_str()) else {
        return Ok(Map::new().into());
    };
    let mods = asked.get("mods").cloned().unwrap_or_default();
    let mut kwargs = asked
        .get("kwargs")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    kwargs.update(own(args.kwargs));
    kwargs.remove("test");
    let ret = cx.call_internal("state.apply", vec![mods], kwargs)?;
    write(cx, &place(cx), Map::new())?;
    Ok(ret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn what_is_asked_for_changes_nothing_until_it_is_let_happen() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = |name: &str| path(name).to_string_lossy().into_owned();
        std::fs::create_dir(path("srv")).unwrap();
        let sls = format!("{}:\n  file.touch: []\n", text("made"));
        std::fs::write(path("srv/touch.sls"), sls).unwrap();
        let opts = Map::new()
            .with("id", "m1")
            .with("cachedir", text("cache"))
            .with("root_for_files", text("srv"));
        let cx = testing::exec_with(opts, Map::new());
        let call = |fun: &str, args: &[&str]| {
            let args = args.iter().map(|arg| Value::from(*arg)).collect();
            cx.call(fun, args, Map::new()).unwrap()
        };
        call("state.request", &["touch"]);
        assert!(!path("made").exists());
        let asked = call("state.check_request", &["default"]);
        assert_eq!(asked.get("mods"), Some(&"touch".into()));
        assert_eq!(call("state.clear_request", &["other"]), false.into());
        call("state.run_request", &[]);
        assert!(path("made").exists());
        assert_eq!(call("state.check_request", &[]), Map::new().into());
        assert_eq!(call("state.run_request", &[]), Map::new().into());
        call("state.request", &["touch"]);
        assert_eq!(call("state.clear_request", &[]), true.into());
        assert_eq!(call("state.check_request", &[]), Map::new().into());
    }
}
