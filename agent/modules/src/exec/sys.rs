//! The `sys` execution module: lists and documents the functions, from their declarations.

use state::custom::{Kind, Signature};
use state::exec::Exec;
use state::module::{Error, Extra, Function, Module};
use value::glob::fnmatch;
use value::sorted::sort_by_key;
use value::{Map, Value};

state::exec_module! {
    /// List the functions of this program and show how they are called.
    #[facts(pure = true)]
    mod sys;

    /// Return the documentation of execution functions: of all functions, or of the given modules,
    /// functions or globs.
    ///
    ///     salt-call sys.doc cron
    fn doc(Doc {
        *rest,
    });

    /// Return the documentation of state functions and their modules.
    ///
    ///     salt-call sys.state_doc cron.present
    fn state_doc(StateDoc {
        *rest,
    });

    /// Return the documentation of runners.
    ///
    ///     salt-call sys.runner_doc jobs
    fn runner_doc(RunnerDoc {
        *rest,
    });

    /// Return the arguments of execution functions.
    ///
    ///     salt-call sys.argspec cron.set_job
    fn argspec(Argspec {
        /// A module, a function or a glob; all functions if not given.
        module: String = String::new(),
    });

    /// Return the arguments of state functions.
    ///
    ///     salt-call sys.state_argspec cron.present
    fn state_argspec(StateArgspec {
        /// A module, a function or a glob; all functions if not given.
        module: String = String::new(),
    });

    /// Return the arguments of runners.
    ///
    ///     salt-call sys.runner_argspec jobs.last_run
    fn runner_argspec(RunnerArgspec {
        /// A module, a function or a glob; all functions if not given.
        module: String = String::new(),
    });

    /// Return the names of execution functions, sorted.
    ///
    ///     salt-call sys.list_functions 'cron.*'
    fn list_functions(ListFunctions {
        *rest,
        ..kwargs
    });

    /// Return the names of execution modules, sorted.
    ///
    ///     salt-call sys.list_modules
    fn list_modules(ListModules {
        *rest,
    });

    /// Return the names of state functions, sorted.
    ///
    ///     salt-call sys.list_state_functions 'cron.*'
    fn list_state_functions(ListStateFunctions {
        *rest,
        ..kwargs
    });

    /// Return the names of state modules, sorted.
    ///
    ///     salt-call sys.list_state_modules
    fn list_state_modules(ListStateModules {
        *rest,
    });

    /// Return the names of runner modules, sorted.
    ///
    ///     salt-call sys.list_runners
    fn list_runners(ListRunners {
        *rest,
    });

    /// Return the names of runner functions, sorted.
    ///
    ///     salt-call sys.list_runner_functions 'jobs.*'
    fn list_runner_functions(ListRunnerFunctions {
        *rest,
        ..kwargs
    });

    /// Return the names of renderers, sorted.
    ///
    ///     salt-call sys.list_renderers
    fn list_renderers(ListRenderers {
        *rest,
    });

    /// Return the documentation of renderers.
    ///
    ///     salt-call sys.renderer_doc yaml
    fn renderer_doc(RendererDoc {
        *rest,
    });

    /// Return the names of returners, sorted.
    ///
    ///     salt-call sys.list_returners
    fn list_returners(ListReturners {
        *rest,
    });

    /// Return the names of the functions of returners, sorted.
    ///
    ///     salt-call sys.list_returner_functions
    fn list_returner_functions(ListReturnerFunctions {
        *rest,
        ..kwargs
    });

    /// Return the documentation of returners.
    ///
    ///     salt-call sys.returner_doc syslog
    fn returner_doc(ReturnerDoc {
        *rest,
    });

    /// Return the arguments of returners.
    ///
    ///     salt-call sys.returner_argspec syslog
    fn returner_argspec(ReturnerArgspec {
        /// A returner, a function or a glob; all returners if not given.
        module: String = String::new(),
    });

    /// Return True. Modules are built in and need no reloading.
    ///
    ///     salt-call sys.reload_modules
    fn reload_modules(ReloadModules {});
}

/// Returns all functions of a kind that are available on this machine, with their full names.
fn all<R>(
    cx: &Exec,
    modules: &'static [Module<R>],
    kind: Kind,
) -> impl Iterator<Item = (String, &'static Function<R>)> {
    let all = modules.iter().flat_map(|module| {
        let full = move |f: &'static Function<R>| (format!("{}.{}", module.name, f.name), f);
        module.functions.iter().map(full)
    });
    all.filter(move |(full, _)| cx.missing(kind, full).is_none())
}

/// Returns whether the requested modules, functions or globs include a function.
fn meant(wanted: &[Value], full: &str) -> bool {
    let module = full.split('.').next().unwrap_or_default();
    let means = |wanted: &Value| {
        let wanted = wanted.to_text();
        if wanted.contains('*') {
            fnmatch(&wanted, full)
        } else {
            wanted.is_empty() || wanted.trim_end_matches('.') == module || wanted == full
        }
    };
    wanted.is_empty() || wanted.iter().any(means)
}

/// Returns the documentation of a function, including a list of its arguments.
fn text<R>(function: &Function<R>) -> String {
    let doc = match function.doc {
        "" => "This build of pinch has no documentation.",
        doc => doc,
    };
    let mut text = format!("\n{}", lines(doc, "    "));
    for arg in function.args {
        let default = arg.default.map(|default| value::python::repr(&default()));
        let default = default
            .map(|default| format!(" : {default}"))
            .unwrap_or_default();
        text += &format!(
            "\n    {}{default}\n{}",
            arg.name,
            lines(arg.doc, "        ")
        );
    }
    text + "    "
}

fn lines(doc: &str, indent: &str) -> String {
    let line = |line: &str| match line.strip_prefix(' ').unwrap_or(line) {
        "" => "\n".to_owned(),
        line => format!("{indent}{line}\n"),
    };
    doc.lines().map(line).collect()
}

fn docs<R>(cx: &Exec, modules: &'static [Module<R>], kind: Kind, wanted: &[Value]) -> Map {
    all(cx, modules, kind)
        .filter(|(full, _)| meant(wanted, full))
        .map(|(full, function)| (full, text(function)))
        .collect()
}

/// Returns the custom functions that are requested.
fn custom<'a>(
    cx: &Exec,
    kind: Kind,
    wanted: &'a [Value],
) -> impl Iterator<Item = (String, Signature)> + use<'a> {
    let functions = cx.shared.custom.functions(cx, kind);
    functions
        .into_iter()
        .filter(|(full, _)| meant(wanted, full))
}

/// Returns the documentation of built-in and custom functions. A custom function replaces a
/// built-in one of the same name.
fn all_docs<R>(cx: &Exec, modules: &'static [Module<R>], kind: Kind, wanted: &[Value]) -> Map {
    let mut docs = docs(cx, modules, kind, wanted);
    for (full, signature) in custom(cx, kind, wanted) {
        let doc = Some(signature.doc).filter(|doc| !doc.is_empty());
        docs.insert(full, doc.map_or(Value::Null, Value::from));
    }
    docs
}

fn doc(cx: &Exec, args: Doc) -> Result<Value, Error> {
    Ok(all_docs(cx, cx.shared.registry.functions, Kind::Module, &args.rest).into())
}

fn state_doc(cx: &Exec, args: StateDoc) -> Result<Value, Error> {
    let modules = cx.shared.registry.states;
    let mut all = Map::new();
    for (full, text) in all_docs(cx, modules, Kind::State, &args.rest) {
        let name = full.to_text();
        let name = name.split('.').next().unwrap_or_default();
        if let Some(module) = modules.iter().find(|module| module.name == name) {
            all.entry(name, || module.doc.into());
        }
        all.insert(full, text);
    }
    Ok(all.into())
}

fn runner_doc(cx: &Exec, args: RunnerDoc) -> Result<Value, Error> {
    Ok(all_docs(cx, cx.shared.registry.runners, Kind::Runner, &args.rest).into())
}

fn spec<R>(function: &Function<R>) -> Map {
    let args = function.args.iter();
    argspec_map(
        args.clone().map(|arg| arg.name.into()).collect(),
        args.filter_map(|arg| Some(arg.default?())).collect(),
        function.varargs,
        function.extra == Extra::Accept,
    )
}

fn spec_of(signature: Signature) -> Map {
    let defaults = signature.args.iter();
    let defaults = defaults.filter_map(|(_, default)| default.clone());
    argspec_map(
        signature
            .args
            .iter()
            .map(|(name, _)| name.as_str().into())
            .collect(),
        defaults.collect(),
        signature.varargs,
        signature.kwargs,
    )
}

fn argspec_map(names: Vec<Value>, defaults: Vec<Value>, varargs: bool, kwargs: bool) -> Map {
    let yes = |truth: bool| {
        if truth {
            Value::Bool(true)
        } else {
            Value::Null
        }
    };
    let some = |values: Vec<Value>| {
        if values.is_empty() {
            Value::Null
        } else {
            values.into()
        }
    };
    Map::new()
        .with("args", some(names))
        .with("defaults", some(defaults))
        .with("varargs", yes(varargs))
        .with("kwargs", yes(kwargs))
}

fn specs<R>(cx: &Exec, modules: &'static [Module<R>], kind: Kind, wanted: String) -> Value {
    let wanted = [Value::from(wanted)];
    let built_in = all(cx, modules, kind)
        .filter(|(full, _)| meant(&wanted, full))
        .map(|(full, function)| (full, spec(function)));
    let custom = custom(cx, kind, &wanted).map(|(full, signature)| (full, spec_of(signature)));
    built_in.chain(custom).collect()
}

fn argspec(cx: &Exec, args: Argspec) -> Result<Value, Error> {
    let functions = cx.shared.registry.functions;
    Ok(specs(cx, functions, Kind::Module, args.module))
}

fn state_argspec(cx: &Exec, args: StateArgspec) -> Result<Value, Error> {
    let functions = cx.shared.registry.states;
    Ok(specs(cx, functions, Kind::State, args.module))
}

fn runner_argspec(cx: &Exec, args: RunnerArgspec) -> Result<Value, Error> {
    let functions = cx.shared.registry.runners;
    Ok(specs(cx, functions, Kind::Runner, args.module))
}

fn names<R>(cx: &Exec, modules: &'static [Module<R>], kind: Kind, wanted: &[Value]) -> Value {
    let mut names: Vec<String> = all(cx, modules, kind)
        .map(|(full, _)| full)
        .filter(|full| meant(wanted, full))
        .chain(custom(cx, kind, wanted).map(|(full, _)| full))
        .collect();
    names.sort();
    names.dedup();
    names.into()
}

fn module_names<R>(
    cx: &Exec,
    modules: &'static [Module<R>],
    kind: Kind,
    wanted: &[Value],
) -> Value {
    let meant = |name: &str| {
        let means = |wanted: &Value| {
            fnmatch(&wanted.to_text(), name) || fnmatch(&wanted.to_text(), &format!("{name}."))
        };
        wanted.is_empty() || wanted.iter().any(means)
    };
    let mut names: Vec<String> = all(cx, modules, kind)
        .map(|(full, _)| full)
        .chain(custom(cx, kind, &[]).map(|(full, _)| full))
        .map(|full| full.split('.').next().unwrap_or_default().to_owned())
        .filter(|name| meant(name))
        .collect();
    names.sort();
    names.dedup();
    names.into()
}

fn list_functions(cx: &Exec, args: ListFunctions) -> Result<Value, Error> {
    let functions = cx.shared.registry.functions;
    Ok(names(cx, functions, Kind::Module, &args.rest))
}

fn list_modules(cx: &Exec, args: ListModules) -> Result<Value, Error> {
    let functions = cx.shared.registry.functions;
    Ok(module_names(cx, functions, Kind::Module, &args.rest))
}

fn list_state_functions(cx: &Exec, args: ListStateFunctions) -> Result<Value, Error> {
    let states = cx.shared.registry.states;
    Ok(names(cx, states, Kind::State, &args.rest))
}

fn list_state_modules(cx: &Exec, args: ListStateModules) -> Result<Value, Error> {
    let states = cx.shared.registry.states;
    Ok(module_names(cx, states, Kind::State, &args.rest))
}

fn list_runners(cx: &Exec, args: ListRunners) -> Result<Value, Error> {
    let runners = cx.shared.registry.runners;
    Ok(module_names(cx, runners, Kind::Runner, &args.rest))
}

fn list_runner_functions(cx: &Exec, args: ListRunnerFunctions) -> Result<Value, Error> {
    let runners = cx.shared.registry.runners;
    Ok(names(cx, runners, Kind::Runner, &args.rest))
}

fn list_renderers(cx: &Exec, args: ListRenderers) -> Result<Value, Error> {
    let meant = |name: &&str| {
        args.rest.is_empty() || args.rest.iter().any(|glob| fnmatch(&glob.to_text(), name))
    };
    let own = custom(cx, Kind::Renderer, &[]);
    let own: Vec<String> = own
        .filter_map(|(full, _)| full.strip_suffix(".render").map(str::to_owned))
        .collect();
    let mut names: Vec<&str> = render::RENDERERS
        .into_iter()
        .chain(["mako", "py"])
        .chain(own.iter().map(String::as_str))
        .filter(meant)
        .collect();
    names.sort_unstable();
    Ok(names.into())
}

/// The documentation of the built-in renderers.
const RENDERER_DOCS: [(&str, &str); 9] = [
    ("gpg", "Decrypt the encrypted parts of a text or of data."),
    ("jinja", "Render a text as a Jinja template."),
    ("json", "Read a text as JSON."),
    (
        "mako",
        "Render a text as a template of the Python package Mako.",
    ),
    (
        "py",
        "Run a text as Python: its function run() returns the data.",
    ),
    (
        "stateconf",
        "Read a text as YAML, with state IDs local to the file.",
    ),
    (
        "text",
        "Split a text into lines, or into the matches of a regular expression.",
    ),
    ("toml", "Read a text as TOML."),
    ("yaml", "Read a text as YAML."),
];

/// Returns the requested built-in and custom functions of a kind whose modules are tables, with
/// their full names.
fn tabled(
    cx: &Exec,
    kind: Kind,
    wanted: &[Value],
    table: impl Iterator<Item = (String, Signature)>,
) -> Vec<(String, Signature)> {
    let mut all: Vec<_> = table
        .filter(|(full, _)| meant(wanted, full))
        .chain(custom(cx, kind, wanted))
        .collect();
    sort_by_key(&mut all, |(full, _)| full.clone());
    all
}

fn returners(cx: &Exec, wanted: &[Value]) -> Vec<(String, Signature)> {
    let built_in = (cx.shared.registry.returners)();
    let built_in = built_in.into_iter().map(|(name, doc)| {
        let signature = Signature {
            args: vec![("ret".to_owned(), None)],
            varargs: false,
            kwargs: false,
            doc: doc.to_owned(),
        };
        (format!("{name}.returner"), signature)
    });
    tabled(cx, Kind::Returner, wanted, built_in)
}

fn documented(all: Vec<(String, Signature)>) -> Value {
    all.into_iter()
        .map(|(full, signature)| (full, signature.doc))
        .collect()
}

fn renderer_doc(cx: &Exec, args: RendererDoc) -> Result<Value, Error> {
    let built_in = RENDERER_DOCS.into_iter().map(|(name, doc)| {
        let signature = Signature {
            doc: doc.to_owned(),
            ..Signature::default()
        };
        (format!("{name}.render"), signature)
    });
    Ok(documented(tabled(cx, Kind::Renderer, &args.rest, built_in)))
}

fn list_returners(cx: &Exec, args: ListReturners) -> Result<Value, Error> {
    let all = returners(cx, &args.rest).into_iter();
    let module = |(full, _): (String, _)| full.split('.').next().unwrap_or_default().to_owned();
    let mut names: Vec<String> = all.map(module).collect();
    names.dedup();
    Ok(names.into())
}

fn list_returner_functions(cx: &Exec, args: ListReturnerFunctions) -> Result<Value, Error> {
    let all = returners(cx, &args.rest).into_iter();
    Ok(Value::list(all.map(|(full, _)| full.into())))
}

fn returner_doc(cx: &Exec, args: ReturnerDoc) -> Result<Value, Error> {
    Ok(documented(returners(cx, &args.rest)))
}

fn returner_argspec(cx: &Exec, args: ReturnerArgspec) -> Result<Value, Error> {
    let all = returners(cx, &[args.module.into()]).into_iter();
    Ok(all
        .map(|(full, signature)| (full, spec_of(signature)))
        .collect())
}

fn reload_modules(_cx: &Exec, _args: ReloadModules) -> Result<Value, Error> {
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use value::{Map, Value};

    use crate::testing::exec;

    #[test]
    fn declarations_are_shown_as_salt_shows_its_own() {
        let call = |function: &str, of: &str| {
            let answer = exec()
                .call(&format!("sys.{function}"), vec![of.into()], Map::new())
                .unwrap();
            value::python::repr(&answer)
        };
        assert_eq!(
            call("argspec", "test.echo"),
            "{'test.echo': {'args': ['text'], 'defaults': None, 'varargs': None, 'kwargs': None}}"
        );
        assert_eq!(
            call("state_argspec", "test.nop"),
            "{'test.nop': {'args': ['name'], 'defaults': None, 'varargs': None, 'kwargs': True}}"
        );
        assert_eq!(
            call("argspec", "test.retcode"),
            "{'test.retcode': {'args': ['code'], 'defaults': [42], 'varargs': None, 'kwargs': None}}"
        );
        assert_eq!(call("list_functions", "group.get*"), "['group.getent']");
        assert_eq!(
            call("list_functions", "test.p*"),
            "['test.ping', 'test.provider', 'test.providers']"
        );
        assert_eq!(call("list_modules", "matc*"), "['match']");
        assert_eq!(call("list_returners", "sys*"), "['syslog']");
        assert_eq!(
            call("list_returner_functions", "syslog"),
            "['syslog.returner']"
        );
        assert_eq!(
            call("returner_argspec", "syslog"),
            "{'syslog.returner': {'args': ['ret'], 'defaults': None, 'varargs': None, 'kwargs': None}}"
        );
        assert!(call("returner_doc", "syslog").contains("the system's log"));
        assert!(call("renderer_doc", "toml").starts_with("{'toml.render': 'Read"));
        let docs = super::RENDERER_DOCS.map(|(name, _)| name);
        assert!(render::RENDERERS.iter().all(|name| docs.contains(name)));
        assert!(call("doc", "test.ping").contains("Return True, to show that the minion responds"));
    }

    #[test]
    fn every_listed_function_is_there_to_be_called() {
        let cx = exec();
        let list = |function: &str| {
            let names = cx.call(function, Vec::new(), Map::new()).unwrap();
            let names = names.as_list().unwrap().iter().map(Value::to_text);
            names.collect::<Vec<_>>()
        };
        let states = list("sys.list_state_functions");
        let functions = list("sys.list_functions");
        assert!(states.len() > 50 && functions.len() > 200);
        for name in states {
            assert!(cx.state_function(&name).is_some(), "{name}");
        }
        for name in functions {
            assert!(cx.function(&name).is_some(), "{name}");
        }
    }
}
