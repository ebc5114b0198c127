//! Logs in to registries.

use state::module::Error;
use value::{Map, Value};

use super::client::{CLIENT_SECONDS, Client, program_error};
use super::with_input;

/// Logs in to the named registries, or to all registries of the configuration and the pillar.
///
/// # Errors
/// When the pillar is not available.
pub(super) fn login(client: &Client<'_>, names: &[Value]) -> Result<Map, Error> {
    let mut errors = Vec::new();
    let known = configured(client, &mut errors)?;
    let names: Vec<String> = match names {
        [] => known.keys().map(Value::to_text).collect(),
        names => names.iter().map(Value::to_text).collect(),
    };
    let mut results = Map::new();
    for name in names {
        let Some(registry) = known.get(&name) else {
            errors.push(format!("No match found for registry '{name}'"));
            continue;
        };
        match credentials(&name, registry) {
            Err(problem) => errors.push(problem),
            Ok((user, password)) => {
                let said = one(client, &name, &user, &password)?;
                results.insert(name, said.is_none());
                errors.extend(said);
            }
        }
    }
    let code = i64::from(!errors.is_empty());
    let told = Map::new().with("retcode", code).with("Errors", errors);
    Ok(told.with("Results", results))
}

fn configured(client: &Client<'_>, errors: &mut Vec<String>) -> Result<Map, Error> {
    let own =
        client
            .cx
            .call_internal("config.get", vec!["docker-registries".into()], Map::new())?;
    let mut all = match own {
        Value::Map(all) => all,
        other if !other.is_true() => Map::new(),
        _ => {
            errors.push("'docker-registries' Pillar value must be a dictionary".into());
            Map::new()
        }
    };
    let wildcard = Map::new().with("wildcard", true);
    let more = client.cx.call_internal(
        "config.option",
        vec!["*-docker-registries".into()],
        wildcard,
    )?;
    for (name, registries) in more.as_map().into_iter().flatten() {
        match registries {
            Value::Map(registries) => all.update(registries.clone()),
            _ => errors.push(format!(
                "Docker registry '{}' was not specified as a dictionary",
                name.to_text()
            )),
        }
    }
    Ok(all)
}

fn credentials(name: &str, registry: &Value) -> Result<(String, String), String> {
    let Some(registry) = registry.as_map() else {
        return Err(format!("Invalid configuration for registry '{name}'"));
    };
    let part = |key: &str| {
        let value = registry.get(key).map(Value::to_text);
        value.ok_or_else(|| format!("Missing '{key}' for registry '{name}'"))
    };
    Ok((part("username")?, part("password")?))
}

/// Logs in to a registry, and returns the error message of the program if it fails. The password is
/// passed through standard input.
fn one(
    client: &Client<'_>,
    name: &str,
    user: &str,
    password: &str,
) -> Result<Option<String>, Error> {
    let server = match name.to_lowercase().as_str() {
        "hub" if client.podman => vec!["docker.io"],
        "hub" => Vec::new(),
        _ => vec![name],
    };
    let options = [format!("--username={user}"), "--password-stdin".to_owned()];
    let process = client.command(&["login"], options, &server);
    let output = client.run(&with_input(process, password, CLIENT_SECONDS), "login")?;
    Ok((!output.success()).then(|| program_error(&output).to_string()))
}
