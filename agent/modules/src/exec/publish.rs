//! The `publish` execution module: runs functions on other minions or on the master, as far as
//! `peer` of the master's configuration allows it.

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Run functions on other minions, if the master allows it to this minion.
    mod publish;

    /// Call a function on other minions and return their results by minion ID.
    ///
    ///     salt-call publish.publish 'web*' network.ip_addrs
    fn publish(Publish {
        /// The target expression that selects minions.
        tgt: Value,
        /// The name of the function.
        fun: String,
        /// The arguments of the function: one value, a list, or a text with commas.
        arg: Value = Value::Null,
        /// The type of the target expression.
        tgt_type: String = "glob".into(),
        /// Accepted and ignored: the results are returned to the caller.
        returner: String = "".into(),
        /// The time in seconds to wait for results.
        timeout: f64 = 5.0,
        /// Accepted and ignored: the request always goes to this minion's own master.
        via_master: Value = Value::Null,
    });

    /// Call a function on other minions and return all data of each return.
    ///
    ///     salt-call publish.full_data 'web*' network.ip_addrs
    fn full_data(FullData {
        /// The target expression that selects minions.
        tgt: Value,
        /// The name of the function.
        fun: String,
        /// The arguments of the function: one value, a list, or a text with commas.
        arg: Value = Value::Null,
        /// The type of the target expression.
        tgt_type: String = "glob".into(),
        /// Accepted and ignored: the results are returned to the caller.
        returner: String = "".into(),
        /// The time in seconds to wait for results.
        timeout: f64 = 5.0,
    });

    /// Call a runner on the master, if its `peer_run` allows it to this minion.
    ///
    ///     salt-call publish.runner manage.up
    fn runner(Runner {
        /// The name of the function.
        fun: String,
        /// The arguments of the function: one value, a list, or a text with commas.
        arg: Value = Value::Null,
        /// Accepted and ignored.
        timeout: f64 = 5.0,
    });
}

/// Returns arguments as a list. They are given as a list, one value, or words separated by commas.
fn arguments(arg: &Value) -> Vec<Value> {
    match arg {
        Value::Null => Vec::new(),
        Value::Str(words) if words.contains(',') => words.split(',').map(Value::from).collect(),
        Value::List(_) | Value::Tuple(_) => arg.as_list().unwrap_or_default().to_vec(),
        one => vec![one.clone()],
    }
}

fn no_master() -> Error {
    Error::refused("No connection to a master: start salt-minion".to_owned())
}

/// Publishes the function and returns the data of the returns.
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
