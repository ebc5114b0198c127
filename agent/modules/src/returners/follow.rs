//! The events of a master's log for returners: all of them (`event_return`), or those of jobs
//! (`master_job_cache`, `ext_job_cache`).

use state::custom::Kind as Custom;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{built_in, called, rawfile_json};
#[cfg(feature = "notifications")]
use super::{elasticsearch, http, influxdb, messages, splunk};
#[cfg(feature = "databases")]
use super::{redis, sql};

/// The events that a returner gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All events (`event_return`).
    Events,
    /// The events of new jobs and of returns (`master_job_cache`), or only of new jobs
    /// (`ext_job_cache`).
    Jobs,
}

/// An event of a master's log.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its number.
    pub sequence: u64,
    /// Its `tag` and its `data` with `_stamp`.
    pub event: Value,
}

/// An event about a job.
pub(super) enum OfJob {
    /// A new job.
    New(Map),
    /// A return, and its `_stamp`.
    Return(Map, Option<Value>),
}

/// The keys by which a caller sets the options of a returner. A minion must not do that.
const OPTIONS: [&str; 2] = ["ret_config", "ret_kwargs"];

impl Record {
    /// Returns the job or the return that the event is about, without the options of a returner.
    pub(super) fn of_job(&self) -> Option<OfJob> {
        let tag = self.event.get("tag")?.to_text();
        let mut data = self.event.get("data")?.as_map()?.clone();
        for key in OPTIONS {
            data.remove(key);
        }
        let stamp = data.remove("_stamp");
        let parts: Vec<&str> = tag.split('/').collect();
        match parts.as_slice() {
            ["salt", "job", _, "new"] => Some(OfJob::New(data)),
            ["salt", "job", _, "ret", _] => Some(OfJob::Return(data, stamp)),
            _ => None,
        }
    }
}

/// Events that follow each other in a master's log.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The kind of events.
    pub kind: Kind,
    /// The name under which the returner may store the number of the last event.
    pub place: &'a str,
    /// The events, in the order of their numbers.
    pub records: &'a [Record],
}

/// A destination of events.
pub(super) trait Store {
    /// Prepares for a log whose last event has the number `last`.
    fn begin(&self, _cx: &Exec, _place: &str, _last: u64) -> Result<(), Error> {
        Ok(())
    }

    /// Stores the events of a batch.
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error>;

    /// Removes what is older than some seconds, after copying it if `archive` is true.
    fn clean(&self, _cx: &Exec, _seconds: i64, _archive: bool) -> Result<(), Error> {
        Ok(())
    }
}

/// A built-in returner that stores events of a master's log.
pub(super) struct OfLog {
    pub(super) name: &'static str,
    /// The kinds of events that it stores.
    pub(super) kinds: &'static [Kind],
    pub(super) open: fn(&Exec) -> Result<Box<dyn Store>, Error>,
}

/// All of them. This is a separate table, so that a program without a master does not contain their
/// code.
const OF_LOG: &[OfLog] = &[
    #[cfg(feature = "notifications")]
    elasticsearch::OF_LOG,
    #[cfg(feature = "notifications")]
    http::OF_LOG,
    #[cfg(feature = "notifications")]
    influxdb::OF_LOG,
    #[cfg(feature = "notifications")]
    messages::mattermost::OF_LOG,
    #[cfg(feature = "databases")]
    sql::MYSQL_LOG,
    #[cfg(feature = "databases")]
    sql::PGJSONB_LOG,
    #[cfg(feature = "databases")]
    sql::POSTGRES_LOG,
    rawfile_json::OF_LOG,
    #[cfg(feature = "databases")]
    redis::OF_LOG,
    #[cfg(feature = "notifications")]
    messages::slack_webhook::OF_LOG,
    #[cfg(feature = "notifications")]
    splunk::OF_LOG,
    #[cfg(feature = "databases")]
    sql::SQLITE3_LOG,
];

fn known(kind: Kind, name: &str) -> Option<&'static OfLog> {
    all(kind).find(|known| known.name == name)
}

fn all(kind: Kind) -> impl Iterator<Item = &'static OfLog> {
    OF_LOG
        .iter()
        .filter(move |known| known.kinds.contains(&kind))
}

/// Returns why a returner can never get events, as far as the configuration shows it. Files of the
/// tree are read for the name of a built-in returner that takes none.
#[must_use]
pub fn never_takes(cx: &Exec, kind: Kind, name: &str) -> Option<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    if name.is_empty() || !name.chars().all(is_part) {
        return Some(format!(
            "{name:?} is not the name of a returner; write one name or a list of names"
        ));
    }
    if cx.is_disabled(Custom::Returner, name) {
        return Some(format!(
            "the returner {name} is disabled by disable_returners; remove it from one of the two options"
        ));
    }
    if let Some(known) = built_in_store(cx, kind, name) {
        let failed = (known.open)(cx).err();
        return failed.map(|error| format!("the returner {name}: {}", error.sentence()));
    }
    if built_in(name).is_some() && lacks(cx, kind, name).is_some() {
        let known: Vec<&str> = all(kind).map(|known| known.name).collect();
        let function = functions(kind).join(" and ");
        return Some(format!(
            "the built-in returner {name} has no function {function}; use {} or a file of _returners",
            known.join(", ")
        ));
    }
    None
}

/// Returns the functions that a file of `_returners` must have.
fn functions(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Events => &["event_return"],
        Kind::Jobs => &["returner", "save_load"],
    }
}

/// Returns why a returner cannot get events now: its file is missing, cannot be loaded or lacks a
/// function. The file is loaded.
#[must_use]
pub fn lacks(cx: &Exec, kind: Kind, name: &str) -> Option<String> {
    if built_in_store(cx, kind, name).is_some() {
        return None;
    }
    let loaded = cx.shared.custom.functions(cx, Custom::Returner);
    let has = |function: &str| {
        let full = format!("{name}.{function}");
        loaded.iter().any(|(known, _)| *known == full)
    };
    let missing = functions(kind).iter().find(|function| !has(function))?;
    let prefix = format!("{name}.");
    let is_loaded = loaded.iter().any(|(known, _)| known.starts_with(&prefix));
    let parameters = match *missing {
        "event_return" => "events",
        "save_load" => "jid, load, minions=None",
        _ => "ret",
    };
    Some(
        match is_loaded {
            true => format!("the returner {name} has no function {missing}({parameters}); add it"),
            false => format!(
                "the returner {name} does not exist or cannot be loaded; add {name}.py or a program {name} to _returners of file_roots"
            ),
        } + ", and run: salt-run saltutil.sync_returners",
    )
}

/// Prepares a returner for a log whose last event has the number `last`.
///
/// # Errors
/// When the returner cannot be prepared now.
pub fn begin(cx: &Exec, kind: Kind, name: &str, place: &str, last: u64) -> Result<(), Error> {
    match built_in_store(cx, kind, name) {
        Some(known) => (known.open)(cx)?.begin(cx, place, last),
        None => Ok(()),
    }
}

/// Removes jobs, returns and events from a returner of jobs that are older than `keep_jobs_seconds`. With
/// `archive_jobs`, they are copied to other tables first.
///
/// # Errors
/// When the returner does not answer.
pub fn clean(cx: &Exec, name: &str) -> Result<(), Error> {
    let seconds = cx.opts().int("keep_jobs_seconds").unwrap_or_default();
    let archive = cx.opts().flag("archive_jobs");
    match built_in_store(cx, Kind::Jobs, name) {
        Some(known) if seconds > 0 => (known.open)(cx)?.clean(cx, seconds, archive),
        _ => Ok(()),
    }
}

/// Returns the built-in returner of this name, if no file of the tree replaces it.
fn built_in_store(cx: &Exec, kind: Kind, name: &str) -> Option<&'static OfLog> {
    let is_replaced = || cx.shared.custom.has_file(Custom::Returner, name);
    known(kind, name).filter(|_| !is_replaced())
}

/// Passes events to a returner: to that of the tree, in any language, or to the built-in one.
///
/// # Errors
/// When the returner does not have the function, or the function fails.
pub fn hand_batch(cx: &Exec, name: &str, batch: &Batch<'_>) -> Result<(), Error> {
    if let Some(known) = built_in_store(cx, batch.kind, name) {
        return (known.open)(cx)?.store(cx, batch);
    }
    if let Some(why) = lacks(cx, batch.kind, name) {
        return Err(Error::refused(why));
    }
    match batch.kind {
        Kind::Events => {
            let events = batch.records.iter().map(|record| record.event.clone());
            call(cx, name, "event_return", vec![Value::list(events)])
        }
        Kind::Jobs => batch
            .records
            .iter()
            .filter_map(Record::of_job)
            .try_for_each(|of_job| match of_job {
                OfJob::New(load) => {
                    let jid = load.get("jid").cloned().unwrap_or_default();
                    call(cx, name, "save_load", vec![jid, load.into()])
                }
                OfJob::Return(ret, _) => call(cx, name, "returner", vec![ret.into()]),
            }),
    }
}

/// Calls a function of a custom returner.
fn call(cx: &Exec, name: &str, function: &str, args: Vec<Value>) -> Result<(), Error> {
    let missing = || Err(Error::not_available(format!("{name}.{function}")));
    called(cx, name, function, args).unwrap_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returner_that_never_takes_events_is_known_from_the_configuration() {
        let opts = r#"{"disable_returners": ["off"]}"#;
        let cx = crate::testing::exec_with(crate::testing::json(opts), Map::new());
        let why = |name: &str| never_takes(&cx, Kind::Events, name);
        assert_eq!(why("rawfile_json"), None);
        assert_eq!(why("a_file-of_the_tree"), None);
        for (name, part) in [
            ("", "not the name of a returner"),
            ("a,b", "not the name of a returner"),
            ("../a", "not the name of a returner"),
            ("off", "disabled by disable_returners"),
            ("syslog", "has no function event_return; use "),
        ] {
            let why = why(name).unwrap();
            assert!(why.contains(part), "{name}: {why}");
        }
        let why = never_takes(&cx, Kind::Jobs, "rawfile_json").unwrap();
        assert!(
            why.contains("has no function returner and save_load"),
            "{why}"
        );
    }

    #[test]
    fn a_return_sets_no_options_of_a_returner() {
        let record = |tag: &str, data: &str| Record {
            sequence: 1,
            event: Map::new()
                .with("tag", tag)
                .with("data", crate::testing::json(data))
                .into(),
        };
        let data = r#"{"jid": "7", "ret_config": "x", "ret_kwargs": {"host": "x"}, "_stamp": "s"}"#;
        let Some(OfJob::Return(ret, stamp)) = record("salt/job/7/ret/m", data).of_job() else {
            panic!("a return");
        };
        assert_eq!(ret, Map::new().with("jid", "7"));
        assert_eq!(stamp, Some("s".into()));
        let new = record("salt/job/7/new", data).of_job();
        assert!(matches!(new, Some(OfJob::New(_))));
        for tag in [
            "salt/job/7/prog/m/1",
            "salt/job/7/ret",
            "salt/auth",
            "my/job/7/new",
        ] {
            assert!(record(tag, data).of_job().is_none(), "{tag}");
        }
    }

    #[test]
    fn a_returner_that_is_missing_names_the_command_that_copies_it() {
        let cx = crate::testing::exec();
        assert_eq!(lacks(&cx, Kind::Events, "rawfile_json"), None);
        let batch = Batch {
            kind: Kind::Events,
            place: "event_return/carbon",
            records: &[],
        };
        let error = hand_batch(&cx, "carbon", &batch).unwrap_err().to_string();
        for part in [
            "carbon.py",
            "_returners",
            "salt-run saltutil.sync_returners",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}
