//! Text to values: the YAML loader and writer, Jinja as Salt has it, and the renderer pipe that joins them.
//!
//! Nothing here reads a file or calls a function by itself: a [`Host`] does.

use std::sync::Arc;

use value::{Map, Value};

mod error;
pub mod gpg;
pub mod jinja;
mod pipe;
mod toml;
pub mod yaml;

pub use error::{Error, Kind, Place};
pub use pipe::{Pipe, RENDERERS, Rendered, render};

/// What a template may ask of the run that renders it.
pub trait Host: Send + Sync {
    /// Calls an execution function: `salt['pkg.version']('nginx')`.
    ///
    /// # Errors
    /// The sentence that the user sees.
    fn call(&self, function: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, String>;

    /// True when the execution function is there: `'pkg.version' in salt`.
    fn has_function(&self, function: &str) -> bool;

    /// The source of a template that another one includes or imports: a path below the file roots of `saltenv`, or an absolute one.
    /// `None` when it is not there.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    fn template(&self, name: &str, saltenv: &str) -> Result<Option<Arc<str>>, String>;

    /// The pillar that execution functions have: `pillar.get` returns parts of it that a template can change.
    fn pillar(&self) -> Option<Map> {
        None
    }

    /// Takes that pillar back when a template has changed it.
    fn set_pillar(&self, _: Map) {}
}

/// What a text is rendered with.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// What errors call the text: the path of its file as the user knows it.
    pub name: String,
    /// The environment whose file roots imports are looked up in.
    pub saltenv: String,
    /// The folder of the template below its root (`tpldir`): `./x` is relative to it.
    pub dir: String,
    /// The variables: `grains`, `pillar`, `opts`, `sls`, `slspath`, `tpldir`, `data`, and so on.
    pub variables: Map,
    /// Those of them that all templates of a run share: what one changes the next one sees.
    pub shared: jinja::SharedVariables,
    /// Options of the Jinja environment.
    pub jinja: JinjaOptions,
}

/// The options of `jinja_env`, `jinja_sls_env`, `jinja_trim_blocks`, `jinja_lstrip_blocks` and `allow_undefined`.
#[derive(Clone, Copy, Debug, Default)]
pub struct JinjaOptions {
    /// Drop the first newline after a block tag.
    pub trim_blocks: bool,
    /// Drop the white space before a block tag.
    pub lstrip_blocks: bool,
    /// Let an undefined variable print as nothing instead of failing.
    pub allow_undefined: bool,
}
