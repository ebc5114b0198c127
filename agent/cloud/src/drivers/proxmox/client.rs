//! [`Client`]: requests to Proxmox VE, and its tasks.

use std::sync::OnceLock;
use std::time::Duration;

use state::exec::Exec;
use value::{Map, Value, secret};

use super::PROXMOX;
use crate::drivers::api::{self, Answer, Api, Body, field, path};
use crate::drivers::text;
use crate::fault::Fault;

/// The port of the API, unless the setting `port` is another one.
const PORT: &str = "8006";
/// The path of the API. In this format the body of an error has its text in all versions.
const ROOT: &str = "/api2/extjs";
/// The maximum time until a task is complete. A clone copies whole disks.
const TASK_MAX: Duration = Duration::from_secs(1_800);
/// The statuses of a node that is not reached, or does not answer in time.
const UNREACHED: [i64; 6] = [502, 503, 504, 595, 596, 599];

/// The parameters of a request.
pub(super) type Form = Vec<(String, String)>;

/// The credentials.
enum Login {
    /// `USER@REALM!ID=SECRET`.
    Token(String),
    Password {
        user: String,
        password: String,
    },
}

/// A cluster with credentials.
pub(super) struct Client {
    base: String,
    verify_ssl: bool,
    login: Login,
    /// The headers of the requests, since the first one.
    headers: OnceLock<Vec<(String, String)>>,
}

/// Returns the text of an error, with the parameters that are wrong.
fn said(answer: &Value) -> Option<api::Said> {
    let errors = answer.get("errors").and_then(Value::as_map);
    let errors = errors.into_iter().flatten();
    let errors = errors.map(|(key, text)| format!("{}: {}", key.as_text(), text.as_text().trim()));
    let message = field(answer, "message").trim().to_owned();
    let parts = std::iter::once(message).chain(errors);
    let parts: Vec<String> = parts.filter(|text| !text.is_empty()).collect();
    (!parts.is_empty()).then(|| (String::new(), parts.join("; ")))
}

impl Login {
    fn of(settings: &Map) -> Result<Self, Fault> {
        let user = text(settings, "user");
        if settings.get("token").is_none() {
            let missing =
                || Fault::wrong(format!("{PROXMOX}: the provider has no `token` or `user`"));
            return Ok(Self::Password {
                user: user.ok_or_else(missing)?,
                password: api::secret(PROXMOX, settings, "password")?,
            });
        }
        let token = api::secret(PROXMOX, settings, "token")?;
        let token = match (token.contains('!'), user) {
            (false, Some(user)) => format!("{user}={token}"),
            _ => token,
        };
        match token.split_once('=') {
            Some((id, part)) if id.contains('@') && id.contains('!') => {
                secret::keep(&[], &part.into());
                Ok(Self::Token(token))
            }
            _ => Err(Fault::wrong(format!(
                "{PROXMOX}: `token` of the provider must be USER@REALM!ID=SECRET"
            ))),
        }
    }
}

impl Client {
    /// Reads the settings of a provider.
    ///
    /// # Errors
    /// When one is missing or not well formed.
    pub(super) fn of(settings: &Map) -> Result<Self, Fault> {
        let missing = || Fault::wrong(format!("{PROXMOX}: the provider has no `url`"));
        let url = text(settings, "url").ok_or_else(missing)?;
        let port = text(settings, "port").unwrap_or_else(|| PORT.to_owned());
        let url = match url.contains("://") {
            true => url,
            false => format!("https://{}:{port}", url.trim_end_matches('/')),
        };
        let settings = settings.clone().with("url", url);
        Ok(Self {
            base: api::base(PROXMOX, &settings, "url", "")? + ROOT,
            verify_ssl: settings.get("verify_ssl").is_none_or(Value::is_true),
            login: Login::of(&settings)?,
            headers: OnceLock::new(),
        })
    }

    fn api(&self, headers: Vec<(String, String)>) -> Api {
        Api {
            verify_ssl: self.verify_ssl,
            ..Api::new(PROXMOX, self.base.clone(), headers, said)
        }
    }

    /// Returns the headers with the credentials. A password is changed into a ticket once.
    fn headers(&self, cx: &Exec) -> Result<Vec<(String, String)>, Fault> {
        if let Some(headers) = self.headers.get() {
            return Ok(headers.clone());
        }
        let headers = match &self.login {
            Login::Token(token) => {
                vec![("authorization".to_owned(), format!("PVEAPIToken={token}"))]
            }
            Login::Password { user, password } => self.ticket(cx, user, password)?,
        };
        Ok(self.headers.get_or_init(|| headers).clone())
    }

    fn ticket(
        &self,
        cx: &Exec,
        user: &str,
        password: &str,
    ) -> Result<Vec<(String, String)>, Fault> {
        let form = form(&[("username", user), ("password", password)]);
        let api = self.api(Vec::new());
        let answer = api.exchange(cx, ("POST", "/access/ticket"), Body::Form(form))?;
        let data = data(&api, answer)?;
        let none = Map::new();
        let data = data.as_map().unwrap_or(&none);
        let part = |key: &str| match api::secret(PROXMOX, data, key) {
            Ok(text) if !text.contains([';', ' ']) => Ok(text),
            _ => Err(api.lacks("/access/ticket", key)),
        };
        let cookie = format!("PVEAuthCookie={}", part("ticket")?);
        Ok(vec![
            ("cookie".to_owned(), cookie),
            (
                "csrfpreventiontoken".to_owned(),
                part("CSRFPreventionToken")?,
            ),
        ])
    }

    /// Sends a request, and returns the data of its answer.
    ///
    /// # Errors
    /// When the cluster refuses, or does not answer.
    pub(super) fn call(
        &self,
        cx: &Exec,
        what: (&str, &str),
        form: Option<Form>,
    ) -> Result<Value, Fault> {
        let api = self.api(self.headers(cx)?);
        let body = form.map_or(Body::None, Body::Form);
        let answer = api.exchange(cx, what, body)?;
        data(&api, answer)
    }

    /// Returns the list at a path.
    ///
    /// # Errors
    /// When it is not known.
    pub(super) fn list(&self, cx: &Exec, path: &str) -> Result<Vec<Value>, Fault> {
        match self.call(cx, ("GET", path), None)? {
            Value::List(items) => Ok(items.to_vec()),
            _ => Err(self.api(Vec::new()).lacks(path, "list")),
        }
    }

    /// Starts a task, and waits for its end.
    ///
    /// # Errors
    /// When the cluster refuses, or the task fails or does not end.
    pub(super) fn task(&self, cx: &Exec, what: (&str, &str), form: Form) -> Result<(), Fault> {
        let form = (what.0 != "DELETE").then_some(form);
        let upid = self.call(cx, what, form)?.to_text();
        let mut parts = upid.split(':');
        let (Some("UPID"), Some(node)) = (parts.next(), parts.next()) else {
            return Err(self.api(Vec::new()).lacks(what.1, "task"));
        };
        let path = path(&["nodes", node, "tasks", &upid, "status"]);
        let kind = parts.nth(3).unwrap_or("task").to_owned();
        let ended = || {
            let status = self.call(cx, ("GET", &path), None)?;
            match (
                field(&status, "status").as_str(),
                field(&status, "exitstatus"),
            ) {
                ("stopped", text) => Ok(Some(text)),
                _ => Ok(None),
            }
        };
        let exit = api::until((PROXMOX, &format!("the task {kind}")), TASK_MAX, ended)?;
        match exit == "OK" || exit.starts_with("WARNINGS") {
            true => Ok(()),
            false => Err(Fault::refused(PROXMOX, "", &format!("{kind}: {exit}"))),
        }
    }
}

/// Returns the parameters of a request.
pub(super) fn form(pairs: &[(&str, &str)]) -> Form {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Returns the data of an answer. Its status is in the body, except when the credentials are wrong.
fn data(api: &Api, answer: Answer) -> Result<Value, Fault> {
    let answer = api.data(answer)?;
    let lacks = || api.lacks("the API", "success");
    let success = answer.get("success").ok_or_else(lacks)?;
    if success.is_true() {
        return Ok(answer.get("data").cloned().unwrap_or_default());
    }
    let status = answer
        .get("status")
        .and_then(Value::as_int)
        .unwrap_or_default();
    let text = said(&answer).map_or_else(|| format!("status {status}"), |(_, text)| text);
    Err(match (status, UNREACHED.contains(&status)) {
        (429, _) => Fault::throttled(PROXMOX, &text, None),
        (_, true) => Fault::unanswered(PROXMOX, &text),
        _ => Fault::refused(PROXMOX, "", &text),
    })
}
