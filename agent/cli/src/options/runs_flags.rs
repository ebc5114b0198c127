//! The option table of `pinch runs`.

use super::Takes::{Nothing, Number};
use super::common::{CONFIG_DIR, HELP, OUTPUT, flag};
use super::{Group, Program};

/// The option table of `pinch runs`.
pub const RUNS: Program = Program {
    name: "runs",
    usage: "[options] list | show JID | diff JID JID | prune | continue",
    about: "Say which states and orchestrations ran on this machine: list them, show what one returned, say in which states two of them differ (exits 2 when they do), forget old ones, or go on with those that waited for the machine to reboot, as the service pinch-continue does at boot.",
    groups: &[
        Group {
            title: "Options",
            flags: &[
                HELP,
                CONFIG_DIR,
                flag(
                    "keep",
                    None,
                    &["keep"],
                    Number("COUNT"),
                    "prune: forget all but the last COUNT runs",
                ),
                flag(
                    "days",
                    None,
                    &["days"],
                    Number("DAYS"),
                    "prune: forget runs that began more than DAYS days ago",
                ),
                flag(
                    "force",
                    None,
                    &["force"],
                    Nothing,
                    "prune: forget those too that were cut short and could be taken up again",
                ),
            ],
        },
        OUTPUT,
    ],
};
