//! Adds details to a plan about packages and services, beyond what their states report.

use state::exec::Exec;
use state::low::LowChunk;
use value::{Map, Value};

use crate::document::Outcome;

/// The maximum number of packages of one state that are looked up.
const PACKAGES_MAX: usize = 500;

/// Returns the versions of the packages that a state would change, or the current state of a
/// service.
pub(crate) fn at(cx: &Exec, low: &LowChunk, ret: &Map) -> Map {
    if Outcome::from_return(Some(ret)) == Outcome::Unchanged || low.options.no_log {
        return Map::new();
    }
    match low.state.as_str() {
        "pkg" => {
            let changes = ret.get("changes").and_then(Value::as_map);
            let names = changes
                .into_iter()
                .flatten()
                .filter_map(|(name, _)| name.as_str());
            let all = names.take(PACKAGES_MAX).map(|name| package(cx, name, ret));
            Map::new().with("packages", Value::list(all))
        }
        "service" => {
            let name = low.name.as_str();
            let service = Map::new()
                .with("name", name)
                .with("running", query(cx, "service.status", name))
                .with("enabled", query(cx, "service.enabled", name));
            Map::new().with("services", Value::list([service.into()]))
        }
        _ => Map::new(),
    }
}

/// Returns the result of a function for a name; null if this machine does not have the function.
fn query(cx: &Exec, fun: &str, name: &str) -> Value {
    let own = cx.apart();
    own.call(fun, vec![name.into()], Map::new())
        .unwrap_or_default()
}

fn package(cx: &Exec, name: &str, ret: &Map) -> Value {
    let own = cx.apart();
    let options = Map::new().with("refresh", false);
    let latest = own.call("pkg.latest_version", vec![name.into()], options);
    let is_version = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| text.starts_with(|first: char| first.is_ascii_digit()))
    };
    let asked = ret
        .get("changes")
        .and_then(|changes| changes.get(name)?.get("new"));
    let then = match asked {
        Some(version) if is_version(version) => version.clone(),
        _ => latest.unwrap_or_default(),
    };
    Map::new()
        .with("name", name)
        .with("now", query(cx, "pkg.version", name))
        .with("then", then)
        .into()
}
