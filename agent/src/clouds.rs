//! `salt-cloud`: the connection of the crate `cloud` with the master of this machine.

use std::process::ExitCode;

use cli::failure::Failure;
use value::{Map, Value};

/// Runs `salt-cloud` with the arguments `words`.
///
/// # Errors
/// When the command line or the configuration is wrong.
pub(crate) fn run(words: Vec<String>) -> Result<ExitCode, Failure> {
    cloud::applet::run(words, &on_master)
}

/// Calls a runner on the master of this machine. Returns `None` if none runs.
#[cfg(feature = "master")]
fn on_master(opts: &Map, fun: &str, kwargs: Map) -> Result<Option<Value>, String> {
    use std::ops::ControlFlow;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    let folder = opts.get("sock_dir").map(Value::to_text).unwrap_or_default();
    if UnixStream::connect(Path::new(&folder).join("master.sock")).is_err() {
        return Ok(None);
    }
    let arg = Value::from(kwargs.with("__kwarg__", true));
    let message = Map::new()
        .with("master", "runner")
        .with("fun", fun)
        .with("arg", Value::list([arg]))
        .with("sock_dir", folder);
    let answer = master::master_request(&message, &mut |_| ControlFlow::Continue(()));
    answer.map(Some).map_err(|(_, error)| error)
}

/// This build has no master.
#[cfg(not(feature = "master"))]
fn on_master(_opts: &Map, _fun: &str, _kwargs: Map) -> Result<Option<Value>, String> {
    Ok(None)
}
