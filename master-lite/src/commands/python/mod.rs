//! The requests of Python programs (`salt.client`, `salt.runner`, `salt.wheel`), which `pinch answer`
//! passes to the master of this machine.

use std::path::Path;

use cli::config;
use cli::options::{SALT, parse_input};
use render::yaml::SaltYaml;
use value::{Map, Value};
use wire::{Login, Publish, Request, Runner, Secret, Wheel};

use crate::commands::local_client::{AskError, Each, Master, Socket};
use modules::loader::call::joined;

/// The files of the Python package that only a build with a master has.
pub const PYTHON_PACKAGE: &[(&str, &str)] = &[("salt/_master.py", include_str!("_master.py"))];

/// The name of one of Salt's exceptions, and its text.
pub type PythonError = (&'static str, String);

/// Returns the options of a master with this folder of the configuration.
///
/// # Errors
/// When they cannot be read.
pub fn master_options(folder: &Path) -> Result<Map, String> {
    let loaded = config::load_master(folder, SALT.name, Map::new(), &SaltYaml);
    Ok(loaded.map_err(|error| error.to_string())?.opts)
}

/// Sends a request to the master whose socket is in the folder `sock_dir` of the message. Passes
/// each part of the answer to `each`, and returns the end of the answer.
///
/// # Errors
/// When the message is not a request, or the master does not answer it.
pub fn master_request(message: &Map, each: &mut Each<'_>) -> Result<Value, PythonError> {
    let request = request(message).map_err(|error| ("SaltInvocationError", error))?;
    let is_job = matches!(request, Request::Publish(_));
    let mut part = |value| each(if is_job { with_lists(value) } else { value });
    let mut socket = Socket::from_opts(message);
    if let Some(login) = message.get("login").and_then(Value::as_map) {
        socket = socket.with_login(of_user(login));
    }
    let asked = socket.ask(request, &mut part);
    asked.map_err(|error| match &error {
        AskError::NotAllowed(_) | AskError::NotLoggedIn { .. } => {
            ("AuthenticationError", error.to_string())
        }
        AskError::Failed { reason, .. } if reason == "refused" => {
            ("AuthorizationError", error.to_string())
        }
        AskError::NotRunning(why) => (
            "SaltClientError",
            format!("{error} ({why}). To call functions of this machine, use salt.client.Caller"),
        ),
        _ => ("SaltClientError", error.to_string()),
    })
}

/// Returns the login of a user of `external_auth`.
fn of_user(login: &Map) -> Login {
    let text = |key: &str| login.get(key).and_then(Value::as_str).unwrap_or_default();
    Login {
        eauth: text("eauth").to_owned(),
        username: text("username").to_owned(),
        password: Secret::new(text("password")),
        token: Some(text("token"))
            .filter(|token| !token.is_empty())
            .map(Secret::new),
        expire_s: None,
        mint: false,
    }
}

/// Returns a value of a minion as Salt's transport delivers it: tuples and sets become lists.
fn with_lists(value: Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().cloned().map(with_lists)),
        Value::Tuple(items) => Value::list(items.iter().cloned().map(with_lists)),
        Value::Set(items) => Value::list(items.keys().cloned().map(with_lists)),
        Value::Map(map) => {
            let pairs = map.into_iter();
            pairs.map(|(key, value)| (key, with_lists(value))).collect()
        }
        other => other,
    }
}

fn request(message: &Map) -> Result<Request, String> {
    let arg = message.get("arg").and_then(Value::as_list);
    let arg = arg.ok_or("the request has no list `arg`")?;
    let fun = text(message, "fun")?;
    match text(message, "master")?.as_str() {
        "publish" => publish(message, fun, arg),
        "runner" => Ok(Request::Runner(Runner {
            fun,
            arg: named(arg),
            jid: None,
            asynchronous: false,
            watched: false,
        })),
        "wheel" => {
            let arg = named(arg);
            Ok(Request::Wheel(Wheel { fun, arg }))
        }
        other => Err(format!("unknown request of a master: {other}")),
    }
}

fn publish(message: &Map, fun: String, arg: &[Value]) -> Result<Request, String> {
    let options = message.get("options").and_then(Value::as_map);
    let jid = text(message, "jid")?;
    let (tgt, tgt_type) = (message.get("tgt"), text(message, "tgt_type")?);
    let tgt = tgt.ok_or("the job has no `tgt`")?.clone();
    let groups = message.get("nodegroups").and_then(Value::as_map);
    let groups = groups.ok_or("the job has no `nodegroups`")?;
    value::target::check(&tgt, &tgt_type, groups)?;
    Ok(Request::Publish(Publish {
        tgt,
        tgt_type,
        arg: match fun.contains(',') {
            true => arg.iter().map(named_in_list).collect(),
            false => named(arg),
        },
        fun,
        ret: text(message, "ret")?,
        jid: Some(jid).filter(|jid| !jid.is_empty()),
        timeout_s: message.get("timeout").and_then(Value::as_float),
        options: options.ok_or("the job has no `options`")?.clone(),
    }))
}

fn text(message: &Map, key: &str) -> Result<String, String> {
    let text = message.get(key).and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| format!("the request has no text `{key}`"))
}

/// Makes named arguments of the texts `name=value`, as a minion of Salt does. Other texts stay as
/// they are.
fn named(arg: &[Value]) -> Vec<Value> {
    let (mut args, mut kwargs) = (Vec::new(), Map::new());
    for value in arg {
        let word = value.as_str().filter(|word| !word.starts_with(['\'', '"']));
        let read = word.map(|word| parse_input(&[word.to_owned()], &[], &SaltYaml).kwargs);
        match (read, value) {
            (Some(read), _) if !read.is_empty() => kwargs.update(read),
            (_, Value::Map(map)) if map.get("__kwarg__").is_some_and(Value::is_true) => {
                kwargs.update(map.clone());
            }
            _ => args.push(value.clone()),
        }
    }
    joined(args, kwargs)
}

/// Does the same with the arguments of one of several functions.
fn named_in_list(arg: &Value) -> Value {
    match arg.as_list() {
        Some(list) => Value::list(named(list)),
        None => arg.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fun: &str, arg: Value) -> Map {
        let mut message = Map::new().with("arg", arg).with("tgt", "*");
        for (key, text) in [
            ("master", "publish"),
            ("fun", fun),
            ("tgt_type", "glob"),
            ("ret", ""),
            ("jid", ""),
        ] {
            message.insert(key, text);
        }
        let message = message.with("nodegroups", Map::new());
        message.with("options", Map::new()).with("timeout", 2.5)
    }

    fn published(message: &Map) -> Publish {
        match request(message) {
            Ok(Request::Publish(job)) => job,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn texts_with_a_name_become_named_arguments_and_other_texts_stay() {
        let kwarg = Map::new().with("b", "2").with("__kwarg__", true);
        let arg = Value::list(["1".into(), "a=[1]".into(), "x: y".into(), kwarg.into()]);
        let job = published(&message("test.arg", arg));
        let named = Map::new()
            .with("a", Value::list([Value::Int(1)]))
            .with("b", "2")
            .with("__kwarg__", true);
        assert_eq!(job.arg, ["1".into(), "x: y".into(), named.into()]);
        assert_eq!((job.timeout_s, job.jid), (Some(2.5), None));
    }

    #[test]
    fn several_functions_have_a_list_of_arguments_each() {
        let lists = [Value::list([]), Value::list(["a=1".into()])];
        let job = published(&message("test.ping,test.arg", Value::list(lists)));
        let named = Map::new().with("a", Value::Int(1)).with("__kwarg__", true);
        let second = Value::list([named.into()]);
        assert_eq!(job.arg, [Value::list([]), second]);
    }

    #[test]
    fn a_target_that_is_not_well_formed_is_not_sent() {
        let job = message("test.ping", Value::list([])).with("tgt_type", "compound");
        assert!(request(&job.clone().with("tgt", "m1 or m2")).is_ok());
        assert!(request(&job.with("tgt", "m1 and (")).is_err());
    }

    #[test]
    fn a_request_without_a_field_is_refused_by_its_name() {
        let mut short = message("test.ping", Value::list([]));
        short.remove("tgt_type");
        let refused = request(&short).map(|request| request.kind());
        assert_eq!(
            refused,
            Err("the request has no text `tgt_type`".to_owned())
        );
        let none = master_request(&short, &mut |_| std::ops::ControlFlow::Continue(()));
        assert_eq!(none.map_err(|(kind, _)| kind), Err("SaltInvocationError"));
    }
}
