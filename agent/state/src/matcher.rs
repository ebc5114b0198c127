//! Matching targets against this minion.

use value::target::{self, Facts};
use value::{Map, Value};

use crate::exec::Exec;
use crate::module::Error;

impl Facts for Exec {
    fn id(&self) -> &str {
        self.opts().id()
    }

    fn grains(&self) -> Map {
        Self::grains(self)
    }

    fn pillar(&self) -> Result<Map, String> {
        Self::pillar(self).map_err(|error| error.to_string())
    }

    fn nodegroups(&self) -> Map {
        self.opts()
            .get("nodegroups")
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default()
    }
}

/// Returns true if this minion matches a target.
///
/// # Errors
/// When the pillar is needed and does not render, or the target type is unknown.
pub fn matches(cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<bool, Error> {
    target::matches(cx, tgt, tgt_type).map_err(Error::refused)
}
