//! Taking out what `exclude` names.

use std::collections::HashSet;

use value::Value;
use value::glob::fnmatch;

use super::HighData;
use super::high::is_dunder;

impl HighData {
    /// Without the IDs, and the SLS files, that `exclude` names.
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
        self.map
            .retain(|id, body| is_dunder(id) || !(ids.contains(id) || in_excluded_sls(body)));
        self
    }
}
