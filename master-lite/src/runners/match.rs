//! The `match` runner of a master, which uses the grains and the pillar of its minions.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{matching, runs};

state::exec_module! {
    /// Match targets.
    mod r#match;

    /// Return whether a compound target matches a minion.
    ///
    ///     salt-run match.compound_matches 'G@os:Debian and web*' web1
    fn compound_matches(CompoundMatches {
        /// The target. Pillar values are compared as a whole, as in Salt.
        expr: Value,
        /// The minion's id.
        minion_id: String,
    });
}

fn compound_matches(cx: &Exec, args: CompoundMatches) -> Result<Value, Error> {
    // A target that cannot be parsed matches no minion, as in Salt.
    let matched = matching(runs(cx)?, &args.expr, "compound_pillar_exact").unwrap_or_default();
    let is_matched = matched.iter().any(|id| id.as_str() == args.minion_id);
    let res = match is_matched {
        true => Value::from(args.minion_id),
        false => Value::from(false),
    };
    Ok(Map::new().with("res", res).into())
}
