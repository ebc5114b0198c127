//! The source `rest`: a server that answers a user's name and password with the user's rules.

use std::time::Duration;

use machine::net::http::{self, Request, quoted};
use state::module::Error;
use value::{Value, json};

use super::Known;
use super::source::Source;

/// The maximum time for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of an answer in bytes.
const ANSWER_MAX: u64 = 1 << 20;

/// Checks a password with the server of `^url`.
pub(super) fn check(source: &Source, name: &str, password: &str) -> Result<Option<Known>, Error> {
    let url = source
        .setting("url")
        .ok_or("set ^url to the address of the server")?;
    let mut request = Request::get(&url, source.opts());
    request.method = "POST".to_owned();
    let form = format!("username={}&password={}", quoted(name), quoted(password));
    request.body = Some(form.into_bytes());
    request.headers = vec![
        (
            "Content-Type".into(),
            "application/x-www-form-urlencoded".into(),
        ),
        ("Accept".into(), "application/json".into()),
    ];
    request.timeout = TIMEOUT;
    request.connect_timeout = TIMEOUT;
    request.max_body = Some(ANSWER_MAX);
    // The password is for this server only.
    request.max_redirects = 0;
    let response = http::fetch(&request);
    // The error of the library may contain the address, but never the body.
    let response = response.map_err(|error| Error::refused(error.reason()))?;
    if response.status != 200 {
        return Ok(None);
    }
    let own = source.table.get(name);
    Ok(Some(Known {
        groups: Vec::new(),
        acl: acl(own, &response.body)?,
    }))
}

/// Returns the rules of the configuration for this very name and those of the answer; `None` if there
/// are none.
fn acl(own: Option<&Value>, body: &[u8]) -> Result<Option<Vec<Value>>, Error> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not UTF-8")?;
    let answer = json::read(text).map_err(|error| format!("the answer is not JSON: {error}"))?;
    let mut rules = match own {
        Some(Value::List(rules)) => rules.to_vec(),
        _ => Vec::new(),
    };
    match answer {
        Value::Null => {}
        Value::List(more) => rules.extend(more.iter().cloned()),
        other => {
            return Err(Error::refused(format!(
                "the answer must be a list of rules, but is a {}",
                other.type_name()
            )));
        }
    }
    Ok((!rules.is_empty()).then_some(rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_a_list_of_rules() {
        let own = Value::list(["a".into()]);
        let both = acl(Some(&own), br#"["b"]"#).unwrap().unwrap();
        assert_eq!(both, ["a".into(), "b".into()]);
        assert_eq!(acl(None, b"null").unwrap(), None);
        assert_eq!(acl(None, b"[]").unwrap(), None);
        for wrong in [&b"{}"[..], b"\"x\"", b"", b"<html>", b"\xff"] {
            assert!(acl(Some(&own), wrong).is_err(), "{wrong:?}");
        }
    }
}
