//! The option tables of the commands for editors: `pinch lsp` and `pinch schema`.

use super::Takes::{Many, Text};
use super::common::{HELP, flag};
use super::{Group, Program};

/// The option table of `pinch lsp`.
pub const LSP: Program = Program {
    name: "pinch lsp",
    usage: "[options] [TREE]",
    about: "Serve an editor with the Language Server Protocol over stdin and stdout. It shows the findings of lint while you type, completes, documents, and finds definitions. Without TREE, the editor names the folder. Nothing of the tree is run.",
    groups: &[Group {
        title: "Options",
        flags: &[
            HELP,
            flag(
                "config_dir",
                Some('c'),
                &["config-dir"],
                Text("DIR"),
                "read the configuration from DIR, with the roots unless TREE is given",
            ),
            flag(
                "grains",
                None,
                &["grains"],
                Many("FILE"),
                "also check with the grains in FILE (YAML or JSON), of one machine or of several by id; repeatable",
            ),
        ],
    }],
};

/// The option table of `pinch schema`.
pub const SCHEMA: Program = Program {
    name: "pinch schema",
    usage: "[NAME]",
    about: "Print the JSON schema of SLS files or of a JSON output of the program. Without NAME, list the schemas.",
    groups: &[Group {
        title: "Options",
        flags: &[HELP],
    }],
};
