//! Checks a plan against the declared functions and arguments before anything runs.

use std::collections::HashSet;
use std::sync::Arc;

use value::{Map, Value};

use super::Fault;
use super::documents::Documents;
use super::hint::did_you_mean;
use super::plan::Plan;
use crate::boot;
use crate::exec::{Exec, facts, find};
use crate::facts::{Facts, StepKind};
use crate::low::{self, LowChunk, is_internal};
use crate::module::{Extra, StateFunction, invalid_keywords};
use crate::resume::Policy;

/// A problem with one chunk of a plan.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The chunk, as an index into [`Plan::chunks`].
    pub chunk: usize,
    /// The problem.
    pub problem: Problem,
}

/// The kinds of problem, by their consequence.
#[derive(Clone, Debug)]
pub enum Problem {
    /// The chunk fails with this comment. The other chunks run, as in Salt.
    Fails(Fault),
    /// The run must not start: Salt would stop in the middle of it.
    Stops(Fault),
    /// An argument that Salt accepts and ignores, and that may be misspelt. Only shown on stderr.
    Warning(Fault),
}

/// Returns the problems with the chunks of a plan: unknown functions, missing arguments, unknown
/// arguments.
#[must_use]
pub fn check(plan: &Plan, cx: &Exec) -> Vec<Checked> {
    let mut all = Vec::new();
    for (chunk, low) in plan.chunks().iter().enumerate() {
        let problems = problems(low, cx, plan.documents());
        all.extend(
            problems
                .into_iter()
                .map(|problem| Checked { chunk, problem }),
        );
    }
    all.extend(unheard(plan));
    all
}

/// Returns warnings about targets of `listen_in` that do not exist. Salt reports them at the end of
/// a run, and only if a listener would have been called.
fn unheard(plan: &Plan) -> Vec<Checked> {
    let named = |low: &Arc<LowChunk>| {
        [
            (low.state.clone(), low.id.clone()),
            (low.state.clone(), low.name.clone()),
        ]
    };
    let tells = |low: &Arc<LowChunk>| low.data.contains("listen_in");
    if !plan.chunks().iter().any(tells) {
        return Vec::new();
    }
    let there: HashSet<(String, String)> = plan.chunks().iter().flat_map(named).collect();
    let mut all = Vec::new();
    for (chunk, low) in plan.chunks().iter().enumerate() {
        let items = low.data.get("listen_in").and_then(Value::as_list);
        for (state, name) in items
            .into_iter()
            .flatten()
            .filter_map(Value::as_map)
            .flatten()
        {
            let (state, name) = (state.to_text(), name.to_text());
            if !there.contains(&(state.clone(), name.clone())) {
                let text = format!("Referenced state {state}: {name} does not exist");
                let fault = fault(low, plan.documents(), text, &["listen_in".to_owned()]);
                let problem = Problem::Warning(fault);
                all.push(Checked { chunk, problem });
            }
        }
    }
    all
}

/// Returns the errors that Salt's `verify_data` reports when a chunk is about to run. Empty if the
/// chunk can be called.
#[must_use]
pub fn verify(low: &LowChunk, cx: &Exec) -> Vec<String> {
    let full = low.function();
    verified(low, cx, &full, cx.state_function(&full))
}

/// Like [`verify`], for a chunk whose function is already looked up.
fn verified(low: &LowChunk, cx: &Exec, full: &str, function: Option<StateFunction>) -> Vec<String> {
    let errors = form(low);
    if !errors.is_empty() {
        return errors;
    }
    match (function, cx.unavailable_state(full, function.is_none())) {
        (Some(function), None) => missing(low, full, function),
        (_, why) => unknown(low, full, &why.unwrap_or_default()),
    }
}

fn form(low: &LowChunk) -> Vec<String> {
    let mut errors = Vec::new();
    for key in ["state", "fun", "name"] {
        if !low.data.contains(key) {
            errors.push(format!("Missing \"{key}\" data"));
        }
    }
    let name = low.data.get("name").filter(|name| name.is_true());
    if let Some(name) = name.filter(|name| name.as_str().is_none()) {
        let sls = low
            .data
            .get("__sls__")
            .map(|sls| format!("in SLS '{}' ", sls.to_text()));
        let (sls, kind) = (sls.unwrap_or_default(), name.type_name());
        let name = name.to_text();
        errors.push(format!(
            "ID '{name}' {sls}is not formed as a string, but is a {kind}"
        ));
    }
    errors.extend(low.options.umask().err());
    errors
}

fn unknown(low: &LowChunk, full: &str, why: &str) -> Vec<String> {
    match low.data.get("__sls__").map(Value::to_text) {
        Some(sls) => vec![
            format!("State '{full}' was not found in SLS '{sls}'"),
            format!("Reason: {why}"),
        ],
        None => vec![format!("Specified state '{full}' was not found")],
    }
}

fn missing(low: &LowChunk, full: &str, function: StateFunction) -> Vec<String> {
    let required = function.args.iter().filter(|arg| arg.default.is_none());
    required
        .filter(|arg| !low.data.contains(arg.name))
        .map(|arg| format!("Missing parameter {} for state {full}", arg.name))
        .collect()
}

fn problems(low: &LowChunk, cx: &Exec, documents: &Documents) -> Vec<Problem> {
    let full = low.function();
    let function = cx.state_function(&full);
    let errors = match (form(low), function) {
        (errors, _) if !errors.is_empty() => errors,
        // A program that the function needs may be missing now, but exist when the chunk runs: an
        // earlier state may install it.
        (_, Some(function)) => missing(low, &full, function),
        (_, None) => verified(low, cx, &full, None),
    };
    let unknown = function.map_or_else(Vec::new, |function| {
        Unknown::new(low, cx, function).problems(documents)
    });
    if !errors.is_empty() {
        let fault = fault(low, documents, errors.join("\n"), &[]);
        let fails = [Problem::Fails(match function {
            Some(function) => fault.hint(renamed(low, function)),
            None => unknown_function(fault, low, cx),
        })];
        return fails.into_iter().chain(warnings(unknown, cx)).collect();
    }
    let mut problems = unknown;
    let reboots = low.data.get("reboot").is_some_and(Value::is_true);
    let runs_states = || cx.shared.registry.step(low) == Some(StepKind::State);
    if reboots && !cx.shared.targets.is_here() && !runs_states() {
        let text = "reboot: concerns the machine on which the run takes place; on a master only salt.state steps accept it, and wait until the states of their minions have continued after the reboot; after any other step, wait for the event salt/minion/ID/start with salt.wait_for_event";
        let fault = fault(low, documents, text.to_owned(), &["reboot".to_owned()]);
        problems.push(Problem::Stops(fault));
    }
    let own = |key| function.is_some_and(|function| function.declares(key));
    for (key, wrong) in OURS {
        if let Some(text) = wrong(&low.data).filter(|_| !own(key)) {
            let fault = fault(low, documents, text, &[key.to_owned()]);
            problems.push(Problem::Stops(fault));
        }
    }
    problems
}

/// Returns what is wrong with the value of one of our own arguments, if anything is.
type Wrong = fn(&Map) -> Option<String>;

/// The arguments that every state accepts and that Salt does not have.
const OURS: [(&str, Wrong); 3] = [
    ("resume", Policy::fault),
    ("finally", no_truth),
    ("reboot", boot::fault),
];

fn no_truth(data: &Map) -> Option<String> {
    let said = data.get("finally")?;
    let known = matches!(said, Value::Bool(_) | Value::Null);
    (!known).then(|| format!("finally: {} is neither True nor False", said.to_text()))
}

/// Explains the fault of a function that does not exist.
fn unknown_function(fault: Fault, low: &LowChunk, cx: &Exec) -> Fault {
    let (full, module) = (low.function(), &*low.state);
    let modules = &cx.shared.registry.states;
    let near = near_function(low, cx);
    match modules.iter().any(|known| known.name == module) {
        true => fault.explained(
            format!("the state module {module} has no function {}", low.fun),
            near.unwrap_or_else(|| {
                format!("sys.list_state_functions {module} lists its functions")
            }),
        ),
        false if near.is_some() => Fault {
            cause: Some(format!("there is no state function {full}").into()),
            hint: near,
            ..fault
        },
        // The loader's reason says more: a module can be disabled, or its program missing.
        false => fault,
    }
}

fn near_function(low: &LowChunk, cx: &Exec) -> Option<String> {
    let modules = cx.shared.registry.states.iter();
    let names: Vec<String> = modules
        .flat_map(|module| {
            let functions = module.functions.iter();
            functions.map(|function| format!("{}.{}", module.name, function.name))
        })
        .collect();
    did_you_mean(&low.function(), names.iter().map(String::as_str))
}

/// Returns the problems with the arguments of a chunk that fails anyway. As in Salt, it does not
/// stop the run, unless `strict_arguments` is set.
fn warnings(problems: Vec<Problem>, cx: &Exec) -> Vec<Problem> {
    let strict = is_strict(cx);
    let mut problems = problems;
    for problem in &mut problems {
        if let Problem::Stops(fault) = problem
            && !strict
        {
            *problem = Problem::Warning(fault.clone());
        }
    }
    problems
}

/// Returns a hint if exactly one required argument is missing, and exactly one unknown argument
/// begins with the same letter.
fn renamed(low: &LowChunk, function: StateFunction) -> Option<String> {
    let required = function.args.iter().filter(|arg| arg.default.is_none());
    let mut missing = required.filter(|arg| !low.data.contains(arg.name));
    let (missing, None) = (missing.next()?, missing.next()) else {
        return None;
    };
    let first = missing.name.chars().next();
    let unknown = undeclared(low, function);
    let mut alike = unknown.iter().filter(|name| name.chars().next() == first);
    let (written, None) = (alike.next()?, alike.next()) else {
        return None;
    };
    Some(format!(
        "did you mean '{}' instead of '{written}'?",
        missing.name
    ))
}

/// Returns the arguments of a chunk that its function does not declare.
fn undeclared(low: &LowChunk, function: StateFunction) -> Vec<String> {
    let known = |key: &str| key.starts_with("__") || is_internal(key) || function.declares(key);
    low.data
        .keys()
        .filter(|key| !key.as_str().is_some_and(known))
        .map(Value::to_text)
        .filter(|name| !is_internal(name))
        .collect()
}

/// Returns whether unknown arguments are errors: the option `strict_arguments`.
fn is_strict(cx: &Exec) -> bool {
    cx.opts().flag("strict_arguments")
}

/// The arguments of a chunk that its function does not declare.
struct Unknown<'a> {
    low: &'a LowChunk,
    cx: &'a Exec,
    function: StateFunction,
    names: Vec<String>,
}

impl<'a> Unknown<'a> {
    fn new(low: &'a LowChunk, cx: &'a Exec, function: StateFunction) -> Self {
        let names = undeclared(low, function);
        Self {
            low,
            cx,
            function,
            names,
        }
    }

    /// Returns the problems with these arguments: the call is refused, or there are warnings.
    fn problems(&self, documents: &Documents) -> Vec<Problem> {
        let Some(first) = self.names.first() else {
            return Vec::new();
        };
        if self.function.extra == Extra::Reject {
            let text = invalid_keywords(&self.names, &self.low.function());
            let hint = did_you_mean(first, near_arguments(self.function));
            let fault = fault(self.low, documents, text, std::slice::from_ref(first));
            let full = self.low.function();
            return vec![Problem::Stops(fault.explained(
                format!("{full} has no argument '{first}'"),
                hint.unwrap_or_else(|| format!("sys.state_argspec {full} lists its arguments")),
            ))];
        }
        let facts = facts(self.cx.shared.registry.states, &self.low.function());
        // A custom function has arguments that only its own code knows.
        let free = facts.free_arguments || is_custom(self.cx, self.low, self.function);
        let names = self.names.iter();
        let names = names.filter(|name| !facts.also_takes.contains(&name.as_str()));
        names
            .filter_map(|name| self.swallowed(name, &facts, free, documents))
            .collect()
    }

    /// Returns the problem with an argument that Salt accepts and ignores, if it is one. A function
    /// with free arguments has undeclared ones, so such an argument is only reported if it resembles
    /// a declared one.
    fn swallowed(
        &self,
        name: &String,
        facts: &Facts,
        free: bool,
        documents: &Documents,
    ) -> Option<Problem> {
        // `module.run` passes an argument `m_name` as `name` to the function that it calls.
        if self.low.state == "module" && name.starts_with("m_") {
            return None;
        }
        // The first letter must be the same, because it is hardly ever mistyped: `match` is not a
        // misspelt `watch`.
        let alike = |known: &&str| known.chars().next() == name.chars().next();
        let near = near_arguments(self.function).chain(facts.also_takes.iter().copied());
        let hint = did_you_mean(name, near.filter(alike));
        if hint.is_none() && (free || is_declared_elsewhere(self.cx, name)) {
            return None;
        }
        let full = self.low.function();
        let text = format!("{full} does not know the argument '{name}'");
        let fault = fault(self.low, documents, text, std::slice::from_ref(name)).hint(hint);
        Some(match is_strict(self.cx) && !free {
            true => Problem::Stops(fault),
            false => Problem::Warning(fault),
        })
    }
}

/// Returns whether a function is custom, and none of the registry.
fn is_custom(cx: &Exec, low: &LowChunk, function: StateFunction) -> bool {
    let own = find(cx.shared.registry.states, &low.function());
    !own.is_some_and(|own| std::ptr::eq(own, function))
}

/// Returns whether any state or execution function declares an argument of this name: states pass
/// arguments on to those.
fn is_declared_elsewhere(cx: &Exec, name: &str) -> bool {
    let registry = &cx.shared.registry;
    let states = registry.states.iter();
    let mut states = states.flat_map(|module| module.functions);
    let functions = registry.functions.iter();
    let mut functions = functions.flat_map(|module| module.functions);
    states.any(|function| function.declares(name))
        || functions.any(|function| function.declares(name))
}

/// The minimum length of a global state argument that is suggested. Shorter ones resemble too many
/// words: `user` is not a misspelt `use`.
const NEAR_MIN: usize = 4;

/// Returns the arguments that the user may have meant.
fn near_arguments(function: StateFunction) -> impl Iterator<Item = &'static str> {
    let declared = function.args.iter().map(|arg| arg.name);
    declared.chain(low::options().filter(|option| option.len() >= NEAR_MIN))
}

fn fault(low: &LowChunk, documents: &Documents, text: String, argument: &[String]) -> Fault {
    let path = argument_path(low, documents, argument.first());
    documents.fault_in(text, &low.data, &path)
}

/// Returns the place of a chunk in the templates, or of one of its arguments.
pub(super) fn place(
    low: &LowChunk,
    documents: &Documents,
    argument: Option<&str>,
) -> Option<render::Place> {
    let argument = argument.map(str::to_owned);
    let path = argument_path(low, documents, argument.as_ref());
    documents.fault_in("", &low.data, &path).place
}

fn argument_path(low: &LowChunk, documents: &Documents, argument: Option<&String>) -> Vec<Value> {
    let mut path: Vec<Value> = vec![low.id.as_str().into(), low.state.as_str().into()];
    if let Some(argument) = argument {
        let index = documents.argument(&low.data, &path, argument);
        path.extend(
            index
                .into_iter()
                .flat_map(|index| [index.into(), argument.into()]),
        );
    }
    path
}
