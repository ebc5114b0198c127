//! The queries of a source, in all forms that the configuration may have.

use value::{Map, Value};

/// The keys of a query.
const KEYS: [&str; 6] = [
    "query",
    "depth",
    "as_list",
    "as_json",
    "with_lists",
    "ignore_null",
];

/// A query, and the form of its data.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Query {
    /// The words that name it in errors.
    pub(super) place: String,
    /// The key that its data appear under.
    pub(super) root: Option<String>,
    pub(super) text: String,
    /// The number of columns that become keys, from the left. With 0, all but the last one do.
    pub(super) depth: usize,
    /// True if values of the same key become a list.
    pub(super) as_list: bool,
    /// True if the only column has JSON documents, which are merged.
    pub(super) as_json: bool,
    /// The columns, from 1, whose dictionaries become lists of their values.
    pub(super) with_lists: Vec<usize>,
    /// True if NULL does not replace a value.
    pub(super) ignore_null: bool,
}

/// Returns the queries of a source: those of a list in its order, those of a dictionary in the order
/// of their names. Empty entries are skipped, as in Salt.
///
/// # Errors
/// When an entry is no query: with its place.
pub(super) fn configured(val: &Value) -> Result<Vec<Query>, String> {
    let listed = |items: &[Value]| -> Vec<(Option<String>, Value)> {
        items.iter().map(|item| (None, item.clone())).collect()
    };
    let entries = match val {
        Value::Map(map) => {
            let mut named: Vec<(Option<String>, Value)> = map
                .iter()
                .map(|(name, entry)| (Some(name.to_text()), entry.clone()))
                .collect();
            named.sort_by(|(one, _), (other, _)| one.cmp(other));
            named
        }
        Value::List(items) => listed(items),
        Value::Null => Vec::new(),
        only => listed(std::slice::from_ref(only)),
    };
    let mut queries = Vec::new();
    for (at, (root, entry)) in entries.into_iter().enumerate() {
        let place = match &root {
            Some(root) => format!("query {root}"),
            None => format!("query {}", at + 1),
        };
        let query = one(&entry).map_err(|reason| format!("{place}: {reason}"))?;
        let root = root.filter(|root| !root.is_empty());
        queries.extend(query.map(|query| Query {
            place,
            root,
            ..query
        }));
    }
    Ok(queries)
}

/// Returns the query of an entry: `None` if it is empty.
fn one(entry: &Value) -> Result<Option<Query>, String> {
    let (text, settings) = match entry {
        Value::Map(map) => {
            let text = map.get("query");
            let text = text.ok_or("it has no key query")?;
            (text.clone(), map.clone())
        }
        Value::List(items) | Value::Tuple(items) => {
            let settings = items
                .get(1)
                .map(|depth| Map::new().with("depth", depth.clone()));
            let text = items.first().cloned().unwrap_or_default();
            (text, settings.unwrap_or_default())
        }
        text => (text.clone(), Map::new()),
    };
    if !text.is_true() {
        return Ok(None);
    }
    let text = text.as_str().ok_or("a query must be a text")?.to_owned();
    for key in settings.keys().map(Value::to_text) {
        if !KEYS.contains(&key.as_str()) {
            let known = KEYS.join(", ");
            return Err(format!("it has the key {key}; expected one of {known}"));
        }
    }
    let is_set = |key: &str| settings.get(key).is_some_and(Value::is_true);
    Ok(Some(Query {
        text,
        depth: depth(settings.get("depth"))?,
        as_list: is_set("as_list"),
        as_json: is_set("as_json"),
        with_lists: columns(settings.get("with_lists"))?,
        ignore_null: is_set("ignore_null"),
        ..Query::default()
    }))
}

fn depth(given: Option<&Value>) -> Result<usize, String> {
    let depth = given.map_or(Some(0), Value::as_int);
    let depth = depth.and_then(|depth| usize::try_from(depth).ok());
    depth.ok_or_else(|| "depth must be a whole number of 0 or more".to_owned())
}

/// Returns the columns of `with_lists`: a list, or a text with commas.
fn columns(given: Option<&Value>) -> Result<Vec<usize>, String> {
    let items = match given {
        None | Some(Value::Null | Value::Bool(false)) => return Ok(Vec::new()),
        Some(Value::Str(text)) if text.is_empty() => return Ok(Vec::new()),
        Some(Value::Str(text)) => text.split(',').map(|part| part.trim().into()).collect(),
        Some(Value::List(items)) => items.to_vec(),
        Some(only) => vec![only.clone()],
    };
    let number = |item: &Value| match item {
        Value::Str(text) => text.trim().parse().ok(),
        other => other.as_int(),
    };
    let numbers: Option<Vec<i64>> = items.iter().map(number).collect();
    let numbers = numbers.ok_or("with_lists must be numbers of columns")?;
    let numbers = numbers.into_iter();
    Ok(numbers
        .filter_map(|number| usize::try_from(number).ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(yaml: &str) -> Result<Vec<Query>, String> {
        configured(&render::yaml::load(yaml).unwrap())
    }

    #[test]
    fn queries_are_texts_lists_and_dictionaries() {
        let found = all(
            "[a, [b, 2], {query: c, with_lists: '1, 3', as_list: True}, '', [], [''], {query: ''}, null]",
        );
        let found = found.unwrap();
        let texts: Vec<&str> = found.iter().map(|query| query.text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "c"]);
        assert_eq!((found[1].depth, found[1].place.as_str()), (2, "query 2"));
        assert_eq!(found[2].with_lists, [1, 3]);
        assert_eq!(all("a").unwrap()[0].text, "a");
        let named = all("{b: x, a: {query: y, depth: 1}}").unwrap();
        assert_eq!(named[0].root.as_deref(), Some("a"));
        assert_eq!(named[1].root.as_deref(), Some("b"));
        assert!(all("null").unwrap().is_empty());
    }

    #[test]
    fn an_entry_that_is_no_query_is_an_error_with_its_place() {
        for (yaml, part) in [
            ("[a, {qeury: b}]", "query 2: it has no key query"),
            ("{x: {query: b, dept: 1}}", "query x: it has the key dept"),
            ("[7]", "query 1: a query must be a text"),
            ("[[a, '2']]", "depth must be"),
            ("[[a, -1]]", "depth must be"),
            ("[{query: a, with_lists: [x]}]", "with_lists must be"),
        ] {
            let error = all(yaml).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
