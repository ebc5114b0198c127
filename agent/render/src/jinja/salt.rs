//! The variable `salt`: evaluates `salt['pkg.version']('nginx')` and `salt.pkg.version('nginx')`.

use std::fmt;
use std::sync::Arc;

use super::args::Args;
use super::containers::from_value;
use super::errors::{fault, note_miss};
use super::references::Passed;
use super::shared::Functions;
use crate::Kind;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, State, Value};

/// The name of the variable `salt` in Salt's messages.
const LOADER: &str = "salt.utils.templates.AliasedLoader object";

/// The name of one of its modules in Salt's messages.
const MODULE: &str = "salt.loader.lazy.LoadedMod object";

/// The variable `salt`.
pub(super) struct Salt(pub(super) Arc<Functions>);

/// A module or a function; this is known only when it is called.
struct Call {
    functions: Arc<Functions>,
    name: String,
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<salt>")
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains('.') {
            true => write!(f, "<function {}>", self.name),
            false => write!(f, "<LoadedMod module='salt.loaded.{}'>", self.name),
        }
    }
}

impl Salt {
    fn function(&self, name: &str) -> Option<Value> {
        let there = if name.contains('.') {
            self.0.host.has_function(name)
        } else {
            true
        };
        if !there {
            note_miss(LOADER, &Value::from(name));
            return None;
        }
        Some(Value::from_object(Call {
            functions: Arc::clone(&self.0),
            name: name.into(),
        }))
    }
}

impl Object for Salt {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.function(key.as_str()?)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Empty
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "get" => {
                let args = Args::new(args)?;
                let name = args.text(0, "key")?;
                let default = || {
                    args.at(1, "default")
                        .cloned()
                        .unwrap_or_else(|| Value::from(()))
                };
                Ok(self
                    .function(&name)
                    .filter(|_| self.0.host.has_function(&name))
                    .unwrap_or_else(default))
            }
            _ => Err(missing(&self.0, method)),
        }
    }
}

impl Object for Call {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = format!("{}.{}", self.name, key.as_str()?);
        if !self.functions.host.has_function(&name) {
            match self.functions.host.has_module(&self.name) {
                true => note_miss(MODULE, key),
                false => note_miss(LOADER, &Value::from(self.name.as_str())),
            }
            return None;
        }
        Some(Value::from_object(Self {
            functions: Arc::clone(&self.functions),
            name,
        }))
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        call(&self.functions, &self.name, &Args::new(args)?)
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        let name = format!("{}.{method}", self.name);
        call(&self.functions, &name, &Args::new(args)?)
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }
}

/// Returns the error for a missing `salt.module.function` or, as a method, `salt.function`.
fn missing(functions: &Functions, name: &str) -> Error {
    let (holder, name) = match name.split_once('.') {
        Some((module, function)) if functions.host.has_module(module) => (MODULE, function),
        Some((module, _)) => (LOADER, module),
        None => (LOADER, name),
    };
    fault(
        Kind::JinjaVariable,
        format!("'{holder}' has no attribute '{name}'"),
    )
}

/// Calls an execution function.
fn call(functions: &Functions, name: &str, args: &Args) -> Result<Value, Error> {
    let host = &functions.host;
    if !host.has_function(name) {
        return Err(missing(functions, name));
    }
    functions.give_back();
    if name == "pillar.get"
        && let Some(lent) = functions.pillar_get(args)
    {
        return Ok(lent);
    }
    let passed = Passed::from_args(functions, name, args)?;
    let answer = passed.answer()?;
    match passed.reference(&answer)? {
        Some(given) => Ok(given),
        None => Ok(from_value(&answer)),
    }
}
