//! The option tables of `pinch runs` and `pinch undo`.

use super::Takes::{Many, Nothing, Number};
use super::common::{CONFIG_DIR, HELP, OUTPUT, YES, flag};
use super::{Group, Program};

/// The option table of `pinch runs`.
pub const RUNS: Program = Program {
    name: "pinch runs",
    usage: "[options] (list | show JID | diff JID JID | prune | continue)",
    about: "Show the recorded runs of states and orchestrations on this machine. list prints all runs, show the returns of one; diff shows in which states two of them differ, and exits 2 if they do. prune deletes old runs. continue continues those that waited for a reboot, as the service pinch-continue does at boot. JID is a job id, the beginning of exactly one, or last.",
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
                    "prune: delete all but the last COUNT runs",
                ),
                flag(
                    "days",
                    None,
                    &["days"],
                    Number("DAYS"),
                    "prune: delete runs that began more than DAYS days ago",
                ),
                flag(
                    "force",
                    None,
                    &["force"],
                    Nothing,
                    "prune: also delete interrupted runs that could be resumed",
                ),
            ],
        },
        OUTPUT,
    ],
};

/// The option table of `pinch undo`.
pub const UNDO: Program = Program {
    name: "pinch undo",
    usage: "[options] (JID | last)",
    about: "Undo the changes of a run, the last change first. It shows them and asks for confirmation before. JID is a job id or the beginning of exactly one; last is the last run that was not in test mode. Nothing is undone if something was changed again since the run. Changes that cannot be undone, such as commands, are listed. Exits 0 on success or if there was nothing to undo, 2 if --dry-run finds something to undo, else 1.",
    groups: &[
        Group {
            title: "Options",
            flags: &[
                HELP,
                CONFIG_DIR,
                YES,
                flag(
                    "dry_run",
                    None,
                    &["dry-run"],
                    Nothing,
                    "only show what would be undone",
                ),
                flag(
                    "only",
                    None,
                    &["only"],
                    Many("PATH|ID"),
                    "undo only this: a path with everything below it, or a state id",
                ),
                flag(
                    "except",
                    None,
                    &["except"],
                    Many("PATH|ID"),
                    "do not undo this: a path with everything below it, or a state id",
                ),
            ],
        },
        OUTPUT,
    ],
};
