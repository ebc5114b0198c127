//! Jinja: the rewriting, the rendering and the tracing of lines.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use render::{Context, Host, JinjaOptions, jinja};
use value::{Map, Value, json};

/// Filters that wait for the machine's disks and network.
const SLOW: [&str; 2] = ["list_files", "dns_check"];

const VARIABLES: &str = r#"{
    "grains": {"os_family": "Debian", "os": "Debian", "osrelease": "12", "id": "m1", "num_cpus": 2, "saltversioninfo": [3008, 5]},
    "pillar": {"a": {"b": 1}, "l": [1, 2, 3], "text": "ä{{ 1 }}"},
    "opts": {"id": "m1"}, "sls": "x", "slspath": "x", "tpldir": "x", "tplfile": "x/init.sls", "saltenv": "base",
    "x": 5, "s": "Hello World", "l": [3, 1, 2], "d": {"b": 2, "a": 1}, "t": true, "n": null, "f": 1.5,
    "recs": [{"n": "a", "v": 1}, {"n": "b", "v": 2}, {"n": "c", "v": 1}]
}"#;

/// Answers a template with itself and with a file of macros.
struct Files(Arc<str>);

impl Host for Files {
    fn call(&self, function: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, String> {
        match function {
            "test.echo" | "pillar.get" => Ok(args.into_iter().next().unwrap_or_default()),
            "test.kwarg" => Ok(Value::Map(kwargs)),
            _ => Err(format!("{function} failed")),
        }
    }

    fn has_function(&self, function: &str) -> bool {
        function.contains('.')
    }

    fn template(&self, name: &str, _: &str) -> Result<Option<Arc<str>>, String> {
        Ok(match name {
            "t.sls" | "x/self" => Some(Arc::clone(&self.0)),
            "lib/macros.jinja" => Some(
                "{% macro m(a, b=a) %}{{ a }}{{ varargs }}{% endmacro %}{% set v = [1] %}".into(),
            ),
            "foo/defaults.yaml" => Some("a: {b: [1, 2]}\n".into()),
            _ => None,
        })
    }
}

fn variables() -> Map {
    static READ: OnceLock<Map> = OnceLock::new();
    let read = || json::read(VARIABLES).ok()?.as_map().cloned();
    READ.get_or_init(|| read().expect("the variables must be a map"))
        .clone()
}

fuzz_target!(|text: &str| {
    if SLOW.iter().any(|name| text.contains(name)) {
        return;
    }
    let options = text.len();
    let context = Context {
        name: "t.sls".into(),
        saltenv: "base".into(),
        dir: "x".into(),
        variables: variables(),
        jinja: JinjaOptions {
            trim_blocks: options & 1 != 0,
            lstrip_blocks: options & 2 != 0,
            allow_undefined: options & 4 != 0,
        },
        ..Context::default()
    };
    let host: Arc<dyn Host> = Arc::new(Files(text.into()));
    if jinja::render(text, &context, &host).is_ok() {
        let _ = jinja::trace::trace(text, &context, &host, 2);
    }
});
