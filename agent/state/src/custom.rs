//! [`Custom`]: modules that are files of a Salt tree, not part of the program.

use std::path::Path;

use value::{Map, Value};

use crate::exec::Exec;
use crate::module::{Error, Function, Ret};

/// The arguments and the documentation of a custom function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signature {
    /// The arguments it declares, with their defaults. An argument without a default is required.
    pub args: Vec<(String, Option<Value>)>,
    /// True if it accepts more positional arguments (`*args`).
    pub varargs: bool,
    /// True if it accepts any keyword argument (`**kwargs`).
    pub kwargs: bool,
    /// Its documentation.
    pub doc: String,
}

/// The kind of a custom module.
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
    /// External pillars, `_pillar`.
    Pillar,
    /// Stores of values behind `sdb://` URIs, `_sdb`.
    Sdb,
    /// Rosters of hosts without an agent, `_roster`.
    Roster,
    /// Engines of a daemon, `_engines`.
    Engine,
    /// Sources of top file data, `_tops`.
    Top,
    /// Sources of users and passwords, `_auth`.
    Auth,
    /// Drivers of clouds, `_clouds`.
    Cloud,
}

/// The input of a custom renderer.
#[derive(Clone, Debug)]
pub struct Rendering<'a> {
    /// The renderer's name.
    pub name: &'a str,
    /// The text after the renderer's name in the shebang.
    pub argline: &'a str,
    /// The text of the file, or the output of the renderer before it in the pipe.
    pub input: Value,
    /// The path of the rendered file. It names no existing file if a bare text is rendered.
    pub path: &'a Path,
    /// The environment of the file.
    pub saltenv: &'a str,
    /// The variables of templates: `sls`, `tplfile` and so on.
    pub variables: &'a Map,
}

/// The custom modules of a machine.
pub trait Custom: Send + Sync {
    /// Returns true if a custom module provides this function and its file has the module's name:
    /// such a function replaces a built-in one.
    fn replaces(&self, cx: &Exec, full: &str) -> bool;

    /// Returns the signature of a function; `None` if no custom module has the function.
    fn signature(&self, cx: &Exec, full: &str) -> Option<Signature>;

    /// Calls a function.
    ///
    /// # Errors
    /// When there is no function of that name, its module cannot be loaded, or it fails.
    fn call(&self, cx: &Exec, full: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, Error>;

    /// Returns all functions of a kind by their full names, sorted.
    fn functions(&self, cx: &Exec, kind: Kind) -> Vec<(String, Signature)>;

    /// Returns whether a custom module's file has this name: such a module goes before a built-in
    /// one. Nothing is loaded.
    fn has_file(&self, kind: Kind, name: &str) -> bool;

    /// Calls a function that the program itself looks up: a runner, a returner, an external pillar
    /// and so on. Returns `None` if no custom module has it.
    fn call_client(
        &self,
        cx: &Exec,
        kind: Kind,
        full: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Option<Result<Value, Error>>;

    /// Returns true if there is a custom renderer of this name.
    fn has_renderer(&self, cx: &Exec, name: &str) -> bool;

    /// Renders with a custom renderer.
    ///
    /// # Errors
    /// When it fails.
    fn render(&self, cx: &Exec, rendering: &Rendering<'_>) -> Result<Value, Error>;

    /// Returns the filters, tests and globals that custom modules add to Jinja, as far as the
    /// template mentions them. Returns `None` if they add nothing.
    fn jinja(&self, cx: &Exec, template: &str) -> Option<Vec<(render::Extension, String)>>;

    /// Calls a filter, a test or a global of a custom module.
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

    /// Returns a custom state function. With `named`, it must be from a file that has the module's
    /// name: such a function takes precedence over a built-in one.
    fn state_function(&self, cx: &Exec, full: &str, named: bool) -> Option<&'static Function<Ret>>;

    /// Calls a custom state function.
    ///
    /// # Errors
    /// When there is no function of that name, or it fails.
    fn call_state(&self, cx: &Exec, full: &str, kwargs: Map) -> Result<Ret, Error>;

    /// Returns the built-in grains together with those of custom grains modules.
    fn grains(&self, cx: &Exec, built_in: Map) -> Map;

    /// Drops everything that was loaded, because the files may have changed.
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

    fn has_file(&self, _: Kind, _: &str) -> bool {
        false
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
