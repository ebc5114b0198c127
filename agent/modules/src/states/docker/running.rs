//! The state `docker_container.running`: creates a container as described, compares it with the
//! existing one, and replaces that one if they differ.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, sorted};

use super::ret_with_comments;
use crate::exec::docker::compare::{self, AUTOMATIC, from_to};
use crate::exec::docker::containers::{self, Removal, WANTED};
use crate::exec::docker::create::CreateOptions;
use crate::exec::docker::{Client, Kind, images, repacked, send};

/// The arguments of the state.
pub(super) struct Request<'a> {
    pub(super) name: &'a str,
    pub(super) image: &'a str,
    pub(super) force: bool,
    /// The signal that is sent because of a change of a watched state.
    pub(super) signal: Option<&'a str>,
    pub(super) start: bool,
    pub(super) shutdown_timeout: Option<i64>,
    pub(super) client_timeout: i64,
    pub(super) networks: &'a Value,
    pub(super) ignore_collisions: bool,
    pub(super) validate_ip_addrs: bool,
    pub(super) given: Map,
}

/// Returns the networks that an argument names, each with the container's settings in it. All of
/// them must exist.
pub(super) fn networks(client: &Client<'_>, given: &Value) -> Result<Map, Ret> {
    let failed = |text: &str| Ret::failed(text.to_owned());
    let given = match given {
        Value::Null => return Ok(Map::new()),
        Value::Str(_) => Value::from(given.split_input()),
        other => other.clone(),
    };
    let items = match &given {
        Value::Map(map) => map
            .iter()
            .map(|(key, value)| Some((key.to_text(), value.clone())))
            .collect(),
        Value::List(items) => items.iter().map(named).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    let items = items.ok_or_else(|| failed("Invalid network configuration (see documentation)"))?;
    let (mut nets, mut errors) = (Map::new(), Vec::new());
    for (name, config) in items {
        let Ok(config) = config_of(&config) else {
            return Err(failed(&format!(
                "Invalid configuration for network '{name}' (see documentation)"
            )));
        };
        let missing = config.iter().filter(|(_, value)| value.is_null());
        errors.extend(missing.map(|(key, _)| {
            format!(
                "Config option '{}' for network '{name}' is missing a value",
                key.to_text()
            )
        }));
        nets.insert(name, config);
    }
    if !errors.is_empty() {
        return Err(ret_with_comments(Some(false), &errors, Map::new()));
    }
    let mut missing = Vec::new();
    for name in nets.keys().map(Value::to_text) {
        match client.found(Kind::Network, &name) {
            Ok(Some(_)) => {}
            Ok(None) => missing.push(name),
            Err(why) => {
                return Err(failed(&format!(
                    "Failed to get list of existing networks: {why}."
                )));
            }
        }
    }
    sorted::sort(&mut missing);
    match missing.is_empty() {
        true => Ok(nets),
        false => Err(failed(&format!(
            "The following networks are not present: {}",
            missing.join(", ")
        ))),
    }
}

fn named(item: &Value) -> Option<(String, Value)> {
    match item {
        Value::Map(map) if map.len() == 1 => {
            let (name, config) = map.first()?;
            Some((name.to_text(), config.clone()))
        }
        Value::Map(_) | Value::List(_) => None,
        name => Some((name.to_text(), Value::Null)),
    }
}

fn config_of(given: &Value) -> Result<Map, ()> {
    let mut config = match repacked(given) {
        Value::Null => return Ok(Map::new()),
        Value::Map(config) if !config.is_empty() => config,
        _ => return Err(()),
    };
    for key in ["links", "aliases"] {
        if let Some(words) = config.get(key).filter(|words| !words.is_null()) {
            let words = words.split_input();
            config.insert(key, words);
        }
    }
    Ok(config)
}

/// Returns the id of an image. A missing image is pulled, except in test mode, where the result is
/// `None`.
pub(super) fn image(
    client: &Client<'_>,
    name: &str,
    changes: &mut Map,
) -> Result<Option<String>, Error> {
    let there = images::id(client, name)?;
    if there.is_some() || client.cx.test {
        return Ok(there);
    }
    let pulled = images::pull(client, name)
        .map_err(|why| Error::refused(format!("Failed to pull {name}: {why}")))?;
    changes.insert("image", pulled);
    match images::id(client, name)? {
        None => Err(Error::refused(format!(
            "Image '{name}' not present despite a docker pull raising no errors"
        ))),
        id => Ok(id),
    }
}

/// The progress of the state for one container.
struct Work<'a> {
    cx: &'a Exec,
    client: Client<'a>,
    request: Request<'a>,
    nets: Map,
    changes: Map,
    comments: Vec<String>,
    warnings: Vec<String>,
    result: Option<bool>,
}

/// The container that was created for the comparison.
struct Temp {
    name: String,
    id: Value,
    /// True if it is removed at the end.
    goes: bool,
}

/// Signals that the state ended early. The reason is in the comments.
struct Stop;

type Step<T> = Result<Result<T, Stop>, Error>;

pub(super) fn running(cx: &Exec, request: Request<'_>) -> Result<Ret, Error> {
    let client = Client::detect(cx)?.patient(request.client_timeout.max(1));
    let nets = match networks(&client, request.networks) {
        Ok(nets) => nets,
        Err(ret) => return Ok(ret),
    };
    let mut changes = Map::new();
    let image_id = match image(&client, request.image, &mut changes) {
        Ok(id) => id,
        Err(why) => return Ok(Ret::failed(why.to_string()).changes(changes)),
    };
    let work = Work {
        cx,
        client,
        request,
        nets,
        changes,
        comments: Vec::new(),
        warnings: Vec::new(),
        result: Some(true),
    };
    work.done(image_id)
}

impl Work<'_> {
    fn done(mut self, image_id: Option<String>) -> Result<Ret, Error> {
        if self.apply(image_id)?.is_err() && self.result == Some(true) {
            self.result = Some(false);
        }
        let mut ret = ret_with_comments(self.result, &self.comments, self.changes);
        ret.warnings = self.warnings;
        Ok(ret)
    }

    fn fail<T>(&mut self, comment: String) -> Result<T, Stop> {
        self.result = Some(false);
        self.comments.push(comment);
        Err(Stop)
    }

    fn apply(&mut self, image_id: Option<String>) -> Step<()> {
        let name = self.request.name.to_owned();
        let there = self.client.found(Kind::Container, &name)?;
        let current = there
            .as_ref()
            .and_then(|own| own.get("Image"))
            .map(Value::to_text);
        if there.is_some() && current.is_none() {
            return Ok(self.fail(format!(
                "Unable to detect current image for container '{name}'. This might be due to a change in the Docker API."
            )));
        }
        let before = there.as_ref().map(containers::state_of);
        let has_new_image = there.is_some() && current != image_id;
        let is_certain = self.request.force || there.is_none() || has_new_image;
        if is_certain && self.cx.test {
            self.foretell(there.is_some(), (&current, &image_id));
            return Ok(Ok(()));
        }
        let Ok(mut temp) = self.made(there.is_some(), !is_certain)? else {
            return Ok(Err(Stop));
        };
        let compared = self.compared(there.as_ref(), &mut temp, is_certain);
        let has_failed = !matches!(compared, Ok(Ok(())));
        if temp.goes || (has_failed && temp.name != name) {
            self.discarded(&temp.name)?;
        }
        if compared?.is_err() {
            return Ok(Err(Stop));
        }
        if is_certain && self.placed(there.is_some(), &temp)?.is_err() {
            return Ok(Err(Stop));
        }
        let Ok(after) = self.started(before, temp.goes)? else {
            return Ok(Err(Stop));
        };
        self.concluded(
            (before, after),
            has_new_image.then_some((current, image_id)),
        )
    }

    /// Sets the result of test mode if no comparison is needed.
    fn foretell(&mut self, exists: bool, (old, new): (&Option<String>, &Option<String>)) {
        self.result = None;
        if self.request.force {
            self.changes.insert("forced_update", true);
        } else {
            let id = |id: &Option<String>| id.clone().map_or(Value::Bool(false), Value::from);
            let old = old.clone();
            self.changes.insert("image", from_to(old, id(new)));
        }
        self.comments.push(self.would(exists));
    }

    fn would(&self, exists: bool) -> String {
        let what = if exists { "replaced" } else { "created" };
        format!("Container '{}' would be {what}", self.request.name)
    }

    /// Creates the container itself if it does not exist, otherwise a temporary one for the
    /// comparison.
    fn made(&mut self, exists: bool, goes: bool) -> Step<Temp> {
        let name = match exists {
            true => format!("{WANTED}{}", self.request.name),
            false => self.request.name.to_owned(),
        };
        if exists {
            // It is left over from an interrupted run.
            self.discarded(&name)?;
        }
        let mut given = self.request.given.clone();
        if !self.nets.is_empty() {
            given.insert("networks", self.nets.clone());
        }
        let arguments = CreateOptions {
            name: Some(&name),
            ignore_collisions: self.request.ignore_collisions,
            validate_ip_addrs: self.request.validate_ip_addrs,
            given: &given,
        };
        Ok(
            match containers::create(&self.client, self.request.image, &arguments) {
                Ok(made) => Ok(Temp {
                    id: made.get("Id").cloned().unwrap_or_default(),
                    name,
                    goes,
                }),
                Err(why) => {
                    let why = why.to_string();
                    let hint = "\n\nIf you feel this information is incorrect, the skip_translate argument can be used to skip input translation for the argument(s) identified as invalid. See the documentation for details.";
                    let hint = if why.contains("\ninvalid:\n") {
                        hint
                    } else {
                        ""
                    };
                    self.fail(format!("{why}{hint}"))
                }
            },
        )
    }

    fn discarded(&self, name: &str) -> Result<(), Error> {
        if self.client.found(Kind::Container, name)?.is_some() {
            let force = true;
            containers::rm(
                &self.client,
                name,
                Removal {
                    force,
                    ..Removal::default()
                },
            )?;
        }
        Ok(())
    }

    /// Connects the new container to its networks, and compares it with the existing one.
    fn compared(&mut self, there: Option<&Map>, temp: &mut Temp, is_certain: bool) -> Step<()> {
        let Ok((alone, made)) = self.connected(temp)? else {
            return Ok(Err(Stop));
        };
        let (first, second) = self.fixed(there.unwrap_or(&alone), &made);
        let net_changes = compare::networks(&first, &second);
        if let Some(there) = there.filter(|_| !is_certain)
            && self.replaced_if_changed(there, &made, temp)?.is_err()
        {
            return Ok(Err(Stop));
        }
        if net_changes.is_empty() {
            return Ok(Ok(()));
        }
        let container = self.changes.entry("container", || Map::new().into());
        if let Some(container) = container.as_map_mut() {
            container.insert("Networks", net_changes.clone());
        }
        if self.cx.test {
            self.result = None;
            self.comments
                .push("Network configuration would be updated".into());
            return Ok(Ok(()));
        }
        match temp.goes {
            true => self.reconnected(&net_changes),
            false => Ok(Ok(())),
        }
    }

    /// Connects the new container to its networks, and disconnects it from all others if the state
    /// names networks. Returns the container before and after this.
    fn connected(&mut self, temp: &Temp) -> Step<(Map, Map)> {
        let alone = self.client.inspect(Kind::Container, &temp.name)?;
        let is_there = compare::nets(&alone);
        for (net, config) in self.nets.clone().iter() {
            let net = net.to_text();
            let config = config.as_map().cloned().unwrap_or_default();
            if is_there.contains(&net) {
                continue;
            }
            if let Err(why) = containers::connect(&self.client, &temp.name, &net, &config) {
                return Ok(self.fail(why.to_string()));
            }
        }
        let mut now = self.client.inspect(Kind::Container, &temp.name)?;
        if !self.request.networks.is_null() {
            let nets = compare::nets(&now);
            let extra: Vec<String> = nets
                .keys()
                .map(Value::to_text)
                .filter(|net| !self.nets.contains(net))
                .collect();
            for net in &extra {
                containers::disconnect(&self.client, &temp.name, net)?;
            }
            if !extra.is_empty() {
                now = self.client.inspect(Kind::Container, &temp.name)?;
            }
        }
        Ok(Ok((alone, now)))
    }

    /// Adds the requested addresses to both containers for the comparison, since Podman does not
    /// report them. For the existing container these are its current addresses.
    fn fixed(&self, first: &Map, second: &Map) -> (Map, Map) {
        let (mut first, mut second) = (first.clone(), second.clone());
        if !self.client.podman {
            return (first, second);
        }
        for (net, config) in &self.nets {
            let (mut has, mut wants) = (Map::new(), Map::new());
            for (asked, key, told) in [
                ("ipv4_address", "IPv4Address", "IPAddress"),
                ("ipv6_address", "IPv6Address", "GlobalIPv6Address"),
            ] {
                let Some(wanted) = config.get(asked).filter(|wanted| wanted.is_true()) else {
                    continue;
                };
                let own = compare::nets(&first)
                    .get_value(net)
                    .and_then(|own| own.get(told))
                    .cloned();
                let own = own.filter(Value::is_true).unwrap_or_else(|| wanted.clone());
                has.insert(key, own);
                wants.insert(key, wanted.clone());
            }
            if !wants.is_empty() {
                note(&mut first, net, has);
                note(&mut second, net, wants);
            }
        }
        (first, second)
    }

    fn replaced_if_changed(&mut self, there: &Map, made: &Map, temp: &mut Temp) -> Step<()> {
        let changes = compare::containers(there, made, &[]);
        let name = self.request.name.to_owned();
        if changes.is_empty() {
            let signal = self.request.signal.map(str::to_owned);
            return self.unchanged(&name, signal);
        }
        if is_odd(&changes) {
            let without = if self.cx.test {
                " without test=True"
            } else {
                ""
            };
            self.warnings.push(format!(
                "The detected changes may be due to incorrect handling of arguments in earlier Salt releases. If this warning persists after running the state again{without}, and no changes were made to the SLS file, then please report this."
            ));
        }
        self.changes.insert("container", changes);
        if self.cx.test {
            self.result = None;
            let would = self.would(true);
            self.comments.push(would);
            return Ok(Ok(()));
        }
        temp.goes = false;
        self.replaced(temp)
    }

    fn unchanged(&mut self, name: &str, signal: Option<String>) -> Step<()> {
        match signal {
            Some(signal) if self.cx.test => {
                self.comments
                    .push(format!("Signal {signal} would be sent to container"));
            }
            Some(signal) => {
                if let Err(why) = send(&self.client, name, &signal) {
                    return Ok(self.fail(format!("Failed to signal container: {why}")));
                }
                self.comments
                    .push(format!("Sent signal {signal} to container"));
                self.changes.insert("signal", signal);
            }
            None => self.comments.push(format!(
                "Container '{name}' is already configured as specified"
            )),
        }
        Ok(Ok(()))
    }

    /// Replaces the existing container with the new one.
    fn replaced(&mut self, temp: &Temp) -> Step<()> {
        let name = self.request.name.to_owned();
        let how = Removal {
            stop: true,
            timeout: self.request.shutdown_timeout,
            ..Removal::default()
        };
        let removed = containers::rm(&self.client, &name, how)?;
        self.noted("removed", removed.into());
        match containers::rename(&self.client, &temp.name, &name) {
            Ok(true) => {}
            Ok(false) => return Ok(self.fail(format!("Failed to replace container '{name}'"))),
            Err(why) => {
                self.comments
                    .push(format!("Failed to rename temp container: {why}"));
                return Ok(self.fail(format!("Failed to replace container '{name}'")));
            }
        }
        self.comments.push(format!("Replaced container '{name}'"));
        self.noted("added", temp.id.clone());
        Ok(Ok(()))
    }

    fn noted(&mut self, key: &str, value: Value) {
        let ids = self.changes.entry("container_id", || Map::new().into());
        if let Some(ids) = ids.as_map_mut() {
            ids.insert(key, value);
        }
    }

    /// Updates the networks of a container that is not replaced.
    fn reconnected(&mut self, net_changes: &Map) -> Step<()> {
        let name = self.request.name.to_owned();
        let mut nets: Vec<String> = net_changes.keys().map(Value::to_text).collect();
        sorted::sort(&mut nets);
        let mut has_failed = false;
        for net in nets {
            let mut errors = Vec::new();
            let was = compare::nets(&self.client.inspect(Kind::Container, &name)?).contains(&net);
            let left = was
                && noted(
                    containers::disconnect(&self.client, &name, &net),
                    &mut errors,
                );
            let config = self.nets.get(&net).and_then(Value::as_map).cloned();
            let came = config.is_some_and(|config| {
                noted(
                    containers::connect(&self.client, &name, &net, &config),
                    &mut errors,
                )
            });
            has_failed |= !errors.is_empty();
            self.comments.append(&mut errors);
            match (left, came) {
                (true, true) => self.comments.push(format!(
                    "Reconnected to network '{net}' with updated configuration"
                )),
                (true, false) => self
                    .comments
                    .push(format!("Disconnected from network '{net}'")),
                (false, true) => self.comments.push(format!("Connected to network '{net}'")),
                (false, false) => {}
            }
        }
        if has_failed {
            self.result = Some(false);
            return Ok(Err(Stop));
        }
        Ok(Ok(()))
    }

    /// Puts the container in place that was created without a comparison.
    fn placed(&mut self, exists: bool, temp: &Temp) -> Step<()> {
        if exists {
            return self.replaced(temp);
        }
        self.comments
            .push(format!("Created container '{}'", self.request.name));
        self.noted("added", temp.id.clone());
        Ok(Ok(()))
    }

    /// Starts the container if it must run, and returns its state afterwards.
    fn started(&mut self, before: Option<&'static str>, is_same: bool) -> Step<Option<Value>> {
        let (start, name) = (self.request.start, self.request.name);
        let starts = match is_same {
            true => start && before != Some("running"),
            false => before.is_none() || start,
        };
        if !starts {
            return Ok(Ok(Some(containers::state(&self.client, name)?.into())));
        }
        if self.cx.test {
            self.result = None;
            self.comments.push("Container would be started".into());
            return Ok(Ok(None));
        }
        Ok(match containers::start(&self.client, name) {
            Ok(done) => Ok(done
                .get("state")
                .and_then(|state| state.get("new"))
                .cloned()),
            Err(why) => self.fail(format!("Failed to start container '{name}': '{why}'")),
        })
    }

    fn concluded(
        &mut self,
        (before, after): (Option<&'static str>, Option<Value>),
        new_image: Option<(Option<String>, Option<String>)>,
    ) -> Step<()> {
        let Some(after) = after else {
            return Ok(Ok(()));
        };
        let runs = after.as_str() == Some("running");
        if runs && !self.cx.test {
            self.addressed()?;
        }
        let before = Value::from(before.map(str::to_owned));
        if before != after {
            if !before.is_null() {
                let (old, new) = (before.to_text(), after.to_text());
                self.comments
                    .push(format!("State changed from '{old}' to '{new}'"));
            }
            self.changes.insert("state", from_to(before, after));
        }
        if let Some((old, new)) = new_image {
            self.comments.push("Container has a new image".into());
            self.changes.insert("image", from_to(old, new));
        }
        if !runs && self.request.start {
            return Ok(self.fail("Container is not running".into()));
        }
        Ok(Ok(()))
    }

    /// Adds the addresses to the changes that were chosen at the start of the container.
    fn addressed(&mut self) -> Result<(), Error> {
        let changed = self
            .changes
            .get_mut("container")
            .and_then(Value::as_map_mut);
        let changed = changed.and_then(|container| container.get_mut("Networks")?.as_map_mut());
        let Some(changed) = changed else {
            return Ok(());
        };
        let nets = compare::nets(&self.client.inspect(Kind::Container, self.request.name)?);
        for (net, found) in changed.iter_mut() {
            let way = found.get("IPConfiguration").and_then(|way| way.get("new"));
            let is_chosen = way.and_then(Value::as_str) == Some("automatic");
            let Some(found) = found.as_map_mut().filter(|_| is_chosen) else {
                continue;
            };
            for key in AUTOMATIC {
                let value = nets.get_value(net).and_then(|net| net.get(key)).cloned();
                if let Some(value) = value.filter(Value::is_true) {
                    found.insert(key, from_to(Value::Null, value));
                    found.remove("IPConfiguration");
                }
            }
        }
        Ok(())
    }
}

/// Records the requested addresses of a container in a network.
fn note(container: &mut Map, net: &Value, addresses: Map) {
    let settings = container
        .get_mut("NetworkSettings")
        .and_then(Value::as_map_mut);
    let nets = settings.and_then(|settings| settings.get_mut("Networks")?.as_map_mut());
    if let Some(net) = nets.and_then(|nets| nets.get_value_mut(net)?.as_map_mut()) {
        net.insert("IPAMConfig", addresses);
    }
}

/// Returns whether an operation succeeded. The error of a failed one is recorded.
fn noted(done: Result<(), Error>, errors: &mut Vec<String>) -> bool {
    match done {
        Ok(()) => true,
        Err(why) => {
            errors.push(why.to_string());
            false
        }
    }
}

/// Returns whether a change would only remove something empty. This indicates arguments that an old
/// version of Salt handled incorrectly.
fn is_odd(changes: &Map) -> bool {
    let is_empty = |old: &Value| match old {
        Value::Str(text) => text.is_empty(),
        Value::List(items) => items.iter().all(|item| item.as_str() == Some("")),
        _ => false,
    };
    let parts = changes.values().filter_map(Value::as_map);
    let mut items = parts.flat_map(Map::values);
    items.any(|item| {
        item.get("new").is_some_and(Value::is_null) && item.get("old").is_some_and(is_empty)
    })
}
