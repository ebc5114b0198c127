//! The settings of connections, from the configuration.

use std::path::PathBuf;
use std::time::Duration;

use state::exec::Exec;
use state::opts::Opts;
use value::{Value, log, trust};

use crate::on_host::GRACE;
use crate::program::{Client, Settings};

/// The maximum length of a folder for sockets: their names have 62 more characters, and the kernel
/// allows 107.
const SOCKETS_MAX: usize = 44;

/// The default of the time to connect, and of the time that a shared connection stays open.
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
    Settings {
        client: Client::find(),
        sockets: sockets(opts),
        persist: seconds("ssh_control_persist", MINUTE),
        timeout: seconds("ssh_timeout", MINUTE),
        grace: (!opts.flag("ssh_detach")).then(|| seconds("ssh_grace", GRACE)),
        key: key(opts),
        options: opts.texts("ssh_options"),
        accepts_unknown: opts.flag("ignore_host_keys"),
        checks_no_keys: opts.flag("no_host_keys"),
    }
}

/// Returns the folder of sockets: the first one that belongs to this user and has a short path.
fn sockets(opts: &Opts) -> Option<PathBuf> {
    let of_user =
        std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("pinch-ssh"));
    let number = format!("pinch-ssh-{}", trust::user());
    let folders = [
        Some(opts.cachedir().join("ssh")),
        of_user,
        Some(PathBuf::from("/run").join(&number)),
        Some(PathBuf::from("/tmp").join(&number)),
    ];
    let is_usable = |folder: &PathBuf| {
        if folder.as_os_str().len() > SOCKETS_MAX {
            return false;
        }
        let made = trust::folder(folder);
        if let Err(error) = &made {
            log::debug(format_args!("no sockets in {}: {error}", folder.display()));
        }
        made.is_ok()
    };
    folders.into_iter().flatten().find(is_usable)
}

/// Returns the path of the key that `--key-deploy` makes: `ssh_priv`, or Salt's.
pub(crate) fn own_key(opts: &Opts) -> PathBuf {
    match opts.text("ssh_priv").filter(|path| !path.is_empty()) {
        Some(path) => path.into(),
        None => opts.path("pki_dir").join("ssh/salt-ssh.rsa"),
    }
}

/// Returns the key of this program, if it was made.
fn key(opts: &Opts) -> Option<PathBuf> {
    let key = own_key(opts);
    key.is_file().then_some(key)
}

/// Returns the maximum number of hosts at a time: `ssh_max_procs`.
pub(crate) fn at_once(cx: &Exec) -> usize {
    let most = cx.opts().int("ssh_max_procs");
    let most = most.and_then(|most| usize::try_from(most).ok());
    most.filter(|most| *most > 0).unwrap_or(AT_ONCE)
}
