//! Checks chunks for problems that a run would not refuse: missing files, and targets that match no
//! minion.

use std::collections::HashMap;
use std::sync::Arc;

use modules::loader::absent;
use state::compile::{Examined, Plan};
use state::custom::Kind;
use state::exec::Exec;
use state::facts::StepKind;
use state::low::LowChunk;
use state::matcher;
use value::Value;
use value::glob::{fnmatch, is_glob};
use value::hint::nearest;

use crate::calls;
use crate::codes::code;
use crate::finding::Finding;
use crate::samples::Found;

/// The states of the whole tree, by module and by ID or name.
#[derive(Default)]
pub(crate) struct StateIndex {
    /// The SLS of each state, by module, `id` or `sls`, and by name.
    states: HashMap<(String, String), String>,
    /// The names and texts of SLS that could not be rendered; each may contain any state that its
    /// text names.
    unknown: Vec<(String, Arc<str>)>,
}

impl StateIndex {
    /// Adds the chunks of SLS files.
    pub(crate) fn take_in(&mut self, examined: &Examined) {
        for low in examined.plan.chunks() {
            for group in [low.state.as_str(), "id"] {
                for name in [&low.id, &low.name] {
                    let key = (group.to_owned(), name.clone());
                    self.states.entry(key).or_insert_with(|| low.sls.clone());
                }
            }
            let key = ("sls".to_owned(), low.sls.clone());
            self.states.entry(key).or_insert_with(|| low.sls.clone());
        }
    }

    /// Returns the SLS of each state, by the module, `id` or `sls`, and by its name.
    pub(crate) fn states(self) -> HashMap<(String, String), String> {
        self.states
    }

    /// Adds an SLS that could not be rendered.
    pub(crate) fn take_in_text(&mut self, sls: &str, text: Arc<str>) {
        self.unknown.push((sls.to_owned(), text));
    }

    /// Adds the name of an SLS, which may have states with other samples.
    pub(crate) fn take_in_name(&mut self, sls: &str) {
        let key = ("sls".to_owned(), sls.to_owned());
        self.states.entry(key).or_insert_with(|| sls.to_owned());
    }

    /// Describes the other SLS in which a state is, or may be.
    fn elsewhere(&self, group: &str, name: &str) -> Option<String> {
        let is_meant = |(of, known): &(String, String)| {
            of == group && (known == name || (is_glob(name) && fnmatch(name, known)))
        };
        let key = (group.to_owned(), name.to_owned());
        let known = self.states.get(&key).or_else(|| {
            let mut all = self.states.iter().filter(|_| is_glob(name));
            all.find(|(key, _)| is_meant(key)).map(|(_, sls)| sls)
        });
        if let Some(sls) = known {
            return Some(format!(
                "'{name}' is in the SLS {sls}, which is not included"
            ));
        }
        let mut unknown = self.unknown.iter();
        let (sls, _) = unknown.find(|(_, text)| text.contains(name))?;
        Some(format!(
            "'{name}' was not found; it may be in the SLS {sls}, which could not be rendered"
        ))
    }

    /// Replaces a finding about a missing requisite or ID (E401, E405) with W402 if another SLS has
    /// the target. If the same SLS has the ID, but not that state, only the hint changes.
    pub(crate) fn judged(&self, finding: Finding) -> Option<Finding> {
        if !matches!(finding.code.code, "E401" | "E405") {
            return Some(finding);
        }
        let target = match finding.message.split_once(": (") {
            Some((_, rest)) => rest
                .split_once(")]")
                .and_then(|(target, _)| target.split_once(": ")),
            None => finding.message.split('\'').nth(1).map(|id| ("id", id)),
        };
        let of_own = |name: &str| {
            let key = ("id".to_owned(), name.to_owned());
            let sls = self.states.get(&key);
            sls.is_some_and(|sls| finding.message.contains(&format!("in 'base:{sls}'")))
        };
        if target.is_some_and(|(group, name)| group == "id" && of_own(name)) {
            let hint = "the ID exists, but has no such state: fix the module or the ID";
            return Some(Finding {
                hint: Some(hint.to_owned()),
                ..finding
            });
        }
        let Some(message) = target.and_then(|(group, name)| self.elsewhere(group, name)) else {
            return Some(finding);
        };
        Some(Finding {
            message,
            hint: None,
            ..finding.code("W402")
        })
    }
}

/// Refines W205 about a missing execution function: E204 for a function of a known module, which is
/// probably misspelt; otherwise it names the missing module.
pub(crate) fn function(cx: &Exec, finding: Finding) -> Finding {
    if finding.code.code != "W205" {
        return finding;
    }
    let name = finding.message.rsplit('\'').nth(1).unwrap_or_default();
    let modules = cx.shared.registry.functions;
    let (module, function) = name.split_once('.').unwrap_or((name, ""));
    let own = modules.iter().any(|known| known.name == module);
    let all = cx.function_names();
    let meant = nearest(name, all.iter().map(String::as_str));
    let hint = meant.map(|meant| format!("did you mean '{meant}'?"));
    match (own && !function.is_empty(), hint) {
        (true, hint) => Finding {
            message: format!("unknown function {name}"),
            hint,
            ..finding.code("E204")
        },
        (false, _) => Finding {
            message: format!("unknown module {module} of {name}"),
            ..finding
        },
    }
}

/// Returns a finding about a chunk with the fitting code, or `None` if it is not certain.
pub(crate) fn judged(cx: &Exec, low: &LowChunk, finding: Finding) -> Option<Finding> {
    if finding.code.code == "W304" {
        // The arguments of modules in the tree are unknown, and so are those of the functions that
        // `module.run`, `salt.runner` and `salt.wheel` call.
        let step = cx.shared.registry.step(low);
        let hands_on =
            low.state == "module" || matches!(step, Some(StepKind::Runner | StepKind::Wheel));
        let known = cx.has_state_module(&low.state) && !hands_on;
        return known.then_some(finding);
    }
    if finding.code.code != "W302" {
        return Some(finding);
    }
    if low.fun.contains(' ') {
        // The fault of an argument without a colon is reported already.
        return None;
    }
    let full = low.function();
    let salts = absent::STATE_FUNCTIONS.contains(&full.as_str());
    let misspelt = !salts && (cx.has_state_module(&low.state) || near_module(cx, low));
    let hint = match misspelt {
        true => finding.hint.clone(),
        false => absent::not_built(Kind::State, &low.state),
    };
    let message = match misspelt || salts {
        true => format!("unknown state function {full}"),
        false => format!("unknown state module {} of {full}", low.state),
    };
    let number = if misspelt { "E301" } else { "W302" };
    let place = finding.code(number);
    Some(Finding {
        message,
        hint,
        ..place
    })
}

/// True when the module's name is nearly that of a known module that has the function.
fn near_module(cx: &Exec, low: &LowChunk) -> bool {
    if absent::is_state_module(&low.state) {
        return false;
    }
    let states = cx.shared.registry.states;
    let meant = nearest(&low.state, states.iter().map(|module| module.name));
    meant.is_some_and(|meant| cx.state_function(&format!("{meant}.{}", low.fun)).is_some())
}

/// Checks the chunks of SLS files.
pub(crate) fn look(cx: &Exec, plan: &Plan, found: &mut Found) {
    for low in plan.chunks() {
        source(cx, plan, low, found);
        replaced(plan, low, found);
        calls::look(cx, plan, low, found);
        let step = cx.shared.registry.step(low);
        if matches!(step, Some(StepKind::Function | StepKind::State)) {
            target(cx, plan, low, found);
        }
    }
}

fn replaced(plan: &Plan, low: &LowChunk, found: &mut Found) {
    for &(module, argument, now) in absent::REPLACED {
        if low.state == module
            && low.data.contains(argument)
            && let Some(place) = plan.place(low, Some(argument))
        {
            let message = format!("'{argument}' was renamed to '{now}'");
            let finding = Finding::at(code("W804"), place, message);
            found.findings.push(finding);
        }
    }
}

/// Reports a source file of a state that is not in the tree.
fn source(cx: &Exec, plan: &Plan, low: &LowChunk, found: &mut Found) {
    if low.state != "file" || !matches!(low.fun.as_str(), "managed" | "recurse") {
        return;
    }
    let Some(path) = low.data.get("source").and_then(Value::as_str) else {
        return;
    };
    let Some(below) = path.strip_prefix("salt://") else {
        return;
    };
    let (below, saltenv) = match below.split_once("?saltenv=") {
        Some((below, saltenv)) => (below, saltenv),
        None => (
            below,
            low.data
                .get("__env__")
                .and_then(Value::as_str)
                .unwrap_or("base"),
        ),
    };
    let below = below.trim_matches('/');
    let sources = &cx.shared.sources;
    let there = match low.fun.as_str() {
        "managed" => sources.file(below, saltenv).ok().flatten().is_some(),
        _ => {
            let inside = format!("{below}/");
            let all = sources.list(saltenv).unwrap_or_default();
            all.iter().any(|path| path.starts_with(&inside))
        }
    };
    if there || below.is_empty() {
        return;
    }
    if let Some(place) = plan.place(low, Some("source")) {
        let message = format!("{path} is not in the file roots");
        found
            .findings
            .push(Finding::at(code("W504"), place, message));
    }
}

/// Notes whether this sample matches the target of an orchestration step; another sample may match
/// it.
fn target(cx: &Exec, plan: &Plan, low: &LowChunk, found: &mut Found) {
    let Some(tgt) = low.data.get("tgt") else {
        return;
    };
    let word = |key| low.data.get(key).and_then(Value::as_str);
    let kind = word("tgt_type")
        .or_else(|| word("expr_form"))
        .unwrap_or("glob");
    // A target that cannot be evaluated here counts as matched.
    let matched = matcher::matches(cx, tgt, kind).unwrap_or(true);
    let Some(place) = plan.place(low, Some("tgt")) else {
        return;
    };
    let key = format!("{}:{}", place.file, place.line);
    let message = format!(
        "the target '{}' ({kind}) matches none of the samples, and without a master there are no other minions",
        tgt.to_text()
    );
    let finding = Finding::at(code("W601"), place, message);
    let entry = found.targets.entry(key).or_insert((false, finding));
    entry.0 |= matched;
}
