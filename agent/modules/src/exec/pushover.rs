//! The `pushover` execution module: messages to Pushover. Salt 3008 no longer has this module;
//! requests and results are those of Salt 3007.

use machine::net::http::quoted;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::notify::{self, Answer, Message, needed_secret};

state::exec_module! {
    /// Send messages to Pushover.
    ///
    /// The options `pushover.token` and `pushover.user`, or these keys of the profile `pushover`, are
    /// the defaults. `pushover.api_url` replaces the address of Pushover, for a proxy.
    mod pushover;

    /// Send a message to a user or a group.
    ///
    ///     salt-call pushover.post_message message='The build is done' title=Build
    fn post_message(PostMessage {
        /// The key of the user or the group.
        user: Option<String> = None,
        /// The device of the user. The default is all devices.
        device: Value = Value::Null,
        /// The message.
        message: Value = Value::Null,
        /// The title. The default is `Message from SaltStack`.
        title: Value = Value::Null,
        /// The priority, from -2 to 2.
        priority: Value = Value::Null,
        /// The number of seconds after which a message of priority 2 expires.
        expire: Value = Value::Null,
        /// The number of seconds after which a message of priority 2 is repeated.
        retry: Value = Value::Null,
        /// The sound. A sound that Pushover does not have is left out.
        sound: Value = Value::Null,
        /// Accepted but ignored: the version of the API is 1.
        api_version: Value = 1.into(),
        /// The token of the application.
        token: Option<String> = None,
    });
}

const SERVICE: &str = "Pushover";

/// The address of the API, unless `pushover.api_url` is set.
pub(crate) const API_URL: &str = "https://api.pushover.net";

/// The server and the token of the application.
struct Pushover {
    url: String,
    token: String,
}

/// Returns whether the answer has the status of success.
fn is_done(found: &Map) -> bool {
    found.get("status").and_then(Value::as_int) == Some(1)
}

/// Returns the errors of an answer in one text; `None` if it has none.
fn errors(found: &Map) -> Option<String> {
    let errors = found.get("errors").and_then(Value::as_list)?;
    let joined: String = errors.iter().map(Value::to_text).collect();
    Some(joined).filter(|joined| !joined.is_empty())
}

/// Returns the JSON of an answer. If a refusal has none, the error contains the refusal.
fn contents(answer: &Answer) -> Result<Map, Error> {
    let found = answer.json();
    match answer.is_success() {
        true => found,
        false => found.map_err(|_| Error::refused(answer.describe())),
    }
}

impl Pushover {
    fn post(&self, cx: &Exec, path: &str, fields: &Map) -> Result<Answer, Error> {
        let url = format!("{}/1/{path}", self.url);
        Message::form(SERVICE, &url, fields).send(cx)
    }

    /// Returns the reason why a user or a device is not valid; `None` if both are.
    fn invalid_user(&self, cx: &Exec, user: &str, device: &Value) -> Result<Option<String>, Error> {
        let mut fields = Map::new()
            .with("user", user)
            .with("token", self.token.as_str());
        if device.is_true() {
            fields.insert("device", device.clone());
        }
        let answer = self.post(cx, "users/validate.json", &fields)?;
        let found = contents(&answer)?;
        Ok(match answer.is_success() && is_done(&found) {
            true => None,
            false => Some(errors(&found).unwrap_or_else(|| "User key is invalid".to_owned())),
        })
    }

    /// Returns whether Pushover has a sound. If it does not say so, the reason is logged.
    fn has_sound(&self, cx: &Exec, sound: &str) -> Result<bool, Error> {
        let url = format!("{}/1/sounds.json?token={}", self.url, quoted(&self.token));
        let answer = Message::get(SERVICE, &url).send(cx)?;
        let found = contents(&answer)?;
        let known = is_done(&found).then(|| found.get("sounds")).flatten();
        let is_known = known
            .and_then(Value::as_map)
            .is_some_and(|sounds| sounds.contains(sound));
        if !is_known {
            let why = errors(&found).unwrap_or_else(|| format!("{sound} is not a valid sound"));
            log::warning(format_args!("{SERVICE}: the message has no sound: {why}"));
        }
        Ok(is_known)
    }
}

fn post_message(cx: &Exec, args: PostMessage) -> Result<Value, Error> {
    let keys = ["pushover.token", "pushover:token"];
    let token = needed_secret(cx, args.token, keys, "Pushover token is unavailable.")?;
    let keys = ["pushover.user", "pushover:user"];
    let user = needed_secret(cx, args.user, keys, "Pushover user key is unavailable.")?;
    if !args.message.is_true() {
        return Err("Required parameter \"message\" is missing.".into());
    }
    let url = notify::address(cx, ["pushover.api_url", "pushover:api_url"], API_URL)?;
    let pushover = Pushover { url, token };
    if let Some(why) = pushover.invalid_user(cx, &user, &args.device)? {
        let refused = Map::new().with("message", why);
        return Ok(refused.with("result", false).into());
    }
    let title = match args.title.is_true() {
        true => args.title,
        false => "Message from SaltStack".into(),
    };
    let mut fields = Map::new()
        .with("user", user)
        .with("device", args.device)
        .with("token", pushover.token.as_str())
        .with("title", title)
        .with("priority", args.priority)
        .with("expire", args.expire)
        .with("retry", args.retry)
        .with("message", args.message);
    if args.sound.is_true() && pushover.has_sound(cx, &args.sound.to_text())? {
        fields.insert("sound", args.sound);
    }
    let answer = pushover.post(cx, "messages.json", &fields)?;
    let found = contents(&answer)?;
    if answer.is_success() && is_done(&found) {
        return Ok(true.into());
    }
    let result = Map::new()
        .with("status", i64::from(answer.status))
        .with(
            "error",
            format!("HTTP {}: {}", answer.status, answer.reason),
        )
        .with("body", answer.text());
    Ok(Map::new().with("message", result).with("res", false).into())
}
