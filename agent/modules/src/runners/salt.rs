//! The `salt` runner.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::orchestrate;

state::exec_module! {
    /// Execution functions as runners.
    mod salt;

    /// Call an execution function here.
    fn cmd(Cmd {
        /// The function.
        fun: String,
        *rest,
        ..kwargs
    });

    /// Call an execution function on what a target names: on this machine, if it does.
    fn execute(Execute {
        /// What runs it.
        tgt: Value,
        /// The function.
        fun: String,
        /// Its arguments by position.
        arg: Vec<Value> = Vec::new(),
        /// Seconds to wait.
        timeout: Option<Value> = None,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// A returner: not supported.
        ret: Value = Value::Null,
        /// A job id.
        jid: Value = Value::Null,
        /// Its arguments by name.
        kwarg: Map = Map::new(),
        ..kwargs
    });
}

fn cmd(cx: &Exec, mut args: Cmd) -> Result<Value, Error> {
    args.kwargs.remove("with_pillar");
    match cx.call(&args.fun, args.rest, args.kwargs) {
        Err(error) if error.is_not_available() => Ok(error.to_string().into()),
        other => other,
    }
}

fn execute(cx: &Exec, args: Execute) -> Result<Value, Error> {
    let mut kwarg = args.kwarg;
    kwarg.update(args.kwargs);
    let ids = orchestrate::targeted(cx, &args.tgt, &args.tgt_type, "function")?;
    let returns = cx
        .shared
        .targets
        .run(cx, &ids, &args.fun, args.arg, kwarg)?;
    Ok(returns
        .into_iter()
        .map(|minion| (minion.id, minion.ret))
        .collect())
}
