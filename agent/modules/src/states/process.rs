//! The `process` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Manage processes that must not run.
    mod process;

    /// Make sure that no process runs whose name or arguments contain a text.
    ///
    ///     firefox:
    ///       process.absent:
    ///         - user: alice
    fn absent(Absent {
        /// The text.
        name: String,
        /// A user. Only the processes of this user are affected.
        user: Option<String> = None,
        /// The number of the signal. Default: 15.
        signal: Option<i64> = None,
    });
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    const NONE: &str = "No matching processes running";
    let kwargs = Map::new().with("user", args.user);
    let call =
        |fun: &str, kwargs: Map| cx.call_internal(fun, vec![args.name.as_str().into()], kwargs);
    if cx.test {
        // In test mode Salt searches only the names of processes.
        let running = call("ps.pgrep", kwargs)?
            .as_list()
            .map_or(0, <[Value]>::len);
        return Ok(Ret::would(match running {
            0 => NONE.to_owned(),
            running => format!("{running} processes will be killed"),
        }));
    }
    let kwargs = kwargs
        .with("full", true)
        .with("signal", args.signal.filter(|one| *one != 0).unwrap_or(15));
    let status = call("ps.pkill", kwargs)?;
    let Some(killed) = status.get("killed").and_then(Value::as_list) else {
        return Ok(Ret::ok(NONE));
    };
    let comment = format!("Killed {} processes", killed.len());
    Ok(Ret::ok(comment).changes(status))
}
