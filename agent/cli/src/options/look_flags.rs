//! The option tables of the commands that examine something and change nothing.

use super::Takes::{Choice, Many, Nothing, Number, Text};
use super::common::{CONFIG_DIR, FILE_ROOT, HELP, PILLAR_ROOT, flag};
use super::{Flag, Group, Program};

const LOCAL: Flag = flag("local", None, &["local"], Nothing, "look without a master");

/// The formats of a picture.
const PICTURES: &[&str] = &["dot", "mmd", "svg"];

/// The option table of `pinch graph`.
pub const GRAPH: Program = Program {
    name: "graph",
    usage: "[options] (highstate | SLS... | orchestrate ORCH)",
    about: "Draw the states of a run and their requisites, without running them. What comes first stands on the left; the states of an SLS stand in one frame.",
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
                "write to FILE; its end says how: .svg, .png (by rsvg-convert), .dot or .mmd",
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
                "colour each state by what came of it in a run that was recorded here",
            ),
        ],
    }],
};

/// The option table of `pinch doctor`.
pub const DOCTOR: Program = Program {
    name: "doctor",
    usage: "[options]",
    about: "Look at what a run needs of this machine, change nothing, and say what to do where something is missing. Exits 1 when there is a problem.",
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
    name: "migrate",
    usage: "[options] (report [TREE] | compare (highstate | SLS...))",
    about: "For who comes from Salt. `report` says of each SLS of a tree whether it runs here as it is; `compare` runs states with test=True by an installed Salt and by Pinch, and says where they differ.",
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
                "report: look with the grains in FILE too, as pinch lint does",
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
                "compare: how long each of the two may take (default 600)",
            ),
        ],
    }],
};
