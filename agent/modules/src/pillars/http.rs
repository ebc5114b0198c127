//! The external pillars `http_json` and `http_yaml`: a document of a web server.
//!
//! With `on_failure: last`, the last good answer is kept in `cachedir/pillar`, for times when the
//! server gives none.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use machine::net::http::{self, quoted};
use machine::{durable, hashes};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json, log, secret};

use super::arguments::{named, text};
use crate::exec::http::request;

/// The seconds that an answer may take.
const SECONDS: f64 = 30.0;

/// The arguments in Salt's order, and those that only Pinch has.
const ARGUMENTS: [&str; 9] = [
    "url",
    "with_grains",
    "header_dict",
    "auth",
    "username",
    "password",
    "namespace",
    "timeout",
    "on_failure",
];

/// Parts of the names of headers whose values are secrets.
const SECRET_HEADERS: [&str; 6] = ["auth", "cookie", "key", "pass", "secret", "token"];

/// Parses the body of an answer.
type Parse = fn(&str) -> Result<Value, String>;

/// Returns the data of a JSON document.
///
/// # Errors
/// When there is no good answer.
pub(super) fn load_json(cx: &Exec, val: &Value, _pillar: &Map) -> Result<Map, Error> {
    load(cx, val, |body| {
        json::read(body).map_err(|error| format!("the body is not JSON: {error}"))
    })
}

/// Returns the data of a YAML document.
///
/// # Errors
/// When there is no good answer.
pub(super) fn load_yaml(cx: &Exec, val: &Value, _pillar: &Map) -> Result<Map, Error> {
    load(cx, val, |body| {
        render::yaml::load(body).map_err(|error| format!("the body is not YAML: {error}"))
    })
}

fn load(cx: &Exec, val: &Value, parse: Parse) -> Result<Map, Error> {
    let given = named(val, &ARGUMENTS)?;
    let source = Source::new(cx, &given)?;
    let data = match source.keeps_last {
        true => source.fetched_or_last(cx, parse),
        false => source.fetched(cx, parse).map(|(data, _)| data),
    };
    let place = source.place();
    let data = data.map_err(|error| Error::refused(format!("{place}: {}", error.sentence())))?;
    Ok(
        match text(&given, "namespace")?.filter(|name| !name.is_empty()) {
            Some(namespace) => Map::new().with(&namespace, data),
            None => data,
        },
    )
}

/// A document of a web server.
struct Source {
    url: String,
    /// The arguments of the request.
    options: Map,
    keeps_last: bool,
}

impl Source {
    fn new(cx: &Exec, given: &Map) -> Result<Self, Error> {
        let url = text(given, "url")?.ok_or("it has no url")?;
        let url = url.replace("%s", &quoted(cx.opts().id()));
        let url = match given.get("with_grains").is_some_and(Value::is_true) {
            true => with_grains(&url, &cx.grains().into())?,
            false => url,
        };
        let keeps_last = match text(given, "on_failure")?.as_deref() {
            None => false,
            Some("last") => true,
            Some(other) => {
                return Err(Error::refused(format!(
                    "on_failure is {other}; expected `last`, or nothing"
                )));
            }
        };
        Ok(Self {
            url,
            options: options(given)?,
            keeps_last,
        })
    }

    /// Returns the address for messages: without a user, a password and a query.
    fn place(&self) -> String {
        let url = self.url.split(['?', '#']).next().unwrap_or_default();
        match url.split_once("://") {
            Some((scheme, rest)) => {
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                let host = host.rsplit('@').next().unwrap_or_default();
                format!("{scheme}://{host}/{path}")
            }
            None => url.to_owned(),
        }
    }

    /// Returns the data of the server, and the body.
    fn fetched(&self, cx: &Exec, parse: Parse) -> Result<(Map, String), Error> {
        let request = request(cx, &self.url, &self.options)?;
        let answer = http::fetch(&request).map_err(|error| Error::refused(error.reason()))?;
        if !answer.is_success() {
            return Err(Error::refused(format!(
                "HTTP {}: {}",
                answer.status,
                answer.reason()
            )));
        }
        let body = String::from_utf8(answer.body);
        let body = body.map_err(|_| Error::from("the body is not UTF-8 text"))?;
        Ok((dictionary(&body, parse)?, body))
    }

    /// Returns the data of the server, which are kept, or the kept ones.
    fn fetched_or_last(&self, cx: &Exec, parse: Parse) -> Result<Map, Error> {
        let folder = cx.opts().cachedir().join("pillar");
        let name = self.name(cx)?;
        let error = match self.fetched(cx, parse) {
            Ok((data, body)) => {
                let kept = durable::write(&folder, &name, body.as_bytes());
                kept.map_err(Error::io(folder.join(&name)))?;
                return Ok(data);
            }
            Err(error) => error,
        };
        let path = folder.join(name);
        let Some(last) = machine::fs::text_or_none(&path)? else {
            return Err(Error::refused(format!(
                "{} (on_failure: last: there is no earlier answer)",
                error.sentence()
            )));
        };
        let data = dictionary(&last, parse)?;
        let age = age(path)?;
        log::warning(format_args!(
            "{}: {}. The pillar is of {age} ago (on_failure: last)",
            self.place(),
            error.sentence()
        ));
        Ok(data)
    }

    /// Returns the name of the file for the last good answer. It is another one for each minion, address
    /// and user.
    fn name(&self, cx: &Exec) -> Result<String, Error> {
        let user = self.options.get("username").map(Value::to_text);
        let all = [cx.opts().id(), &self.url, &user.unwrap_or_default()].join("\n");
        let hash = hashes::of_bytes(all.as_bytes(), "sha256")?;
        Ok(format!("http-{hash}"))
    }
}

/// Returns the arguments of the request.
fn options(given: &Map) -> Result<Map, Error> {
    let mut options = Map::new();
    let headers = given.get("header_dict").filter(|headers| headers.is_true());
    if let Some(headers) = headers.filter(|headers| headers.as_str() != Some("None")) {
        let headers = headers.as_map().ok_or("header_dict must be a dictionary")?;
        for (name, value) in headers {
            let name = name.to_text().to_lowercase();
            if SECRET_HEADERS.iter().any(|part| name.contains(part)) {
                secret::keep(&[], value);
            }
        }
        options.insert("header_dict", headers.clone());
    }
    let (mut user, mut password) = (text(given, "username")?, text(given, "password")?);
    if let Some(Value::List(pair)) = given.get("auth") {
        let [name, secret] = pair.as_slice() else {
            return Err("auth must be a list of a user and a password".into());
        };
        (user, password) = (Some(name.to_text()), Some(secret.to_text()));
    } else if text(given, "auth")?.is_some() {
        return Err("auth must be a list of a user and a password".into());
    }
    if let Some(password) = &password {
        secret::keep(&[], &password.as_str().into());
    }
    let seconds = match given.get("timeout") {
        None | Some(Value::Null) => Some(SECONDS),
        Some(given) => given.as_float(),
    };
    let seconds = seconds.filter(|seconds| *seconds > 0.0 && seconds.is_finite());
    let seconds = seconds.ok_or("timeout must be a number of seconds above 0")?;
    Ok(options
        .with("username", user)
        .with("password", password)
        .with("connect_timeout", seconds)
        .with("request_timeout", seconds))
}

/// Puts the values of grains in the place of their names in angle brackets. The values come from the
/// minion, so they are escaped, and cannot add a part to the path.
fn with_grains(url: &str, grains: &Value) -> Result<String, Error> {
    let (mut filled, mut rest) = (String::new(), url);
    while let Some((before, after)) = rest.split_once('<') {
        let Some((name, behind)) = after.split_once('>') else {
            break;
        };
        let value = grains.traverse(name, ":").filter(|value| value.is_true());
        let value = value.map(Value::to_text);
        let value = value.filter(|value| !matches!(value.as_str(), "." | ".."));
        let value = value.ok_or_else(|| {
            Error::refused(format!("the grain {name} of the url has no usable value"))
        })?;
        filled.push_str(before);
        filled.push_str(&quoted(&value));
        rest = behind;
    }
    Ok(filled + rest)
}

fn dictionary(body: &str, parse: Parse) -> Result<Map, Error> {
    match parse(body).map_err(Error::refused)? {
        Value::Map(map) => Ok(map),
        other => Err(Error::refused(format!(
            "the answer must be a dictionary, but is a {}",
            other.type_name()
        ))),
    }
}

/// Returns the age of a file in words.
fn age(path: PathBuf) -> Result<String, Error> {
    let changed = std::fs::metadata(&path).and_then(|found| found.modified());
    let changed = changed.map_err(Error::io(path))?;
    let age = SystemTime::now().duration_since(changed);
    Ok(words(age.unwrap_or_default()))
}

fn words(age: Duration) -> String {
    let seconds = age.as_secs();
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_grains_cannot_leave_their_part_of_the_url() {
        let inner = Map::new().with("b", "x/../y?z");
        let grains = Map::new().with("a", inner).with("up", "..").with("no", "");
        let fill = |url| with_grains(url, &grains.clone().into());
        assert_eq!(
            fill("h/<a:b>/<a:b>").unwrap(),
            "h/x%2F..%2Fy%3Fz/x%2F..%2Fy%3Fz"
        );
        assert_eq!(fill("h/a<b").unwrap(), "h/a<b");
        assert!(fill("h/<up>").is_err() && fill("h/<no>").is_err() && fill("h/<none>").is_err());
    }

    #[test]
    fn ages_are_rounded_down() {
        let shown = [7, 61, 3 * 3600 + 125, 2 * 86_400 + 3700]
            .map(Duration::from_secs)
            .map(words);
        assert_eq!(shown, ["7 s", "1 min", "3 h 2 min", "2 d 1 h"]);
    }

    #[test]
    fn an_address_is_shown_without_user_and_query() {
        let source = |url: &str| Source {
            url: url.to_owned(),
            options: Map::new(),
            keeps_last: false,
        };
        assert_eq!(
            source("https://u:p@h:1/a/b?token=x#y").place(),
            "https://h:1/a/b"
        );
        assert_eq!(source("nothing").place(), "nothing");
    }

    #[test]
    fn wrong_arguments_are_errors() {
        let wrong = |yaml: &str| {
            let given = named(&render::yaml::load(yaml).unwrap(), &ARGUMENTS).unwrap();
            options(&given).unwrap_err().to_string()
        };
        assert!(wrong("{header_dict: [a]}").contains("header_dict must be"));
        assert!(wrong("{timeout: 0}").contains("timeout must be"));
        assert!(wrong("{auth: x}").contains("auth must be"));
        let plain = Map::new().with("header_dict", "None").with("auth", "None");
        assert_eq!(options(&plain).unwrap().get("username"), Some(&Value::Null));
    }
}
