//! The `match` runner.

use state::exec::Exec;
use state::matcher;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Match targets.
    mod r#match;

    /// Return whether a compound target matches this minion.
    ///
    ///     salt-run match.compound_matches 'G@os:Debian and web*' web1
    fn compound_matches(CompoundMatches {
        /// The compound target.
        expr: Value,
        /// The id of the minion.
        minion_id: String,
    });
}

fn compound_matches(cx: &Exec, args: CompoundMatches) -> Result<Value, Error> {
    let here = args.minion_id == cx.opts().id();
    let found = here && matcher::matches(cx, &args.expr, "compound")?;
    let res: Value = if found {
        args.minion_id.into()
    } else {
        false.into()
    };
    Ok(Map::new().with("res", res).into())
}
