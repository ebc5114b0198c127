//! The `docker_network` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::networks::Network;
use value::{Map, Value};

use crate::exec::docker::{Client, Kind, compare, containers, create, drop_network};

/// The name of the temporary network that is created only for a comparison.
const WANTED: &str = "pinch-wanted-network";

state::state_module! {
    /// Manage networks of containers with the program docker or podman.
    #[module(virtual_ = super::missing)]
    #[facts(free_arguments = true)]
    mod docker_network;

    /// Make sure that a network exists as described.
    ///
    ///     backend:
    ///       docker_network.present:
    ///         - subnet: 10.20.0.0/24
    fn present(Present {
        /// The name of the network.
        name: String,
        /// Accepted but ignored: only the options of the program itself are checked.
        skip_translate: Value = Value::Null,
        /// True to allow that an argument is given twice, by two names.
        ignore_collisions: bool = false,
        /// True to check addresses.
        validate_ip_addrs: bool = true,
        /// The containers that must be connected to the network.
        containers: Value = Value::Null,
        /// True to reconnect the containers of a network that had to be created again.
        reconnect: bool = true,
        ..kwargs
    });

    /// Make sure that a network does not exist.
    ///
    ///     backend:
    ///       docker_network.absent
    fn absent(Absent {
        /// The name of the network.
        name: String,
    });
}

/// Returns the containers to connect: the running ones by id, and warnings about those that do not
/// exist or do not run.
fn wanted(client: &Client<'_>, given: &Value) -> Result<(Map, Vec<String>), Error> {
    let names = match given.is_true() {
        true => given.split_input(),
        false => Vec::new(),
    };
    let (mut running, mut missing, mut stopped) = (Map::new(), Vec::new(), Vec::new());
    for name in names {
        match client.found(Kind::Container, &name)? {
            None => missing.push(name),
            Some(own) if containers::state_of(&own) == "stopped" => stopped.push(name),
            Some(own) => {
                let id = own.get("Id").cloned().unwrap_or_default();
                running.insert(id, Map::new().with("Name", name));
            }
        }
    }
    let mut warnings = Vec::new();
    for (names, what) in [(missing, "do not exist"), (stopped, "are not running")] {
        if !names.is_empty() {
            warnings.push(format!(
                "The following containers {what}: {}.",
                names.join(", ")
            ));
        }
    }
    Ok((running, warnings))
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let client = Client::detect(cx)?;
    let there = match client.found(Kind::Network, &args.name) {
        Ok(there) => there,
        Err(why) => return Ok(Ret::failed(why.to_string())),
    };
    let (running, warnings) = wanted(&client, &args.containers)?;
    let checks = (args.ignore_collisions, args.validate_ip_addrs);
    let known = match create::network(&args.kwargs, checks) {
        Ok(known) => known,
        Err(why) => {
            return Ok(Ret {
                warnings,
                ..Ret::failed(why.to_string())
            });
        }
    };
    let work = Work {
        client,
        name: args.name,
        known,
        named: !args.containers.is_null(),
        reconnect: args.reconnect,
        changes: Map::new(),
    };
    let mut ret = work.done(cx, there, running)?;
    ret.warnings.splice(0..0, warnings);
    Ok(ret)
}

/// The progress of the state for one network.
struct Work<'a> {
    client: Client<'a>,
    name: String,
    known: Map,
    /// True if the state names containers.
    named: bool,
    reconnect: bool,
    changes: Map,
}

impl Work<'_> {
    fn done(mut self, cx: &Exec, there: Option<Map>, running: Map) -> Result<Ret, Error> {
        let name = self.name.clone();
        let mut disconnected = Map::new();
        let mut left = Map::new();
        let mut comment =
            format!("Network '{name}' already exists, and is configured as specified");
        let mut is_made = there.is_none();
        if let Some(there) = &there {
            let changes = match self.differences(there) {
                Ok(changes) => changes,
                Err(why) => {
                    return Ok(Ret::failed(format!(
                        "Failed to create temp network for comparison: {why}"
                    )));
                }
            };
            left = there
                .get("Containers")
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default();
            if !changes.is_empty() {
                self.changes.insert(name.as_str(), changes);
                if cx.test {
                    return Ok(Ret::would("Network would be recreated with new config")
                        .changes(self.changes));
                }
                disconnected = self.remembered(&left)?;
                let removed = removed(&self.client, there)?;
                if removed.result != Some(true) {
                    return Ok(removed);
                }
                (is_made, left) = (true, Map::new());
            }
        }
        if is_made {
            if cx.test {
                return Ok(Ret::would("Network will be created"));
            }
            if let Err(why) = create::make_network(&self.client, &name, &self.known) {
                let failed = Ret::failed(format!("Failed to create network '{name}': {why}"));
                return Ok(failed.changes(self.changes));
            }
            let (word, what) = match there {
                None => ("created", "created"),
                Some(_) => ("recreated", "was replaced with updated config"),
            };
            self.changes.insert(word, true);
            comment = format!("Network '{name}' {what}");
        }
        self.connected(cx, comment, (running, disconnected), &left)
    }

    /// Returns the differences between the existing network and the wanted one. For this it creates
    /// a temporary network and removes it again. The temporary network has no `ipam` settings,
    /// since two networks cannot use the same addresses.
    fn differences(&self, there: &Map) -> Result<Map, Error> {
        let (mut plain, mut ipam) = (self.known.clone(), Map::new());
        if let Some(Value::Map(own)) = plain.remove("ipam") {
            ipam = own;
        }
        let ipv6 = plain
            .remove("enable_ipv6")
            .is_some_and(|ipv6| ipv6.is_true());
        let bridge = "com.docker.network.bridge.name";
        if let Some(Value::Map(options)) = plain.get_mut("options")
            && options.remove(bridge).is_some()
        {
            options.insert(bridge, "pinch-wanted");
        }
        if self.client.found(Kind::Network, WANTED)?.is_some() {
            // It is left over from an interrupted run.
            drop_network(&self.client, WANTED)?;
        }
        create::make_network(&self.client, WANTED, &plain)?;
        let made = self.client.inspect(Kind::Network, WANTED);
        drop_network(&self.client, WANTED)?;
        let (made, there) = (
            made?.with("EnableIPv6", ipv6),
            without_own_choice(there, &ipam),
        );
        let made = made.with("IPAM", ipam);
        let ignore = ["Name", "Id", "Created", "Containers"].map(str::to_owned);
        Ok(compare::two_networks(&there, &made, &ignore))
    }

    /// Returns the links and aliases of the containers of a network that is replaced, so that the
    /// containers can be reconnected.
    fn remembered(&self, left: &Map) -> Result<Map, Error> {
        let mut all = left.clone();
        if self.named || !self.reconnect {
            return Ok(all);
        }
        for (id, told) in all.iter_mut() {
            let Some(container) = self.client.found(Kind::Container, &id.to_text())? else {
                continue;
            };
            let nets = compare::nets(&container);
            for key in ["Links", "Aliases"] {
                let value = nets.get(&self.name).and_then(|net| net.get(key)).cloned();
                if let (Some(told), Some(value)) = (told.as_map_mut(), value.filter(Value::is_true))
                {
                    told.insert(key, value);
                }
            }
        }
        Ok(all)
    }

    fn connected(
        mut self,
        cx: &Exec,
        mut comment: String,
        (running, disconnected): (Map, Map),
        left: &Map,
    ) -> Result<Ret, Error> {
        let mut to_connect = match !self.named && self.reconnect && !disconnected.is_empty() {
            true => disconnected.clone(),
            false => running,
        };
        to_connect.retain(|id, _| !left.contains_value(id));
        if cx.test && !to_connect.is_empty() {
            // Unlike here, Salt connects them in test mode too.
            let names = to_connect.values().filter_map(|told| told.get("Name"));
            let names: Vec<String> = names.map(Value::to_text).collect();
            return Ok(Ret::would(format!(
                "The following containers would be connected: {}",
                names.join(", ")
            )));
        }
        let mut errors = Vec::new();
        for (id, told) in &to_connect {
            let is_back = disconnected.contains_value(id);
            match self.connect(&id.to_text(), told, is_back) {
                Err(why) => errors.push(why.to_string()),
                Ok(()) => {
                    let word = if is_back { "reconnected" } else { "connected" };
                    self.listed(word, told);
                }
            }
        }
        for (_, told) in disconnected
            .iter()
            .filter(|(id, _)| !to_connect.contains_value(id))
        {
            self.listed("disconnected", told);
        }
        Ok(match errors.is_empty() {
            true => Ret::ok(comment),
            false => {
                comment.push_str(&format!(". {}.", errors.join(". ")));
                Ret::failed(comment)
            }
        }
        .changes(self.changes))
    }

    fn listed(&mut self, word: &str, told: &Value) {
        let names = self.changes.entry(word, || Value::list([]));
        if let (Some(names), Some(name)) = (names.as_list_mut(), told.get("Name")) {
            names.push(name.clone());
        }
    }

    /// Connects a container. A reconnected container gets its former addresses, links and aliases
    /// if possible.
    fn connect(&self, id: &str, told: &Value, is_back: bool) -> Result<(), Error> {
        let mut config = Map::new();
        let keys = [
            ("IPv4Address", "ipv4_address"),
            ("IPv6Address", "ipv6_address"),
            ("Links", "links"),
            ("Aliases", "aliases"),
        ];
        for (key, argument) in keys.into_iter().filter(|_| is_back) {
            let Some(value) = told.get(key).filter(|value| value.is_true()) else {
                continue;
            };
            let value = match value.as_str() {
                Some(address) => address.split('/').next().unwrap_or_default().into(),
                None => value.clone(),
            };
            config.insert(argument, value);
        }
        let done = containers::connect(&self.client, id, &self.name, &config);
        match done {
            Err(_) if !config.is_empty() => {
                containers::connect(&self.client, id, &self.name, &Map::new())
            }
            done => done,
        }
    }
}

/// Returns a network without the addresses that the program chose by itself.
fn without_own_choice(there: &Map, wanted: &Map) -> Map {
    let mut there = there.clone();
    let pools = wanted
        .get("Config")
        .and_then(Value::as_list)
        .unwrap_or_default();
    let own = there.get_mut("IPAM").and_then(Value::as_map_mut);
    let Some(Value::List(own)) = own.and_then(|ipam| ipam.get_mut("Config")) else {
        return there;
    };
    let is_plain = |pool: &Value| {
        let keys = pool
            .as_map()
            .map(|pool| pool.keys().map(Value::to_text).collect::<Vec<_>>());
        keys.is_some_and(|keys| keys.iter().all(|key| key == "Gateway" || key == "Subnet"))
    };
    if pools.is_empty() && own.len() == 1 && own.iter().all(is_plain) {
        *own = Vec::new().into();
        return there;
    }
    let cleaned = own.iter().map(|pool| {
        let subnet = pool.get("Subnet");
        let of_it = pools.iter().find(|wanted| wanted.get("Subnet") == subnet);
        let asks = of_it.is_some_and(|wanted| wanted.get("Gateway").is_none());
        let mut pool = pool.as_map().cloned().unwrap_or_default();
        if asks && is_first(subnet, pool.get("Gateway")) {
            pool.remove("Gateway");
        }
        Value::from(pool)
    });
    *own = cleaned.collect::<Vec<_>>().into();
    there
}

/// Returns whether an address is the first one of a network. The program chooses it as the default
/// gateway.
fn is_first(subnet: Option<&Value>, address: Option<&Value>) -> bool {
    let subnet = subnet.and_then(|subnet| Network::parse(subnet.as_str()?, false).ok());
    let first = subnet.and_then(|subnet| subnet.addresses(1, 2).next());
    let address = address
        .and_then(Value::as_str)
        .and_then(|address| address.parse().ok());
    first.is_some() && first == address
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (client, name) = (Client::detect(cx)?, args.name);
    let there = match client.found(Kind::Network, &name) {
        Ok(there) => there,
        Err(why) => return Ok(Ret::failed(why.to_string())),
    };
    let Some(there) = there else {
        return Ok(Ret::ok(format!("Network '{name}' already absent")));
    };
    let would = Ret::would(format!("Network '{name}' will be removed"));
    cx.apply(would, || removed(&client, &there))
}

/// Removes a network, after its containers are disconnected.
fn removed(client: &Client<'_>, there: &Map) -> Result<Ret, Error> {
    let name = there.get("Name").map(Value::to_text).unwrap_or_default();
    let (mut left, mut errors) = (Vec::new(), Vec::new());
    let inside = there.get("Containers").and_then(Value::as_map);
    for id in inside.into_iter().flat_map(Map::keys).map(Value::to_text) {
        let own = client.found(Kind::Container, &id)?;
        let own = own.as_ref().map_or_else(|| id.clone(), compare::name);
        match containers::disconnect(client, &id, &name) {
            Ok(()) => left.push(own),
            Err(why) => errors.push(format!("Failed to disconnect container '{own}' : {why}")),
        }
    }
    let listed = |ret: Ret| match left.is_empty() {
        true => ret,
        false => ret.change("disconnected", left.clone()),
    };
    if !errors.is_empty() {
        return Ok(listed(Ret::failed(errors.join("\n"))));
    }
    Ok(match drop_network(client, &name) {
        Err(why) => listed(Ret::failed(format!("Failed to remove network: {why}"))),
        Ok(()) => listed(Ret::ok(format!("Removed network '{name}'"))).change("removed", true),
    })
}
