//! The `event` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Fire events.
    #[facts(effects = Effects::Command)]
    mod event;

    /// Fire an event.
    fn send(Send {
        /// The tag.
        name: String,
        /// The data.
        data: Value = Value::Null,
        /// Accepted but ignored.
        preload: Value = Value::Null,
        /// True to add all environment variables to the data, or a list of the variables to add.
        with_env: Value = false.into(),
        /// True to add all grains to the data, or a list of the grains to add.
        with_grains: Value = false.into(),
        /// True to add the whole pillar to the data, or a list of the keys to add.
        with_pillar: Value = false.into(),
        /// True to report the event as a change.
        show_changed: bool = true,
        ..kwargs
    });

    /// The same as `event.send`.
    fn fire_master(FireMaster {
        /// The tag.
        name: String,
        /// The data.
        data: Value = Value::Null,
        ..kwargs
    });

    /// Fire an event only when a watched state changes something.
    fn wait(Wait {
        /// The tag.
        name: String,
        /// The name of the watching function.
        sfun: Value = Value::Null,
        /// The data.
        data: Value = Value::Null,
    });

    /// Fire the event because a watched state changed something.
    fn mod_watch(ModWatch {
        /// The tag.
        name: String,
        /// The data.
        data: Value = Value::Null,
        ..kwargs
    });
}

fn send(cx: &Exec, args: Send) -> Result<Ret, Error> {
    let kwargs = args
        .kwargs
        .with("preload", args.preload)
        .with("with_env", args.with_env)
        .with("with_grains", args.with_grains)
        .with("with_pillar", args.with_pillar)
        .with("show_changed", args.show_changed);
    fired(cx, &args.name, args.data, kwargs)
}

fn fire_master(cx: &Exec, args: FireMaster) -> Result<Ret, Error> {
    fired(cx, &args.name, args.data, args.kwargs)
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    fired(cx, &args.name, args.data, args.kwargs)
}

fn wait(_cx: &Exec, _args: Wait) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn fired(cx: &Exec, tag: &str, data: Value, mut kwargs: Map) -> Result<Ret, Error> {
    let shown = kwargs.remove("show_changed");
    let changes = if shown.is_none_or(|shown| shown.is_true()) {
        Map::new().with("tag", tag).with("data", data.clone())
    } else {
        Map::new()
    };
    let would = Ret::would("Event would have been fired").changes(changes.clone());
    cx.apply(would, || {
        let kwargs = kwargs.with("data", data);
        let sent = cx.call_internal("event.send", vec![tag.into()], kwargs)?;
        Ok(Ret {
            result: sent.as_bool(),
            ..Ret::ok("Event fired").changes(changes)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{apply, events_of, json};

    #[test]
    fn an_event_is_fired_once_and_never_in_test_mode() {
        let (mut cx, events) = events_of(Map::new(), Map::new());
        let kwargs = json(r#"{"name": "my/tag", "data": {"a": 1}}"#);
        cx.test = true;
        let ret = apply(&cx, "event.send", kwargs.clone()).unwrap();
        assert_eq!(
            (ret.result, ret.comment.as_str()),
            (None, "Event would have been fired")
        );
        assert!(events.lock().unwrap().is_empty());
        cx.test = false;
        let ret = apply(&cx, "event.send", kwargs).unwrap();
        assert_eq!(
            (ret.result, ret.comment.as_str()),
            (Some(true), "Event fired")
        );
        assert_eq!(
            value::python::repr(&ret.changes),
            "{'tag': 'my/tag', 'data': {'a': 1}}"
        );
        assert_eq!(events.lock().unwrap().len(), 1);
    }
}
