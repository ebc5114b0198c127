//! Checks the names of functions that steps of orchestrations and reactions call: execution
//! functions, runners and wheel functions.

use modules::loader::absent;
use render::Place;
use state::compile::Plan;
use state::exec::{Exec, find};
use state::facts::StepKind;
use state::low::LowChunk;
use state::module::Module;
use value::Value;
use value::hint::nearest;

use crate::codes::code;
use crate::finding::Finding;
use crate::samples::Found;

/// The kind of function that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Module,
    Runner,
    Wheel,
}

impl Client {
    /// Returns the kind for the first word of a reaction; `None` for words after which no function
    /// name follows.
    pub(crate) fn of_reaction(word: &str) -> Option<Self> {
        match word {
            "local" | "cmd" | "caller" => Some(Self::Module),
            "runner" => Some(Self::Runner),
            "wheel" => Some(Self::Wheel),
            _ => None,
        }
    }

    /// Returns the kind for the function of an orchestration step.
    fn of_step(step: StepKind) -> Option<Self> {
        match step {
            StepKind::Function => Some(Self::Module),
            StepKind::Runner => Some(Self::Runner),
            StepKind::Wheel => Some(Self::Wheel),
            StepKind::State | StepKind::ParallelRunners | StepKind::WaitForEvent => None,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Module => "function",
            Self::Runner => "runner",
            Self::Wheel => "wheel function",
        }
    }

    fn is_known(self, cx: &Exec, name: &str) -> bool {
        let registry = cx.shared.registry;
        match self {
            Self::Module => cx.shared.custom.signature(cx, name).is_some(),
            Self::Runner => {
                find(registry.runners, name).is_some()
                    || absent::RUNNERS.contains(&name)
                    || self.is_of_tree(cx, name)
            }
            Self::Wheel => {
                find(registry.wheel, name).is_some()
                    || absent::WHEEL.contains(&name)
                    || self.is_of_tree(cx, name)
            }
        }
    }

    /// True when the module is a file of the tree.
    fn is_of_tree(self, cx: &Exec, name: &str) -> bool {
        let folder = match self {
            Self::Module => "_modules",
            Self::Runner => "_runners",
            Self::Wheel => "_wheel",
        };
        let module = name.split('.').next().unwrap_or_default();
        let file = format!("{folder}/{module}.py");
        let sources = &cx.shared.sources;
        let mut all = sources.environments().unwrap_or_default().into_iter();
        all.any(|saltenv| sources.file(&file, &saltenv).ok().flatten().is_some())
    }

    fn names(self, cx: &Exec) -> Vec<String> {
        let with = |own: Vec<String>, more: &[&str]| {
            let more = more.iter().map(|name| (*name).to_owned());
            own.into_iter().chain(more).collect()
        };
        let of = |modules: &'static [Module<Value>]| {
            let each = modules.iter().flat_map(|module| {
                let functions = module.functions.iter();
                functions.map(|function| format!("{}.{}", module.name, function.name))
            });
            each.collect()
        };
        let registry = cx.shared.registry;
        match self {
            Self::Module => cx.function_names(),
            Self::Wheel => with(of(registry.wheel), absent::WHEEL),
            Self::Runner => with(of(registry.runners), absent::RUNNERS),
        }
    }

    /// Returns a finding for an unknown name: a name near that of a known function is misspelt
    /// (E204), another may belong to an extension (W205).
    pub(crate) fn fault(
        self,
        cx: &Exec,
        name: &str,
        place: impl FnOnce() -> Option<Place>,
    ) -> Option<Finding> {
        let (module, function) = name.split_once('.')?;
        if module.is_empty() || function.is_empty() || self.is_known(cx, name) {
            return None;
        }
        let names = self.names(cx);
        let meant = nearest(name, names.iter().map(String::as_str));
        let number = if meant.is_some() { "E204" } else { "W205" };
        let message = format!("unknown {} {name}", self.word());
        Some(Finding {
            hint: meant.map(|meant| format!("did you mean '{meant}'?")),
            ..Finding::at(code(number), place()?, message)
        })
    }
}

/// Checks the steps of an orchestration.
pub(crate) fn look(cx: &Exec, plan: &Plan, low: &LowChunk, found: &mut Found) {
    let place = |key| plan.place(low, Some(key)).or_else(|| plan.place(low, None));
    let fault = |client: Client, name: &str, key| client.fault(cx, name, || place(key));
    let step = cx.shared.registry.step(low);
    if let Some(client) = step.and_then(Client::of_step) {
        found.findings.extend(fault(client, &low.name, "name"));
    }
    if step == Some(StepKind::ParallelRunners) {
        let runners = low.data.get("runners").and_then(Value::as_map);
        for (id, config) in runners.into_iter().flatten() {
            let listed = config.as_list().unwrap_or_default().iter();
            let listed = listed.filter_map(|item| item.get("name")).next();
            let name = config.get("name").or(listed).unwrap_or(id).to_text();
            found
                .findings
                .extend(fault(Client::Runner, &name, "runners"));
        }
    }
}
