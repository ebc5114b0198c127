//! Prepares one rendered SLS for merging, as Salt does: short declarations, `extend`, `exclude`,
//! and the order of its states.

use value::{Map, Value};

use super::Fault;
use super::documents::Documents;
use super::high::first_key;
use crate::keys;

/// One SLS that is being prepared for the high data.
pub(crate) struct Declarations<'a> {
    pub(crate) sls: &'a str,
    pub(crate) saltenv: &'a str,
    pub(crate) documents: &'a Documents,
    pub(crate) faults: &'a mut Vec<Fault>,
}

impl Declarations<'_> {
    fn fault(&mut self, text: String, path: &[Value]) {
        let fault = self.documents.fault(text, self.saltenv, self.sls, path);
        self.faults.push(fault);
    }

    /// Removes `include` and returns its items.
    pub(crate) fn include(&mut self, state: &mut Map) -> Vec<Value> {
        match state.get("include") {
            None => Vec::new(),
            Some(Value::List(_)) => {
                let include = state.remove("include").unwrap_or_default();
                include.as_list().unwrap_or_default().to_vec()
            }
            Some(_) => {
                let text = format!(
                    "Include Declaration in SLS {} is not formed as a list",
                    self.sls
                );
                self.fault(text, &["include".into()]);
                if let Some(fault) = self.faults.pop() {
                    self.faults.push(fault.explained(
                        "the value of 'include' is not a list: it has no dash",
                        "write each SLS on a line with a dash, and indent it below include: - NAME",
                    ));
                }
                Vec::new()
            }
        }
    }

    /// Converts `extend` to `__extend__`.
    pub(crate) fn extend(&mut self, state: &mut Map) {
        let Some(extend) = state.remove("extend") else {
            return;
        };
        let Value::Map(mut extend) = extend else {
            let text = format!("Extension value in SLS '{}' is not a dictionary", self.sls);
            return self.fault(text, &["extend".into()]);
        };
        let ids: Vec<Value> = extend.keys().cloned().collect();
        for id in ids {
            let body = extend.get_value_mut(&id);
            match body.and_then(Value::as_map_mut) {
                Some(body) => self.extension(body),
                None => {
                    let name = id.to_text();
                    let sls = self.sls;
                    let text =
                        format!("Extension name '{name}' in SLS '{sls}' is not a dictionary");
                    self.fault(text, &["extend".into(), id]);
                }
            }
        }
        let all = state.entry("__extend__", || Value::list([]));
        if let Some(all) = all.as_list_mut() {
            all.push(extend.into());
        }
    }

    fn extension(&self, body: &mut Map) {
        body.entry("__sls__", || self.sls.into());
        body.entry("__env__", || self.saltenv.into());
        for key in dotted(body) {
            split(body, &key);
        }
    }

    /// Converts `exclude` to `__exclude__`.
    pub(crate) fn exclude(&mut self, state: &mut Map) {
        let Some(exclude) = state.remove("exclude") else {
            return;
        };
        let Value::List(exclude) = exclude else {
            let text = format!(
                "Exclude Declaration in SLS {} is not formed as a list",
                self.sls
            );
            return self.fault(text, &["exclude".into()]);
        };
        let all = state.entry("__exclude__", || Value::list([]));
        if let Some(all) = all.as_list_mut() {
            all.extend(exclude.iter().cloned());
        }
    }

    /// Adds the SLS and the environment to every ID, and moves the function of every state to its
    /// arguments.
    pub(crate) fn states(&mut self, state: &mut Map) {
        let mut faults = Vec::new();
        let place = (self.sls.into(), self.saltenv.into());
        for (id, body) in state.iter_mut() {
            if matches!(id.as_str(), Some("__extend__" | "__exclude__")) && body.as_map().is_none()
            {
                continue;
            }
            if let Some(short) = body.as_str().and_then(|short| self.short(short)) {
                *body = short;
                continue;
            }
            match body.as_map_mut() {
                Some(body) => self.body(id, body, &place, &mut faults),
                None => {
                    let name = id.to_text();
                    let text = format!("ID {name} in SLS {} is not a dictionary", self.sls);
                    faults.push((text, vec![id.clone()]));
                }
            }
        }
        for (text, path) in faults {
            let id = path.first().map(Value::to_text).unwrap_or_default();
            self.fault(text, &path);
            if let (Some(fault), 1) = (self.faults.last_mut(), path.len()) {
                // An `include` that is not a list has a fault already.
                fault.follows = id == "include" && state.get("include").is_some();
                fault.hint = Some(format!(
                    "write {id}: and below it the function with a colon, indented by two spaces"
                ));
            }
        }
    }

    /// Converts a short declaration: `id: mod.fun`.
    fn short(&self, short: &str) -> Option<Value> {
        let (module, rest) = short.split_once('.')?;
        let fun = rest.split('.').next().unwrap_or(rest);
        let body = Map::new()
            .with("__sls__", self.sls)
            .with("__env__", self.saltenv)
            .with(module, Value::list([fun.into()]));
        Some(body.into())
    }

    fn body(
        &self,
        id: &Value,
        body: &mut Map,
        (sls, saltenv): &(Value, Value),
        faults: &mut Vec<(String, Vec<Value>)>,
    ) {
        let mut seen: Vec<String> = Vec::new();
        let keys: Vec<Value> = body.keys().cloned().collect();
        for key in keys {
            let Some(word) = key.as_str().filter(|word| !word.starts_with('_')) else {
                continue;
            };
            if !matches!(body.get(word), Some(Value::List(_))) {
                continue;
            }
            let Some((module, _)) = word.split_once('.') else {
                seen.push(word.to_owned());
                continue;
            };
            if seen.iter().any(|seen| seen == module) {
                let name = id.to_text();
                let sls = self.sls;
                let text = format!(
                    "ID '{name}' in SLS '{sls}' contains multiple state declarations of the same type"
                );
                faults.push((text, vec![id.clone(), key.clone()]));
                continue;
            }
            seen.push(module.to_owned());
            split(body, word);
        }
        body.entry(&keys::SLS, || sls.clone());
        body.entry(&keys::ENV, || saltenv.clone());
    }
}

/// Returns the keys that contain a function.
fn dotted(body: &Map) -> Vec<String> {
    body.iter()
        .filter(|(_, arguments)| matches!(arguments, Value::List(_)))
        .filter_map(|(key, _)| key.as_str())
        .filter(|key| !key.starts_with('_') && key.contains('.'))
        .map(str::to_owned)
        .collect()
}

/// Converts `mod.fun: [args]` to `mod: [args, fun]`.
pub(crate) fn split(body: &mut Map, key: &str) {
    let Some((module, rest)) = key.split_once('.') else {
        return;
    };
    let fun = rest.split('.').next().unwrap_or(rest);
    let Some(mut arguments) = body.remove(key) else {
        return;
    };
    if let Some(arguments) = arguments.as_list_mut() {
        arguments.push(fun.into());
    }
    body.insert(module, arguments);
}

/// Numbers the states without an `order`, in the order in which they are rendered (Salt's
/// `_handle_iorder`).
pub(crate) fn number(state: &mut Map, next: &mut i64) {
    let bodies = state.iter_mut().filter_map(|(_, body)| body.as_map_mut());
    for body in bodies {
        for (key, arguments) in body.iter_mut() {
            let Some(key) = key.as_str() else {
                continue;
            };
            let Some(arguments) = arguments.as_list_mut().filter(|_| !key.starts_with('_')) else {
                continue;
            };
            let ordered =
                |argument: &Value| first_key(argument).and_then(Value::as_str) == Some("order");
            if !arguments.iter().any(ordered) {
                let order: Map = [(&keys::ORDER, *next)].into_iter().collect();
                arguments.push(order.into());
                *next += 1;
            }
        }
    }
}
