//! The `match` runner of a master: it knows the grains and the pillar of its minions.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{master, matching};

state::exec_module! {
    /// Targets.
    mod r#match;

    /// Whether a compound target matches a minion.
    fn compound_matches(CompoundMatches {
        /// The target. Values of the pillar are compared as a whole, as in Salt.
        expr: Value,
        /// The minion's id.
        minion_id: String,
    });
}

fn compound_matches(cx: &Exec, args: CompoundMatches) -> Result<Value, Error> {
    // What makes no sense matches nobody, as in Salt.
    let matched = matching(master(cx)?, &args.expr, "compound_pillar_exact").unwrap_or_default();
    let is_matched = matched.iter().any(|id| id.as_str() == args.minion_id);
    let res = match is_matched {
        true => Value::from(args.minion_id),
        false => Value::from(false),
    };
    Ok(Map::new().with("res", res).into())
}
