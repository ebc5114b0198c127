//! The uplink of a build without the feature `daemon`: it cannot reach a master.

use state::exec::Registry;
use state::opts::Opts;
use state::sources::Sources;
use state::targets::Targets;
use value::Map;

pub(crate) use state::module::Error;

/// The connection to a master, which this build does not have.
#[derive(Clone, Debug)]
pub(crate) enum Uplink {}

impl Uplink {
    pub(crate) fn hand_over(&self, _jid: &str, _data: Map) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn has_daemon(&self) -> bool {
        match *self {}
    }

    pub(crate) fn leave(_opts: &Opts, _jid: &str, _data: Map) -> Result<(), Error> {
        Err(no_daemon())
    }
}

/// The parts of a context that come from a master.
pub(crate) struct Connected {
    pub(crate) uplink: Uplink,
    pub(crate) sources: Box<dyn Sources>,
    pub(crate) targets: Box<dyn Targets>,
}

/// Fails: a master is only reached through the daemon.
///
/// # Errors
/// Always.
pub(crate) fn connect(_opts: Opts, _is_state: bool) -> Result<(Opts, Connected), Error> {
    Err(no_daemon())
}

/// Fails: this build has no answers of a master.
///
/// # Errors
/// Always.
pub(crate) fn kept(_opts: Opts) -> Result<(Opts, Connected), String> {
    Err(no_daemon().to_string())
}

/// This build keeps nothing of a master.
pub(crate) fn kept_hint(_opts: &Opts) -> Option<String> {
    None
}

fn no_daemon() -> Error {
    "this build of pinch has no minion daemon, and reaches no master: call with --local, or set `file_client: local` in /etc/salt/minion".into()
}

/// Returns whether the master answers.
pub(crate) fn answers(_opts: &Opts) -> bool {
    false
}

/// This build never enrols, so it uses no token.
pub(crate) fn know_token(_opts: &Opts) {}

/// Returns everything that this program can run.
pub(crate) fn registry() -> &'static Registry {
    &modules::REGISTRY
}

/// This build has no ssh.
pub(crate) fn with_hosts(targets: Box<dyn Targets>) -> Box<dyn Targets> {
    targets
}
