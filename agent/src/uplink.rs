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
    let opts = match is_state {
        true => minion::job::with_masters(opts, &uplink)?,
        false => opts,
    };
    let connected = Connected {
        sources: Box::new(OfMaster::new(uplink.clone(), &opts)),
        targets: Box::new(OfMinion::new(uplink.clone())),
        uplink,
    };
    Ok((opts, connected))
}

/// The parts of a context that come from a master.
pub(crate) struct Connected {
    pub(crate) uplink: Uplink,
    pub(crate) sources: Box<dyn Sources>,
    pub(crate) targets: Box<dyn Targets>,
}

/// Returns whether the master answers.
pub(crate) fn answers(opts: &Opts) -> bool {
    minion::job::with_masters(opts.clone(), &Uplink::here(opts)).is_ok()
}
