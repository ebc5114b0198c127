//! Returners: the destinations of functions' returns in addition to the caller, and of the events and
//! jobs of a master. Each has its own file and a line in the table.

#[cfg(feature = "notifications")]
mod elasticsearch;
pub mod follow;
#[cfg(feature = "mail")]
mod highstate;
#[cfg(feature = "notifications")]
mod http;
#[cfg(feature = "notifications")]
mod influxdb;
#[cfg(feature = "notifications")]
mod messages;
mod rawfile_json;
#[cfg(feature = "databases")]
mod redis;
mod smtp;
#[cfg(feature = "notifications")]
mod splunk;
#[cfg(feature = "databases")]
mod sql;
mod syslog;
#[cfg(feature = "notifications")]
mod web;

use state::custom::Kind;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

/// A built-in returner.
struct Returner {
    name: &'static str,
    /// The documentation that `sys.returner_doc` shows.
    doc: &'static str,
    /// Stores a return.
    store: fn(cx: &Exec, ret: &Map) -> Result<(), Error>,
}

/// The built-in returners. A file of the tree (`_returners`) with the same name goes before one, as in
/// Salt.
const RETURNERS: &[Returner] = &[
    #[cfg(feature = "notifications")]
    elasticsearch::RETURNER,
    #[cfg(feature = "mail")]
    highstate::RETURNER,
    #[cfg(feature = "notifications")]
    http::RETURNER,
    #[cfg(feature = "notifications")]
    influxdb::RETURNER,
    LOCAL_CACHE,
    #[cfg(feature = "notifications")]
    messages::mattermost::RETURNER,
    #[cfg(feature = "databases")]
    sql::MYSQL,
    #[cfg(feature = "databases")]
    sql::PGJSONB,
    #[cfg(feature = "databases")]
    sql::POSTGRES,
    #[cfg(feature = "notifications")]
    messages::pushover::RETURNER,
    rawfile_json::RETURNER,
    #[cfg(feature = "databases")]
    redis::RETURNER,
    #[cfg(feature = "notifications")]
    messages::slack::RETURNER,
    #[cfg(feature = "notifications")]
    messages::slack_webhook::RETURNER,
    smtp::RETURNER,
    #[cfg(feature = "notifications")]
    splunk::RETURNER,
    #[cfg(feature = "databases")]
    sql::SQLITE3,
    syslog::RETURNER,
    #[cfg(feature = "notifications")]
    messages::telegram::RETURNER,
];

/// A master has every return in its cache, and the record of a machine has its state runs.
const LOCAL_CACHE: Returner = Returner {
    name: "local_cache",
    doc: "Store nothing: the return is already in the master's cache and in the minion's record.",
    store: |_, _| Ok(()),
};

/// Returns the name and documentation of each built-in returner.
pub(crate) fn all() -> Vec<(&'static str, &'static str)> {
    let all = RETURNERS.iter();
    all.map(|known| (known.name, known.doc)).collect()
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

fn built_in(name: &str) -> Option<&'static Returner> {
    RETURNERS.iter().find(|known| known.name == name)
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
    if let Some(done) = called(cx, name, "returner", vec![ret.clone().into()]) {
        return done;
    }
    let Some(known) = built_in(name) else {
        let known: Vec<&str> = RETURNERS.iter().map(|known| known.name).collect();
        return Err(Error::refused(format!(
            "unknown returner; expected one of {} or a file of _returners that saltutil.sync_returners has copied",
            known.join(", ")
        )));
    };
    (known.store)(cx, ret)
}

/// Calls a function of a custom returner. Returns `None` if there is no such function.
fn called(cx: &Exec, name: &str, function: &str, args: Vec<Value>) -> Option<Result<(), Error>> {
    let custom = &cx.shared.custom;
    if built_in(name).is_some() && !custom.has_file(Kind::Returner, name) {
        return None;
    }
    let function = format!("{name}.{function}");
    let called = custom.call_client(cx, Kind::Returner, &function, args, Map::new());
    called.map(|done| done.map(drop))
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
        Ok(value) => Some(value).filter(|value| !value.is_null() && value.as_str() != Some("")),
        Err(error) => {
            log::warning(format_args!(
                "cannot look up the returner option {key} in grains and pillar: {error}"
            ));
            None
        }
    }
}

/// Returns the function of a return. A job with several functions has their names with commas.
fn function(ret: &Map) -> String {
    match ret.get("fun") {
        Some(Value::List(functions)) => {
            let functions: Vec<String> = functions.iter().map(Value::to_text).collect();
            functions.join(",")
        }
        fun => fun.map(Value::to_text).unwrap_or_default(),
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
        assert!(RETURNERS.iter().map(|known| known.name).is_sorted());
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
