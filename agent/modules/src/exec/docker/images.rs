//! Images: fetches, builds, loads, tags and removes them.

use std::path::Path;
use std::time::Instant;

use machine::process::{Output, Process};
use state::module::Error;
use value::{Map, Value};

use super::client::{Client, Kind, WORK_SECONDS_MAX, program_error};
use crate::fileserver::fetch;

/// Returns a size in Salt's readable format.
pub(crate) fn size(bytes: i64) -> String {
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut number = bytes as f64 / 1024.0;
    for unit in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if number < 1024.0 {
            return format!("{number:.1} {unit}");
        }
        number /= 1024.0;
    }
    "unknown".into()
}

/// Returns the details of an image, with its sizes in a readable format, too.
///
/// # Errors
/// When the image does not exist.
pub(crate) fn inspect(client: &Client<'_>, name: &str) -> Result<Map, Error> {
    let mut found = client.inspect(Kind::Image, name)?;
    for key in ["Size", "VirtualSize"] {
        if let Some(bytes) = found.get(key).and_then(Value::as_int) {
            found.insert(format!("{key}_Human"), size(bytes));
        }
    }
    Ok(found)
}

/// Returns the id of an image, or `None` if the image does not exist.
///
/// # Errors
/// When the program fails.
pub(crate) fn id(client: &Client<'_>, name: &str) -> Result<Option<String>, Error> {
    let found = client.found(Kind::Image, name)?;
    Ok(found.and_then(|image| Some(image.get("Id")?.to_text())))
}

/// Returns the names of an image.
pub(crate) fn tags(image: &Map) -> Vec<String> {
    image.get("RepoTags").map(Value::texts).unwrap_or_default()
}

/// Returns all images.
///
/// # Errors
/// When the program fails.
pub(crate) fn all(client: &Client<'_>) -> Result<Vec<Map>, Error> {
    client.all(
        Kind::Image,
        &["image", "ls", "--all", "--quiet", "--no-trunc"],
    )
}

/// Returns the names of all images, sorted.
///
/// # Errors
/// When the program fails.
pub(crate) fn all_tags(client: &Client<'_>) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = all(client)?.iter().flat_map(tags).collect();
    value::sorted::sort(&mut names);
    Ok(names)
}

/// Returns the first name of an image, or its id if it has no name. Returns `None` if the image
/// does not exist.
///
/// # Errors
/// When the program fails.
pub(crate) fn tag_of(client: &Client<'_>, name: &str) -> Result<Option<String>, Error> {
    let Some(image) = client.found(Kind::Image, name)? else {
        return Ok(None);
    };
    let id = image.get("Id").map(Value::to_text);
    Ok(tags(&image).into_iter().next().or(id))
}

/// Runs a command that may take long.
fn long(client: &Client<'_>, process: Process, what: &str) -> Result<Output, Error> {
    let timeout = Some(WORK_SECONDS_MAX.into());
    client.run(&Process { timeout, ..process }, what)
}

/// Fetches an image. If podman knows no registry for a name without one, fetches the image from
/// Docker Hub, as docker does.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn pull(client: &Client<'_>, name: &str) -> Result<Map, Error> {
    let began = Instant::now();
    let before = id(client, name)?;
    let fetch = |name: &str| long(client, client.command(&["pull"], [""; 0], &[name]), "pull");
    let mut output = fetch(name)?;
    let mut fetched = name.to_owned();
    if client.podman && !output.success() && output.stderr.contains("short-name") {
        let middle = if name.contains('/') { "" } else { "library/" };
        fetched = format!("docker.io/{middle}{name}");
        output = fetch(&fetched)?;
    }
    if !output.success() {
        return Err(program_error(&output));
    }
    let after = id(client, &fetched)?;
    let mut told = Map::new()
        .with("Time_Elapsed", began.elapsed().as_secs_f64())
        .with("retcode", 0);
    let said = format!("{}\n{}", output.stdout_regardless(), output.stderr);
    let (old, new) = layers(&said);
    let mut found = Map::new();
    for (key, all) in [("Already_Pulled", old), ("Pulled", new)] {
        if !all.is_empty() {
            found.insert(key, all);
        }
    }
    if !found.is_empty() {
        told.insert("Layers", found);
    }
    let status = said.lines().find_map(|line| line.strip_prefix("Status: "));
    let status = status
        .map(str::to_owned)
        .unwrap_or_else(|| match before == after {
            true => format!("Image is up to date for {fetched}"),
            false => format!("Downloaded newer image for {fetched}"),
        });
    Ok(told.with("Status", status))
}

/// Returns the layers that existed before, and the new ones. Docker prints `ID: Pull complete`,
/// podman prints `Copying blob sha256:ID done`.
fn layers(said: &str) -> (Vec<String>, Vec<String>) {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for line in said.lines() {
        let (id, is_there) = match (line.split_once(": "), line.strip_prefix("Copying blob ")) {
            (_, Some(rest)) => {
                let id = rest.split_whitespace().next().unwrap_or_default();
                (
                    id.strip_prefix("sha256:").unwrap_or(id),
                    rest.contains("exists"),
                )
            }
            (Some((id, "Already exists")), _) => (id, true),
            (Some((id, "Pull complete" | "Download complete")), _) => (id, false),
            _ => continue,
        };
        let id = id.get(..12).unwrap_or(id).to_owned();
        if !old.contains(&id) && !new.contains(&id) {
            (if is_there { &mut old } else { &mut new }).push(id);
        }
    }
    (old, new)
}

/// The arguments of a build.
pub(crate) struct Build<'a> {
    pub(crate) path: &'a str,
    /// The repository and the tag of the new image.
    pub(crate) name: Option<(String, String)>,
    pub(crate) cache: bool,
    pub(crate) rm: bool,
    pub(crate) dockerfile: Option<&'a str>,
    pub(crate) buildargs: Map,
}

/// Builds an image.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn build(client: &Client<'_>, wanted: &Build<'_>) -> Result<Map, Error> {
    let began = Instant::now();
    let mut options = vec!["--quiet".to_owned(), format!("--rm={}", wanted.rm)];
    options.extend(
        wanted
            .name
            .iter()
            .map(|(repository, tag)| format!("--tag={repository}:{tag}")),
    );
    if !wanted.cache {
        options.push("--no-cache".into());
    }
    let file = wanted
        .dockerfile
        .map(|file| Path::new(wanted.path).join(file));
    options.extend(file.map(|file| format!("--file={}", file.display())));
    // The values are often secret, so the program reads them from its environment.
    let names = wanted.buildargs.keys().map(Value::to_text);
    options.extend(names.map(|name| format!("--build-arg={name}")));
    let process = Process {
        env: wanted.buildargs.clone(),
        ..client.command(&["build"], options, &[wanted.path])
    };
    let output = long(client, process, "build")?;
    let id = output
        .stdout_regardless()
        .lines()
        .next_back()
        .unwrap_or_default()
        .trim();
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    if !output.success() || id.is_empty() {
        return Err(Error::refused(format!(
            "Build failed for {}. Error(s) follow:\n\n{}",
            wanted.path,
            program_error(&output)
        )));
    }
    let tags = tags(&inspect(client, id)?);
    let full = inspect(client, id)?.get("Id").cloned().unwrap_or_default();
    let tags = if tags.is_empty() {
        vec![full.to_text()]
    } else {
        tags
    };
    Ok(Map::new()
        .with("Time_Elapsed", began.elapsed().as_secs_f64())
        .with("Id", id.get(..12).unwrap_or(id))
        .with("Image", tags))
}

/// Loads images from an archive, and tags one of them.
///
/// # Errors
/// When the archive does not exist, or the message of the program when it fails.
pub(crate) fn load(
    client: &Client<'_>,
    path: &str,
    name: Option<(&str, &str)>,
) -> Result<Map, Error> {
    let cached = fetch::cached(client.cx, path, "base", fetch::How::default())?
        .filter(|file| Path::new(file).is_file());
    let Some(file) = cached else {
        return Err(Error::refused(format!("Source file {path} does not exist")));
    };
    let before = ids(client)?;
    let began = Instant::now();
    let output = long(
        client,
        client.command(&["load"], [format!("--input={file}")], &[]),
        "load",
    )?;
    if !output.success() {
        return Err(Error::refused(format!(
            "Failed to load image(s) from {path}: {}",
            program_error(&output)
        )));
    }
    let elapsed = began.elapsed().as_secs_f64();
    let after = all(client)?;
    let parents: Vec<String> = after
        .iter()
        .filter_map(|image| Some(image.get("Parent")?.to_text()))
        .collect();
    let own = |image: &Map| image.get("Id").map(Value::to_text).unwrap_or_default();
    let new: Vec<String> = after
        .iter()
        .map(own)
        .filter(|id| !before.contains(id))
        .collect();
    let top: Vec<&String> = new.iter().filter(|id| !parents.contains(id)).collect();
    let short: Vec<&str> = new.iter().map(|id| id.get(..12).unwrap_or(id)).collect();
    let told = Map::new()
        .with("Time_Elapsed", elapsed)
        .with("Path", path)
        .with("Layers", short);
    let Some((repository, tag)) = name else {
        return Ok(told);
    };
    Ok(match top.as_slice() {
        [] => told.with(
            "Warning",
            "No top-level image layers were loaded, no image was tagged",
        ),
        [one] => match self::tag(client, one, repository, tag) {
            Ok(()) => told.with("Image", format!("{repository}:{tag}")),
            Err(why) => told.with(
                "Warning",
                format!("Failed to tag {one} as {repository}:{tag}: {why}"),
            ),
        },
        several => {
            let several: Vec<&str> = several.iter().map(|id| id.as_str()).collect();
            told.with(
                "Warning",
                format!(
                    "More than one top-level image layer was loaded ({}), no image was tagged",
                    several.join(", ")
                ),
            )
        }
    })
}

fn ids(client: &Client<'_>) -> Result<Vec<String>, Error> {
    let all = all(client)?;
    Ok(all
        .iter()
        .filter_map(|image| Some(image.get("Id")?.to_text()))
        .collect())
}

/// Tags an image.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn tag(
    client: &Client<'_>,
    name: &str,
    repository: &str,
    tag: &str,
) -> Result<(), Error> {
    let id = client.inspect(Kind::Image, name)?;
    let id = id.get("Id").map(Value::to_text).unwrap_or_default();
    let full = format!("{repository}:{tag}");
    client.tell(&["tag"], &[], &[&id, &full]).map(drop)
}

/// Removes images.
///
/// # Errors
/// When an image does not exist.
pub(crate) fn rmi(
    client: &Client<'_>,
    names: &[String],
    force: bool,
    prune: bool,
) -> Result<Map, Error> {
    let (images, tags) = (ids(client)?, all_tags(client)?);
    let mut options = Vec::new();
    if force {
        options.push("--force".to_owned());
    }
    if !prune {
        options.push("--no-prune".to_owned());
    }
    let mut errors = Vec::new();
    for name in names {
        let image = client.inspect(Kind::Image, name)?;
        let id = image.get("Id").map(Value::to_text).unwrap_or_default();
        if let Err(why) = client.tell(&["rmi"], &options, &[&id]) {
            errors.push(why.to_string());
            errors.extend(users(client, &id)?);
        }
    }
    let (left, left_tags) = (ids(client)?, all_tags(client)?);
    let gone = |all: Vec<String>, left: &[String]| -> Vec<String> {
        all.into_iter().filter(|one| !left.contains(one)).collect()
    };
    let told = Map::new()
        .with("Layers", gone(images, &left))
        .with("Tags", gone(tags, &left_tags));
    Ok(match errors.is_empty() {
        true => told.with("retcode", 0),
        false => told.with("retcode", 1).with("Errors", errors),
    })
}

/// Returns a sentence with the containers and images that use an image.
fn users(client: &Client<'_>, id: &str) -> Result<Option<String>, Error> {
    let (containers, images) = depends(client, id)?;
    let mut parts = Vec::new();
    if !containers.is_empty() {
        parts.push(format!("container(s): {}", containers.join(", ")));
    }
    if !images.is_empty() {
        parts.push(format!("image(s): {}", images.join(", ")));
    }
    Ok((!parts.is_empty()).then(|| format!("Image is in use by {}", parts.join(" and "))))
}

/// Returns the containers and images that are based on an image.
///
/// # Errors
/// When the program fails.
pub(crate) fn depends(client: &Client<'_>, id: &str) -> Result<(Vec<String>, Vec<String>), Error> {
    let containers = client.all(Kind::Container, &["ps", "--all", "--quiet", "--no-trunc"])?;
    let is = |of: &Map, key: &str| of.get(key).and_then(Value::as_str) == Some(id);
    let of_it = containers.iter().filter(|container| is(container, "Image"));
    let containers = of_it.map(super::compare::name).collect();
    let images = all(client)?;
    let of_it = images.iter().filter(|image| is(image, "Parent"));
    let short = |image: &Map| {
        let id = image.get("Id").map(Value::to_text).unwrap_or_default();
        id.get(..12).unwrap_or(&id).to_owned()
    };
    Ok((containers, of_it.map(short).collect()))
}
