//! A context for tests of this crate: no modules, no files, no events.

use state::exec::{Exec, Registry};
use state::module::Error;
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use state::targets::{MinionReturn, Targets};
use value::{Map, Value};

static REGISTRY: Registry = Registry {
    returners: Vec::new,
    states: &[],
    functions: &[],
    runners: &[],
    wheel: &[],
    pillars: &[],
    missing: |_, _, _| None,
    lacks: |_, _| None,
    grains: |_| Map::new(),
};

struct Nothing;

impl Sources for Nothing {
    fn file(&self, _path: &str, _saltenv: &str) -> Result<Option<SourceFile>, Error> {
        Ok(None)
    }

    fn list(&self, _saltenv: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn environments(&self) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn pillar(&self, _cx: &Exec) -> Result<Map, Error> {
        Ok(Map::new())
    }
}

impl Targets for Nothing {
    fn resolve(&self, _cx: &Exec, _tgt: &Value, _tgt_type: &str) -> Result<Vec<String>, Error> {
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

/// Returns an empty context.
pub(crate) fn exec() -> Exec {
    let opts = Opts::new(Map::new().with("id", "m1"));
    Exec::new(opts, &REGISTRY, Box::new(Nothing), Box::new(Nothing))
}
