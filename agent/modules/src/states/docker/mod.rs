//! The state modules of containers: `docker_container`, `docker_image`, `docker_network` and `docker_volume`. Salt 3008 has them no
//! more; answers are those of its last ones.

pub(crate) mod container;
pub(crate) mod image;
pub(crate) mod network;
mod running;
pub(crate) mod volume;

use state::module::Ret;
use value::Map;

/// A function's answer once its sentences are put together as Salt does.
fn told(result: Option<bool>, comments: &[String], changes: Map) -> Ret {
    let end = if comments.len() > 1 { "." } else { "" };
    Ret {
        result,
        ..Ret::ok(format!("{}{end}", comments.join(". "))).changes(changes)
    }
}

/// What a requisite that is watched cannot bring about.
fn not_watched(function: Option<&str>) -> Ret {
    let function = function.unwrap_or("None");
    Ret::failed(format!("watch requisite is not implemented for {function}"))
}
