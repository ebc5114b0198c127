//! Attacks by data that could be executed: in shells, templates, YAML and fetched files.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tests::program::{Answer, salt_call};
use tests::scratch::{Scratch, corpus};
use value::{Map, Value};
use wire::Pillar;

use crate::fleet::Fleet;
use crate::fleet::hostile::{Hostile, key, run};

fn call(scratch: &Scratch, words: &[&str]) -> Answer {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    salt_call(scratch.path(), &words).unwrap()
}

#[test]
fn a13_what_is_given_as_a_name_is_never_a_command() {
    let scratch = Scratch::new();
    let marker = scratch.path().join("ran");
    let touch = format!("touch {}", marker.display());
    let names = [
        format!("x; {touch}; $({touch}) `{touch}` | {touch} & {touch}"),
        format!("x\n{touch}\n"),
        format!("-oProxyCommand={touch}"),
        format!("--upload-pack={touch}"),
        format!("x' ; {touch} ; \" ; {touch} ; \""),
    ];
    let functions: &[&[&str]] = &[
        &["service.status"],
        &["service.enabled"],
        &["pkg.version"],
        &["ps.pgrep"],
        &["user.info"],
        &["group.info"],
        &["sysctl.get"],
        &["kmod.is_loaded"],
        &["alternatives.display"],
        &["cron.list_tab"],
        &["mount.is_mounted"],
        &["git.ls_remote", "/nowhere"],
        &["cmd.which"],
        &["state.show_sls"],
    ];
    for function in functions {
        for name in &names {
            let words = [*function, &[name.as_str()]].concat();
            call(&scratch, &words);
            assert!(!marker.exists(), "{words:?}");
        }
    }
    for remote in [
        format!("ext::sh -c {touch}"),
        format!("ssh://-oProxyCommand={touch}/x"),
        format!("--upload-pack={touch}"),
    ] {
        call(&scratch, &["git.ls_remote", &format!("remote={remote}")]);
        assert!(!marker.exists(), "{remote}");
    }
    // The same text does run when it is given as a command.
    call(&scratch, &["cmd.run", &touch]);
    assert!(marker.exists());
}

#[test]
fn a14_what_a_minion_says_is_never_a_template() {
    let fleet = Fleet::with("auto_accept: True\n");
    let marker = fleet.path("ran");
    fleet.write("pillar/top.sls", "base:\n  '*':\n    - said\n");
    fleet.write(
        "pillar/said.sls",
        "said: {{ grains.said | json }}\nagain: {{ grains.said | yaml_dquote }}\n",
    );
    let evil = format!(
        "{{{{ salt['cmd.run']('touch {}') }}}}{{% for i in x %}}",
        marker.display()
    );
    run(async {
        let peer = Hostile::let_in(fleet.port(), &key(), "m1").await;
        let asked = Pillar {
            saltenv: None,
            pillarenv: None,
            grains: Map::new().with("said", evil.as_str()),
            pillar_override: Map::new().with("given", evil.as_str()),
            secrets: false,
        };
        let got = peer.done(asked).await;
        for name in ["said", "again", "given"] {
            assert_eq!(
                got.get(name).and_then(Value::as_str),
                Some(evil.as_str()),
                "{name}"
            );
        }
    });
    assert!(!marker.exists());
}

#[test]
fn a14_a_pillar_beyond_a_limit_is_an_error_and_never_empty() {
    let fleet = Fleet::with("auto_accept: True\n");
    fleet.write(
        "pillar/top.sls",
        "base:\n  'm1':\n    - loop\n  'm2':\n    - long\n  'm3':\n    - wide\n",
    );
    fleet.write(
        "pillar/loop.sls",
        "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}\n",
    );
    fleet.write("pillar/long.sls", &"#\n".repeat(9_000_000));
    fleet.write(
        "pillar/wide.sls",
        "{% for i in range(1000) %}{{ 'y' * 100000 }}{% endfor %}\n",
    );
    run(async {
        for id in ["m1", "m2", "m3"] {
            let peer = Hostile::let_in(fleet.port(), &key(), id).await;
            let asked = Pillar {
                saltenv: None,
                pillarenv: None,
                grains: Map::new(),
                pillar_override: Map::new(),
                secrets: false,
            };
            let got = peer.done(asked).await;
            assert!(
                got.get("_errors").is_some_and(Value::is_true),
                "{id}: {got:?}"
            );
        }
    });
    fleet.serves_others("m4");
}

#[test]
fn a15_yaml_makes_no_objects() {
    let scratch = Scratch::new();
    let marker = scratch.path().join("ran");
    let touch = format!("touch {}", marker.display());
    for tag in [
        format!("!!python/object/apply:os.system ['{touch}']"),
        format!("!!python/object/new:os.system ['{touch}']"),
        "!!python/name:os.system ''".to_owned(),
        "!!python/module:os ''".to_owned(),
    ] {
        scratch.write(
            "srv/salt/bad.sls",
            &format!("x:\n  test.nop:\n    - name: {tag}\n"),
        );
        let answer = call(&scratch, &["state.apply", "bad"]);
        assert_ne!(answer.rc, Some(0), "{tag}: {}", answer.out);
        assert!(
            answer.out.contains("Rendering SLS 'base:bad' failed"),
            "{tag}: {}",
            answer.out
        );
        assert!(!marker.exists(), "{tag}");
    }
    scratch.write(
        "srv/salt/twice.sls",
        "x:\n  test.nop\nx:\n  test.fail_without_changes\n",
    );
    assert!(
        call(&scratch, &["state.apply", "twice"])
            .out
            .contains("onflicting ID")
    );
}

/// Serves one text over TLS with this certificate, until the test ends.
fn serve(certificate: &str, body: &'static str) -> u16 {
    let folder = corpus().join("attacks");
    let certificate = CertificateDer::from_pem_file(folder.join(certificate)).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut tls = rustls::StreamOwned::new(connection, stream);
            let mut asked = [0; 4096];
            if tls.read(&mut asked).is_ok_and(|read| read > 0) {
                let length = body.len();
                let _ = write!(
                    tls,
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
                tls.conn.send_close_notify();
                let _ = tls.flush();
            }
        }
    });
    port
}

#[test]
fn a22_a_server_must_prove_its_name() {
    let scratch = Scratch::new();
    let bundle = corpus().join("attacks/ca.pem").display().to_string();
    let query = |certificate: &str| {
        let url = format!(
            "https://localhost:{}/",
            serve(certificate, "what is served")
        );
        let answer = call(
            &scratch,
            &["http.query", &url, &format!("ca_bundle={bundle}")],
        );
        let file = scratch.tmp().join("fetched");
        call(&scratch, &["cp.get_url", &url, &file.display().to_string()]);
        assert!(
            !file.exists(),
            "{certificate}: no bundle of this machine knows who made it"
        );
        answer.out
    };
    assert!(
        query("good.pem").contains("what is served"),
        "{}",
        query("good.pem")
    );
    for certificate in ["self-signed.pem", "other-name.pem", "expired.pem"] {
        let said = query(certificate);
        assert!(!said.contains("what is served"), "{certificate}: {said}");
        assert!(said.contains("ertificate"), "{certificate}: {said}");
    }
}

/// Answers every request with these bytes.
fn plain(answer: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn a23_a_source_reads_no_file_of_this_machine_and_has_the_hash_that_was_said() {
    let scratch = Scratch::new();
    let secret = scratch.path().join("secret");
    fs::write(&secret, "hush").unwrap();
    let moved = format!(
        "HTTP/1.1 302 Found\r\nLocation: file://{}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        secret.display()
    );
    let served = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nevil".to_owned();
    let managed = |source: &str, hash: &str| {
        let target = scratch.tmp().join("managed");
        let sls = format!(
            "{}:\n  file.managed:\n    - source: {source}\n{hash}",
            target.display()
        );
        scratch.write("srv/salt/get.sls", &sls);
        let answer = call(&scratch, &["state.apply", "get"]);
        (answer.rc, read(&target), answer.out)
    };
    let redirected = format!("http://127.0.0.1:{}/x", plain(moved));
    let (rc, found, out) = managed(&redirected, "    - skip_verify: True\n");
    assert!(rc != Some(0) && found.is_none(), "{out}");
    let url = format!("http://127.0.0.1:{}/x", plain(served));
    let wrong = format!("    - source_hash: sha256={}\n", "0".repeat(64));
    let (rc, found, out) = managed(&url, &wrong);
    assert!(rc != Some(0) && found.is_none(), "{out}");
    // Without a hash nothing is fetched at all.
    let (rc, found, out) = managed(&url, "");
    assert!(rc != Some(0) && found.is_none(), "{out}");
    let (rc, found, out) = managed(&url, "    - skip_verify: True\n");
    assert_eq!((rc, found.as_deref()), (Some(0), Some("evil")), "{out}");
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}
