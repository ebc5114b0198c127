//! Options that several programs have.

use super::Takes::{self, Choice, Many, Nothing, Number, Text};
use super::{Flag, Group};

/// The log levels by name.
pub(super) const LEVELS: &[&str] = &[
    "all", "debug", "error", "critical", "garbage", "info", "profile", "quiet", "trace", "warning",
];

/// A row of a table.
pub(super) const fn flag(
    dest: &'static str,
    short: Option<char>,
    long: &'static [&'static str],
    takes: Takes,
    help: &'static str,
) -> Flag {
    Flag {
        dest,
        short,
        long,
        takes,
        help,
    }
}

/// How every program is asked what it takes.
pub(super) const HELP: Flag = flag(
    "help",
    Some('h'),
    &["help"],
    Nothing,
    "show this help and exit",
);

/// What every program has.
pub(super) const COMMON: Group = Group {
    title: "Options",
    flags: &[
        HELP,
        flag(
            "version",
            None,
            &["version"],
            Nothing,
            "show the version and exit",
        ),
        flag(
            "versions_report",
            Some('V'),
            &["versions-report"],
            Nothing,
            "show the versions of all parts and exit",
        ),
        CONFIG_DIR,
        flag(
            "saltfile",
            None,
            &["saltfile"],
            Text("FILE"),
            "read more options from FILE",
        ),
    ],
};

/// How a result is printed.
pub(super) const OUTPUT: Group = Group {
    title: "Output Options",
    flags: &[
        flag(
            "output",
            None,
            &["out", "output"],
            Text("OUTPUTTER"),
            "nested, highstate, json, yaml, txt, raw, ...; of runs: ndjson, each event at once",
        ),
        flag(
            "output_indent",
            None,
            &["out-indent", "output-indent"],
            Number("SPACES"),
            "indent by so many spaces; negative: one line",
        ),
        flag(
            "output_file",
            None,
            &["out-file", "output-file"],
            Text("FILE"),
            "write to FILE instead of stdout",
        ),
        flag(
            "output_file_append",
            None,
            &["out-file-append", "output-file-append"],
            Nothing,
            "write after what is in the file",
        ),
        flag(
            "no_color",
            None,
            &["no-color", "no-colour"],
            Nothing,
            "no colours",
        ),
        flag(
            "force_color",
            None,
            &["force-color", "force-colour"],
            Nothing,
            "colours even into a pipe",
        ),
        flag(
            "state_output",
            None,
            &["state-output", "state_output"],
            Text("MODE"),
            "how much of a state is shown: full, terse, mixed, changes, filter",
        ),
        flag(
            "state_verbose",
            None,
            &["state-verbose", "state_verbose"],
            Text("BOOL"),
            "show states that changed nothing: True or False",
        ),
    ],
};

/// Profiles.
pub(super) const PROFILING: Group = Group {
    title: "Profiling support",
    flags: &[
        flag(
            "profiling_path",
            None,
            &["profiling-path"],
            Text("DIR"),
            "where profiles go",
        ),
        flag(
            "profiling_enabled",
            None,
            &["enable-profiling"],
            Nothing,
            "write a profile",
        ),
    ],
};

/// The log.
pub(super) const LOGGING: Group = Group {
    title: "Logging Options",
    flags: &[
        flag(
            "log_level",
            Some('l'),
            &["log-level"],
            Choice("LEVEL", LEVELS),
            "what to log on stderr (default warning); what is known as a secret is covered",
        ),
        flag(
            "log_file",
            None,
            &["log-file"],
            Text("FILE"),
            "the log file (default: the configuration's log_file)",
        ),
        flag(
            "log_level_logfile",
            None,
            &["log-file-level"],
            Choice("LEVEL", LEVELS),
            "what to log in the file (default warning)",
        ),
    ],
};

/// Words from stdin.
pub(super) const ARGS_STDIN: Flag = flag(
    "args_stdin",
    None,
    &["args-stdin"],
    Nothing,
    "read more options and arguments from stdin, one a line",
);

/// Arguments that are not YAML.
pub(super) const NO_PARSE: Flag = flag(
    "no_parse",
    None,
    &["no-parse"],
    Text("NAME,..."),
    "take the values of these arguments as plain text",
);

/// For those who look for an error of the program.
pub(super) const HARD_CRASH: Flag = flag(
    "hard_crash",
    None,
    &["hard-crash"],
    Nothing,
    "let an internal error crash the program",
);

/// The documentation.
pub(super) const DOC: Flag = flag(
    "doc",
    Some('d'),
    &["doc", "documentation"],
    Nothing,
    "show the documentation of a function, a module or all",
);

/// No grains.
pub(super) const SKIP_GRAINS: Flag = flag(
    "skip_grains",
    None,
    &["skip-grains"],
    Nothing,
    "do not load grains",
);

/// Which folder the configuration lies in.
pub(super) const CONFIG_DIR: Flag = flag(
    "config_dir",
    Some('c'),
    &["config-dir"],
    Text("DIR"),
    "read the configuration from DIR (default /etc/salt)",
);

/// Where states lie.
pub(super) const FILE_ROOT: Flag = flag(
    "file_root",
    None,
    &["file-root"],
    Many("DIR"),
    "use DIR as the base file root",
);

/// Where pillar lies.
pub(super) const PILLAR_ROOT: Flag = flag(
    "pillar_root",
    None,
    &["pillar-root"],
    Many("DIR"),
    "use DIR as the base pillar root",
);

/// Goes on with a run that was cut short.
pub(super) const RESUME: Flag = flag(
    "resume",
    None,
    &["resume"],
    Nothing,
    "go on with the last run of these that was cut short (resume=True)",
);

/// Returners.
pub(super) const RETURN: Flag = flag(
    "return",
    None,
    &["return"],
    Text("RETURNER"),
    "hand the result to these returners as well",
);

/// Secrets as they are.
pub(super) const SHOW_SECRETS: Flag = flag(
    "show_secrets",
    None,
    &["show-secrets"],
    Nothing,
    "print secrets as they are; logs and records have them covered all the same",
);

/// How a run is shown on stderr.
pub(super) const PROGRESS: Flag = flag(
    "progress",
    None,
    &["progress"],
    Choice("HOW", &["auto", "plain", "none"]),
    "on stderr while states run: auto (live on a terminal, else none), plain lines, none",
);

/// Only what changed.
pub(super) const OUTPUT_DIFF: Flag = flag(
    "state_output_diff",
    None,
    &["output-diff"],
    Nothing,
    "show only states that changed something or failed",
);

/// Executors.
pub(super) const MODULE_EXECUTORS: Flag = flag(
    "module_executors",
    None,
    &["module-executors"],
    Text("LIST"),
    "run functions through these executors",
);

/// Their options.
pub(super) const EXECUTOR_OPTS: Flag = flag(
    "executor_opts",
    None,
    &["executor-opts"],
    Text("DATA"),
    "options of the executors",
);

/// How long to wait for what was asked.
pub(super) const TIMEOUT: Flag = flag(
    "timeout",
    Some('t'),
    &["timeout"],
    Number("SECONDS"),
    "how long to wait for an answer",
);

/// Whom to run as.
pub(super) const USER: Flag = flag("user", Some('u'), &["user"], Text("USER"), "run as USER");

/// Who one is to Salt's external authentication, which is not here.
pub(super) const EAUTH: Group = Group {
    title: "External Authentication",
    flags: &[
        eauth(Some('a'), &["auth", "eauth", "external-auth"]),
        MAKE_TOKEN,
        USERNAME,
        PASSWORD,
    ],
};

/// The way of authentication; `salt-key` has another use for the letter and a name.
pub(super) const fn eauth(short: Option<char>, long: &'static [&'static str]) -> Flag {
    flag(
        "eauth",
        short,
        long,
        Text("NAME"),
        "not supported: the master's socket knows who calls",
    )
}

/// A token.
pub(super) const MAKE_TOKEN: Flag = flag(
    "mktoken",
    Some('T'),
    &["make-token"],
    Nothing,
    "not supported",
);

/// A name.
pub(super) const USERNAME: Flag = flag(
    "username",
    None,
    &["username"],
    Text("USER"),
    "not supported",
);

/// A password.
pub(super) const PASSWORD: Flag = flag(
    "password",
    None,
    &["password"],
    Text("PASSWORD"),
    "not supported",
);
