//! What the command line asks of a YAML engine; the engine is in the crate `render`.

use crate::Value;

/// How a YAML document is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct YamlLayout {
    /// Spaces a level; `None` is the writer's own default.
    pub indent: Option<usize>,
    /// Everything in `{}` and `[]`.
    pub flow: bool,
}

/// Why a text is not YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlFault {
    /// What is wrong.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
}

/// Reads and writes YAML as Salt does.
pub trait Yaml {
    /// Reads one document; an empty one is `None`.
    ///
    /// # Errors
    /// When the text is not YAML, or nothing that Salt would take.
    fn load(&self, text: &str) -> Result<Value, YamlFault>;

    /// Writes one document.
    fn dump(&self, value: &Value, layout: YamlLayout) -> String;
}
