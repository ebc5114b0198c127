//! The `firewall` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Check whether other hosts can be reached.
    #[facts(free_arguments = true)]
    mod firewall;

    /// Make sure that a port of a host accepts connections.
    ///
    ///     db.example.com:
    ///       firewall.check:
    ///         - port: 5432
    fn check(Check {
        /// The host.
        name: String,
        /// The port.
        port: Option<i64> = None,
        ..kwargs
    });
}

fn check(cx: &Exec, args: Check) -> Result<Ret, Error> {
    let mut kwargs: Map = args.kwargs;
    let test = kwargs.remove("test");
    if test.map_or(cx.test, |test| test.is_true()) {
        return Ok(Ret::ok("The connection will be tested"));
    }
    let given = vec![args.name.into(), args.port.into()];
    let told = cx.call_internal("network.connect", given, kwargs)?;
    let comment = told.get("comment").map(Value::to_text);
    let comment = comment.unwrap_or_default();
    Ok(match told.get("result").is_some_and(Value::is_true) {
        true => Ret::ok(comment),
        false => Ret::failed(comment),
    })
}
