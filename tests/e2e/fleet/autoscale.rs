//! The example of an auto-scaling group (`packaging/examples/autoscale`), end to end: nodes with a network, a root and processes of
//! their own, Debian's nginx on some and its haproxy on one, and a master that has nothing but the example's files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tests::program::{Answer, in_recorded_environment, salt_call};
use tests::scratch::{Scratch, corpus};

use super::{Fleet, PROGRAM, Process, Turn};

pub(crate) const MASTER: &str = "10.77.0.1";
pub(crate) const BALANCER: &str = "10.77.0.2";

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/examples/autoscale")
}

fn node_script() -> PathBuf {
    corpus().join("node.sh")
}

/// A bridge in its own network namespace, to which the master is also connected.
struct Hub(Process);

impl Hub {
    /// Creates it. Prints a note and returns `None` if this machine does not allow it.
    fn new() -> Option<Self> {
        if !tests::skip::is_root() {
            return None;
        }
        let mut command = Command::new(node_script());
        let child = in_recorded_environment(command.args(["hub", MASTER]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut hub = Self(Process(child.unwrap()));
        let mut said = String::new();
        let stdout = hub.0.0.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut said).unwrap();
        if said == "ready\n" {
            return Some(hub);
        }
        tests::skip::skip("this machine cannot create networks and bridges");
        None
    }

    fn pid(&self) -> String {
        self.0.0.id().to_string()
    }

    /// Returns the command that starts a program there.
    fn inside(&self) -> Vec<String> {
        ["--target", &self.pid(), "--net"]
            .map(str::to_owned)
            .to_vec()
    }
}

/// The master with the example's files, and the nodes.
pub(crate) struct Site {
    pub(crate) fleet: Fleet,
    hub: Hub,
}

impl Site {
    /// Starts a master with these rules, set up as a user would do it.
    pub(crate) fn with(rules: &str) -> Option<Self> {
        let hub = Hub::new()?;
        let servers = Path::new("/var/cache/pinch-tests/servers/complete");
        assert!(servers.exists(), "tests/run fetches haproxy and nginx");
        let mut fleet = Fleet::prepared("", Turn::shared());
        lay_out(&fleet, rules);
        let own = format!("interface: {MASTER}\n");
        fs::write(fleet.path("master/etc/master.d/here.conf"), own).unwrap();
        let mut words = hub.inside();
        let etc = fleet.path("master/etc").display().to_string();
        words.push(PROGRAM.display().to_string());
        words.extend(["salt-master", "-c", &etc].map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = fleet.path("master/output");
        fleet.master = Some(Process::start(Path::new("nsenter"), &words, &output));
        fleet.soon("the master answers", || {
            fleet.path("master/run/master.sock").exists()
        });
        Some(Self { fleet, hub })
    }

    /// Returns the words of `nsenter` that start a program in the network of the master.
    pub(crate) fn inside(&self) -> Vec<String> {
        self.hub.inside()
    }

    /// Starts a node with these lines in its configuration and this token.
    pub(crate) fn boot(&mut self, id: &str, address: &str, config: &str, token: Option<&str>) {
        let root = self.fleet.path(id);
        fs::create_dir_all(root.join("etc")).unwrap();
        let (here, port) = (root.display().to_string(), self.fleet.port);
        let mut text = format!(
            "id: {id}\nmaster: {MASTER}\nmaster_port: {port}\nroot_dir: {here}\npki_dir: {here}/pki\ncachedir: {here}/cache\nsock_dir: {here}/run\nlog_file: {here}/log\nlog_level: info\nenable_fqdns_grains: False\nrecon_default: 50\nrecon_max: 200\nacceptance_wait_time: 1\n{config}"
        );
        if let Some(token) = token {
            let path = root.join("token");
            fs::write(&path, token).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            text.push_str(&format!("enroll_token_file: {}\n", path.display()));
        }
        fs::write(root.join("etc/minion"), text).unwrap();
        let (hub, program) = (self.hub.pid(), PROGRAM.display().to_string());
        let etc = root.join("etc").display().to_string();
        let words = [
            &here,
            address,
            &hub,
            &program,
            "salt-minion",
            "-c",
            etc.as_str(),
        ];
        let process = Process::start(&node_script(), &words, &root.join("output"));
        self.fleet.minions.push((id.to_owned(), process));
    }

    /// Returns the response of the load balancer; an empty string if it responds with an error.
    fn page(&self) -> String {
        let script = format!(
            "import urllib.request; print(urllib.request.urlopen('http://{BALANCER}/', timeout=20).read().decode())"
        );
        let mut command = Command::new("nsenter");
        command
            .args(self.hub.inside())
            .args(["python3", "-c", &script]);
        let output = in_recorded_environment(&mut command)
            .stderr(Stdio::null())
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    }

    /// Waits until the load balancer serves each of these pages.
    pub(crate) fn soon_served(&self, pages: &[&str]) {
        for page in pages {
            self.fleet.soon(&format!("{page:?} is served"), || {
                self.page().contains(page)
            });
        }
    }

    /// Returns haproxy's servers with their states, as printed by the load balancer's `lb state`.
    fn servers(&self) -> String {
        let words = [
            "salt",
            "-t",
            "60",
            "--out=json",
            "lb1",
            "cmd.run",
            "lb state",
        ];
        let answer = self.fleet.run(&words);
        let answer: Value = serde_json::from_str(&answer.out).unwrap_or_default();
        answer["lb1"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn soon_servers(&self, what: &str, are_so: impl Fn(&str) -> bool) {
        self.fleet
            .soon(&format!("haproxy has {what}"), || are_so(&self.servers()));
    }

    fn deploy(&self, node: &str) -> Answer {
        let pillar = format!("pillar={{node: {node}}}");
        let words = ["salt-run", "state.orchestrate", "orch.deploy", &pillar];
        self.fleet.run(&words)
    }

    /// Ends an instance, and reports it as the operator of the group does.
    fn terminate(&mut self, id: &str) {
        self.fleet.kill_minion(id);
        let data = format!("{{id: {id}}}");
        let words = ["salt-run", "event.send", "salt/autoscale/terminate", &data];
        assert_eq!(self.fleet.run(&words).rc, Some(0));
        self.fleet.soon(&format!("the key of {id} is deleted"), || {
            !self.fleet.is_in("all", id) && !self.mine().contains(id)
        });
    }

    fn mine(&self) -> String {
        let words = ["salt-run", "--out=json", "mine.get", "*", "web_address"];
        self.fleet.run(&words).out
    }
}

fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    let status = command.arg("-rT").args([from, to]).status();
    assert!(status.unwrap().success(), "{}", from.display());
}

/// Installs the example as a user would, with these rules.
fn lay_out(fleet: &Fleet, rules: &str) {
    let srv = fleet.path("master/srv");
    for folder in ["salt", "pillar", "reactor"] {
        copy(&example().join(folder), &srv.join(folder));
    }
    let include = fleet.path("master/etc/master.d");
    fs::create_dir_all(&include).unwrap();
    let rules = rules.replace("/srv/", &format!("{}/", srv.display()));
    fs::write(include.join("reactor.conf"), rules).unwrap();
}

/// The example's rules.
fn rules() -> String {
    fs::read_to_string(example().join("master.d/reactor.conf")).unwrap()
}

/// Returns the rules without the one for pending keys.
pub(crate) fn rules_for_tokens() -> String {
    let all = rules();
    let rule = "  - salt/auth:\n    - /srv/reactor/auth-pending.sls\n";
    assert!(all.contains(rule));
    all.replace(rule, "")
}

#[test]
fn nodes_with_a_token_are_balanced_deployed_to_and_forgotten() {
    let Some(mut site) = Site::with(&rules_for_tokens()) else {
        return;
    };
    let balancer = site.fleet.token(&["id=lb1", "role=loadbalancer"]);
    let nodes = site.fleet.token(&["id=web-asg-*", "uses=2", "role=web"]);
    site.boot(
        "lb1",
        BALANCER,
        "startup_states: highstate\n",
        Some(&balancer),
    );
    site.boot("web-asg-1", "10.77.0.11", "", Some(&nodes));
    site.boot("web-asg-2", "10.77.0.12", "", Some(&nodes));
    site.soon_served(&["web-asg-1 has release 1", "web-asg-2 has release 1"]);

    // A release is deployed on one node, which is out of service meanwhile.
    let pillar = fs::read_to_string(example().join("pillar/web.sls")).unwrap();
    let next = pillar.replace("release: 1", "release: 2");
    site.fleet.write("pillar/web.sls", &next);
    let deployed = site.deploy("web-asg-1");
    assert_eq!(deployed.rc, Some(0), "{}", deployed.out);
    site.soon_served(&["web-asg-1 has release 2", "web-asg-2 has release 1"]);

    // After a failed smoke test the node stays out of service.
    let app = fs::read_to_string(example().join("salt/web/app.sls")).unwrap();
    let broken = "/srv/www/health.txt:\n  file.absent\n";
    site.fleet.write("salt/web/app.sls", broken);
    let deployed = site.deploy("web-asg-1");
    assert_eq!(deployed.rc, Some(1), "{}", deployed.out);
    assert!(
        deployed
            .out
            .contains("One or more requisite failed: orch.deploy.run_smoke_tests"),
        "{}",
        deployed.out
    );
    assert!(
        site.servers().contains("web-asg-1 MAINT 0"),
        "{}",
        site.servers()
    );
    site.fleet.write("salt/web/app.sls", &app);

    // It stays out although haproxy reads a new configuration, as the other node is gone.
    site.terminate("web-asg-2");
    site.soon_servers("only the node that is out", |servers| {
        servers == "web-asg-1 MAINT 0"
    });
    let deployed = site.deploy("web-asg-1");
    assert_eq!(deployed.rc, Some(0), "{}", deployed.out);
    site.soon_served(&["web-asg-1 has release 2"]);
}

#[test]
fn nodes_without_a_token_are_let_in_by_the_reactor() {
    let believing = format!("bound_grains: [identity]\n{}", rules());
    let Some(mut site) = Site::with(&believing) else {
        return;
    };
    site.boot("lb1", BALANCER, "grains: {role: loadbalancer}\n", None);
    site.boot("stranger", "10.77.0.13", "", None);
    site.boot("web-asg-1", "10.77.0.11", "", None);
    site.fleet.soon_in("un", "lb1");
    assert_eq!(site.fleet.run(&["salt-key", "-y", "-a", "lb1"]).rc, Some(0));
    site.fleet.soon("the load balancer is connected", || {
        let words = ["salt", "-t", "60", "lb1", "state.highstate", "queue=True"];
        site.fleet.run(&words).rc == Some(0)
    });
    site.soon_served(&["web-asg-1 has release 1"]);
    site.boot("web-asg-2", "10.77.0.12", "", None);
    site.soon_served(&["web-asg-2 has release 1", "web-asg-1 has release 1"]);
    assert!(site.fleet.is_in("un", "stranger"));
    site.terminate("web-asg-1");
    site.soon_servers("one server", |servers| {
        servers.starts_with("web-asg-2 UP") && servers.lines().count() == 1
    });
}

/// Returns the names of the SLS files below a folder, except top files.
fn sls_names(folder: &Path, above: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let name = match stem {
            "init" => above.trim_end_matches('.').to_owned(),
            _ => format!("{above}{stem}"),
        };
        if path.is_dir() {
            names.extend(sls_names(&path, &format!("{name}.")));
        } else if path.extension().is_some_and(|end| end == "sls") && stem != "top" {
            names.push(name);
        }
    }
    names
}

#[test]
fn every_sls_of_the_example_renders() {
    let scratch = Scratch::new();
    for folder in ["salt", "pillar"] {
        scratch.add(&example().join(folder), Path::new(&format!("srv/{folder}")));
    }
    let more = "id: web-asg-1\n";
    scratch.write("etc/minion.d/example.conf", more);
    let names = sls_names(&example().join("salt"), "");
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let words = [
            "--out=json",
            "state.show_sls",
            &name,
            "pillar={node: web-asg-1}",
        ];
        let answer = salt_call(scratch.path(), &words.map(str::to_owned)).unwrap();
        let shown: Value = serde_json::from_str(&answer.out).unwrap();
        let states = shown["local"].as_object();
        assert!(
            answer.rc == Some(0) && states.is_some_and(|states| !states.is_empty()),
            "{name}: {}",
            answer.out
        );
    }
}

/// A rule, an event, and the called function with its target; `None` if nothing is called.
const REACTIONS: [(&str, &str, &str, &str); 9] = [
    (
        "salt/auth",
        r#"{"tag": "salt/auth", "data": {"act": "pend", "id": "web-asg-1"}}"#,
        "key.accept",
        "web-asg-1",
    ),
    (
        "salt/auth",
        r#"{"tag": "salt/auth", "data": {"act": "accept", "id": "web-asg-1"}}"#,
        "",
        "",
    ),
    (
        "salt/auth",
        r#"{"tag": "salt/auth", "data": {"act": "pend", "id": "db-web-asg-1"}}"#,
        "",
        "",
    ),
    (
        "salt/minion/web-asg-*/start",
        r#"{"tag": "salt/minion/web-asg-1/start", "data": {"id": "web-asg-1"}}"#,
        "state.highstate",
        "web-asg-1",
    ),
    (
        "autoscale/ready",
        r#"{"tag": "autoscale/ready", "data": {"id": "web-asg-1", "data": null}}"#,
        "state.apply",
        "G@role:loadbalancer",
    ),
    (
        "salt/key",
        r#"{"tag": "salt/key", "data": {"act": "delete", "id": "web-asg-1", "result": true}}"#,
        "state.apply",
        "G@role:loadbalancer",
    ),
    (
        "salt/key",
        r#"{"tag": "salt/key", "data": {"act": "accept", "id": "web-asg-1", "result": true}}"#,
        "",
        "",
    ),
    (
        "salt/autoscale/terminate",
        r#"{"tag": "salt/autoscale/terminate", "data": {"id": "web-asg-1"}}"#,
        "key.delete",
        "web-asg-1",
    ),
    (
        "salt/autoscale/terminate",
        r#"{"tag": "salt/autoscale/terminate", "data": {"id": "web-asg-*"}}"#,
        "",
        "",
    ),
];

#[test]
fn every_reactor_sls_of_the_example_calls_what_it_is_to_call() {
    let mut fleet = Fleet::with("");
    fleet.kill_master();
    lay_out(&fleet, &rules());
    fleet.start_master();
    for (rule, event, fun, whom) in REACTIONS {
        let event = format!("event={event}");
        let words = ["salt-run", "--out=json", "reactor.test", rule, &event];
        let answer = fleet.run(&words);
        let tried: Value = serde_json::from_str(&answer.out).unwrap();
        assert_eq!(
            (&tried["matches"], &tried["errors"]),
            (&true.into(), &Value::Array(Vec::new())),
            "{event}: {tried}"
        );
        let calls = tried["calls"].as_array().unwrap();
        assert_eq!(calls.is_empty(), fun.is_empty(), "{event}: {tried}");
        for call in calls {
            assert_eq!(call["fun"], fun, "{event}: {tried}");
            assert!(call.to_string().contains(&format!("\"{whom}\"")), "{tried}");
        }
    }
}
