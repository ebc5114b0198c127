//! The tables of the commands that have few options or none.

use super::common::{CONFIG_DIR, HELP};
use super::{Group, Program};

const ONLY_HELP: &[Group] = &[Group {
    title: "Options",
    flags: &[HELP],
}];

/// The table of `pinch help`.
pub const HELP_COMMAND: Program = Program {
    name: "pinch help",
    usage: "[COMMAND]",
    about: "Show all commands and applets, or the arguments and options of one of them.",
    groups: ONLY_HELP,
};

/// The table of `pinch version`.
pub const VERSION: Program = Program {
    name: "pinch version",
    usage: "",
    about: "Show the version.",
    groups: ONLY_HELP,
};

/// The table of `pinch completion`.
pub const COMPLETION: Program = Program {
    name: "pinch completion",
    usage: "(bash | zsh | fish)",
    about: "Print the completion script of a shell. For bash: pinch completion bash > /etc/bash_completion.d/pinch. For zsh: write it to a file _pinch in a folder of $fpath. For fish: pinch completion fish > ~/.config/fish/completions/pinch.fish.",
    groups: ONLY_HELP,
};

/// The table of `pinch init`.
pub const INIT: Program = Program {
    name: "pinch init",
    usage: "[DIR]",
    about: "Write a first configuration, state and pillar for a machine without a master. Prints the commands to run next. Without DIR the files are /etc/salt/minion, /srv/salt and /srv/pillar, which needs root. With DIR all files are in DIR, including the cache: use it with -c DIR/etc. No file is overwritten: if one exists, nothing is written and the exit status is 73.",
    groups: ONLY_HELP,
};

/// The table of `pinch explain`.
pub const EXPLAIN: Program = Program {
    name: "pinch explain",
    usage: if cfg!(feature = "tree-tools") {
        "[options] (CODE | run (JID | last) STATE)"
    } else {
        "[options] run (JID | last) STATE"
    },
    about: "Explain a lint code, or why a state of a run ran or did not run. For a state it shows the result, the requisites, and the file and line of each argument.",
    groups: &[Group {
        title: "Options",
        flags: &[HELP, CONFIG_DIR],
    }],
};

/// The table of `pinch install-links`.
pub const INSTALL_LINKS: Program = Program {
    name: "pinch install-links",
    usage: "DIR",
    about: "Create a link in DIR for each applet, to call it by its own name. Nothing is replaced: if a path exists and is not such a link, this is an error.",
    groups: ONLY_HELP,
};

/// The table of `pinch install-python`.
pub const INSTALL_PYTHON: Program = Program {
    name: "pinch install-python",
    usage: "DIR",
    about: "Install a Python package salt in DIR, with salt.client, salt.config and salt.output. DIR is a folder of Python's path.",
    groups: ONLY_HELP,
};

/// The table of `pinch answer`.
pub const ANSWER: Program = Program {
    name: "pinch answer",
    usage: "",
    about: "Answer the JSON requests of the Python package salt on stdin. That package starts this command.",
    groups: ONLY_HELP,
};
