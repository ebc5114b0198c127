//! The credentials: settings of the provider, the environment, or the role of the instance that this
//! program runs on.

use state::exec::Exec;
use value::json;
use value::{Map, Value, secret};

use super::{EC2, text};
use crate::fault::Fault;
use crate::http;

/// Salt's word for credentials of the instance's role.
const OF_ROLE: &str = "use-instance-role-credentials";
/// The metadata service of an instance.
const METADATA: &str = "http://169.254.169.254";
/// The path of the credentials there.
const ROLES: &str = "latest/meta-data/iam/security-credentials/";
/// The time for which a token of the metadata service is valid, in seconds.
const TOKEN_S: &str = "60";

/// The origin of the keys.
pub(super) enum Credentials {
    Given(Keys),
    OfRole {
        /// The base address of the metadata service.
        metadata: String,
    },
}

/// An access key.
#[derive(Clone)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) key: String,
    /// The token of temporary keys.
    pub(super) token: Option<String>,
}

impl Keys {
    fn new(id: String, key: String, token: Option<String>) -> Self {
        for hidden in [Some(&key), token.as_ref()].into_iter().flatten() {
            secret::keep(&[], &Value::from(hidden.as_str()));
        }
        Self { id, key, token }
    }
}

impl Credentials {
    /// Returns the credentials of a provider.
    pub(super) fn of(settings: &Map) -> Self {
        let role = || {
            let metadata = text(settings, "metadata_url");
            Self::OfRole {
                metadata: metadata.unwrap_or_else(|| METADATA.to_owned()),
            }
        };
        let given = (text(settings, "id"), text(settings, "key"));
        match given {
            (Some(id), _) if id == OF_ROLE => role(),
            (Some(id), Some(key)) => Self::Given(Keys::new(id, key, text(settings, "token"))),
            _ => {
                let variable =
                    |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
                match (
                    variable("AWS_ACCESS_KEY_ID"),
                    variable("AWS_SECRET_ACCESS_KEY"),
                ) {
                    (Some(id), Some(key)) => {
                        Self::Given(Keys::new(id, key, variable("AWS_SESSION_TOKEN")))
                    }
                    _ => role(),
                }
            }
        }
    }

    /// Returns the keys. Those of a role are fetched each time, because they change.
    ///
    /// # Errors
    /// When the metadata service does not answer.
    pub(super) fn keys(&self, cx: &Exec) -> Result<Keys, Fault> {
        match self {
            Self::Given(keys) => Ok(keys.clone()),
            Self::OfRole { metadata } => of_role(cx, metadata),
        }
    }
}

fn of_role(cx: &Exec, metadata: &str) -> Result<Keys, Fault> {
    let missing = |fault: Fault| {
        Fault::wrong(format!(
            "ec2: the provider has no `id` and `key`, nor has the environment, and this instance has no role: {fault}"
        ))
    };
    let token = fetched(
        cx,
        "PUT",
        &format!("{metadata}/latest/api/token"),
        ("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_S),
    );
    let token = token.map_err(missing)?;
    let get = |path: &str| {
        fetched(
            cx,
            "GET",
            &format!("{metadata}/{path}"),
            ("X-aws-ec2-metadata-token", &token),
        )
    };
    let roles = get(ROLES).map_err(missing)?;
    let role = roles.lines().next().unwrap_or_default().trim().to_owned();
    let answer = get(&format!("{ROLES}{}", machine::net::http::quoted(&role))).map_err(missing)?;
    let data = json::read(&answer).map_err(|error| Fault::unanswered(EC2, &error.to_string()))?;
    let field = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
    match (field("AccessKeyId"), field("SecretAccessKey")) {
        (Some(id), Some(key)) => Ok(Keys::new(id, key, field("Token"))),
        _ => Err(Fault::unanswered(
            EC2,
            "the metadata service returned no access key",
        )),
    }
}

/// Returns the text at an address of the metadata service.
fn fetched(cx: &Exec, method: &str, url: &str, header: (&str, &str)) -> Result<String, Fault> {
    let mut request = http::request(cx, method, url);
    request.proxy = None;
    request.timeout = std::time::Duration::from_secs(5);
    request.headers = vec![(header.0.to_owned(), header.1.to_owned())];
    request.body = (method == "PUT").then(Vec::new);
    let (response, text) = http::answer(EC2, &request)?;
    match response.is_success() {
        true => Ok(text),
        false => Err(http::unreadable(EC2, &response, &text, "success")),
    }
}
