//! Compiles pillars for comparisons with Salt.

use modules::fileserver::roots::Roots;
use state::exec::Exec;
use state::module::Error;
use state::opts::Opts;
use state::sources::Sources;
use state::targets::{MinionReturn, Targets};
use value::{Map, Value};

struct NoTargets;

impl Targets for NoTargets {
    fn resolve(&self, _cx: &Exec, _tgt: &Value, _type: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn run(
        &self,
        _cx: &Exec,
        _ids: &[String],
        _fun: &str,
        _args: Vec<Value>,
        _kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        Ok(Vec::new())
    }

    fn fire(&self, _cx: &Exec, _tag: &str, _data: Map) -> Result<(), Error> {
        Ok(())
    }
}

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
