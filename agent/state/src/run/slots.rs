//! `__slot__:salt:mod.fun(args).key ~ suffix`: arguments that are evaluated just before the call.

use value::{Map, Value, log};

use crate::exec::Exec;
use crate::module::Error;

const SLOT: &str = "__slot__:";

/// Evaluates the slots in arguments: strings, and strings one level down in lists and dictionaries.
pub(super) fn fill(cx: &Exec, arguments: &mut Map) -> Result<(), Error> {
    if arguments.values().any(has_slot) {
        for (_, value) in arguments.iter_mut() {
            fill_value(cx, value)?;
        }
    }
    Ok(())
}

/// Evaluates the slots in one argument.
pub(super) fn fill_value(cx: &Exec, value: &mut Value) -> Result<(), Error> {
    if !has_slot(value) {
        return Ok(());
    }
    match value {
        Value::Str(text) => *value = evaluated(cx, text)?,
        Value::Map(map) => fill_texts(cx, map)?,
        _ => {
            for item in value.as_list_mut().into_iter().flatten() {
                match item {
                    Value::Map(map) => fill_texts(cx, map)?,
                    Value::Str(text) if text.starts_with(SLOT) => *item = evaluated(cx, text)?,
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

fn fill_texts(cx: &Exec, map: &mut Map) -> Result<(), Error> {
    for (_, value) in map.iter_mut() {
        if let Value::Str(text) = value
            && text.starts_with(SLOT)
        {
            *value = evaluated(cx, text)?;
        }
    }
    Ok(())
}

fn is_slot(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.starts_with(SLOT))
}

fn has_slot(value: &Value) -> bool {
    let inner = |value: &Value| {
        is_slot(value) || value.as_map().is_some_and(|map| map.values().any(is_slot))
    };
    match value {
        Value::List(items) => items.iter().any(inner),
        other => inner(other),
    }
}

/// Returns the value of a slot; the slot itself if it is malformed.
fn evaluated(cx: &Exec, slot: &str) -> Result<Value, Error> {
    let mut parts = slot.splitn(3, ':').skip(1);
    let (Some("salt"), Some(rest)) = (parts.next(), parts.next()) else {
        return Ok(malformed(slot));
    };
    let Some(call) = Call::parsed(rest).filter(|call| cx.has_function(&call.function)) else {
        return Ok(malformed(slot));
    };
    let mut returned = cx.call(&call.function, call.args, call.kwargs)?;
    let (text, suffix) = match rest.split_once('~') {
        Some((text, suffix)) => (text, Some(suffix.trim())),
        None => (rest, None),
    };
    let after = text.rfind(')').and_then(|at| text.get(at + 1..));
    if let Some((_, path)) = after.and_then(|after| after.split_once('.')) {
        returned = returned
            .traverse(path.trim(), ".")
            .cloned()
            .unwrap_or_default();
    }
    match (&returned, suffix) {
        (Value::Str(text), Some(suffix)) => Ok(format!("{text}{}", unquoted(suffix)).into()),
        _ => Ok(returned),
    }
}

fn malformed(slot: &str) -> Value {
    log::warning(format_args!("Malformed slot: {slot}"));
    slot.into()
}

fn unquoted(text: &str) -> &str {
    let within = |mark| text.strip_prefix(mark)?.strip_suffix(mark);
    within('"').or_else(|| within('\'')).unwrap_or(text)
}

/// A function call in a slot. All arguments are strings.
#[derive(Debug, Default, PartialEq)]
struct Call {
    function: String,
    args: Vec<Value>,
    kwargs: Map,
}

impl Call {
    /// Parses `mod.fun(a, "b c", key=[d, e])`; `None` if it is not a call.
    fn parsed(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let function: String = name.chars().filter(|c| !c.is_whitespace()).collect();
        if function.is_empty() {
            return None;
        }
        let mut call = Self {
            function,
            ..Self::default()
        };
        let (mut word, mut key, mut brackets) = (None::<String>, None, Vec::new());
        let mut chars = rest.chars();
        while let Some(c) = chars.next() {
            match c {
                ',' | ')' if brackets.is_empty() => {
                    call.add(key.take(), word.take());
                    if c == ')' {
                        return Some(call);
                    }
                }
                '=' if brackets.is_empty() => key = word.take(),
                '"' | '\'' => quoted(c, &mut chars, word.get_or_insert_default())?,
                c if c.is_whitespace() => {}
                c => {
                    match c {
                        '[' => brackets.push(']'),
                        '{' => brackets.push('}'),
                        '(' => brackets.push(')'),
                        ']' | '}' | ')' if brackets.pop() != Some(c) => return None,
                        _ => {}
                    }
                    let plain = if c == '\\' { chars.next()? } else { c };
                    word.get_or_insert_default().push(plain);
                }
            }
        }
        None
    }

    fn add(&mut self, key: Option<String>, word: Option<String>) {
        match (key, word) {
            (Some(key), word) => {
                self.kwargs.insert(key, word.unwrap_or_default());
            }
            (None, Some(word)) => self.args.push(word.into()),
            (None, None) => {}
        }
    }
}

/// Reads up to the closing quote. A backslash escapes a quote or itself.
fn quoted(mark: char, chars: &mut std::str::Chars<'_>, word: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            c if c == mark => return Some(()),
            '\\' => match chars.next()? {
                c if c == mark || c == '\\' => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_salt_reads_it() {
        let call = Call::parsed(r#"test.arg(a, "b c", key=[d, e], other='x"y').key ~ z"#).unwrap();
        assert_eq!(call.function, "test.arg");
        assert_eq!(call.args, vec![Value::from("a"), Value::from("b c")]);
        let kwargs = Map::new().with("key", "[d,e]").with("other", "x\"y");
        assert_eq!(call.kwargs, kwargs);
        assert_eq!(Call::parsed("test.arg"), None);
        assert_eq!(Call::parsed("test.arg(a"), None);
        assert_eq!(Call::parsed("test.arg(a]"), None);
    }
}
