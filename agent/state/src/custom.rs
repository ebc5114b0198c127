//! [`Custom`]: modules that come with a tree instead of with the program.

use std::path::Path;

use value::{Map, Value};

use crate::exec::Exec;
use crate::module::{Error, Function, Ret};

/// What a custom function takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signature {
    /// The arguments it declares, with their defaults; one without a default must be given.
    pub args: Vec<(String, Option<Value>)>,
    /// Whether it takes more positional arguments (`*args`).
    pub varargs: bool,
    /// Whether it takes any named argument (`**kwargs`).
    pub kwargs: bool,
    /// Its documentation.
    pub doc: String,
}

/// What a custom function is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Execution modules, `_modules`.
    Module,
    /// State modules, `_states`.
    State,
    /// Grains, `_grains`.
    Grain,
    /// Runners, `_runners`.
    Runner,
    /// Wheel modules, `_wheel`.
    Wheel,
    /// Renderers, `_renderers`.
    Renderer,
    /// Returners, `_returners`.
    Returner,
}

/// What a renderer is given.
#[derive(Clone, Debug)]
pub struct Rendering<'a> {
    /// The renderer's name.
    pub name: &'a str,
    /// What stands behind its name in the shebang.
    pub argline: &'a str,
    /// The text, or what the renderer before it made.
    pub input: Value,
    /// The file that is rendered; one that is not there for a text.
    pub path: &'a Path,
    /// Its environment.
    pub saltenv: &'a str,
    /// What templates see: `sls`, `tplfile` and so on.
    pub variables: &'a Map,
}

/// The custom modules of a machine.
pub trait Custom: Send + Sync {
    /// True for a function of a custom module whose file has the module's name: it goes before a built-in one.
    fn replaces(&self, cx: &Exec, full: &str) -> bool;

    /// What a function takes; none when no custom module has it.
    fn signature(&self, cx: &Exec, full: &str) -> Option<Signature>;

    /// Calls a function.
    ///
    /// # Errors
    /// When there is none of the name, its module cannot be loaded, or it fails.
    fn call(&self, cx: &Exec, full: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error>;

    /// All functions of a kind by their full names, sorted.
    fn functions(&self, cx: &Exec, kind: Kind) -> Vec<(String, Signature)>;

    /// Calls a runner, a wheel function or a returner. None when no custom module has it.
    fn call_client(
        &self,
        cx: &Exec,
        kind: Kind,
        full: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Option<Result<Value, Error>>;

    /// True when there is a renderer of this name.
    fn has_renderer(&self, cx: &Exec, name: &str) -> bool;

    /// Renders with a custom renderer.
    ///
    /// # Errors
    /// When it fails.
    fn render(&self, cx: &Exec, rendering: &Rendering<'_>) -> Result<Value, Error>;

    /// What custom modules add to Jinja, as far as a template mentions it: filters, tests, globals. None where they add nothing.
    fn jinja(&self, cx: &Exec, template: &str) -> Option<Vec<(render::Extension, String)>>;

    /// Calls a filter, a test or a global of theirs.
    ///
    /// # Errors
    /// When it fails.
    fn call_jinja(
        &self,
        cx: &Exec,
        kind: render::Extension,
        name: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Value, Error>;

    /// A custom state function; with `named` only one of a file that has the module's name, which goes before a built-in one.
    fn state_function(&self, cx: &Exec, full: &str, named: bool) -> Option<&'static Function<Ret>>;

    /// Calls a custom state function.
    ///
    /// # Errors
    /// When there is none of the name, or it fails.
    fn call_state(&self, cx: &Exec, full: &str, kwargs: Map) -> Result<Ret, Error>;

    /// The grains with those of custom grains modules.
    fn grains(&self, cx: &Exec, built_in: Map) -> Map;

    /// Forgets what was loaded, because the files may have changed.
    fn refresh(&self);
}

/// A machine without custom modules.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCustom;

impl Custom for NoCustom {
    fn replaces(&self, _cx: &Exec, _full: &str) -> bool {
        false
    }

    fn signature(&self, _cx: &Exec, _full: &str) -> Option<Signature> {
        None
    }

    fn call(&self, _cx: &Exec, full: &str, _: Vec<Value>, _: Map) -> Result<Value, Error> {
        Err(Error::not_available(full.to_owned()))
    }

    fn functions(&self, _cx: &Exec, _kind: Kind) -> Vec<(String, Signature)> {
        Vec::new()
    }

    fn call_client(
        &self,
        _: &Exec,
        _: Kind,
        _: &str,
        _: Vec<Value>,
        _: Map,
    ) -> Option<Result<Value, Error>> {
        None
    }

    fn has_renderer(&self, _cx: &Exec, _name: &str) -> bool {
        false
    }

    fn render(&self, _cx: &Exec, rendering: &Rendering<'_>) -> Result<Value, Error> {
        Err(Error::not_available(rendering.name.to_owned()))
    }

    fn jinja(&self, _cx: &Exec, _template: &str) -> Option<Vec<(render::Extension, String)>> {
        None
    }

    fn call_jinja(
        &self,
        _: &Exec,
        _: render::Extension,
        name: &str,
        _: Vec<Value>,
        _: Map,
    ) -> Result<Value, Error> {
        Err(Error::not_available(name.to_owned()))
    }

    fn state_function(&self, _: &Exec, _: &str, _: bool) -> Option<&'static Function<Ret>> {
        None
    }

    fn call_state(&self, _cx: &Exec, full: &str, _kwargs: Map) -> Result<Ret, Error> {
        Err(Error::not_available(full.to_owned()))
    }

    fn grains(&self, _cx: &Exec, built_in: Map) -> Map {
        built_in
    }

    fn refresh(&self) {}
}
