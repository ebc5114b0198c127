//! The data that a master serves to its minions: files, pillar, the mine, and pushed files.

pub(crate) mod cp_push;
pub(crate) mod files;
pub(crate) mod grains;
pub(crate) mod mine;
pub(crate) mod pillar;

use std::sync::Arc;
use std::time::Duration;

use link::{Error, Question};
use modules::served::options::options;
use state::opts::Opts;
use wire::{BOUND_GRAINS, bound_grains};

use crate::events::Events;
use crate::jobs::minions::Minion;
use crate::jobs::targets::Targets;
use crate::refusals::Refusals;
use crate::store::{Applied, Cache, Change, Command, Store};

use files::Files;
use pillar::Pillars;

/// The interval at which the log repeats that a minion's own grain is ignored: a year, so in
/// practice once.
const IGNORED_EVERY: Duration = Duration::from_secs(365 * 24 * 3600);

/// The data of minions, and for them.
#[derive(Clone)]
pub(crate) struct Data {
    opts: Arc<Opts>,
    store: Store,
    events: Events,
    refusals: Arc<Refusals>,
    ignored_grains: Arc<Refusals>,
    targets: Targets,
    pub(crate) files: Files,
    pub(crate) pillars: Arc<Pillars>,
}

impl Data {
    pub(crate) fn new(
        opts: &Arc<Opts>,
        store: &Store,
        events: &Events,
        refusals: &Arc<Refusals>,
        targets: Targets,
    ) -> Self {
        Self {
            opts: opts.clone(),
            store: store.clone(),
            events: events.clone(),
            refusals: refusals.clone(),
            ignored_grains: Arc::new(Refusals::every(IGNORED_EVERY)),
            targets,
            files: Files::new(opts),
            pillars: Arc::new(Pillars::new(opts)),
        }
    }

    /// Answers `options`: sends the options that a minion's runs depend on, and its bound grains.
    pub(crate) async fn options(&self, minion: &Minion, question: Question) -> Result<(), Error> {
        let options = options(&self.opts);
        let bound = bound_grains(&minion.bound);
        question.done(options.with(BOUND_GRAINS, bound)).await
    }

    /// Stores a change of a minion's cache, and answers.
    async fn cache(
        &self,
        minion: &Minion,
        question: Question,
        what: Cache,
        change: Change,
    ) -> Result<(), Error> {
        match self.store.apply(minion_cache(minion, what, change)).await {
            Ok(Applied::Refused(refusal)) => question.fail("refused", refusal.to_string()).await,
            Ok(_) => question.done(true).await,
            Err(error) => question.fail("failed", error.to_string()).await,
        }
    }
}

fn minion_cache(minion: &Minion, what: Cache, change: Change) -> Command {
    Command::Cached {
        id: minion.id.clone(),
        key: minion.key,
        what,
        change,
    }
}
