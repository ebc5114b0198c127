//! The option table of `salt-call`.

use super::Takes::{Choice, Many, Nothing, Number, Text};
use super::common::{
    ARGS_STDIN, COMMON, DOC, EXECUTOR_OPTS, FILE_ROOT, HARD_CRASH, LOCAL, LOGGING,
    MODULE_EXECUTORS, NO_PARSE, OUTPUT, OUTPUT_DIFF, PILLAR_ROOT, PROFILING, PROGRESS, RESUME,
    RETURN, SHOW_SECRETS, SKIP_GRAINS, flag,
};
use super::{Flag, Group, Program};

const TARGET_TYPES: &[&str] = &["glob", "list", "compound", "grain", "grain_pcre", "pcre"];

/// The option for folders of state modules.
const STATES_DIR: Flag = flag(
    "states_dir",
    None,
    &["states-dir"],
    Many("DIR"),
    "search DIR for more state modules",
);

/// The option for folders of modules.
const MODULE_DIRS: Flag = flag(
    "module_dirs",
    Some('m'),
    &["module-dirs"],
    Many("DIR"),
    "search DIR for more modules",
);

/// The option for the minion id.
const ID: Flag = flag("id", None, &["id"], Text("ID"), "the minion id to use");

/// The option for the folder of the cache.
const CACHEDIR: Flag = flag(
    "cachedir",
    None,
    &["cachedir"],
    Text("DIR"),
    "keep the cache in DIR",
);

/// The option for hosts that an orchestration reaches.
#[cfg(feature = "daemon")]
const ROSTER_FILE: Flag = flag(
    "roster_file",
    None,
    &["roster-file"],
    Text("FILE"),
    "also run steps of a masterless orchestration on the hosts of this roster",
);

/// The option for the kind of [`ROSTER_FILE`].
#[cfg(feature = "daemon")]
const ROSTER: Flag = flag(
    "roster",
    None,
    &["roster"],
    Text("KIND"),
    "the kind of the roster (default flat)",
);

/// The options of a call that also have an effect on a plan.
pub(super) const PLAN_CALL: Group = Group {
    title: "Options",
    flags: &[
        LOCAL,
        FILE_ROOT,
        PILLAR_ROOT,
        STATES_DIR,
        MODULE_DIRS,
        #[cfg(feature = "daemon")]
        ROSTER_FILE,
        #[cfg(feature = "daemon")]
        ROSTER,
        ID,
        CACHEDIR,
        SKIP_GRAINS,
        NO_PARSE,
    ],
};

/// The options of a call on this machine.
pub(super) const CALL: Group = Group {
    title: "Options",
    flags: &[
        LOCAL,
        FILE_ROOT,
        PILLAR_ROOT,
        STATES_DIR,
        MODULE_DIRS,
        #[cfg(feature = "daemon")]
        ROSTER_FILE,
        #[cfg(feature = "daemon")]
        ROSTER,
        ID,
        flag(
            "master",
            None,
            &["master"],
            Text("HOST"),
            "the master to use",
        ),
        CACHEDIR,
        flag(
            "grains_run",
            Some('g'),
            &["grains"],
            Nothing,
            "show the grains",
        ),
        SKIP_GRAINS,
        flag(
            "refresh_grains_cache",
            None,
            &["refresh-grains-cache"],
            Nothing,
            "refresh the cached grains",
        ),
        DOC,
        ARGS_STDIN,
        NO_PARSE,
        RETURN,
        flag(
            "metadata",
            None,
            &["set-metadata"],
            Text("DATA"),
            "store DATA with the job",
        ),
        flag(
            "print_metadata",
            None,
            &["metadata"],
            Nothing,
            "print the metadata of the call, not only the result",
        ),
        flag(
            "retcode_passthrough",
            None,
            &["retcode-passthrough"],
            Nothing,
            "exit with the return code of the function",
        ),
        OUTPUT_DIFF,
        PROGRESS,
        flag(
            "no_return_event",
            None,
            &["no-return-event"],
            Nothing,
            "do not send the result to the master",
        ),
        flag(
            "auth_timeout",
            Some('t'),
            &["timeout"],
            Number("SECONDS"),
            "maximum time to wait for the master (default 60)",
        ),
        HARD_CRASH,
        MODULE_EXECUTORS,
        EXECUTOR_OPTS,
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
            "target of --resources (default *)",
        ),
        flag(
            "resources_tgt_type",
            None,
            &["tgt-type"],
            Choice("TYPE", TARGET_TYPES),
            "target type of --tgt (default glob)",
        ),
    ],
};

/// The option for runs without the master.
const CACHED: Flag = flag(
    "cached",
    None,
    &["cached"],
    Nothing,
    "apply the files and pillar of the last highstate",
);

/// The option table of `salt-call`.
pub const SALT_CALL: Program = Program {
    name: "salt-call",
    usage: "[options] <function> [arguments]",
    about: "Run a function, states or an orchestration on this machine.",
    groups: &[
        COMMON,
        CALL,
        Group {
            title: "Interrupted runs",
            flags: &[RESUME],
        },
        Group {
            title: "While the master is away",
            flags: &[CACHED],
        },
        OUTPUT,
        Group {
            title: "Secrets",
            flags: &[SHOW_SECRETS],
        },
        PROFILING,
        LOGGING,
    ],
};
