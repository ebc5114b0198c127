//! The option tables of `salt` and `salt-run`.

use super::Takes::{Float, Nothing, Number, Text};
use super::common::{
    ARGS_STDIN, COMMON, DOC, EAUTH, EXECUTOR_OPTS, HARD_CRASH, LIST, LOGGING, MODULE_EXECUTORS,
    NO_PARSE, OUTPUT, OUTPUT_DIFF, PCRE, PROFILING, PROGRESS, RESUME, RETURN, SKIP_GRAINS, TIMEOUT,
    flag,
};
use super::{Flag, Group, Program};

const ASYNC: Flag = flag(
    "async",
    None,
    &["async"],
    Nothing,
    "start the job, print its id and do not wait",
);

/// The option for a target that is a grain and a glob.
const GRAIN: Flag = flag(
    "grain",
    Some('G'),
    &["grain"],
    Nothing,
    "the target is a grain and a glob: os:Arch*",
);

/// The option for a target that is a grain and a regular expression.
const GRAIN_PCRE: Flag = flag(
    "grain_pcre",
    Some('P'),
    &["grain-pcre"],
    Nothing,
    "the target is a grain and a regular expression: os:Arch.*",
);

/// The option for a target that is a nodegroup.
const NODEGROUP: Flag = flag(
    "nodegroup",
    Some('N'),
    &["nodegroup"],
    Nothing,
    "the target is a nodegroup of the master's configuration",
);

/// The option for a target that is a range expression.
const RANGE: Flag = flag(
    "range",
    Some('R'),
    &["range"],
    Nothing,
    "the target is a range expression: %cluster",
);

/// The option for a target that is the hosts of a roster.
const HOSTS: Flag = flag(
    "list_hosts",
    Some('H'),
    &["hosts"],
    Nothing,
    "not supported: list the hosts of salt-ssh",
);

/// The options for the type of the target. A command line can have only one of them.
pub(super) const TARGETS: Group = Group {
    title: "Target Options",
    flags: &[
        HOSTS,
        PCRE,
        LIST,
        GRAIN,
        GRAIN_PCRE,
        NODEGROUP,
        RANGE,
        flag(
            "compound",
            Some('C'),
            &["compound"],
            Nothing,
            "the target combines types: G@os:RedHat and web* or E@db.*",
        ),
        flag(
            "pillar_target",
            Some('I'),
            &["pillar"],
            Nothing,
            "the target is a pillar key and a glob: role:prod*",
        ),
        flag(
            "pillar_pcre",
            Some('J'),
            &["pillar-pcre"],
            Nothing,
            "the target is a pillar key and a regular expression: role:prod.*",
        ),
        flag(
            "ipcidr",
            Some('S'),
            &["ipcidr"],
            Nothing,
            "the target is an address or a network",
        ),
    ],
};

const MORE_TARGETS: Group = Group {
    title: "Additional Target Options",
    flags: &[flag(
        "delimiter",
        None,
        &["delimiter"],
        Text("TEXT"),
        "delimiter of nested keys in grains and pillar (default :)",
    )],
};

/// The option table of `salt`.
pub const SALT: Program = Program {
    name: "salt",
    usage: "[options] '<target>' <function> [arguments]",
    about: "Run a function on the minions that match a target.",
    groups: &[
        COMMON,
        Group {
            title: "Options",
            flags: &[
                TIMEOUT,
                flag(
                    "static",
                    Some('s'),
                    &["static"],
                    Nothing,
                    "print all returns together after the last one",
                ),
                flag(
                    "progress",
                    Some('p'),
                    &["progress"],
                    Nothing,
                    "show on stderr how many minions have returned",
                ),
                flag(
                    "failhard",
                    None,
                    &["failhard"],
                    Nothing,
                    "stop the batch after the first failure",
                ),
                ASYNC,
                flag(
                    "subset",
                    None,
                    &["subset"],
                    Number("COUNT"),
                    "run on COUNT random minions of those that match",
                ),
                flag(
                    "verbose",
                    Some('v'),
                    &["verbose"],
                    Nothing,
                    "show the job id and the minions that do not answer",
                ),
                flag(
                    "hide_timeout",
                    None,
                    &["hide-timeout"],
                    Nothing,
                    "do not show the minions that do not answer",
                ),
                flag(
                    "show_timeout",
                    None,
                    &["show-timeout"],
                    Nothing,
                    "show the minions that do not answer (the default)",
                ),
                flag("show_jid", None, &["show-jid"], Nothing, "show the job id"),
                flag(
                    "batch",
                    Some('b'),
                    &["batch", "batch-size"],
                    Text("SIZE"),
                    "run on SIZE minions at a time, a number or a percentage",
                ),
                flag(
                    "batch_wait",
                    None,
                    &["batch-wait"],
                    Float("SECONDS"),
                    "wait after each return of a batch before the next minion",
                ),
                flag(
                    "batch_safe_limit",
                    None,
                    &["batch-safe-limit"],
                    Number("COUNT"),
                    "run as a batch if at least COUNT minions match",
                ),
                flag(
                    "batch_safe_size",
                    None,
                    &["batch-safe-size"],
                    Text("SIZE"),
                    "the size of such a batch (default 8)",
                ),
                RETURN,
                flag(
                    "return_config",
                    None,
                    &["return_config"],
                    Text("NAME"),
                    "name of the returner configuration",
                ),
                flag(
                    "return_kwargs",
                    None,
                    &["return_kwargs"],
                    Text("DATA"),
                    "more options for the returners",
                ),
                DOC,
                flag(
                    "args_separator",
                    None,
                    &["args-separator"],
                    Text("TEXT"),
                    "separator of the arguments of several functions (default ,)",
                ),
                flag(
                    "cli_summary",
                    None,
                    &["summary"],
                    Nothing,
                    "print a summary after the returns",
                ),
                flag(
                    "metadata",
                    None,
                    &["metadata"],
                    Text("DATA"),
                    "store DATA with the job",
                ),
                flag(
                    "start_event",
                    None,
                    &["start-event"],
                    Nothing,
                    "let each minion fire an event before it starts",
                ),
                OUTPUT_DIFF,
                flag(
                    "config_dump",
                    None,
                    &["config-dump"],
                    Nothing,
                    "print the master's configuration and exit",
                ),
                flag(
                    "preview_target",
                    None,
                    &["preview-target"],
                    Nothing,
                    "print which minions match and exit",
                ),
                ARGS_STDIN,
                NO_PARSE,
                MODULE_EXECUTORS,
                EXECUTOR_OPTS,
                HARD_CRASH,
            ],
        },
        TARGETS,
        MORE_TARGETS,
        EAUTH,
        OUTPUT,
        LOGGING,
    ],
};

/// The types of targets that `salt-cp` has. A command line can have only one of them.
pub(super) const CP_TARGETS: Group = Group {
    title: "Target Options",
    flags: &[HOSTS, PCRE, LIST, GRAIN, GRAIN_PCRE, NODEGROUP, RANGE],
};

/// The options of `salt-cp` for the files.
pub(super) const CP_FILES: Group = Group {
    title: "File Options",
    flags: &[
        flag(
            "chunked",
            Some('C'),
            &["chunked"],
            Nothing,
            "send files of any size and kind in pieces, and folders; keep modes",
        ),
        flag(
            "no_compression",
            Some('n'),
            &["no-compression"],
            Nothing,
            "has no effect: files are not compressed",
        ),
    ],
};

/// The option table of `salt-cp`. Its `-C` is `--chunked`.
pub const SALT_CP: Program = Program {
    name: "salt-cp",
    usage: "[options] '<target>' SOURCE… DEST",
    about: "Copy files and folders of the master to the minions that match a target.",
    groups: &[
        COMMON,
        Group {
            title: "Options",
            flags: &[TIMEOUT, HARD_CRASH],
        },
        CP_TARGETS,
        MORE_TARGETS,
        OUTPUT,
        CP_FILES,
        LOGGING,
    ],
};

/// The option table of `salt-run`.
pub const SALT_RUN: Program = Program {
    name: "salt-run",
    usage: "[options] <function> [arguments]",
    about: "Run a runner function on the master, such as an orchestration or a query of jobs or minions.",
    groups: &[
        COMMON,
        Group {
            title: "Options",
            flags: &[
                TIMEOUT,
                DOC,
                ASYNC,
                flag("jid", None, &["jid"], Text("JID"), "the job id to use"),
                RESUME,
                PROGRESS,
                SKIP_GRAINS,
                ARGS_STDIN,
                NO_PARSE,
                HARD_CRASH,
            ],
        },
        EAUTH,
        Group {
            title: "Output Options",
            flags: &[flag(
                "quiet",
                None,
                &["quiet"],
                Nothing,
                "do not print the result",
            )],
        },
        OUTPUT,
        PROFILING,
        LOGGING,
    ],
};
