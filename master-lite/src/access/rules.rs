//! The form of a rule, which `publisher_acl` and `external_auth` share: a function, a condition on its
//! arguments, or a target with such conditions.

use modules::loader::call::split;
use value::glob::fnmatch;
use value::{Map, Value};

use super::peer::fullmatch;

/// Returns whether a pattern names a user or function. As in Salt, it is a glob or a regular
/// expression that matches the whole word.
pub(super) fn is_meant(pattern: &str, word: &str) -> bool {
    fnmatch(pattern, word) || fullmatch(pattern, word)
}

pub(super) fn several(value: &Value) -> Vec<Value> {
    match value.as_list() {
        Some(list) => list.to_vec(),
        None => vec![value.clone()],
    }
}

/// Returns the key and value of a dictionary with exactly one entry.
pub(super) fn only(value: &Value) -> Option<(String, &Value)> {
    let map = value.as_map().filter(|map| map.len() == 1)?;
    let (key, value) = map.iter().next()?;
    Some((key.to_text(), value))
}

/// Returns whether a condition, `fun` or `fun: [{args: …, kwargs: …}]`, allows a call.
pub(super) fn allows(condition: &Value, fun: &str, args: &[Value]) -> bool {
    match only(condition) {
        None => condition.as_map().is_none() && fullmatch(&condition.to_text(), fun),
        Some((name, conditions)) => {
            let conditions = several(conditions);
            fullmatch(&name, fun) && conditions.iter().any(|one| suits(one, args))
        }
    }
}

/// The last item of a condition's `args` that allows any further positional arguments.
const ANY_MORE: &str = "...";

/// Returns whether arguments satisfy a condition. A condition with `args` or `kwargs` covers all
/// arguments: one that it does not name is refused.
fn suits(condition: &Value, args: &[Value]) -> bool {
    let Some(condition) = condition.as_map() else {
        return false;
    };
    let (wanted, named) = (condition.get("args"), condition.get("kwargs"));
    if wanted.is_none() && named.is_none() {
        return true;
    }
    let (places, names) = split(args);
    let wanted = wanted.map(several).unwrap_or_default();
    let empty = Map::new();
    let named = named.and_then(Value::as_map).unwrap_or(&empty);
    places_suit(&wanted, &places) && names_suit(named, &names)
}

/// Returns whether a value matches the one of a condition. A null in the condition matches any
/// value.
fn fits(wanted: &Value, given: &Value) -> bool {
    wanted.is_null() || fullmatch(&wanted.to_text(), &given.to_text())
}

fn places_suit(wanted: &[Value], given: &[Value]) -> bool {
    let (wanted, has_more) = match wanted.split_last() {
        Some((last, before)) if last.as_str() == Some(ANY_MORE) => (before, true),
        _ => (wanted, false),
    };
    let has_all = match has_more {
        true => given.len() >= wanted.len(),
        false => given.len() == wanted.len(),
    };
    has_all
        && wanted
            .iter()
            .zip(given)
            .all(|(one, given)| fits(one, given))
}

/// Returns whether every name of a condition is given, and every given name is either in the
/// condition or matches one of its patterns.
fn names_suit(wanted: &Map, given: &Map) -> bool {
    let mut names = wanted.keys().map(Value::to_text);
    let has_all = names.all(|name| !is_name(&name) || given.contains(&name));
    has_all
        && given.iter().all(|(name, value)| {
            let name = name.to_text();
            match wanted.get(&name) {
                Some(one) => fits(one, value),
                None => wanted.iter().any(|(pattern, one)| {
                    let pattern = pattern.to_text();
                    !is_name(&pattern) && fullmatch(&pattern, &name) && fits(one, value)
                }),
            }
        })
}

/// Returns whether a key of a condition is an argument's name rather than a pattern of names.
fn is_name(key: &str) -> bool {
    key.chars()
        .all(|letter| letter.is_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_may_be_about_the_arguments() {
        let kwargs = || Map::new().with("pkg", "nginx.*");
        let one = Map::new()
            .with("args", Value::list([Value::Null, "a|b".into()]))
            .with("kwargs", kwargs());
        let condition = Value::from(Map::new().with("pkg.install", one));
        let named = |pkg: &str| Map::new().with("__kwarg__", true).with("pkg", pkg).into();
        let good: [Value; 3] = ["x".into(), "b".into(), named("nginx-light")];
        assert!(allows(&condition, "pkg.install", &good));
        assert!(!allows(&condition, "pkg.remove", &good));
        assert!(!allows(&condition, "pkg.install", &good[..2]));
        let other = ["x".into(), "c".into(), named("nginx")];
        assert!(!allows(&condition, "pkg.install", &other));
        let empty = Value::from(Map::new().with("pkg.install", Map::new()));
        assert!(allows(&empty, "pkg.install", &good));
        assert!(allows(&"test.*".into(), "test.ping", &[]));
        assert!(!allows(&"test".into(), "test.ping", &[]));
    }

    fn kwargs(names: &[(&str, &str)]) -> Value {
        let given = Map::new().with("__kwarg__", true);
        let all = names.iter();
        all.fold(given, |given, (name, value)| given.with(name, *value))
            .into()
    }

    #[test]
    fn a_condition_binds_the_arguments_that_it_does_not_name() {
        let list = |items: &[&str]| Value::list(items.iter().map(|item| (*item).into()));
        let args = Value::from(Map::new().with("args", list(&["id"])));
        assert!(suits(&args, &["id".into()]));
        assert!(!suits(&args, &["id".into(), "x".into()]));
        let path = kwargs(&[("prepend_path", "/home/nob/bin")]);
        assert!(!suits(&args, &["id".into(), path.clone()]));

        let open = Value::from(Map::new().with("args", list(&["id", "..."])));
        assert!(suits(&open, &["id".into()]));
        assert!(suits(&open, &["id".into(), "x".into(), "y".into()]));
        assert!(!suits(&open, &[]));
        assert!(!suits(&open, &["who".into(), "x".into()]));
        assert!(!suits(&open, &["id".into(), path]));
    }

    #[test]
    fn a_condition_binds_the_keywords_that_it_does_not_name() {
        let named = Map::new().with("pkg", "nginx");
        let one = Value::from(Map::new().with("kwargs", named.clone()));
        assert!(suits(&one, &[kwargs(&[("pkg", "nginx")])]));
        assert!(!suits(&one, &[kwargs(&[("pkg", "nginx"), ("root", "/x")])]));
        assert!(!suits(&one, &["x".into(), kwargs(&[("pkg", "nginx")])]));
        assert!(!suits(&one, &[]));

        let any = named.clone().with(".*", ".*");
        let any = Value::from(Map::new().with("kwargs", any));
        assert!(suits(&any, &[kwargs(&[("pkg", "nginx")])]));
        assert!(suits(&any, &[kwargs(&[("pkg", "nginx"), ("root", "/x")])]));
        assert!(!suits(&any, &[kwargs(&[("pkg", "sshd")])]));
        assert!(!suits(&any, &[kwargs(&[("root", "/x")])]));

        let some = Value::from(Map::new().with("kwargs", named.with("re.*", "a|b")));
        assert!(suits(&some, &[kwargs(&[("pkg", "nginx"), ("repo", "b")])]));
        assert!(!suits(&some, &[kwargs(&[("pkg", "nginx"), ("repo", "c")])]));
        assert!(!suits(&some, &[kwargs(&[("pkg", "nginx"), ("more", "a")])]));
    }
}
