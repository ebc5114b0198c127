//! Decides what users and minions may request, whatever way the request comes.

pub(crate) mod caller;
pub(crate) mod eauth;
pub(crate) mod functions;
mod guests;
pub(crate) mod peer;
pub(crate) mod publisher_acl;
mod rules;

use std::sync::Arc;

use state::opts::Opts;

use crate::jobs::Jobs;
use crate::refusals::Refusals;
use crate::store::Store;

use eauth::Eauth;

/// The rules of the configuration for users other than root, and for minions.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) opts: Arc<Opts>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) jobs: Jobs,
    pub(crate) store: Store,
    pub(crate) eauth: Arc<Eauth>,
}
