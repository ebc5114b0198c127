//! The `mine` runner.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::orchestrate;

state::exec_module! {
    /// The data that minions share: here this minion's own.
    mod mine;

    /// Get data from the mine: of the minions that match, by their ids.
    fn get(Get {
        /// Whose data.
        tgt: Value,
        /// One function, several with commas between, or a list.
        fun: Value,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
    });

    /// Call the functions of `mine_functions` on the minions that match, and keep their results.
    fn update(Update {
        /// Which minions.
        tgt: Value,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// Forget all other data.
        clear: bool = false,
        /// Other functions than those of the configuration.
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
