//! The pillar of minions, compiled for the id that a session's key is bound to and for no other id.

use link::{Error, Question};
use modules::served::pillar::Asked;
use smol::lock::Semaphore;
use state::opts::Opts;
use value::{Map, Value, secret};
use wire::{Id, Pillar, Request, Tops, tag};

use super::{Data, minion_cache};
use crate::jobs::minions::Minion;
use crate::store::{Cache, Change};
use crate::unstored;

/// The maximum number of pillars that are compiled at a time.
const AT_ONCE: usize = 4;

/// The compiler of pillars.
#[derive(Debug)]
pub(crate) struct Pillars {
    opts: Opts,
    turns: Semaphore,
}

impl Pillars {
    pub(crate) fn new(opts: &Opts) -> Self {
        Self {
            opts: opts.clone(),
            turns: Semaphore::new(AT_ONCE),
        }
    }

    /// Compiles the pillar of a minion, once it is its turn.
    pub(crate) async fn compile(&self, id: &Id, asked: Pillar) -> Result<Map, String> {
        let asked = Asked {
            id: id.as_str().to_owned(),
            grains: asked.grains,
            saltenv: asked.saltenv,
            pillarenv: asked.pillarenv,
            pillar_override: asked.pillar_override,
        };
        asked.check().map_err(|(_, text)| text)?;
        // No deadline: each compilation before it has limits.
        let _turn = self.turns.acquire().await;
        let opts = self.opts.clone();
        let compiled = smol::unblock(move || asked.compile(&opts)).await;
        compiled.map_err(|error| error.to_string())
    }

    /// Returns the SLS that `master_tops` assigns to a minion, by environment, once it is its turn.
    async fn tops(&self, id: &Id, grains: Map) -> Result<Map, String> {
        let asked = Asked {
            id: id.as_str().to_owned(),
            grains,
            ..Asked::default()
        };
        // No deadline: each compilation before it has limits.
        let _turn = self.turns.acquire().await;
        let opts = self.opts.clone();
        let found = smol::unblock(move || asked.tops(&opts)).await;
        found.map_err(|error| error.to_string())
    }
}

impl Data {
    /// Answers `tops`.
    pub(crate) async fn tops(
        &self,
        minion: &Minion,
        question: Question,
        asked: Tops,
    ) -> Result<(), Error> {
        let grains = self.believed(minion, asked.grains);
        match self.pillars.tops(&minion.id, grains).await {
            Ok(tops) => question.done(tops).await,
            Err(error) => question.fail("failed", error).await,
        }
    }

    /// Answers `pillar`: compiles a minion's pillar, and stores it for targeting.
    pub(crate) async fn pillar(
        &self,
        minion: &Minion,
        question: Question,
        asked: Pillar,
    ) -> Result<(), Error> {
        let pillar = match self.pillar_of(minion, asked).await {
            Ok(pillar) => pillar,
            Err(error) => return question.fail("failed", error).await,
        };
        // Targeting by pillar does not need the secrets.
        let seen = Change::Set(secret::map(pillar.clone()));
        let seen = minion_cache(minion, Cache::Pillar, seen);
        if let Err(error) = self.store.later(seen).await {
            unstored::log(format_args!("the pillar of {}", minion.id), &error);
        }
        self.refreshed(&minion.id).await;
        tell_pillar(question, pillar).await
    }

    /// Compiles a minion's pillar, and adds the values that its key is bound to.
    async fn pillar_of(&self, minion: &Minion, asked: Pillar) -> Result<Map, String> {
        let asked = Pillar {
            grains: self.believed(minion, asked.grains.clone()),
            ..asked
        };
        let mut pillar = self.pillars.compile(&minion.id, asked).await?;
        pillar.update(minion.bound_pillar());
        Ok(pillar)
    }

    /// Fires `minion/refresh/ID` unless `minion_data_cache_events` is off.
    async fn refreshed(&self, id: &Id) {
        let option = self.opts.get("minion_data_cache_events");
        if option.is_none_or(Value::is_true) {
            let data = Map::new().with("Minion data cache refresh", id.as_str());
            self.events.fire(&tag::minion_refresh(id), data).await;
        }
    }
}

/// Sends a pillar. If the minion supports it, marks of the secrets in the pillar are sent first.
async fn tell_pillar(mut question: Question, pillar: Map) -> Result<(), Error> {
    let pillar = Value::Map(pillar);
    let is_asked = matches!(&question.request, Request::Pillar(asked) if asked.secrets);
    let marks = match is_asked {
        true => secret::marks(&pillar),
        false => Value::Null,
    };
    if !marks.is_null() {
        question.data(marks).await?;
    }
    question.done(pillar).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack A10: an environment that leads out of the roots.
    #[test]
    fn a_pillar_of_an_environment_that_is_a_path_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("pillar/__env__").display().to_string();
        let roots = Map::new().with("__env__", Value::list([inside.into()]));
        let pillars = Pillars::new(&Opts::new(Map::new().with("pillar_roots", roots)));
        let id = "m1".parse().unwrap();
        for named in ["../..", "/etc", "a/b", ""] {
            let asked = Pillar {
                saltenv: None,
                pillarenv: Some(named.to_owned()),
                grains: Map::new(),
                pillar_override: Map::new(),
                secrets: false,
            };
            let answer = smol::block_on(pillars.compile(&id, asked));
            assert_eq!(answer, Err(format!("invalid environment {named:?}")));
        }
    }
}
