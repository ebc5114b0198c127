//! `file.accumulated`.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Trees(&["filename"]))]
    mod file;

    /// Collect texts for the template of a managed file, which sees them as `accumulator`.
    ///
    ///     peers:
    ///       file.accumulated:
    ///         - filename: /etc/peers
    ///         - text: 10.0.0.7
    ///         - require_in:
    ///           - file: /etc/peers
    fn accumulated(Accumulated {
        /// The name of the collection.
        name: String,
        /// The managed file.
        filename: String,
        /// A text, or a list of texts.
        text: Value,
        ..kwargs
    });
}

fn accumulated(cx: &Exec, args: Accumulated) -> Result<Ret, Error> {
    let (name, filename) = (&args.name, &args.filename);
    if name.is_empty() {
        return Err("Must provide name to file.accumulated".into());
    }
    if args.text.is_null() {
        return Err("No text supplied for accumulator".into());
    }
    if !serves_a_file(cx) {
        let low = cx.chunk.as_deref();
        let (sls, id) = low.map_or(("", ""), |low| (&low.sls, &low.id));
        return Err(format!("Orphaned accumulator {name} in {sls}:{id}").into());
    }
    let texts = match &args.text {
        Value::List(texts) | Value::Tuple(texts) => texts.to_vec(),
        one => vec![one.clone()],
    };
    let mut all = super::accumulators(cx);
    let added = add(&mut all, filename, name, texts);
    cx.context(|context| context.insert("file.accumulators", all));
    note_dependants(cx, filename, name);
    Ok(Ret::ok(if added {
        format!("Accumulator {name} for file {filename} was charged by text")
    } else {
        String::new()
    }))
}

/// Records the states that the texts are meant for: `file.blockreplace` uses only the texts that
/// name it.
fn note_dependants(cx: &Exec, filename: &str, name: &str) {
    let Some(low) = &cx.chunk else {
        return;
    };
    let items = ["require_in", "watch_in"]
        .iter()
        .filter_map(|key| low.data.get(key)?.as_list());
    let maps = items.flatten().filter_map(Value::as_map);
    let ids: Vec<Value> = maps.flat_map(Map::values).cloned().collect();
    cx.context(|context| {
        let all = context
            .entry("file.accumulators_deps", || Map::new().into())
            .as_map_mut();
        let of_file = all.and_then(|all| all.entry(filename, || Map::new().into()).as_map_mut());
        let known = of_file.and_then(|map| map.entry(name, || Value::list([])).as_list_mut());
        if let Some(known) = known {
            known.extend(ids);
        }
    });
}

/// Returns true if a state of the file module requires or watches the chunk, by `require_in` or
/// `watch_in`.
fn serves_a_file(cx: &Exec) -> bool {
    let Some(low) = &cx.chunk else {
        return false;
    };
    ["require_in", "watch_in"].iter().any(|key| {
        let items = low.data.get(key).and_then(Value::as_list);
        items.unwrap_or_default().iter().any(|item| match item {
            Value::Map(map) => map.contains("file"),
            other => other.as_str().is_some_and(|text| text.contains("file")),
        })
    })
}

/// Adds the missing texts. Returns true if there were any.
fn add(all: &mut Map, filename: &str, name: &str, texts: Vec<Value>) -> bool {
    let of_file = all.entry(filename, || Map::new().into()).as_map_mut();
    let list = of_file.and_then(|map| map.entry(name, || Value::list([])).as_list_mut());
    let Some(list) = list else {
        return false;
    };
    let before = list.len();
    for text in texts {
        if !list.contains(&text) {
            list.push(text);
        }
    }
    list.len() > before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_collected_once() {
        let mut all = Map::new();
        assert!(add(&mut all, "/f", "a", vec!["x".into(), "x".into()]));
        assert!(!add(&mut all, "/f", "a", vec!["x".into()]));
        let of_file = all.get("/f").and_then(|file| file.get("a")).cloned();
        assert_eq!(of_file, Some(vec!["x"].into()));
    }
}
