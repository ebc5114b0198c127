//! Undoing of changes to services.

use state::exec::Exec;
use state::facts::Inverse;
use state::module::Error;
use value::{Map, Value};

use crate::loader::call::succeed;

/// True if a service starts with the system.
pub(crate) static ENABLED: Inverse = Inverse {
    word: "service enabled",
    owns_files: true,
    now: |cx, name| called(cx, "service.enabled", name),
    can: Inverse::always,
    make: |cx, name, on| {
        let verb = if on.is_true() { "enable" } else { "disable" };
        succeed(cx, &format!("service.{verb}"), name, Map::new())
    },
};

/// True if a service runs.
pub(crate) static RUNNING: Inverse = Inverse {
    word: "service running",
    owns_files: true,
    now: |cx, name| called(cx, "service.status", name).map(|runs| runs.is_true().into()),
    can: Inverse::always,
    make: |cx, name, on| {
        let verb = if on.is_true() { "start" } else { "stop" };
        succeed(cx, &format!("service.{verb}"), name, Map::new())
    },
};

fn called(cx: &Exec, function: &str, name: &str) -> Result<Value, Error> {
    cx.call_internal(function, vec![name.into()], Map::new())
}
