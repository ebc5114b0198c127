//! The orchestrations of Salt's documentation, with a master and ten minions. Each has its own
//! network if this machine lets a test create networks. They also run over a link that loses a
//! third of its packets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tests::program::Answer;

use super::relay::{Network, Relay};
use super::{Fleet, PROGRAM, Process, Turn};

const IDS: [&str; 10] = [
    "web1", "web2", "web3", "web4", "db1", "db2", "db3", "store1", "store2", "store3",
];

/// A bad satellite link: the round-trip time is 0.6 s, and three of ten packets are lost.
const WORST: Network = Network {
    loss_percent: 16,
    delay: Duration::from_millis(300),
    jitter: Duration::from_millis(30),
    moves: None,
};

/// The examples of the documentation, with changed actions: each appends a line to `@M@/order`.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("salt/top.sls", "base:\n  'web*': [webserver]\n"),
    (
        "salt/webserver.sls",
        "echo highstate-{{ grains.id }} >> @M@/order:\n  cmd.run: []\n",
    ),
    (
        "salt/ceph.sls",
        "echo ceph-{{ grains.id }} >> @M@/order:\n  cmd.run: []\n",
    ),
    (
        "salt/nginx.sls",
        "@M@/nginx-{{ grains.id }}:\n  file.managed:\n    - contents: {{ pillar.get('port', 80) }}\n",
    ),
    (
        "salt/orch/cleanfoo.sls",
        "cmd.run:\n  salt.function:\n    - tgt: '*'\n    - arg:\n      - rm -rf @M@/foo\n",
    ),
    (
        "salt/orch/webserver.sls",
        "{% set port = salt['pillar.get']('port', 80) %}\ninstall_nginx:\n  salt.state:\n    - tgt: 'web*'\n    - sls: nginx\n    - pillar: {port: {{ port }}}\n    - timeout: 120\n",
    ),
    (
        "salt/orch/web_setup.sls",
        "webserver_setup:\n  salt.state:\n    - tgt: 'web*'\n    - highstate: True\n    - timeout: 120\n",
    ),
    (
        "salt/orch/storage.sls",
        "bootstrap_servers:\n  salt.function:\n    - name: cmd.run\n    - tgt: @NET@\n    - tgt_type: ipcidr\n    - arg:\n      - echo bootstrap >> @M@/order\n\nstorage_setup:\n  salt.state:\n    - tgt: 'role:storage'\n    - tgt_type: grain\n    - sls: ceph\n    - timeout: 120\n    - require:\n      - salt: bootstrap_servers\n",
    ),
    (
        "salt/orch/complex.sls",
        "bootstrap_servers:\n  salt.function:\n    - name: cmd.run\n    - tgt: @NET@\n    - tgt_type: ipcidr\n    - arg:\n      - echo bootstrap >> @M@/order\n\nstorage_setup:\n  salt.state:\n    - tgt: 'role:storage'\n    - tgt_type: grain\n    - sls: ceph\n    - timeout: 120\n    - require:\n      - salt: webserver_setup\n\nwebserver_setup:\n  salt.state:\n    - tgt: 'web*'\n    - highstate: True\n    - timeout: 120\n",
    ),
    (
        "salt/orch/outer.sls",
        "{% set who = salt['pillar.get']('servers', 'nobody') %}\ndeploy:\n  salt.runner:\n    - name: state.orchestrate\n    - mods: orch.webserver\n    - pillar: {port: 8080}\n\nadd_to_load_balancer:\n  salt.function:\n    - name: cmd.run\n    - tgt: {{ who }}\n    - arg:\n      - echo added-{{ who }} >> @M@/order\n    - require:\n      - salt: deploy\n",
    ),
    (
        "salt/orch/judged.sls",
        "may_fail:\n  salt.function:\n    - name: test.false\n    - tgt: 'db*'\n    - fail_function: test.echo\n    - fail_minions: [db1, db2, db3]\n\njudged:\n  salt.function:\n    - name: test.false\n    - tgt: 'db*'\n    - fail_function: test.echo\n    - require:\n      - salt: may_fail\n\nnever:\n  salt.function:\n    - name: test.ping\n    - tgt: 'db*'\n    - require:\n      - salt: judged\n",
    ),
    (
        "salt/orch/on_master.sls",
        "@M@/on-the-master:\n  file.managed:\n    - contents: here\n",
    ),
];

/// Separate networks for a master and its minions, joined by a bridge; they end with the test.
struct Networks(Vec<String>);

impl Networks {
    /// Creates them; `None` if this machine does not allow it.
    fn new() -> Option<Self> {
        let own = |name: &str| format!("pinch{}{name}", std::process::id());
        let hub = own("hub");
        let mut networks = Self(vec![hub.clone()]);
        let mut lines = vec![
            format!("ip netns add {hub}"),
            format!("ip -n {hub} link set lo up"),
            format!("ip -n {hub} link add bridge type bridge"),
            format!("ip -n {hub} addr add 10.77.0.1/24 dev bridge"),
            format!("ip -n {hub} link set bridge up"),
        ];
        for (at, id) in IDS.iter().enumerate() {
            let name = own(id);
            lines.extend([
                format!("ip netns add {name}"),
                format!("ip -n {name} link set lo up"),
                format!("ip -n {name} link add eth0 type veth peer name {id} netns {hub}"),
                format!("ip -n {name} addr add 10.77.0.{}/24 dev eth0", 11 + at),
                format!("ip -n {name} link set eth0 up"),
                format!("ip -n {hub} link set {id} master bridge up"),
            ]);
            networks.0.push(name);
        }
        let script = format!("set -e\n{}", lines.join("\n"));
        let made = Command::new("sh").args(["-c", &script]).output().ok()?;
        made.status.success().then_some(networks)
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

/// Starts a program in a network.
fn start(network: Option<&str>, program: &Path, words: &[&str], log: &Path) -> Process {
    let Some(network) = network else {
        return Process::start(program, words, log);
    };
    let program = program.to_str().unwrap();
    let inside = [&["netns", "exec", network, program], words].concat();
    Process::start(Path::new("ip"), &inside, log)
}

/// The fleet of the documentation, and its networks.
struct Documented {
    fleet: Fleet,
    networks: Option<Networks>,
}

impl Documented {
    fn in_networks() -> Self {
        let networks = Networks::new();
        let turn = Turn::alone();
        let interface = if networks.is_some() {
            "10.77.0.1"
        } else {
            "127.0.0.1"
        };
        let config = format!(
            "interface: {interface}\nauto_accept: True\nbound_grains: []\ntimeout: 60\ngather_job_timeout: 60\n"
        );
        let mut fleet = Fleet::prepared("", turn);
        let file = fleet.path("master/etc/master");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("interface: 127.0.0.1\n", &config)).unwrap();
        let etc = fleet.path("master/etc").display().to_string();
        let hub = networks.as_ref().map(|networks| networks.0[0].as_str());
        let words = ["salt-master", "-c", &etc];
        fleet.master = Some(start(hub, &PROGRAM, &words, &fleet.path("master/output")));
        fleet.soon("the master answers", || {
            fleet.path("master/run/master.sock").exists()
        });
        let mut documented = Self { fleet, networks };
        let port = documented.fleet.port;
        documented.started(interface, port);
        documented
    }

    fn behind(relay: &Relay, fleet: Fleet) -> Self {
        let networks = None;
        let mut documented = Self { fleet, networks };
        documented.started("127.0.0.1", relay.port);
        documented
    }

    /// Writes the files, and starts the minions.
    fn started(&mut self, master: &str, port: u16) {
        let marks = self.fleet.path("marks");
        fs::create_dir_all(&marks).unwrap();
        let net = if self.networks.is_some() {
            "10.77.0.12/30"
        } else {
            "127.0.0.0/8"
        };
        for (name, text) in FILES {
            let text = text.replace("@M@", marks.to_str().unwrap());
            self.fleet.write(name, &text.replace("@NET@", net));
        }
        for (at, id) in IDS.iter().enumerate() {
            let role = if id.starts_with("store") {
                "storage"
            } else {
                "other"
            };
            let config = format!(
                "grains: {{role: {role}}}\nmaster: {master}\nmaster_port: {port}\nauth_timeout: 60\n"
            );
            self.fleet.configure_minion(id, &config);
            let network = self.networks.as_ref().map(|all| all.0[at + 1].as_str());
            let etc = self.fleet.path(id).join("etc").display().to_string();
            let log = self.fleet.path(id).join("output");
            let words = ["salt-minion", "-c", &etc];
            let process = start(network, &PROGRAM, &words, &log);
            self.fleet.minions.push(((*id).to_owned(), process));
        }
        self.fleet.soon("all minions are present", || {
            let there = self
                .fleet
                .run(&["salt-run", "--out=json", "manage.present"])
                .out;
            let there: Vec<String> = serde_json::from_str(&there).unwrap_or_default();
            there.len() == IDS.len()
        });
        self.fleet.soon("their grains are known", || {
            let words = ["salt-run", "--out=json", "cache.list", "grains"];
            let known: Vec<String> =
                serde_json::from_str(&self.fleet.run(&words).out).unwrap_or_default();
            known.len() == IDS.len()
        });
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.fleet.path("marks").join(name)).unwrap_or_default()
    }

    /// Returns the lines of the order file, and empties it.
    fn order(&self) -> Vec<String> {
        let lines = self.text("order").lines().map(str::to_owned).collect();
        let _ = fs::remove_file(self.fleet.path("marks/order"));
        lines
    }

    /// Asserts that a function of the master decides from the answers whether a step succeeds,
    /// except for minions in `fail_minions`, and that a step that requires a failed one does not
    /// run.
    fn judges(&self) {
        let answer = self.orchestrate(&["orch.judged"]);
        assert_eq!(answer.rc, Some(1), "{}\n{}", answer.out, self.fleet.logs());
        let results: Vec<Value> = steps(&answer)
            .into_iter()
            .map(|(_, mut step)| step["result"].take())
            .collect();
        assert_eq!(results, [true, false, false], "{}", answer.out);
    }

    fn orchestrate(&self, words: &[&str]) -> Answer {
        let words = [&["salt-run", "--out=json", "state.orchestrate"], words].concat();
        self.fleet.run(&words)
    }

    /// Returns the steps of a finished orchestration by their ids.
    fn done(&self, words: &[&str]) -> Vec<(String, Value)> {
        let answer = self.orchestrate(words);
        assert_eq!(
            answer.rc,
            Some(0),
            "{words:?}: {}\n{}",
            answer.out,
            self.fleet.logs()
        );
        steps(&answer)
    }
}

fn steps(answer: &Answer) -> Vec<(String, Value)> {
    let read: Value = serde_json::from_str(&answer.out).unwrap();
    let data = read["data"].as_object().unwrap();
    let (_, steps) = data.iter().next().unwrap();
    let id = |step: &Value| step["__id__"].as_str().unwrap().to_owned();
    let mut steps: Vec<&Value> = steps.as_object().unwrap().values().collect();
    steps.sort_by_key(|step| step["__run_num__"].as_u64());
    steps
        .into_iter()
        .map(|step| (id(step), step.clone()))
        .collect()
}

/// Returns the minions in the changes of a step.
fn answered(step: &Value) -> BTreeSet<&str> {
    let ret = step["changes"]["ret"].as_object().unwrap();
    ret.keys().map(String::as_str).collect()
}

fn those(begin: &str) -> BTreeSet<&'static str> {
    IDS.into_iter().filter(|id| id.starts_with(begin)).collect()
}

#[test]
fn the_orchestrations_of_the_documentation_do_what_it_says() {
    let fleet = Documented::in_networks();
    fs::write(fleet.fleet.path("marks/foo"), "").unwrap();
    let cleaned = fleet.done(&["orch.cleanfoo"]);
    assert_eq!(answered(&cleaned[0].1), those(""));
    assert!(!fleet.fleet.path("marks/foo").exists());

    let set_up = fleet.done(&["orch.web_setup"]);
    assert_eq!(answered(&set_up[0].1), those("web"));
    assert_eq!(fleet.order().len(), 4);

    // The order is that of the requisites, and the targets are an address range and a grain.
    let done = fleet.done(&["orch.complex"]);
    let ids: Vec<&str> = done.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(
        ids,
        ["bootstrap_servers", "webserver_setup", "storage_setup"]
    );
    let within = match fleet.networks {
        Some(_) => BTreeSet::from(["web2", "web3", "web4", "db1"]),
        None => those(""),
    };
    assert_eq!(answered(&done[0].1), within);
    let order = fleet.order();
    let begin = |word: &str| order.iter().filter(|line| line.starts_with(word)).count();
    assert_eq!(
        (begin("bootstrap"), begin("highstate-"), begin("ceph-store")),
        (within.len(), 4, 3)
    );
    let first_of = |word: &str| order.iter().position(|line| line.starts_with(word));
    let last_of = |word: &str| order.iter().rposition(|line| line.starts_with(word));
    assert!(last_of("bootstrap") < first_of("highstate-"), "{order:?}");
    assert!(last_of("highstate-") < first_of("ceph-"), "{order:?}");

    // Pillar of the command line reaches the steps' minions.
    fleet.done(&["orch.webserver", "pillar={\"port\": 8000}"]);
    for id in those("web") {
        assert_eq!(fleet.text(&format!("nginx-{id}")).trim(), "8000");
    }
    // A runner that is an orchestration itself, before another step.
    fleet.done(&["orch.outer", "pillar={\"servers\": \"db2\"}"]);
    assert_eq!(fleet.text("nginx-web1").trim(), "8080");
    assert_eq!(fleet.order(), ["added-db2"]);

    fleet.judges();

    // States run on the master, which has no separate minion.
    fleet.done(&["orch.on_master"]);
    assert_eq!(fleet.text("on-the-master").trim(), "here");
}

#[test]
fn an_orchestration_ends_well_over_a_link_that_loses_a_third() {
    let fleet =
        Fleet::alone("auto_accept: True\nbound_grains: []\ntimeout: 60\ngather_job_timeout: 60\n");
    let relay = Relay::to(fleet.port, WORST);
    let fleet = Documented::behind(&relay, fleet);
    let done = fleet.done(&["orch.storage"]);
    let results: Vec<&Value> = done.iter().map(|(_, step)| &step["result"]).collect();
    assert_eq!(results, [true, true]);
    assert_eq!(answered(&done[0].1), those(""));
    assert_eq!(answered(&done[1].1), those("store"));
    // Every action ran exactly once.
    let order = fleet.order();
    assert_eq!(order.len(), IDS.len() + those("store").len(), "{order:?}");
    fleet.judges();
    assert!(relay.lost.load(Ordering::Relaxed) > 0);
}
