//! The summary of a minion's last highstate, which stays when its job has been removed.

use value::{Map, Value};

/// Returns the summary of a return, if it is that of a highstate that was not a test.
pub(super) fn summary(answer: &Map, at_ms: u64) -> Option<Map> {
    let text = |key: &str| answer.get(key).map(Value::to_text).unwrap_or_default();
    let args = answer.get("fun_args").and_then(Value::as_list);
    let args = args.unwrap_or_default();
    let names_sls = args.iter().any(|arg| arg.as_map().is_none());
    let is_highstate = match text("fun").as_str() {
        "state.highstate" => true,
        "state.apply" => !names_sls && !args.iter().any(|arg| arg.get("mods").is_some()),
        _ => false,
    };
    let is_test = args
        .iter()
        .any(|arg| arg.get("test").is_some_and(Value::is_true));
    if !is_highstate || is_test {
        return None;
    }
    let states = answer.get("return").and_then(Value::as_map);
    let count = |is_so: fn(&Value) -> bool| {
        let states = states.into_iter().flat_map(Map::values);
        states.filter(|state| is_so(state)).count()
    };
    let failed = count(|state| state.get("result") == Some(&Value::Bool(false)));
    let is_good = !answer.get("retcode").is_some_and(Value::is_true) && states.is_some();
    Some(
        Map::new()
            .with("jid", text("jid"))
            .with("at_ms", at_ms)
            .with("result", is_good && failed == 0)
            .with("states", count(|_| true))
            .with("failed", failed)
            .with(
                "changed",
                count(|state| state.get("changes").is_some_and(Value::is_true)),
            ),
    )
}

#[cfg(test)]
mod tests {
    use value::json;

    use super::*;

    fn of(answer: &str) -> Option<String> {
        let answer = json::read(answer).unwrap().as_map().unwrap().clone();
        let summary = summary(&answer, 7)?;
        let number = |key: &str| summary.get(key).unwrap().to_text();
        let keys = ["result", "states", "failed", "changed"];
        Some(keys.map(number).join(" "))
    }

    #[test]
    fn a_highstate_is_summed_up_and_nothing_else_is() {
        let states =
            r#""return": {"a": {"result": true, "changes": {"x": 1}}, "b": {"result": null}}"#;
        let failed = r#""return": {"a": {"result": false, "changes": {}}}"#;
        let of = |head: &str, rest: &str| of(&format!("{{{head}, {rest}}}"));
        assert_eq!(
            of(r#""fun": "state.highstate", "retcode": 0"#, states).unwrap(),
            "True 2 0 1"
        );
        assert_eq!(
            of(
                r#""fun": "state.apply", "fun_args": [], "retcode": 2"#,
                failed
            )
            .unwrap(),
            "False 1 1 0"
        );
        let faulty = r#""return": ["No matching sls found"]"#;
        assert_eq!(
            of(r#""fun": "state.highstate", "retcode": 1"#, faulty).unwrap(),
            "False 0 0 0"
        );
        for other in [
            r#""fun": "state.apply", "fun_args": ["web"]"#,
            r#""fun": "state.apply", "fun_args": [{"mods": "web"}]"#,
            r#""fun": "state.highstate", "fun_args": [{"test": true}]"#,
            r#""fun": "test.ping""#,
        ] {
            assert_eq!(of(other, states), None, "{other}");
        }
    }
}
