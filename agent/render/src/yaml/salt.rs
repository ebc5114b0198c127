//! [`SaltYaml`]: the YAML engine for the command line.

use value::Value;
use value::yaml::{Yaml, YamlFault, YamlLayout};

use super::{Dump, dump, load};

/// Salt's own loader and writer, for configuration and output.
#[derive(Clone, Copy, Debug)]
pub struct SaltYaml;

impl Yaml for SaltYaml {
    fn load(&self, text: &str) -> Result<Value, YamlFault> {
        load(text).map_err(|error| YamlFault {
            message: error.problem.clone(),
            line: error.line as usize,
            column: error.column as usize,
        })
    }

    fn dump(&self, value: &Value, layout: YamlLayout) -> String {
        let indent = if layout.flow {
            Some(-1)
        } else {
            layout.indent.and_then(|indent| i32::try_from(indent).ok())
        };
        dump(&unshared(value), &Dump::outputter(indent)).unwrap_or_else(|error| error.to_string())
    }
}

/// Returns an equal value in which no container is shared: containers that are shared here by
/// chance must not become anchors.
fn unshared(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::list(items.iter().map(unshared)),
        Value::Tuple(items) => Value::Tuple(items.iter().map(unshared).collect::<Vec<_>>().into()),
        Value::Map(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), unshared(value)))
            .collect(),
        other => other.clone(),
    }
}
