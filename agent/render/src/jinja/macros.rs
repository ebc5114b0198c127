//! Macros that count their arguments as Jinja2 does and may take more than they name.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::{Kwargs, Object, ObjectRepr, Tuple};
use minijinja::{Error, State, Value};

use super::args::Args;
use super::containers::Dict;
use super::errors::type_error;

/// A macro; for the engine, `varargs` and `kwargs` are arguments of these names.
struct OpenMacro {
    name: String,
    inner: Value,
    /// True if it uses `varargs` or `kwargs`.
    open: bool,
    arguments: Vec<String>,
}

impl fmt::Debug for OpenMacro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<Macro '{}'>", self.name)
    }
}

/// The filter `__macro("name", open, "argument", …)`.
pub(super) fn open(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let arguments = args.rest(3).iter().map(ToString::to_string).collect();
    let (name, open) = (args.text(1, "name")?, args.flag(2, "open", false));
    Ok(Value::from_object(OpenMacro {
        name,
        inner: args.subject()?.clone(),
        open,
        arguments,
    }))
}

impl Object for OpenMacro {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "name" => Some(Value::from(self.name.as_str())),
            "arguments" => {
                let names = self.arguments.iter().map(|name| Value::from(name.as_str()));
                Some(Value::from(Tuple::from(names.collect::<Vec<_>>())))
            }
            _ => None,
        }
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let args = Args::new(args)?;
        let named = args.pos().len().min(self.arguments.len());
        let mut values = args.pos().get(..named).unwrap_or_default().to_vec();
        let mut keywords = Vec::new();
        let mut extra = IndexMap::new();
        for (key, value) in args.all_named() {
            if key == "caller" || self.arguments.contains(key) {
                keywords.push((key.clone(), value.clone()));
            } else if !self.open {
                return Err(type_error(format!(
                    "macro '{}' takes no keyword argument '{key}'",
                    self.name
                )));
            } else {
                extra.insert(Value::from(key.as_str()), value.clone());
            }
        }
        let more = args.rest(named);
        if self.open {
            keywords.push(("varargs".into(), Value::from(Tuple::from(more.to_vec()))));
            keywords.push(("kwargs".into(), Dict::value(extra)));
        } else if !more.is_empty() {
            return Err(type_error(format!(
                "macro '{}' takes not more than {named} argument(s)",
                self.name
            )));
        }
        if !keywords.is_empty() {
            values.push(Kwargs::from_iter(keywords).into());
        }
        self.inner.call(state, &values)
    }
}
