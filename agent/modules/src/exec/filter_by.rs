//! The choice of a dictionary's entry by the value of a grain or a pillar key: `filter_by`.

use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value, merge};

/// The additions to the chosen entry.
#[derive(Debug, Default)]
pub(crate) struct Around {
    /// A dictionary that is merged over the chosen entry.
    pub(crate) merge: Value,
    /// The key that is chosen when no other matches.
    pub(crate) default: Value,
    /// The key of the entry that the chosen entry is merged over.
    pub(crate) base: Value,
}

/// Chooses the entry whose key, a glob, matches the value at `path` in `data`. If the value is a
/// list, its first item that matches any key decides.
///
/// # Errors
/// When a value that takes part in a merge is not a dictionary.
pub(crate) fn filter_by(
    lookup: &Map,
    path: &str,
    data: Map,
    around: &Around,
) -> Result<Value, Error> {
    let data = Value::from(data);
    let found = data.traverse(path, ":").cloned();
    let wanted = match &found {
        Some(Value::List(items)) => items.to_vec(),
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    };
    let matching = |each: &Value| {
        let entry = lookup
            .iter()
            .find(|(key, _)| fnmatch(&key.to_text(), &each.to_text()));
        entry
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    };
    let chosen = wanted
        .iter()
        .find_map(matching)
        .or_else(|| lookup.get_value(&around.default));
    let mut chosen = chosen.cloned().unwrap_or_default();
    if let Some(base) = lookup
        .get_value(&around.base)
        .filter(|_| around.base.is_true())
    {
        chosen = based(base, chosen)?;
    }
    if around.merge.is_true() {
        let Value::Map(over) = &around.merge else {
            return Err("filter_by merge argument must be a dictionary.".into());
        };
        chosen = over_all(chosen, over)?;
    }
    Ok(chosen)
}

fn based(base: &Value, chosen: Value) -> Result<Value, Error> {
    match (base, chosen) {
        (base, Value::Null) => Ok(base.clone()),
        (Value::Map(base), Value::Map(chosen)) => Ok(merge::recurse(base, &chosen, false).into()),
        (Value::Map(_), _) => {
            Err("filter_by default and look-up values must both be dictionaries.".into())
        }
        (_, chosen) => Ok(chosen),
    }
}

/// Merges a dictionary over the chosen entry.
///
/// # Errors
/// When the entry is not a dictionary.
pub(crate) fn over_all(chosen: Value, over: &Map) -> Result<Value, Error> {
    match chosen {
        Value::Null => Ok(over.clone().into()),
        Value::Map(chosen) => Ok(merge::recurse(&chosen, over, false).into()),
        other => Err(Error::refused(format!(
            "Cannot update using non-dict types in dictupdate.update(): got {}",
            other.type_name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    #[test]
    fn the_first_matching_key_wins_between_base_and_merge() {
        let lookup = json(
            r#"{"base": {"a": 0, "b": {"x": 1}}, "Deb*": {"b": {"y": 2}}, "default": {"d": 1}, "str": "s"}"#,
        );
        let data = |family: &str| json(&format!(r#"{{"os": {{"family": {family}}}}}"#));
        let around = |merge: &str, base: &str| Around {
            merge: json(merge).into(),
            default: "default".into(),
            base: base.into(),
        };
        let choose = |family: &str, around: &Around| {
            filter_by(&lookup, "os:family", data(family), around).map(|v| value::python::repr(&v))
        };
        let plain = around("{}", "");
        assert_eq!(choose("\"Debian\"", &plain).unwrap(), "{'b': {'y': 2}}");
        assert_eq!(
            choose("[\"x\", \"Debian\"]", &plain).unwrap(),
            "{'b': {'y': 2}}"
        );
        assert_eq!(choose("\"Arch\"", &plain).unwrap(), "{'d': 1}");
        assert_eq!(
            choose("\"Debian\"", &around(r#"{"b": {"x": 9}}"#, "base")).unwrap(),
            "{'a': 0, 'b': {'x': 9, 'y': 2}}"
        );
        assert_eq!(
            choose("\"str\"", &around("{}", "base"))
                .unwrap_err()
                .to_string(),
            "filter_by default and look-up values must both be dictionaries."
        );
    }
}
