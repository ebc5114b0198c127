//! Salt's Jinja: minijinja with Python's values, texts and methods, and with Salt's filters.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

use crate::{Context, Error, Host, JinjaOptions, Kind};

mod args;
mod bound;
mod containers;
mod edits;
mod errors;
mod extensions;
mod filters;
mod format;
mod globals;
mod header;
mod lent;
mod lines;
mod macros;
mod markup;
mod methods;
mod nesting;
mod pieces;
mod print;
mod reached;
mod references;
mod rewrite;
mod salt;
mod shared;
mod spaces;
mod stack;
mod strings;
mod sums;
mod syntax;
mod tests;
pub mod trace;

pub use reached::{Branch, Reached};
pub use shared::SharedVariables;

/// The first character of the name of a template that is imported without context.
const PLAIN: char = '\u{f8fe}';

/// The maximum number of steps of a template.
const FUEL: u64 = 5_000_000;

/// The maximum number of bytes that a template may output.
const OUTPUT_MAX: usize = 32 << 20;

/// Renders a template.
///
/// # Errors
/// Salt's message, with the place in the template.
pub fn render(source: &str, context: &Context, host: &Arc<dyn Host>) -> Result<String, Error> {
    Run::new(source, context, host, false)?.output()
}

/// A rendering: the template, the templates that it imports, and the environment.
struct Run<'a> {
    context: &'a Context,
    shared: Arc<Shared>,
    environment: Environment<'static>,
    newline: &'static str,
}

/// The data for the environment's loader.
struct Shared {
    root: String,
    /// The folder of the root template: `./x` in it is relative to this folder.
    dir: String,
    saltenv: String,
    functions: Arc<shared::Functions>,
    syntax: SyntaxConfig,
    /// The templates that were loaded, before they were rewritten.
    sources: Mutex<Vec<(String, Arc<str>)>>,
    /// True to mark the output: see `trace`.
    marks: bool,
    /// The record of the branches that are reached, if there is one.
    reached: Option<Arc<Reached>>,
}

impl<'a> Run<'a> {
    fn new(
        source: &str,
        context: &'a Context,
        host: &Arc<dyn Host>,
        marks: bool,
    ) -> Result<Self, Error> {
        let newline = if source.ends_with('\n') { "\n" } else { "" };
        let mut options = context.jinja;
        let source = header::take(&normal(source), &mut options);
        let shared = Arc::new(Shared {
            root: context.name.clone(),
            dir: context.dir.clone(),
            saltenv: context.saltenv.clone(),
            functions: shared::Functions::new(host),
            syntax: syntax(options)?,
            sources: Mutex::new(vec![(context.name.clone(), source.into())]),
            marks,
            reached: context.reached.clone().filter(|_| !marks),
        });
        let mut environment = environment(&shared, options);
        if let Some(reached) = &shared.reached {
            reached.add(&mut environment);
        }
        extensions::add(&mut environment, &shared);
        if let Some(variables) = &context.of_stack {
            stack::add(&mut environment, &shared, variables);
        }
        Ok(Self {
            context,
            shared,
            environment,
            newline,
        })
    }

    fn output(&self) -> Result<String, Error> {
        let source = self.shared.source(&self.context.name).unwrap_or_default();
        if !["{%", "{{", "{#"].iter().any(|mark| source.contains(mark)) {
            return Ok(source.strip_suffix('\n').unwrap_or(&source).to_owned() + self.newline);
        }
        errors::forget_misses();
        let mut output = Limited(Vec::new());
        let variables = self.context.shared.laid_over(&self.context.variables);
        let variables = Value::from_object(Variables(containers::from_map(&variables)));
        let outcome = self
            .environment
            .get_template(&self.context.name)
            .and_then(|template| {
                template
                    .render_captured_to(variables.clone(), &mut output)
                    .map(drop)
            });
        // A trace renders a second time, so its changes are not stored.
        if !self.shared.marks {
            self.shared.functions.give_back();
            if let Some(left) = variables.downcast_object_ref::<Variables>() {
                self.context.shared.keep(&left.0);
            }
        }
        outcome.map_err(|error| self.error(&error))?;
        Ok(String::from_utf8(output.0).unwrap_or_default() + self.newline)
    }

    fn error(&self, error: &minijinja::Error) -> Error {
        let lookup = |path: &str| errors::follow(&self.context.variables, path);
        errors::Report {
            root: &self.context.name,
            syntax: &self.shared.syntax,
            sources: &|name| self.shared.source(name),
            lookup: &lookup,
        }
        .salt_error(error)
    }
}

impl Shared {
    fn source(&self, name: &str) -> Option<Arc<str>> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, source)| Arc::clone(source))
    }

    /// Returns the text of a template, if it exists and can be read.
    fn find(&self, path: &str) -> Option<Arc<str>> {
        self.source(path)
            .or_else(|| self.fetch(path).ok().flatten())
    }

    /// Returns the rewritten text of a template.
    fn load(&self, name: &str) -> Result<Option<String>, minijinja::Error> {
        let plain = name.starts_with(PLAIN);
        let path = name.trim_start_matches(PLAIN);
        let source = match self.source(path) {
            Some(source) => source,
            None => match self.fetch(path)? {
                Some(source) => source,
                None => return Ok(None),
            },
        };
        let number = self.number(path).filter(|_| self.marks);
        let branches = self.reached.as_ref();
        let branches = branches.map(|reached| reached::Branches::new(reached, path));
        let source = spaces::plain(&source, &self.syntax);
        let text = rewrite::rewrite(&source, &self.syntax, number, branches);
        Ok(Some(if plain { location(path) + &text } else { text }))
    }

    fn fetch(&self, path: &str) -> Result<Option<Arc<str>>, minijinja::Error> {
        let source = self
            .functions
            .host
            .template(path, &self.saltenv)
            .map_err(|sentence| errors::fault(Kind::Jinja, sentence))?;
        let Some(source) = source else {
            return Ok(None);
        };
        let source: Arc<str> = normal(&source).into();
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.push((path.to_owned(), Arc::clone(&source)));
        Ok(Some(source))
    }

    fn number(&self, path: &str) -> Option<u32> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources
            .iter()
            .position(|(known, _)| known == path)
            .and_then(|at| u32::try_from(at).ok())
    }
}

/// Returns the assignments of the variables that Salt sets for a template imported without context.
fn location(path: &str) -> String {
    let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let quote = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let shown = if dir.is_empty() { "." } else { dir };
    format!(
        "{{% set tplfile = \"{}\" %}}{{% set tpldir = \"{}\" %}}{{% set tpldot = \"{}\" -%}}{{{{ '' }}}}",
        quote(path),
        quote(shown),
        quote(&dir.replace('/', "."))
    )
}

/// Converts every kind of line end to a newline, as Jinja2 does.
fn normal(source: &str) -> String {
    if source.contains('\r') {
        source.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        source.to_owned()
    }
}

fn syntax(options: JinjaOptions) -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder()
        .trim_blocks(options.trim_blocks)
        .lstrip_blocks(options.lstrip_blocks)
        .build()
        .map_err(|error| Error::new(Kind::Limit, error.to_string()))
}

/// Returns the environment with everything that all templates have in common; it is created once.
fn base() -> &'static Environment<'static> {
    static BASE: OnceLock<Environment<'static>> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut environment = Environment::empty();
        environment.set_debug(true);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_formatter(|out, state, value| {
            if value.is_undefined()
                && matches!(state.undefined_behavior(), UndefinedBehavior::Lenient)
            {
                return Ok(());
            }
            let text = value.as_str().filter(|_| value.kind() == ValueKind::String);
            let escapes = *state.auto_escape() == AutoEscape::Html && !value.is_safe();
            match text {
                Some(text) if escapes => out.write_str(&filters::escaped(text)),
                Some(text) => out.write_str(text),
                None if escapes => out.write_str(&filters::escaped(&print::emit(value))),
                None => out.write_str(&print::emit(value)),
            }
            .map_err(minijinja::Error::from)
        });
        environment.set_unknown_method_callback(strings::call);
        environment.set_fuel(Some(FUEL));
        globals::add(&mut environment);
        filters::add(&mut environment);
        tests::add(&mut environment);
        environment
    })
}

fn environment(shared: &Arc<Shared>, options: JinjaOptions) -> Environment<'static> {
    let mut environment = base().clone();
    environment.set_syntax(shared.syntax.clone());
    environment.set_undefined_behavior(if options.allow_undefined {
        UndefinedBehavior::Lenient
    } else {
        UndefinedBehavior::Strict
    });
    let loader = Arc::clone(shared);
    environment.set_loader(move |name| loader.load(name));
    let (root, dir) = (shared.root.clone(), shared.dir.clone());
    environment.set_path_join_callback(move |name, parent| join(name, parent, &root, &dir).into());
    environment.add_global(
        "salt",
        Value::from_object(salt::Salt(Arc::clone(&shared.functions))),
    );
    environment
}

/// Returns the path below the file roots that `name` means in the template `parent`.
fn join(name: &str, parent: &str, root: &str, dir: &str) -> String {
    let path = name.trim_start_matches(PLAIN);
    let path = path.strip_prefix("salt://").unwrap_or(path);
    if !matches!(path.split('/').next(), Some("." | "..")) {
        return if name.starts_with(PLAIN) {
            format!("{PLAIN}{path}")
        } else {
            path.to_owned()
        };
    }
    let parent = parent.trim_start_matches(PLAIN);
    let base = if parent == root {
        dir
    } else {
        parent.rsplit_once('/').map_or("", |(dir, _)| dir)
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "." => {}
            "" if !parts.is_empty() || !base.starts_with('/') => {}
            // A path that leaves the roots keeps its `..`, so no such template exists.
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The variables of a template.
#[derive(Debug)]
struct Variables(containers::Dict);

impl Object for Variables {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.keys())
    }
}

/// Output whose size is limited.
struct Limited(Vec<u8>);

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT_MAX {
            return Err(io::Error::other("the output of the template is too large"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
