//! The master of this machine, which a command reaches through the machine's daemon.

use minion::{OfMaster, OfMinion};
use state::opts::Opts;
use state::sources::Sources;
use state::targets::Targets;

pub(crate) use link::Error;
pub(crate) use minion::{Uplink, know_token, registry};

/// Returns an uplink, the master's files and pillar, and the targets that the master knows. For
/// functions that compile states, the options include those that the master decides.
///
/// # Errors
/// If the function compiles states and the master does not answer.
pub(crate) fn connect(opts: Opts, is_state: bool) -> Result<(Opts, Connected), Error> {
    let uplink = Uplink::here(&opts);
    let options = match is_state {
        true => Some(minion::job::masters_options(&uplink)?),
        false => None,
    };
    let opts = minion::job::with_options(opts, options.clone().unwrap_or_default());
    let sources = Box::new(OfMaster::new(uplink.clone(), &opts, options));
    Ok((opts, Connected::new(uplink, sources)))
}

/// Returns the same without the master, for `--cached`: the files and the pillar of the last
/// highstate.
///
/// # Errors
/// If no highstate is kept.
pub(crate) fn kept(opts: Opts) -> Result<(Opts, Connected), String> {
    let (sources, opts) = OfMaster::kept(opts)?;
    let uplink = Uplink::here(&opts);
    Ok((opts, Connected::new(uplink, Box::new(sources))))
}

/// Returns a hint for a state run that failed because the master does not answer.
pub(crate) fn kept_hint(opts: &Opts) -> Option<String> {
    OfMaster::kept_hint(opts)
}

/// The parts of a context that come from a master.
pub(crate) struct Connected {
    pub(crate) uplink: Uplink,
    pub(crate) sources: Box<dyn Sources>,
    pub(crate) targets: Box<dyn Targets>,
}

impl Connected {
    fn new(uplink: Uplink, sources: Box<dyn Sources>) -> Self {
        Self {
            sources,
            targets: Box::new(OfMinion::new(uplink.clone())),
            uplink,
        }
    }
}

/// Returns whether the master answers.
pub(crate) fn answers(opts: &Opts) -> bool {
    minion::job::masters_options(&Uplink::here(opts)).is_ok()
}

/// Adds the hosts of rosters to the targets of an orchestration.
pub(crate) fn with_hosts(targets: Box<dyn Targets>) -> Box<dyn Targets> {
    Box::new(ssh::Hosts::beside(targets))
}
