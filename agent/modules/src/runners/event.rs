//! The `event` runner.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Fire events.
    mod event;

    /// Fire an event on this machine's bus.
    ///
    ///     salt-run event.send myapp/deployed '{version: 2}'
    fn send(Send {
        /// The tag of the event.
        tag: String,
        /// The data of the event.
        data: Option<Map> = None,
    });
}

fn send(cx: &Exec, args: Send) -> Result<Value, Error> {
    cx.shared
        .targets
        .fire(cx, &args.tag, args.data.unwrap_or_default())?;
    Ok(true.into())
}
