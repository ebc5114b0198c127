//! The option tables of `pinch plan` and `pinch apply`.

use super::Takes::Text;
use super::common::{COMMON, HELP, LOGGING, OUTPUT, PROGRESS, flag};
use super::flags::CALL;
use super::{Group, Program};

/// The option table of `pinch plan`: the options of `salt-call`, and the file of the plan.
pub const PLAN: Program = Program {
    name: "plan",
    usage: "[options] (highstate | SLS... | orchestrate ORCH) [pillar='{...}'] [saltenv=ENV]",
    about: "Say what a run on this machine, without a master, would change, and change nothing. On a terminal the plan is printed for people, else, or with --out=json, as JSON. Exits 0 when there is nothing to do, 2 when something would change, 1 when something is wrong.",
    groups: &[
        Group {
            title: "Plan Options",
            flags: &[flag(
                "plan_file",
                Some('o'),
                &["plan-file"],
                Text("FILE"),
                "keep the plan in FILE, for pinch apply; only its owner may read it",
            )],
        },
        COMMON,
        CALL,
        OUTPUT,
        LOGGING,
    ],
};

/// The option table of `pinch apply`.
pub const APPLY: Program = Program {
    name: "apply",
    usage: "[options] FILE",
    about: "Do what the plan in FILE says, or refuse and change nothing when the tree, the pillar, the grains or a target has moved since it was made. Exits 0 when it is done, 1 when it refused or a state failed.",
    // The plan contains the path of the configuration, so there is no option for it.
    groups: &[
        Group {
            title: "Options",
            flags: &[HELP, PROGRESS],
        },
        OUTPUT,
        LOGGING,
    ],
};
