//! The `salt` runner.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::state_run::orchestrate;

state::exec_module! {
    /// Call execution functions as runners.
    mod salt;

    /// Call an execution function on this machine.
    ///
    ///     salt-run salt.cmd test.ping
    fn cmd(Cmd {
        /// The name of the function.
        fun: String,
        *rest,
        ..kwargs
    });

    /// Call an execution function on the matching minions. Without a master, this machine is the only
    /// minion.
    ///
    ///     salt-run salt.execute 'web*' test.ping
    fn execute(Execute {
        /// The target: the minions that run the function.
        tgt: Value,
        /// The name of the function.
        fun: String,
        /// The positional arguments of the function.
        arg: Vec<Value> = Vec::new(),
        /// Accepted and ignored: the call waits for all minions that run the job.
        timeout: Option<Value> = None,
        /// The type of `tgt`, such as `glob`, `list` or `compound`.
        tgt_type: String = "glob".into(),
        /// The returner. Not supported.
        ret: Value = "".into(),
        /// Accepted and ignored: each call has a new job id.
        jid: Value = "".into(),
        /// The named arguments of the function.
        kwarg: Option<Map> = None,
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
    let mut kwarg = args.kwarg.unwrap_or_default();
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
