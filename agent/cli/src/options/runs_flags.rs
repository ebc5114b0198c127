//! The option tables of `pinch runs` and `pinch undo`.

use super::Takes::{Many, Nothing, Number};
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

/// The option table of `pinch undo`.
pub const UNDO: Program = Program {
    name: "undo",
    usage: "[options] JID | last",
    about: "Take back what a run changed: show what that comes to, ask, and do it, the last change first. Nothing is changed when something has moved since the run. What cannot be undone, such as commands, is named. Exits 0 when it is done or there was nothing to do, 2 when --dry-run finds something to do, else 1.",
    groups: &[
        Group {
            title: "Options",
            flags: &[
                HELP,
                CONFIG_DIR,
                flag("yes", Some('y'), &["yes"], Nothing, "do not ask"),
                flag(
                    "dry_run",
                    None,
                    &["dry-run"],
                    Nothing,
                    "only say what would be done",
                ),
                flag(
                    "only",
                    None,
                    &["only"],
                    Many("PATH|ID"),
                    "undo nothing but this: a path with what is below it, or the id of a state",
                ),
                flag(
                    "except",
                    None,
                    &["except"],
                    Many("PATH|ID"),
                    "leave this as it is: a path with what is below it, or the id of a state",
                ),
            ],
        },
        OUTPUT,
    ],
};
