//! Stores of secrets and settings: etcd and Redis are the real servers of Debian. Vault and Consul
//! are not in Debian, so a small server of these tests implements their protocols.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::program::salt_call;
use tests::scratch::Scratch;

/// The maximum time until a server listens.
const PATIENCE: Duration = Duration::from_secs(60);
const ROOT: &str = "/var/cache/pinch-tests/stores/root";

pub(crate) fn call(scratch: &Scratch, words: &[&str]) -> Value {
    let log = scratch.path().join("log").display().to_string();
    let first = ["--out=json", "--log-file-level=all", "--log-file", &log];
    let words: Vec<String> = first
        .iter()
        .chain(words)
        .map(|word| (*word).to_owned())
        .collect();
    let answer = salt_call(scratch.path(), &words).unwrap();
    let told: Result<Value, _> = serde_json::from_str(&answer.out);
    told.map_or(Value::Null, |told| told["local"].clone())
}

/// Applies states, which must all succeed, and returns their comments and changes in order.
fn apply(scratch: &Scratch, sls: &str, more: &[&str]) -> Vec<(String, Value)> {
    scratch.write("srv/salt/case.sls", sls);
    let rets = call(scratch, &[&["state.apply", "case"], more].concat());
    let mut rets: Vec<&Value> = rets
        .as_object()
        .unwrap_or_else(|| panic!("{rets}"))
        .values()
        .collect();
    rets.sort_by_key(|ret| ret["__run_num__"].as_u64());
    let told = |ret: &&Value| {
        assert_ne!(ret["result"], false, "{rets:?}");
        (
            ret["comment"].as_str().unwrap().to_owned(),
            ret["changes"].clone(),
        )
    };
    rets.iter().map(told).collect()
}

/// A server from a Debian package, on its own port.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts Redis, with the password `planted-secret`; `None` without root.
    pub(crate) fn redis(scratch: &Scratch) -> Option<Self> {
        let folder = scratch.path().display();
        Self::start("redis-server", |command: &mut Command, port: u16| {
            command.arg("-");
            Some(format!(
                "port {port}\nbind 127.0.0.1\nrequirepass planted-secret\nsave \"\"\ndir {folder}\n"
            ))
        })
    }

    /// Starts it; `None` if tests/run cannot provide it. Tries another port if the first one was taken
    /// meanwhile.
    pub(crate) fn start(
        program: &str,
        start: impl Fn(&mut Command, u16) -> Option<String>,
    ) -> Option<Self> {
        if !tests::skip::is_root() {
            return None;
        }
        let path = PathBuf::from(ROOT).join("usr/bin").join(program);
        assert!(path.exists(), "tests/run keeps {}", path.display());
        (0..5)
            .find_map(|_| Self::started(&path, &start))
            .or_else(|| panic!("cannot start {program}"))
    }

    fn started(path: &Path, start: &impl Fn(&mut Command, u16) -> Option<String>) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut command = Command::new(path);
        let libraries = fs::read_dir(format!("{ROOT}/usr/lib")).unwrap();
        let libraries = libraries.map(|entry| entry.unwrap().path().display().to_string());
        command.env("LD_LIBRARY_PATH", libraries.collect::<Vec<_>>().join(":"));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let config = start(&mut command, port);
        let mut server = Self {
            child: command.spawn().unwrap(),
            port,
        };
        let mut stdin = server.child.stdin.take().unwrap();
        stdin
            .write_all(config.unwrap_or_default().as_bytes())
            .unwrap();
        drop(stdin);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && server.child.try_wait().unwrap().is_none() {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }
}

const ETCD: &str = "
/app/name:
  etcd.set:
    - value: pinch
    - profile: @PROFILE@
/app/old:
  etcd.rm:
    - profile: @PROFILE@
watching:
  etcd.wait_set:
    - name: /app/watched
    - value: 'yes'
    - profile: @PROFILE@
    - watch:
      - etcd: /app/name
late:
  etcd.wait_rm:
    - name: /app/late
    - profile: @PROFILE@
    - watch:
      - etcd: /app/name
";

#[test]
fn etcd_keeps_what_states_set() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("etcd").display().to_string();
    let start = |command: &mut Command, port: u16| {
        let url = format!("http://127.0.0.1:{port}");
        let peer = "http://127.0.0.1:0";
        command.args(["--data-dir", &folder, "--enable-v2", "--unsafe-no-fsync"]);
        command.args([
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ]);
        command.args([
            "--listen-peer-urls",
            peer,
            "--initial-advertise-peer-urls",
            "http://127.0.0.1:1",
        ]);
        command.args(["--initial-cluster", "default=http://127.0.0.1:1"]);
        None
    };
    let Some(server) = Server::start("etcd", start) else {
        return;
    };
    let port = server.port;
    let profile = |name: &str, v2: &str| {
        format!("{name}:\n  etcd.host: 127.0.0.1\n  etcd.port: {port}\n  etcd.require_v2: {v2}\n")
    };
    let driver = format!(
        "store:\n  driver: etcd\n  etcd.host: 127.0.0.1\n  etcd.port: {port}\n  etcd.require_v2: false\n"
    );
    let config = profile("two", "true") + &profile("three", "false") + &driver;
    scratch.write("etc/minion.d/case.conf", &config);
    for name in ["two", "three"] {
        let own = format!("profile={name}");
        let set = |key: &str, value: &str| call(&scratch, &["etcd.set", key, value, &own]);
        assert_eq!(set("/app/old", "x"), "x", "{name}");
        assert_eq!(set("/app/late", "x"), "x", "{name}");
        let sls = ETCD.replace("@PROFILE@", name);
        let tested = apply(&scratch, &sls, &["test=True"]);
        assert_eq!(tested[0].1, json!({"/app/name": "pinch"}), "{name}");
        assert_eq!(
            call(&scratch, &["etcd.get", "/app/name", &own]),
            Value::Null
        );
        let rets = apply(&scratch, &sls, &[]);
        let comments: Vec<&str> = rets.iter().map(|(comment, _)| comment.as_str()).collect();
        assert_eq!(
            comments,
            [
                "New key created",
                "Key removed",
                "New key created",
                "Key removed"
            ],
            "{name}"
        );
        let again = apply(&scratch, &sls, &[]);
        assert!(
            again.iter().all(|(_, changes)| *changes == json!({})),
            "{again:?}"
        );
        let tree = json!({"name": "pinch", "watched": "yes"});
        assert_eq!(call(&scratch, &["etcd.tree", "/app", &own]), tree, "{name}");
        let listed = json!({"/app": {"/app/name": "pinch", "/app/watched": "yes"}});
        assert_eq!(call(&scratch, &["etcd.ls", "/app", &own]), listed, "{name}");
        let fields = "{inner: {a: one, b: two}}";
        let updated = json!({"/app/inner/a": "one", "/app/inner/b": "two"});
        let words = ["etcd.update", fields, "path=/app", &own];
        assert_eq!(call(&scratch, &words), updated, "{name}");
        let inner = json!({"a": "one", "b": "two"});
        assert_eq!(
            call(&scratch, &["etcd.get", "/app/inner", "recurse=True", &own]),
            inner,
            "{name}"
        );
        assert_eq!(
            call(&scratch, &["etcd.rm", "/nothing", &own]),
            Value::Null,
            "{name}"
        );
        assert_eq!(
            call(&scratch, &["etcd.rm", "/app/inner", "recurse=True", &own]),
            true,
            "{name}"
        );
    }
    assert_eq!(
        call(&scratch, &["sdb.get", "sdb://store//app/name"]),
        "pinch"
    );
    assert_eq!(
        call(&scratch, &["sdb.set", "sdb://store/other", "value"]),
        "value"
    );
    let made = apply(
        &scratch,
        "/folder:\n  etcd.directory:\n    - profile: two\n",
        &[],
    );
    assert_eq!(made[0].0, "New directory created");
}

const REDIS: &str = "
{% set value = 'of ours, with \"marks\" and ümlaut' %}
name:
  redis.string:
    - value: {{ value | json }}
    - expire: 3600
old ones:
  redis.absent:
    - keys: [gone, never]
";

#[test]
fn redis_keeps_what_states_set_and_nobody_reads_its_password() {
    let scratch = Scratch::new();
    let Some(server) = Server::redis(&scratch) else {
        return;
    };
    let config = format!(
        "redis.host: 127.0.0.1\nredis.port: {}\nredis.password: planted-secret\n",
        server.port
    );
    scratch.write("etc/minion.d/case.conf", &config);
    assert_eq!(call(&scratch, &["redis.set_key", "gone", "x"]), true);
    let tested = apply(&scratch, REDIS, &["test=True"]);
    assert_eq!(tested[1].1, json!({"deleted": ["gone"]}));
    let rets = apply(&scratch, REDIS, &[]);
    assert_eq!(
        rets[0].1,
        json!({"name": "Value updated", "expire": "TTL set to 3600 seconds"})
    );
    assert_eq!(rets[1].0, "Keys deleted");
    let again = apply(&scratch, REDIS, &[]);
    assert_eq!(again[1].0, "Key(s) specified already absent");
    assert_eq!(
        call(&scratch, &["redis.get_key", "name"]),
        "of ours, with \"marks\" and ümlaut"
    );
    assert_eq!(call(&scratch, &["redis.keys"]), json!(["name"]));
    assert_eq!(call(&scratch, &["redis.hset", "h", "field", "value"]), 1);
    assert_eq!(
        call(&scratch, &["redis.hgetall", "h"]),
        json!({"field": "value"})
    );
    assert_eq!(call(&scratch, &["redis.delete", "h", "never"]), 1);
    assert_eq!(call(&scratch, &["redis.info"])["redis_mode"], "standalone");
    assert_eq!(call(&scratch, &["redis.ping", "password=wrong"]), false);
    assert_eq!(
        call(&scratch, &["redis.get_master_ip"]),
        json!({"master_host": "", "master_port": ""})
    );
    let log = fs::read_to_string(scratch.path().join("log")).unwrap();
    assert!(!log.is_empty() && !log.contains("planted-secret"), "{log}");
}

#[test]
fn a_redis_follows_the_master_that_its_sentinel_names() {
    let scratch = Scratch::new();
    let folder = scratch.path().display().to_string();
    let plain = |command: &mut Command, port: u16| {
        command.arg("-");
        Some(format!(
            "port {port}\nbind 127.0.0.1\nsave \"\"\ndir {folder}\n"
        ))
    };
    let redis = || Server::start("redis-server", plain);
    let (Some(first), Some(second)) = (redis(), redis()) else {
        return;
    };
    let master = first.port;
    let watch = |command: &mut Command, port: u16| {
        // A sentinel writes into its configuration.
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor front 127.0.0.1 {master} 1\n"
        );
        scratch.write("sentinel.conf", &text);
        command
            .arg(scratch.path().join("sentinel.conf"))
            .arg("--sentinel");
        None
    };
    let sentinel = Server::start("redis-server", watch).unwrap();
    scratch.write("etc/minion.d/case.conf", "redis.host: 127.0.0.1\n");
    let sls = format!(
        "front:\n  redis.slaveof:\n    - sentinel_host: 127.0.0.1\n    - sentinel_port: {}\n    - port: {}\n",
        sentinel.port, second.port
    );
    let following = || {
        call(
            &scratch,
            &["redis.get_master_ip", &format!("port={}", second.port)],
        )
    };
    let nobody = json!({"master_host": "", "master_port": ""});
    let tested = apply(&scratch, &sls, &["test=True"]);
    let would = "Minion will be made a slave of front: 127.0.0.1";
    assert_eq!((tested[0].0.as_str(), following()), (would, nobody));
    apply(&scratch, &sls, &[]);
    let port = master.to_string();
    let leads = json!({"master_host": "127.0.0.1", "master_port": port});
    assert_eq!(following(), leads);
    let again = apply(&scratch, &sls, &[]);
    assert_eq!(again[0].0, "Minion already slave of master: front");
}

/// The contents of a test store: values by their paths.
pub(crate) type Contents = Mutex<BTreeMap<String, Value>>;
/// Method, path, headers in lower case, and body; status and answer.
pub(crate) type Serve = fn(&Contents, &str, &str, &str, &str) -> (u16, Value);

/// Starts a store that answers requests with `serve` until the end of the test.
pub(crate) fn store(serve: Serve) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let kept = Contents::default();
        for stream in listener.incoming() {
            let _ = answer(&kept, stream.unwrap(), serve);
        }
    });
    address
}

fn answer(kept: &Contents, stream: TcpStream, serve: Serve) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut first, mut head, mut length) = (String::new(), String::new(), 0);
    stream.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? <= 2 {
            break;
        }
        let lower = line.to_lowercase();
        if let Some(number) = lower.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        head.push_str(&lower.replacen(": ", ":", 1));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let mut words = first.split_whitespace();
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (status, told) = serve(kept, method, path, &head, &String::from_utf8_lossy(&body));
    let text = if status == 204 {
        String::new()
    } else {
        told.to_string()
    };
    let length = match status {
        204 => String::new(),
        _ => format!("Content-Length: {}\r\n", text.len()),
    };
    let mut stream = stream.into_inner();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Type: application/json\r\n{length}\r\n{text}"
    )
}

/// A Vault with two engines: `secret` keeps versions, `old` does not.
fn vault(kept: &Contents, method: &str, path: &str, head: &str, body: &str) -> (u16, Value) {
    let mut kept = kept.lock().unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let path = path.strip_prefix("/v1/").unwrap_or_default();
    if path == "auth/approle/login" {
        let is_known = body["role_id"] == "keeper" && body["secret_id"] == "planted-secret-id";
        return match is_known {
            true => (200, json!({"auth": {"client_token": "hvs.planted-token"}})),
            false => (400, json!({"errors": ["invalid role or secret ID"]})),
        };
    }
    if !head.contains("x-vault-token:hvs.planted-token") {
        return (403, json!({"errors": ["permission denied"]}));
    }
    if let Some(path) = path.strip_prefix("sys/internal/ui/mounts/") {
        return match path.starts_with("secret") {
            true => (
                200,
                json!({"data": {"path": "secret/", "type": "kv", "options": {"version": "2"}}}),
            ),
            false => (
                200,
                json!({"data": {"path": "old/", "type": "kv", "options": null}}),
            ),
        };
    }
    let plain =
        path.replacen("secret/data/", "secret/", 1)
            .replacen("secret/metadata/", "secret/", 1);
    let has_versions = plain != path;
    match method {
        "LIST" => {
            let names = kept
                .keys()
                .filter_map(|key| key.strip_prefix(&format!("{}/", plain.trim_end_matches('/'))));
            let names: Vec<&str> = names.collect();
            match names.is_empty() {
                true => (404, json!({"errors": []})),
                false => (200, json!({"data": {"keys": names}})),
            }
        }
        "POST" if has_versions => {
            kept.insert(plain, body["data"].clone());
            (200, json!({"data": {"version": 1}}))
        }
        "POST" => {
            kept.insert(plain, body);
            (204, Value::Null)
        }
        "DELETE" => {
            kept.remove(&plain);
            (204, Value::Null)
        }
        _ => match kept.get(&plain) {
            Some(found) if has_versions => (
                200,
                json!({"data": {"data": found, "metadata": {"version": 1}}}),
            ),
            Some(found) => (200, json!({"data": found})),
            None => (404, json!({"errors": []})),
        },
    }
}

const SECRETS: &str = "
{% do salt['vault.write_raw']('secret/my/app', {'user': 'admin', 'password': 'planted' ~ '-pass' ~ 'word'}) %}
{% do salt['vault.write_raw']('old/app', {'key': 'value'}) %}
@ENV@/config:
  file.managed:
    - contents: |
        {{ salt['vault.read_secret']('secret/my/app').user }}
        {{ salt['vault.read_secret']('secret/my/app', 'password') }}
        {{ salt['vault.read_secret']('old/app', 'key') }}
        {{ salt['vault.read_secret']('secret/none', default='absent') }}
        {{ salt['vault.list_secrets']('secret/my/')['keys'] | join }}
        {{ salt['sdb.get']('sdb://store/secret/my/app/user') }}
";

#[test]
fn secrets_of_a_vault_reach_files_and_nothing_else() {
    let scratch = Scratch::new();
    let url = store(vault);
    let config = |auth: &str| {
        format!("vault:\n  server: {{url: {url}}}\n  auth: {auth}\nstore: {{driver: vault}}\n")
    };
    scratch.write(
        "etc/minion.d/case.conf",
        &config("{method: approle, role_id: keeper, secret_id: planted-secret-id}"),
    );
    let rets = apply(&scratch, &scratch.filled(SECRETS), &[]);
    let shown = serde_json::to_string(&rets[0].1).unwrap();
    assert!(
        !shown.contains("planted-password") && shown.contains("diff"),
        "{shown}"
    );
    let written = fs::read_to_string(scratch.path().join("config")).unwrap();
    assert_eq!(
        written,
        "admin\nplanted-password\nvalue\nabsent\napp\nadmin\n"
    );
    let log = fs::read_to_string(scratch.path().join("log")).unwrap();
    assert!(!log.is_empty() && !log.contains("planted-"), "{log}");

    scratch.write(
        "etc/minion.d/case.conf",
        &config("{token: hvs.planted-token}"),
    );
    let patched = call(
        &scratch,
        &["vault.patch_secret", "old/app", "more=1", "key=new"],
    );
    assert_eq!(patched, true);
    assert_eq!(
        call(&scratch, &["vault.write_secret", "secret/x", "a=b"]),
        json!({"version": 1})
    );
    assert_eq!(
        call(&scratch, &["vault.list_secrets", "secret/nowhere/"]),
        Value::Null
    );
    assert_eq!(call(&scratch, &["vault.delete_secret", "secret/x"]), true);
    assert_eq!(
        call(&scratch, &["vault.read_secret", "secret/x", "default=gone"]),
        "gone"
    );
    assert_eq!(
        call(&scratch, &["vault.destroy_secret", "old/app", "1"]),
        false
    );
    scratch.write("etc/minion.d/case.conf", &config("{token: another}"));
    assert_eq!(
        call(&scratch, &["vault.write_secret", "old/app", "a=b"]),
        false
    );
}

/// The keys of a Consul.
fn consul(kept: &Contents, method: &str, path: &str, head: &str, body: &str) -> (u16, Value) {
    let mut kept = kept.lock().unwrap();
    if !head.contains("x-consul-token:planted-token") {
        return (403, json!("Permission denied"));
    }
    let (path, settings) = path.split_once('?').unwrap_or((path, ""));
    let key = path.strip_prefix("/v1/kv/").unwrap_or_default();
    match (method, kept.get(key).cloned()) {
        ("PUT", _) => {
            kept.insert(key.to_owned(), body.into());
            (200, json!(true))
        }
        ("DELETE", _) => {
            kept.remove(key);
            (200, json!(true))
        }
        _ if settings.contains("keys") => (200, json!(kept.keys().collect::<Vec<_>>())),
        // `dmFsdWU=` is the base64 of `value`, the one that is set.
        (_, Some(value)) if value == "value" => (200, json!([{"Key": key, "Value": "dmFsdWU="}])),
        _ => (404, json!("")),
    }
}

#[test]
fn keys_of_a_consul_are_set_and_read() {
    let scratch = Scratch::new();
    let url = store(consul);
    scratch.write(
        "etc/minion.d/case.conf",
        &format!("consul: {{url: '{url}', token: planted-token}}\n"),
    );
    let put = json!({"res": true, "data": "Added key web/a with value."});
    assert_eq!(
        call(&scratch, &["consul.put", "key=web/a", "value=value"]),
        put
    );
    let found = json!({"res": true, "data": [{"Key": "web/a", "Value": "value"}]});
    assert_eq!(
        call(&scratch, &["consul.get", "key=web/a", "decode=True"]),
        found
    );
    assert_eq!(
        call(&scratch, &["consul.list"]),
        json!({"res": true, "data": ["web/a"]})
    );
    let deleted = json!({"res": true, "message": "Deleted key web/a."});
    assert_eq!(call(&scratch, &["consul.delete", "key=web/a"]), deleted);
    let none = json!({"res": false, "message": "Key not found."});
    assert_eq!(call(&scratch, &["consul.get", "key=web/a"]), none);
    let log = fs::read_to_string(scratch.path().join("log")).unwrap();
    assert!(!log.contains("planted-token"), "{log}");
}
