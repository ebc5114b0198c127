//! The `rabbitmq_upstream` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, json};

use super::failed;
use crate::exec::rabbitmq::{Rabbit, Upstream, upstream};

state::state_module! {
    /// Upstreams of RabbitMQ's federation.
    mod rabbitmq_upstream;

    /// Make sure that an upstream is there, and is as asked.
    fn present(Present {
        /// Its name.
        name: String,
        /// Where it is.
        uri: Value,
        /// As of the server's parameter.
        prefetch_count: Value = Value::Null,
        /// As of the server's parameter.
        reconnect_delay: Value = Value::Null,
        /// As of the server's parameter.
        ack_mode: Value = Value::Null,
        /// As of the server's parameter.
        trust_user_id: Value = Value::Null,
        /// As of the server's parameter.
        exchange: Value = Value::Null,
        /// As of the server's parameter.
        max_hops: Value = Value::Null,
        /// As of the server's parameter.
        expires: Value = Value::Null,
        /// As of the server's parameter.
        message_ttl: Value = Value::Null,
        /// As of the server's parameter.
        ha_policy: Value = Value::Null,
        /// As of the server's parameter.
        queue: Value = Value::Null,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Make sure that an upstream is not there.
    fn absent(Absent {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let rabbit = Rabbit::of(cx, args.runas.clone());
    let asked = upstream!(args);
    let name = &asked.name;
    let all = rabbit.upstreams().map_err(failed)?;
    let (action, changes) = match all.get(name) {
        None => (
            "create",
            Map::new()
                .with("old", Value::Null)
                .with("new", shown(&asked.map())),
        ),
        Some(is) => {
            let changes = difference(&read(&is.to_text())?, &asked);
            if changes.is_empty() {
                return Ok(Ret::ok(format!(
                    "Upstream \"{name}\" already present as specified."
                )));
            }
            ("update", changes)
        }
    };
    let would = format!("Upstream \"{name}\" would have been {action}d.");
    cx.apply(Ret::would(would), || {
        rabbit
            .set_upstream(&asked)
            .map_err(|why| Error::refused(format!("Error trying to {action} upstream: {why}")))?;
        Ok(Ret::ok(format!("Upstream \"{name}\" {action}d.")).changes(changes))
    })
}

fn read(definition: &str) -> Result<Map, Error> {
    let found = json::read(definition).ok();
    let found = found.and_then(|found| found.as_map().cloned());
    found.ok_or_else(|| Error::refused(format!("{definition} is no definition of an upstream")))
}

/// The settings without the passwords of addresses.
fn shown(settings: &Map) -> Map {
    let mut settings = settings.clone();
    let uri = settings.get("uri").cloned().unwrap_or_default();
    let hidden = match uri.as_list() {
        Some(list) => Value::list(list.iter().map(|uri| redacted(&uri.to_text()).into())),
        None => redacted(&uri.to_text()).into(),
    };
    if !uri.is_null() {
        settings.insert("uri", hidden);
    }
    settings
}

fn redacted(uri: &str) -> String {
    let parts = uri.split_once("://").and_then(|(scheme, rest)| {
        let (_, host) = rest.rsplit_once('@')?;
        Some(format!("{scheme}://<redacted>@{host}"))
    });
    parts.unwrap_or_else(|| uri.to_owned())
}

/// The settings that are not as asked, as they are and as they are to be.
fn difference(is: &Map, asked: &Upstream) -> Map {
    let wanted = asked.map();
    let apart = |one: &Map, other: &Map| -> Map {
        let apart = one
            .iter()
            .filter(|(key, value)| other.get_value(key) != Some(value));
        apart
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let (old, new) = (apart(is, &wanted), apart(&wanted, is));
    let mut changes = Map::new();
    for (key, side) in [("old", old), ("new", new)] {
        if !side.is_empty() {
            changes.insert(key, shown(&side));
        }
    }
    changes
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (rabbit, name) = (Rabbit::of(cx, args.runas), args.name);
    if !rabbit.upstreams().map_err(failed)?.contains(&name) {
        return Ok(Ret::ok(format!(
            "The upstream \"{name}\" is already absent."
        )));
    }
    let would = format!("Upstream \"{name}\" would have been deleted.");
    cx.apply(Ret::would(would), || {
        rabbit.delete_upstream(&name).map_err(failed)?;
        let changes = Map::new()
            .with("old", name.as_str())
            .with("new", Value::Null);
        Ok(Ret::ok(format!("Upstream \"{name}\" has been deleted.")).changes(changes))
    })
}
