//! Renders texts to values: the YAML loader and writer, Salt's Jinja, and the renderer pipe that
//! connects them.
//!
//! Nothing here reads a file or calls a function directly; this crate asks a [`Host`] to do it.

use std::sync::Arc;

use value::{Map, Value};

mod advice;
mod error;
pub mod gpg;
pub mod jinja;
mod pipe;
mod stateconf;
mod toml;
pub mod yaml;

pub use advice::Advice;
pub use error::{Error, Kind, Place, sentence};
pub use pipe::{Pipe, RENDERERS, Rendered, render};

/// The functions of a run that its templates can use.
pub trait Host: Send + Sync {
    /// Calls an execution function: `salt['pkg.version']('nginx')`.
    ///
    /// # Errors
    /// When the function fails, with the message for the user.
    fn call(&self, function: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, String>;

    /// True when the execution function exists: `'pkg.version' in salt`.
    fn has_function(&self, function: &str) -> bool;

    /// True when an execution module of this name exists.
    fn has_module(&self, _module: &str) -> bool {
        true
    }

    /// Returns the source of a template that another one includes or imports: `name` is a path
    /// below the file roots of `saltenv`, or an absolute one. Returns `None` if the template does
    /// not exist.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    fn template(&self, name: &str, saltenv: &str) -> Result<Option<Arc<str>>, String>;

    /// Returns the pillar of the execution functions. `pillar.get` returns parts of it that a
    /// template can change.
    fn pillar(&self) -> Option<Map> {
        None
    }

    /// Replaces that pillar after a template has changed it.
    fn set_pillar(&self, _: Map) {}

    /// True when a renderer of this name exists in addition to the built-in ones.
    fn has_renderer(&self, _name: &str) -> bool {
        false
    }

    /// Renders with such a renderer; `input` is a text, or the result of the renderer before it.
    ///
    /// # Errors
    /// When the renderer fails, with the message for the user.
    fn renderer(
        &self,
        name: &str,
        _argline: &str,
        _input: Value,
        _context: &Context,
    ) -> Result<Value, String> {
        Err(format!("The renderer \"{name}\" is not available"))
    }

    /// Returns the custom filters, tests and globals that a template mentions; `None` if there are
    /// no custom ones for any template.
    fn extensions(&self, _template: &str) -> Option<Vec<(Extension, String)>> {
        None
    }

    /// Calls a custom filter, test or global.
    ///
    /// # Errors
    /// When it fails, with the message for the user.
    fn extension(
        &self,
        _kind: Extension,
        name: &str,
        _args: Vec<Value>,
        _kwargs: Map,
    ) -> Result<Value, String> {
        Err(format!("{name} is not defined"))
    }
}

/// The kinds of extensions of Jinja.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// `value|name(…)`.
    Filter,
    /// `value is name(…)`.
    Test,
    /// `name(…)`, or a value.
    Global,
}

impl Extension {
    /// Returns the plural, as in the registries of Salt.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Filter => "filters",
            Self::Test => "tests",
            Self::Global => "globals",
        }
    }
}

/// The context of a rendering.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The name of the text in errors: the path of its file, as the user knows it.
    pub name: String,
    /// The environment in whose file roots imports are looked up.
    pub saltenv: String,
    /// The folder of the template below its root (`tpldir`): `./x` is relative to it.
    pub dir: String,
    /// The variables: `grains`, `pillar`, `opts`, `sls`, `slspath`, `tpldir`, `data`, and so on.
    pub variables: Map,
    /// The variables of the external pillar `stack`, which imported templates have as well: `__salt__`
    /// and `__stack__` are added to them.
    pub of_stack: Option<Map>,
    /// The variables that all templates of a run share: a change by one template is visible to the
    /// next.
    pub shared: jinja::SharedVariables,
    /// The options of the Jinja environment.
    pub jinja: JinjaOptions,
    /// The renderers that may be used.
    pub renderers: Allowed,
    /// The record of the branches of templates that are reached, if there is one.
    pub reached: Option<Arc<jinja::Reached>>,
}

/// The options `renderer_whitelist` and `renderer_blacklist`.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// The renderers that may be used; if empty, all may.
    pub only: Vec<String>,
    /// The renderers that may not be used.
    pub refused: Vec<String>,
}

impl Allowed {
    /// True when a renderer may be used.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|known| known == name);
        !is_in(&self.refused) && (self.only.is_empty() || is_in(&self.only))
    }
}

/// The options of `jinja_env`, `jinja_sls_env`, `jinja_trim_blocks`, `jinja_lstrip_blocks` and
/// `allow_undefined`.
#[derive(Clone, Copy, Debug, Default)]
pub struct JinjaOptions {
    /// True to drop the first newline after a block tag.
    pub trim_blocks: bool,
    /// True to drop the white space before a block tag.
    pub lstrip_blocks: bool,
    /// True to print an undefined variable as nothing instead of failing.
    pub allow_undefined: bool,
}
