//! Resolves `require_in` and its like, `use` and `use_in` to extensions of other IDs.

use std::collections::HashMap;

use value::{Map, Value};

use super::extend::{Names, Origins, argument_names};
use super::high::{first_key, is_dunder, states};
use super::{Fault, HighData};

/// The keywords that this step resolves.
const WORDS: [&str; 7] = [
    "require_in",
    "watch_in",
    "onfail_in",
    "onchanges_in",
    "use",
    "use_in",
    "prereq_in",
];

/// The arguments that `use` does not copy.
const NOT_USED: [&str; 17] = [
    "require_in",
    "watch_in",
    "onfail_in",
    "onchanges_in",
    "use",
    "use_in",
    "prereq_in",
    "require",
    "watch",
    "prereq",
    "onfail",
    "onfail_stop",
    "onchanges",
    "compensate",
    "finally",
    "name",
    "names",
];

impl HighData {
    /// Merges the requisites that are declared on the other side into the IDs that they name
    /// (Salt's `requisite_in`).
    pub(crate) fn requisites_in(self, disabled: &[String]) -> Result<Self, Vec<Fault>> {
        let (high, faults) = self.requisites_in_with_faults(disabled);
        if faults.is_empty() {
            Ok(high)
        } else {
            Err(faults)
        }
    }

    /// Like [`HighData::requisites_in`], but returns the data together with all faults.
    pub(crate) fn requisites_in_with_faults(mut self, disabled: &[String]) -> (Self, Vec<Fault>) {
        let mut step = Step::new(&self, disabled);
        for (id, body) in self.map.iter().filter(|(_, body)| body.as_map().is_some()) {
            for (state, run) in states(body) {
                for (index, argument) in run.as_list().into_iter().flatten().enumerate() {
                    step.argument(
                        &Here {
                            id,
                            body,
                            state,
                            run,
                            index,
                        },
                        argument,
                    );
                }
            }
        }
        let Step {
            extend,
            origins,
            mut faults,
            ..
        } = step;
        if !extend.is_empty() {
            let list = extend
                .into_iter()
                .map(|(id, body)| [(id, body)].into_iter().collect());
            self.map.insert("__extend__", Value::list(list));
            faults.extend(self.extend(true, &origins));
        }
        self.map.remove("__extend__");
        (self, faults)
    }
}

/// The argument that is being processed.
struct Here<'a> {
    id: &'a Value,
    body: &'a Value,
    state: &'a Value,
    run: &'a Value,
    index: usize,
}

impl Here<'_> {
    fn own(&self) -> Value {
        [(self.state.clone(), self.id.clone())]
            .into_iter()
            .collect()
    }

    fn sls(&self) -> String {
        self.body
            .get("__sls__")
            .map(Value::to_text)
            .unwrap_or_default()
    }
}

struct Step<'a> {
    high: &'a HighData,
    disabled: &'a [String],
    names: Names,
    /// The first state with each `name:`, computed on first use.
    named: Option<HashMap<Value, (Value, Value)>>,
    /// The IDs of each SLS with their states, computed on first use.
    of_sls: Option<HashMap<Value, Vec<(Value, Value)>>>,
    extend: Map,
    origins: Origins,
    faults: Vec<Fault>,
}

impl<'a> Step<'a> {
    fn new(high: &'a HighData, disabled: &'a [String]) -> Self {
        Self {
            high,
            disabled,
            names: Names::default(),
            named: None,
            of_sls: None,
            extend: Map::new(),
            origins: Origins::new(),
            faults: Vec::new(),
        }
    }

    fn argument(&mut self, here: &Here<'_>, argument: &Value) {
        let Some((key, items)) = argument.as_map().and_then(Map::first) else {
            return;
        };
        let Some(word) = key.as_str().filter(|word| WORDS.contains(word)) else {
            return;
        };
        if self.disabled.iter().any(|disabled| disabled == word) {
            return;
        }
        let kind = word.split('_').next().unwrap_or(word);
        match items {
            Value::Map(items) => {
                for (state, name) in items {
                    let state = self.undotted(here, kind, name, state, false);
                    self.add(here, kind, name, &state);
                }
            }
            Value::List(items) => self.list(here, word, kind, items),
            _ => {}
        }
    }

    /// Processes a list of items. As Salt does, it processes all earlier targets again with each
    /// item, so that a list of n items adds its first target n times.
    fn list(&mut self, here: &Here<'_>, word: &str, kind: &str, items: &[Value]) {
        let mut targets: Vec<(Value, Value)> = Vec::new();
        for item in items {
            let Some((state, name)) = self.item(item) else {
                continue;
            };
            if state.as_str() == Some("sls") {
                targets = self.of_sls(&name);
            } else {
                targets.push((name.clone(), state.clone()));
            }
            self.undotted(here, kind, &name, &state, true);
            for (name, state) in &targets {
                match word {
                    "use_in" => self.used_in(here, name, state),
                    "use" => self.using(here, name, state),
                    _ => self.add(here, kind, name, state),
                }
            }
        }
    }

    /// Returns the state and the name of a list item. A bare word is an ID, or the `name` of one.
    fn item(&mut self, item: &Value) -> Option<(Value, Value)> {
        if let Some(item) = item.as_map() {
            return item
                .first()
                .map(|(state, name)| (state.clone(), name.clone()));
        }
        let high = &self.high.map;
        match high.get_value(item) {
            Some(body) => states(body)
                .next()
                .map(|(state, _)| (state.clone(), item.clone())),
            None => {
                let named = self.named.get_or_insert_with(|| by_name(high));
                named.get(item).cloned()
            }
        }
    }

    fn of_sls(&mut self, sls: &Value) -> Vec<(Value, Value)> {
        let high = &self.high.map;
        let index = self.of_sls.get_or_insert_with(|| by_sls(high));
        index.get(sls).cloned().unwrap_or_default()
    }

    /// Returns the state without its function, and adds a fault if it has one.
    fn undotted(
        &mut self,
        here: &Here<'_>,
        kind: &str,
        name: &Value,
        state: &Value,
        listed: bool,
    ) -> Value {
        let written = state.as_str().unwrap_or_default();
        let Some((module, _)) = written.split_once('.') else {
            return state.clone();
        };
        let (name, sls) = (name.to_text(), here.sls());
        let text = if listed {
            format!(
                "Invalid requisite in {kind}: {written} for {name}, in SLS '{sls}'. Requisites must not contain dots, did you mean '{module}'?"
            )
        } else {
            format!(
                "Invalid requisite in {kind}: {written} for {name} in SLS '{sls}'. Requisites must not contain dots, did you mean '{module}'?"
            )
        };
        let path = [here.id.clone(), here.state.clone(), Value::from(here.index)];
        if let Some(body) = here.body.as_map() {
            let fault = self.high.documents.fault_in(text, body, &path);
            self.faults.push(fault);
        }
        Value::from(module)
    }

    /// Adds a requisite of this kind to `name`, with the declaring ID as its target.
    fn add(&mut self, here: &Here<'_>, kind: &str, name: &Value, state: &Value) {
        self.origins
            .entry(name.clone())
            .or_insert_with(|| vec![here.id.clone(), here.state.clone(), Value::from(here.index)]);
        let target = self.extend.entry(name.clone(), || Map::new().into());
        let Some(target) = target.as_map_mut() else {
            return;
        };
        target.entry(state.clone(), || Value::list([]));
        for key in ["__env__", "__sls__"] {
            if let Some(value) = here.body.get(key) {
                target.insert(key, value.clone());
            }
        }
        let Some(arguments) = target.get_value_mut(state).and_then(Value::as_list_mut) else {
            return;
        };
        let own = here.own();
        let like = arguments
            .iter_mut()
            .find(|argument| first_key(argument).and_then(Value::as_str) == Some(kind));
        let list = like.and_then(|argument| argument.as_map_mut()?.get_mut(kind)?.as_list_mut());
        match list {
            Some(list) => list.push(own),
            None => arguments.push(Map::new().with(kind, Value::list([own])).into()),
        }
    }

    /// `use_in`: copies the arguments of this state to the named one.
    fn used_in(&mut self, here: &Here<'_>, name: &Value, state: &Value) {
        for (id, of) in self.found(name, state) {
            let target = self.high.map.get_value(&id).and_then(Value::as_map);
            let own = target.and_then(|body| body.get_value(state));
            let own = own.map(argument_names).unwrap_or_default();
            self.carry(&id, &of, here.run, &own);
        }
    }

    /// `use`: copies the arguments of the named state to this one.
    fn using(&mut self, here: &Here<'_>, name: &Value, state: &Value) {
        let own = argument_names(here.run);
        for (id, of) in self.found(name, state) {
            let source = self.high.map.get_value(&id).and_then(Value::as_map);
            if let Some(run) = source.and_then(|body| body.get_value(&of)).cloned() {
                self.carry(here.id, here.state, &run, &own);
            }
        }
    }

    fn found(&mut self, name: &Value, state: &Value) -> Vec<(Value, Value)> {
        let here = self.high.map.get_value(name).and_then(Value::as_map);
        if here.is_some_and(|here| here.contains_value(state)) {
            return vec![(name.clone(), state.clone())];
        }
        self.names.find(&self.high.map, name, state)
    }

    fn carry(&mut self, id: &Value, state: &Value, run: &Value, own: &[Value]) {
        let target = self.extend.entry(id.clone(), || Map::new().into());
        let Some(target) = target.as_map_mut() else {
            return;
        };
        let arguments = target.entry(state.clone(), || Value::list([]));
        let used = |argument: &&Value| {
            let single = argument.as_map().filter(|map| map.len() == 1);
            single.and_then(Map::first).is_some_and(|(key, _)| {
                !own.contains(key) && !key.as_str().is_some_and(|key| NOT_USED.contains(&key))
            })
        };
        if let Some(arguments) = arguments.as_list_mut() {
            let run = run.as_list().into_iter().flatten();
            arguments.extend(run.filter(used).cloned());
        }
    }
}

fn by_name(high: &Map) -> HashMap<Value, (Value, Value)> {
    let mut index = HashMap::new();
    for (id, body) in high.iter().filter(|(id, _)| !is_dunder(id)) {
        for (state, run) in states(body) {
            for argument in run.as_list().into_iter().flatten() {
                if let Some(name) = argument.get("name") {
                    let found = index.entry(name.clone());
                    found.or_insert_with(|| (state.clone(), id.clone()));
                }
            }
        }
    }
    index
}

fn by_sls(high: &Map) -> HashMap<Value, Vec<(Value, Value)>> {
    let mut index: HashMap<Value, Vec<(Value, Value)>> = HashMap::new();
    for (id, body) in high {
        if let Some(sls) = body.get("__sls__") {
            let of_sls = index.entry(sls.clone()).or_default();
            of_sls.extend(states(body).map(|(state, _)| (id.clone(), state.clone())));
        }
    }
    index
}
