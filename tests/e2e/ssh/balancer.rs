//! A deployment behind a load balancer: four hosts, each behind its own server, with real haproxy and
//! nginx.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use super::{Host, PATIENCE, Site, free_port};

/// The states of an application's host.
const APP: &str = r#"
/srv/www/index.html:
  file.managed:
    - contents: version {{ pillar.version }} of {{ grains.id }}
    - makedirs: True
/etc/site.conf:
  file.managed:
    - contents: |
        pid /run/site.pid;
        error_log /root/nginx.log;
        events {}
        http {
          access_log off;
          server { listen 127.0.0.1:{{ grains.port }}; root /srv/www; }
        }
nginx -c /etc/site.conf:
  cmd.run:
    - unless: test -e /run/site.pid
"#;

/// The states of the load balancer's host.
const BALANCER: &str = r#"
/etc/lb.cfg:
  file.managed:
    - contents: |
        global
          daemon
          stats socket /run/lb.sock level admin
        defaults
          mode http
          timeout connect 1s
          timeout client 5s
          timeout server 5s
        frontend front
          bind 127.0.0.1:{{ grains.port }}
          default_backend apps
        backend apps
          {%- for id, port in pillar.apps.items() %}
          server {{ id }} 127.0.0.1:{{ port }}
          {%- endfor %}
haproxy -f /etc/lb.cfg:
  cmd.run:
    - unless: test -S /run/lb.sock
"#;

/// The deployment of a version: one application after the other is taken out of the load balancer,
/// updated, tested and added again.
const DEPLOY: &str = r#"
{% for id, port in pillar.apps.items() %}
drain {{ id }}:
  salt.function:
    - name: cmd.run
    - arg: ["echo 'set server apps/{{ id }} state maint' | socat - /run/lb.sock"]
    - tgt: lb1
    - ssh: True
deploy {{ id }}:
  salt.state:
    - tgt: {{ id }}
    - ssh: True
    - sls: app
    - pillar: {version: {{ pillar.version }}}
    - require: [{salt: drain {{ id }}}]
smoke test {{ id }}:
  salt.function:
    - name: cmd.run
    - arg: ["curl -sf http://127.0.0.1:{{ port }}/ | grep -q 'version {{ pillar.version }}'"]
    - tgt: {{ id }}
    - ssh: True
    - failhard: True
    - require: [{salt: deploy {{ id }}}]
add {{ id }}:
  salt.function:
    - name: cmd.run
    - arg: ["echo 'set server apps/{{ id }} state ready' | socat - /run/lb.sock"]
    - tgt: lb1
    - ssh: True
    - require: [{salt: smoke test {{ id }}}]
{% endfor %}
"#;

/// Returns the answer of a web server; `None` if there is none.
fn page(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(answer)
}

#[test]
fn a_version_is_deployed_behind_a_load_balancer_without_a_failed_request() {
    let Some(site) = Site::new() else { return };
    assert!(Path::new("/var/cache/pinch-tests/servers/complete").exists());
    let ids = ["lb1", "app1", "app2", "app3"];
    let hosts = ids.map(|_| Host::start(&site, &["servers"]));
    let ports = ids.map(|_| free_port());
    site.enlist(&[("lb1", hosts[0].port)]);
    let (mut roster, mut known, mut apps) = (String::new(), String::new(), String::new());
    let key = fs::read_to_string(site.path("hostkey.pub")).unwrap();
    for ((id, host), port) in ids.iter().zip(&hosts).zip(&ports) {
        let ssh = host.port;
        roster += &format!(
            "{id}: {{host: 127.0.0.1, port: {ssh}, minion_opts: {{grains: {{port: {port}}}}}}}\n"
        );
        known += &format!("[127.0.0.1]:{ssh} {key}");
        if id.starts_with("app") {
            apps += &format!("  {id}: {port}\n");
        }
    }
    site.write("etc/roster", &roster);
    site.write("known", &known);
    site.write("srv/pillar/top.sls", "base: {'*': [apps]}\n");
    site.write("srv/pillar/apps.sls", &format!("apps:\n{apps}"));
    site.write("srv/salt/app.sls", APP);
    site.write("srv/salt/lb.sls", BALANCER);
    site.write("srv/salt/orch/deploy.sls", DEPLOY);
    site.ssh(&["app*", "state.apply", "app", "pillar={version: 1}"])
        .is(0, &["Succeeded: 3"]);
    site.ssh(&["lb1", "state.apply", "lb"])
        .is(0, &["Succeeded: 2"]);
    let began = Instant::now();
    while page(ports[0]).is_none() {
        assert!(
            began.elapsed() < PATIENCE,
            "the load balancer does not answer"
        );
        sleep(Duration::from_millis(50));
    }

    let is_over = AtomicBool::new(false);
    let (asked, failed) = thread::scope(|scope| {
        let client = scope.spawn(|| {
            let (mut asked, mut failed) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                asked += 1;
                failed += u32::from(page(ports[0]).is_none());
                sleep(Duration::from_millis(5));
            }
            (asked, failed)
        });
        let deployed = site.call(&[
            "--local",
            "state.orchestrate",
            "orch.deploy",
            "pillar={version: 2}",
        ]);
        is_over.store(true, Ordering::Relaxed);
        deployed.is(0, &["States ran successfully. Updating app3."]);
        client.join().unwrap()
    });
    assert!(asked > 20, "{asked}");
    assert_eq!(failed, 0, "of {asked}");
    for (id, port) in ids.iter().zip(&ports).skip(1) {
        let text = page(*port).unwrap();
        assert!(text.contains(&format!("version 2 of {id}")), "{text}");
    }

    // A version whose smoke test fails stops the deployment at the first application, which stays
    // out of the load balancer.
    site.write("srv/salt/app.sls", &APP.replace("version {{", "broken {{"));
    let failed = site.call(&[
        "--local",
        "state.orchestrate",
        "orch.deploy",
        "pillar={version: 3}",
    ]);
    assert_eq!(failed.code, Some(1), "{}", failed.out);
    for _ in 0..20 {
        let text = page(ports[0]).unwrap();
        assert!(
            text.contains("version 2 of app2") || text.contains("version 2 of app3"),
            "{text}"
        );
    }
}
