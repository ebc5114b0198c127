//! The state modules of containers: `docker_container`, `docker_image`, `docker_network` and
//! `docker_volume`. Salt 3008 no longer has them; the returns are those of Salt's last versions of
//! them.

pub(crate) mod container;
pub(crate) mod image;
pub(crate) mod network;
mod running;
pub(crate) mod volume;

use state::exec::Exec;
use state::facts::Missing;
use state::module::Ret;
use value::Map;

use crate::exec::docker;

/// Returns what is missing if neither docker nor podman is installed.
fn missing(cx: &Exec, _: &str) -> Option<Missing> {
    let why = docker::program(cx).err()?;
    let reason = format!("'docker' __virtual__ returned False: {why}");
    Some(Missing::Module(reason))
}

/// Returns a result with the comments joined in the same way as in Salt.
fn ret_with_comments(result: Option<bool>, comments: &[String], changes: Map) -> Ret {
    let end = if comments.len() > 1 { "." } else { "" };
    Ret {
        result,
        ..Ret::ok(format!("{}{end}", comments.join(". "))).changes(changes)
    }
}

/// Returns the failure of a watch requisite for a function that does not support it.
fn not_watched(function: Option<&str>) -> Ret {
    let function = function.unwrap_or("None");
    Ret::failed(format!("watch requisite is not implemented for {function}"))
}
