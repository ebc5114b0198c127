//! [`HighData`]: the merged SLS files of a run, and Salt's checks before requisites are resolved.

use value::{Map, Value};

use super::Fault;
use super::documents::Documents;
use crate::low::{self, RequisiteKind};

/// Every ID of a run with its states, as in Salt's high data. `__extend__` and `__exclude__` are
/// keys next to the IDs.
#[derive(Clone, Debug, Default)]
pub struct HighData {
    pub(crate) map: Map,
    pub(crate) documents: Documents,
}

impl HighData {
    /// Returns high data that does not come from SLS files (`state.high`).
    #[must_use]
    pub fn from_map(map: Map) -> Self {
        Self {
            map,
            documents: Documents::default(),
        }
    }

    /// Returns the data as `state.show_sls` and `state.show_highstate` print it.
    #[must_use]
    pub fn map(&self) -> &Map {
        low::keep_of_high(&self.map);
        &self.map
    }

    /// Excludes more SLS files (strings) or IDs (`{id: x}`), for `state.sls exclude=…`.
    #[must_use]
    pub fn excluding(mut self, exclude: impl IntoIterator<Item = Value>) -> Self {
        let exclude: Vec<Value> = exclude.into_iter().collect();
        if !exclude.is_empty() {
            let list = self.map.entry("__exclude__", || Value::list([]));
            if let Some(list) = list.as_list_mut() {
                list.extend(exclude);
            }
        }
        self
    }

    /// Returns the faults that Salt's `verify_high` reports.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        low::keep_of_high(&self.map);
        let mut check = Check {
            documents: &self.documents,
            faults: Vec::new(),
        };
        for (id, body) in &self.map {
            check.id(id, body);
        }
        check.faults
    }

    /// Returns the data if its form has no faults.
    pub(crate) fn verified(self) -> Result<Self, Vec<Fault>> {
        let faults = self.faults();
        if faults.is_empty() {
            Ok(self)
        } else {
            Err(faults)
        }
    }
}

/// Returns true for the internal keys that Salt stores next to IDs and states.
pub(crate) fn is_dunder(key: &Value) -> bool {
    key.as_str().is_some_and(|key| key.starts_with("__"))
}

/// Returns the states of an ID with their arguments.
pub(crate) fn states(body: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    body.as_map()
        .into_iter()
        .flatten()
        .filter(|(state, _)| !is_dunder(state))
}

/// Returns the first key of an argument that is a dictionary.
pub(crate) fn first_key(argument: &Value) -> Option<&Value> {
    argument.as_map()?.first().map(|(key, _)| key)
}

/// Returns the `repr()` of a value as Salt prints the data of its YAML loader: dictionaries show
/// their type, `OrderedDict`.
pub(crate) fn ordered_dict_repr(value: &Value) -> String {
    match value {
        Value::Map(map) if map.is_empty() => "OrderedDict()".into(),
        Value::Map(map) => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(key, value)| {
                    format!("({}, {})", ordered_dict_repr(key), ordered_dict_repr(value))
                })
                .collect();
            format!("OrderedDict([{}])", pairs.join(", "))
        }
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(ordered_dict_repr).collect();
            format!("[{}]", items.join(", "))
        }
        other => value::python::repr(other),
    }
}

/// Like [`ordered_dict_repr`], but for `str()`: a string is not quoted.
pub(crate) fn shown_text(value: &Value) -> String {
    match value {
        Value::Str(text) => String::from(&**text),
        other => ordered_dict_repr(other),
    }
}

/// Returns true for the arguments whose value must be a list of requisites.
pub(crate) fn is_requisite(word: &str) -> bool {
    word == "prerequired" || RequisiteKind::from_word(word).is_some()
}

struct Check<'a> {
    documents: &'a Documents,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn add(&mut self, text: String, body: &Map, path: &[Value]) {
        self.faults.push(self.documents.fault_in(text, body, path));
    }

    /// Explains the fault that was found last.
    fn explain(&mut self, cause: impl Into<String>, hint: impl Into<String>) {
        if let Some(fault) = self.faults.pop() {
            self.faults.push(fault.explained(cause, hint));
        }
    }

    /// Marks the fault that was found last as a consequence of the one before it.
    fn follows(&mut self) {
        if let Some(fault) = self.faults.last_mut() {
            fault.follows = true;
        }
    }

    fn id(&mut self, id: &Value, body: &Value) {
        if is_dunder(id) {
            return;
        }
        let Some(body) = body.as_map() else {
            let name = id.to_text();
            let body = shown_text(body);
            let text = format!("The type {name} in {body} is not formatted as a dictionary");
            self.faults.push(Fault::new(text));
            return;
        };
        if id.as_str().is_none() {
            let (name, sls, kind) = (id.to_text(), sls_of(body), id.type_name());
            let text = format!(
                "ID '{name}' in SLS '{sls}' is not formed as a string, but is type {kind}. It may need to be quoted."
            );
            self.add(text, body, std::slice::from_ref(id));
        }
        for (state, arguments) in body {
            if !is_dunder(state) {
                self.state(id, body, state, arguments);
            }
        }
    }

    fn state(&mut self, id: &Value, body: &Map, state: &Value, arguments: &Value) {
        let mut checked = CheckedArgument {
            id,
            body,
            state,
            index: None,
        };
        if arguments.is_null() {
            let (name, sls, state) = (checked.name(), checked.sls(), state.to_text());
            let text = format!(
                "ID '{name}' in SLS '{sls}' contains a short declaration ({state}) with a trailing colon. When not passing any arguments to a state, the colon must be omitted."
            );
            return self.at(text, &checked, &[]);
        }
        let Value::List(arguments) = arguments else {
            let (name, sls) = (checked.name(), checked.sls());
            let text = format!("State '{name}' in SLS '{sls}' is not formed as a list");
            self.at(text, &checked, &[]);
            let (state, list) = (state.to_text(), dashed(arguments));
            return self.explain(
                format!("the arguments of {state} are not a list: they have no dash"),
                format!("write each argument with a dash: {list}"),
            );
        };
        for (index, argument) in arguments.iter().enumerate() {
            checked.index = Some(index);
            match argument {
                Value::Str(function) => self.function(&checked, function),
                Value::Map(argument) => self.argument(&checked, argument),
                _ => {}
            }
        }
        checked.index = None;
        self.count(&checked, arguments);
    }

    fn at(&mut self, text: String, checked: &CheckedArgument<'_>, rest: &[Value]) {
        let mut path = vec![checked.id.clone(), checked.state.clone()];
        path.extend(checked.index.map(Value::from));
        path.extend(rest.iter().cloned());
        self.add(text, checked.body, &path);
    }

    fn function(&mut self, checked: &CheckedArgument<'_>, function: &str) {
        if function.trim().contains(' ') {
            let (name, sls) = (checked.name(), checked.sls());
            let text = format!(
                "The function \"{function}\" in state \"{name}\" in SLS \"{sls}\" has whitespace, a function with whitespace is not supported, perhaps this is an argument that is missing a \":\""
            );
            self.at(text, checked, &[]);
            let (key, value) = function.trim().split_once(' ').unwrap_or((function, ""));
            self.explain(
                format!("'{function}' has no colon, so that it is not an argument"),
                format!("write - {key}: {}", value.trim()),
            );
        }
    }

    fn argument(&mut self, checked: &CheckedArgument<'_>, argument: &Map) {
        let Some((key, value)) = argument.first() else {
            return;
        };
        let word = key.as_str().unwrap_or_default();
        let list = matches!(value, Value::List(_));
        if word == "names" && !list {
            let (name, sls) = (checked.name(), checked.sls());
            let text = format!(
                "The 'names' argument in state '{name}' in SLS '{sls}' needs to be formed as a list"
            );
            self.at(text, checked, std::slice::from_ref(key));
            self.explain_list(word, value);
        }
        if !is_requisite(word) {
            return;
        }
        if !list {
            let (name, sls) = (checked.name(), checked.sls());
            let text = format!(
                "The {word} statement in state '{name}' in SLS '{sls}' needs to be formed as a list"
            );
            self.at(text, checked, std::slice::from_ref(key));
            match (value, argument.keys().nth(1)) {
                // The items are arguments at the level of the requisite's own name.
                (Value::Null, Some(next)) => {
                    let next = argument.get_value(next).map(|value| {
                        Value::from(Map::new().with(next.to_text().as_str(), value.clone()))
                    });
                    self.explain_list(word, &next.unwrap_or_default());
                }
                _ => self.explain_list(word, value),
            }
        }
        for (index, item) in value.as_list().into_iter().flatten().enumerate() {
            self.requisite(checked, key, index, item);
        }
        if argument.len() != 1 {
            let (name, sls) = (checked.name(), checked.sls());
            let text = format!(
                "Multiple dictionaries defined in argument of state '{name}' in SLS '{sls}'"
            );
            self.at(text, checked, std::slice::from_ref(key));
            match list {
                true => {
                    let more = argument.keys().nth(1).map(Value::to_text);
                    let more = more.unwrap_or_default();
                    self.explain(
                        format!("'{more}' is part of the argument '{word}'"),
                        format!("write - {more}: with a dash, below the dash of '{word}'"),
                    );
                }
                false => self.follows(),
            }
        }
    }

    fn explain_list(&mut self, word: &str, value: &Value) {
        self.explain(
            format!("the value of '{word}' is not a list: it has no dash"),
            format!(
                "write each item with a dash, and indent it below {word}: {}",
                dashed(value)
            ),
        );
    }

    fn requisite(
        &mut self,
        checked: &CheckedArgument<'_>,
        word: &Value,
        index: usize,
        item: &Value,
    ) {
        if item.as_str().is_some() {
            return;
        }
        let rest = || [word.clone(), Value::from(index)];
        let single = item.as_map().filter(|item| item.len() == 1);
        let Some((key, target)) = single.and_then(Map::first) else {
            let (name, sls, item) = (checked.name(), checked.sls(), shown_text(item));
            let text = format!(
                "Requisite declaration {item} in state {name} in SLS {sls} is not formed as a single key dictionary"
            );
            return self.at(text, checked, &rest());
        };
        let kind = key.as_str().unwrap_or_default();
        if let Some((module, _)) = kind.split_once('.') {
            let (name, sls) = (checked.name(), checked.sls());
            let text = format!(
                "Invalid requisite type '{kind}' in state '{name}', in SLS '{sls}'. Requisite types must not contain dots, did you mean '{module}'?"
            );
            self.at(text, checked, &rest());
        }
        if matches!(target, Value::List(_) | Value::Map(_) | Value::Set(_)) {
            let (sls, target) = (checked.sls(), ordered_dict_repr(target));
            let text = format!(
                "Illegal requisite \"{target}\" in SLS \"{sls}\", please check your syntax.\n"
            );
            self.at(text, checked, &rest());
        }
    }

    fn count(&mut self, checked: &CheckedArgument<'_>, arguments: &[Value]) {
        let state = checked.state.as_str().unwrap_or_default();
        let dotted = state.split_once('.').map(|(_, function)| function);
        let named = arguments.iter().filter_map(Value::as_str);
        let functions = dotted.into_iter().chain(named);
        match functions.clone().count() {
            1 => {}
            0 => {
                let (name, sls) = (checked.name(), checked.sls());
                let text = format!("No function declared in state '{name}' in SLS '{sls}'");
                self.at(text, checked, &[]);
                self.explain(
                    format!("'{state}' has no function"),
                    format!("write {state}.FUNCTION:, such as file.managed:"),
                );
            }
            _ => {
                let (name, sls) = (checked.name(), checked.sls());
                // An argument without a colon, about which there is a fault already.
                let has_argument = functions.clone().any(|name| name.trim().contains(' '));
                let functions = functions.collect::<Vec<_>>().join(", ");
                let text = format!(
                    "Too many functions declared in state '{name}' in SLS '{sls}'. Please choose one of the following: {functions}"
                );
                self.at(text, checked, &[]);
                if has_argument {
                    self.follows();
                }
            }
        }
    }
}

/// Returns the value of a key as the first item of a list: `- name: …`.
fn dashed(value: &Value) -> String {
    match value {
        Value::Map(map) => match map.first() {
            Some((key, Value::Map(_) | Value::List(_))) => format!("- {}: …", key.to_text()),
            Some((key, value)) => format!("- {}: {}", key.to_text(), value.to_text()),
            None => "- name: …".to_owned(),
        },
        Value::Null => "- …".to_owned(),
        value => format!("- {}", value.to_text()),
    }
}

/// The argument that is being checked. Its texts are only built for a fault.
struct CheckedArgument<'a> {
    id: &'a Value,
    body: &'a Map,
    state: &'a Value,
    index: Option<usize>,
}

impl CheckedArgument<'_> {
    fn name(&self) -> String {
        self.id.to_text()
    }

    fn sls(&self) -> String {
        sls_of(self.body)
    }
}

fn sls_of(body: &Map) -> String {
    body.get("__sls__").map(Value::to_text).unwrap_or_default()
}
