//! Returners: the destinations of functions' returns in addition to the caller. Each has its own
//! file and a line in the table.

mod rawfile_json;
mod syslog;

use state::custom::Kind;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

/// A function that stores a return.
type Take = fn(cx: &Exec, ret: &Map) -> Result<(), Error>;

/// The built-in returners, each with its documentation. A file of the tree (`_returners`) with the
/// same name goes before one, as in Salt.
const RETURNERS: &[(&str, Take, &str)] = &[
    (
        "local_cache",
        cached,
        "Store nothing: the return is already in the master's cache and in the minion's record.",
    ),
    (
        "rawfile_json",
        rawfile_json::returner,
        "Append the return to a file as a line of JSON.",
    ),
    (
        "syslog",
        syslog::returner,
        "Send the return to the system's log as JSON.",
    ),
];

/// Returns the name and documentation of each built-in returner.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    RETURNERS.iter().map(|(name, _, doc)| (*name, *doc))
}

/// Does nothing, because a master has every return in its cache, and the record of a machine
/// contains its state runs.
fn cached(_cx: &Exec, _ret: &Map) -> Result<(), Error> {
    Ok(())
}

/// Returns the names in a comma-separated list, the format of `--return` and `ret=`, without
/// duplicates.
fn names(list: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for name in list.split(',').map(str::trim) {
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn built_in(name: &str) -> Option<Take> {
    let found = RETURNERS.iter().find(|(known, ..)| *known == name);
    found.map(|(_, take, _)| *take)
}

/// Returns the first returner of a list that does not exist.
#[must_use]
pub fn missing<'a>(cx: &Exec, list: &'a str) -> Option<&'a str> {
    let custom = || cx.shared.custom.functions(cx, Kind::Returner);
    let has = |name: &str| {
        let function = format!("{name}.returner");
        if cx.is_disabled(Kind::Returner, name) {
            return false;
        }
        built_in(name).is_some() || custom().iter().any(|(known, _)| *known == function)
    };
    names(list).into_iter().find(|name| !has(name))
}

/// Passes a return to each returner of a list. An error of a returner is logged and does not change
/// the job's result.
pub fn hand(cx: &Exec, list: &str, ret: &Map) {
    for name in names(list) {
        if let Err(error) = taken(cx, name, ret) {
            let jid = ret.get("jid").map(Value::to_text).unwrap_or_default();
            log::error(format_args!(
                "returner {name} cannot store the return of job {jid}: {error}"
            ));
        }
    }
}

/// Passes a return to a custom returner of the tree, in any language, or to the built-in one.
fn taken(cx: &Exec, name: &str, ret: &Map) -> Result<(), Error> {
    if cx.is_disabled(Kind::Returner, name) {
        return Err("it is disabled by disable_returners".into());
    }
    if let Some(done) = called(cx, name, "returner", ret.clone().into()) {
        return done;
    }
    let Some(take) = built_in(name) else {
        let known: Vec<&str> = all().map(|(known, _)| known).collect();
        return Err(Error::refused(format!(
            "unknown returner; expected one of {} or a file of _returners that saltutil.sync_returners has copied",
            known.join(", ")
        )));
    };
    take(cx, ret)
}

/// Calls a function of a custom returner. Returns `None` if there is no such function.
fn called(cx: &Exec, name: &str, function: &str, data: Value) -> Option<Result<(), Error>> {
    let custom = &cx.shared.custom;
    if built_in(name).is_some() && !custom.has_file(Kind::Returner, name) {
        return None;
    }
    let function = format!("{name}.{function}");
    let called = custom.call_client(cx, Kind::Returner, &function, vec![data], Map::new());
    called.map(|done| done.map(drop))
}

/// A function that stores events of a master.
type TakeEvents = fn(cx: &Exec, events: &[Value]) -> Result<(), Error>;

/// The built-in returners that store events of a master. This is a separate table, so that a
/// program without a master does not contain their code.
const EVENT_RETURNERS: &[(&str, TakeEvents)] = &[("rawfile_json", rawfile_json::event_return)];

/// Returns why a returner of `event_return` can never get events, as far as the configuration shows
/// it. Files of the tree are read for the name of a built-in returner that takes none.
#[must_use]
pub fn never_takes_events(cx: &Exec, name: &str) -> Option<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.is_empty() || !name.chars().all(is_part) {
        return Some(format!(
            "{name:?} is not the name of a returner; write one name or a list of names"
        ));
    }
    if cx.is_disabled(Kind::Returner, name) {
        return Some(format!(
            "the returner {name} is disabled by disable_returners; remove it from one of the two options"
        ));
    }
    if built_in(name).is_some() && lacks_event_return(cx, name).is_some() {
        let known: Vec<&str> = EVENT_RETURNERS.iter().map(|(name, _)| *name).collect();
        return Some(format!(
            "the built-in returner {name} has no function event_return; use {} or a file of _returners",
            known.join(", ")
        ));
    }
    None
}

/// Returns why a returner cannot get events now: its file is missing, cannot be loaded or lacks the
/// function. The file is loaded.
#[must_use]
pub fn lacks_event_return(cx: &Exec, name: &str) -> Option<String> {
    if takes_events(name).is_some() {
        return None;
    }
    let function = format!("{name}.event_return");
    let functions = cx.shared.custom.functions(cx, Kind::Returner);
    if functions.iter().any(|(known, _)| *known == function) {
        return None;
    }
    let prefix = format!("{name}.");
    let is_loaded = functions
        .iter()
        .any(|(known, _)| known.starts_with(&prefix));
    Some(
        match is_loaded {
            true => format!("the returner {name} has no function event_return(events); add it"),
            false => format!(
                "the returner {name} does not exist or cannot be loaded; add {name}.py or a program {name} to _returners of file_roots"
            ),
        } + ", and run: salt-run saltutil.sync_returners",
    )
}

/// Passes events to `event_return` of a returner.
///
/// # Errors
/// When the returner does not have the function, or the function fails.
pub fn hand_events(cx: &Exec, name: &str, events: &[Value]) -> Result<(), Error> {
    let custom = called(
        cx,
        name,
        "event_return",
        Value::list(events.iter().cloned()),
    );
    custom.unwrap_or_else(|| {
        if let Some(take) = takes_events(name) {
            return take(cx, events);
        }
        let why = lacks_event_return(cx, name);
        let function = || Error::not_available(format!("{name}.event_return"));
        Err(why.map_or_else(function, Error::refused))
    })
}

fn takes_events(name: &str) -> Option<TakeEvents> {
    let found = EVENT_RETURNERS.iter().find(|(known, _)| *known == name);
    found.map(|(_, take)| *take)
}

/// Returns an option of a returner: from `ret_kwargs`, else under `ret_config`, else under the
/// returner's own name; `None` if it is not set.
fn option(cx: &Exec, ret: &Map, returner: &str, name: &str) -> Option<Value> {
    let of_call = ret.get("ret_kwargs").and_then(|kwargs| kwargs.get(name));
    if let Some(value) = of_call {
        return Some(value.clone());
    }
    let alternative = ret.get("ret_config").map(Value::to_text);
    let alternative = alternative
        .filter(|config| !config.is_empty())
        .and_then(|config| configured(cx, &format!("{config}.{returner}"), name));
    alternative.or_else(|| configured(cx, returner, name))
}

/// Returns `PREFIX: {NAME: …}` or `PREFIX.NAME: …` from the configuration, the grains or the
/// pillar.
fn configured(cx: &Exec, prefix: &str, name: &str) -> Option<Value> {
    let inside = looked_up(cx, prefix);
    let inside = inside.and_then(|all| all.get(name).cloned());
    inside.or_else(|| looked_up(cx, &format!("{prefix}.{name}")))
}

fn looked_up(cx: &Exec, key: &str) -> Option<Value> {
    if let Some(value) = cx.opts().get(key) {
        return Some(value.clone());
    }
    match cx.call_internal("config.option", vec![key.into()], Map::new()) {
        Ok(value) => Some(value).filter(|value| value.is_true()),
        Err(error) => {
            log::warning(format_args!(
                "cannot look up the returner option {key} in grains and pillar: {error}"
            ));
            None
        }
    }
}

/// Formats a return as one line of JSON.
fn json(ret: &Map) -> String {
    value::json::write(&ret.clone().into(), value::json::Layout::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(all().map(|(name, _)| name).is_sorted());
    }

    #[test]
    fn options_are_of_the_call_an_alternative_or_its_own() {
        let opts = r#"{"syslog.level": "LOG_ERR", "syslog": {"tag": "own", "level": "LOG_CRIT"}, "other.syslog.tag": "other", "other.syslog": {"facility": "LOG_NEWS"}}"#;
        let cx = crate::testing::exec_with(crate::testing::json(opts), Map::new());
        let of = |ret: &str, name: &str| {
            let ret = value::json::read(ret).unwrap();
            option(&cx, ret.as_map().unwrap(), "syslog", name).map(|value| value.to_text())
        };
        let other = r#"{"ret_config": "other"}"#;
        let cases = [
            ("{}", "level", Some("LOG_CRIT")),
            ("{}", "tag", Some("own")),
            ("{}", "facility", None),
            (other, "tag", Some("other")),
            (other, "facility", Some("LOG_NEWS")),
            (other, "level", Some("LOG_CRIT")),
            (
                r#"{"ret_config": "other", "ret_kwargs": {"tag": "call"}}"#,
                "tag",
                Some("call"),
            ),
        ];
        for (ret, name, expected) in cases {
            assert_eq!(of(ret, name).as_deref(), expected, "{ret} {name}");
        }
    }

    #[test]
    fn a_returner_that_never_takes_events_is_known_from_the_configuration() {
        let opts = r#"{"disable_returners": ["off"]}"#;
        let cx = crate::testing::exec_with(crate::testing::json(opts), Map::new());
        let why = |name: &str| never_takes_events(&cx, name);
        assert_eq!(why("rawfile_json"), None);
        assert_eq!(why("a_file-of_the_tree"), None);
        for (name, part) in [
            ("", "not the name of a returner"),
            ("a,b", "not the name of a returner"),
            ("../a", "not the name of a returner"),
            ("off", "disabled by disable_returners"),
            ("syslog", "has no function event_return; use rawfile_json"),
        ] {
            let why = why(name).unwrap();
            assert!(why.contains(part), "{name}: {why}");
        }
    }

    #[test]
    fn a_returner_that_is_missing_names_the_command_that_copies_it() {
        let cx = crate::testing::exec();
        assert_eq!(lacks_event_return(&cx, "rawfile_json"), None);
        let error = hand_events(&cx, "carbon", &[]).unwrap_err().to_string();
        for part in [
            "carbon.py",
            "_returners",
            "salt-run saltutil.sync_returners",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_list_has_each_name_once_and_what_there_is_none_of_is_said() {
        assert_eq!(
            names(" syslog,,rawfile_json , syslog"),
            ["syslog", "rawfile_json"]
        );
        let cx = crate::testing::exec();
        assert_eq!(missing(&cx, "syslog,local_cache"), None);
        assert_eq!(missing(&cx, "syslog,carbon"), Some("carbon"));
    }
}
