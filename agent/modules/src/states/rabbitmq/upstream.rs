//! The `rabbitmq_upstream` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, json};

use super::failed;
use crate::exec::rabbitmq::{Rabbit, Upstream, UpstreamArgs};

state::state_module! {
    /// Manage upstreams of RabbitMQ's federation.
    #[needs("rabbitmqctl", "rabbitmq module could not be loaded", "rabbitmq-server")]
    mod rabbitmq_upstream;

    /// Make sure that an upstream exists with the given properties.
    ///
    ///     berlin:
    ///       rabbitmq_upstream.present:
    ///         - uri: amqp://rabbit.example.com
    fn present(Present {
        #[group] upstream: UpstreamArgs,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Make sure that an upstream does not exist.
    ///
    ///     berlin:
    ///       rabbitmq_upstream.absent
    fn absent(Absent {
        /// The name of the upstream.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let rabbit = Rabbit::new(cx, args.runas.clone());
    let requested = Upstream::from(args.upstream);
    let name = &requested.name;
    let all = rabbit.upstreams().map_err(failed)?;
    let (action, changes) = match all.get(name) {
        None => (
            "create",
            Map::new()
                .with("old", Value::Null)
                .with("new", redacted_settings(&requested.map())),
        ),
        Some(is) => {
            let changes = difference(&read(&is.to_text())?, &requested);
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
            .set_upstream(&requested)
            .map_err(|why| Error::refused(format!("Error trying to {action} upstream: {why}")))?;
        Ok(Ret::ok(format!("Upstream \"{name}\" {action}d.")).changes(changes))
    })
}

fn read(definition: &str) -> Result<Map, Error> {
    let found = json::read(definition).ok();
    let found = found.and_then(|found| found.as_map().cloned());
    found.ok_or_else(|| {
        Error::refused(format!(
            "{definition} is not a valid upstream definition: expected a JSON object"
        ))
    })
}

/// Returns the settings with the passwords in addresses redacted.
fn redacted_settings(settings: &Map) -> Map {
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

/// Returns the settings that differ from the wanted ones, with their old and new values.
fn difference(is: &Map, requested: &Upstream) -> Map {
    let wanted = requested.map();
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
            changes.insert(key, redacted_settings(&side));
        }
    }
    changes
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (rabbit, name) = (Rabbit::new(cx, args.runas), args.name);
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
