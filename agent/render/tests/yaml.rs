//! Compares the YAML loader and writer with the answers of real Salt, and tests their limits.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use render::yaml::{self, Class, Dump};
use serde_json::Value as Json;
use value::{Map, Value, json};

fn corpus(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/yaml");
    fs::read_to_string(folder.join(name)).unwrap()
}

fn strings(name: &str) -> Vec<String> {
    serde_json::from_str(&corpus(name)).unwrap()
}

/// Returns a value in the notation of the recording script.
fn notation(value: &Value) -> String {
    let all = |items: &[Value]| items.iter().map(notation).collect::<Vec<_>>();
    match value {
        Value::Null => "N".into(),
        Value::Bool(truth) => if *truth { "T" } else { "F" }.into(),
        Value::Int(_) | Value::Big(_) => format!("i{}", value.to_text()),
        Value::Float(number) if number.is_nan() => "fnan".into(),
        Value::Float(number) => format!("f{:016x}", number.to_bits()),
        Value::Str(_) => format!("s{}", json::write(value, json::Layout::default())),
        Value::Bytes(bytes) => bytes
            .iter()
            .fold("b".into(), |text, byte| format!("{text}{byte:02x}")),
        Value::List(items) => format!(
            "[{}]",
            all(items)
                .iter()
                .map(|item| format!("{item},"))
                .collect::<String>()
        ),
        Value::Tuple(items) => format!("({})", all(items).join(",")),
        Value::Map(map) => {
            let entry = |(key, value)| format!("{}:{},", notation(key), notation(value));
            format!("{{{}}}", map.iter().map(entry).collect::<String>())
        }
        Value::Set(map) => {
            let mut keys: Vec<_> = map.keys().map(notation).collect();
            keys.sort();
            format!("<{}>", keys.join(","))
        }
    }
}

fn answer(text: &str) -> String {
    match yaml::load(text) {
        Ok(value) => notation(&value),
        Err(error) if error.line == 0 => format!("ERR - {}", error.problem),
        Err(error) => format!("ERR {}:{} {}", error.line, error.column, error.problem),
    }
}

/// Compares all documents of a corpus and returns those that differ.
fn differing(documents: &str, answers: &str) -> Vec<String> {
    let pairs = strings(documents).into_iter().zip(strings(answers));
    pairs
        .enumerate()
        .filter(|(_, (document, want))| answer(document) != *want)
        .map(|(index, (document, want))| {
            format!(
                "{index}: {document:?}\n  salt: {want}\n  ours: {}",
                answer(&document)
            )
        })
        .collect()
}

#[test]
fn documents_load_as_salt_loads_them() {
    // Python makes a list that contains itself, on which the recording script failed.
    let recursive = ["127: ", "128: "];
    let (known, found): (Vec<_>, Vec<_>) = differing("docs.json", "docs.salt.json")
        .into_iter()
        .partition(|text| recursive.iter().any(|start| text.starts_with(start)));
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(known.len(), recursive.len());
    assert!(
        known
            .iter()
            .all(|text| text.contains("salt: ERR recursion"))
    );
    assert!(
        known
            .iter()
            .all(|text| text.contains("found unconstructable recursive node"))
    );
}

#[test]
fn mutants_load_as_salt_loads_them() {
    let found = differing("mutants.json", "mutants.salt.json");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Reads a value from the typed notation of the recorded dumps, and whether its maps are sorted
/// (plain dictionaries) or ordered.
#[derive(Default)]
struct Typed {
    shared: HashMap<u64, Value>,
    sorted: bool,
    ordered: bool,
    undefined: bool,
}

impl Typed {
    fn value(&mut self, json: &Json) -> Value {
        let (kind, rest) = (json[0].as_str().unwrap(), &json[1]);
        let value = match kind {
            "N" => Value::Null,
            "U" => {
                self.undefined = true;
                Value::Null
            }
            "b" => Value::Bool(rest.as_bool().unwrap()),
            "i" => {
                let digits = rest.as_str().unwrap();
                digits
                    .parse()
                    .map_or_else(|_| Value::Big(digits.into()), Value::Int)
            }
            "f" => Value::Float(rest.as_str().unwrap().parse().unwrap()),
            "s" => Value::from(rest.as_str().unwrap()),
            "y" => Value::Bytes(
                rest.as_array()
                    .unwrap()
                    .iter()
                    .map(|byte| byte.as_u64().unwrap() as u8)
                    .collect(),
            ),
            "l" => Value::List(Arc::new(self.all(rest))),
            "S" => Value::Set(
                self.all(rest)
                    .into_iter()
                    .map(|key| (key, Value::Null))
                    .collect(),
            ),
            "d" | "o" => Value::Map(self.map(kind, rest)),
            "R" => return self.shared[&rest.as_u64().unwrap()].clone(),
            other => panic!("unknown kind {other}"),
        };
        if let Some(number) = json[2].as_u64() {
            self.shared.insert(number, value.clone());
        }
        value
    }

    fn all(&mut self, items: &Json) -> Vec<Value> {
        items
            .as_array()
            .unwrap()
            .iter()
            .map(|item| self.value(item))
            .collect()
    }

    fn map(&mut self, kind: &str, entries: &Json) -> Map {
        self.sorted |= kind == "d";
        self.ordered |= kind == "o";
        entries
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| (self.value(&entry[0]), self.value(&entry[1])))
            .collect()
    }
}

#[test]
fn values_are_written_as_salt_writes_them() {
    let cases: Vec<Json> = serde_json::from_str(&corpus("dumps.json")).unwrap();
    let (mut wrong, mut skipped) = (Vec::new(), 0);
    for case in &cases {
        let mut typed = Typed::default();
        let value = typed.value(&case["v"]);
        // Values here have no undefined, which Salt writes as `NULL`, and only one order for all
        // the maps of a value.
        if typed.undefined || (typed.sorted && typed.ordered) {
            skipped += 1;
            continue;
        }
        let options = Dump {
            default_flow_style: case["flow"].as_bool(),
            indent: case["indent"].as_i64().unwrap() as i32,
            unicode: case["unicode"].as_bool().unwrap(),
            sort_keys: !typed.ordered,
            ..Dump::default()
        };
        let (want, ours) = (
            case["want"].as_str().unwrap(),
            yaml::dump(&value, &options).unwrap(),
        );
        if want != ours {
            wrong.push(format!(
                "{} {options:?}\n  salt: {want:?}\n  ours: {ours:?}",
                case["name"]
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!((cases.len(), skipped), (4407, 15));
}

#[test]
fn errors_print_as_salt_prints_them() {
    let cases: Vec<[String; 3]> = serde_json::from_str(&corpus("errors.json")).unwrap();
    let mut wrong = Vec::new();
    for [document, value, error] in &cases {
        let (ours, want) = match yaml::load(document) {
            Ok(loaded) => (notation(&loaded), value),
            Err(failed) => (failed.to_string(), error),
        };
        if ours != *want {
            wrong.push(format!(
                "{document:?}\n  salt: {value}{error}\n  ours: {ours}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_document_past_a_limit_is_a_clear_error_at_once() {
    let nested = "[".repeat(10_000);
    let chained: String = (1..300)
        .map(|n| format!("- &a{n} [*a{}]\n", n - 1))
        .collect();
    let merged: String = (1..200)
        .map(|n| format!("a{n}: &a{n} {{<<: *a{}, k{n}: 1}}\n", n - 1))
        .collect();
    let wide: String = (0..10_000).map(|n| format!("k{n}: 1, ")).collect();
    let doubled = (0..60).fold("{x: 1}".to_owned(), |inner, n| {
        format!("{{<<: [&a{n} {inner}, *a{n}]}}")
    });
    for (document, problem, place) in [
        (
            "a".repeat(100 << 20),
            "the document has 104857600 bytes, more than the 67108864 that are allowed",
            (0, 0),
        ),
        (
            nested,
            "the document is nested deeper than 200 levels",
            (1, 202),
        ),
        (
            "- ".repeat(10_000),
            "the document is nested deeper than 200 levels",
            (1, 403),
        ),
        (
            format!("- &a0 1\n{chained}"),
            "the document is nested deeper than 200 levels",
            (202, 3),
        ),
        (
            "[".to_owned() + &"1,".repeat(2_000_000) + "]",
            "the document has more than 1000000 nodes",
            (1, 2_000_000),
        ),
        (
            "%TAG !a! b\n".repeat(101) + "---\na",
            "the document has more than 100 %TAG directives",
            (0, 0),
        ),
        (
            doubled,
            "the document has more than 1000000 nodes with its aliases expanded",
            (0, 0),
        ),
        (
            format!("a0: &a0 {{{wide}}}\n{merged}"),
            "the document has more than 1000000 nodes with its aliases expanded",
            (0, 0),
        ),
    ] {
        let start = Instant::now();
        let Err(error) = yaml::load(&document) else {
            panic!("no limit: {problem}")
        };
        let took = start.elapsed();
        assert_eq!(
            (error.class, error.problem.as_str()),
            (Class::Limit, problem)
        );
        if place != (0, 0) {
            assert_eq!((error.line, error.column), place, "{problem}");
        }
        assert!(took.as_secs() < 100, "{problem}: {took:?}");
    }
}

/// Returns levels of lists, each of ten aliases of the level before.
fn aliases(levels: usize) -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..levels {
        let items = vec![format!("*a{}", n - 1); 10].join(", ");
        text += &format!("a{n}: &a{n} [{items}]\n");
    }
    text
}

#[test]
fn an_alias_bomb_is_refused() {
    let error = yaml::load(&aliases(100)).unwrap_err().to_string();
    let want = "more than 1000000 nodes with its aliases expanded";
    assert!(error.contains(want), "{error}");
}

#[test]
fn aliases_share_what_they_stand_for() {
    let value = yaml::load(&aliases(5)).unwrap();
    let [Value::List(first), Value::List(last)] = &value.get("a4").unwrap().as_list().unwrap()[8..]
    else {
        panic!("lists are expected")
    };
    assert!(Arc::ptr_eq(first, last));
    let options = Dump {
        default_flow_style: Some(true),
        width: -1,
        ..Dump::default()
    };
    assert_eq!(
        yaml::load(&yaml::dump(&value.get("a3").unwrap().clone(), &options).unwrap())
            .unwrap()
            .as_list()
            .map(<[_]>::len),
        Some(10)
    );
}

#[test]
fn a_node_is_found_by_its_path() {
    let text = "base: &b\n  x: 1\nuse:\n  <<: *b\n  file.managed:\n    - name: /x\n    - mode: 0644\n1: {on: [a, b]}\n";
    let find = |path: &[Value]| yaml::locate(text, path);
    assert_eq!(find(&[]), Some((1, 1)));
    assert_eq!(find(&["use".into()]), Some((3, 1)));
    assert_eq!(
        find(&["use".into(), "file.managed".into(), 1.into(), "mode".into()]),
        Some((7, 7))
    );
    assert_eq!(
        find(&["use".into(), "file.managed".into(), 1.into()]),
        Some((7, 7))
    );
    assert_eq!(find(&["use".into(), "x".into()]), Some((2, 3)));
    assert_eq!(find(&[1.into(), true.into(), 1.into()]), Some((8, 13)));
    assert_eq!(find(&["nobody".into()]), None);
    assert_eq!(find(&["use".into(), "file.managed".into(), 2.into()]), None);
    assert_eq!(yaml::locate("a: [", &["a".into()]), None);
    // Each merge of a mapping into itself is followed once, however many there are.
    let merges = format!("&b\n{}a: 1", "<<: *b\n".repeat(50));
    assert_eq!(yaml::locate(&merges, &["c".into()]), None);
}

#[test]
fn the_three_users_of_the_writer_get_their_layout() {
    let value = yaml::load("b: {c: [1, two], d: 'yes'}\na: []\n").unwrap();
    let outputter = |indent| yaml::dump(&value, &Dump::outputter(indent)).unwrap();
    assert_eq!(
        outputter(None),
        "a: []\nb:\n  c:\n  - 1\n  - two\n  d: 'yes'\n"
    );
    assert_eq!(
        outputter(Some(4)),
        "a: []\nb:\n    c:\n    - 1\n    - two\n    d: 'yes'\n"
    );
    assert_eq!(outputter(Some(-1)), "{a: [], b: {c: [1, two], d: 'yes'}}\n");
    assert_eq!(yaml::filter(&Value::from("foo"), true).unwrap(), "foo");
    let ordered = Dump {
        sort_keys: false,
        ..Dump::default()
    };
    assert_eq!(
        yaml::serialize(&value, &ordered).unwrap(),
        "b:\n  c: [1, two]\n  d: 'yes'\na: []"
    );
    let private = Value::from(vec!["\u{1f600}", "\u{e05c}U"]);
    assert_eq!(
        yaml::filter(&private, true).unwrap(),
        "[\"\\U0001F600\", \u{e05c}U]"
    );
    let deep = (0..600).fold(Value::Null, |value, _| Value::list([value]));
    assert!(yaml::dump(&deep, &Dump::default()).is_err());
}
