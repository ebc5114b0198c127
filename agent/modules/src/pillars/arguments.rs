//! The arguments of a source: named ones, positional ones, or a single one.

use state::module::Error;
use value::{Map, Value};

/// Returns the arguments by name. `names` has all of them in Salt's order.
///
/// # Errors
/// When there are too many arguments, or one has another name.
pub(super) fn named(val: &Value, names: &[&str]) -> Result<Map, Error> {
    let given = match val {
        Value::Map(map) => map.clone(),
        Value::List(items) if items.len() > names.len() => {
            return Err(Error::refused(format!(
                "it takes at most {} arguments: {}",
                names.len(),
                names.join(", ")
            )));
        }
        Value::List(items) => names.iter().copied().zip(items.iter().cloned()).collect(),
        Value::Null => Map::new(),
        only => names.iter().copied().zip([only.clone()]).collect(),
    };
    for name in given.keys().map(Value::to_text) {
        if !names.contains(&name.as_str()) {
            return Err(Error::refused(format!(
                "it has the argument {name}; expected one of {}",
                names.join(", ")
            )));
        }
    }
    Ok(given)
}

/// Returns the text of an argument. `None`, as the examples of Salt have it, is no text.
///
/// # Errors
/// When it is not a text.
pub(super) fn text(given: &Map, name: &str) -> Result<Option<String>, Error> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Str(text)) if &**text == "None" => Ok(None),
        Some(Value::Map(_) | Value::List(_)) => {
            Err(Error::refused(format!("{name} must be a text")))
        }
        Some(other) => Ok(Some(other.to_text())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_named_positional_or_a_single_one() {
        let find = |yaml: &str| named(&render::yaml::load(yaml).unwrap(), &["a", "b"]);
        let shown = |yaml| Value::from(find(yaml).unwrap()).to_text();
        assert_eq!(shown("{b: 1}"), "{'b': 1}");
        assert_eq!(shown("[x, 2]"), "{'a': 'x', 'b': 2}");
        assert_eq!(shown("x"), "{'a': 'x'}");
        assert_eq!(shown("null"), "{}");
        assert!(find("{c: 1}").is_err() && find("[1, 2, 3]").is_err());
        let given = Map::new().with("a", "None").with("b", Value::list([]));
        assert_eq!(text(&given, "a").unwrap(), None);
        assert!(text(&given, "b").is_err());
    }
}
