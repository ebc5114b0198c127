//! Calls functions and reports their answers if these are true.

use modules::loader::call;
use value::{Map, Value};

use super::{Ask, Beacon, Settings};

struct Function {
    name: String,
    args: Option<Value>,
    kwargs: Map,
}

struct SaltMonitor {
    functions: Vec<Function>,
    /// True if a single function is configured as a string. Its answer is then always reported.
    is_one: bool,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let said = settings
        .get("salt_fun")
        .ok_or("Configuration for salt_monitor beacon requires salt_fun.")?;
    let is_one = said.as_str().is_some();
    let entries = match said.as_list() {
        Some(list) => list.to_vec(),
        None => vec![said.clone()],
    };
    let functions = entries.iter().map(Function::read);
    Ok(Box::new(SaltMonitor {
        functions: functions.collect::<Result<_, _>>()?,
        is_one,
    }))
}

impl Function {
    fn read(said: &Value) -> Result<Self, String> {
        let (name, options) = match said.as_map().and_then(Map::first) {
            Some((name, options)) => (name.to_text(), options.as_map().cloned()),
            None => (said.to_text(), None),
        };
        let mut function = Self {
            name,
            args: None,
            kwargs: Map::new(),
        };
        for (key, value) in options.unwrap_or_default().iter() {
            function.option(&key.to_text(), value)?;
        }
        Ok(function)
    }

    fn option(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let fun = &self.name;
        match (key, value.as_list()) {
            ("args", Some(_)) => self.args = Some(value.clone()),
            ("args", None) => return Err(format!("args key for fun {fun} must be list")),
            ("kwargs", Some(pairs)) => {
                for pair in pairs {
                    let map = pair.as_map().cloned();
                    let text = pair.to_text();
                    self.kwargs
                        .update(map.ok_or_else(|| format!("{text} is not a key / value pair"))?);
                }
            }
            ("kwargs", None) => {
                return Err(format!(
                    "kwargs key for fun {fun} must be list of key value pairs"
                ));
            }
            _ => return Err(format!("key {key} not allowed under fun {fun}")),
        }
        Ok(())
    }

    fn event(&self, ret: Value) -> Map {
        let mut told = Map::new()
            .with("salt_fun", self.name.as_str())
            .with("ret", ret);
        if let Some(args) = self.args.as_ref().filter(|args| args.is_true()) {
            told.insert("args", args.clone());
        }
        if !self.kwargs.is_empty() {
            told.insert("kwargs", self.kwargs.clone());
        }
        told
    }
}

impl Beacon for SaltMonitor {
    fn poll(&mut self, ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let mut told = Vec::new();
        for function in &self.functions {
            let args = function.args.as_ref().and_then(Value::as_list);
            let args = call::joined(args.unwrap_or_default().to_vec(), function.kwargs.clone());
            let ret = ask(&function.name, args)?;
            if self.is_one || ret.is_true() {
                told.push(function.event(ret));
            }
        }
        Ok(told)
    }
}
