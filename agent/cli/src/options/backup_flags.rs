//! The option tables of `pinch backup` and `pinch restore`.

use super::Takes::Nothing;
use super::common::{CONFIG_DIR, HELP, flag};
use super::{Group, Program};

/// The option table of `pinch backup`.
pub const BACKUP: Program = Program {
    name: "pinch backup",
    usage: "[options] FILE",
    about: "Write the state of the master on this machine to FILE: its keys, the keys of its minions, jobs, returns, events, grains, mine and tokens, and the names of its configuration files. A running master sends one consistent state and continues to work; everything that it acknowledged before is in it. FILE contains the master's private key: only its owner can read it. Exits 0 on success, 64 if the command line is wrong, else 1.",
    groups: &[Group {
        title: "Options",
        flags: &[HELP, CONFIG_DIR],
    }],
};

/// The option table of `pinch restore`.
pub const RESTORE: Program = Program {
    name: "pinch restore",
    usage: "[options] FILE",
    about: "Restore the state of a master from FILE, which `pinch backup` has written. The whole file is checked first. No master may run. Configuration files, state trees and pillars are not in a backup. Exits 0 on success, 64 if the command line is wrong, else 1.",
    groups: &[Group {
        title: "Options",
        flags: &[
            HELP,
            CONFIG_DIR,
            flag(
                "force",
                None,
                &["force"],
                Nothing,
                "move an existing store and existing keys away (NAME.old-TIME) instead of refusing",
            ),
        ],
    }],
};
