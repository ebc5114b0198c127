//! The `doc` runner: the documentation of functions.

use modules::state_run::orchestrate;
use state::exec::Exec;
use state::module::{Error, Module};
use value::{Map, Value};

state::exec_module! {
    /// The documentation of functions.
    mod doc;

    /// Return the documentation of the runners.
    ///
    ///     salt-run doc.runner
    fn runner(Runner {});

    /// Return the documentation of the wheel functions.
    ///
    ///     salt-run doc.wheel
    fn wheel(Wheel {});

    /// Return the documentation of the execution functions of all minions.
    ///
    ///     salt-run doc.execution
    fn execution(Execution {});
}

fn docs(modules: &[Module<Value>]) -> Value {
    let mut docs = Map::new();
    for module in modules {
        for function in module.functions {
            let name = format!("{}.{}", module.name, function.name);
            docs.entry(name, || function.doc.into());
        }
    }
    docs.sort_keys();
    docs.into()
}

fn runner(_cx: &Exec, _args: Runner) -> Result<Value, Error> {
    Ok(docs(super::REGISTRY.runners))
}

fn wheel(_cx: &Exec, _args: Wheel) -> Result<Value, Error> {
    Ok(docs(super::REGISTRY.wheel))
}

fn execution(cx: &Exec, _args: Execution) -> Result<Value, Error> {
    let ids = orchestrate::targeted(cx, &"*".into(), "glob", "function")?;
    let targets = &cx.shared.targets;
    let returns = targets.run(cx, &ids, "sys.doc", Vec::new(), Map::new())?;
    let mut docs = Map::new();
    for told in returns.iter().filter_map(|minion| minion.ret.as_map()) {
        docs.update(told.clone());
    }
    docs.sort_keys();
    Ok(docs.into())
}
