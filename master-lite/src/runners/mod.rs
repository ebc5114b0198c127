//! The runners that need a master. A new one is a file here and a line in each of the two lists; a function that stands here goes
//! before the one of that name that needs none.

use std::sync::{Arc, LazyLock};

use state::exec::{Exec, Registry};
use state::module::{Error, Module};
use value::Value;
use value::target::How;
use wire::Id;

use crate::daemon::Master;

mod cache;
mod doc;
mod error;
mod jobs;
mod manage;
mod r#match;
mod mine;
mod pillar;
mod reactor;
mod sdb;
mod survey;
mod token;

const MODULES: &[Module<Value>] = &[
    cache::MODULE,
    doc::MODULE,
    error::MODULE,
    jobs::MODULE,
    manage::MODULE,
    r#match::MODULE,
    mine::MODULE,
    pillar::MODULE,
    reactor::MODULE,
    sdb::MODULE,
    survey::MODULE,
    token::MODULE,
];

/// What a master runs: its own runners, and all that this machine could run without it.
pub(crate) static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry {
    runners: modules::with(MODULES, modules::runners::MODULES),
    ..modules::REGISTRY
});

/// The master whose runner this is.
fn master(cx: &Exec) -> Result<&Arc<Master>, Error> {
    let any = cx.shared.targets.as_any();
    any.and_then(|any| any.downcast_ref())
        .ok_or_else(|| Error::refused("There is no master here.".to_owned()))
}

/// The accepted minions that a target names.
fn matching(master: &Master, tgt: &Value, tgt_type: &str) -> Result<Vec<Id>, Error> {
    let matched = master.matching(tgt, tgt_type, How::default());
    Ok(matched.map_err(Error::refused)?.0)
}

/// The store's word as a runner's.
fn unreadable(error: crate::store::Error) -> Error {
    Error::refused(error.to_string())
}

#[cfg(test)]
mod tests;
