//! Drivers of `_clouds`: programs in any language, with the functions of Salt's drivers.

use state::custom::Kind;
use state::exec::Exec;
use value::{Map, Value};

use crate::driver::{Boot, Driver, Machine, Offer, Wanted};
use crate::fault::Fault;

/// The maximum number of machines in a list.
const MACHINES_MAX: usize = 100_000;

/// A program of `_clouds`.
pub(super) struct Program {
    name: String,
    /// The settings of the provider, for functions that take them as `provider`.
    settings: Map,
}

impl Program {
    pub(super) fn new(name: &str, settings: Map) -> Self {
        Self {
            name: name.to_owned(),
            settings,
        }
    }

    /// Calls a function, with those of the keywords that it takes. Returns `None` if there is no such
    /// function.
    fn call(
        &self,
        cx: &Exec,
        fun: &str,
        args: Vec<Value>,
        keywords: Map,
    ) -> Result<Option<Value>, Fault> {
        let full = format!("{}.{fun}", self.name);
        let custom = &cx.shared.custom;
        let functions = custom.functions(cx, Kind::Cloud);
        let Some((_, signature)) = functions.iter().find(|(name, _)| *name == full) else {
            return match custom.call_client(cx, Kind::Cloud, &full, Vec::new(), Map::new()) {
                // A file that cannot be loaded says why.
                Some(Err(error)) => Err(self.refused(&error.to_string())),
                _ => Ok(None),
            };
        };
        let takes =
            |key: &str| signature.kwargs || signature.args.iter().any(|(name, _)| name == key);
        let mut kwargs = Map::new();
        for (key, value) in keywords.with("provider", self.settings.clone()) {
            if key.as_str().is_some_and(takes) {
                kwargs.insert(key, value);
            }
        }
        let called = custom.call_client(cx, Kind::Cloud, &full, args, kwargs);
        called
            .transpose()
            .map_err(|error| self.refused(&error.to_string()))
    }

    fn refused(&self, text: &str) -> Fault {
        Fault::refused(&self.name, "", text)
    }

    /// Calls a function that must exist.
    fn must(&self, cx: &Exec, fun: &str, args: Vec<Value>, keywords: Map) -> Result<Value, Fault> {
        let called = self.call(cx, fun, args, keywords)?;
        called.ok_or_else(|| self.refused(&format!("it has no function {fun}")))
    }

    fn machine(name: &str, data: &Value) -> Machine {
        let text = |key: &str| data.get(key).filter(|value| !value.is_null());
        let text = |key: &str| text(key).map(Value::to_text).unwrap_or_default();
        let texts = |key: &str| data.get(key).map(Value::texts).unwrap_or_default();
        Machine {
            name: name.to_owned(),
            id: text("id"),
            image: text("image"),
            size: text("size"),
            state: text("state"),
            public_ips: texts("public_ips"),
            private_ips: texts("private_ips"),
            token: data.get("client_token").map(Value::to_text),
            full: data.as_map().cloned().unwrap_or_default(),
        }
    }
}

impl Driver for Program {
    fn boot(&self) -> Boot {
        Boot::Driver
    }

    fn list(&self, cx: &Exec) -> Result<Vec<Machine>, Fault> {
        let listed = match self.call(cx, "list_nodes_full", Vec::new(), Map::new())? {
            Some(listed) => listed,
            None => self.must(cx, "list_nodes", Vec::new(), Map::new())?,
        };
        let Value::Map(listed) = listed else {
            return Err(self.refused(&format!(
                "list_nodes must return a dictionary of machines, but returned a {}",
                listed.type_name()
            )));
        };
        if listed.len() > MACHINES_MAX {
            return Err(self.refused(&format!("it lists more than {MACHINES_MAX} machines")));
        }
        let machine = |(name, data): (&Value, &Value)| Self::machine(&name.as_text(), data);
        Ok(listed.iter().map(machine).collect())
    }

    fn create(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        let mut vm = super::revealed(cx, &wanted.spec.settings)?;
        vm.insert("client_token", wanted.token);
        let made = self.must(cx, "create", vec![vm.into()], Map::new())?;
        match &made {
            Value::Map(data) if data.get("Error").is_some_and(Value::is_true) => {
                let text = data.get("Error").map(Value::to_text);
                Err(self.refused(&text.unwrap_or_default()))
            }
            made if made.is_true() => Ok(Self::machine(wanted.spec.name.as_str(), made)),
            _ => Err(Fault::wrong("Failed to deploy VM")),
        }
    }

    fn destroy(&self, cx: &Exec, machine: &Machine) -> Result<Value, Fault> {
        let keywords = Map::new().with("call", "action");
        self.must(cx, "destroy", vec![machine.name.as_str().into()], keywords)
    }

    fn action(
        &self,
        cx: &Exec,
        fun: &str,
        machine: &Machine,
        kwargs: &Map,
    ) -> Result<Option<Value>, Fault> {
        let mut args = vec![Value::from(machine.name.as_str())];
        if !kwargs.is_empty() {
            args.push(kwargs.clone().into());
        }
        self.call(cx, fun, args, Map::new().with("call", "action"))
    }

    fn function(&self, cx: &Exec, fun: &str, kwargs: &Map) -> Result<Option<Value>, Fault> {
        let mut keywords = Map::new().with("call", "function");
        if !kwargs.is_empty() {
            keywords.insert("kwargs", kwargs.clone());
        }
        self.call(cx, fun, Vec::new(), keywords)
    }

    fn offers(&self, cx: &Exec, offer: Offer) -> Result<Map, Fault> {
        let fun = match offer {
            Offer::Images => "avail_images",
            Offer::Sizes => "avail_sizes",
            Offer::Locations => "avail_locations",
        };
        let offered = self.must(cx, fun, Vec::new(), Map::new())?;
        match offered {
            Value::Map(offered) => Ok(offered),
            other => Err(self.refused(&format!(
                "{fun} must return a dictionary, but returned a {}",
                other.type_name()
            ))),
        }
    }

    fn is_running(&self, _state: &str) -> bool {
        true
    }

    fn needs_no_address(&self) -> bool {
        true
    }
}
