//! The `pagerduty` execution module: events for PagerDuty. Salt 3008 no longer has this module;
//! requests and results are those of Salt 3007.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, secret};

use super::config;
use super::notify::Message;

state::exec_module! {
    /// Send events to PagerDuty.
    ///
    /// A profile of the configuration or the pillar has `pagerduty.subdomain`, and
    /// `pagerduty.api_key` for calls without a service key. `pagerduty.api_url` replaces the address
    /// of PagerDuty, for a proxy.
    mod pagerduty;

    /// Create an event.
    ///
    ///     salt-call pagerduty.create_event 9abcd123456789efabcde362783cdbaf 'The disk is full' '{disk: sda}' profile=my-pagerduty-account
    fn create_event(CreateEvent {
        /// The key of the service.
        service_key: Option<String> = None,
        /// The short description of the event.
        description: Value = Value::Null,
        /// The details of the event: a dictionary, YAML or a text.
        details: Value = Value::Null,
        /// The key of the incident that the event belongs to.
        incident_key: Value = Value::Null,
        /// The profile of the configuration.
        profile: Option<String> = None,
    });
}

const SERVICE: &str = "PagerDuty";

/// The address of the API for events, unless `pagerduty.api_url` of the profile is set.
pub(crate) const API_URL: &str = "https://events.pagerduty.com";

/// The client that created an event. Salt sends its version, too.
const CLIENT: &str = "SaltStack 3008.5";

/// The settings of a profile.
struct Profile(Map);

impl Profile {
    fn from_config(cx: &Exec, name: Option<&str>) -> Result<Self, Error> {
        Ok(Self(match name {
            Some(name) => match config::found(cx, name)? {
                Value::Map(profile) => profile,
                _ => Map::new(),
            },
            None => Map::new(),
        }))
    }

    fn get(&self, name: &str) -> Option<String> {
        let found = self.0.get(name).filter(|value| value.is_true());
        found.map(Value::to_text)
    }

    fn needed(&self, name: &str) -> Result<String, Error> {
        self.get(name).ok_or_else(|| {
            format!("{SERVICE}: the profile has no {name}: set it in the configuration or the pillar, and name the profile with profile=").into()
        })
    }
}

/// Returns the details of an event. A text is YAML; if the result is a text, it becomes a dictionary.
fn details(given: Value) -> Result<Value, Error> {
    let Value::Str(text) = &given else {
        return Ok(given);
    };
    let loaded = render::yaml::load(text).map_err(|error| Error::refused(error.to_string()))?;
    Ok(match loaded {
        Value::Str(_) => Map::new().with("details", loaded).into(),
        other => other,
    })
}

fn create_event(cx: &Exec, args: CreateEvent) -> Result<Value, Error> {
    let profile = Profile::from_config(cx, args.profile.as_deref())?;
    let subdomain = profile.needed("pagerduty.subdomain")?;
    let key = match &args.service_key {
        Some(key) => key.clone(),
        None => profile.needed("pagerduty.api_key")?,
    };
    let service = profile.get("pagerduty.service").or(args.service_key);
    for text in [Some(&key), service.as_ref()].into_iter().flatten() {
        secret::keep(&[], &text.as_str().into());
    }
    let event = Map::new()
        .with("service_key", service.map_or(Value::Null, Value::from))
        .with("incident_key", args.incident_key)
        .with("event_type", "trigger")
        .with("description", args.description)
        .with("details", details(args.details)?)
        .with("client", CLIENT)
        .with("client_url", format!("https://{subdomain}.pagerduty.com"));
    let base = profile.get("pagerduty.api_url");
    let base = base.unwrap_or_else(|| API_URL.to_owned());
    let base = base.trim_end_matches('/');
    let url = format!("{base}/generic/2010-04-15/create_event.json");
    let message = Message::json(SERVICE, &url, &event.into());
    let message = message.header("Authorization", format!("Token token={key}"));
    let answer = message.send(cx)?;
    match answer.is_success() {
        true => Ok(answer.json()?.into()),
        false => Err(answer.describe().into()),
    }
}
