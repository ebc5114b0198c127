//! [`Custom`]: execution modules that come with a tree instead of with the program.

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

/// The custom execution modules of a machine.
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

    /// The full names of all custom functions, sorted.
    fn names(&self, cx: &Exec) -> Vec<String>;

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
        Err(Error::NotAvailable(full.to_owned()))
    }

    fn names(&self, _cx: &Exec) -> Vec<String> {
        Vec::new()
    }

    fn state_function(&self, _: &Exec, _: &str, _: bool) -> Option<&'static Function<Ret>> {
        None
    }

    fn call_state(&self, _cx: &Exec, full: &str, _kwargs: Map) -> Result<Ret, Error> {
        Err(Error::NotAvailable(full.to_owned()))
    }

    fn grains(&self, _cx: &Exec, built_in: Map) -> Map {
        built_in
    }

    fn refresh(&self) {}
}
