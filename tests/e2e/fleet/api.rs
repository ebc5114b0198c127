//! The API: the answers that Salt's salt-api gives, sessions, streams of events, and files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use tests::corpus::{Case, Outcome, check_all};
use tests::scratch::corpus;

use super::{Fleet, PATIENCE};
use crate::certificates::openssl;

/// The users of the tests: alice may do everything, bob may ping, carol may do nothing.
const CONFIG: &str = include_str!("../../corpus/api/master");
const USERS: &str = include_str!("../../corpus/api/users");

/// An answer of the API.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Reads the head of an answer.
pub(super) fn head(stream: &mut impl BufRead) -> (u16, BTreeMap<String, String>) {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer: {line:?}"));
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            return (status, headers);
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
}

/// Reads the next chunk of a body; empty at the end.
pub(super) fn chunk(stream: &mut impl BufRead) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let size = usize::from_str_radix(line.trim_end(), 16).unwrap_or(0);
    let mut bytes = vec![0; size + 2];
    if stream.read_exact(&mut bytes).is_err() {
        return String::new();
    }
    bytes.truncate(size);
    String::from_utf8(bytes).unwrap()
}

fn reply(stream: &mut impl BufRead, is_head: bool) -> Reply {
    let (status, headers) = head(stream);
    let mut body = String::new();
    let length = headers
        .get("content-length")
        .map(|text| text.parse().unwrap());
    match length {
        _ if is_head => {}
        Some(length) => {
            let mut bytes = vec![0; length];
            stream.read_exact(&mut bytes).unwrap();
            body = String::from_utf8(bytes).unwrap();
        }
        None if headers.contains_key("transfer-encoding") => loop {
            match chunk(stream) {
                piece if piece.is_empty() => break,
                piece => body.push_str(&piece),
            }
        },
        None => {
            stream.read_to_string(&mut body).unwrap();
        }
    }
    Reply {
        status,
        headers,
        body,
    }
}

/// A request to the API.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    method: String,
    path: String,
    lines: String,
    body: String,
}

impl Asked {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn post(path: &str, json: &Value) -> Self {
        let asked = Self::new("POST", path).with("Content-Type", "application/json");
        asked.body(&json.to_string())
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.lines.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        self.body = body.to_owned();
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.with("X-Auth-Token", token)
    }

    pub(crate) fn text(&self) -> String {
        let Self {
            method,
            path,
            lines,
            body,
        } = self;
        let length = match method.as_str() {
            "GET" | "HEAD" => String::new(),
            _ => format!("Content-Length: {}\r\n", body.len()),
        };
        format!("{method} {path} HTTP/1.1\r\nHost: salt:8000\r\n{length}{lines}\r\n{body}")
    }

    pub(super) fn send(&self, address: &str) -> Reply {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A client that is refused early may find the connection closed.
        let _ = stream.write_all(self.text().as_bytes());
        reply(&mut BufReader::new(stream), self.method == "HEAD")
    }
}

/// Returns the configuration of a master with the API and its users, and more lines.
pub(crate) fn config(more: &str) -> String {
    let config = CONFIG
        .replace("@PORT@", "0")
        .replace("@DIR@/users", "@USERS@");
    format!("timeout: 5\ngather_job_timeout: 3\n{config}{more}")
}

impl Fleet {
    /// Starts a master with the API.
    pub(crate) fn with_api(more: &str) -> Self {
        let fleet = Self::with("");
        fleet.restarted_with_api(more)
    }

    fn restarted_with_api(mut self, more: &str) -> Self {
        self.kill_master();
        let users = self.path("users");
        fs::write(&users, USERS).unwrap();
        let path = self.path("master/etc/master");
        let text = fs::read_to_string(&path).unwrap();
        let mut config = config(more).replace("@USERS@", &users.display().to_string());
        let clients = "netapi_enable_clients: [";
        if more.contains(clients) {
            // The usual ones would be a second value of the same option.
            let is_other = |line: &&str| !line.starts_with(clients) || more.contains(line);
            let lines: Vec<&str> = config.lines().filter(is_other).collect();
            config = lines.join("\n") + "\n";
        }
        fs::write(&path, text + &config).unwrap();
        self.start_master();
        self
    }

    pub(crate) fn api(&self) -> String {
        self.listens("rest_cherrypy")
    }

    pub(crate) fn ask(&self, asked: &Asked) -> Reply {
        asked.send(&self.api())
    }

    /// Logs a user in, and returns the token.
    pub(crate) fn login(&self, user: &str) -> String {
        let asked = Asked::post("/login", &credentials(user));
        let reply = self.ask(&asked);
        assert_eq!(reply.status, 200, "{reply:?}\n{}", self.logs());
        reply.json()["return"][0]["token"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

/// Returns the credentials of one of the users.
pub(super) fn credentials(user: &str) -> Value {
    let password = format!("secret-{}", &user[..1]);
    json!({"username": user, "password": password, "eauth": "file"})
}

/// Masks what differs in each run, as `record.py` does.
fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, mask) in [
        (r"\b20[23]\d{17}\b", "JID"),
        (r"\b[0-9a-f]{40,128}\b", "TOKEN"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+", "TIME"),
        (r"\b1[789]\d{8}\.\d+", "0.5"),
        (r"(?:[0-9a-f]{2}:){15,}[0-9a-f]{2}", "FINGER"),
    ] {
        let pattern = fancy_regex::Regex::new(pattern).unwrap();
        text = pattern.replace_all(&text, mask).into_owned();
    }
    text
}

/// Returns an answer in the form of the record.
fn recorded(reply: &Reply, case: &toml::Value) -> Value {
    let kind = reply.header("content-type").split(';').next().unwrap_or("");
    let mut body = match kind {
        "application/json" => {
            serde_json::from_str(&masked(&reply.body)).unwrap_or_else(|_| json!(""))
        }
        _ => json!(masked(&reply.body)),
    };
    without_pub(&mut body);
    if case["name"].as_str() == Some("stats") {
        body = names(&body);
    }
    if case.get("keys_only").is_some() && reply.status == 200 {
        for one in body["return"].as_array_mut().unwrap() {
            for value in one.as_object_mut().unwrap().values_mut() {
                assert!(
                    value.as_object().is_some_and(|map| map.contains_key("os")),
                    "{value}"
                );
                *value = json!("grains");
            }
        }
    }
    json!({"status": reply.status, "type": kind, "body": body})
}

/// Returns the names of the parts of `/stats`, and those in each.
fn names(stats: &Value) -> Value {
    let number = fancy_regex::Regex::new(r" \d+$").unwrap();
    let parts = stats.as_object().unwrap().iter().map(|(name, part)| {
        let mut names: Vec<&str> = part.as_object().unwrap().keys().map(|key| &**key).collect();
        names.sort_unstable();
        (number.replace(name, " N").into_owned(), json!(names))
    });
    parts.collect::<serde_json::Map<_, _>>().into()
}

/// Returns the texts of an error alone, which Salt has on a page.
fn plain(mut answer: Value) -> Value {
    if answer["status"].as_u64() >= Some(400) {
        let text = answer["body"]["return"].as_str().map(str::to_owned);
        let text = text.or_else(|| answer["body"].as_str().map(str::to_owned));
        answer["body"] = json!(text.map(|text| text.trim().to_owned()));
        answer["type"] = json!("");
    }
    answer
}

fn request(case: &toml::Value, tokens: &BTreeMap<&str, String>) -> Asked {
    let text = |key: &str| case.get(key).and_then(toml::Value::as_str);
    let token = text("user").map(|user| tokens[user].clone());
    let json = case
        .get("json")
        .map(|json| serde_json::to_string(json).unwrap());
    let body = json.clone().or_else(|| text("body").map(str::to_owned));
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut asked = Asked::new(text("method").unwrap_or(method), text("path").unwrap());
    let kind = json.map(|_| "application/json").or_else(|| text("type"));
    for (name, value) in [
        ("Content-Type", kind),
        ("Accept", text("accept")),
        ("Origin", text("origin")),
        (
            "Access-Control-Request-Method",
            text("origin").map(|_| "POST"),
        ),
    ] {
        if let Some(value) = value {
            asked = asked.with(name, value);
        }
    }
    if let Some(given) = text("token").or(token.as_deref()) {
        asked = match case.get("cookie") {
            Some(_) => asked.with("Cookie", &format!("session_id={given}")),
            None => asked.token(given),
        };
    }
    let body = body.unwrap_or_default();
    asked.body(&body.replace("@TOKEN@", token.as_deref().unwrap_or_default()))
}

/// Removes what a minion adds to the arguments of each job.
fn without_pub(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !key.starts_with("__pub_"));
            map.values_mut().for_each(without_pub);
        }
        Value::Array(list) => list.iter_mut().for_each(without_pub),
        _ => {}
    }
}

/// A request with Salt's answer and ours.
struct Recorded {
    name: String,
    salt: Value,
    /// The answer that Pinch intends to give, if it differs.
    intended: Option<Value>,
    here: Value,
}

impl Case for Recorded {
    fn name(&self) -> String {
        format!("api/{}", self.name)
    }

    fn check(&self) -> Result<Outcome, String> {
        match self.salt == self.here {
            true => Ok(Outcome::Agrees),
            false => Err(format!("{}\n{}", self.salt, self.here)),
        }
    }

    fn check_ours(&self) -> Result<(), String> {
        match self.intended.as_ref() == Some(&self.here) {
            true => Ok(()),
            false => Err(format!("{:?}\n{}", self.intended, self.here)),
        }
    }
}

#[test]
fn requests_have_the_answers_of_salts_own_api() {
    let mut fleet = Fleet::with_api("");
    fleet.accepted(&["m1"]);
    let read = |name: &str| fs::read_to_string(corpus().join("api").join(name)).unwrap();
    let cases: toml::Value = toml::from_str(&read("cases.toml")).unwrap();
    let answers: Value = serde_json::from_str(&read("answers.json")).unwrap();
    let intended: Value = serde_json::from_str(&read("ours.json")).unwrap();
    let tokens = ["alice", "bob", "carol"].map(|user| (user, fleet.login(user)));
    let tokens = BTreeMap::from(tokens);
    let answered = |case: &toml::Value| {
        let name = case["name"].as_str().unwrap();
        let reply = fleet.ask(&request(case, &tokens));
        Recorded {
            name: name.to_owned(),
            salt: plain(answers[name].clone()),
            intended: intended.get(name).cloned(),
            here: plain(recorded(&reply, case)),
        }
    };
    let cases = cases["case"].as_array().unwrap();
    let cases: Vec<Recorded> = cases.iter().map(answered).collect();
    if std::env::var_os("PINCH_RECORD").is_some() {
        let differing = cases.iter().filter(|case| case.salt != case.here);
        let ours: BTreeMap<&str, &Value> =
            differing.map(|case| (&*case.name, &case.here)).collect();
        let text = serde_json::to_string_pretty(&ours).unwrap() + "\n";
        fs::write(corpus().join("api/ours.json"), text).unwrap();
    }
    check_all("api", &cases);
}

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    /// Begins a stream, and reads its first line.
    fn begin(address: &str, asked: &Asked) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(asked.text().as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let (status, headers) = head(&mut stream);
        assert_eq!(status, 200, "{headers:?}");
        assert_eq!(headers["content-type"], "text/event-stream");
        assert_eq!(chunk(&mut stream), "retry: 400\n");
        Self(stream)
    }

    /// Returns the next event: its number, its tag and its data. Returns `None` at the end.
    fn next(&mut self) -> Option<(u64, String, Value)> {
        loop {
            let text = chunk(&mut self.0);
            if text.is_empty() {
                return None;
            }
            if text == ":\n\n" {
                continue;
            }
            let rest = text.strip_prefix("id: ")?.strip_suffix("\n\n")?;
            let (id, rest) = rest.split_once("\ntag: ")?;
            let (tag, data) = rest.split_once("\ndata: ")?;
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(data["tag"], tag);
            return Some((id.parse().unwrap(), tag.to_owned(), data["data"].clone()));
        }
    }

    /// Waits for the event with a tag.
    fn until(&mut self, tag: &str) -> (u64, Value) {
        loop {
            let (id, found, data) = self.next().unwrap();
            if found == tag {
                return (id, data);
            }
        }
    }
}

#[test]
fn a_stream_of_events_continues_after_the_last_one_and_ends_with_its_token() {
    let fleet = Fleet::with_api("");
    let (token, other) = (fleet.login("bob"), fleet.login("alice"));
    let stream = Asked::new("GET", "/events").token(&token);
    let mut events = Events::begin(&fleet.api(), &stream);
    let hook = |name: &str| {
        let asked = Asked::post(&format!("/hook/{name}"), &json!({"n": name})).token(&other);
        assert_eq!(fleet.ask(&asked).json(), json!({"success": true}));
    };
    hook("one");
    let (first, data) = events.until("salt/netapi/hook/one");
    assert_eq!(data["post"], json!({"n": "one"}));
    let headers = data["headers"].as_object().unwrap();
    assert!(headers.contains_key("Content-Type"));
    assert!(!headers.contains_key("X-Auth-Token"), "{headers:?}");
    drop(events);
    hook("two");
    let stream = stream.with("Last-Event-ID", &first.to_string());
    let mut events = Events::begin(&fleet.api(), &stream);
    let (second, tag, _) = events.next().unwrap();
    assert_eq!((second, &*tag), (first + 1, "salt/netapi/hook/two"));
    let logout = Asked::new("POST", "/logout").token(&token);
    assert_eq!(fleet.ask(&logout).status, 200);
    hook("three");
    assert_eq!(events.next(), None);
    assert_eq!(fleet.ask(&stream).status, 401);
}

#[test]
fn a_connection_carries_one_request_after_another() {
    let fleet = Fleet::with_api("");
    let mut stream = TcpStream::connect(fleet.api()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..3 {
        let text = Asked::new("GET", "/").text();
        stream.write_all(text.as_bytes()).unwrap();
        let reply = reply(&mut answers, false);
        assert_eq!(reply.json()["return"], "Welcome");
    }
    let logins = Asked::post("/login", &credentials("bob")).text();
    stream.write_all(logins.as_bytes()).unwrap();
    assert_eq!(reply(&mut answers, false).status, 200);
    let close = Asked::new("GET", "/login")
        .with("Connection", "close")
        .text();
    stream.write_all(close.as_bytes()).unwrap();
    assert_eq!(reply(&mut answers, false).status, 200);
    assert_eq!(answers.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_cookie_is_for_pages_of_the_server_alone() {
    let fleet = Fleet::with_api("");
    let login = Asked::post("/login", &credentials("alice"));
    let reply = fleet.ask(&login);
    let cookie = reply.header("set-cookie");
    for part in ["session_id=", "; Path=/", "; HttpOnly", "; SameSite=Strict"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let stats = Asked::new("GET", "/stats").with("Cookie", cookie);
    assert_eq!(fleet.ask(&stats).status, 200);
    let own = stats.clone().with("Origin", "http://salt:8000");
    assert_eq!(fleet.ask(&own).status, 200);
    let foreign = stats.with("Origin", "http://evil:8000");
    let reply = fleet.ask(&foreign);
    assert_eq!(reply.status, 401);
    assert_eq!(reply.header("access-control-allow-credentials"), "");
    let foreign = login.with("Origin", "http://evil:8000");
    let reply = fleet.ask(&foreign);
    assert_eq!((reply.status, reply.header("set-cookie")), (200, ""));
    assert_eq!(
        reply.header("access-control-allow-origin"),
        "http://evil:8000"
    );
}

#[test]
fn files_of_an_application_are_served_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().display();
    fs::create_dir_all(folder.path().join("static/css")).unwrap();
    for (name, text) in [
        ("app.html", "<p>app"),
        ("static/css/a.css", "a{}"),
        ("secret", "s"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.path().join(name));
    link("../secret", "static/link").unwrap();
    link("/etc", "static/etc").unwrap();
    let entries = format!("  app: {here}/app.html\n  static: {here}/static\n");
    let fleet = Fleet::with_api("");
    let path = fleet.path("master/etc/master");
    let text = fs::read_to_string(&path).unwrap();
    let begin = "rest_cherrypy:\n";
    let fleet = {
        let mut fleet = fleet;
        fleet.kill_master();
        fs::write(&path, text.replace(begin, &format!("{begin}{entries}"))).unwrap();
        fleet.start_master();
        fleet
    };
    let get = |path: &str, accept: &str| fleet.ask(&Asked::new("GET", path).with("Accept", accept));
    for (path, accept) in [
        ("/app", "*/*"),
        ("/", "text/html,*/*;q=0.8"),
        ("/login", "text/html"),
    ] {
        let reply = get(path, accept);
        assert_eq!((reply.status, &*reply.body), (200, "<p>app"), "{path}");
        assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    }
    assert_eq!(get("/", "*/*").json()["return"], "Welcome");
    let css = get("/static/css/a.css", "text/css,*/*;q=0.1");
    assert_eq!((css.status, &*css.body), (200, "a{}"));
    assert_eq!(css.header("content-type"), "text/css; charset=utf-8");
    for path in [
        "/static/link",
        "/static/etc/passwd",
        "/static/../secret",
        "/static/%2e%2e/secret",
        "/static/css/../../secret",
        "/static/css",
        "/static/",
        "/static/missing",
        "/static/css%00",
    ] {
        assert_eq!(get(path, "*/*").status, 404, "{path}");
    }
}

#[test]
fn the_api_speaks_tls_with_its_certificate() {
    let mut fleet = Fleet::with_api("");
    let words = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out crt.pem -subj /CN=salt -addext subjectAltName=IP:127.0.0.1";
    openssl(&fleet.path("master"), words);
    fleet.kill_master();
    let path = fleet.path("master/etc/master");
    let text = fs::read_to_string(&path).unwrap();
    let here = fleet.path("master");
    let tls = format!(
        "  ssl_crt: {0}/crt.pem\n  ssl_key: {0}/key.pem\n",
        here.display()
    );
    fs::write(&path, text.replace("  disable_ssl: True\n", &tls)).unwrap();
    fleet.start_master();
    let address = fleet.api();
    let program = "import json, ssl, sys, urllib.request as r\nc = ssl.create_default_context(cafile=sys.argv[1])\nq = r.Request(sys.argv[2] + '/login', json.dumps({'username': 'alice', 'password': 'secret-a', 'eauth': 'file'}).encode(), {'Content-Type': 'application/json'})\nwith r.urlopen(q, context=c) as a: print(a.headers['Set-Cookie'], a.read().decode())\n";
    let output = std::process::Command::new("python3")
        .args(["-c", program])
        .arg(here.join("crt.pem"))
        .arg(format!("https://{address}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}\n{}", fleet.logs());
    assert!(
        said.contains("; Secure") && said.contains("\"user\": \"alice\""),
        "{said}"
    );
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(Asked::new("GET", "/").text().as_bytes())
        .unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert!(!bytes.starts_with(b"HTTP"), "an answer without TLS");
}

/// Reads a short message of a WebSocket.
fn message(stream: &mut impl Read) -> (u8, String) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let length = match head[1] {
        126 => {
            let mut bytes = [0; 2];
            stream.read_exact(&mut bytes).unwrap();
            usize::from(u16::from_be_bytes(bytes))
        }
        length => usize::from(length),
    };
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    (head[0], String::from_utf8(bytes).unwrap())
}

#[test]
fn a_web_socket_has_the_events_until_its_token_ends() {
    let fleet = Fleet::with_api("");
    let (token, other) = (fleet.login("bob"), fleet.login("alice"));
    let asked = |path: &str| {
        Asked::new("GET", path)
            .with("Connection", "Upgrade")
            .with("Upgrade", "websocket")
            .with("Sec-WebSocket-Version", "13")
            .with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
    };
    assert_eq!(fleet.ask(&asked("/ws")).status, 401);
    assert_eq!(fleet.ask(&asked("/ws/0123456789abcdef")).status, 401);
    let plain = Asked::new("GET", "/ws").token(&token);
    assert_eq!(fleet.ask(&plain).status, 400);
    let mut stream = TcpStream::connect(fleet.api()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = asked(&format!("/ws/{token}")).text();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let (status, headers) = head(&mut answers);
    assert_eq!(status, 101, "{headers:?}");
    // The example of RFC 6455.
    assert_eq!(
        headers["sec-websocket-accept"],
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    let ready = b"websocket client ready";
    let mut frame = vec![0x81, 0x80 | ready.len() as u8, 1, 2, 3, 4];
    frame.extend(
        ready
            .iter()
            .zip([1, 2, 3, 4].iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    stream.write_all(&frame).unwrap();
    stream.write_all(&[0x89, 0x80, 1, 2, 3, 4]).unwrap();
    assert_eq!(message(&mut answers), (0x8a, String::new()));
    let hook = |name: &str| {
        let asked = Asked::post(&format!("/hook/{name}"), &json!({})).token(&other);
        assert_eq!(fleet.ask(&asked).status, 200);
    };
    hook("one");
    let (kind, text) = message(&mut answers);
    assert_eq!(kind, 0x81);
    let data = text
        .strip_prefix("data: ")
        .and_then(|text| text.strip_suffix("\n\n"))
        .unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["tag"], "salt/netapi/hook/one");
    let logout = Asked::new("POST", "/logout").token(&token);
    assert_eq!(fleet.ask(&logout).status, 200);
    hook("two");
    assert_eq!(message(&mut answers).0, 0x88);
    assert_eq!(answers.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_new_key_pair_is_a_tar_and_its_private_half_is_in_no_event() {
    let fleet = Fleet::with_api("");
    let mut chunk = credentials("alice");
    chunk["mid"] = json!("new");
    let asked = Asked::post("/keys", &json!([chunk]));
    let mut stream = TcpStream::connect(fleet.api()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(asked.text().as_bytes()).unwrap();
    let reply = reply(&mut BufReader::new(stream), false);
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), "application/x-tar");
    assert!(
        reply
            .header("content-disposition")
            .contains("saltkeys-new.tar")
    );
    let private = reply.body.split("-----").nth(2).unwrap().trim();
    assert!(!private.is_empty() && reply.body.contains("minion.pub"));
    assert!(fleet.run(&["salt-key", "-l", "acc"]).out.contains("new"));
    let events = super::reactor::events(&fleet, "the/end");
    assert!(!format!("{events:?}").contains(private));
}

#[test]
fn the_description_of_the_api_names_its_paths() {
    let fleet = Fleet::with_api("");
    let reply = fleet.ask(&Asked::new("GET", "/openapi.json"));
    let description = reply.json();
    assert_eq!(description["openapi"], "3.0.3");
    for (path, method) in [
        ("/", "post"),
        ("/login", "post"),
        ("/minions/{mid}", "get"),
        ("/hook/{tag}", "post"),
        ("/ws", "get"),
    ] {
        let summary = &description["paths"][path][method]["summary"];
        assert!(summary.is_string(), "{path} {method}");
    }
}
