//! The option table of `salt-call`.

use super::Takes::{self, Choice, Many, Nothing, Number, Text};
use super::{Flag, Group, Program};

/// The log levels by name.
const LEVELS: &[&str] = &[
    "all", "debug", "error", "critical", "garbage", "info", "profile", "quiet", "trace", "warning",
];

const TARGET_TYPES: &[&str] = &["glob", "list", "compound", "grain", "grain_pcre", "pcre"];

const fn flag(
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

/// The option table of `salt-call`.
pub const SALT_CALL: Program = Program {
    name: "salt-call",
    usage: "[options] <function> [arguments]",
    about: "Run a function, states or an orchestration on this machine.",
    groups: &[
        Group {
            title: "Options",
            flags: &[
                flag(
                    "help",
                    Some('h'),
                    &["help"],
                    Nothing,
                    "show this help and exit",
                ),
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
                flag(
                    "config_dir",
                    Some('c'),
                    &["config-dir"],
                    Text("DIR"),
                    "read the configuration from DIR (default /etc/salt)",
                ),
                flag(
                    "saltfile",
                    None,
                    &["saltfile"],
                    Text("FILE"),
                    "read more options from FILE",
                ),
                flag("local", None, &["local"], Nothing, "run without a master"),
                flag(
                    "file_root",
                    None,
                    &["file-root"],
                    Many("DIR"),
                    "use DIR as the base file root",
                ),
                flag(
                    "pillar_root",
                    None,
                    &["pillar-root"],
                    Many("DIR"),
                    "use DIR as the base pillar root",
                ),
                flag(
                    "states_dir",
                    None,
                    &["states-dir"],
                    Many("DIR"),
                    "search DIR for more state modules",
                ),
                flag(
                    "module_dirs",
                    Some('m'),
                    &["module-dirs"],
                    Many("DIR"),
                    "search DIR for more modules",
                ),
                flag("id", None, &["id"], Text("ID"), "the minion id to use"),
                flag(
                    "master",
                    None,
                    &["master"],
                    Text("HOST"),
                    "the master to use",
                ),
                flag(
                    "cachedir",
                    None,
                    &["cachedir"],
                    Text("DIR"),
                    "keep the cache in DIR",
                ),
                flag(
                    "grains_run",
                    Some('g'),
                    &["grains"],
                    Nothing,
                    "show the grains",
                ),
                flag(
                    "skip_grains",
                    None,
                    &["skip-grains"],
                    Nothing,
                    "do not load grains",
                ),
                flag(
                    "refresh_grains_cache",
                    None,
                    &["refresh-grains-cache"],
                    Nothing,
                    "collect cached grains anew",
                ),
                flag(
                    "doc",
                    Some('d'),
                    &["doc", "documentation"],
                    Nothing,
                    "show the documentation of a function, a module or all",
                ),
                flag(
                    "args_stdin",
                    None,
                    &["args-stdin"],
                    Nothing,
                    "read more options and arguments from stdin, one a line",
                ),
                flag(
                    "no_parse",
                    None,
                    &["no-parse"],
                    Text("NAME,..."),
                    "take the values of these arguments as plain text",
                ),
                flag(
                    "return",
                    None,
                    &["return"],
                    Text("RETURNER"),
                    "hand the result to these returners as well",
                ),
                flag(
                    "metadata",
                    None,
                    &["set-metadata"],
                    Text("DATA"),
                    "keep DATA with the job",
                ),
                flag(
                    "print_metadata",
                    None,
                    &["metadata"],
                    Nothing,
                    "print all that is known of the call, not only the result",
                ),
                flag(
                    "retcode_passthrough",
                    None,
                    &["retcode-passthrough"],
                    Nothing,
                    "exit with the code of the function",
                ),
                flag(
                    "state_output_diff",
                    None,
                    &["output-diff"],
                    Nothing,
                    "show only states that changed something or failed",
                ),
                flag(
                    "no_return_event",
                    None,
                    &["no-return-event"],
                    Nothing,
                    "do not tell the master of the result",
                ),
                flag(
                    "auth_timeout",
                    Some('t'),
                    &["timeout"],
                    Number("SECONDS"),
                    "how long to wait for the master (default 60)",
                ),
                flag(
                    "hard_crash",
                    None,
                    &["hard-crash"],
                    Nothing,
                    "let an internal error crash the program",
                ),
                flag(
                    "module_executors",
                    None,
                    &["module-executors"],
                    Text("LIST"),
                    "run functions through these executors",
                ),
                flag(
                    "executor_opts",
                    None,
                    &["executor-opts"],
                    Text("DATA"),
                    "options of the executors",
                ),
                flag(
                    "proxyid",
                    None,
                    &["proxyid"],
                    Text("ID"),
                    "the id of a proxy minion",
                ),
                flag("user", None, &["priv"], Text("USER"), "run as USER"),
                flag(
                    "resources_dispatch",
                    Some('r'),
                    &["resources"],
                    Nothing,
                    "run on the managed resources too",
                ),
                flag(
                    "resources_tgt",
                    None,
                    &["tgt"],
                    Text("TGT"),
                    "which resources, with --resources (default *)",
                ),
                flag(
                    "resources_tgt_type",
                    None,
                    &["tgt-type"],
                    Choice("TYPE", TARGET_TYPES),
                    "how --tgt is read (default glob)",
                ),
            ],
        },
        Group {
            title: "Output Options",
            flags: &[
                flag(
                    "output",
                    None,
                    &["out", "output"],
                    Text("OUTPUTTER"),
                    "print with this outputter: nested, highstate, json, yaml, txt, raw, ...",
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
        },
        Group {
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
        },
        Group {
            title: "Logging Options",
            flags: &[
                flag(
                    "log_level",
                    Some('l'),
                    &["log-level"],
                    Choice("LEVEL", LEVELS),
                    "what to log on stderr (default warning); below info it may show secrets",
                ),
                flag(
                    "log_file",
                    None,
                    &["log-file"],
                    Text("FILE"),
                    "the log file (default /var/log/salt/minion)",
                ),
                flag(
                    "log_level_logfile",
                    None,
                    &["log-file-level"],
                    Choice("LEVEL", LEVELS),
                    "what to log in the file (default warning)",
                ),
            ],
        },
    ],
};
