//! The `consul` execution module: keys and values of Consul. Salt 3008 no longer has this module;
//! the results are those of the last version that had it.

use machine::net::http::quoted;
use python::base64;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, secret};

use crate::exec::json_api::{Question, profile};

state::exec_module! {
    /// Read and write keys and values of Consul.
    mod consul;

    /// Return the value of a key.
    ///
    ///     salt-call consul.get consul_url=http://127.0.0.1:8500 key=app/port
    fn get(Get {
        /// The URL of Consul. The default is `consul:url` of the configuration or of the profile.
        consul_url: Option<String> = None,
        /// The name of the key.
        key: Option<String> = None,
        /// The access token.
        token: Option<String> = None,
        /// True to return all keys that begin with `key`.
        recurse: bool = false,
        /// True to decode the values.
        decode: bool = false,
        /// True to return only the value.
        raw: bool = false,
    });

    /// Return the names of all keys.
    ///
    ///     salt-call consul.list consul_url=http://127.0.0.1:8500
    fn list(List {
        /// The URL of Consul. The default is `consul:url` of the configuration or of the profile.
        consul_url: Option<String> = None,
        /// The access token.
        token: Option<String> = None,
        /// The prefix of the names.
        key: Option<String> = None,
        ..kwargs
    });

    /// Set a key.
    ///
    ///     salt-call consul.put consul_url=http://127.0.0.1:8500 key=app/port value=8080
    fn put(Put {
        /// The URL of Consul. The default is `consul:url` of the configuration or of the profile.
        consul_url: Option<String> = None,
        /// The access token.
        token: Option<String> = None,
        /// The name of the key.
        key: Option<String> = None,
        /// The value to set.
        value: Value = Value::Null,
        ..kwargs
    });

    /// Delete a key.
    ///
    ///     salt-call consul.delete consul_url=http://127.0.0.1:8500 key=app/port
    fn delete(Delete {
        /// The URL of Consul. The default is `consul:url` of the configuration or of the profile.
        consul_url: Option<String> = None,
        /// The access token.
        token: Option<String> = None,
        /// The name of the key.
        key: Option<String> = None,
        /// True to delete all keys that begin with `key`.
        recurse: bool = false,
        ..kwargs
    });
}

/// The URL of Consul and the access token.
struct Consul {
    url: String,
    token: Option<String>,
    /// False accepts any certificate; a text is a file of trusted ones.
    verify: Option<Value>,
}

const NOT_FOUND: &str = "Key not found.";

/// Returns a result: `res`, with `data` or `message`.
fn answer(res: bool, name: &str, what: impl Into<Value>) -> Value {
    Map::new().with("res", res).with(name, what).into()
}

impl Consul {
    fn from_config(
        cx: &Exec,
        url: Option<String>,
        token: Option<String>,
    ) -> Result<Result<Self, Value>, Error> {
        let config = profile(cx, "consul")?.unwrap_or_default();
        let setting = |name: &str| {
            config
                .get(name)
                .filter(|value| value.is_true())
                .map(Value::to_text)
        };
        let token = token.or_else(|| setting("token"));
        if let Some(token) = &token {
            secret::keep(&[], &token.as_str().into());
        }
        Ok(match url.or_else(|| setting("url")) {
            Some(url) => Ok(Self {
                url: url.trim_end_matches('/').to_owned(),
                token,
                verify: None,
            }),
            None => Err(answer(false, "message", "No Consul URL found.")),
        })
    }

    /// Creates a client from an `sdb` profile.
    fn of_settings(profile: &Map) -> Self {
        let setting = |name: &str, default: &str| {
            let found = profile.get(name).filter(|value| value.is_true());
            found.map_or_else(|| default.to_owned(), Value::to_text)
        };
        let token = Some(setting("token", "")).filter(|token| !token.is_empty());
        if let Some(token) = &token {
            secret::keep(&[], &token.as_str().into());
        }
        let (scheme, host) = (setting("scheme", "http"), setting("host", "127.0.0.1"));
        Self {
            url: format!("{scheme}://{host}:{}", setting("port", "8500")),
            token,
            verify: profile.get("verify").cloned(),
        }
    }

    /// Sends a request for a key with query parameters, and returns the JSON of the answer.
    fn ask(
        &self,
        cx: &Exec,
        method: &str,
        (key, settings): (&str, &str),
        body: Option<Vec<u8>>,
    ) -> Result<Result<Value, Value>, Error> {
        let key: Vec<String> = key.trim_matches('/').split('/').map(quoted).collect();
        let url = format!("{}/v1/kv/{}{settings}", self.url, key.join("/"));
        let mut question = Question::new(method, &url, None);
        question.body = body;
        question.verify = self.verify.clone();
        if let Some(token) = &self.token {
            question
                .headers
                .push(("X-Consul-Token".to_owned(), token.clone()));
        }
        let came = question.ask(cx)?;
        Ok(match came.status {
            200..300 => Ok(came.json()?),
            404 => Err(answer(false, "message", NOT_FOUND)),
            _ => Err(answer(false, "message", came.reason)),
        })
    }
}

/// Returns a value, for `sdb`. The profile contains `host`, `port`, `token` and so on.
///
/// # Errors
/// When Consul does not answer, or refuses the request.
pub(crate) fn value_at(cx: &Exec, profile: &Map, key: &str) -> Result<Value, Error> {
    let consul = Consul::of_settings(profile);
    let rows = match consul.ask(cx, "GET", (key, ""), None)? {
        Ok(rows) => rows,
        Err(why) if why.get("message").and_then(Value::as_str) == Some(NOT_FOUND) => {
            return Ok(Value::Null);
        }
        Err(why) => return Err(failed(&why)),
    };
    let text = rows
        .as_list()
        .and_then(<[_]>::first)
        .and_then(|row| row.get("Value"));
    Ok(match text.and_then(Value::as_str) {
        Some(text) => String::from_utf8_lossy(&base64::decode(text)?)
            .into_owned()
            .into(),
        None => Value::Null,
    })
}

/// A key and its value.
pub(crate) type Pair = (String, Option<Vec<u8>>);

/// Returns the keys below a path, without the path, and their values, for the external pillar. A key
/// without a value has none. `settings` are further parts of the request.
///
/// # Errors
/// When Consul does not answer, or refuses the request.
pub(crate) fn below(
    cx: &Exec,
    profile: &Map,
    (path, settings): (&str, &str),
) -> Result<Vec<Pair>, Error> {
    let path = path.trim_matches('/');
    let prefix = match path {
        "" => String::new(),
        path => format!("{path}/"),
    };
    // `ask` cuts the last slash, without which other keys would begin with the path, too.
    let settings = match path {
        "" => format!("?recurse=true{settings}"),
        _ => format!("/?recurse=true{settings}"),
    };
    let rows = match Consul::of_settings(profile).ask(cx, "GET", (path, &settings), None)? {
        Ok(rows) => rows,
        Err(why) if why.get("message").and_then(Value::as_str) == Some(NOT_FOUND) => {
            return Ok(Vec::new());
        }
        Err(why) => return Err(failed(&why)),
    };
    let rows = rows.as_list().ok_or("consul: the answer is not a list")?;
    let pair = |row: &Value| {
        let key = row.get("Key").and_then(Value::as_str);
        let key = key.ok_or("consul: the answer has a row without a key")?;
        let key = key.strip_prefix(&prefix);
        let key = key.ok_or("consul: the answer has a key outside of the path")?;
        let value = row.get("Value").and_then(Value::as_str);
        let value = value.map(base64::decode).transpose()?;
        Ok((key.to_owned(), value))
    };
    rows.iter().map(pair).collect()
}

/// Sets a value, for `sdb`.
///
/// # Errors
/// When Consul does not answer, or refuses the request.
pub(crate) fn set_value_at(
    cx: &Exec,
    profile: &Map,
    key: &str,
    value: &Value,
) -> Result<Value, Error> {
    let body = value.to_text().into_bytes();
    let done = Consul::of_settings(profile).ask(cx, "PUT", (key, ""), Some(body))?;
    done.map_err(|why| failed(&why))
}

fn failed(why: &Value) -> Error {
    Error::refused(format!(
        "consul: {}",
        why.get("message").map_or_else(String::new, Value::to_text)
    ))
}

fn key_of(key: Option<String>) -> Result<String, Error> {
    key.filter(|key| !key.is_empty())
        .ok_or_else(|| "Required argument \"key\" is missing.".into())
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let key = key_of(args.key)?;
    let consul = match Consul::from_config(cx, args.consul_url, args.token)? {
        Ok(consul) => consul,
        Err(why) => return Ok(why),
    };
    let settings = if args.recurse { "?recurse=true" } else { "" };
    let mut rows = match consul.ask(cx, "GET", (&key, settings), None)? {
        Ok(rows) => rows.as_list().map(<[_]>::to_vec).unwrap_or_default(),
        Err(why) => return Ok(why),
    };
    for row in &mut rows {
        let Some(text) = row.get("Value").and_then(Value::as_str) else {
            continue;
        };
        let plain = String::from_utf8_lossy(&base64::decode(text)?).into_owned();
        secret::keep(&[], &plain.as_str().into());
        if args.raw && !args.recurse {
            return Ok(plain.into());
        }
        if args.decode
            && let Value::Map(map) = row
        {
            map.insert("Value", plain);
        }
    }
    Ok(answer(true, "data", Value::list(rows)))
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let consul = match Consul::from_config(cx, args.consul_url, args.token)? {
        Ok(consul) => consul,
        Err(why) => return Ok(why),
    };
    let settings = match args.kwargs.get("recurse").is_some_and(Value::is_true) {
        true => "?recurse=true&keys=true&separator=/",
        false => "?keys=true&separator=/",
    };
    let key = args.key.unwrap_or_default();
    let came = consul.ask(cx, "GET", (&key, settings), None)?;
    Ok(came.map_or_else(|why| why, |names| answer(true, "data", names)))
}

fn put(cx: &Exec, args: Put) -> Result<Value, Error> {
    let key = key_of(args.key)?;
    let consul = match Consul::from_config(cx, args.consul_url, args.token)? {
        Ok(consul) => consul,
        Err(why) => return Ok(why),
    };
    let mut settings = Vec::new();
    for name in ["flags", "cas", "acquire", "release"] {
        if let Some(setting) = args.kwargs.get(name).filter(|value| !value.is_null()) {
            settings.push(format!("{name}={}", quoted(&setting.to_text())));
        }
    }
    let settings = match settings.is_empty() {
        true => String::new(),
        false => format!("?{}", settings.join("&")),
    };
    secret::keep(&[], &args.value);
    let body = args.value.to_text().into_bytes();
    let came = consul.ask(cx, "PUT", (&key, &settings), Some(body))?;
    Ok(match came {
        Ok(done) if done.is_true() => answer(true, "data", format!("Added key {key} with value.")),
        Ok(_) => answer(
            false,
            "data",
            format!("Unable to add key {key} with value."),
        ),
        Err(why) => why,
    })
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let key = key_of(args.key)?;
    let consul = match Consul::from_config(cx, args.consul_url, args.token)? {
        Ok(consul) => consul,
        Err(why) => return Ok(why),
    };
    let mut settings = if args.recurse {
        "?recurse=true".to_owned()
    } else {
        String::new()
    };
    if let Some(cas) = args.kwargs.get("cas").filter(|value| !value.is_null()) {
        let joint = if settings.is_empty() { "?" } else { "&" };
        settings.push_str(&format!("{joint}cas={}", quoted(&cas.to_text())));
    }
    let came = consul.ask(cx, "DELETE", (&key, &settings), None)?;
    Ok(match came {
        Ok(done) if done.is_true() => answer(true, "message", format!("Deleted key {key}.")),
        Ok(_) => answer(false, "message", format!("Unable to delete key {key}.")),
        Err(why) => why,
    })
}
