//! The state modules of RabbitMQ: `rabbitmq_user`, `rabbitmq_vhost` and the others.

pub(crate) mod cluster;
pub(crate) mod plugin;
pub(crate) mod policy;
pub(crate) mod upstream;
pub(crate) mod user;
pub(crate) mod vhost;

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

/// Returns a failure in the form of the RabbitMQ states.
fn failed(why: Error) -> Error {
    Error::refused(format!("Error: {why}"))
}

/// Makes a change and returns its result. The comment is the first text in test mode, and otherwise
/// the second one or the output of the change.
fn done(
    cx: &Exec,
    (would, did): (String, Option<String>),
    (old, new): (&str, &str),
    act: impl FnOnce() -> Result<String, Error>,
) -> Result<Ret, Error> {
    let changes = Map::new().with("old", old).with("new", new);
    let changed = |ret: Ret| ret.changes(Value::from(changes.clone()));
    cx.apply(changed(Ret::would(would)), || {
        let said = act()?;
        Ok(changed(Ret::ok(did.unwrap_or(said))))
    })
}
