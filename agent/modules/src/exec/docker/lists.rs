//! Lists containers, images, networks and volumes in the format of docker's API.

use std::path::Path;
use std::time::Instant;

use machine::process::{Process, Stderr};
use state::module::Error;
use value::{Map, Value};

use super::client::{Client, Kind, WORK_SECONDS_MAX, program_error, read};
use super::{compare, containers, images as image};

fn text(of: &Map, key: &str) -> String {
    of.get(key).map(Value::to_text).unwrap_or_default()
}

/// Inserts the creation time, as seconds since 1970 and as text.
fn created(told: &mut Map, of: &Map) {
    let Ok(time) = text(of, "Created").parse::<jiff::Timestamp>() else {
        return;
    };
    let local = time.to_zoned(jiff::tz::TimeZone::system());
    told.insert("Time_Created_Epoch", time.as_second());
    told.insert(
        "Time_Created_Local",
        local.strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
    );
}

/// Returns filters as options of the program.
fn filters(given: &Map) -> Vec<String> {
    let one = |(key, value): (&Value, &Value)| -> Vec<String> {
        let key = key.to_text();
        let values = match value {
            Value::Map(map) => {
                let pair = |(key, value): (&Value, &Value)| {
                    format!("{}={}", key.to_text(), value.to_text())
                };
                map.iter().map(pair).collect()
            }
            Value::List(items) => items.iter().map(Value::to_text).collect(),
            one => vec![one.to_text()],
        };
        values
            .iter()
            .map(|value| format!("--filter={key}={value}"))
            .collect()
    };
    given.iter().flat_map(one).collect()
}

/// Returns the containers, by id.
pub(super) fn ps(client: &Client<'_>, given: &Map, kwargs: &Map) -> Result<Map, Error> {
    let is = |key: &str| kwargs.get(key).is_some_and(Value::is_true);
    let mut options = filters(given);
    options.extend(["--no-trunc", "--format={{.ID}}|{{.Status}}"].map(str::to_owned));
    if is("all") {
        options.push("--all".into());
    }
    let said = client.tell(&["ps"], &options, &[])?;
    let mut told = Map::new();
    for (id, status) in said.lines().filter_map(|line| line.split_once('|')) {
        let Some(container) = client.found(Kind::Container, id)? else {
            continue;
        };
        let mut one = listed(&container, status);
        if is("verbose") {
            one.insert("Info", container);
        }
        told.insert(id, one);
    }
    if is("host") {
        let interfaces = client
            .cx
            .call_internal("network.interfaces", Vec::new(), Map::new())?;
        told.insert("host", Map::new().with("interfaces", interfaces));
    }
    Ok(told)
}

fn listed(container: &Map, status: &str) -> Map {
    let part = |key: &str| container.get(key).cloned().unwrap_or_default();
    let (config, state) = (part("Config"), part("State"));
    let mut line = vec![text(container, "Path")];
    line.extend(part("Args").texts());
    let mode = part("HostConfig").get("NetworkMode").cloned();
    let mut told = Map::new()
        .with("Names", vec![format!("/{}", compare::name(container))])
        .with("Image", config.get("Image").cloned())
        .with("ImageID", part("Image"))
        .with("Command", line.join(" ").trim())
        .with("Ports", ports(container))
        .with(
            "Labels",
            config
                .get("Labels")
                .filter(|all| all.is_true())
                .cloned()
                .unwrap_or_else(|| Map::new().into()),
        )
        .with("State", state.get("Status").cloned())
        .with("Status", status)
        .with("HostConfig", Map::new().with("NetworkMode", mode))
        .with(
            "NetworkSettings",
            Map::new().with("Networks", compare::nets(container)),
        )
        .with("Mounts", part("Mounts"));
    created(&mut told, container);
    told
}

/// Returns the ports of a container, with one entry each.
fn ports(container: &Map) -> Vec<Value> {
    let settings = container.get("NetworkSettings");
    let ports = settings
        .and_then(|settings| settings.get("Ports"))
        .and_then(Value::as_map);
    let mut all = Vec::new();
    for (port, bound) in ports.into_iter().flatten() {
        let port = port.to_text();
        let (port, kind) = port.split_once('/').unwrap_or((&port, "tcp"));
        let number = |text: &str| {
            text.parse::<i64>()
                .map_or_else(|_| text.into(), Value::from)
        };
        let own = Map::new()
            .with("PrivatePort", number(port))
            .with("Type", kind);
        let bound = bound.as_list().unwrap_or_default();
        all.extend(bound.iter().filter_map(Value::as_map).map(|bound| {
            let public = number(&text(bound, "HostPort"));
            own.clone()
                .with("IP", text(bound, "HostIp"))
                .with("PublicPort", public)
                .into()
        }));
        if bound.is_empty() {
            all.push(own.into());
        }
    }
    all
}

/// Returns the images, by id. Images without a name are included only if `all` is set.
pub(super) fn images(client: &Client<'_>, verbose: bool, all: bool) -> Result<Map, Error> {
    let mut told = Map::new();
    for found in image::all(client)? {
        let tags = image::tags(&found);
        if tags.is_empty() && !all {
            continue;
        }
        let id = found.get("Id").cloned().unwrap_or_default();
        let mut one = Map::new()
            .with(
                "ParentId",
                found.get("Parent").cloned().unwrap_or_else(|| "".into()),
            )
            .with("RepoTags", tags)
            .with("RepoDigests", found.get("RepoDigests").cloned())
            .with(
                "Labels",
                found
                    .get("Config")
                    .and_then(|config| config.get("Labels"))
                    .cloned(),
            );
        created(&mut one, &found);
        for key in ["Size", "VirtualSize"] {
            if let Some(bytes) = found.get(key).and_then(Value::as_int) {
                one.insert(key, bytes);
                one.insert(format!("{key}_Human"), image::size(bytes));
            }
        }
        if verbose {
            one.insert("Info", image::inspect(client, &id.to_text())?);
        }
        told.insert(id, one);
    }
    Ok(told)
}

/// Returns the networks, or only those with the given names or ids.
pub(super) fn networks(
    client: &Client<'_>,
    names: &[String],
    ids: &[String],
) -> Result<Vec<Value>, Error> {
    let mut told = Vec::new();
    for id in client
        .tell(&["network", "ls", "--quiet"], &[], &[])?
        .lines()
    {
        let Some(found) = client.found(Kind::Network, id.trim())? else {
            continue;
        };
        let (name, id) = (text(&found, "Name"), text(&found, "Id"));
        let is_named = names.is_empty() || names.contains(&name);
        if is_named && (ids.is_empty() || ids.iter().any(|one| id.starts_with(one.as_str()))) {
            told.push(found.into());
        }
    }
    Ok(told)
}

/// Returns the volumes.
pub(super) fn volumes(client: &Client<'_>, given: &Map) -> Result<Map, Error> {
    let names = client.tell(&["volume", "ls", "--quiet"], &filters(given), &[])?;
    let mut all = Vec::new();
    for name in names.lines() {
        all.extend(client.found(Kind::Volume, name.trim())?.map(Value::from));
    }
    Ok(Map::new()
        .with("Volumes", all)
        .with("Warnings", Value::Null))
}

/// Creates a volume.
pub(crate) fn create_volume(
    client: &Client<'_>,
    name: &str,
    driver: Option<&str>,
    opts: &Map,
) -> Result<Map, Error> {
    let mut options: Vec<String> = driver
        .iter()
        .map(|driver| format!("--driver={driver}"))
        .collect();
    let opt =
        |(key, value): (&Value, &Value)| format!("--opt={}={}", key.to_text(), value.to_text());
    options.extend(opts.iter().map(opt));
    client.tell(&["volume", "create"], &options, &[name])?;
    let mut made = client.inspect(Kind::Volume, name)?;
    for key in ["Labels", "Options"] {
        if made.get(key).is_some_and(|all| !all.is_true()) {
            made.insert(key, Value::Null);
        }
    }
    Ok(made)
}

/// Returns the output of a container.
pub(super) fn logs(client: &Client<'_>, name: &str, kwargs: &Map) -> Result<String, Error> {
    if kwargs.contains("stream") {
        return Err("The 'stream' argument is not supported".into());
    }
    let mut options = Vec::new();
    for key in ["since", "tail", "until"] {
        if let Some(value) = kwargs.get(key).filter(|value| !value.is_null()) {
            options.push(format!("--{key}={}", value.to_text()));
        }
    }
    if kwargs.get("timestamps").is_some_and(Value::is_true) {
        options.push("--timestamps".into());
    }
    let asked = |key: &str| kwargs.get(key).is_none_or(Value::is_true);
    let both = asked("stdout") && asked("stderr");
    let process = Process {
        stderr: if both { Stderr::Merged } else { Stderr::Apart },
        rstrip: false,
        ..client.command(&["logs"], options, &[name])
    };
    let output = client.run(&process, "logs")?;
    match output.success() {
        false => Err(program_error(&output)),
        true if asked("stdout") => Ok(output.into_stdout_regardless()),
        true => Ok(output.stderr),
    }
}

/// Saves an image to an archive.
pub(super) fn save(
    client: &Client<'_>,
    name: &str,
    path: &str,
    overwrite: bool,
) -> Result<Map, Error> {
    if !path.starts_with('/') {
        return Err(Error::refused(format!("Path '{path}' is not absolute")));
    }
    let file = Path::new(path);
    if file.exists() && !overwrite {
        return Err(Error::refused(format!("{path} already exists")));
    }
    if let Some(parent) = file.parent().filter(|parent| !parent.is_dir()) {
        return Err(Error::refused(format!(
            "Parent dir '{}' of destination path does not exist. Use makedirs=True to create it.",
            parent.display()
        )));
    }
    let began = Instant::now();
    let image = client.inspect(Kind::Image, name)?;
    let is_name = image::tags(&image).iter().any(|tag| tag == name);
    let wanted = if is_name {
        name.to_owned()
    } else {
        text(&image, "Id")
    };
    let process = Process {
        timeout: Some(WORK_SECONDS_MAX.into()),
        ..client.command(&["save"], [format!("--output={path}")], &[&wanted])
    };
    let output = client.run(&process, "save")?;
    if !output.success() {
        let why = program_error(&output);
        return Err(Error::refused(format!(
            "Failed to save image(s) to {path}: {why}"
        )));
    }
    let bytes = file.metadata().map_err(Error::io(path))?.len();
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    Ok(Map::new()
        .with("Time_Elapsed", began.elapsed().as_secs_f64())
        .with("Path", path)
        .with("Size", bytes)
        .with("Size_Human", image::size(bytes)))
}

/// Returns the versions of the program. The versions of the program and its API are also included
/// as lists of numbers.
pub(super) fn version(client: &Client<'_>) -> Result<Map, Error> {
    let said = read(&client.tell(&["version"], &["--format={{json .}}".into()], &[])?)?;
    let server = said.get("Server").filter(|server| server.is_true());
    let told = server
        .or_else(|| said.get("Client"))
        .and_then(Value::as_map);
    let mut told = told.cloned().unwrap_or_default();
    for (key, numbers) in [("Version", "VersionInfo"), ("ApiVersion", "ApiVersionInfo")] {
        let text = text(&told, key);
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let parts = text.get(..end).unwrap_or_default().split('.');
        let parts: Vec<i64> = parts.filter_map(|part| part.parse().ok()).collect();
        if !parts.is_empty() {
            told.insert(numbers, parts);
        }
    }
    Ok(told)
}

/// Waits until a container ends.
pub(super) fn wait(
    client: &Client<'_>,
    name: &str,
    ignore_already_stopped: bool,
) -> Result<Map, Error> {
    let Some(container) = client.found(Kind::Container, name)? else {
        return Ok(Map::new()
            .with("result", ignore_already_stopped)
            .with("comment", format!("Container '{name}' absent")));
    };
    let before = containers::state_of(&container);
    let process = Process {
        timeout: Some(WORK_SECONDS_MAX.into()),
        ..client.command(&["wait"], [""; 0], &[name])
    };
    let output = client.run(&process, "wait")?;
    if !output.success() {
        return Err(program_error(&output));
    }
    let code = output.stdout_regardless().trim().parse::<i64>().ok();
    let after = client.found(Kind::Container, name)?;
    let after = after.as_ref().map(containers::state_of);
    let already = before == "stopped";
    let result = if already {
        ignore_already_stopped
    } else {
        after == Some("stopped")
    };
    let told = Map::new()
        .with("result", result)
        .with("state", compare::from_to(before, after))
        .with("exit_status", code);
    Ok(match already {
        true => told.with("comment", format!("Container '{name}' already stopped")),
        false => told,
    })
}
