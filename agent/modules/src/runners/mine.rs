//! The `mine` runner.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::state_run::orchestrate;

state::exec_module! {
    /// Access the data that minions share. Here it is only this minion's own data.
    mod mine;

    /// Get data of the matching minions from the mine, by minion id.
    ///
    ///     salt-run mine.get 'web*' network.ip_addrs
    fn get(Get {
        /// The target: the minions whose data is wanted.
        tgt: Value,
        /// The functions: one name, several separated by commas, or a list.
        fun: Value,
        /// The type of `tgt`, such as `glob`, `list` or `compound`.
        tgt_type: String = "glob".into(),
    });

    /// Call the functions of `mine_functions` on the matching minions, and store their results.
    ///
    ///     salt-run mine.update 'web*'
    fn update(Update {
        /// The target: the minions that are to update their data.
        tgt: Value,
        /// The type of `tgt`, such as `glob`, `list` or `compound`.
        tgt_type: String = "glob".into(),
        /// Remove all other data of these minions.
        clear: bool = false,
        /// The functions to call instead of those in the configuration.
        mine_functions: Value = Value::Null,
    });
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let kwargs = Map::new().with("tgt_type", args.tgt_type);
    cx.call_internal("mine.get", vec![args.tgt, args.fun], kwargs)
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let ids = orchestrate::targeted(cx, &args.tgt, &args.tgt_type, "function")?;
    let kwargs = Map::new()
        .with("clear", args.clear)
        .with("mine_functions", args.mine_functions);
    let targets = &cx.shared.targets;
    let returns = targets.run(cx, &ids, "mine.update", Vec::new(), kwargs)?;
    Ok(returns
        .into_iter()
        .map(|minion| (minion.id, minion.ret))
        .collect())
}
