//! Decides what local users and minions may request.

pub(crate) mod guests;
pub(crate) mod peer;
pub(crate) mod publisher_acl;

use std::sync::Arc;

use state::opts::Opts;

use crate::jobs::Jobs;
use crate::refusals::Refusals;

/// The rules of the configuration for users other than root, and for minions.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) opts: Arc<Opts>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) jobs: Jobs,
}
