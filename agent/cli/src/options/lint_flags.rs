//! The option table of `pinch lint`.

use super::Takes::{Choice, Many, Nothing, Text};
use super::common::{HELP, flag};
use super::{Group, Program};

/// The formats of a report.
const FORMATS: &[&str] = &["text", "json", "sarif", "github"];

/// The option table of `pinch lint`.
pub const LINT: Program = Program {
    name: "lint",
    usage: "[options] [TREE]",
    about: "Say what is wrong with a tree of SLS files, without running anything. TREE is the file root, or a folder that holds it as salt or states; a folder pillar in it or beside it, with a top.sls, is the pillar root. Without TREE the roots of the configuration count. Exits 1 when there is an error.",
    groups: &[Group {
        title: "Options",
        flags: &[
            HELP,
            flag(
                "config_dir",
                Some('c'),
                &["config-dir"],
                Text("DIR"),
                "read the configuration from DIR (default /etc/salt where no TREE is named, else none)",
            ),
            flag(
                "grains",
                None,
                &["grains"],
                Many("FILE"),
                "look with the grains in FILE too, YAML or JSON, of one machine or of several by id; may be given again",
            ),
            flag(
                "format",
                None,
                &["format"],
                Choice("FORMAT", FORMATS),
                "print text, json, sarif or github (default text)",
            ),
            flag(
                "strict",
                None,
                &["strict"],
                Nothing,
                "exit 1 when there is a warning too",
            ),
        ],
    }],
};
