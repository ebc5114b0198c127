//! The options that apply to runs on other machines.

use state::opts::Opts;
use value::{Map, Value};

/// The mark of a configuration that has sources in `master_tops`.
pub const HAS_TOPS: &str = "__master_tops";

/// The names of the options that apply to runs on other machines.
pub const NAMES: &[&str] = &[
    "state_top",
    "state_top_saltenv",
    "nodegroups",
    "failhard",
    "state_aggregate",
    "state_auto_order",
    "env_order",
    "default_top",
    "top_file_merging_strategy",
    "jinja_env",
    "jinja_sls_env",
    "jinja_lstrip_blocks",
    "jinja_trim_blocks",
    "renderer",
    "yaml_utf8",
];

/// Returns the options of this configuration that apply to runs on other machines.
#[must_use]
pub fn options(opts: &Opts) -> Map {
    let mut taken: Map = NAMES
        .iter()
        .filter_map(|name| Some(((*name).into(), opts.get(name)?.clone())))
        .collect::<Vec<(Value, Value)>>()
        .into_iter()
        .collect();
    if opts.get("master_tops").is_some_and(Value::is_true) {
        taken.insert(HAS_TOPS, true);
    }
    taken
}
