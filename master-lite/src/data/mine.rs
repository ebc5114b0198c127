//! The mine: data that minions share. Each entry is visible to the minions that its owner allows.

use link::{Error, Question};
use value::target::{MatchOptions, PillarMatch, matches_with};
use value::{Map, Value};
use wire::{Id, MineDelete, MineGet, MinePut};

use super::Data;
use crate::jobs::minions::Minion;
use crate::store::{Cache, Change};

/// Salt's keys in an entry that only some minions may see.
const LIMITED: &str = "__saltmine_acl__";
const DATA: &str = "__data__";

/// Pillar of other minions is compared as a whole, so that a minion cannot guess values letter by
/// letter.
const EXACT: MatchOptions<'static> = MatchOptions {
    delimiter: ":",
    pillar: PillarMatch::Exact,
};

impl Data {
    /// Answers `mine_get`: sends the data that a minion may see.
    pub(crate) async fn mine_get(
        &self,
        minion: &Minion,
        question: Question,
        asked: MineGet,
    ) -> Result<(), Error> {
        let (data, id) = (self.clone(), minion.id.clone());
        match smol::unblock(move || data.mined(Some(&id), &asked)).await {
            Ok(found) => question.done(found).await,
            Err(error) => question.fail("invalid", error).await,
        }
    }

    /// Answers `mine_put`: stores data of a minion.
    pub(crate) async fn mine_put(
        &self,
        minion: &Minion,
        question: Question,
        asked: MinePut,
    ) -> Result<(), Error> {
        let change = match asked.clear {
            true => Change::Set(asked.data),
            false => Change::Update(asked.data),
        };
        self.cache(minion, question, Cache::Mine, change).await
    }

    /// Answers `mine_delete`: removes data of a minion.
    pub(crate) async fn mine_delete(
        &self,
        minion: &Minion,
        question: Question,
        asked: MineDelete,
    ) -> Result<(), Error> {
        let change = asked.fun.map_or(Change::Clear, Change::Without);
        self.cache(minion, question, Cache::Mine, change).await
    }

    /// Returns the mine's data that a minion may see, by function and id. The master itself may see
    /// all.
    ///
    /// # Errors
    /// When the target makes no sense, or the store cannot be read.
    pub(crate) fn mined(&self, asker: Option<&Id>, asked: &MineGet) -> Result<Map, String> {
        let mut found = Map::new();
        for id in self.targets.matching(&asked.tgt, &asked.tgt_type, EXACT)?.0 {
            if asked.exclude_minion && asker == Some(&id) {
                continue;
            }
            let mine = self.store.cached(Cache::Mine, &id);
            let mine = mine.map_err(|error| error.to_string())?.unwrap_or_default();
            for fun in &asked.fun {
                let Some(entry) = mine.get(fun) else { continue };
                if let Some(data) = self.visible(asker, &id, entry) {
                    let of_fun = found.entry(fun.as_str(), || Map::new().into());
                    if let Value::Map(of_fun) = of_fun {
                        of_fun.insert(id.as_str(), data);
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns the data of an entry of `owner` if the asker may see it. An `allow_tgt` that makes
    /// no sense hides its owner's data only.
    fn visible(&self, asker: Option<&Id>, owner: &Id, entry: &Value) -> Option<Value> {
        if entry.get(LIMITED).is_none() {
            return Some(entry.clone());
        }
        let data = entry.get(DATA).cloned();
        let (Some(asker), Some(allowed)) = (asker, entry.get("allow_tgt")) else {
            return data;
        };
        let kind = entry.get("allow_tgt_type").map(Value::to_text);
        let known = self.targets.facts(asker);
        match matches_with(&known, allowed, kind.as_deref().unwrap_or("glob"), EXACT) {
            Ok(is_allowed) => data.filter(|_| is_allowed),
            Err(error) => {
                let why = format!("hiding mine data with an invalid allow_tgt: {error}");
                self.refusals.log(owner.as_str(), why);
                None
            }
        }
    }
}
