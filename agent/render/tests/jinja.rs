//! Compares rendered templates with those of real Jinja2 and real Salt.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::sync::{Arc, Mutex};
use std::time::Instant;

use render::{Context, Host, jinja};
use value::{Map, Value, json};

/// Functions that return the same results as in the recorded runs.
#[derive(Default)]
struct Functions {
    pillar: Value,
    changed: Mutex<Option<Map>>,
}

impl Host for Functions {
    fn call(&self, function: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, String> {
        let default = args
            .get(1)
            .cloned()
            .or_else(|| kwargs.get("default").cloned());
        match function {
            "grains.filter_by" => {
                let table = args.first().and_then(|table| table.get("Debian"));
                Ok(table.cloned().unwrap_or_default())
            }
            "pillar.get" => {
                let path = args.first().and_then(Value::as_str).unwrap_or_default();
                let found = self.pillar.traverse(path, ":").cloned();
                Ok(found.or(default).unwrap_or_else(|| Value::from("")))
            }
            "test.echo" => Ok(args.into_iter().next().unwrap_or_default()),
            "defaults.merge" | "slsutil.merge" => {
                let map = |at: usize| args.get(at).and_then(Value::as_map).cloned();
                let (lower, upper) = (map(0).unwrap_or_default(), map(1).unwrap_or_default());
                Ok(value::merge::recurse(&lower, &upper, false).into())
            }
            "test.kwarg" => Ok(Value::Map(kwargs)),
            "cmd.run" if kwargs.contains("cwd") => Err(
                "Specified cwd '/not/there/at/all' either not absolute or does not exist".into(),
            ),
            _ => Ok(default.unwrap_or_else(|| Value::from(""))),
        }
    }

    fn pillar(&self) -> Option<Map> {
        self.pillar.as_map().cloned()
    }

    fn set_pillar(&self, pillar: Map) {
        *self.changed.lock().unwrap() = Some(pillar);
    }

    fn has_function(&self, function: &str) -> bool {
        !["no.such", "test.nope"].contains(&function)
    }

    fn template(&self, name: &str, _: &str) -> Result<Option<Arc<str>>, String> {
        let path = format!(
            "{}/../../tests/corpus/jinja/tree/{name}",
            env!("CARGO_MANIFEST_DIR")
        );
        Ok(std::fs::read_to_string(path).ok().map(Into::into))
    }
}

fn read(name: &str) -> Value {
    let path = format!(
        "{}/../../tests/corpus/jinja/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    json::read(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn render(template: &str, variables: &Value, pillar: Value) -> String {
    let context = Context {
        name: "t.sls".into(),
        saltenv: "base".into(),
        variables: variables.as_map().cloned().unwrap_or_default(),
        ..Context::default()
    };
    let host: Arc<dyn Host> = Arc::new(Functions {
        pillar,
        ..Functions::default()
    });
    match jinja::render(template, &context, &host) {
        Ok(text) => format!("OK {text}"),
        Err(error) => format!("ERR {}", error.message),
    }
}

/// Intended differences: the number of the snippet, and the reason.
const DIFFERENCES: &[(usize, &str)] = &[(132, "`lipsum` makes filler text, which no state needs")];

/// Replaces Jinja2's class of an error by the beginning of Salt's message.
fn in_salt_words(answer: &str) -> String {
    answer
        .replace("ERR UndefinedError: ", "ERR Jinja variable ")
        .replace("ERR SecurityError: ", "ERR Jinja syntax error: ")
}

#[test]
fn snippets_render_as_jinja2_renders_them() {
    let (cases, wanted) = (read("snippets.json"), read("snippets.jinja2.json"));
    let mut wrong = Vec::new();
    for (number, (case, want)) in cases
        .as_list()
        .unwrap()
        .iter()
        .zip(wanted.as_list().unwrap())
        .enumerate()
    {
        let template = case.get("t").and_then(Value::as_str).unwrap();
        let got = render(template, case.get("c").unwrap_or(&Value::Null), Value::Null);
        let got = if got.starts_with("ERR") {
            got.split([';', '\n']).next().unwrap()
        } else {
            &got
        };
        let want = in_salt_words(want.as_str().unwrap());
        let differs = DIFFERENCES.iter().any(|(known, _)| *known == number);
        if (got != want) != differs {
            wrong.push(format!("{number}: {template}\n  want {want}\n  got  {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The variables of the recorded runs.
const VARIABLES: &str = r#"{
    "pillar": {"a": {"b": 1}, "l": [1, 2, 3], "m": {"deep": {"deeper": ["x"]}}, "s": "text"},
    "grains": {"os": "Debian", "list": ["g0"]},
    "opts": {"id": "m1"},
    "saltenv": "base", "sls": "t", "slspath": "", "slsdotpath": "", "slscolonpath": "", "sls_path": "",
    "tplpath": "/srv/t.sls", "tplfile": "t.sls", "tpldir": ".", "tpldot": ""
}"#;

/// Intended differences from Salt: the file, the number of the case, and the reason.
const SALT_DIFFERENCES: &[(&str, usize, &str)] = &[
    (
        "network",
        5,
        "numbers end at 128 bits, so all of IPv6 has one address less",
    ),
    (
        "data",
        9,
        "timelib takes ten digits for a time of day and a year; we take them for seconds",
    ),
    (
        "extensions",
        12,
        "a template may be named with salt://, which Salt does not find",
    ),
    (
        "extensions",
        14,
        "`without context` still sees the template's own variables",
    ),
    (
        "errors",
        19,
        "which modules exist is not known, only which functions",
    ),
    (
        "errors",
        40,
        "a name that the imported template lacks is just undefined",
    ),
    (
        "errors",
        58,
        "the type that cannot be unpacked is not known any more",
    ),
    ("errors", 71, "a set without a name waits for its end"),
    (
        "errors",
        82,
        "missing arguments are named in one way for all",
    ),
    ("errors", 83, "the type is not known any more"),
    (
        "reviewed",
        24,
        "a block sees the variables of the loop that it stands in",
    ),
    (
        "reviewed",
        47,
        "a test that nobody has is missed when it is used, in a macro too",
    ),
    (
        "reviewed",
        50,
        "what is unknown is said in one way, in a condition too",
    ),
    (
        "reviewed",
        51,
        "what is unknown is said in one way, in a condition too",
    ),
    ("errors", 85, "the type is not known any more"),
    (
        "errors",
        94,
        "missing arguments are named in one way for all",
    ),
];

/// Removes the path of Salt's cache, and the traceback of Python after a `Jinja error`.
fn plain(answer: &str) -> String {
    let answer = answer.replace("/tmp/jenv/cache/files/base/", "");
    match answer.starts_with("ERR Jinja error: ") {
        true => answer
            .split("\nTraceback")
            .next()
            .unwrap()
            .split("; line")
            .next()
            .unwrap()
            .into(),
        false => answer,
    }
}

fn compare(name: &str) {
    let path = format!(
        "{}/../../tests/corpus/jinja/{name}.jinja",
        env!("CARGO_MANIFEST_DIR")
    );
    let cases = std::fs::read_to_string(path).unwrap();
    let wanted = read(&format!("{name}.salt.json"));
    let variables = json::read(VARIABLES).unwrap();
    let mut wrong = Vec::new();
    for (number, (template, want)) in cases
        .split("=====\n")
        .zip(wanted.as_list().unwrap())
        .enumerate()
    {
        let got = render(
            template,
            &variables,
            variables.get("pillar").cloned().unwrap(),
        );
        let (got, want) = (plain(&got), plain(want.as_str().unwrap()));
        let differs = SALT_DIFFERENCES
            .iter()
            .any(|(file, known, _)| *file == name && *known == number);
        if (got != want) != differs {
            wrong.push(format!("{number}: {template}\n  want {want}\n  got  {got}"));
        }
    }
    assert_eq!(
        cases.split("=====\n").count(),
        wanted.as_list().unwrap().len()
    );
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn texts_come_out_as_from_salt() {
    compare("text");
}

#[test]
fn lists_come_out_as_from_salt() {
    compare("lists");
}

#[test]
fn addresses_come_out_as_from_salt() {
    compare("network");
}

#[test]
fn what_a_review_found_comes_out_as_from_salt() {
    compare("reviewed");
}

#[test]
fn data_comes_out_as_from_salt() {
    compare("data");
}

#[test]
fn tags_and_imports_come_out_as_from_salt() {
    compare("extensions");
}

#[test]
fn errors_come_out_as_from_salt() {
    compare("errors");
}

#[test]
fn endless_templates_end_soon_with_a_clear_error() {
    let loops = "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(100) %}{% set x = c %}{% endfor %}{% endfor %}{% endfor %}";
    let deep = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}";
    let doubled = "{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}";
    let output = "{% for i in range(100000) %}".to_owned() + &"x".repeat(1000) + "{% endfor %}";
    let expected = [
        (loops, "executes too many steps"),
        ("{{ range(100000000) }}", "Range too big"),
        (deep, "recursion"),
        (doubled, "a string of more than"),
        (output.as_str(), "outputs more than"),
    ];
    for (template, words) in expected {
        let got = render(template, &Value::Null, Value::Null);
        assert!(
            got.starts_with("ERR") && got.contains(words),
            "{}: {got:.300}",
            template.len()
        );
    }
}

#[test]
fn long_templates_and_long_lines_render_and_faults_in_them_have_their_lines() {
    let lines = "a\n".repeat(70_000);
    let line = "a".repeat(70_000);
    for plain in [&lines, &line] {
        let template = format!("{plain}{{{{ 1 }}}}{{% if 1 %}}b{{% endif %}}");
        let got = render(&template, &Value::Null, Value::Null);
        assert!(got == format!("OK {plain}1b"), "{}: {got:.100}", got.len());
    }
    for (fault, words, at) in [
        (
            "\n{{ nothing }}",
            "'nothing' is undefined; line 70002\n",
            70_002,
        ),
        (
            "{{ 1 +\n nothing }}",
            "'nothing' is undefined; line 70001\n",
            70_001,
        ),
        ("\n{% if 1 %}", "Unexpected end of template.", 70_002),
        ("{{ 1 }}\n\n{{ 'a }}", "unexpected char \"'\"", 70_003),
        ("{% nothing %}", "unknown tag 'nothing'", 70_001),
    ] {
        let context = Context {
            name: "t.sls".into(),
            ..Context::default()
        };
        let host: Arc<dyn Host> = Arc::new(Functions::default());
        let template = format!("{lines}{fault}");
        let error = jinja::render(&template, &context, &host).unwrap_err();
        assert!(
            error.message.contains(words),
            "{fault}: {:.300}",
            error.message
        );
        assert_eq!(error.place.map(|place| place.line), Some(at), "{fault}");
    }
}

#[test]
fn what_fuzzing_found_ends_soon() {
    let mut wrong = Vec::new();
    for case in read("endless.json").as_list().unwrap() {
        let [template, want] = case.as_list().unwrap() else {
            panic!("a case is a template and how its answer begins")
        };
        let (template, want) = (template.as_str().unwrap(), want.as_str().unwrap());
        let start = Instant::now();
        let got = render(template, &Value::Null, Value::Null);
        let took = start.elapsed().as_secs();
        if !got.starts_with(want) || want.starts_with("OK") && got != want || took > 60 {
            let got: String = got.chars().take(200).collect();
            wrong.push(format!(
                "{template}\n  want {want}\n  got  {got} in {took} s"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_as_a_number_is_refused() {
    for alias in ["5", "x - 5", "true", "'x'"] {
        let template = format!("{{% import 'lib/macros.jinja' as {alias} %}}");
        let got = render(&template, &Value::Null, Value::Null);
        assert!(got.starts_with("ERR Jinja syntax error"), "{alias}: {got}");
    }
}

#[test]
fn an_error_knows_its_place_in_an_imported_file() {
    let context = Context {
        name: "top.sls".into(),
        ..Context::default()
    };
    let host: Arc<dyn Host> = Arc::new(Functions::default());
    let error = jinja::render("{% from 'foo/bad.jinja' import x %}", &context, &host).unwrap_err();
    let place = error.place.unwrap();
    assert_eq!(
        (&*place.file, place.line, place.source.as_str()),
        ("foo/bad.jinja", 3, "{{ undefined_here }}")
    );
}

#[test]
fn a_rendered_line_is_traced_to_the_template_and_line_that_made_it() {
    let template = "{% set n = 2 -%}\n{% load_yaml as y %}\na: 1\n{% endload -%}\nfirst: {{ y.a }}\n{% for i in range(n) %}\nkey{{ i }}:\n  - {{ i }}\n{% endfor %}\n{% include 'foo/text.txt' %}\nlast: 1\n";
    let context = Context {
        name: "top.sls".into(),
        ..Context::default()
    };
    let host: Arc<dyn Host> = Arc::new(Functions::default());
    let text = jinja::render(template, &context, &host).unwrap();
    let traced = |wanted: &str| {
        let line = text.lines().position(|line| line == wanted).unwrap() + 1;
        let place = jinja::trace::trace(template, &context, &host, line as u32).unwrap();
        (place.file.to_string(), place.line)
    };
    assert_eq!(traced("first: 1"), ("top.sls".into(), 5));
    assert_eq!(traced("key1:"), ("top.sls".into(), 7));
    assert_eq!(traced("  - 1"), ("top.sls".into(), 8));
    assert_eq!(traced("text"), ("foo/text.txt".into(), 2));
    assert_eq!(traced("last: 1"), ("top.sls".into(), 11));
}

#[test]
fn relative_imports_start_at_the_template_that_imports() {
    let context = Context {
        name: "foo/init.sls".into(),
        dir: "foo".into(),
        ..Context::default()
    };
    let host: Arc<dyn Host> = Arc::new(Functions::default());
    let rendered = |template: &str| jinja::render(template, &context, &host).unwrap();
    assert_eq!(
        rendered("{% from './up.jinja' import version %}{{ version }}"),
        "1.2"
    );
    assert_eq!(
        rendered("{% from '../lib/macros.jinja' import version %}{{ version }}"),
        "1.2"
    );
    assert!(jinja::render("{% from '../../x' import y %}", &context, &host).is_err());
}

#[test]
fn names_are_seen_where_salt_sees_them() {
    compare("scopes");
}

#[test]
fn a_function_that_changes_its_argument_changes_the_templates_own() {
    let render = |merge: &str| {
        let template = format!(
            "{{% set d = {{'a': {{'x': 1}}, 'l': [1]}} %}}{{% set inner, list = d.a, d.l %}}{{% set r = {merge} %}}{{% do list.append(2) %}}{{% do r.update({{'n': 3}}) %}}{{{{ d }}}} {{{{ inner }}}}"
        );
        render(&template, &Value::Null, Value::Null)
    };
    let changed = "OK {'a': {'x': 1, 'y': 2}, 'l': [1, 2], 'n': 3} {'x': 1, 'y': 2}";
    let kept = "OK {'a': {'x': 1}, 'l': [1, 2]} {'x': 1}";
    assert_eq!(
        render("salt['defaults.merge'](d, {'a': {'y': 2}})"),
        changed
    );
    assert_eq!(
        render("salt['defaults.merge'](d, {'a': {'y': 2}}, in_place=False)"),
        kept
    );
    assert_eq!(render("salt['slsutil.merge'](d, {'a': {'y': 2}})"), kept);
}

#[test]
fn a_part_of_the_pillar_that_is_changed_stays_changed() {
    let host = Arc::new(Functions {
        pillar: json::read(r#"{"a": {"l": [1]}, "n": 1}"#).unwrap(),
        ..Functions::default()
    });
    let template = "{% set got = salt['pillar.get'] %}{% do got('a:l').append(2) %}{% set d = {} %}{% do got('a:none', d).update({'x': got('n')}) %}{{ got('a') }} {{ d }}";
    let shown: Arc<dyn Host> = host.clone();
    let text = jinja::render(template, &Context::default(), &shown).unwrap();
    assert_eq!(text, "{'l': [1, 2]} {'x': 1}");
    let changed = host.changed.lock().unwrap().clone().unwrap();
    assert_eq!(
        json::write(&changed.into(), json::Layout::default()),
        r#"{"a": {"l": [1, 2]}, "n": 1}"#
    );
}
