//! Removes the IDs and SLS files that `exclude` names.

use std::collections::HashSet;

use value::Value;
use value::glob::fnmatch;

use super::HighData;
use super::high::{is_dunder, states};
use super::order::compensating;

/// The key of high data with the states that excluded states name in `compensate`. These states do
/// not run in the ordinary phase either.
pub(crate) const SPARED: &str = "__spared__";

impl HighData {
    /// Removes the IDs, and the SLS files, that `exclude` names.
    pub(crate) fn excluded(mut self) -> Self {
        let Some(exclude) = self.map.remove("__exclude__") else {
            return self;
        };
        let excludes = exclude.as_list().unwrap_or_default();
        let named = |key| {
            let single = move |item: &Value| {
                let (first, value) = item.as_map().filter(|map| map.len() == 1)?.first()?;
                (first.as_str() == Some(key)).then(|| value.clone())
            };
            excludes.iter().filter_map(single)
        };
        let sls: HashSet<Value> = excludes
            .iter()
            .filter(|item| item.as_str().is_some())
            .cloned()
            .chain(named("sls"))
            .collect();
        let ids: HashSet<Value> = named("id").collect();
        let in_excluded_sls = |body: &Value| {
            let here = body.get("__sls__").and_then(Value::as_str);
            here.filter(|here| !here.is_empty()).is_some_and(|here| {
                sls.contains(&Value::from(here))
                    || sls.iter().any(|glob| fnmatch(&glob.to_text(), here))
            })
        };
        let mut spared = Vec::new();
        self.map.retain(|id, body| {
            let stays = is_dunder(id) || !(ids.contains(id) || in_excluded_sls(body));
            if !stays {
                spared.extend(compensations(body));
            }
            stays
        });
        if !spared.is_empty() {
            self.map.insert(SPARED, spared);
        }
        self
    }
}

/// Returns the items that the states of an ID name in `compensate`.
fn compensations(body: &Value) -> Vec<Value> {
    let arguments = states(body).flat_map(|(_, run)| run.as_list().unwrap_or_default());
    let maps = arguments.filter_map(Value::as_map);
    maps.flat_map(|map| compensating(map).unwrap_or_default())
        .collect()
}
