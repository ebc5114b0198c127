//! The driver `openstack`: servers of Nova. The token of a call is in their metadata.

mod server;
mod session;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use machine::net::http::quoted;
use state::exec::Exec;
use value::{Map, Value, secret};

use super::api::{self, Api, Body, field, items, path, query};
use crate::driver::{Boot, Driver, Machine, Offer, Wanted};
use crate::fault::Fault;
use crate::spec::Spec;
use server::{machine, wanted};
use session::Session;

/// The word for this driver in faults.
const OPENSTACK: &str = "openstack";
/// The number of items on a page.
const PAGE: &str = "limit=100";
/// The states of servers that are gone.
const GONE: [&str; 2] = ["DELETED", "SOFT_DELETED"];
/// The maximum time until Nova has removed a server.
const REMOVAL_MAX: Duration = Duration::from_secs(300);

/// A project of a cloud.
pub(super) struct OpenStack {
    settings: Map,
    session: Mutex<Option<Arc<Session>>>,
}

/// The ids of the things that a profile names.
pub(super) struct Found {
    pub(super) image: Option<String>,
    pub(super) flavor: String,
    pub(super) networks: Vec<Map>,
}

impl OpenStack {
    /// Reads the settings of a project.
    ///
    /// # Errors
    /// When one is missing or not well formed.
    pub(super) fn new(settings: &Map) -> Result<Self, Fault> {
        let settings = settings::read(settings)?;
        settings::keystone(&settings)?;
        settings::login(&settings)?;
        Ok(Self {
            settings,
            session: Mutex::default(),
        })
    }

    /// Returns the session. The first request opens it, and a later one opens another before its token
    /// expires.
    fn session(&self, cx: &Exec) -> Result<Arc<Session>, Fault> {
        let mut open = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = open
            .as_ref()
            .filter(|session| Instant::now() < session.until)
        {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(Session::open(cx, &self.settings)?);
        Ok(Arc::clone(open.insert(session)))
    }

    /// Returns all items of a list of Nova, Glance or Neutron. The address of the next page is not
    /// followed, because another server may be in it: the id of the last item is sent instead.
    fn all(
        api: &Api,
        cx: &Exec,
        (path, list, filter): (&str, &str, &str),
    ) -> Result<Vec<Value>, Fault> {
        let mark = if filter.is_empty() { "" } else { "&" };
        let first = format!("{PAGE}{mark}{filter}");
        api.pages(cx, (path, list, &first), |answer, _| {
            let links = items(answer, &format!("{list}_links"));
            let has_more = links.iter().any(|link| field(link, "rel") == "next")
                || answer.get("next").is_some_and(Value::is_true);
            let last = items(answer, list).last().map(|item| field(item, "id"))?;
            has_more.then(|| format!("{first}&marker={}", quoted(&last)))
        })
    }

    fn servers(&self, cx: &Exec, filter: &str) -> Result<Vec<Machine>, Fault> {
        let session = self.session(cx)?;
        let nova = &session.nova;
        let servers = Self::all(nova, cx, ("/servers/detail", "servers", filter))?;
        let mut machines = nova.machines("/servers/detail", &servers, machine, &GONE)?;
        // The lists lack the reason of some failures, which the answer about the one server has.
        for failed in machines.iter_mut().filter(|one| one.state == "ERROR") {
            let server = Self::server(nova, cx, &failed.id)?;
            if let Some(full) = server.as_ref().and_then(machine) {
                *failed = full;
            }
        }
        Ok(machines)
    }

    /// Returns what Nova says about a server; `None` if it does not exist any more.
    fn server(nova: &Api, cx: &Exec, id: &str) -> Result<Option<Value>, Fault> {
        let answer = nova.exchange(cx, ("GET", &path(&["servers", id])), Body::None)?;
        if answer.is_missing() {
            return Ok(None);
        }
        let data = nova.data(answer)?;
        let server = data.get("server").cloned();
        server
            .map(Some)
            .ok_or_else(|| nova.lacks("/servers", "server"))
    }

    /// Returns `None` as long as Nova removes a server.
    ///
    /// # Errors
    /// When Nova could not remove it, or does not answer.
    fn removed(nova: &Api, cx: &Exec, id: &str) -> Result<Option<()>, Fault> {
        let Some(server) = Self::server(nova, cx, id)? else {
            return Ok(Some(()));
        };
        let status = field(&server, "status");
        if GONE.contains(&status.as_str()) {
            return Ok(Some(()));
        }
        // While Nova works on a server, it names the task.
        let task = server.get("OS-EXT-STS:task_state");
        let is_idle = task.is_none_or(|task| *task == Value::Null);
        if status == "ERROR" && is_idle {
            let reason = field(&server, "fault:message");
            let text = format!("the removal has failed: {reason}");
            return Err(Fault::refused(OPENSTACK, &status, &text));
        }
        Ok(None)
    }

    /// Returns the id of the item that a setting means, by its id or name.
    fn id(api: &Api, cx: &Exec, (path, list): (&str, &str), given: &str) -> Result<String, Fault> {
        let all = Self::all(api, cx, (path, list, ""))?;
        let of = |key: &str| {
            all.iter()
                .filter(|item| field(item, key) == given)
                .collect::<Vec<_>>()
        };
        let (by_id, by_name) = (of("id"), of("name"));
        match (by_id.as_slice(), by_name.as_slice()) {
            ([one, ..], _) | (_, [one]) => Ok(field(one, "id")),
            (_, []) => Err(Fault::wrong(format!(
                "{OPENSTACK}: {list} have no {given:?}"
            ))),
            (_, several) => Err(Fault::wrong(format!(
                "{OPENSTACK}: {} of the {list} have the name {given:?}: set the id of one",
                several.len()
            ))),
        }
    }

    /// Returns a network of a profile: a name, an id, or a dictionary of Nova.
    fn network(&self, cx: &Exec, given: &Value) -> Result<Map, Fault> {
        if let Some(map) = given.as_map() {
            return server::nic(map);
        }
        let given = given.to_text();
        let session = self.session(cx)?;
        let neutron = session.neutron.as_ref().ok_or_else(|| {
            Fault::wrong(format!(
                "{OPENSTACK}: the catalog has no service network, which has the network {given:?}"
            ))
        })?;
        let id = Self::id(neutron, cx, ("/networks", "networks"), &given)?;
        Ok(Map::new().with("uuid", id))
    }

    /// Finds what a profile names.
    fn found(&self, cx: &Exec, spec: &Spec) -> Result<Found, Fault> {
        let session = self.session(cx)?;
        let flavor = spec.text("size").or_else(|| spec.text("flavor"));
        let missing = |key: &str| Fault::wrong(format!("{}: the profile has no {key}", spec.name));
        let flavor = flavor.ok_or_else(|| missing("size"))?;
        let image = match (spec.text("image"), spec.text("boot_volume")) {
            (Some(image), _) => Some(Self::id(
                &session.glance,
                cx,
                ("/images", "images"),
                &image,
            )?),
            (None, Some(_)) => None,
            (None, None) => return Err(missing("image")),
        };
        let networks = ["network", "networks", "nics"]
            .iter()
            .find_map(|key| spec.get(key));
        let networks = match networks {
            Some(Value::List(all)) => all.to_vec(),
            Some(one) => vec![one.clone()],
            None => Vec::new(),
        };
        let networks = networks.iter().map(|given| self.network(cx, given));
        Ok(Found {
            flavor: Self::id(&session.nova, cx, ("/flavors/detail", "flavors"), &flavor)?,
            image,
            networks: networks.collect::<Result<_, _>>()?,
        })
    }
}

impl Driver for OpenStack {
    fn boot(&self) -> Boot {
        Boot::UserData
    }

    fn list(&self, cx: &Exec) -> Result<Vec<Machine>, Fault> {
        self.servers(cx, "")
    }

    fn create(&self, cx: &Exec, asked: &Wanted<'_>) -> Result<Machine, Fault> {
        let name = asked.spec.name.as_str();
        let own = self.servers(cx, &query(&[("name", name)]))?;
        let is_own = |machine: &Machine| machine.token.as_deref() == Some(asked.token);
        if let Some(machine) = own.into_iter().find(is_own) {
            return Ok(machine);
        }
        let body = wanted(asked, &self.found(cx, asked.spec)?)?;
        let session = self.session(cx)?;
        let nova = &session.nova;
        let answer = nova.post(cx, "/servers", Map::new().with("server", body))?;
        let password = answer.traverse("server:adminPass", ":");
        secret::keep(&[], password.unwrap_or(&Value::Null));
        let id = field(&answer, "server:id");
        match id.is_empty() {
            true => Err(nova.lacks("/servers", "id of the server")),
            false => Ok(Machine {
                name: name.to_owned(),
                id,
                state: "BUILD".to_owned(),
                token: Some(asked.token.to_owned()),
                ..Machine::default()
            }),
        }
    }

    fn destroy(&self, cx: &Exec, machine: &Machine) -> Result<Value, Fault> {
        let session = self.session(cx)?;
        let nova = &session.nova;
        let path = path(&["servers", &machine.id]);
        // Nova answers before it removes the server, and the removal may fail.
        if nova.delete(cx, &path)?.is_some() {
            let work = format!("the removal of {}", machine.name);
            api::until((OPENSTACK, &work), REMOVAL_MAX, || {
                Self::removed(nova, cx, &machine.id)
            })?;
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
        let action = match fun {
            "start" => Map::new().with("os-start", Value::Null),
            "stop" => Map::new().with("os-stop", Value::Null),
            "reboot" => Map::new().with("reboot", Map::new().with("type", "SOFT")),
            _ => return Ok(None),
        };
        let path = path(&["servers", &machine.id, "action"]);
        self.session(cx)?.nova.post(cx, &path, action)?;
        Ok(super::acted(fun, &machine.name))
    }

    fn function(&self, cx: &Exec, fun: &str, _kwargs: &Map) -> Result<Option<Value>, Fault> {
        let list = match fun {
            "list_networks" => "networks",
            "list_subnets" => "subnets",
            _ => return Ok(None),
        };
        let session = self.session(cx)?;
        let Some(neutron) = &session.neutron else {
            return Err(Fault::wrong(format!(
                "{OPENSTACK}: the catalog has no service network"
            )));
        };
        let all = Self::all(neutron, cx, (&path(&[list]), list, ""))?;
        Ok(Some(api::by(all, &["name", "id"]).into()))
    }

    fn offers(&self, cx: &Exec, offer: Offer) -> Result<Map, Fault> {
        let session = self.session(cx)?;
        match offer {
            Offer::Images => {
                let all = Self::all(&session.glance, cx, ("/images", "images", ""))?;
                Ok(api::by(all, &["name", "id"]))
            }
            Offer::Sizes => {
                let all = Self::all(&session.nova, cx, ("/flavors/detail", "flavors", ""))?;
                Ok(api::by(all, &["name"]))
            }
            Offer::Locations => {
                let answer = session.nova.get(cx, "/os-availability-zone")?;
                let zones = items(&answer, "availabilityZoneInfo").to_vec();
                Ok(api::by(zones, &["zoneName"]))
            }
        }
    }

    fn has_failed(&self, state: &str) -> bool {
        state.starts_with("ERROR")
    }
}
