//! [`LowChunk`]: one chunk (Salt's low data), with its requisites and run options parsed once.

use value::{Map, Value, secret};

use crate::options::RunOptions;

/// Keys of a chunk that are not arguments of its function unless the function declares them. They
/// are grouped by length to make lookups fast: each chunk needs many.
const INTERNAL: &[&[&str]] = &[
    &[],
    &[],
    &[],
    &["fun", "use"],
    &["name"],
    &[
        "names", "order", "retry", "runas", "state", "umask", "watch",
    ],
    &[
        "__id__", "listen", "no_log", "onfail", "onlyif", "prereq", "reboot", "resume", "unless",
        "use_in",
    ],
    &[
        "__agg__", "__env__", "__sls__", "creates", "finally", "require", "saltenv", "timeout",
    ],
    &["failhard", "parallel", "provider", "watch_in"],
    &[
        "__pub_arg",
        "__pub_fun",
        "__pub_jid",
        "__pub_pid",
        "__pub_ret",
        "__pub_tgt",
        "__umask__",
        "aggregate",
        "check_cmd",
        "listen_in",
        "onchanges",
        "onfail_in",
        "prereq_in",
        "watch_any",
    ],
    &[
        "__prereq__",
        "__pub_user",
        "compensate",
        "fire_event",
        "onfail_all",
        "onfail_any",
        "require_in",
    ],
    &["onfail_stop", "prerequired", "require_any"],
    &["onchanges_in"],
    &["onchanges_any", "reload_grains", "reload_pillar"],
    &[
        "__pub_tgt_type",
        "__requisites__",
        "reload_modules",
        "runas_password",
    ],
    &["__prerequired__"],
    &["__prerequiring__", "cmd_opts_exclude"],
    &[],
    &[],
    &[],
    &["force_reload_modules"],
    &["__orchestration_jid__", "__sls_included_from__"],
];

/// The requisites that a chunk can have once `*_in` and `use` are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequisiteKind {
    /// All targets must have succeeded.
    Require,
    /// At least one target must have succeeded.
    RequireAny,
    /// Like `Require`. If a target has changes, `mod_watch` is called.
    Watch,
    /// At least one target must have succeeded. If a target has changes, `mod_watch` is called.
    WatchAny,
    /// The chunk runs only if a target has changes.
    Onchanges,
    /// The same as `Onchanges`, under its older name.
    OnchangesAny,
    /// The chunk runs only if a target failed.
    Onfail,
    /// The same as `Onfail`, under its older name.
    OnfailAny,
    /// The chunk runs only if all targets failed.
    OnfailAll,
    /// The chunk runs before the target, and only if the target would change something.
    Prereq,
    /// `mod_watch` is called at the end of the run if a target has changes.
    Listen,
    /// The target undoes this chunk if a later one fails. It is not checked before the chunk runs.
    /// Salt has no such requisite.
    Compensate,
}

/// The phase of the run in which a chunk runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// In its place among the other chunks.
    #[default]
    Ordinary,
    /// After a chunk has failed: this chunk undoes one that had succeeded and names it in
    /// `compensate`.
    Compensating,
    /// At the end, whatever happened before (`finally: True`).
    Finally,
}

impl RequisiteKind {
    /// All of Salt's kinds, in the order in which Salt evaluates them.
    pub const ALL: [Self; 11] = [
        Self::Require,
        Self::RequireAny,
        Self::Watch,
        Self::WatchAny,
        Self::Onfail,
        Self::OnfailAny,
        Self::OnfailAll,
        Self::Onchanges,
        Self::OnchangesAny,
        Self::Prereq,
        Self::Listen,
    ];

    /// Returns the keyword of this kind in an SLS.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Require => "require",
            Self::RequireAny => "require_any",
            Self::Watch => "watch",
            Self::WatchAny => "watch_any",
            Self::Onchanges => "onchanges",
            Self::OnchangesAny => "onchanges_any",
            Self::Onfail => "onfail",
            Self::OnfailAny => "onfail_any",
            Self::OnfailAll => "onfail_all",
            Self::Prereq => "prereq",
            Self::Listen => "listen",
            Self::Compensate => "compensate",
        }
    }

    /// Returns the kind of Salt's that a keyword names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// One item of a requisite list, with the chunks that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requisite {
    /// The condition.
    pub kind: RequisiteKind,
    /// The state module, or `sls` or `id`.
    pub state: String,
    /// The id, name, SLS, or a glob of them.
    pub name: String,
    /// The matching chunks, as indexes into the plan. Empty until the plan is made.
    pub chunks: Vec<usize>,
}

/// One chunk.
#[derive(Clone, Debug)]
pub struct LowChunk {
    /// The state module.
    pub state: String,
    /// The function.
    pub fun: String,
    /// The id in the SLS.
    pub id: String,
    /// The name. It defaults to the id.
    pub name: String,
    /// The SLS that declares it.
    pub sls: String,
    /// The environment of that SLS.
    pub saltenv: String,
    /// The conditions for running it.
    pub requisites: Vec<Requisite>,
    /// The phase of the run in which it runs.
    pub when: When,
    /// The options that control how it runs.
    pub options: RunOptions,
    /// The chunk as Salt shows it: all of the above and the arguments.
    pub data: Map,
}

/// Arguments that say where and how a chunk works. They also occur in chunks without `no_log`, so
/// `no_log` does not make them secrets.
const NO_SECRETS: &[&str] = &[
    "__id__",
    "cwd",
    "dir_mode",
    "encoding",
    "file_mode",
    "fun",
    "group",
    "mode",
    "mods",
    "order",
    "pillarenv",
    "ret",
    "saltenv",
    "shell",
    "sls",
    "source",
    "source_hash",
    "state",
    "template",
    "tgt",
    "tgt_type",
    "user",
];

/// Options of a chunk that contain commands and are secret like arguments if the chunk has
/// `no_log`.
const COMMANDS: &[&str] = &["check_cmd", "name", "names", "onlyif", "unless"];

/// Returns whether the functions of a state module are steps of an orchestration, which have the
/// name of another function as their name.
pub(crate) fn is_step(state: &str) -> bool {
    state == "salt"
}

/// The separator of the parts of a tag.
const SEPARATOR: &str = "_|-";

/// Returns whether a function is a step of an orchestration that waits for events.
pub(crate) fn is_wait(state: &str, fun: &str) -> bool {
    is_step(state) && fun == "wait_for_event"
}

/// Returns whether a tag belongs to a step that waits for events.
pub(crate) fn is_wait_tag(tag: &str) -> bool {
    tag.split_once(SEPARATOR)
        .zip(tag.rsplit_once(SEPARATOR))
        .is_some_and(|((state, _), (_, fun))| is_wait(state, fun))
}

/// Registers the arguments of a chunk with `no_log` as secrets.
fn keep_arguments(data: &Map) {
    let is_step = data
        .get("state")
        .and_then(Value::as_str)
        .is_some_and(is_step);
    for (key, value) in data {
        let key = key.as_str().unwrap_or_default();
        let is_argument =
            COMMANDS.contains(&key) || !is_internal(key) && !NO_SECRETS.contains(&key);
        // The name of an orchestration step is its function, and a name that equals the id occurs
        // in every message: neither can be a secret.
        let is_said = key == "name" && (is_step || data.get("__id__") == Some(value));
        if is_argument && !is_said {
            keep_texts(value);
        }
    }
}

/// Registers the arguments of all states of high data that have `no_log` as secrets. Faults and
/// `state.show_*` can show them before there are chunks.
pub(crate) fn keep_of_high(high: &Map) {
    let declared = high
        .iter()
        .filter_map(|(id, body)| Some((id, body.as_map()?)));
    for (id, (state, args)) in declared.flat_map(|(id, body)| body.iter().map(move |one| (id, one)))
    {
        let args = args.as_list().unwrap_or_default();
        let is_hidden = |arg: &Value| arg.get("no_log").is_some_and(Value::is_true);
        if args.iter().any(is_hidden) {
            let given = args.iter().filter_map(Value::as_map).flatten();
            let mut data: Map = given
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            data.insert("__id__", id.clone());
            data.insert("state", state.clone());
            keep_arguments(&data);
        }
    }
}

/// Registers the texts in a value as secrets, except for bare paths, which also occur in the
/// messages of other chunks.
fn keep_texts(value: &Value) {
    match value {
        Value::Map(map) => map.values().for_each(keep_texts),
        Value::List(items) => items.iter().for_each(keep_texts),
        Value::Str(text) if is_place(text) => {}
        other => secret::keep(&[], other),
    }
}

fn is_place(text: &str) -> bool {
    (text.starts_with('/') || text.starts_with("salt://")) && !text.contains(char::is_whitespace)
}

/// Returns whether a key of a chunk is not an argument of its function unless the function declares
/// it.
#[must_use]
pub fn is_internal(key: &str) -> bool {
    let same_length = INTERNAL.get(key.len());
    same_length.is_some_and(|keys| keys.contains(&key))
}

/// Returns the keys that users may write in any state and that are not arguments of a function
/// unless it declares them.
pub fn options() -> impl Iterator<Item = &'static str> {
    let keys = INTERNAL.iter().copied().flatten().copied();
    keys.filter(|key| !key.starts_with('_'))
}

impl LowChunk {
    /// Parses the low data of a chunk. The caller has already refused values that must be strings
    /// and are not.
    #[must_use]
    pub fn from_map(data: Map) -> Self {
        let text = |key| data.get(key).map(Value::to_text).unwrap_or_default();
        let options = RunOptions::from_map(&data);
        secret::note(&data);
        if options.no_log {
            keep_arguments(&data);
        }
        Self {
            state: text("state"),
            fun: text("fun"),
            id: text("__id__"),
            name: text("name"),
            sls: text("__sls__"),
            saltenv: text("__env__"),
            requisites: Vec::new(),
            when: match data.get("finally").is_some_and(Value::is_true) {
                true => When::Finally,
                false => When::Ordinary,
            },
            options,
            data,
        }
    }

    /// Returns Salt's key of the chunk in the returns: `file_|-id_|-name_|-managed`.
    #[must_use]
    pub fn tag(&self) -> String {
        [&*self.state, &*self.id, &*self.name, &*self.fun].join("_|-")
    }

    /// Returns the full name of its function: `file.managed`.
    #[must_use]
    pub fn function(&self) -> String {
        [&*self.state, ".", &*self.fun].concat()
    }

    /// Returns the arguments for its function: `name` and all other keys that are not internal, and
    /// those internal keys that the function declares.
    #[must_use]
    pub fn arguments(&self, declares: impl Fn(&str) -> bool) -> Map {
        let wanted = |key: &Value| {
            let key = key.as_str().unwrap_or_default();
            !is_internal(key) || declares(key)
        };
        self.data
            .iter()
            .filter(|(key, _)| wanted(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_keys_are_found() {
        assert!(is_internal("require") && is_internal("__sls__"));
        assert!(!is_internal("source"));
        assert!(
            INTERNAL
                .iter()
                .copied()
                .flatten()
                .all(|key| is_internal(key))
        );
    }
}
