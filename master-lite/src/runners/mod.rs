//! The runners that need a master. A new module is a file here and a line in each of the two lists
//! below. A function here replaces the function of the same name that needs no master.

use std::sync::{Arc, LazyLock};

use state::exec::{Exec, Registry};
use state::module::{Error, Module};
use value::Value;
use value::target::MatchOptions;
use wire::Id;

use crate::reactor::{Current, Reactor};
use crate::runs::{Runners, Runs};

mod auth;
mod batch;
mod cache;
mod cluster;
mod doc;
mod error;
mod jobs;
mod manage;
mod r#match;
mod migrate_jobs;
mod mine;
mod minion;
mod period;
mod pillar;
mod reactor;
mod sdb;
mod survey;
mod token;

const MODULES: &[Module<Value>] = &[
    auth::MODULE,
    batch::MODULE,
    cache::MODULE,
    cluster::MODULE,
    doc::MODULE,
    error::MODULE,
    jobs::MODULE,
    manage::MODULE,
    r#match::MODULE,
    mine::MODULE,
    minion::MODULE,
    pillar::MODULE,
    reactor::MODULE,
    sdb::MODULE,
    survey::MODULE,
    token::MODULE,
];

/// The functions that a master can run: its runners, and everything that this machine can run
/// without a master.
pub(crate) static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry {
    runners: modules::with(MODULES, modules::runners::MODULES),
    ..modules::REGISTRY
});

fn runners(cx: &Exec) -> Result<&Runners, Error> {
    let any = cx.shared.targets.as_any();
    any.and_then(|any| any.downcast_ref()).ok_or_else(no_master)
}

fn no_master() -> Error {
    Error::refused("This function needs a master.".to_owned())
}

/// Returns the services of the master that runs this runner.
fn runs(cx: &Exec) -> Result<&Runs, Error> {
    Ok(&runners(cx)?.runs)
}

/// Returns the reactor of the master that runs this runner.
fn reactor_of(cx: &Exec) -> Result<Arc<Reactor>, Error> {
    let current = runners(cx)?.reactor.clone();
    let current = current.downcast::<Current>().map_err(|_| no_master())?;
    current.get().ok_or_else(no_master)
}

/// Returns the accepted minions that match a target.
fn matching(runs: &Runs, tgt: &Value, tgt_type: &str) -> Result<Vec<Id>, Error> {
    let matched = runs
        .jobs
        .targets
        .matching(tgt, tgt_type, MatchOptions::default());
    Ok(matched.map_err(Error::refused)?.0)
}

/// Converts an error of the store to an error of a runner.
fn unreadable(error: crate::store::Error) -> Error {
    Error::refused(error.to_string())
}

#[cfg(test)]
mod tests;
