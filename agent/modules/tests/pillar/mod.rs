//! Compiles pillars for comparisons with Salt.

#[path = "../no_targets/mod.rs"]
mod no_targets;

use modules::fileserver::roots::Roots;
use state::exec::Exec;
use state::opts::Opts;
use state::sources::Sources;
use value::{Map, Value};

use no_targets::NoTargets;

/// Returns the pillar of a configuration.
pub(crate) fn compiled(opts: Map) -> Map {
    let opts = Opts::new(opts);
    let sources = Box::new(Roots::states(&opts));
    let mut cx = Exec::new(
        opts.clone(),
        &modules::REGISTRY,
        sources,
        Box::new(NoTargets),
    );
    cx.pillarenv = opts.text("pillarenv").map(str::to_owned);
    if let Some(grains) = opts.get("grains").and_then(Value::as_map) {
        cx.set_grains(grains.clone());
    }
    Roots::states(&opts).pillar(&cx).unwrap()
}
