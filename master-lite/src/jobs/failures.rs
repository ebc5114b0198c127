//! The events that the master fires about failed states: two for each, in addition to the event of
//! the return.

use value::{Map, Value};
use wire::tag;

use crate::store::NAME_MAX;

/// The functions whose returns are searched for failed states (Salt's `SUB_EVENT`).
const FUNCTIONS: [&str; 2] = ["state.highstate", "state.sls"];

/// The maximum number of failed states of a return that have events. A return can contain tens of
/// thousands of failed states, whose events would be many times as large as the return.
const STATES_MAX: usize = 1000;

/// Returns the events of a return, in order: for each of the first [`STATES_MAX`] failed states one
/// with the state function's name as its tag, then one of the job.
pub(crate) fn events(answer: &Map) -> Vec<(String, Map)> {
    let text = |key: &str| answer.get(key).map(Value::to_text).unwrap_or_default();
    let (fun, retcode) = (text("fun"), answer.get("retcode"));
    let Some(retcode) = retcode.filter(|code| code.is_true()) else {
        return Vec::new();
    };
    if !FUNCTIONS.contains(&fun.as_str()) {
        return Vec::new();
    }
    let retcode = limited(retcode);
    let user = answer.get("user").map(limited);
    let rets = answer.get("return").and_then(Value::as_map);
    let failed = rets
        .into_iter()
        .flat_map(Map::iter)
        .filter_map(|(tag, ret)| {
            let ret = ret.as_map().filter(|ret| has_failed(ret))?;
            Some((function(&tag.to_text())?, ret))
        });
    let mut events = Vec::new();
    for (name, ret) in failed.take(STATES_MAX) {
        let data = ret.clone().with("retcode", retcode.clone());
        events.push((name.clone(), data.clone()));
        let (jid, id) = (text("jid"), text("id"));
        let sub = tag::job_sub_error(&jid, &id, &fun);
        let mut data = data
            .with("jid", jid)
            .with("id", id)
            .with("success", false)
            .with("return", format!("Error: {name}"))
            .with("fun", fun.as_str());
        if let Some(user) = &user {
            data.insert("user", user.clone());
        }
        events.push((sub, data));
    }
    events
}

/// Returns a value of the return with at most [`NAME_MAX`] bytes. The minion chooses the value, and
/// every failed state repeats it: a return of a few megabytes could otherwise fill the event log.
fn limited(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.clone(),
        other => {
            let text = other.as_text();
            let end = text.floor_char_boundary(NAME_MAX);
            text.get(..end).unwrap_or_default().into()
        }
    }
}

fn has_failed(ret: &Map) -> bool {
    ret.get("result") == Some(&Value::Bool(false))
}

/// Returns `test.nop` of `test_|-ID_|-NAME_|-nop`. It becomes the tag of an event, so it must be
/// the name of a function: otherwise a minion could fire events with any tag. The store accepts no
/// tag of more than [`NAME_MAX`] bytes.
fn function(tag: &str) -> Option<String> {
    let first = tag.split("_|-").next()?;
    let last = tag.rsplit("_|-").next()?;
    let is_word = |word: &str| {
        let mut letters = word.chars();
        !word.is_empty() && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    let is_short = first.len() + last.len() < NAME_MAX;
    (is_word(first) && is_word(last) && is_short).then(|| format!("{first}.{last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(fun: &str, retcode: i64) -> Map {
        let good = Map::new().with("result", true);
        let bad = Map::new().with("result", false).with("name", "b");
        let rets = Map::new()
            .with("test_|-a_|-a_|-nop", good)
            .with("test_|-b_|-b_|-fail_without_changes", bad);
        Map::new()
            .with("jid", "20261120101104987150")
            .with("id", "m1")
            .with("fun", fun)
            .with("user", "root")
            .with("retcode", retcode)
            .with("return", rets)
    }

    #[test]
    fn a_failed_state_is_told_twice_and_a_good_one_not() {
        let events = events(&answer("state.sls", 2));
        let tags: Vec<&str> = events.iter().map(|(tag, _)| tag.as_str()).collect();
        let sub = "salt/job/20261120101104987150/sub/m1/error/state.sls";
        assert_eq!(tags, ["test.fail_without_changes", sub]);
        let said = |at: usize, key: &str| events[at].1.get(key).map(Value::to_text);
        assert_eq!(said(0, "retcode").as_deref(), Some("2"));
        assert_eq!(said(0, "jid"), None);
        let error = Some("Error: test.fail_without_changes");
        assert_eq!(said(1, "return").as_deref(), error);
        assert_eq!(said(1, "user").as_deref(), Some("root"));
    }

    #[test]
    fn a_large_value_of_a_return_is_not_repeated_for_each_state() {
        let user = "ä".repeat(1000);
        let retcode = Value::list([Value::from("x".repeat(1000))]);
        let answer = answer("state.sls", 2)
            .with("user", user.as_str())
            .with("retcode", retcode.clone());
        let events = events(&answer);
        let (_, data) = &events[1];
        let said = |key: &str| data.get(key).and_then(Value::as_str).unwrap();
        assert_eq!(said("user"), &user[..NAME_MAX]);
        assert_eq!(said("retcode"), &retcode.to_text()[..NAME_MAX]);
        assert_eq!(events[0].1.get("retcode"), data.get("retcode"));
        let odd = limited(&format!("x{user}").into()).to_text();
        assert_eq!(odd.len(), NAME_MAX - 1);
    }

    #[test]
    fn the_number_of_events_is_limited() {
        let failed = || Value::from(Map::new().with("result", false));
        let rets: Map = (0..STATES_MAX + 5)
            .map(|n| (Value::from(format!("test_|-{n}_|-x_|-nop")), failed()))
            .collect();
        let answer = answer("state.sls", 2).with("return", rets);
        assert_eq!(events(&answer).len(), 2 * STATES_MAX);
    }

    #[test]
    fn a_name_that_is_too_long_for_a_tag_has_no_events() {
        let name = |length: usize| function(&format!("test_|-a_|-a_|-{}", "f".repeat(length)));
        assert_eq!(name(NAME_MAX - 5).map(|name| name.len()), Some(NAME_MAX));
        assert_eq!(name(NAME_MAX - 4), None);
    }

    #[test]
    fn nothing_is_told_of_other_functions_and_of_success() {
        assert!(events(&answer("state.apply", 2)).is_empty());
        assert!(events(&answer("state.sls", 0)).is_empty());
    }
}
