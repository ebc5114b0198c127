//! The context in which the daemon's engines work: that of a command on this machine, which reaches
//! the master through the daemon.

use std::sync::Arc;

use modules::fileserver::roots::Roots;
use modules::loader::custom::CustomModules;
use modules::loader::engines::{Context, Engines};
use state::exec::Exec;
use state::opts::Opts;
use state::sources::Sources;

use crate::functions::registry;
use crate::job::is_local;
use crate::local_socket::{OfMinion, Uplink};
use crate::sources::OfMaster;

/// Starts the engines of the configuration. The daemon must already listen on its socket.
pub(crate) fn start(opts: &Opts) -> Engines {
    let own = opts.clone();
    let context: Context = Arc::new(move || context(&own));
    Engines::start(opts, &context)
}

fn context(opts: &Opts) -> Exec {
    let uplink = Uplink::here(opts);
    let sources: Box<dyn Sources> = match is_local(opts) {
        true => Box::new(Roots::states(opts)),
        false => Box::new(OfMaster::new(uplink.clone(), opts, None)),
    };
    Exec::with_custom(
        opts.clone(),
        registry(),
        sources,
        Box::new(OfMinion::new(uplink)),
        Box::new(CustomModules::new(opts)),
    )
}
