//! The external pillars `consul`, `etcd`, `redis` and `vault`: data of stores, and stores that fail.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};
use tests::scratch::Scratch;

use crate::pillars::{call, stopped};
use crate::stores::{Contents, Server, store};

/// Writes the configuration: the profiles of the stores, and a source.
fn configure(scratch: &Scratch, profiles: &Value, kind: &str, source: &Value) {
    let mut options = profiles.clone();
    options["ext_pillar"] = json!([{kind: source}]);
    scratch.write("etc/minion.d/case.conf", &options.to_string());
}

fn pillar(scratch: &Scratch, profiles: &Value, kind: &str, source: Value) -> Value {
    configure(scratch, profiles, kind, &source);
    call(scratch, &["pillar.items", "unmask=True"])
}

/// Asserts that sources stop a state run with these sentences, and that no secret is in output or log.
fn all_stop(scratch: &Scratch, kind: &str, failures: &[(Value, Value, &str)]) {
    scratch.write(
        "srv/salt/case.sls",
        "@TMP@/made:\n  file.managed:\n    - contents: x\n",
    );
    for (profiles, source, sentence) in failures {
        configure(scratch, profiles, kind, source);
        let (said, log) = stopped(scratch, kind);
        assert!(said.contains(sentence), "{sentence}: {said}");
        assert!(
            !said.contains("planted-") && !log.contains("planted-"),
            "{said}\n{log}"
        );
    }
}

/// Starts a server that sends a beginning and then more and more, and returns its port.
fn endless(begin: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let stream = stream.get_mut();
            let _ = stream.write_all(begin.as_bytes());
            while stream.write_all(&[b' '; 65_536]).is_ok() {}
        }
    });
    port
}

const ENDLESS_BODY: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
const TOO_LONG: &str = "is longer than the limit of 67108864 bytes";

#[test]
fn keys_of_an_etcd_become_pillar() {
    let scratch = Scratch::new();
    let folder = scratch.path().join("etcd").display().to_string();
    let start = |command: &mut Command, port: u16| {
        let url = format!("http://127.0.0.1:{port}");
        command.args(["--data-dir", &folder, "--enable-v2", "--unsafe-no-fsync"]);
        command.args([
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ]);
        command.args(["--listen-peer-urls", "http://127.0.0.1:0"]);
        command.args(["--initial-advertise-peer-urls", "http://127.0.0.1:1"]);
        command.args(["--initial-cluster", "default=http://127.0.0.1:1"]);
        None
    };
    let Some(server) = Server::start("etcd", start) else {
        return;
    };
    let profile = |port: u16, v2: bool| json!({"etcd.host": "127.0.0.1", "etcd.port": port, "etcd.require_v2": v2});
    let mut profiles =
        json!({"two": profile(server.port, true), "three": profile(server.port, false)});
    for name in ["two", "three"] {
        configure(&scratch, &profiles, "cmd_json", &json!("echo {}"));
        let own = format!("profile={name}");
        for (key, value) in [
            ("/salt/m1/a/b", "x"),
            ("/salt/m1/c", "y"),
            ("/salt/m10/c", "other"),
            ("/top", "z"),
        ] {
            call(&scratch, &["etcd.set", key, value, &own]);
        }
        let inner = json!({"a": {"b": "x"}, "c": "y"});
        let root = json!(format!("{name} root=/salt/%(minion_id)s"));
        assert_eq!(pillar(&scratch, &profiles, "etcd", root), inner, "{name}");
        let whole = pillar(&scratch, &profiles, "etcd", json!(name));
        assert_eq!(
            (&whole["top"], &whole["salt"]["m1"]),
            (&json!("z"), &inner),
            "{name}"
        );
        let none = json!(format!("{name} root=/nosuch/%(minion_id)s"));
        assert_eq!(
            pillar(&scratch, &profiles, "etcd", none),
            json!({}),
            "{name}"
        );
    }
    profiles["down"] = profile(1, false);
    profiles["large"] = profile(endless(ENDLESS_BODY), false);
    profiles["plain"] = profile(server.port, false);
    profiles["account"] = profile(server.port, false);
    profiles["account"]["etcd.username"] = "keeper".into();
    profiles["account"]["etcd.password"] = "planted-secret".into();
    configure(&scratch, &profiles, "cmd_json", &json!("echo {}"));
    call(
        &scratch,
        &[
            "etcd.set",
            "/plain/c",
            "some text",
            "profile=plain",
            "encode_values=False",
        ],
    );
    let failures = [
        (
            profiles.clone(),
            json!("account"),
            "authentication is not enabled",
        ),
        (profiles.clone(), json!("down"), "Connection refused"),
        (
            profiles.clone(),
            json!("nosuch"),
            "The etcd profile nosuch is not configured",
        ),
        (
            profiles.clone(),
            json!("three root=/%(role)s"),
            "only %(minion_id)s can be used",
        ),
        (
            profiles.clone(),
            json!("three path=/x"),
            "it has the word path=/x",
        ),
        (
            profiles.clone(),
            json!("three root=/plain"),
            "the value of /plain/c is not MessagePack",
        ),
        (profiles.clone(), json!("large"), TOO_LONG),
    ];
    all_stop(&scratch, "etcd", &failures);
}

#[test]
fn the_key_of_a_minion_in_redis_becomes_pillar() {
    let scratch = Scratch::new();
    let Some(server) = Server::redis(&scratch) else {
        return;
    };
    let profile = |port: u16, password: &str| json!({"redis.host": "127.0.0.1", "redis.port": port, "redis.password": password});
    let own = profile(server.port, "planted-secret");
    let value = json!({"function": "key_value"});
    let document = json!({"function": "key_json"});
    assert_eq!(pillar(&scratch, &own, "redis", value.clone()), json!({}));
    assert_eq!(pillar(&scratch, &own, "redis", document.clone()), json!({}));
    call(&scratch, &["redis.hset", "m1", "field", "x"]);
    assert_eq!(
        pillar(&scratch, &own, "redis", value.clone()),
        json!({"redis_pillar": {"field": "x"}})
    );
    call(&scratch, &["redis.delete", "m1"]);
    call(&scratch, &["redis.set_key", "m1", "'{\"a\": {\"b\": 1}}'"]);
    assert_eq!(
        pillar(&scratch, &own, "redis", document.clone()),
        json!({"a": {"b": 1}})
    );
    let named = json!({"function": "key_json", "pillar_key": "k"});
    assert_eq!(
        pillar(&scratch, &own, "redis", named),
        json!({"k": {"a": {"b": 1}}})
    );
    let text = json!({"function": "key_value", "pillar_key": "k"});
    assert_eq!(
        pillar(&scratch, &own, "redis", text),
        json!({"k": "{\"a\": {\"b\": 1}}"})
    );
    call(&scratch, &["redis.set_key", "m1", "no json"]);
    let large = endless("$999999999999\r\n");
    let failures = [
        (
            profile(server.port, "planted-other"),
            value.clone(),
            "WRONGPASS",
        ),
        (profile(1, ""), value, "Connection refused"),
        (
            own.clone(),
            json!({"function": "keys"}),
            "function is keys; expected key_value or key_json",
        ),
        (own.clone(), json!({"key": "x"}), "it has the argument key"),
        (own, document.clone(), "the value is not JSON"),
        (profile(large, ""), document, "the value is too large"),
    ];
    all_stop(&scratch, "redis", &failures);
}

/// A Vault whose engine has versions.
fn vault(_: &Contents, _: &str, path: &str, head: &str, _: &str) -> (u16, Value) {
    if !head.contains("x-vault-token:hvs.planted-token") {
        return (403, json!({"errors": ["permission denied"]}));
    }
    if path.starts_with("/v1/sys/internal/ui/mounts/") {
        return (
            200,
            json!({"data": {"path": "secret/", "type": "kv", "options": {"version": "2"}}}),
        );
    }
    let found = match path {
        "/v1/secret/data/shared" => json!({"user": "shared", "list": [1]}),
        "/v1/secret/data/minions/m1" => json!({"user": "own", "password": "planted-password"}),
        "/v1/secret/data/roles/web" => json!({"role": "web", "list": [2]}),
        "/v1/secret/data/roles/db" => json!({"role": "db", "list": [3]}),
        _ => return (404, json!({"errors": []})),
    };
    (
        200,
        json!({"data": {"data": found, "metadata": {"version": 1}}}),
    )
}

#[test]
fn secrets_of_a_vault_become_pillar() {
    let (scratch, url) = (Scratch::new(), store(vault));
    scratch.write("srv/pillar/top.sls", "base: {'*': [roles]}\n");
    scratch.write("srv/pillar/roles.sls", "roles: [web, db]\n");
    let profile = |url: &str, token: &str| json!({"vault": {"server": {"url": url}, "auth": {"token": token}}});
    let own = profile(&url, "hvs.planted-token");
    // Secrets are masked in outputs, and have their values in files.
    scratch.write(
        "srv/salt/write.sls",
        "@TMP@/pillar:\n  file.managed:\n    - contents: {{ pillar | json | json }}\n    - show_changes: False\n",
    );
    let find = |source: Value| {
        configure(&scratch, &own, "vault", &source);
        let shown = call(&scratch, &["state.apply", "write"]).to_string();
        assert!(!shown.contains("planted-"), "{shown}");
        let text = fs::read_to_string(scratch.tmp().join("pillar")).unwrap();
        let mut found: Value = serde_json::from_str(&text).unwrap();
        found.as_object_mut().unwrap().remove("roles");
        found
    };
    assert_eq!(
        find(json!("path=secret/shared")),
        json!({"user": "shared", "list": [1]})
    );
    let minion = json!({"conf": "path=secret/minions/{minion}", "nesting_key": "n"});
    let secrets = json!({"n": {"user": "own", "password": "planted-password"}});
    assert_eq!(find(minion), secrets);
    let roles = json!({"conf": "path=secret/roles/{pillar[roles]}", "merge_lists": true});
    assert_eq!(find(roles), json!({"role": "db", "list": [2, 3]}));
    assert_eq!(find(json!("path=secret/nosuch")), json!({}));
    assert_eq!(find(json!("path=secret/{pillar[nosuch]}")), json!({}));
    let large = format!("http://127.0.0.1:{}", endless(ENDLESS_BODY));
    let shared = json!("path=secret/shared");
    let failures = [
        (
            profile(&url, "hvs.planted-other"),
            shared.clone(),
            "403 Client Error: Forbidden",
        ),
        (
            profile("http://127.0.0.1:1", "x"),
            shared.clone(),
            "Connection refused",
        ),
        (own.clone(), json!("secret/shared"), "has no path=PATH"),
        (
            own.clone(),
            json!("path=secret/{grains[x]}"),
            "expected {minion} or {pillar[KEY]}",
        ),
        (
            own.clone(),
            json!({"conf": "path=secret/shared", "merge_strategy": "x"}),
            "unknown merge_strategy x",
        ),
        (profile(&large, "x"), shared, TOO_LONG),
    ];
    all_stop(&scratch, "vault", &failures);
}

/// A Consul with a few keys: of `salt/m1`, and of another minion whose id begins the same.
fn consul(_: &Contents, _: &str, path: &str, head: &str, _: &str) -> (u16, Value) {
    if !head.contains("x-consul-token:planted-token") {
        return (403, json!("Permission denied"));
    }
    // The values are `[1, x]`, `y` and `{`.
    match path {
        "/v1/kv/salt/m1/?recurse=true&dc=west" => (
            200,
            json!([
                {"Key": "salt/m1/", "Value": null},
                {"Key": "salt/m1/a/b", "Value": "WzEsIHhd"},
                {"Key": "salt/m1/a/c", "Value": "eQ=="},
                {"Key": "salt/m1/empty", "Value": null},
            ]),
        ),
        "/v1/kv/broken/?recurse=true&dc=west" => {
            (200, json!([{"Key": "broken/a", "Value": "ew=="}]))
        }
        "/v1/kv/forged/?recurse=true&dc=west" => {
            (200, json!([{"Key": "salt/m10/a", "Value": "eQ=="}]))
        }
        _ => (404, json!("")),
    }
}

#[test]
fn keys_of_a_consul_become_pillar() {
    let (scratch, url) = (Scratch::new(), store(consul));
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    let profile = |port: u16, token: &str| json!({"my": {"consul.host": "127.0.0.1", "consul.port": port, "consul.token": token, "consul.dc": "west"}});
    let own = profile(port, "planted-token");
    let find = |source: &str| pillar(&scratch, &own, "consul", json!(source));
    assert_eq!(
        find("my root=salt/%(minion_id)s"),
        json!({"a": {"b": [1, "x"], "c": "y"}})
    );
    let below = json!({"p": {"q": {"a": {"b": "[1, x]", "c": "y"}}}});
    assert_eq!(
        find("my root=salt/%(minion_id)s/ pillar_root=p/q expand_keys=False"),
        below
    );
    assert_eq!(find("my root=nosuch"), json!({}));
    assert_eq!(
        find("my root=salt/m1 target=\"G@id:other or nosuch\""),
        json!({})
    );
    let large = endless(ENDLESS_BODY);
    let failures = [
        (
            profile(port, "planted-other"),
            json!("my"),
            "403 Client Error: Forbidden",
        ),
        (profile(1, "x"), json!("my"), "Connection refused"),
        (
            own.clone(),
            json!("nosuch"),
            "The consul profile nosuch is not configured",
        ),
        (
            own.clone(),
            json!("my root=%(role)s"),
            "the grain role is no part of a path",
        ),
        (own.clone(), json!("my root=broken"), "a is not YAML"),
        (
            own,
            json!("my root=forged"),
            "the answer has a key outside of the path",
        ),
        (profile(large, "x"), json!("my"), TOO_LONG),
    ];
    all_stop(&scratch, "consul", &failures);
}
