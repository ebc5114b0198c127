//! The settings of a cloud: those of the provider, or of an entry of `clouds.yaml`.

use std::path::PathBuf;

use render::yaml::SaltYaml;
use value::yaml::Yaml;
use value::{Map, Value, secret, trust};

use super::OPENSTACK;
use crate::drivers::{api, text};
use crate::fault::Fault;

/// The folder of `clouds.yaml` of the whole machine.
const FOLDER: &str = "/etc/openstack";
/// The keys of secrets below `auth`.
const SECRETS: [&str; 3] = ["password", "application_credential_secret", "token"];

/// Returns the settings of a provider with those of the cloud that `cloud` names. The provider's count
/// more.
///
/// # Errors
/// When the file cannot be read, another user can change it, or it has no such cloud.
pub(super) fn read(settings: &Map) -> Result<Map, Fault> {
    let Some(name) = text(settings, "cloud") else {
        return Ok(settings.clone());
    };
    let files: Vec<(PathBuf, Map)> = folders(settings)
        .into_iter()
        .filter_map(|folder| found(folder, "clouds").transpose())
        .collect::<Result<_, _>>()?;
    let (path, clouds) = files.into_iter().next().ok_or_else(|| {
        Fault::wrong(format!(
            "{OPENSTACK}: there is no file clouds.yaml for the cloud {name:?} in {FOLDER} or ~/.config/openstack"
        ))
    })?;
    let mut cloud = entry(&clouds, &name)
        .ok_or_else(|| Fault::wrong(format!("{}: there is no cloud {name:?}", path.display())))?;
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    if let Some((_, secure)) = found(folder, "secure")?
        && let Some(secure) = entry(&secure, &name)
    {
        cloud = value::merge::recurse(&cloud, &secure, false);
    }
    Ok(value::merge::recurse(&cloud, settings, false))
}

/// Returns the folders with `clouds.yaml`, the first of which counts.
fn folders(settings: &Map) -> Vec<PathBuf> {
    if let Some(folder) = text(settings, "config_folder") {
        return vec![PathBuf::from(folder)];
    }
    let home = std::env::home_dir().map(|home| home.join(".config/openstack"));
    home.into_iter().chain([PathBuf::from(FOLDER)]).collect()
}

/// Reads a file of a folder, if there is one. Other users must not be able to change it.
fn found(folder: PathBuf, name: &str) -> Result<Option<(PathBuf, Map)>, Fault> {
    let mut paths = ["yaml", "yml"]
        .map(|end| folder.join(format!("{name}.{end}")))
        .into_iter();
    let Some(path) = paths.find(|path| path.is_file()) else {
        return Ok(None);
    };
    trust::path(&path, trust::user()).map_err(|error| Fault::Wrong(error.sentence()))?;
    let text = machine::fs::text(&path).map_err(|error| Fault::wrong(error.to_string()))?;
    let read = SaltYaml.load(&text).map_err(|fault| {
        Fault::wrong(format!(
            "{}:{}:{}: {}",
            path.display(),
            fault.line,
            fault.column,
            fault.message
        ))
    })?;
    match read {
        Value::Map(map) => Ok(Some((path, map))),
        _ => Err(Fault::wrong(format!(
            "{}:1:1: expected a dictionary",
            path.display()
        ))),
    }
}

fn entry(file: &Map, name: &str) -> Option<Map> {
    let clouds = file.get("clouds")?;
    clouds.get(name)?.as_map().cloned()
}

/// Returns the address of Keystone.
///
/// # Errors
/// When it is missing or no address.
pub(super) fn keystone(settings: &Map) -> Result<String, Fault> {
    let auth = settings.get("auth").and_then(Value::as_map).cloned();
    let auth = auth.unwrap_or_default();
    if !auth.contains("auth_url") {
        return Err(Fault::wrong(format!(
            "{OPENSTACK}: the provider has no auth:auth_url"
        )));
    }
    let url = api::base(OPENSTACK, &auth, "auth_url", "")?;
    Ok(match url.ends_with("/v3") {
        true => url,
        false => format!("{}/v3", url.trim_end_matches("/v2.0")),
    })
}

/// Returns a domain, project or user by its id or name.
fn named(auth: &Map, kinds: &[&str]) -> Map {
    let part = |kind: &str, key: &str| text(auth, &format!("{kind}_{key}"));
    let id = kinds.iter().find_map(|kind| part(kind, "id"));
    let name = kinds.iter().find_map(|kind| part(kind, "name"));
    match (id, name) {
        (Some(id), _) => Map::new().with("id", id),
        (_, Some(name)) => Map::new().with("name", name),
        _ => Map::new(),
    }
}

/// Returns the default domain where none is named.
fn domain(auth: &Map, kind: &str) -> Map {
    let found = named(auth, &[kind, "domain", "default_domain"]);
    match found.is_empty() {
        true => Map::new().with("id", "default"),
        false => found,
    }
}

/// Returns the request for a token, by an application credential or a password.
///
/// # Errors
/// When a setting is missing.
pub(super) fn login(settings: &Map) -> Result<Map, Fault> {
    let none = Map::new();
    let auth = settings
        .get("auth")
        .and_then(Value::as_map)
        .unwrap_or(&none);
    for key in SECRETS {
        secret::keep(&[], auth.get(key).unwrap_or(&Value::Null));
    }
    let need = |key: &str| {
        let missing = || Fault::wrong(format!("{OPENSTACK}: the provider has no auth:{key}"));
        text(auth, key).ok_or_else(missing)
    };
    let mut user = named(auth, &["user"]);
    if user.is_empty()
        && let Some(name) = text(auth, "username")
    {
        user.insert("name", name);
    }
    if user.contains("name") {
        user.insert("domain", domain(auth, "user_domain"));
    }
    let credential = named(auth, &["application_credential"]);
    if !credential.is_empty() {
        let mut own = credential.with("secret", need("application_credential_secret")?);
        if own.contains("name") {
            own.insert("user", user);
        }
        let identity = Map::new()
            .with("methods", Value::list(["application_credential".into()]))
            .with("application_credential", own);
        return Ok(Map::new().with("auth", Map::new().with("identity", identity)));
    }
    if user.is_empty() {
        need("username")?;
    }
    let password = Map::new().with("user", user.with("password", need("password")?));
    let identity = Map::new()
        .with("methods", Value::list(["password".into()]))
        .with("password", password);
    let mut project = named(auth, &["project", "tenant"]);
    if project.is_empty() {
        need("project_name")?;
    }
    if project.contains("name") {
        project.insert("domain", domain(auth, "project_domain"));
    }
    let scope = Map::new().with("project", project);
    let auth = Map::new().with("identity", identity).with("scope", scope);
    Ok(Map::new().with("auth", auth))
}
