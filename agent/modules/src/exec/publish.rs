//! The `publish` execution module: what a minion may have done by others, where its master's `peer` lets it.

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Have others do something, where the master lets this minion.
    mod publish;

    /// Call a function on other minions; their returns by id.
    fn publish(Publish {
        /// Which minions.
        tgt: Value,
        /// The function.
        fun: String,
        /// Its arguments: one, a list, or words with commas between them.
        arg: Value = Value::Null,
        /// How `tgt` is meant.
        tgt_type: String = "glob".into(),
        /// Accepted; the returns come here.
        returner: String = "".into(),
        /// For how many seconds to wait.
        timeout: f64 = 5.0,
        /// Accepted: this machine's own master is asked.
        via_master: Value = Value::Null,
    });

    /// The same with all that is known of each return.
    fn full_data(FullData {
        /// Which minions.
        tgt: Value,
        /// The function.
        fun: String,
        /// Its arguments.
        arg: Value = Value::Null,
        /// How `tgt` is meant.
        tgt_type: String = "glob".into(),
        /// Accepted; the returns come here.
        returner: String = "".into(),
        /// For how many seconds to wait.
        timeout: f64 = 5.0,
    });

    /// Call a runner on the master, where its `peer_run` lets this minion.
    fn runner(Runner {
        /// The function.
        fun: String,
        /// Its arguments.
        arg: Value = Value::Null,
        /// Accepted.
        timeout: f64 = 5.0,
    });
}

/// Arguments as they may be given: a list, one value, or words with commas between them.
fn arguments(arg: &Value) -> Vec<Value> {
    match arg {
        Value::Null => Vec::new(),
        Value::Str(words) if words.contains(',') => words.split(',').map(Value::from).collect(),
        Value::List(_) | Value::Tuple(_) => arg.as_list().unwrap_or_default().to_vec(),
        one => vec![one.clone()],
    }
}

fn no_master() -> Error {
    Error::refused(
        "There is no master to ask: start salt-minion, which is connected to one".to_owned(),
    )
}

/// The returns that came.
fn returns(
    cx: &Exec,
    tgt: Value,
    tgt_type: String,
    fun: String,
    arg: &Value,
    timeout: f64,
) -> Result<Vec<Value>, Error> {
    let returns = cx.ask(Ask::Publish {
        tgt,
        tgt_type,
        fun,
        arg: arguments(arg),
        timeout_s: Some(timeout),
    })?;
    let returns = returns.ok_or_else(no_master)?;
    Ok(returns.as_list().unwrap_or_default().to_vec())
}

fn id(data: &Value) -> String {
    data.get("id").map(Value::to_text).unwrap_or_default()
}

fn publish(cx: &Exec, args: Publish) -> Result<Value, Error> {
    let returns = returns(
        cx,
        args.tgt,
        args.tgt_type,
        args.fun,
        &args.arg,
        args.timeout,
    )?;
    let by_id = |data: &Value| (id(data), data.get("return").cloned().unwrap_or_default());
    Ok(returns.iter().map(by_id).collect::<Map>().into())
}

fn full_data(cx: &Exec, args: FullData) -> Result<Value, Error> {
    let returns = returns(
        cx,
        args.tgt,
        args.tgt_type,
        args.fun,
        &args.arg,
        args.timeout,
    )?;
    let shown = |data: &Value| {
        let ret = data.get("return").cloned().unwrap_or_default();
        (id(data), Map::new().with("ret", ret))
    };
    Ok(returns.iter().map(shown).collect::<Map>().into())
}

fn runner(cx: &Exec, args: Runner) -> Result<Value, Error> {
    let arg = arguments(&args.arg);
    let done = cx.ask(Ask::Runner { fun: args.fun, arg })?;
    let done = done.ok_or_else(no_master)?;
    Ok(done.get("return").cloned().unwrap_or_default())
}
