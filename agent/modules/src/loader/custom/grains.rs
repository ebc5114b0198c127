//! Custom grains: `_grains` of the tree.

use state::custom::Kind;
use state::exec::Exec;
use value::{Map, Value, log};

use super::{CustomModules, returned};
use crate::grains::blocks;

/// Adds the grains of custom modules. Grains of the configuration override all others. A module
/// that fails adds nothing, as in Salt.
pub(super) fn added(custom: &CustomModules, cx: &Exec, built_in: Map) -> Map {
    let opts = cx.opts();
    let modules = custom.index(Kind::Grain).all(custom, cx);
    if modules.is_empty() || opts.flag("skip_grains") {
        return built_in;
    }
    let deep = opts.get("grains_deep_merge").and_then(Value::as_bool) == Some(true);
    let blacklist = opts.texts("grains_blacklist");
    let mut grains = built_in;
    for (file, module) in modules {
        for (full, signature) in module.functions() {
            let mut kwargs = Map::new();
            if signature.args.iter().any(|(name, _)| name == "grains") {
                kwargs.insert("grains", grains.clone());
            }
            let answer = custom.run(cx, &file, &full, Vec::new(), kwargs);
            match answer.and_then(|answer| returned(cx, answer)) {
                Ok(Value::Map(mut part)) => {
                    part.retain(|name, _| !blocks(&blacklist, &name.to_text()));
                    grains = if deep {
                        value::merge::recurse(&grains, &part, false)
                    } else {
                        grains.update(part);
                        grains
                    };
                }
                Ok(_) => {}
                Err(error) => log::write(
                    log::Level::Critical,
                    format_args!(
                        "Failed to load grains defined in grain file {full} in {}, error: {error}",
                        file.path.display()
                    ),
                ),
            }
        }
    }
    if let Some(own) = opts.get("grains").and_then(Value::as_map) {
        grains.update(own.clone());
    }
    grains
}
