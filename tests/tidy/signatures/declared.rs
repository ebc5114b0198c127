//! The signatures of Pinch's functions: those of a minion from its registry, those of a master's runners from their sources.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use state::module::{Arg, Extra, Function, Module};
use value::json;

use super::{Argument, Signature};
use crate::source::below;

/// The arguments of each function, by its kind and full name.
pub(super) fn all() -> BTreeMap<String, Signature> {
    let registry = minion::registry();
    let mut all = BTreeMap::new();
    all.extend(of_modules("exec", registry.functions));
    all.extend(of_modules("runner", registry.runners));
    all.extend(of_modules("state", registry.states));
    all.extend(of_modules("wheel", registry.wheel));
    all.extend(of_master());
    all
}

fn of_modules<R>(kind: &str, modules: &'static [Module<R>]) -> Vec<(String, Signature)> {
    let name = |module: &str, function: &str| format!("{kind} {module}.{function}");
    let functions = modules.iter().flat_map(|module| {
        let functions = module.functions.iter();
        functions.map(|function| (name(module.name, function.name), signature(function)))
    });
    functions.collect()
}

fn signature<R>(function: &Function<R>) -> Signature {
    Signature {
        args: function.args.iter().map(argument).collect(),
        varargs: function.varargs,
        kwargs: function.extra == Extra::Accept,
    }
}

fn argument(arg: &Arg) -> Argument {
    let json = |default: fn() -> value::Value| json::write(&default(), json::Layout::default());
    let default = arg.default.map(json);
    let name = arg.name.to_owned();
    match default {
        None => Argument::Required(name),
        Some(default) => Argument::Optional(name, serde_json::from_str(&default).unwrap()),
    }
}

/// A master is a program and no library, so that its registry cannot be read here.
fn of_master() -> Vec<(String, Signature)> {
    let sources = below("master-lite/src/runners");
    let texts = sources.iter().map(|source| source.text.as_str());
    let declarations = texts.filter_map(|text| {
        let (_, rest) = text.split_once("exec_module! {\n")?;
        Some(rest.split_once("\n}\n")?.0)
    });
    declarations.flat_map(of_declaration).collect()
}

/// The functions between the braces of one `exec_module!`.
fn of_declaration(text: &str) -> Vec<(String, Signature)> {
    let (mut module, mut found) = (String::new(), Vec::new());
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.starts_with("//")) {
        if let Some(name) = line.strip_prefix("mod ") {
            module = bare(name.trim_end_matches(';'));
        } else if let Some(rest) = line.strip_prefix("fn ") {
            let name = bare(rest.split('(').next().unwrap());
            found.push((format!("runner {module}.{name}"), Signature::default()));
        } else if let Some((_, signature)) = found.last_mut() {
            add(signature, line);
        }
    }
    found
}

/// Adds what one line of a declaration says: an argument, `*rest` or `..kwargs`.
fn add(signature: &mut Signature, line: &str) {
    signature.varargs |= line.starts_with('*');
    signature.kwargs |= line.starts_with("..");
    let Some((name, typed)) = line.trim_end_matches(',').split_once(": ") else {
        return;
    };
    let name = bare(name);
    signature.args.push(match typed.split_once(" = ") {
        None => Argument::Required(name),
        Some((_, default)) => Argument::Optional(name, in_json(default)),
    });
}

fn bare(name: &str) -> String {
    name.trim_start_matches("r#").to_owned()
}

/// The value of a default in Rust.
fn in_json(default: &str) -> Json {
    match default {
        "None" | "Value::Null" => Json::Null,
        "String::new()" => "".into(),
        _ => {
            let literal = default.trim_end_matches(".into()");
            serde_json::from_str(literal).unwrap_or_else(|_| panic!("{default}: no literal"))
        }
    }
}

#[test]
fn a_declaration_is_read_from_its_source() {
    let text = "    /// A.\n    mod r#match;\n\n    fn a(A {\n        /// B: c.\n        r#type: String = \"x\".into(),\n        n: i64,\n        ..kwargs\n    });\n    fn b(B {});";
    let found = of_declaration(text);
    assert_eq!(found[0].0, "runner match.a");
    let args = vec![
        Argument::Optional("type".to_owned(), "x".into()),
        Argument::Required("n".to_owned()),
    ];
    let (varargs, kwargs) = (false, true);
    assert_eq!(
        found[0].1,
        Signature {
            args,
            varargs,
            kwargs
        }
    );
    assert_eq!(found[1].1, Signature::default());
}
