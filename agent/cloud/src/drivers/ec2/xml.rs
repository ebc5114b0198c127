//! Reads the XML of answers as data: an element is a dictionary of its elements, a list if these are
//! all called `item`, or its text.

use value::{Map, Value};

use crate::drivers::xml::Element;

/// Reads a document, and returns the data of its outermost element.
///
/// # Errors
/// When it is not well formed, or too deep.
pub(super) fn read(text: &str) -> Result<Value, String> {
    Element::read(text).map(data)
}

/// Returns the data in the form in which Salt's driver returns it: a list is a dictionary with the
/// key `item`, whose value is the only element or the list.
pub(super) fn as_salt(data: &Value) -> Value {
    match data {
        Value::Map(map) => {
            let entries = map.iter();
            let entries = entries.map(|(key, value)| (key.clone(), as_salt(value)));
            entries.collect::<Map>().into()
        }
        Value::List(items) => {
            let item = match items.as_slice() {
                [one] => as_salt(one),
                all => Value::list(all.iter().map(as_salt)),
            };
            Map::new().with("item", item).into()
        }
        other => other.clone(),
    }
}

fn data(element: Element) -> Value {
    if element.inner.is_empty() {
        let text = element.text.trim();
        return match text.is_empty() {
            true => Value::Null,
            false => text.into(),
        };
    }
    if element.inner.iter().all(|inner| inner.name == "item") {
        return Value::list(element.inner.into_iter().map(data));
    }
    let mut map = Map::new();
    for inner in element.inner {
        map.insert(inner.name.clone(), data(inner));
    }
    map.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_lists_and_other_elements_dictionaries() {
        let text = "<?xml version='1.0'?>\n<R xmlns='x'><set><item><id>i-1</id><a/></item><item>b &amp; &#65;</item></set></R>";
        let first = Map::new().with("id", "i-1").with("a", Value::Null);
        let set = Value::list([first.into(), "b & A".into()]);
        assert_eq!(read(text), Ok(Map::new().with("set", set).into()));
    }

    #[test]
    fn lists_have_the_key_item_as_in_salts_returns() {
        let read = read("<R><a><item>1</item></a><b><item>1</item><item>2</item></b></R>").unwrap();
        let two = Value::list(["1".into(), "2".into()]);
        let wanted = Map::new()
            .with("a", Map::new().with("item", "1"))
            .with("b", Map::new().with("item", two));
        assert_eq!(as_salt(&read), wanted.into());
    }
}
