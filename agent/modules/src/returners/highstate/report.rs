//! The parts of a report, in the structure of Salt's.

use std::borrow::Cow;

use state::module::Error;
use value::{Map, Value};

/// The key of the style of a part.
pub(super) const STYLE: &str = "__style__";

/// The styles of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Failed,
    Changed,
    Unchanged,
}

impl Style {
    fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }
}

/// The return of a state, and its tag.
type OfState<'a> = (Cow<'a, str>, &'a Map);

/// Returns the states of a return in the order in which they ran.
///
/// # Errors
/// When the return is not a dictionary of states.
pub(super) fn states(ret: &Map) -> Result<Vec<OfState<'_>>, Error> {
    let refused = || {
        Error::refused(format!(
            "the return of {} is not a dictionary of states, which the returner highstate needs",
            super::super::function(ret)
        ))
    };
    let all = ret
        .get("return")
        .and_then(Value::as_map)
        .ok_or_else(refused)?;
    let states = all.iter().map(|(tag, state)| {
        let state = state.as_map().ok_or_else(refused)?;
        Ok((tag.as_text(), state))
    });
    let mut states = states.collect::<Result<Vec<OfState<'_>>, Error>>()?;
    states.sort_by_key(|(_, state)| state.get("__run_num__").and_then(Value::as_int));
    Ok(states)
}

/// The numbers of states by result.
#[derive(Debug, Default)]
pub(super) struct Counts {
    total: usize,
    pub(super) failed: usize,
    /// The states with changes, including failed ones.
    pub(super) changed: usize,
    unchanged: usize,
    /// The time of all states, in milliseconds.
    duration: f64,
}

impl Counts {
    pub(super) fn of(states: &[OfState<'_>]) -> Self {
        let mut counts = Self::default();
        for (_, state) in states {
            let is_failed = state.get("result").is_some_and(|result| !result.is_true());
            let is_changed = state.get("changes").is_some_and(Value::is_true);
            counts.total += 1;
            counts.failed += usize::from(is_failed);
            counts.changed += usize::from(is_changed);
            counts.unchanged += usize::from(!is_failed && !is_changed);
            counts.duration += state
                .get("duration")
                .and_then(Value::as_float)
                .unwrap_or(0.0);
        }
        counts
    }
}

/// Returns a part of one key.
fn pair(name: &str, value: impl Into<Value>) -> Value {
    Map::new().with(name, value).into()
}

/// Returns a part of one key with a style.
fn styled(name: &str, value: impl Into<Value>, style: Style) -> Value {
    Map::new()
        .with(name, value)
        .with(STYLE, style.name())
        .into()
}

/// Returns the parts of a report.
pub(super) fn report(ret: &Map, states: &[OfState<'_>], counts: &Counts) -> [Value; 3] {
    let stats = [
        pair("total", counts.total),
        styled("failed", counts.failed, Style::Failed),
        styled("unchanged", counts.unchanged, Style::Unchanged),
        styled("changed", counts.changed, Style::Changed),
        pair("duration", counts.duration),
    ];
    let of = |key: &str, default: Value| ret.get(key).cloned().unwrap_or(default);
    let job = [
        pair("function", of("fun", "".into())),
        pair("arguments", of("fun_args", "".into())),
        pair("jid", of("jid", "".into())),
        pair("success", of("success", true.into())),
        pair("retcode", of("retcode", 0.into())),
    ];
    let states = states.iter().map(|(tag, state)| of_state(tag, state));
    [
        pair("stats", Value::list(stats)),
        pair("job", Value::list(job)),
        pair("states", Value::list(states)),
    ]
}

/// Returns the part about a state.
fn of_state(tag: &str, state: &Map) -> Value {
    let (module, rest) = tag.split_once("_|-").unwrap_or((tag, ""));
    let (id, rest) = rest.split_once("_|-").unwrap_or((rest, ""));
    let (name, function) = rest.rsplit_once("_|-").unwrap_or((rest, ""));
    let of = |key: &str, default: Value| state.get(key).cloned().unwrap_or(default);
    let mut parts = vec![
        pair("function", format!("{module}.{function}")),
        pair("name", name),
        pair("result", of("result", "".into())),
        pair("duration", of("duration", 0.0.into())),
        pair("comment", of("comment", "".into())),
    ];
    let changes = state.get("changes").and_then(Value::as_map);
    let style = match changes.filter(|changes| !changes.is_empty()) {
        _ if !state.get("result").is_some_and(Value::is_true) => Style::Failed,
        Some(changes) => {
            parts.push(pair("changes", pairs(&changes.clone().into())));
            Style::Changed
        }
        None => Style::Unchanged,
    };
    if let Some(started) = state.get("start_time").filter(|time| time.is_true()) {
        parts.push(pair("started", started.clone()));
    }
    styled(id, Value::List(parts.into()), style)
}

/// Returns a dictionary as a list of parts of one key, in the order of the keys. Other values do not
/// change.
pub(super) fn pairs(value: &Value) -> Value {
    let Some(map) = value.as_map() else {
        return value.clone();
    };
    let mut all: Vec<_> = map.iter().collect();
    all.sort_by_key(|(key, _)| key.as_text());
    Value::list(
        all.into_iter()
            .map(|(key, value)| pair(&key.as_text(), pairs(value))),
    )
}
