//! The YAML loader and writer: nothing crashes them, and what was loaded and written loads as the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use render::yaml::{self, Dump};
use value::Value;

/// The size above which expanding a value tests nothing more.
const NODES_MAX: usize = 20_000;

const LAYOUTS: [Dump; 4] = [
    layout(None, 2, true),
    layout(Some(false), 4, true),
    layout(Some(true), 2, false),
    layout(Some(false), 2, false),
];

const fn layout(flow: Option<bool>, indent: i32, unicode: bool) -> Dump {
    Dump {
        default_flow_style: flow,
        indent,
        width: 80,
        unicode,
        sort_keys: unicode,
    }
}

/// Counts nodes as if nothing were shared, up to a limit.
fn count(value: &Value, left: &mut usize) {
    *left = left.saturating_sub(1);
    if *left == 0 {
        return;
    }
    match value {
        Value::List(items) | Value::Tuple(items) => items.iter().for_each(|item| count(item, left)),
        Value::Map(map) | Value::Set(map) => map.iter().for_each(|(key, value)| {
            count(key, left);
            count(value, left);
        }),
        _ => {}
    }
}

/// A value without what YAML does not keep: the order of keys, and lists that were tuples.
fn notation(value: &Value) -> String {
    let all = |items: &[Value]| items.iter().map(notation).collect::<Vec<_>>().join(",");
    match value {
        Value::Float(number) if number.is_nan() => "nan".into(),
        Value::Float(number) => format!("f{:x}", number.to_bits()),
        Value::List(items) | Value::Tuple(items) => format!("[{}]", all(items)),
        Value::Map(map) | Value::Set(map) => {
            let kind = value.type_name();
            let entry = |(key, value)| format!("{}:{}", notation(key), notation(value));
            let mut entries: Vec<_> = map.iter().map(entry).collect();
            entries.sort();
            format!("{kind}{{{}}}", entries.join(","))
        }
        other => format!("{other:?}"),
    }
}

fn written_and_read(value: &Value, layout: &Dump) {
    // A value may nest deeper than the limit when merges put one into another.
    let Ok(text) = yaml::dump(value, layout) else {
        return;
    };
    match yaml::load(&text) {
        Ok(again) => assert_eq!(notation(value), notation(&again), "{layout:?}\n{text}"),
        Err(error) => panic!("{error}\n{layout:?}\n{text}"),
    }
}

fuzz_target!(|text: &str| {
    let _ = yaml::load_rendered(text);
    let _ = yaml::locate(text, &["a".into(), 1.into(), "b".into()]);
    let Ok(value) = yaml::load(text) else { return };
    let mut left = NODES_MAX;
    count(&value, &mut left);
    if left > 0 {
        for layout in &LAYOUTS {
            written_and_read(&value, layout);
        }
        let _ = yaml::filter(&value, true);
        let _ = yaml::serialize(&value, &Dump::default());
    }
});
