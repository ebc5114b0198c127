//! Checks a plan against the declared functions and arguments before anything runs.

use std::collections::HashSet;
use std::sync::Arc;

use value::{Map, Value};

use super::Fault;
use super::documents::Documents;
use super::hint::did_you_mean;
use super::plan::Plan;
use crate::boot;
use crate::exec::Exec;
use crate::facts::StepKind;
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
    if !errors.is_empty() {
        let fault = fault(low, documents, errors.join("\n"), &[]);
        let hint = match function {
            Some(_) => None,
            None => near_function(low, cx),
        };
        return vec![Problem::Fails(fault.hint(hint))];
    }
    let mut problems =
        function.map_or_else(Vec::new, |function| arguments(low, function, documents));
    let reboots = low.data.get("reboot").is_some_and(Value::is_true);
    let runs_states = cx.shared.registry.step(low) == Some(StepKind::State);
    if reboots && !cx.shared.targets.is_here() && !runs_states {
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

/// Returns problems about arguments that the function does not declare: the call is refused, or
/// there is a warning.
fn arguments(low: &LowChunk, function: StateFunction, documents: &Documents) -> Vec<Problem> {
    let known = |key: &str| key.starts_with("__") || is_internal(key) || function.declares(key);
    let unknown: Vec<String> = low
        .data
        .keys()
        .filter(|key| !key.as_str().is_some_and(known))
        .map(Value::to_text)
        .filter(|name| !is_internal(name))
        .collect();
    let Some(first) = unknown.first() else {
        return Vec::new();
    };
    if function.extra == Extra::Reject {
        let text = invalid_keywords(&unknown, &low.function());
        let hint = did_you_mean(first, near_arguments(function));
        let fault = fault(low, documents, text, std::slice::from_ref(first));
        return vec![Problem::Stops(fault.hint(hint))];
    }
    // `module.run` passes an argument `m_name` as `name` to the function that it calls.
    let is_free = |name: &&String| low.state == "module" && name.starts_with("m_");
    let warning = |name: &String| {
        let full = low.function();
        // A warning is only useful if the name resembles a declared argument: functions with free
        // arguments have arguments of their own. The first letter must be the same, because it is
        // hardly ever mistyped: `match` is not a misspelt `watch`.
        let alike = |known: &&str| known.chars().next() == name.chars().next();
        let hint = did_you_mean(name, near_arguments(function).filter(alike))?;
        let text = format!("{full} does not know the argument '{name}'");
        let fault = fault(low, documents, text, std::slice::from_ref(name));
        Some(Problem::Warning(fault.hint(Some(hint))))
    };
    let unknown = unknown.iter().filter(|name| !is_free(name));
    unknown.filter_map(warning).collect()
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
