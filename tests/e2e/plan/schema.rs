//! The published JSON Schema of a plan, and a validator with the keywords that it uses.

use serde_json::Value;

const SCHEMA: &str = include_str!("../../../packaging/schemas/plan.schema.json");

/// Checks a plan against the schema.
pub(super) fn hold(plan: &Value) {
    hold_to(SCHEMA, plan);
}

/// Checks a value against a schema.
pub(crate) fn hold_to(schema: &str, value: &Value) {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let mut faults = Vec::new();
    check(&schema, &schema, value, "plan", &mut faults);
    assert!(faults.is_empty(), "{faults:#?}\n{value:#}");
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other} in the schema"),
    }
}

fn check(schema: &Value, root: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    for (word, rule) in schema.as_object().unwrap() {
        match word.as_str() {
            "$ref" => {
                let path = rule.as_str().unwrap().strip_prefix('#').unwrap();
                check(root.pointer(path).unwrap(), root, value, at, faults);
            }
            "const" if value != rule => faults.push(format!("{at} is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                faults.push(format!("{at} is {value}, none of {rule}"));
            }
            "type" => {
                let one = std::slice::from_ref(rule);
                let kinds = rule.as_array().map_or(one, Vec::as_slice);
                if !kinds.iter().any(|kind| is_of(kind, value)) {
                    faults.push(format!("{at} is no {rule}"));
                }
            }
            "required" => {
                let missing = rule.as_array().unwrap().iter();
                let missing = missing.filter(|key| value.get(key.as_str().unwrap()).is_none());
                faults.extend(missing.map(|key| format!("{at} has no {key}")));
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, root, item, &format!("{at}[{index}]"), faults);
                }
            }
            "properties" | "additionalProperties" => fields(schema, root, value, at, faults, word),
            "const" | "enum" | "$schema" | "title" | "description" | "$defs" => {}
            other => panic!("unsupported keyword {other} in the schema"),
        }
    }
}

fn fields(
    schema: &Value,
    root: &Value,
    value: &Value,
    at: &str,
    faults: &mut Vec<String>,
    word: &str,
) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        let known = schema.get("properties").and_then(|known| known.get(key));
        match (word, known, &schema["additionalProperties"]) {
            ("properties", Some(rule), _) => check(rule, root, inner, &at, faults),
            ("additionalProperties", None, Value::Bool(false)) => {
                faults.push(format!("{at} is unknown"));
            }
            ("additionalProperties", None, rule @ Value::Object(_)) => {
                check(rule, root, inner, &at, faults);
            }
            _ => {}
        }
    }
}

#[test]
fn the_schema_refuses_what_is_no_plan() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut faults = Vec::new();
    let wrong = serde_json::json!({"kind": "x", "version": 1, "summary": {"more": 1}, "states": [{"outcome": "maybe"}]});
    check(&schema, &schema, &wrong, "plan", &mut faults);
    for fault in [
        "plan.kind is not",
        "plan has no \"basis\"",
        "plan.summary.more is unknown",
        "plan.states[0].outcome is",
    ] {
        assert!(
            faults.iter().any(|said| said.contains(fault)),
            "{fault}: {faults:#?}"
        );
    }
}
