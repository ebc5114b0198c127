//! Text to values: the YAML loader and writer, Jinja as Salt has it, and the renderer pipe that joins them.
//!
//! Nothing here reads a file or calls a function by itself: a [`Host`] does.

use std::sync::Arc;

use value::{Map, Value};

mod error;
pub mod gpg;
pub mod jinja;
mod pipe;
mod stateconf;
mod toml;
pub mod yaml;

pub use error::{Error, Kind, Place, sentence};
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

    /// True when there is an execution module of this name.
    fn has_module(&self, _module: &str) -> bool {
        true
    }

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

    /// True when there is a renderer of this name besides the built-in ones.
    fn has_renderer(&self, _name: &str) -> bool {
        false
    }

    /// Renders with it: `input` is a text, or what the renderer before it made.
    ///
    /// # Errors
    /// The sentence that the user sees.
    fn renderer(
        &self,
        name: &str,
        _argline: &str,
        _input: Value,
        _context: &Context,
    ) -> Result<Value, String> {
        Err(format!("The renderer \"{name}\" is not available"))
    }

    /// The filters, tests and globals besides the built-in ones that a template mentions; none where no template can have any.
    fn extensions(&self, _template: &str) -> Option<Vec<(Extension, String)>> {
        None
    }

    /// Calls one of them.
    ///
    /// # Errors
    /// The sentence that the user sees.
    fn extension(
        &self,
        _kind: Extension,
        name: &str,
        _args: Vec<Value>,
        _kwargs: Map,
    ) -> Result<Value, String> {
        Err(format!("{name} is not there"))
    }
}

/// What can be added to Jinja.
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
    /// What the registries of Salt call it.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Filter => "filters",
            Self::Test => "tests",
            Self::Global => "globals",
        }
    }
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
    /// The renderers that may be used.
    pub renderers: Allowed,
    /// Who is told which branches of templates are reached.
    pub reached: Option<Arc<jinja::Reached>>,
}

/// The options `renderer_whitelist` and `renderer_blacklist`.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Those that may be used; all where there are none.
    pub only: Vec<String>,
    /// Those that may not.
    pub refused: Vec<String>,
}

impl Allowed {
    /// Whether a renderer may be used.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|known| known == name);
        !is_in(&self.refused) && (self.only.is_empty() || is_in(&self.only))
    }
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
