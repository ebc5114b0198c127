//! The option table of `pinch lint`.

use super::Takes::{Choice, Many, Nothing, Text};
use super::common::{HELP, flag};
use super::{Group, Program};

/// The formats of a report.
const FORMATS: &[&str] = &["text", "json", "sarif", "github"];

/// The option table of `pinch lint`.
pub const LINT: Program = Program {
    name: "pinch lint",
    usage: "[options] [TREE | FILE]",
    about: "Check a tree of SLS files without running anything. TREE is the file root, or a folder that contains it as salt or states; a folder pillar in it or next to it, with a top.sls, is the pillar root. With FILE, only the findings in that SLS file are shown. Without TREE, the roots of the configuration are checked. Exits 1 if there is an error or no SLS file.",
    groups: &[Group {
        title: "Options",
        flags: &[
            HELP,
            flag(
                "config_dir",
                Some('c'),
                &["config-dir"],
                Text("DIR"),
                "read the configuration from DIR (default: /etc/salt without TREE, else none)",
            ),
            flag(
                "grains",
                None,
                &["grains"],
                Many("FILE"),
                "also check with the grains in FILE (YAML or JSON), of one machine or of several by id; repeatable",
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
                "exit 1 for warnings too",
            ),
        ],
    }],
};
