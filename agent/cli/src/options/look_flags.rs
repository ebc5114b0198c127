//! The option tables of the commands that examine something and change nothing.

use super::Takes::{Choice, Many, Nothing, Number, Text};
use super::common::{CONFIG_DIR, FILE_ROOT, HELP, LOCAL, PILLAR_ROOT, YES, flag};
use super::{Group, Program};

/// The formats of a picture.
const PICTURES: &[&str] = &["dot", "mmd", "svg"];

/// The option table of `pinch graph`.
pub const GRAPH: Program = Program {
    name: "pinch graph",
    usage: "[options] (highstate | SLS... | orchestrate ORCH)",
    about: "Draw the states of a run and their requisites, without running them. Earlier states are on the left; the states of an SLS share a frame.",
    groups: &[Group {
        title: "Options",
        flags: &[
            HELP,
            CONFIG_DIR,
            LOCAL,
            FILE_ROOT,
            PILLAR_ROOT,
            flag(
                "output_file",
                Some('o'),
                &["out-file"],
                Text("FILE"),
                "write to FILE, in the format of its extension: .svg, .png (needs rsvg-convert), .dot or .mmd",
            ),
            flag(
                "format",
                None,
                &["format"],
                Choice("FORMAT", PICTURES),
                "dot, mmd (Mermaid) or svg (default dot, on stdout)",
            ),
            flag(
                "run",
                None,
                &["run"],
                Text("JID"),
                "colour the states by their results in a recorded run; last is the last one",
            ),
        ],
    }],
};

/// The option table of `pinch doctor`.
pub const DOCTOR: Program = Program {
    name: "pinch doctor",
    usage: "[options]",
    about: "Check this machine for problems that affect state runs, and show how to fix them. Nothing is changed. Exits 1 if there is a problem.",
    groups: &[Group {
        title: "Options",
        flags: &[
            HELP,
            CONFIG_DIR,
            LOCAL,
            flag(
                "format",
                None,
                &["out", "output", "format"],
                Choice("FORMAT", &["text", "json"]),
                "print text or json (default text)",
            ),
        ],
    }],
};

/// The option table of `pinch migrate`.
pub const MIGRATE: Program = Program {
    name: "pinch migrate",
    usage: "[options] (report [TREE] | compare (highstate | SLS...) | minion)",
    about: "Help to move from Salt to Pinch. `report` shows for each SLS of a tree whether it runs in Pinch unchanged; `compare` runs states with test=True in an installed Salt and in Pinch, and shows where the results differ; `minion` shows what Pinch's minion takes over from Salt's on this machine and what will differ, and with --apply replaces it.",
    groups: &[Group {
        title: "Options",
        flags: &[
            HELP,
            CONFIG_DIR,
            FILE_ROOT,
            PILLAR_ROOT,
            flag(
                "format",
                None,
                &["out", "output", "format"],
                Choice("FORMAT", &["markdown", "json"]),
                "print markdown or json (default markdown)",
            ),
            flag(
                "grains",
                None,
                &["grains"],
                Many("FILE"),
                "report: also check with the grains in FILE, as in pinch lint",
            ),
            flag(
                "salt",
                None,
                &["salt"],
                Text("PROGRAM"),
                "compare: the salt-call of Salt (default the one in PATH)",
            ),
            flag(
                "timeout",
                Some('t'),
                &["timeout"],
                Number("SECONDS"),
                "compare: time limit of each of the two runs (default 600)",
            ),
            flag(
                "apply",
                None,
                &["apply"],
                Nothing,
                "minion: stop salt-minion and start pinch-minion",
            ),
            flag(
                "undo",
                None,
                &["undo"],
                Nothing,
                "minion: undo what --apply has changed",
            ),
            YES,
        ],
    }],
};
