//! The mine: data that minions share, each seen by whom its owner allows.

use value::target::matches;
use value::{Map, Value};
use wire::{Id, MineGet};

use crate::daemon::Master;
use crate::store::Cache;

/// Salt's marks of an entry that not everybody may see.
const LIMITED: &str = "__saltmine_acl__";
const DATA: &str = "__data__";

impl Master {
    /// What a minion may see of the mine, by function and id; the master itself sees all.
    ///
    /// # Errors
    /// When the target makes no sense, or the store cannot be read.
    pub(crate) fn mined(&self, asker: Option<&Id>, asked: &MineGet) -> Result<Map, String> {
        // Pillar of others is matched as a whole and never with a glob: what it holds cannot be guessed letter by letter.
        let tgt_type = match asked.tgt_type.as_str() {
            "pillar" => "pillar_exact",
            "compound" => "compound_pillar_exact",
            other => other,
        };
        let mut found = Map::new();
        for id in self.matching(&asked.tgt, tgt_type, ":")?.0 {
            if asked.exclude_minion && asker == Some(&id) {
                continue;
            }
            let mine = self.store().cached(Cache::Mine, &id);
            let mine = mine.map_err(|error| error.to_string())?.unwrap_or_default();
            for fun in &asked.fun {
                let Some(entry) = mine.get(fun) else { continue };
                if let Some(data) = self.visible(asker, entry)? {
                    let of_fun = found.entry(fun.as_str(), || Map::new().into());
                    if let Value::Map(of_fun) = of_fun {
                        of_fun.insert(id.as_str(), data);
                    }
                }
            }
        }
        Ok(found)
    }

    /// The data of an entry, where the asker may see it.
    fn visible(&self, asker: Option<&Id>, entry: &Value) -> Result<Option<Value>, String> {
        if entry.get(LIMITED).is_none() {
            return Ok(Some(entry.clone()));
        }
        let data = entry.get(DATA).cloned();
        let (Some(asker), Some(allowed)) = (asker, entry.get("allow_tgt")) else {
            return Ok(data);
        };
        let kind = entry.get("allow_tgt_type").map(Value::to_text);
        let nodegroups = self.nodegroups();
        let known = self.known(asker, &nodegroups);
        let is_allowed = matches(&known, allowed, kind.as_deref().unwrap_or("glob"))?;
        Ok(data.filter(|_| is_allowed))
    }
}
