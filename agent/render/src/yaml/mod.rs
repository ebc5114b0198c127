//! YAML exactly as Salt reads and writes it.
//!
//! The engine is libyaml, as under Salt's own PyYAML; on top of it stand the same three steps: `compose` makes nodes
//! of events, `loader` makes values of nodes with the scalar rules of YAML 1.1 (`resolve`, `scalar`), and `dump`
//! writes values.
//!
//! Values do not carry their places. Places are needed when something is wrong, so [`locate`] reads the text once
//! more and finds the place by path: a tree of values stays half the size and clones for nothing, and an error costs
//! one more pass over one document.
//!
//! Every limit has a name here; Salt has none and takes a machine down instead.

mod compose;
mod dump;
mod engine;
mod error;
mod loader;
mod locate;
mod resolve;
mod salt;
mod scalar;

use value::Value;

pub use compose::{MAX_BYTES, MAX_DEPTH, MAX_DIRECTIVES, MAX_NODES};
pub use dump::{Dump, DumpError, dump, filter, serialize};
pub use error::{Class, Error, Mark};
pub use loader::MAX_MERGED;
pub use locate::locate;
pub use salt::SaltYaml;

/// Loads the one document of a text; no document is `None`.
///
/// # Errors
/// What PyYAML says, with its place, or the limit that was passed.
pub fn load(text: &str) -> Result<Value, Error> {
    let (graph, root) = compose::compose(text)?;
    root.map_or(Ok(Value::Null), |root| loader::construct(graph, root))
}

/// Loads as the yaml renderer does: there an `!!omap` is an ordinary map, and as a list it is an error.
///
/// # Errors
/// As [`load`].
pub fn load_rendered(text: &str) -> Result<Value, Error> {
    let (mut graph, root) = compose::compose(text)?;
    graph.omaps_are_maps();
    root.map_or(Ok(Value::Null), |root| loader::construct(graph, root))
}
