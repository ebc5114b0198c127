//! The `beacon` state module: manages the beacons of the running minion.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Manage the beacons of a running minion, which watch the system and send events.
    #[facts(effects = Effects::Files(&[]), free_arguments = true)]
    mod beacon;

    /// Make sure that a beacon exists with the given settings.
    ///
    ///     load:
    ///       beacon.present:
    ///         - save: True
    ///         - interval: 60
    ///         - averages:
    ///             1m: [0.0, 4.0]
    fn present(Present {
        /// The name of the beacon.
        name: String,
        /// True to write the beacon also to the configuration.
        save: bool = false,
        ..kwargs
    });

    /// Make sure that a beacon does not exist.
    ///
    ///     load:
    ///       beacon.absent:
    ///         - save: True
    fn absent(Absent {
        /// The name of the beacon.
        name: String,
        /// True to remove the beacon also from the configuration.
        save: bool = false,
        ..kwargs
    });

    /// Make sure that a beacon is enabled.
    ///
    ///     load:
    ///       beacon.enabled
    fn enabled(Enabled {
        /// The name of the beacon.
        name: String,
        ..kwargs
    });

    /// Make sure that a beacon is disabled.
    ///
    ///     load:
    ///       beacon.disabled
    fn disabled(Disabled {
        /// The name of the beacon.
        name: String,
        ..kwargs
    });
}

/// Returns the settings of a beacon, or `None` if it does not exist.
fn current(cx: &Exec, name: &str, kwargs: &Map) -> Result<Option<Value>, Error> {
    let kwargs = kwargs.clone().with("return_yaml", false);
    let all = cx.call_internal("beacons.list", Vec::new(), kwargs)?;
    Ok(all.get(name).cloned())
}

/// Calls a function of the `beacons` module. The comment of the return is the function's own if it
/// fails or in test mode, and `done` otherwise.
fn call_beacons(
    cx: &Exec,
    fun: &str,
    name: &str,
    data: Option<Value>,
    kwargs: &Map,
    done: String,
) -> Result<Ret, Error> {
    let mut kwargs = kwargs.clone();
    if cx.test {
        kwargs.insert("test", true);
    }
    let given = [Value::from(name)].into_iter().chain(data).collect();
    let answer = cx.call_internal(&format!("beacons.{fun}"), given, kwargs)?;
    let text = answer.get("comment").map(Value::to_text);
    let text = text.unwrap_or_default();
    if !cx.test && !answer.get("result").is_some_and(Value::is_true) {
        return Ok(Ret::failed(text));
    }
    let changes = answer.get("changes").cloned();
    let is_done = !cx.test && (fun != "modify" || changes.is_some());
    let ret = Ret::ok(if is_done { done } else { text });
    Ok(ret.changes(changes.unwrap_or_else(|| Map::new().into())))
}

/// Saves the beacons if `save` is set, and adds this to the comment.
fn saved(cx: &Exec, name: &str, save: bool, ret: Ret) -> Result<Ret, Error> {
    if !save || ret.result == Some(false) {
        return Ok(ret);
    }
    let is = if cx.test { "would be" } else { "" };
    if !cx.test {
        cx.call_internal("beacons.save", Vec::new(), Map::new())?;
    }
    let comment = format!("{}\nBeacon {name} {is} saved", ret.comment).replace("  ", " ");
    Ok(Ret { comment, ..ret })
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (name, kwargs) = (args.name.as_str(), &args.kwargs);
    let settings = kwargs.iter();
    let data: Value = Value::list(
        settings.map(|(key, value)| [(key.clone(), value.clone())].into_iter().collect()),
    );
    let ret = match current(cx, name, kwargs)? {
        Some(current) if current == data => Ret::ok(format!("Job {name} in correct state")),
        Some(_) => {
            let done = format!("Modifying {name} in beacons");
            call_beacons(cx, "modify", name, Some(data), kwargs, done)?
        }
        None => {
            let done = format!("Adding {name} to beacons");
            call_beacons(cx, "add", name, Some(data), kwargs, done)?
        }
    };
    saved(cx, name, args.save, ret)
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, kwargs) = (args.name.as_str(), &args.kwargs);
    let ret = match current(cx, name, kwargs)? {
        Some(_) => {
            let done = format!("Removed {name} from beacons");
            call_beacons(cx, "delete", name, None, kwargs, done)?
        }
        None => Ret::ok(format!("{name} not configured in beacons")),
    };
    saved(cx, name, args.save, ret)
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    let (name, kwargs) = (args.name.as_str(), &args.kwargs);
    if current(cx, name, kwargs)?.is_none() {
        return Ok(Ret::ok(format!("{name} not a configured beacon")));
    }
    let done = format!("Enabled {name} from beacons");
    call_beacons(cx, "enable_beacon", name, None, kwargs, done)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    let (name, kwargs) = (args.name.as_str(), &args.kwargs);
    if current(cx, name, kwargs)?.is_none() {
        return Ok(Ret::ok(format!("Job {name} is not configured.")));
    }
    let done = format!("Disabled beacon {name}.");
    call_beacons(cx, "disable_beacon", name, None, kwargs, done)
}

state::argument_group! {
    /// The arguments of `mod_beacon` in each module.
    pub(super) struct Wanted {
        /// The function of the state.
        sfun: Value = Value::Null,
        /// True to add a beacon.
        beacon: Value = Value::Null,
        /// Settings of the beacon. The others have their defaults.
        beacon_data: Map = Map::new(),
    }
}

impl Wanted {
    /// Adds a beacon of a kind for the state `name`, with the settings that `settings` makes of
    /// `beacon_data`. `refusal` makes the comment for functions other than `functions`.
    pub(super) fn added(
        &self,
        cx: &Exec,
        (kind, name): (&str, &str),
        functions: &[&str],
        refusal: impl Fn(&str) -> String,
        settings: impl Fn(&Map) -> Map,
    ) -> Result<Ret, Error> {
        let sfun = self.sfun.to_text();
        if !functions.contains(&sfun.as_str()) {
            return Ok(Ret::failed(refusal(&sfun)));
        }
        if !self.beacon.is_true() {
            return Ok(Ret::ok("Not adding beacon."));
        }
        let name = format!("beacon_{kind}_{name}");
        let wanted = Present {
            name: name.clone(),
            save: false,
            kwargs: settings(&self.beacon_data).with("beacon_module", kind),
        };
        let ret = present(cx, wanted)?;
        Ok(Ret {
            name: Some(name),
            ..ret
        })
    }
}

/// Returns a setting of `beacon_data`, or its default.
pub(super) fn default(data: &Map, name: &str, default: Value) -> Value {
    data.get(name).cloned().unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use crate::testing::{apply, exec, json};

    #[test]
    fn a_state_adds_a_beacon_only_on_request_and_of_supported_functions() {
        let cx = exec();
        let comment = |full: &str, kwargs: &str| {
            let ret = apply(&cx, full, json(kwargs)).unwrap();
            (ret.result, ret.comment)
        };
        for (module, function) in [
            ("file", "managed"),
            ("pkg", "installed"),
            ("service", "running"),
        ] {
            let full = format!("{module}.mod_beacon");
            let not = format!(r#"{{"name": "x", "sfun": "{function}", "beacon": false}}"#);
            let not = comment(&full, &not);
            assert_eq!(not, (Some(true), "Not adding beacon.".to_owned()), "{full}");
            let other = r#"{"name": "x", "sfun": "other", "beacon": true}"#;
            let (result, text) = comment(&full, other);
            assert_eq!(result, Some(false), "{full}");
            let start = format!("{module}.other does not work with the ");
            assert!(text.starts_with(&start), "{text}");
        }
    }
}
