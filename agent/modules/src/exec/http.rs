//! The `http` execution module.

use std::time::{Duration, Instant};

use machine::net::http::{self, Request, Response};
use python::base64;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Send HTTP requests.
    mod http;

    /// Query a resource, and decode the returned data.
    ///
    /// These arguments are accepted: method, params, data, data_file, header_dict, header_list,
    /// username, password, decode, decode_type, status, headers, text, raise_error, verify_ssl,
    /// ca_bundle, agent, connect_timeout, request_timeout, test, test_url.
    ///
    ///     salt-call http.query https://example.com/health
    fn query(Query {
        /// The http or https address.
        url: String,
        ..kwargs
    });

    /// Query a resource repeatedly until a query succeeds.
    ///
    ///     salt-call http.wait_for_successful_query https://example.com/health wait_for=60
    fn wait_for_successful_query(Wait {
        /// The http or https address.
        url: String,
        /// The maximum time to try, in seconds.
        wait_for: f64 = 300.0,
        ..kwargs
    });
}

/// The `User-Agent` header that Salt sends.
pub(crate) const AGENT: &str = "Salt/3008.5 http.query()";

const DECODE_TYPES: [&str; 4] = ["json", "xml", "yaml", "plain"];

fn query(cx: &Exec, args: Query) -> Result<Value, Error> {
    let kwargs = &args.kwargs;
    let mut ret = Map::new();
    let mut url = args.url;
    if flag(kwargs, "test", false) {
        let Some(test_url) = text(kwargs, "test_url") else {
            return Ok(ret.into());
        };
        url = test_url;
        ret.insert("test", true);
    }
    let request = request(cx, &url, kwargs)?;
    match http::fetch(&request) {
        Ok(response) => answered(&response, kwargs, &mut ret)?,
        Err(http::Error::Scheme(url)) => {
            return Err(format!("Unsupported url scheme: {url}").into());
        }
        Err(error) => {
            if flag(kwargs, "status", false) {
                ret.insert("status", 0);
            }
            ret.insert("error", error.reason());
        }
    }
    Ok(ret.into())
}

fn wait_for_successful_query(cx: &Exec, args: Wait) -> Result<Value, Error> {
    let interval = args
        .kwargs
        .get("request_interval")
        .and_then(Value::as_float);
    let start = Instant::now();
    loop {
        let query = Query {
            url: args.url.clone(),
            kwargs: args.kwargs.clone(),
        };
        let found = self::query(cx, query);
        let failed = found
            .as_ref()
            .map_or(true, |ret| ret.get("error").is_some_and(Value::is_true));
        if !failed || start.elapsed().as_secs_f64() > args.wait_for {
            return found;
        }
        // Without an interval Salt repeats the query at once. A pause of a tenth of a second spares
        // the server.
        let pause = Duration::try_from_secs_f64(interval.unwrap_or(0.1)).unwrap_or_default();
        std::thread::sleep(pause);
    }
}

fn text(kwargs: &Map, name: &str) -> Option<String> {
    kwargs
        .get(name)
        .filter(|value| !value.is_null())
        .map(Value::to_text)
}

fn flag(kwargs: &Map, name: &str, default: bool) -> bool {
    kwargs.get(name).map_or(default, Value::is_true)
}

/// Returns the request of the arguments of `http.query`.
///
/// # Errors
/// When a file for it cannot be read.
pub(crate) fn request(cx: &Exec, url: &str, kwargs: &Map) -> Result<Request, Error> {
    let url = match kwargs.get("params").and_then(Value::as_map) {
        Some(params) if !params.is_empty() => with_params(url, params),
        _ => url.to_owned(),
    };
    let mut request = Request::get(&url, cx.opts());
    if let Some(method) = text(kwargs, "method") {
        request.method = method;
    }
    request.headers = headers(kwargs);
    request.body = body(kwargs)?;
    // Only an argument can turn the verification off. An option would do so for every call.
    request.verify_ssl = flag(kwargs, "verify_ssl", true);
    if let Some(bundle) = text(kwargs, "ca_bundle") {
        request.ca_bundle = Some(bundle.into());
    }
    let seconds = |name: &str| {
        let number = kwargs.get(name).and_then(Value::as_float)?;
        Duration::try_from_secs_f64(number).ok()
    };
    request.connect_timeout = seconds("connect_timeout").unwrap_or(request.connect_timeout);
    request.timeout = seconds("request_timeout").unwrap_or(request.timeout);
    if request.body.is_some() && !has_header(&request, "content-type") {
        let form = (
            "Content-Type".to_owned(),
            "application/x-www-form-urlencoded".to_owned(),
        );
        request.headers.push(form);
    }
    Ok(request)
}

fn has_header(request: &Request, name: &str) -> bool {
    request
        .headers
        .iter()
        .any(|(known, _)| known.eq_ignore_ascii_case(name))
}

fn with_params(url: &str, params: &Map) -> String {
    let (url, fragment) = match url.split_once('#') {
        Some((url, fragment)) => (url, format!("#{fragment}")),
        None => (url, String::new()),
    };
    let joint = match url.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    format!("{url}{joint}{}{fragment}", form(params))
}

/// Encodes a dictionary as the fields of a form.
pub(crate) fn form(fields: &Map) -> String {
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{}={}", quoted(&name.to_text()), quoted(&value.to_text())));
    pairs.collect::<Vec<_>>().join("&")
}

/// Encodes a text for a form.
fn quoted(text: &str) -> String {
    http::quoted(text).replace("%20", "+")
}

fn headers(kwargs: &Map) -> Vec<(String, String)> {
    let mut headers = Map::new();
    if let Some(named) = kwargs.get("header_dict").and_then(Value::as_map) {
        headers = named.clone();
    }
    let lines = kwargs
        .get("header_list")
        .and_then(Value::as_list)
        .unwrap_or_default();
    for line in lines.iter().map(Value::to_text) {
        // Salt cuts a value at its second colon, which breaks addresses in headers. The whole value
        // is kept here.
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.trim(), value.trim());
        }
    }
    headers.insert(
        "User-agent",
        text(kwargs, "agent").unwrap_or_else(|| AGENT.to_owned()),
    );
    if let (Some(name), Some(password)) = (text(kwargs, "username"), text(kwargs, "password")) {
        let credentials = base64::encode(format!("{name}:{password}").as_bytes());
        headers.insert("Authorization", format!("Basic {credentials}"));
    }
    let pairs = headers.iter();
    pairs
        .map(|(name, value)| (name.to_text(), value.to_text()))
        .collect()
}

fn body(kwargs: &Map) -> Result<Option<Vec<u8>>, Error> {
    if let Some(path) = text(kwargs, "data_file") {
        return machine::fs::read(&path).map(Some);
    }
    Ok(match kwargs.get("data") {
        None | Some(Value::Null) => None,
        Some(Value::Bytes(bytes)) => Some(bytes.to_vec()),
        Some(Value::Map(fields)) => Some(form(fields).into_bytes()),
        Some(other) => Some(other.to_text().into_bytes()),
    })
}

fn answered(response: &Response, kwargs: &Map, ret: &mut Map) -> Result<(), Error> {
    let body = String::from_utf8_lossy(&response.body).into_owned();
    if !response.is_success() && flag(kwargs, "raise_error", true) {
        ret.insert("status", i64::from(response.status));
        ret.insert(
            "error",
            format!("HTTP {}: {}", response.status, response.reason()),
        );
        ret.insert("body", body);
        return Ok(());
    }
    ret.insert("body", body.as_str());
    if flag(kwargs, "status", false) {
        ret.insert("status", i64::from(response.status));
    }
    if flag(kwargs, "headers", false) {
        let pairs = response.headers.iter();
        let headers: Map = pairs
            .map(|(name, value)| (title(name), value.as_str()))
            .collect();
        ret.insert("headers", headers);
    }
    let mut wants_text = flag(kwargs, "text", false);
    if flag(kwargs, "decode", false) {
        match decode(response, &body, kwargs)? {
            Decoded::Data(data) => {
                ret.insert("dict", data);
            }
            Decoded::Plain => wants_text = true,
            Decoded::Unknown => {
                ret.insert(
                    "error",
                    "Invalid decode_type specified. Valid decode types are: ('json', 'xml', 'yaml', 'plain')",
                );
                return Ok(());
            }
        }
    }
    if wants_text {
        ret.insert("text", body);
    }
    Ok(())
}

/// Returns the name of a header in its usual spelling, such as `Content-Type`.
fn title(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    words.collect::<Vec<_>>().join("-")
}

/// The result of decoding a body.
enum Decoded {
    Data(Value),
    Plain,
    Unknown,
}

fn decode(response: &Response, body: &str, kwargs: &Map) -> Result<Decoded, Error> {
    let named = text(kwargs, "decode_type").filter(|name| name != "auto");
    let content_type = response
        .header("content-type")
        .unwrap_or("application/json");
    let by_content = ["xml", "json", "yaml"]
        .into_iter()
        .find(|name| content_type.contains(name));
    let kind = named.unwrap_or_else(|| by_content.unwrap_or("plain").to_owned());
    if !DECODE_TYPES.contains(&kind.as_str()) {
        return Ok(Decoded::Unknown);
    }
    let failed = |error: String| Error::refused(format!("the body is not {kind}: {error}"));
    match kind.as_str() {
        "json" => value::json::read(body)
            .map(Decoded::Data)
            .map_err(|error| failed(error.to_string())),
        "yaml" => render::yaml::load(body)
            .map(Decoded::Data)
            .map_err(|error| failed(error.to_string())),
        "xml" => Err("http.query: decode_type xml is not supported; take the body as text".into()),
        _ => Ok(Decoded::Plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::server;

    fn ask(path: &str, kwargs: Map) -> Map {
        let address = server::start(|head, body| match head {
            head if head.contains(" /404") => server::text("404 Not Found", "", "nope"),
            head => {
                let kind = if head.contains(" /json") {
                    "application/json"
                } else {
                    "text/plain"
                };
                let first = head.lines().next().unwrap_or_default();
                let user = head.to_lowercase().contains("authorization: basic dtpw");
                let body = format!("[\"{first}\", \"{body}\", {user}]");
                server::text("200 OK", &format!("Content-Type: {kind}\r\n"), &body)
            }
        });
        let request = {
            let opts = state::opts::Opts::default();
            let mut request = Request::get(&format!("{address}{path}"), &opts);
            request.method = text(&kwargs, "method").unwrap_or(request.method);
            request.headers = headers(&kwargs);
            request.body = body(&kwargs).unwrap();
            request
        };
        let mut ret = Map::new();
        answered(&http::fetch(&request).unwrap(), &kwargs, &mut ret).unwrap();
        ret
    }

    #[test]
    fn a_body_is_decoded_by_its_content_type() {
        let kwargs = Map::new().with("decode", true).with("status", true);
        let ret = ask("/json", kwargs.clone());
        let first = ret
            .get("dict")
            .and_then(Value::as_list)
            .and_then(<[_]>::first);
        assert_eq!(first, Some(&"GET /json HTTP/1.1".into()));
        assert_eq!(ret.get("status").and_then(Value::as_int), Some(200));
        let plain = ask("/plain", kwargs.clone());
        assert_eq!(plain.get("text"), plain.get("body"));
        let wrong = ask("/plain", kwargs.with("decode_type", "foo"));
        assert!(wrong.contains("error") && !wrong.contains("dict"));
    }

    #[test]
    fn a_status_of_400_and_up_is_an_error_unless_it_is_not_to_be_raised() {
        let ret = ask("/404", Map::new());
        assert_eq!(
            value::python::str(&ret.into()),
            "{'status': 404, 'error': 'HTTP 404: Not Found', 'body': 'nope'}"
        );
        let ret = ask("/404", Map::new().with("raise_error", false));
        assert_eq!(value::python::str(&ret.into()), "{'body': 'nope'}");
    }

    #[test]
    fn data_and_users_are_sent() {
        let kwargs = Map::new()
            .with("method", "POST")
            .with("data", Map::new().with("k", "a b"))
            .with("username", "u")
            .with("password", "p");
        let ret = ask("/plain", kwargs);
        assert_eq!(
            ret.get("body"),
            Some(&"[\"POST /plain HTTP/1.1\", \"k=a+b\", true]".into())
        );
    }

    #[test]
    fn parameters_are_added_to_what_the_address_has() {
        let params = Map::new().with("a", 1).with("b", "x y/ä");
        assert_eq!(
            with_params("http://h/p", &params),
            "http://h/p?a=1&b=x+y%2F%C3%A4"
        );
        assert_eq!(
            with_params("http://h/p?c=2#f", &params),
            "http://h/p?c=2&a=1&b=x+y%2F%C3%A4#f"
        );
    }
}
