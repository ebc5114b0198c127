//! The minions that match a target, by what the master knows about them.

use std::sync::Arc;

use state::opts::Opts;
use value::target::{Facts, MatchOptions, PillarMatch, matches_with};
use value::{Map, Value};
use wire::Id;

use crate::store::{Cache, Error, KeyState, Store};

/// The accepted minions that match a target, sorted, and the names in a list that no accepted
/// minion has.
pub(crate) type Matched = (Vec<Id>, Vec<String>);

/// The facts that the master knows about one minion.
pub(crate) struct MinionFacts<'a> {
    id: &'a Id,
    targets: &'a Targets,
}

impl Facts for MinionFacts<'_> {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn grains(&self) -> Map {
        let grains = self.targets.store.cached(Cache::Grains, self.id);
        grains.ok().flatten().unwrap_or_default()
    }

    fn pillar(&self) -> Result<Map, String> {
        let pillar = self.targets.store.cached(Cache::Pillar, self.id);
        let pillar = pillar.map_err(|error| error.to_string())?;
        Ok(pillar.unwrap_or_default())
    }

    fn nodegroups(&self) -> Map {
        Map::clone(&self.targets.nodegroups)
    }
}

/// Finds the minions that match targets.
#[derive(Clone)]
pub(crate) struct Targets {
    store: Store,
    /// The option `nodegroups`.
    nodegroups: Arc<Map>,
}

impl Targets {
    pub(crate) fn new(opts: &Opts, store: Store) -> Self {
        let groups = opts.get("nodegroups").and_then(Value::as_map);
        Self {
            store,
            nodegroups: Arc::new(groups.cloned().unwrap_or_default()),
        }
    }

    /// Returns the known facts about a minion.
    pub(crate) fn facts<'a>(&'a self, id: &'a Id) -> MinionFacts<'a> {
        MinionFacts { id, targets: self }
    }

    /// Returns the minions that match a target. `pillar` must be exact if the target does not come
    /// from root.
    pub(crate) async fn matched(
        &self,
        tgt: &Value,
        tgt_type: &str,
        options: &Map,
        pillar: PillarMatch,
    ) -> Result<Matched, String> {
        let (targets, tgt, tgt_type) = (self.clone(), tgt.clone(), tgt_type.to_owned());
        let delimiter = options
            .get("delimiter")
            .map_or_else(|| ":".to_owned(), Value::to_text);
        let matching = move || {
            let how = MatchOptions {
                delimiter: &delimiter,
                pillar,
            };
            targets.matching(&tgt, &tgt_type, how)
        };
        smol::unblock(matching).await
    }

    /// Like [`Targets::matched`], for a thread that may block.
    pub(crate) fn matching(
        &self,
        tgt: &Value,
        tgt_type: &str,
        how: MatchOptions<'_>,
    ) -> Result<Matched, String> {
        // Names are looked up directly, so that a reaction to one minion does not cost more in a
        // larger fleet.
        if tgt_type == "list" {
            return listed(tgt, |id| self.is_accepted(id));
        }
        if let Some(id) = tgt.as_str().filter(|_| tgt_type == "glob").and_then(plain) {
            let matched = self.is_accepted(&id)?.then_some(id);
            return Ok((matched.into_iter().collect(), Vec::new()));
        }
        let mut matched = Vec::new();
        for id in self.accepted()? {
            if matches_with(&self.facts(&id), tgt, tgt_type, how)? {
                matched.push(id);
            }
        }
        Ok((matched, Vec::new()))
    }

    /// Returns the ids of the accepted minions, sorted.
    fn accepted(&self) -> Result<Vec<Id>, String> {
        let keys = self.store.keys(KeyState::Accepted);
        let keys = keys.map_err(|error| error.to_string())?;
        let ids = keys.map(|key| Ok(key?.id)).collect::<Result<_, Error>>();
        ids.map_err(|error| error.to_string())
    }

    /// Returns whether a minion's key is accepted.
    pub(super) fn is_accepted(&self, id: &Id) -> Result<bool, String> {
        let known = self.store.key(id).map_err(|error| error.to_string())?;
        Ok(known.is_some_and(|known| known.state == KeyState::Accepted))
    }
}

/// Returns the id in a glob without wildcards.
fn plain(glob: &str) -> Option<Id> {
    let is_pattern = glob.contains(['*', '?', '[']);
    (!is_pattern).then(|| glob.parse().ok()).flatten()
}

/// Splits a list into the known minions and the unknown names.
fn listed(tgt: &Value, is_known: impl Fn(&Id) -> Result<bool, String>) -> Result<Matched, String> {
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
        match name.parse() {
            Ok(id) if is_known(&id)? => known.push(id),
            _ => missing.push(name),
        }
    }
    known.sort();
    known.dedup();
    Ok((known, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_known_minions_once_and_tells_the_others() {
        let ids: Vec<Id> = ["a", "b"].iter().filter_map(|id| id.parse().ok()).collect();
        let is_known = |id: &Id| Ok(ids.contains(id));
        let (known, missing) = listed(&"b,x, b,a,c/d".into(), is_known).unwrap();
        assert_eq!(known, ids);
        assert_eq!(missing, ["x", "c/d"]);
    }

    #[test]
    fn an_id_is_no_pattern() {
        assert_eq!(plain("web-1"), "web-1".parse().ok());
        assert_eq!(
            ["web-*", "web-?", "web-[12]", ""].map(plain),
            [const { None }; 4]
        );
    }
}
