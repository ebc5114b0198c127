//! Compiles SLS to a plan. Each file is one step, which takes the result of the previous step and
//! returns the next one, or all of its faults.

mod aggregate;
mod check;
mod chunk;
mod declarations;
mod documents;
mod examine;
mod exclude;
mod extend;
mod fault;
mod graph;
mod high;
mod hint;
mod order;
mod plan;
mod rank;
mod render;
mod requisite;
mod sls;
mod template;

use value::{Map, Value, glob};

pub use check::{Checked, Problem, check, verify};
pub use chunk::Disabled;
pub use examine::{Examined, Examiner};
pub use fault::Fault;
pub use high::HighData;
pub use hint::did_you_mean;
pub use plan::{Plan, Step};
pub use sls::resolved;
pub use template::{template, template_str};

use crate::exec::Exec;
use crate::low::LowChunk;
use crate::top::{Matched, Request};

/// Returns the high data of SLS files by name (`state.sls`).
///
/// # Errors
/// All faults of these files and of those that they include.
pub fn sls(cx: &Exec, mods: &[String], saltenv: &str) -> Result<HighData, Vec<Fault>> {
    matched(cx, &vec![(saltenv.to_owned(), mods.to_vec())])
}

/// Returns the high data of the SLS that the top files assign (`state.highstate`). Empty if they
/// assign none.
///
/// # Errors
/// All faults of the top files and the SLS files.
pub fn highstate(cx: &Exec) -> Result<HighData, Vec<Fault>> {
    matched(cx, &crate::top::matched(cx, &Request::from_config(cx))?)
}

/// Returns the high data of SLS files by environment.
///
/// # Errors
/// All faults of these files.
pub fn matched(cx: &Exec, matches: &Matched) -> Result<HighData, Vec<Fault>> {
    let rendered = sls::rendered(&render::Roots(cx), matches, auto_order(cx));
    if rendered.faults.is_empty() {
        Ok(rendered.high)
    } else {
        Err(rendered.faults)
    }
}

/// Returns the high data of SLS files, with its form checked too (`state.show_sls`,
/// `state.show_low_sls`, `state.sls_id`).
///
/// # Errors
/// All faults of these files.
pub fn high_data(cx: &Exec, mods: &[String], saltenv: &str) -> Result<HighData, Vec<Fault>> {
    let matches = [(saltenv.to_owned(), mods.to_vec())];
    let mut rendered = sls::rendered(&render::Roots(cx), &matches, auto_order(cx));
    rendered.faults.extend(rendered.high.faults());
    if rendered.faults.is_empty() {
        Ok(rendered.high)
    } else {
        Err(rendered.faults)
    }
}

/// Returns the plan of the SLS that the top files assign. Unlike [`HighData::plan`], it reports the
/// faults of all steps together (`state.show_lowstate`, `state.show_states`).
///
/// # Errors
/// All faults of the top files, the SLS files and their requisites.
pub fn lowstate(cx: &Exec) -> Result<Plan, Vec<Fault>> {
    lowstate_of(cx, &crate::top::matched(cx, &Request::from_config(cx))?)
}

/// Like [`lowstate`], for SLS files by environment.
///
/// # Errors
/// All faults of these files and their requisites.
pub fn lowstate_of(cx: &Exec, matches: &Matched) -> Result<Plan, Vec<Fault>> {
    let rendered = sls::rendered(&render::Roots(cx), matches, auto_order(cx));
    let (mut high, mut faults) = (rendered.high, rendered.faults);
    faults.extend(high.extend(false, &extend::Origins::new()));
    faults.extend(high.faults());
    let disabled = cx.opts().texts("disabled_requisites");
    let (high, more) = high.requisites_in_with_faults(&disabled);
    faults.extend(more);
    if faults.is_empty() {
        high.excluded().ordered(cx)
    } else {
        Err(faults)
    }
}

/// Returns the faults of the pillar. A state run refuses to start if there are any.
///
/// # Errors
/// When the pillar cannot be compiled at all.
pub fn pillar_faults(cx: &Exec) -> Result<Vec<Fault>, crate::module::Error> {
    let pillar = cx.pillar()?;
    let errors = pillar
        .get("_errors")
        .and_then(Value::as_list)
        .unwrap_or_default();
    if errors.is_empty() {
        return Ok(Vec::new());
    }
    let head = "Pillar failed to render with the following messages:".to_owned();
    let errors = errors.iter().map(Value::to_text);
    Ok(std::iter::once(head)
        .chain(errors)
        .map(Fault::new)
        .collect())
}

/// Returns true if an environment has an SLS file of this name, or, if the name is a glob, one that
/// matches it (`state.sls_exists`).
///
/// # Errors
/// When the environment cannot be listed.
pub fn sls_exists(cx: &Exec, sls: &str, saltenv: &str) -> Result<bool, crate::module::Error> {
    let tree = crate::host::Tree::State;
    if glob::is_glob(sls) {
        let names = crate::tree::matching(cx, &tree, sls, saltenv)?;
        return Ok(!names.is_empty());
    }
    crate::tree::find(cx, &tree, sls, saltenv).map(|found| found.is_some())
}

/// Returns the plan of one chunk (`state.single`, `state.low`).
#[must_use]
pub fn single(data: Map) -> Plan {
    Plan::of_one(LowChunk::from_map(data))
}

impl HighData {
    /// Returns the plan of a run: extended, checked, with `*_in` requisites resolved and excluded
    /// states removed, sorted.
    ///
    /// # Errors
    /// All faults of the first step that has any.
    pub fn plan(self, cx: &Exec) -> Result<Plan, Vec<Fault>> {
        let mut high = self;
        let mut faults = high.extend(false, &extend::Origins::new());
        faults.extend(high.faults());
        if !faults.is_empty() {
            return Err(faults);
        }
        high.requisites_in(&cx.opts().texts("disabled_requisites"))?
            .excluded()
            .ordered(cx)
    }

    /// Returns the plan without applying `extend`, `*_in` requisites and `exclude`
    /// (`state.show_low_sls`).
    ///
    /// # Errors
    /// Faults of the data or its requisites.
    pub fn plan_as_written(self, cx: &Exec) -> Result<Plan, Vec<Fault>> {
        self.verified()?.ordered(cx)
    }

    /// Returns the plan without applying `extend` and `exclude` (`state.sls_id`).
    ///
    /// # Errors
    /// Faults of the data or its requisites.
    pub fn plan_of_id(self, cx: &Exec) -> Result<Plan, Vec<Fault>> {
        let mut high = self.verified()?;
        high.map.remove("__extend__");
        high.requisites_in(&cx.opts().texts("disabled_requisites"))?
            .ordered(cx)
    }

    fn ordered(self, cx: &Exec) -> Result<Plan, Vec<Fault>> {
        let disabled = cx.grains().get("state_runs_disabled").cloned();
        let disabled = disabled
            .as_ref()
            .and_then(Value::as_list)
            .unwrap_or_default();
        let disabled: Vec<String> = disabled.iter().map(Value::to_text).collect();
        let chunks = self.chunks(&disabled);
        let mut spared = self.map.get(exclude::SPARED).cloned().unwrap_or_default();
        let spared = spared.as_list_mut().map(std::mem::take).unwrap_or_default();
        let disabled_data = chunks.disabled.iter().map(|disabled| &disabled.data);
        let left_out = disabled_data.flat_map(|data| order::compensating(data).unwrap_or_default());
        let rules = order::Rules {
            left_out: &spared.into_iter().chain(left_out).collect::<Vec<_>>(),
            has: &|function| cx.state_function(function).is_some() || aggregates(cx, function),
            disabled: &cx.opts().texts("disabled_requisites"),
            aggregate: &cx
                .opts()
                .get("state_aggregate")
                .cloned()
                .unwrap_or_default(),
        };
        let plan = order::ordered(chunks.chunks, &self, &rules)?;
        Ok(plan.with_disabled(chunks.disabled))
    }
}

fn aggregates(cx: &Exec, function: &str) -> bool {
    let module = function.strip_suffix(".mod_aggregate");
    module.is_some_and(|module| cx.shared.registry.aggregate(module).is_some())
}

fn auto_order(cx: &Exec) -> bool {
    cx.opts().get("state_auto_order").is_none_or(Value::is_true)
}
