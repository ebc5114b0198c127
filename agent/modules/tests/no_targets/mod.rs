//! Targets of a test without minions.

use state::exec::Exec;
use state::module::Error;
use state::targets::{MinionReturn, Targets};
use value::{Map, Value};

/// No target matches, and events are dropped.
pub(crate) struct NoTargets;

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
