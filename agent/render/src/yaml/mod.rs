//! YAML exactly as Salt reads and writes it.
//!
//! The engine is libyaml, as under Salt's own PyYAML. The steps above it are also the same:
//! `compose` makes nodes from events, `loader` makes values from nodes with the scalar rules of
//! YAML 1.1 (`resolve`, `scalar`), and `dump` writes values.
//!
//! Values do not contain their places. A place is needed only for an error, so [`locate()`] reads the
//! text once more and finds the place by path. This halves the size of a tree of values and keeps
//! clones cheap; an error costs one more pass over one document.
//!
//! serde_yaml uses the same engine, but agrees with Salt on only 202 of 283 documents. This loader
//! agrees on 281; the other two are recursive.
//!
//! Every limit has a name here. Salt has no limits, so such a document can exhaust a machine.

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

/// Loads the only document of a text; `None` if there is no document.
///
/// # Errors
/// PyYAML's message, with its place, or the limit that was exceeded.
pub fn load(text: &str) -> Result<Value, Error> {
    let (graph, root) = compose::compose(text)?;
    root.map_or(Ok(Value::Null), |root| loader::construct(graph, root))
}

/// Loads a document as the yaml renderer does: there an `!!omap` is an ordinary map, and an error
/// if it is a list.
///
/// # Errors
/// As [`load`].
pub fn load_rendered(text: &str) -> Result<Value, Error> {
    let (mut graph, root) = compose::compose(text)?;
    graph.omaps_are_maps();
    root.map_or(Ok(Value::Null), |root| loader::construct(graph, root))
}
