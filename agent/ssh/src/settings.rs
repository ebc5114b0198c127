//! The settings of connections, from the configuration.

use std::path::PathBuf;
use std::time::Duration;

use state::exec::Exec;
use state::opts::Opts;
use value::{Value, log, trust};

use crate::on_host::GRACE;
use crate::program::Settings;

/// The maximum length of a folder for sockets: their names have 62 more characters, and the kernel
/// allows 107.
const SOCKETS_MAX: usize = 44;

const MINUTE: Duration = Duration::from_secs(60);
/// The number of hosts at a time without `ssh_max_procs`.
const AT_ONCE: usize = 25;
/// Returns the settings of connections. They are shared if there is a folder for their sockets.
pub(crate) fn of(cx: &Exec) -> Settings {
    let opts = cx.opts();
    let seconds = |name: &str, default: Duration| {
        let given = opts.get(name).and_then(Value::as_float);
        let given = given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        given.unwrap_or(default)
    };
    let sockets = opts.cachedir().join("ssh");
    let mut persist = seconds("ssh_control_persist", MINUTE);
    if sockets.as_os_str().len() > SOCKETS_MAX {
        persist = Duration::ZERO;
    } else if let Err(error) = trust::folder(&sockets) {
        log::debug(format_args!(
            "connections are not shared: cannot use the folder {}: {error}",
            sockets.display()
        ));
        persist = Duration::ZERO;
    }
    Settings {
        sockets,
        persist,
        timeout: seconds("ssh_timeout", MINUTE),
        grace: (!opts.flag("ssh_detach")).then(|| seconds("ssh_grace", GRACE)),
        key: key(opts),
        options: opts.texts("ssh_options"),
        accepts_unknown: opts.flag("ignore_host_keys"),
        checks_no_keys: opts.flag("no_host_keys"),
    }
}

/// Returns Salt's key of the configuration, if there is one.
fn key(opts: &Opts) -> Option<PathBuf> {
    let key = opts.path("pki_dir").join("ssh/salt-ssh.rsa");
    key.is_file().then_some(key)
}

/// Returns the maximum number of hosts at a time: `ssh_max_procs`.
pub(crate) fn at_once(cx: &Exec) -> usize {
    let most = cx.opts().int("ssh_max_procs");
    let most = most.and_then(|most| usize::try_from(most).ok());
    most.filter(|most| *most > 0).unwrap_or(AT_ONCE)
}
