//! Options that several programs share.

use super::Takes::{self, Choice, Many, Nothing, Number, Text};
use super::{Flag, Group};
use crate::log::LEVELS;
use crate::output::{OUTPUTTERS, STATE_OUTPUTS};

/// Returns a row of an option table.
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

/// The option that prints the help.
pub(crate) const HELP: Flag = flag(
    "help",
    Some('h'),
    &["help"],
    Nothing,
    "show this help and exit",
);

/// The option that prints the version.
pub(crate) const SHOW_VERSION: Flag = flag(
    "version",
    None,
    &["version"],
    Nothing,
    "show the version and exit",
);

/// The option that prints the versions of all parts.
pub(crate) const SHOW_VERSIONS: Flag = flag(
    "versions_report",
    Some('V'),
    &["versions-report"],
    Nothing,
    "show the versions of all parts and exit",
);

/// The options of every program.
pub(super) const COMMON: Group = Group {
    title: "Options",
    flags: &[
        HELP,
        SHOW_VERSION,
        SHOW_VERSIONS,
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

/// The options for the output of a result.
pub(super) const OUTPUT: Group = Group {
    title: "Output Options",
    flags: &[
        flag(
            "output",
            None,
            &["out", "output"],
            Choice("OUTPUTTER", OUTPUTTERS),
            "nested, highstate, json, yaml, txt, raw, ...; ndjson streams the events of a run",
        ),
        flag(
            "output_indent",
            None,
            &["out-indent", "output-indent"],
            Number("SPACES"),
            "indent by SPACES; a negative number prints one line",
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
            "append to the output file",
        ),
        flag(
            "no_color",
            None,
            &["no-color", "no-colour"],
            Nothing,
            "disable colours",
        ),
        flag(
            "force_color",
            None,
            &["force-color", "force-colour"],
            Nothing,
            "use colours even if stdout is not a terminal",
        ),
        flag(
            "state_output",
            None,
            &["state-output", "state_output"],
            Choice("MODE", STATE_OUTPUTS),
            "detail per state: full, terse, mixed, changes, filter",
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

/// The options for profiling.
pub(super) const PROFILING: Group = Group {
    title: "Profiling support",
    flags: &[
        flag(
            "profiling_path",
            None,
            &["profiling-path"],
            Text("DIR"),
            "directory for profiles",
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

/// The options for the log.
pub(super) const LOGGING: Group = Group {
    title: "Logging Options",
    flags: &[
        flag(
            "log_level",
            Some('l'),
            &["log-level"],
            Choice("LEVEL", LEVELS),
            "log level on stderr (default warning); known secrets are masked",
        ),
        flag(
            "log_file",
            None,
            &["log-file"],
            Text("FILE"),
            "log file (default: log_file of the configuration)",
        ),
        flag(
            "log_level_logfile",
            None,
            &["log-file-level"],
            Choice("LEVEL", LEVELS),
            "log level of the log file (default warning)",
        ),
    ],
};

/// The option to read more words from stdin.
pub(super) const ARGS_STDIN: Flag = flag(
    "args_stdin",
    None,
    &["args-stdin"],
    Nothing,
    "read more options and arguments from stdin, one per line",
);

/// The option for arguments that are not read as YAML.
pub(super) const NO_PARSE: Flag = flag(
    "no_parse",
    None,
    &["no-parse"],
    Text("NAME,..."),
    "do not parse the values of these arguments as YAML",
);

/// The option to find errors in the program itself.
pub(super) const HARD_CRASH: Flag = flag(
    "hard_crash",
    None,
    &["hard-crash"],
    Nothing,
    "let an internal error crash the program",
);

/// The option to show the documentation.
pub(super) const DOC: Flag = flag(
    "doc",
    Some('d'),
    &["doc", "documentation"],
    Nothing,
    "show the documentation of a function, a module or all",
);

/// The option to skip the grains.
pub(super) const SKIP_GRAINS: Flag = flag(
    "skip_grains",
    None,
    &["skip-grains"],
    Nothing,
    "do not load grains",
);

/// The option for the folder of the configuration.
pub(super) const CONFIG_DIR: Flag = flag(
    "config_dir",
    Some('c'),
    &["config-dir"],
    Text("DIR"),
    "read the configuration from DIR (default /etc/salt)",
);

/// The option for a target that is a regular expression.
pub(super) const PCRE: Flag = flag(
    "pcre",
    Some('E'),
    &["pcre"],
    Nothing,
    "the target is a regular expression for ids",
);

/// The option for a target that is a list.
pub(super) const LIST: Flag = flag(
    "list",
    Some('L'),
    &["list"],
    Nothing,
    "the target is a list of ids, with commas or spaces",
);

/// The option to run without a master.
pub(super) const LOCAL: Flag = flag("local", None, &["local"], Nothing, "run without a master");

/// The option for the folder of the states.
pub(super) const FILE_ROOT: Flag = flag(
    "file_root",
    None,
    &["file-root"],
    Many("DIR"),
    "use DIR as the base file root",
);

/// The option for the folder of the pillar.
pub(super) const PILLAR_ROOT: Flag = flag(
    "pillar_root",
    None,
    &["pillar-root"],
    Many("DIR"),
    "use DIR as the base pillar root",
);

/// The option to resume a run that was interrupted.
pub(super) const RESUME: Flag = flag(
    "resume",
    None,
    &["resume"],
    Nothing,
    "continue the last interrupted run of these (resume=True)",
);

/// The option for returners.
pub(super) const RETURN: Flag = flag(
    "return",
    None,
    &["return"],
    Text("RETURNER"),
    "also send the result to these returners",
);

/// The option to print secrets unmasked.
pub(super) const SHOW_SECRETS: Flag = flag(
    "show_secrets",
    None,
    &["show-secrets"],
    Nothing,
    "print secrets unmasked; logs and records still mask them",
);

/// The option to change something without a question.
pub(super) const YES: Flag = flag(
    "yes",
    Some('y'),
    &["yes"],
    Nothing,
    "do not ask for confirmation",
);

/// The option for the progress of a run on stderr.
pub(super) const PROGRESS: Flag = flag(
    "progress",
    None,
    &["progress"],
    Choice("HOW", &["auto", "plain", "none"]),
    "progress on stderr: auto (live on a terminal, else none), plain, none",
);

/// The option to show only the states that changed something or failed.
pub(super) const OUTPUT_DIFF: Flag = flag(
    "state_output_diff",
    None,
    &["output-diff"],
    Nothing,
    "show only states that changed something or failed",
);

/// The option for executors.
pub(super) const MODULE_EXECUTORS: Flag = flag(
    "module_executors",
    None,
    &["module-executors"],
    Text("LIST"),
    "run functions through these executors",
);

/// The option for the options of the executors.
pub(super) const EXECUTOR_OPTS: Flag = flag(
    "executor_opts",
    None,
    &["executor-opts"],
    Text("DATA"),
    "options for the executors",
);

/// The option for the maximum time to wait for an answer.
pub(super) const TIMEOUT: Flag = flag(
    "timeout",
    Some('t'),
    &["timeout"],
    Number("SECONDS"),
    "maximum time to wait for an answer",
);

/// The option for the user to run as.
pub(super) const USER: Flag = flag("user", Some('u'), &["user"], Text("USER"), "run as USER");

/// The options for external authentication.
pub(super) const EAUTH: Group = Group {
    title: "External Authentication",
    flags: &[
        eauth(Some('a'), &["auth", "eauth", "external-auth"]),
        MAKE_TOKEN,
        USERNAME,
        PASSWORD,
    ],
};

/// Returns the option for the method of authentication. `salt-key` uses its letter and one of its
/// names for another option.
pub(super) const fn eauth(short: Option<char>, long: &'static [&'static str]) -> Flag {
    flag(
        "eauth",
        short,
        long,
        Text("NAME"),
        "log in with this source of external_auth: pam, file, ldap, …",
    )
}

/// The option to make a token.
pub(super) const MAKE_TOKEN: Flag = flag(
    "mktoken",
    Some('T'),
    &["make-token"],
    Nothing,
    "store a token in token_file, for later commands",
);

/// The option for a user's name.
pub(super) const USERNAME: Flag = flag(
    "username",
    None,
    &["username"],
    Text("USER"),
    "user to log in as (asked for if missing)",
);

/// The option for a password.
pub(super) const PASSWORD: Flag = flag(
    "password",
    None,
    &["password"],
    Text("PASSWORD"),
    "password; others on this machine can see it, so that asking is better",
);
