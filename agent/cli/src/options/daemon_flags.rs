//! The option tables of the daemons.

use super::Takes::{Nothing, Text};
use super::common::{COMMON, LOGGING, USER, flag};
use super::{Group, Program};

const DAEMON: Group = Group {
    title: "Options",
    flags: &[
        flag(
            "daemon",
            Some('d'),
            &["daemon"],
            Nothing,
            "run in the background",
        ),
        flag(
            "pidfile",
            None,
            &["pid-file"],
            Text("FILE"),
            "write the process id to FILE",
        ),
        flag(
            "disable_keepalive",
            None,
            &["disable-keepalive"],
            Nothing,
            "has no effect: the service manager restarts the daemon",
        ),
        USER,
    ],
};

/// The option table of `salt-master`.
pub const SALT_MASTER: Program = Program {
    name: "salt-master",
    usage: "[options]",
    about: "Serve minions: keys, jobs, files, pillar and events.",
    groups: &[COMMON, DAEMON, LOGGING],
};

/// The option table of `salt-minion`.
pub const SALT_MINION: Program = Program {
    name: "salt-minion",
    usage: "[options]",
    about: "Stay connected to a master and run its jobs.",
    groups: &[COMMON, DAEMON, LOGGING],
};
