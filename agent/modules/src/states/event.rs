//! The `event` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Fire events.
    #[facts(effects = Effects::Command, free_arguments = true)]
    mod event;

    /// Fire an event.
    ///
    ///     myapp/deployed:
    ///       event.send:
    ///         - data:
    ///             version: '2.1'
    fn send(Send {
        #[group] event: Event,
        ..kwargs
    });

    /// The same as `event.send`.
    ///
    ///     myapp/deployed:
    ///       event.fire_master:
    ///         - data:
    ///             version: '2.1'
    fn fire_master(FireMaster {
        #[group] event: Event,
        ..kwargs
    });

    /// Fire an event only when a watched state changes something.
    ///
    ///     myapp/changed:
    ///       event.wait:
    ///         - watch:
    ///           - file: /etc/app.conf
    fn wait(Wait {
        /// The tag.
        name: String,
        /// The name of the watching function.
        sfun: Value = Value::Null,
        /// The data.
        data: Value = Value::Null,
    });

    /// Fire the event because a watched state changed something.
    ///
    ///     myapp/changed:
    ///       event.send:
    ///         - watch:
    ///           - file: /etc/app.conf
    fn mod_watch(ModWatch {
        #[group] event: Event,
        ..kwargs
    });
}

state::argument_group! {
    /// The event to fire.
    pub(crate) struct Event {
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
    }
}

fn send(cx: &Exec, args: Send) -> Result<Ret, Error> {
    fired(cx, args.event, args.kwargs)
}

fn fire_master(cx: &Exec, args: FireMaster) -> Result<Ret, Error> {
    fired(cx, args.event, args.kwargs)
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    fired(cx, args.event, args.kwargs)
}

fn wait(_cx: &Exec, _args: Wait) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn fired(cx: &Exec, event: Event, kwargs: Map) -> Result<Ret, Error> {
    let (tag, data) = (event.name, event.data);
    let changes = if event.show_changed {
        Map::new()
            .with("tag", tag.as_str())
            .with("data", data.clone())
    } else {
        Map::new()
    };
    let would = Ret::would("Event would have been fired").changes(changes.clone());
    cx.apply(would, || {
        let kwargs = kwargs
            .with("preload", event.preload)
            .with("with_env", event.with_env)
            .with("with_grains", event.with_grains)
            .with("with_pillar", event.with_pillar)
            .with("data", data);
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
