//! The JSON schema of SLS files without templates, from the declarations of state functions.

use state::exec::Registry;
use state::module::{Arg, Extra, Function, Ret};
use value::{Map, Value};

use crate::texts;

/// Returns the JSON schema of SLS files. It describes YAML without Jinja, for editors that complete
/// and check YAML. Custom states are allowed.
#[must_use]
pub fn schema(registry: &'static Registry) -> Value {
    let mut states = Map::new();
    let mut definitions = Map::new();
    for module in registry.states {
        // In `extend`, the function may be missing, so the list has any items.
        let long = of_type("array").with("description", module.doc);
        states.insert(module.name, long);
    }
    for (name, function) in texts::states(registry) {
        states.insert(name.as_str(), reference(&name));
        definitions.insert(name.as_str(), state(&name, function));
    }
    definitions.insert("id", id(states));
    definitions.insert("options", options());
    definitions.insert("requisites", requisites());
    Map::new()
        .with("$schema", "https://json-schema.org/draft/2020-12/schema")
        .with("title", "An SLS file of Pinch and Salt, without templates")
        .with(
            "description",
            "Made from the declarations of the state functions. A requisite or an ID that does not exist is found by `pinch lint`.",
        )
        .with("type", Value::list(["object".into(), "null".into()]))
        .with("properties", outermost())
        .with("additionalProperties", reference("id"))
        .with("$defs", definitions)
        .into()
}

fn reference(name: &str) -> Map {
    Map::new().with("$ref", format!("#/$defs/{name}"))
}

fn of_type(kind: &str) -> Map {
    Map::new().with("type", kind)
}

/// Returns the keys of a file that are not IDs.
fn outermost() -> Map {
    let names = of_type("array").with("items", types(&["string", "object"]));
    let include = names
        .clone()
        .with("description", "The SLS files that this one needs.");
    let exclude = names.with("description", "IDs and SLS files that do not run.");
    let extend = of_type("object")
        .with("description", "Changes to IDs of included SLS files.")
        .with("additionalProperties", reference("id"));
    Map::new()
        .with("include", include)
        .with("exclude", exclude)
        .with("extend", extend)
}

fn types(names: &[&str]) -> Map {
    let names = names.iter().map(|name| (*name).into());
    Map::new().with("type", Value::list(names))
}

/// Returns the schema of the states of one ID: a dictionary, or the short form `id: mod.fun`.
fn id(states: Map) -> Map {
    types(&["object", "string"])
        .with("pattern", r"^\w+\.\w+$")
        .with("properties", states)
}

/// Returns the schema of a state: a list of dictionaries with one argument each, or nothing.
fn state(name: &str, function: &Function<Ret>) -> Map {
    let args = function.args.iter();
    let args: Map = args
        .map(|arg| -> (Value, Value) { (arg.name.into(), argument(arg).into()) })
        .collect();
    let mut item = types(&["object", "string"])
        .with("allOf", Value::list([reference("options").into()]))
        .with("properties", args);
    if function.extra == Extra::Reject {
        item.insert("unevaluatedProperties", false);
    }
    types(&["array", "null"])
        .with("title", name)
        .with("description", function.doc.trim_end())
        .with("items", item)
}

fn argument(arg: &Arg) -> Map {
    let described = Map::new().with("description", arg.doc.trim_end());
    match arg.default {
        Some(default) => described.with("default", default()),
        None => described,
    }
}

/// Returns the options that each state takes.
fn options() -> Map {
    let each = texts::OPTIONS.iter().map(|(word, text)| -> (Value, Value) {
        let schema = match texts::is_requisite(word) {
            true => reference("requisites"),
            false => Map::new(),
        };
        ((*word).into(), schema.with("description", *text).into())
    });
    Map::new().with("properties", each.collect::<Map>())
}

/// Returns the schema of requisites: states by module and by ID or name, or bare IDs.
fn requisites() -> Map {
    let item = types(&["object", "string"]).with("minProperties", 1_i64);
    types(&["array", "object"]).with("items", item)
}
