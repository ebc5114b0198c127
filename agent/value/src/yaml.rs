//! The interface of a YAML engine for the command line; the engine itself is in the crate `render`.

use crate::Value;

/// The layout of a written YAML document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct YamlLayout {
    /// The number of spaces per level; `None` is the writer's default.
    pub indent: Option<usize>,
    /// True to write all containers in flow style, in `{}` and `[]`.
    pub flow: bool,
}

/// The reason why a text is not YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YamlFault {
    /// The problem.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
}

/// An engine that reads and writes YAML as Salt does.
pub trait Yaml {
    /// Reads one document; an empty one is Python's `None`.
    ///
    /// # Errors
    /// When the text is not YAML, or is YAML that Salt would not accept.
    fn load(&self, text: &str) -> Result<Value, YamlFault>;

    /// Returns the text of one document.
    fn dump(&self, value: &Value, layout: YamlLayout) -> String;
}
