//! The driver `hetzner`: Hetzner Cloud, version 1 of its API. The token of a call is a label.

#[cfg(test)]
mod tests;

use std::time::Duration;

use state::exec::Exec;
use value::{Map, Value};

use super::api::{self, Api, Body, address, field, items, path, query};
use crate::driver::{Boot, Driver, Machine, Offer, RUN_TAG, Wanted};
use crate::fault::Fault;

/// The word for this driver in faults.
const HETZNER: &str = "hetzner";
/// The address of the API, unless `api_root` replaces it.
const URL: &str = "https://api.hetzner.cloud/v1";
/// The number of items on a page, which is the API's maximum.
const PAGE: &str = "per_page=50";
/// The maximum time until an action is complete.
const ACTION_MAX: Duration = Duration::from_secs(300);
/// The state of servers that are nearly gone.
const GONE: &str = "deleting";

/// A project of Hetzner Cloud.
pub(super) struct Hetzner {
    api: Api,
}

/// Returns the code and the text of an error.
fn said(answer: &Value) -> Option<api::Said> {
    let error = answer.get("error")?;
    let text = field(error, "message");
    (!text.is_empty()).then(|| (field(error, "code"), text))
}

/// Returns the first address of a network, which the images configure.
fn first_of(network: &str) -> Option<String> {
    let (start, _) = network.split_once('/')?;
    match start.strip_suffix("::") {
        Some(start) => address(&format!("{start}::1")),
        None => address(start),
    }
}

/// Returns a server of an answer.
fn machine(server: &Value) -> Option<Machine> {
    let id = field(server, "id");
    let public = [
        address(&field(server, "public_net:ipv4:ip")),
        first_of(&field(server, "public_net:ipv6:ip")),
    ];
    let private = items(server, "private_net").iter();
    let image = [field(server, "image:name"), field(server, "image:id")];
    let token = field(server, &format!("labels:{RUN_TAG}"));
    (!id.is_empty()).then(|| Machine {
        name: field(server, "name"),
        id,
        image: image
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default(),
        size: field(server, "server_type:name"),
        state: field(server, "status"),
        public_ips: public.into_iter().flatten().collect(),
        private_ips: private
            .filter_map(|net| address(&field(net, "ip")))
            .collect(),
        token: Some(token).filter(|token| !token.is_empty()),
        full: server.as_map().cloned().unwrap_or_default(),
    })
}

impl Hetzner {
    /// Opens a project.
    ///
    /// # Errors
    /// When `key` is missing, or a setting is not well formed.
    pub(super) fn new(settings: &Map) -> Result<Self, Fault> {
        let key = api::secret(HETZNER, settings, "key")?;
        let base = api::base(HETZNER, settings, "api_root", URL)?;
        let api = Api::new(HETZNER, base, api::bearer(&key), said);
        Ok(Self { api })
    }

    /// Returns all items of a list. `filter` is more of the query.
    fn all(&self, cx: &Exec, list: &str, filter: &str) -> Result<Vec<Value>, Fault> {
        let mark = if filter.is_empty() { "" } else { "&" };
        let first = format!("{PAGE}{mark}{filter}");
        let path = path(&[list]);
        self.api.pages(cx, (&path, list, &first), |answer, _| {
            let next = answer.traverse("meta:pagination:next_page", ":");
            let next = next.and_then(Value::as_int)?;
            Some(format!("{first}&page={next}"))
        })
    }

    fn servers(&self, cx: &Exec, filter: &str) -> Result<Vec<Machine>, Fault> {
        let servers = self.all(cx, "servers", filter)?;
        self.api.machines("/servers", &servers, machine, &[GONE])
    }

    /// Returns the numbers of things that a profile names by number or name.
    fn numbers(&self, cx: &Exec, list: &str, given: &Value) -> Result<Value, Fault> {
        let number = |name: String| match name.parse::<i64>() {
            Ok(number) => Ok(Value::from(number)),
            Err(_) => {
                let found = self.all(cx, list, &query(&[("name", &name)]))?;
                let id = found.first().and_then(|item| item.get("id")).cloned();
                let missing = || Fault::wrong(format!("{HETZNER}: {list} has no {name:?}"));
                id.ok_or_else(missing)
            }
        };
        let numbers = given.split_input().into_iter().map(number);
        Ok(Value::list(numbers.collect::<Result<Vec<_>, _>>()?))
    }

    /// Returns the body of the request for a new server.
    fn wanted(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Map, Fault> {
        let spec = wanted.spec;
        let labels = spec.map("labels").with(RUN_TAG, wanted.token);
        let mut body = Map::new()
            .with("name", spec.name.as_str())
            .with("labels", labels);
        for (name, key) in [("server_type", "size"), ("image", "image")] {
            let found = spec.text(key);
            let missing = || Fault::wrong(format!("{}: the profile has no {key}", spec.name));
            body.insert(name, found.ok_or_else(missing)?);
        }
        for key in ["location", "datacenter"] {
            if let Some(text) = spec.text(key) {
                body.insert(key, text);
            }
        }
        if let Some(keys) = spec.get("ssh_keys") {
            let keys = keys.split_input().into_iter().map(Value::from);
            body.insert("ssh_keys", Value::list(keys));
        }
        for list in ["networks", "volumes"] {
            if let Some(given) = spec.get(list) {
                body.insert(list, self.numbers(cx, list, given)?);
            }
        }
        for key in ["automount", "public_net", "firewalls", "placement_group"] {
            if let Some(value) = spec.get(key) {
                body.insert(key, value.clone());
            }
        }
        if let Some(data) = wanted.user_data {
            body.insert("user_data", data);
        }
        Ok(body)
    }

    /// Waits for the action of an answer.
    fn done(&self, cx: &Exec, answer: &Value) -> Result<(), Fault> {
        let (id, command) = (field(answer, "action:id"), field(answer, "action:command"));
        if id.is_empty() {
            return Err(self.api.lacks("an action", "id"));
        }
        let ended = |answer: &Value| match field(answer, "action:status").as_str() {
            "success" => Ok(Some(())),
            "error" => {
                let (code, text) = answer.get("action").and_then(said).unwrap_or_default();
                let text = format!("the action {command} has failed: {code}: {text}");
                Err(Fault::refused(HETZNER, &code, &text))
            }
            _ => Ok(None),
        };
        if ended(answer)?.is_some() {
            return Ok(());
        }
        let path = path(&["actions", &id]);
        api::until(
            (HETZNER, &format!("the action {command}")),
            ACTION_MAX,
            || ended(&self.api.get(cx, &path)?),
        )
    }
}

impl Driver for Hetzner {
    fn boot(&self) -> Boot {
        Boot::UserData
    }

    fn list(&self, cx: &Exec) -> Result<Vec<Machine>, Fault> {
        self.servers(cx, "")
    }

    fn create(&self, cx: &Exec, wanted: &Wanted<'_>) -> Result<Machine, Fault> {
        let selector = format!("{RUN_TAG}=={}", wanted.token);
        let own = self.servers(cx, &query(&[("label_selector", &selector)]))?;
        if let Some(machine) = own.into_iter().next() {
            return Ok(machine);
        }
        let answer = self.api.post(cx, "/servers", self.wanted(cx, wanted)?)?;
        let server = answer.get("server").and_then(machine);
        server.ok_or_else(|| self.api.lacks("/servers", "server"))
    }

    fn destroy(&self, cx: &Exec, machine: &Machine) -> Result<Value, Fault> {
        let answer = self.api.delete(cx, &path(&["servers", &machine.id]))?;
        if let Some(answer) = answer {
            self.done(cx, &answer)?;
        }
        Ok(super::destroyed(&machine.name))
    }

    fn action(
        &self,
        cx: &Exec,
        fun: &str,
        machine: &Machine,
        _kwargs: &Map,
    ) -> Result<Option<Value>, Fault> {
        let Some(done) = super::acted(fun, &machine.name) else {
            return Ok(None);
        };
        let action = match fun {
            "start" => "poweron",
            "stop" => "poweroff",
            other => other,
        };
        let path = path(&["servers", &machine.id, "actions", action]);
        let answer = self.api.call(cx, ("POST", &path), Body::None)?;
        self.done(cx, &answer)?;
        Ok(Some(done))
    }

    fn function(&self, cx: &Exec, fun: &str, _kwargs: &Map) -> Result<Option<Value>, Fault> {
        match fun {
            "list_ssh_keys" => {
                let keys = self.all(cx, "ssh_keys", "")?;
                Ok(Some(api::by(keys, &["name"]).into()))
            }
            _ => Ok(None),
        }
    }

    fn offers(&self, cx: &Exec, offer: Offer) -> Result<Map, Fault> {
        let list = match offer {
            Offer::Images => "images",
            Offer::Sizes => "server_types",
            Offer::Locations => "locations",
        };
        // A snapshot has no name.
        Ok(api::by(self.all(cx, list, "")?, &["name", "id"]))
    }
}
