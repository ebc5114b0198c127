//! The `minion` execution module.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::state_run::orchestrate;

state::exec_module! {
    /// Information about the minions of the master on this machine.
    mod minion;

    /// Return the minions whose keys are accepted, pending, rejected or denied, as `salt-key -L`
    /// does.
    ///
    ///     salt-call minion.list
    fn list(List {});
}

fn list(cx: &Exec, _args: List) -> Result<Value, Error> {
    let called = orchestrate::wheel(cx, "key.list_all", Vec::new(), Map::new());
    if called.raised {
        return Err(Error::refused(called.ret.to_text()));
    }
    let all = [
        "minions",
        "minions_pre",
        "minions_rejected",
        "minions_denied",
    ];
    let of = |kind| Some((kind, called.ret.get(kind)?.clone()));
    Ok(all.into_iter().filter_map(of).collect())
}
