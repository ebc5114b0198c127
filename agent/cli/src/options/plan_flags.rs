//! The option tables of `pinch plan` and `pinch apply`.

use super::Takes::Text;
use super::common::{COMMON, LOGGING, OUTPUT, PROGRESS, YES, flag};
use super::flags::PLAN_CALL;
use super::{Group, Program};

/// The option table of `pinch plan`: the options of `salt-call`, and the file of the plan.
pub const PLAN: Program = Program {
    name: "pinch plan",
    usage: "[options] (highstate | SLS... | orchestrate ORCH) [pillar='{...}'] [saltenv=ENV]",
    about: "Show what a run on this machine, without a master, would change. Nothing is changed. The plan is printed as text, with --out=json as JSON. Exits 0 if there is nothing to do, 2 if something would change, 1 on an error.",
    groups: &[
        Group {
            title: "Plan Options",
            flags: &[flag(
                "plan_file",
                Some('o'),
                &["plan-file"],
                Text("FILE"),
                "write the plan to FILE for pinch apply, readable only by its owner",
            )],
        },
        COMMON,
        PLAN_CALL,
        OUTPUT,
        LOGGING,
    ],
};

/// The option table of `pinch apply`.
pub const APPLY: Program = Program {
    name: "pinch apply",
    usage: "[options] (FILE | highstate | SLS... | orchestrate ORCH)",
    about: "Apply a plan. FILE is the file of a plan, which has its own options. Otherwise it makes a plan, shows it, and asks for confirmation. Nothing is changed if the tree, the pillar, the grains or a target has changed since the plan was made. Exits 0 on success or if there was nothing to do, 1 if the plan was not applied or a state failed.",
    groups: &[
        Group {
            title: "Apply Options",
            flags: &[YES, PROGRESS],
        },
        COMMON,
        PLAN_CALL,
        OUTPUT,
        LOGGING,
    ],
};
