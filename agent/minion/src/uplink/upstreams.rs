//! [`Upstreams`]: all the masters that are served at the same time.

use std::ops::Deref;
use std::sync::Arc;

use link::wait::unblock;
use state::opts::Opts;
use value::{Map, log};
use wire::{Event, Request, Return};

use super::{Handle, Upstream};
use crate::error::Error;
use crate::jobs::Jobs;
use crate::orphans;

/// The upstreams of a daemon; none with `master_type: disable`. Clones are cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upstreams(Arc<[Arc<Upstream>]>);

impl Deref for Upstreams {
    type Target = [Arc<Upstream>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Upstreams {
    /// Opens the upstreams of the configuration. `jobs` are those of the daemon.
    pub(crate) fn open(opts: &Opts, jobs: &Arc<Jobs>) -> Result<Self, Error> {
        Ok(Self(Upstream::all(opts, jobs)?.into()))
    }

    /// Returns the connection to any connected master.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.iter().find_map(|upstream| upstream.handle())
    }

    /// Returns a sentence for a command that needs a master while none is connected: it has the last
    /// problem of each connection.
    pub(crate) fn unreachable(&self) -> String {
        let problems = self.iter().filter_map(|upstream| upstream.problem());
        let problems: Vec<String> = problems.collect();
        match problems.is_empty() {
            true => "this minion is not connected to a master".to_owned(),
            false => format!(
                "this minion is not connected to a master: {}",
                problems.join("; ")
            ),
        }
    }

    /// Returns the grains that the minion's key is bound to: those of the first master that binds
    /// the key to any grains.
    pub(crate) fn bound_grains(&self) -> Map {
        let mut bound = self.iter().map(|upstream| upstream.bound_grains());
        bound.find(|bound| !bound.is_empty()).unwrap_or_default()
    }

    /// Returns the upstreams that are not replaced by another one.
    fn serving(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.iter().filter(|upstream| !upstream.is_replaced())
    }

    /// Returns the upstream that serves in place of one that is replaced; otherwise the same one.
    pub(crate) fn in_place_of<'a>(&'a self, upstream: &'a Arc<Upstream>) -> &'a Arc<Upstream> {
        let mut serving = self.serving();
        let replaces = |one: &&Arc<Upstream>| one.list().is_some();
        match upstream.is_replaced() {
            true => serving.find(replaces).unwrap_or(upstream),
            false => upstream,
        }
    }

    /// Stores an event on disk for every master. Returns true when all of them are stored.
    pub(crate) async fn keep(&self, event: Event) -> bool {
        let mut is_kept = true;
        for upstream in self.serving() {
            is_kept &= upstream.keep(event.clone()).await;
        }
        is_kept
    }

    /// Stores a return on disk for every master.
    pub(crate) async fn keep_return(&self, answer: Return) {
        for upstream in self.serving() {
            upstream.keep_return(answer.clone()).await;
        }
    }

    /// Sends a request to every connected master, because each of them stores its own copy.
    pub(crate) async fn tell(&self, request: &Request) {
        for master in self.iter().filter_map(|upstream| upstream.handle()) {
            let told = async { master.ask(request.clone()).await?.done().await };
            if let Err(error) = told.await {
                log::warning(format_args!(
                    "cannot forward the request to a master: {error}"
                ));
            }
        }
    }

    /// Takes the returns of jobs that outlived their daemon. Every master gets them, because the
    /// one that asked is not known any more.
    pub(crate) async fn adopt(&self, opts: &Opts) {
        let (all, opts) = (self.clone(), opts.clone());
        let adopt = move || {
            let spools = all.serving().map(|upstream| &*upstream.spool);
            orphans::take(&opts, &spools.collect::<Vec<_>>())
        };
        if unblock(adopt).await {
            self.iter().for_each(|upstream| upstream.filled.ring());
        }
    }
}
