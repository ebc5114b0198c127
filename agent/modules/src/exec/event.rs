//! The `event` execution module: fires events.

use state::exec::Exec;
use state::module::Error;
use state::targets::minion_event;
use value::{Map, Value, log};

state::exec_module! {
    /// Fire events.
    mod event;

    /// Fire an event with the given data, optionally with environment variables, grains and pillar
    /// of this machine.
    ///
    ///     salt-call event.send myapp/deployed '{version: 2}'
    fn send(Send {
        /// The tag of the event.
        tag: String,
        /// The data of the event.
        data: Value = Value::Null,
        /// Accepted and ignored.
        preload: Value = Value::Null,
        /// True to include all environment variables, or a list of their names.
        with_env: Value = false.into(),
        /// True to include all grains, or a list of their names.
        with_grains: Value = false.into(),
        /// True to include the whole pillar, or a list of its keys.
        with_pillar: Value = false.into(),
        /// True to include the names of the Salt environment and the pillar environment.
        with_env_opts: bool = false,
        ..kwargs
    });

    /// Fire an event on this machine.
    ///
    ///     salt-call event.fire '{version: 2}' myapp/deployed
    fn fire(Fire {
        /// The data of the event.
        data: Map,
        /// The tag of the event.
        tag: String,
    });

    /// Fire an event on the master.
    ///
    ///     salt-call event.fire_master '{version: 2}' myapp/deployed
    fn fire_master(FireMaster {
        /// The data of the event.
        data: Map,
        /// The tag of the event.
        tag: String,
        /// Accepted and ignored.
        preload: Value = Value::Null,
    });
}

fn send(cx: &Exec, args: Send) -> Result<Value, Error> {
    let mut data = Map::new();
    if args.with_env.is_true() {
        let all = std::env::vars_os().map(|(key, value)| (lossy(&key), lossy(&value)));
        data.insert("environ", chosen(all.collect(), &args.with_env));
    }
    if args.with_grains.is_true() {
        data.insert("grains", chosen(cx.grains(), &args.with_grains));
    }
    if args.with_pillar.is_true() {
        data.insert("pillar", chosen(cx.pillar()?, &args.with_pillar));
    }
    if args.with_env_opts {
        data.insert("saltenv", cx.saltenv.as_str());
        data.insert("pillarenv", cx.pillarenv.clone());
    }
    data.update(args.kwargs);
    if let Value::Map(given) = args.data {
        data.update(given);
    }
    sent(cx, &args.tag, data)
}

fn lossy(text: &std::ffi::OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// Returns the whole dictionary, or only the keys in a list.
fn chosen(all: Map, which: &Value) -> Map {
    match which.as_list() {
        None => all,
        Some(keys) => all
            .into_iter()
            .filter(|(key, _)| keys.contains(key))
            .collect(),
    }
}

/// Fires an event in the form in which this minion sends it to a master, with the minion's id.
fn sent(cx: &Exec, tag: &str, data: Map) -> Result<Value, Error> {
    fired(cx, tag, minion_event(cx.opts().id(), tag, data))
}

fn fired(cx: &Exec, tag: &str, data: Map) -> Result<Value, Error> {
    let fired = cx.shared.targets.fire(cx, tag, data);
    if let Err(error) = &fired {
        log::error(format_args!("cannot fire the event {tag}: {error}"));
    }
    Ok(fired.is_ok().into())
}

fn fire(cx: &Exec, args: Fire) -> Result<Value, Error> {
    fired(cx, &args.tag, args.data)
}

fn fire_master(cx: &Exec, args: FireMaster) -> Result<Value, Error> {
    sent(cx, &args.tag, args.data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{events_of, json};

    #[test]
    fn an_event_carries_what_was_asked_for() {
        let (cx, events) = events_of(Map::new(), json(r#"{"a": 1, "b": 2}"#));
        let kwargs = json(r#"{"with_pillar": ["b"], "x": 3, "data": {"x": 4}}"#);
        assert_eq!(
            cx.call("event.send", vec!["my/tag".into()], kwargs)
                .unwrap(),
            Value::from(true)
        );
        let events = events.lock().unwrap();
        let wanted = r#"{"id": "m1", "tag": "my/tag", "data": {"pillar": {"b": 2}, "x": 4}, "cmd": "_minion_event"}"#;
        assert_eq!(events.as_slice(), [("my/tag".to_owned(), json(wanted))]);
    }
}
