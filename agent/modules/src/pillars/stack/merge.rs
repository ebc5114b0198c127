//! Merges the data of the YAML files of a stack, by the strategies that they name under the key `__`.

use value::{Map, Value};

/// The key of the strategy in a dictionary, or in the first item of a list.
const KEY: &str = "__";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    /// The new data replace the earlier ones.
    Overwrite,
    /// The earlier data are merged over the new ones.
    MergeFirst,
    /// The new data are merged over the earlier ones.
    MergeLast,
    /// The new data name what is removed from the earlier ones.
    Remove,
}

impl Strategy {
    fn named(name: Option<&Value>) -> Result<Self, String> {
        let Some(name) = name else {
            return Ok(Self::MergeLast);
        };
        match name.as_str() {
            Some("overwrite") => Ok(Self::Overwrite),
            Some("merge-first") => Ok(Self::MergeFirst),
            Some("merge-last") => Ok(Self::MergeLast),
            Some("remove") => Ok(Self::Remove),
            _ => Err(format!(
                "Unknown strategy \"{}\", should be one of ('overwrite', 'merge-first', 'merge-last', 'remove')",
                name.to_text()
            )),
        }
    }
}

/// Returns the earlier data of a stack with the data of a further file.
///
/// # Errors
/// When the data name an unknown strategy.
pub(super) fn merged(mut stack: Map, mut data: Map) -> Result<Map, String> {
    let strategy = Strategy::named(data.remove(KEY).as_ref())?;
    if strategy == Strategy::Overwrite {
        return Ok(without_strategies(data));
    }
    for (key, new) in data {
        if strategy == Strategy::Remove {
            stack.remove_value(&key);
            continue;
        }
        match stack.get_value_mut(&key) {
            Some(known) => {
                let old = std::mem::take(known);
                *known = match strategy {
                    Strategy::MergeFirst => merged_values(cleaned(new), old)?,
                    _ => merged_values(old, new)?,
                };
            }
            None => drop(stack.insert(key, cleaned(new))),
        }
    }
    Ok(stack)
}

/// Returns a value with another one merged over it. Values of different types are replaced.
fn merged_values(lower: Value, upper: Value) -> Result<Value, String> {
    match (lower, upper) {
        (Value::Map(lower), Value::Map(upper)) => merged(lower, upper).map(Value::Map),
        (Value::List(lower), Value::List(upper)) => merged_lists(&lower, &upper),
        (_, upper) => Ok(cleaned(upper)),
    }
}

fn merged_lists(lower: &[Value], upper: &[Value]) -> Result<Value, String> {
    let name = upper.first().and_then(|first| first.get(KEY));
    let upper = upper.get(usize::from(name.is_some())..).unwrap_or_default();
    let items = match Strategy::named(name)? {
        Strategy::Overwrite => upper.to_vec(),
        Strategy::MergeFirst => [upper, lower].concat(),
        Strategy::MergeLast => [lower, upper].concat(),
        Strategy::Remove => {
            let kept = lower.iter().filter(|item| !upper.contains(item));
            kept.cloned().collect()
        }
    };
    Ok(Value::list(items))
}

/// Returns a value without the strategies of its dictionaries and of the lists in them.
fn cleaned(value: Value) -> Value {
    match value {
        Value::Map(map) => without_strategies(map).into(),
        Value::List(items) if items.first().is_some_and(|first| first.get(KEY).is_some()) => {
            Value::list(items.iter().skip(1).cloned())
        }
        other => other,
    }
}

fn without_strategies(mut map: Map) -> Map {
    map.remove(KEY);
    for (_, value) in map.iter_mut() {
        *value = cleaned(std::mem::take(value));
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stack: &str, data: &str) -> String {
        let map = |yaml: &str| render::yaml::load(yaml).unwrap().as_map().unwrap().clone();
        match merged(map(stack), map(data)) {
            Ok(merged) => Value::Map(merged).to_text(),
            Err(error) => error,
        }
    }

    const USERS: &str = "{users: {tom: {uid: 500, roles: [sysadmin]}, root: {uid: 0}}}";

    #[test]
    fn dictionaries_are_merged_as_salt_documents_it() {
        let new = |strategy: &str| {
            format!(
                "{{users: {{{strategy}tom: {{uid: 1000, roles: [developer]}}, mat: {{uid: 1001}}}}}}"
            )
        };
        let last = "{'users': {'tom': {'uid': 1000, 'roles': ['sysadmin', 'developer']}, 'root': {'uid': 0}, 'mat': {'uid': 1001}}}";
        let first = "{'users': {'tom': {'uid': 500, 'roles': ['developer', 'sysadmin']}, 'root': {'uid': 0}, 'mat': {'uid': 1001}}}";
        let overwrite =
            "{'users': {'tom': {'uid': 1000, 'roles': ['developer']}, 'mat': {'uid': 1001}}}";
        for (strategy, wanted) in [
            ("", last),
            ("__: merge-last, ", last),
            ("__: merge-first, ", first),
            ("__: remove, ", "{'users': {'root': {'uid': 0}}}"),
            ("__: overwrite, ", overwrite),
        ] {
            assert_eq!(run(USERS, &new(strategy)), wanted, "{strategy}");
        }
    }

    #[test]
    fn lists_are_merged_as_salt_documents_it() {
        for (data, wanted) in [
            ("{u: [mat]}", "['tom', 'root', 'mat']"),
            ("{u: [{__: merge-last}, mat]}", "['tom', 'root', 'mat']"),
            ("{u: [{__: merge-first}, mat]}", "['mat', 'tom', 'root']"),
            ("{u: [{__: remove}, mat, tom]}", "['root']"),
            ("{u: [{__: overwrite}, mat]}", "['mat']"),
            ("{u: []}", "['tom', 'root']"),
        ] {
            assert_eq!(
                run("{u: [tom, root]}", data),
                format!("{{'u': {wanted}}}"),
                "{data}"
            );
        }
    }

    #[test]
    fn values_of_other_types_are_replaced_and_strategies_never_stay() {
        assert_eq!(
            run("{a: [1]}", "{a: {__: remove, b: {__: x, c: 1}}}"),
            "{'a': {'b': {'c': 1}}}"
        );
        assert_eq!(run("{a: 1}", "{__: merge-first, a: {b: 2}}"), "{'a': 1}");
        assert_eq!(run("{}", "{a: [{__: overwrite}, 1]}"), "{'a': [1]}");
        assert_eq!(
            run("{a: 1, b: 2}", "{__: overwrite, b: {__: x}}"),
            "{'b': {}}"
        );
        assert_eq!(run("{1: a, b: 2}", "{__: remove, 1: null}"), "{'b': 2}");
    }

    #[test]
    fn an_unknown_strategy_is_an_error() {
        for data in ["{__: x}", "{a: {__: x}}", "{b: [{__: x}]}"] {
            let error = run("{a: {}, b: []}", data);
            assert!(
                error.starts_with("Unknown strategy \"x\", should be one of ("),
                "{error}"
            );
        }
    }
}
