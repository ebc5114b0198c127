//! [`Session`]: a token of Keystone, and the services of its catalog.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use state::exec::Exec;
use value::{Map, Value, secret};

use super::OPENSTACK;
use super::settings;
use crate::drivers::api::{self, Api, Body, field, items};
use crate::drivers::text;
use crate::fault::Fault;

/// The age at which a session is replaced. A token of Keystone lasts an hour, unless the cloud sets
/// another time.
const AGE_MAX: Duration = Duration::from_secs(600);

/// The services of a cloud, with the same token.
pub(super) struct Session {
    /// The time at which another session replaces this one.
    pub(super) until: Instant,
    pub(super) nova: Api,
    pub(super) glance: Api,
    /// Neutron, which is needed for networks that have a name.
    pub(super) neutron: Option<Api>,
}

/// Returns the code and the text of an error of any of the services.
fn said(answer: &Value) -> Option<api::Said> {
    let own = field(answer, "message");
    if !own.is_empty() {
        return Some((field(answer, "title"), own));
    }
    for (key, error) in answer.as_map()? {
        let text = field(error, "message");
        if !text.is_empty() {
            let code = match key.as_str() {
                Some("error") => field(error, "title"),
                Some("NeutronError") => field(error, "type"),
                _ => key.to_text(),
            };
            return Some((code, text));
        }
    }
    None
}

/// Returns the API at an address.
fn api(settings: &Map, base: &str, token: Option<&str>) -> Api {
    let headers = token.map(|token| ("x-auth-token".to_owned(), token.to_owned()));
    let api = Api::new(
        OPENSTACK,
        base.to_owned(),
        headers.into_iter().collect(),
        said,
    );
    Api {
        verify_ssl: settings.get("verify").is_none_or(Value::is_true),
        ca_bundle: text(settings, "cacert").map(PathBuf::from),
        ..api
    }
}

/// Returns the address of a service in a catalog.
///
/// # Errors
/// When the catalog has none for the interface and the region, or several regions.
fn endpoint(settings: &Map, catalog: &[Value], kind: &str) -> Result<String, Fault> {
    let interface = text(settings, "interface").or_else(|| text(settings, "endpoint_type"));
    let interface = interface.unwrap_or_else(|| "public".to_owned());
    let interface = interface.trim_end_matches("URL");
    let region = text(settings, "region_name");
    let services = catalog
        .iter()
        .filter(|service| field(service, "type") == kind);
    let all: Vec<&Value> = services
        .flat_map(|service| items(service, "endpoints"))
        .filter(|one| field(one, "interface") == interface)
        .collect();
    let region_of = |one: &Value| {
        let id = field(one, "region_id");
        if id.is_empty() {
            field(one, "region")
        } else {
            id
        }
    };
    let mut regions: Vec<String> = all.iter().map(|one| region_of(one)).collect();
    regions.dedup();
    if region.is_none() && regions.len() > 1 {
        return Err(Fault::wrong(format!(
            "{OPENSTACK}: set region_name to one of {}",
            regions.join(", ")
        )));
    }
    let fits = |one: &&&Value| {
        region
            .as_ref()
            .is_none_or(|region| region_of(one) == *region)
    };
    let url = all.iter().find(fits).map(|one| field(one, "url"));
    let Some(url) = url else {
        let place = region
            .map(|region| format!(" in the region {region}"))
            .unwrap_or_default();
        return Err(Fault::wrong(format!(
            "{OPENSTACK}: the catalog has no {interface} endpoint of the service {kind}{place}"
        )));
    };
    api::base(OPENSTACK, &Map::new().with("url", url), "url", "")
}

/// Returns an address with the version of the API, which some catalogs leave out.
fn versioned(url: &str, version: &str) -> String {
    let last = url.rsplit('/').next().unwrap_or_default();
    let has_version = last.starts_with('v') && last.chars().skip(1).any(|c| c.is_ascii_digit());
    match has_version {
        true => url.to_owned(),
        false => format!("{url}/{version}"),
    }
}

impl Session {
    /// Logs in.
    ///
    /// # Errors
    /// When Keystone refuses, or the catalog has no Nova or Glance.
    pub(super) fn open(cx: &Exec, settings: &Map) -> Result<Self, Fault> {
        let keystone = api(settings, &settings::keystone(settings)?, None);
        let login = Body::Json(settings::login(settings)?);
        let answer = keystone.exchange(cx, ("POST", "/auth/tokens"), login)?;
        let token = answer.response.header("x-subject-token").map(str::to_owned);
        let data = keystone.data(answer)?;
        let token = token.ok_or_else(|| keystone.lacks("/auth/tokens", "X-Subject-Token"))?;
        Self::of(settings, &token, items(&data, "token:catalog"))
    }

    /// Returns the services of a catalog.
    ///
    /// # Errors
    /// When the catalog has no Nova or Glance.
    pub(super) fn of(settings: &Map, token: &str, catalog: &[Value]) -> Result<Self, Fault> {
        secret::keep(&[], &token.into());
        let service = |kind: &str, version: &str| {
            let url = endpoint(settings, catalog, kind)?;
            Ok::<_, Fault>(api(settings, &versioned(&url, version), Some(token)))
        };
        Ok(Self {
            until: Instant::now() + AGE_MAX,
            nova: service("compute", "v2.1")?,
            glance: service("image", "v2")?,
            neutron: service("network", "v2.0").ok(),
        })
    }
}
