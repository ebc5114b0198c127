//! Which minions a target names, by what the master knows of them.

use std::sync::Arc;

use value::target::{Facts, matches_with};
use value::{Map, Value};
use wire::Id;

use crate::daemon::Master;
use crate::store::{Cache, Store};

/// What the master knows of one minion.
pub(crate) struct Known<'a> {
    id: &'a Id,
    store: &'a Store,
    nodegroups: &'a Map,
}

impl Facts for Known<'_> {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn grains(&self) -> Map {
        let grains = self.store.cached(Cache::Grains, self.id);
        grains.ok().flatten().unwrap_or_default()
    }

    fn pillar(&self) -> Result<Map, String> {
        let pillar = self.store.cached(Cache::Pillar, self.id);
        let pillar = pillar.map_err(|error| error.to_string())?;
        Ok(pillar.unwrap_or_default())
    }

    fn nodegroups(&self) -> Map {
        self.nodegroups.clone()
    }
}

impl Master {
    /// The option `nodegroups`.
    pub(crate) fn nodegroups(&self) -> Map {
        let groups = self.opts().get("nodegroups").and_then(Value::as_map);
        groups.cloned().unwrap_or_default()
    }

    /// What is known of a minion.
    pub(crate) fn known<'a>(&'a self, id: &'a Id, nodegroups: &'a Map) -> Known<'a> {
        Known {
            id,
            store: self.store(),
            nodegroups,
        }
    }

    /// The accepted minions that a target names, sorted, and the names of a list that nobody has.
    pub(crate) async fn matched(
        self: &Arc<Self>,
        tgt: &Value,
        tgt_type: &str,
        options: &Map,
    ) -> Result<(Vec<Id>, Vec<String>), String> {
        let (master, tgt, tgt_type) = (self.clone(), tgt.clone(), tgt_type.to_owned());
        let delimiter = options
            .get("delimiter")
            .map_or_else(|| ":".to_owned(), Value::to_text);
        smol::unblock(move || master.matching(&tgt, &tgt_type, &delimiter)).await
    }

    pub(crate) fn matching(
        &self,
        tgt: &Value,
        tgt_type: &str,
        delimiter: &str,
    ) -> Result<(Vec<Id>, Vec<String>), String> {
        let ids = self.accepted()?;
        if tgt_type == "list" {
            return Ok(listed(&ids, tgt));
        }
        let nodegroups = self.nodegroups();
        let mut matched = Vec::new();
        for id in ids {
            if matches_with(&self.known(&id, &nodegroups), tgt, tgt_type, delimiter)? {
                matched.push(id);
            }
        }
        Ok((matched, Vec::new()))
    }
}

/// Those of a list that are known, and those that are not.
fn listed(ids: &[Id], tgt: &Value) -> (Vec<Id>, Vec<String>) {
    let names = match tgt.as_list() {
        Some(names) => names.iter().map(Value::to_text).collect::<Vec<_>>(),
        None => tgt
            .to_text()
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect(),
    };
    let (mut known, mut missing) = (Vec::new(), Vec::new());
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        match ids.iter().find(|id| id.as_str() == name) {
            Some(id) => known.push(id.clone()),
            None => missing.push(name),
        }
    }
    known.sort();
    known.dedup();
    (known, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_known_minions_once_and_tells_the_others() {
        let ids: Vec<Id> = ["a", "b"].iter().filter_map(|id| id.parse().ok()).collect();
        let (known, missing) = listed(&ids, &"b,x, b,a".into());
        assert_eq!(known, ids);
        assert_eq!(missing, ["x"]);
    }
}
