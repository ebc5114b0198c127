//! [`Low`]: one chunk, what Salt calls low data, with its requisites and run options taken out once.

use value::{Map, Value, secret};

use crate::options::RunOptions;

/// Keys of a chunk that are not arguments of its function unless the function declares them, by their length: each chunk asks for many.
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
    /// All must have succeeded.
    Require,
    /// One must have succeeded.
    RequireAny,
    /// As require; `mod_watch` is called when one changed.
    Watch,
    /// One must have succeeded; `mod_watch` is called when one changed.
    WatchAny,
    /// Runs only when one changed.
    Onchanges,
    /// The same, under its older name.
    OnchangesAny,
    /// Runs only when one failed.
    Onfail,
    /// The same, under its older name.
    OnfailAny,
    /// Runs only when all failed.
    OnfailAll,
    /// Runs before the target, and only when the target would change something.
    Prereq,
    /// `mod_watch` is called at the end when one changed.
    Listen,
    /// What undoes it when a later one fails: not asked for before it runs, and none of Salt's.
    Compensate,
}

/// When a chunk has its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// In its place among the others.
    #[default]
    Ordinary,
    /// Once something has failed, where it undoes what had succeeded: one names it in `compensate`.
    Compensating,
    /// At the end, whatever happened before: `finally: True`.
    Finally,
}

impl RequisiteKind {
    /// Every kind of Salt's, in the order in which it looks at them.
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

    /// The word in the SLS.
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

    /// The kind of Salt's that a word names.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// One item of a requisite list, with the chunks that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requisite {
    /// What must hold.
    pub kind: RequisiteKind,
    /// The module, or `sls` or `id`.
    pub state: String,
    /// The id, name, SLS, or a glob of them.
    pub name: String,
    /// The chunks that it names, as places in the plan; none before the plan is made.
    pub chunks: Vec<usize>,
}

/// One chunk.
#[derive(Clone, Debug)]
pub struct Low {
    /// The state module.
    pub state: String,
    /// The function.
    pub fun: String,
    /// The id in the SLS.
    pub id: String,
    /// The name: the id where none is given.
    pub name: String,
    /// The SLS that it stands in.
    pub sls: String,
    /// The environment of that SLS.
    pub saltenv: String,
    /// What must hold before it runs.
    pub requisites: Vec<Requisite>,
    /// When it has its turn.
    pub when: When,
    /// How it is to be run.
    pub options: RunOptions,
    /// The chunk as Salt shows it: everything above and the arguments.
    pub data: Map,
}

/// Arguments that say where and how, and are no secrets of a chunk with `no_log`: they stand in every other chunk too.
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

/// Options of a chunk that hold commands, as arguments do.
const COMMANDS: &[&str] = &["check_cmd", "name", "names", "onlyif", "unless"];

/// Keeps the arguments of a chunk with `no_log` as secrets.
fn keep_arguments(data: &Map) {
    let is_step = data.get("state").and_then(Value::as_str) == Some("salt");
    for (key, value) in data {
        let key = key.as_str().unwrap_or_default();
        let is_argument =
            COMMANDS.contains(&key) || !is_internal(key) && !NO_SECRETS.contains(&key);
        // The name of a step is its function; one that is the id is in every message.
        let is_said = key == "name" && (is_step || data.get("__id__") == Some(value));
        if is_argument && !is_said {
            keep_texts(value);
        }
    }
}

/// Keeps the arguments of those states of high data that have `no_log`: faults and `state.show_*` show them before there are chunks.
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

/// Keeps the texts in a value that are more than a path: paths stand in what other chunks say.
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

/// Whether a key of a chunk is no argument of its function unless the function declares it.
#[must_use]
pub fn is_internal(key: &str) -> bool {
    let same_length = INTERNAL.get(key.len());
    same_length.is_some_and(|keys| keys.contains(&key))
}

/// The keys that a user may write and that are no argument of a function unless it declares them.
pub(crate) fn options() -> impl Iterator<Item = &'static str> {
    let keys = INTERNAL.iter().copied().flatten().copied();
    keys.filter(|key| !key.starts_with('_'))
}

impl Low {
    /// A chunk of its low data. What is no string where one must be was refused before.
    #[must_use]
    pub fn of(data: Map) -> Self {
        let text = |key| data.get(key).map(Value::to_text).unwrap_or_default();
        let options = RunOptions::of(&data);
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

    /// Salt's key for it in the returns: `file_|-id_|-name_|-managed`.
    #[must_use]
    pub fn tag(&self) -> String {
        [&*self.state, &*self.id, &*self.name, &*self.fun].join("_|-")
    }

    /// `file.managed`.
    #[must_use]
    pub fn function(&self) -> String {
        [&*self.state, ".", &*self.fun].concat()
    }

    /// The arguments for its function: what is not internal, and `name`; internal keys where the function declares them.
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
