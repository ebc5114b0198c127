//! The variables of the external pillar `stack`.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Rest, ValueOrKwargs};
use minijinja::{Environment, State, Value};
use value::Map;

use super::args::Args;
use super::containers::{Dict, from_map, from_value};
use super::{Shared, filters, salt};

/// Adds the variables, and `__salt__`. `__stack__` gets the function `traverse`.
pub(super) fn add(environment: &mut Environment<'static>, shared: &Arc<Shared>, variables: &Map) {
    for (name, value) in variables {
        let name = name.to_text();
        let value = match value.as_map().filter(|_| name == "__stack__") {
            Some(own) => Value::from_object(Stack(from_map(own))),
            None => from_value(value),
        };
        environment.add_global(name, value);
    }
    let salt = salt::Salt(Arc::clone(&shared.functions));
    environment.add_global("__salt__", Value::from_object(salt));
}

/// The variable `__stack__`.
#[derive(Debug)]
struct Stack(Dict);

impl Object for Stack {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str() {
            Some("traverse") => Some(Value::from_function(
                |state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| {
                    filters::traverse(state, &Args::new(&values.into_values())?)
                },
            )),
            _ => self.0.get(key),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.keys())
    }
}
