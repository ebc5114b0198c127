//! The `minions` wheel function, which lists connections.

use modules::loader::call;
use value::Value;

use crate::jobs::minions::Minions;

/// The full name of the function.
pub(super) const CONNECTED: &str = "minions.connected";

/// Returns the ids of the minions that are connected to this master, or to another one of its cluster.
pub(super) fn connected(minions: &Minions, arg: &[Value]) -> Result<Value, String> {
    let (places, names) = call::split(arg);
    let mut names = names.keys().map(Value::to_text);
    // Salt's clients add names with two underscores to every call.
    if !places.is_empty() || names.any(|name| !name.starts_with("__")) {
        return Err(format!("{CONNECTED}: it takes no arguments"));
    }
    let ids = minions.ids();
    Ok(Value::list(ids.iter().map(|id| id.as_str().into())))
}
