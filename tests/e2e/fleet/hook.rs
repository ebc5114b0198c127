//! The hook and the metrics page: accepted and refused requests, and the counters.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::hmac;
use serde_json::Value;

use super::reactor::{events, fire, runner, states};
use super::{Fleet, PATIENCE, PROGRAM, Process};

const SECRET: &str = "a secret of the hook's tests";
/// A new secret next to the old one, which is still in use.
const HOOK: &str = "hook_listen: 127.0.0.1:0\nhook_secret: [the one that comes next, a secret of the hook's tests]\n";
const METRICS: &str = "metrics_listen: 127.0.0.1:0\n";
/// Accepts signatures of any age, for tests of other options.
const DAY: &str = "hook_tolerance: 86400\n";

fn mac(signed: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let mac = hmac::sign(&key, signed.as_bytes());
    mac.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs()
}

/// Returns the headers with our own signature of a request.
fn signature(path: &str, body: &str) -> String {
    let at = now();
    let mac = mac(&format!("{at}\nPOST\n{path}\n{body}"));
    format!("X-Pinch-Signature: t={at},v1={mac}\r\n")
}

fn request(path: &str, lines: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n{lines}\r\n{body}")
}

/// Returns a signed request with a JSON body.
fn signed(path: &str, body: &str) -> String {
    let lines = format!(
        "Content-Type: application/json\r\n{}",
        signature(path, body)
    );
    request(path, &lines, body)
}

/// Returns a request of JSON with GitHub's signature of the body.
fn signed_as_github(path: &str, body: &str) -> String {
    let mac = mac(body);
    let lines = format!("Content-Type: application/json\r\nX-Hub-Signature-256: sha256={mac}\r\n");
    request(path, &lines, body)
}

/// Returns the status and the whole text of an answer.
fn send(address: &str, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A client that is refused early may find the connection closed.
    let _ = stream.write_all(request.as_bytes());
    heard(stream)
}

fn heard(mut stream: TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer: {text:?}"));
    (status, text)
}

impl Fleet {
    /// Returns the address on which the current master listens for an option.
    pub(super) fn listens(&self, option: &str) -> String {
        let said = format!("{option}: listening on ");
        let log = self.master_log();
        let line = log.lines().rfind(|line| line.contains(&said));
        let address = line.unwrap_or_else(|| panic!("{log}")).split(&said);
        address.last().unwrap().trim().to_owned()
    }

    fn ask_hook(&self, request: &str) -> (u16, String) {
        send(&self.listens("hook_listen"), request)
    }

    /// Ends a minion, and waits until the master knows.
    pub(super) fn end_minion(&mut self, id: &str) {
        let at = self.minions.iter().position(|(known, _)| known == id);
        let (_, mut process) = self.minions.remove(at.unwrap());
        let pid = rustix::process::Pid::from_child(&process.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        process.0.wait().unwrap();
        self.soon("the master knows that the minion has gone", || {
            !runner(self, &["manage.present"]).to_string().contains(id)
        });
    }

    /// Sends the head alone, and after the master's `100 Continue` the body, byte by byte.
    fn ask_with_care(&self, request: &str) -> u16 {
        let mut stream = TcpStream::connect(self.listens("hook_listen")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let head = format!("{head}\r\nExpect: 100-continue\r\n\r\n");
        for byte in head.bytes() {
            stream.write_all(&[byte]).unwrap();
        }
        let mut word = [0; 25];
        stream.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(body.as_bytes()).unwrap();
        heard(stream).0
    }

    /// Returns the numbers of the metrics page, which may be requested a few times a second.
    pub(super) fn measured(&self) -> BTreeMap<String, f64> {
        sleep(Duration::from_millis(200));
        let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        let (status, answer) = send(&self.listens("metrics_listen"), request);
        assert_eq!(status, 200, "{answer}");
        let (head, page) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Content-Type: text/plain; version=0.0.4"));
        parsed(page)
    }
}

/// Returns the samples of a page; checks that each belongs to a family that is declared once, above
/// it.
fn parsed(page: &str) -> BTreeMap<String, f64> {
    let (mut kinds, mut samples) = (BTreeMap::new(), BTreeMap::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name, kind).is_none(), "{line}");
            continue;
        }
        if let Some(help) = line.strip_prefix("# HELP pinch_") {
            assert!(help.contains(' ') && help.ends_with('.'), "{line}");
            continue;
        }
        let (sample, number) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        let parts = ["", "_bucket", "_sum", "_count"];
        let mut families = parts.iter().filter_map(|part| name.strip_suffix(part));
        assert!(families.any(|name| kinds.contains_key(name)), "{line}");
        let number = number.parse().unwrap();
        assert!(samples.insert(sample.to_owned(), number).is_none());
    }
    for (name, _) in kinds.iter().filter(|(_, kind)| **kind == "histogram") {
        let count = samples[&format!("{name}_count")];
        assert_eq!(samples[&format!("{name}_bucket{{le=\"+Inf\"}}")], count);
    }
    samples
}

#[test]
fn requests_become_the_events_that_salts_own_hook_makes_of_them() {
    let fleet = Fleet::with(&format!("{HOOK}{DAY}"));
    let recorded = include_str!("../../corpus/reactor/hook.jsonl");
    let recorded: Vec<Value> = recorded
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (number, case) in recorded.iter().enumerate() {
        let (path, body) = (case["path"].as_str().unwrap(), case["body"].as_str());
        let headers = case["data"]["headers"].as_object().unwrap();
        let given = headers.iter().filter(|(name, _)| *name != "Remote-Addr");
        let lines = given.map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap()));
        let lines: String = lines.collect();
        // The number makes each target unique, so a request that is sent twice has two signatures.
        let target = format!("{path}?{number}");
        let signature = signature(&target, body.unwrap());
        let request = format!(
            "POST {target} HTTP/1.1\r\n{lines}{signature}\r\n{}",
            body.unwrap()
        );
        let (status, answer) = fleet.ask_hook(&request);
        assert_eq!(status, 200, "{answer}\n{}", fleet.logs());
        assert!(answer.contains("Content-Type: application/json\r\n"));
        assert!(answer.ends_with("\r\n\r\n{\"success\": true}"), "{answer}");
    }
    // An event is on disk before the request is answered, so it is in the log at once.
    let made = events(&fleet, "the/end");
    let mut made = made.iter().filter(|(tag, _)| tag.contains("netapi"));
    for case in &recorded {
        let (tag, data) = made.next().unwrap();
        let mut data = data.clone();
        let map = data.as_object_mut().unwrap();
        assert!(map.remove("_stamp").is_some());
        let headers = map["headers"].as_object_mut().unwrap();
        assert!(headers.remove("X-Pinch-Signature").is_some());
        assert_eq!(
            (tag.as_str(), &data),
            (case["tag"].as_str().unwrap(), &case["data"])
        );
    }
    assert!(made.next().is_none());
}

const SCALE_IN: &str = "
gone:
  wheel.key.delete:
    - args:
      - match: {{ data['post']['instance'] }}
";

#[test]
fn a_machine_that_is_taken_away_leaves_nothing_behind() {
    let rule = "reactor:\n  - salt/netapi/hook/asg/terminate: ['salt://react/gone.sls']\n";
    let mut fleet = Fleet::with(&format!("{HOOK}{rule}"));
    fleet.write("salt/react/gone.sls", SCALE_IN);
    fleet.write("pillar/top.sls", "base:\n  '*': [site]\n");
    fleet.write("pillar/site.sls", "password: of {{ grains.id }}\n");
    fleet.accepted(&["web-1", "web-2"]);
    for words in [
        &["mine.send", "grains.get", "id"][..],
        &["saltutil.refresh_pillar", "wait=True"],
        &["pillar.items"],
    ] {
        let words = [&["salt", "-t", "60", "*"], words].concat();
        assert_eq!(fleet.run(&words).rc, Some(0));
    }
    let known = |id: &str| {
        let caches = ["cache.grains", "cache.pillar", "cache.mine"];
        caches.map(|cache| {
            let tgt = format!("tgt={id}");
            let found = runner(&fleet, &[cache, &tgt]);
            found[id].as_object().is_some_and(|map| !map.is_empty())
        })
    };
    fleet.soon("the data of both minions are cached", || {
        known("web-1") == [true; 3] && known("web-2") == [true; 3]
    });
    let body = "{\"instance\": \"web-1\"}";
    let (status, answer) = fleet.ask_hook(&signed("/hook/asg/terminate", body));
    assert_eq!(status, 200, "{answer}");
    fleet.soon("the key of the instance is deleted", || {
        let listed = fleet.run(&["salt-key", "-l", "acc"]).out;
        !listed.contains("web-1") && listed.contains("web-2")
    });
    assert_eq!(known("web-1"), [false; 3]);
    assert_eq!(known("web-2"), [true; 3]);
    let rule = "salt/netapi/hook/asg/terminate";
    fleet.soon("the reaction is done", || states(&fleet, rule) == ["done"]);
    let told = events(&fleet, "the/end");
    let is_told = |(tag, data): &(String, Value)| {
        tag == "salt/key" && data["act"] == "delete" && data["id"] == "web-1"
    };
    assert!(told.iter().any(is_told), "{told:?}");
    let mined = fleet.run(&[
        "salt",
        "--out=json",
        "--static",
        "-t",
        "60",
        "web-2",
        "mine.get",
        "*",
        "grains.get",
    ]);
    let mined: Value = serde_json::from_str(&mined.out).unwrap();
    assert_eq!(mined["web-2"], serde_json::json!({"web-2": "web-2"}));
}

#[test]
fn what_was_answered_outlives_the_master_and_is_not_taken_twice() {
    let mut fleet = Fleet::with(&format!("{HOOK}{DAY}hook_github_paths: [/hook/hub]\n"));
    let hub = |body: &str| signed_as_github("/hook/hub", body);
    let requests = [signed("/hook/own", "{\"n\": 1}"), hub("{\"n\": 2}")];
    for request in &requests {
        assert_eq!(fleet.ask_hook(request).0, 200, "{}", fleet.logs());
    }
    fleet.kill_master();
    fleet.start_master();
    let made = events(&fleet, "the/end");
    for (tag, n) in [("salt/netapi/hook/own", 1), ("salt/netapi/hook/hub", 2)] {
        let is_made = |(made, data): &(String, Value)| made == tag && data["post"]["n"] == n;
        assert_eq!(made.iter().filter(|event| is_made(event)).count(), 1);
    }
    for request in &requests {
        assert_eq!(fleet.ask_hook(request).0, 409);
    }
    assert_eq!(fleet.ask_hook(&signed("/hook/own", "{\"n\": 3}")).0, 200);
    assert_eq!(fleet.ask_with_care(&signed("/hook/own", "{\"n\": 5}")), 200);
    assert_eq!(fleet.ask_hook(&hub("{\"n\": 4}")).0, 200);
}

#[test]
fn a_captured_github_webhook_is_accepted_at_no_other_path_and_never_again() {
    let paths = "hook_tolerance: 1\nhook_github_paths: [/hook/hub, /hook/second]\n";
    let mut fleet = Fleet::with(&format!("{HOOK}{paths}"));
    let body = "{\"instance\": \"web-1\"}";
    let ask = |fleet: &Fleet, path: &str| fleet.ask_hook(&signed_as_github(path, body)).0;
    // A path that the option does not name, before and after the body was accepted elsewhere.
    assert_eq!(ask(&fleet, "/hook/asg/terminate"), 401);
    assert_eq!(ask(&fleet, "/hook/hub"), 200, "{}", fleet.logs());
    // hook_tolerance has passed.
    sleep(Duration::from_millis(2500));
    for (path, status) in [
        ("/hook/hub", 409),
        ("/hook/hub?again", 409),
        ("/hook/second", 409),
        ("/hook/hub/deeper", 401),
        ("/hook/asg/terminate", 401),
    ] {
        assert_eq!(ask(&fleet, path), status, "{path}");
    }
    fleet.kill_master();
    fleet.start_master();
    assert_eq!(ask(&fleet, "/hook/second"), 409);
    let made = events(&fleet, "the/end");
    let made = made.iter().filter(|(tag, _)| tag.contains("netapi"));
    assert_eq!(made.count(), 1);
}

/// Returns the status of each refused request in the log.
fn logged_refusals(log: &str) -> Vec<u16> {
    let mut told = Vec::new();
    for line in log.lines() {
        if let Some((before, after)) = line.split_once(" refused (") {
            let peer = before.contains("hook_listen: request from 127.0.0.1:");
            assert!(peer, "{line}");
            told.push(after[..3].parse().unwrap());
        }
    }
    told
}

#[test]
fn who_may_not_send_is_refused_with_a_line_in_the_log() {
    let fleet = Fleet::with(&format!(
        "{HOOK}{DAY}hook_max_body: 1000\nhook_rate: 1000\n"
    ));
    let body = "{\"word\": \"confidential\"}";
    let good = signed("/hook/a", body);
    let large = "x".repeat(1001);
    let many: String = (0..65).map(|n| format!("X-{n}: 1\r\n")).collect();
    let long = format!("X-Long: {}\r\n", "x".repeat(20_000));
    let wrong = signature("/hook/a", "{\"another\": \"body\"}");
    let refusals = [
        (401, request("/hook/a", "", body)),
        (401, request("/hook/a", &wrong, body)),
        (
            401,
            request("/hook/a", "X-Pinch-Signature: t=1,v1=x\r\n", body),
        ),
        (
            401,
            request("/hook/a", "X-Hub-Signature-256: sha256=00\r\n", body),
        ),
        (401, good.replace("/hook/a ", "/hook/b ")),
        (404, good.replace("/hook/a ", "/hooks ")),
        (404, "GET /metrics HTTP/1.1\r\n\r\n".to_owned()),
        (405, "GET /hook/a HTTP/1.1\r\n\r\n".to_owned()),
        (406, request("/hook/a", &signature("/hook/a", "x"), "x")),
        (400, signed("/hook/a", "{no json")),
        (400, "no http\r\n\r\n".to_owned()),
        (
            400,
            request("/hook/a", "Transfer-Encoding: identity\r\n", body),
        ),
        (413, signed("/hook/a", &large)),
        (431, request("/hook/a", &many, body)),
        (431, request("/hook/a", &long, body)),
    ];
    for (expected, request) in &refusals {
        let (status, answer) = fleet.ask_hook(request);
        assert_eq!(status, *expected, "{request:?}: {answer}");
        assert!(!answer.contains("success"), "{answer}");
    }
    let (_, answer) = fleet.ask_hook("PUT /hook HTTP/1.1\r\n\r\n");
    assert!(answer.contains("\r\nAllow: POST\r\n"), "{answer}");
    assert_eq!(fleet.ask_hook(&good).0, 200);
    assert_eq!(fleet.ask_hook(&good).0, 409);
    let log = fleet.master_log();
    let mut told = logged_refusals(&log);
    let mut expected: Vec<u16> = refusals.iter().map(|(status, _)| *status).collect();
    expected.extend([405, 409]);
    told.sort_unstable();
    expected.sort_unstable();
    assert_eq!(told, expected, "{log}");
    for never in [SECRET, "confidential", &mac(body), "xxxxxxxx"] {
        assert!(!log.contains(never), "{never}: {log}");
    }
    let made = events(&fleet, "the/end");
    let made = made.iter().filter(|(tag, _)| tag.contains("netapi"));
    assert_eq!(made.count(), 1);
}

#[test]
fn who_is_slow_or_comes_too_often_is_sent_away() {
    let limits = "hook_timeout: 1\nhook_rate: 0.001\n";
    let fleet = Fleet::with(&format!("{HOOK}{DAY}{limits}"));
    let address = fleet.listens("hook_listen");
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(b"POST /hook/a HTTP/1.1\r\nX: ").unwrap();
    let (status, answer) = heard(slow);
    assert_eq!(status, 408, "{answer}");
    // The slow request used up the allowance of its address for the next quarter of an hour.
    let (status, answer) = send(&address, &signed("/hook/a", "{}"));
    assert_eq!(status, 429, "{answer}");
    let after = answer
        .lines()
        .find_map(|line| line.strip_prefix("Retry-After: "));
    let after: u64 = after.unwrap().parse().unwrap();
    assert!((1..=1000).contains(&after), "{after}");
    let log = fleet.master_log();
    assert!(
        log.contains(" refused (408)") && log.contains(" refused (429)"),
        "{log}"
    );
    assert!(!fleet.logs().contains("salt/netapi"));
}

/// Returns the error of a master that does not start with this configuration.
fn said_by_a_master_with(config: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display();
    let text = format!(
        "root_dir: {root}\npki_dir: {root}/pki\ncachedir: {root}/cache\nsock_dir: {root}/run\nlog_file: {root}/log\nret_port: 0\n{config}"
    );
    fs::write(dir.path().join("master"), text).unwrap();
    let (etc, output) = (root.to_string(), dir.path().join("output"));
    let words = ["salt-master", "-c", &etc];
    let mut process = Process::start(&PROGRAM, &words, &output);
    assert!(!process.0.wait().unwrap().success());
    fs::read_to_string(output).unwrap()
}

#[test]
fn a_hook_that_makes_no_sense_keeps_the_master_from_starting() {
    let said = said_by_a_master_with("hook_listen: 0\n");
    assert!(
        said.contains("`hook_listen`: requests must be signed"),
        "{said}"
    );
    let said = said_by_a_master_with("hook_listen: 0\nhook_secret: too short\n");
    assert!(
        said.contains("`hook_secret`: the secret is shorter"),
        "{said}"
    );
    assert!(!said.contains("too short"), "{said}");
    let said = said_by_a_master_with("hook_rate: 0\n");
    assert!(
        said.contains("/master:7: option `hook_rate` needs a number above 0"),
        "{said}"
    );
    let said = said_by_a_master_with("metrics_listen: localhost\n");
    assert!(
        said.contains("/master:7: option `metrics_listen` needs an address"),
        "{said}"
    );
    // No interface of this machine has this address.
    let said = said_by_a_master_with("metrics_listen: 192.0.2.1:9\n");
    assert!(
        said.contains("`metrics_listen`: cannot listen on 192.0.2.1:9: "),
        "{said}"
    );
}

#[test]
fn the_page_of_metrics_tells_what_happened() {
    let rule =
        "reactor:\n  - my/tag: ['salt://react/job.sls']\n  - bad/tag: ['salt://react/none.sls']\n";
    let mut fleet = Fleet::with(&format!("{HOOK}{METRICS}{rule}"));
    let job = "job:\n  local.test.ping:\n    - tgt: m1\n";
    fleet.write("salt/react/job.sls", job);
    let before = fleet.measured();
    let version = before
        .keys()
        .find(|name| name.starts_with("pinch_build_info"));
    assert!(version.unwrap().contains("version=\""), "{before:?}");
    assert_eq!(before["pinch_keys{state=\"accepted\"}"], 0.0);
    fleet.accepted(&["m1"]);
    fire(&fleet, "my/tag", "{}");
    fire(&fleet, "bad/tag", "{}");
    assert_eq!(fleet.ask_hook(&signed("/hook/a", "{}")).0, 200);
    assert_eq!(fleet.ask_hook(&request("/hook/a", "", "{}")).0, 401);
    let grown = [
        "pinch_connections",
        "pinch_hellos_total",
        "pinch_auth_total{act=\"pend\"}",
        "pinch_auth_total{act=\"accept\"}",
        "pinch_keys{state=\"accepted\"}",
        "pinch_events_total",
        "pinch_event_log_events",
        "pinch_event_log_bytes",
        "pinch_reactions_total{state=\"done\"}",
        "pinch_reactions_total{state=\"failed\"}",
        "pinch_reaction_seconds_count",
        "pinch_jobs_total",
        "pinch_returns_total{result=\"kept\"}",
        "pinch_job_return_seconds_count",
        "pinch_hook_requests_total{code=\"200\"}",
        "pinch_hook_requests_total{code=\"401\"}",
    ];
    fleet.soon("the counters have grown", || {
        let after = fleet.measured();
        let is_quiet = after["pinch_reactions_waiting"] == 0.0
            && after["pinch_reactor_behind_events{rule=\"my/tag\"}"] == 0.0;
        let by_rule = |rule: &str, state: &str| {
            let name = format!("pinch_rule_reactions_total{{rule=\"{rule}\",state=\"{state}\"}}");
            after.get(&name).copied()
        };
        let is_quiet = is_quiet
            && by_rule("my/tag", "done") == Some(1.0)
            && by_rule("bad/tag", "failed") == Some(1.0);
        is_quiet && grown.iter().all(|name| after[*name] > before[*name])
    });
    let after = fleet.measured();
    assert_eq!(after["pinch_hook_requests_total{code=\"200\"}"], 1.0);
    assert_eq!(after["pinch_keys{state=\"pending\"}"], 0.0);
    let address = fleet.listens("metrics_listen");
    let status = |request: &str| send(&address, &format!("{request} HTTP/1.1\r\n\r\n")).0;
    assert_eq!(status("GET /other"), 404);
    assert_eq!(status("POST /metrics"), 405);
    let page = send(&address, "GET / HTTP/1.1\r\n\r\n").1;
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert!(page.contains(&format!("<a href=\"{path}\">")), "{page}");
        assert_eq!(status(&format!("GET {path}")), 200, "{path}");
    }
}

const WAITS: &str = "
first:
  wheel.key.list_all: []
second:
  local.cmd.run:
    - tgt: m1
    - args:
      - cmd: touch FILE
    - require:
      - wheel: first
";

#[test]
fn a_job_that_waits_for_a_machine_is_not_for_the_next_of_its_id() {
    let rule = "reactor:\n  - my/tag: ['salt://react/waits.sls']\n";
    let mut fleet = Fleet::with(rule);
    let made = fleet.path("made");
    let waits = WAITS.replace("FILE", &made.display().to_string());
    fleet.write("salt/react/waits.sls", &waits);
    fleet.accepted(&["m1"]);
    fleet.end_minion("m1");
    fire(&fleet, "my/tag", "{}");
    let jobs = || runner(&fleet, &["jobs.list_jobs"]).to_string();
    fleet.soon("the job is kept for the minion", || {
        jobs().contains("touch")
    });
    assert_eq!(fleet.run(&["salt-key", "-y", "-d", "m1"]).rc, Some(0));
    fs::remove_dir_all(fleet.path("m1/pki")).unwrap();
    fleet.accepted(&["m1"]);
    // The job would have been sent before anything else.
    sleep(Duration::from_millis(500));
    assert!(!made.exists(), "{}", fleet.logs());
}

#[test]
fn each_minion_has_metrics_up_to_a_limit() {
    let mut fleet = Fleet::with(&format!("{METRICS}metrics_minions_max: 1\n"));
    fleet.write("salt/top.sls", "base:\n  '*':\n    - broken\n");
    fleet.write("salt/broken.sls", "a:\n  test.fail_without_changes\n");
    fleet.accepted(&["m1"]);
    let seen = "pinch_minion_last_seen_seconds{id=\"m1\"}";
    let last = "pinch_highstate_last_result{id=\"m1\"}";
    let page = fleet.measured();
    assert!(page[seen] > 1.6e9, "{page:?}");
    assert!(!page.contains_key(last));
    fleet.run(&["salt", "m1", "state.apply"]);
    fleet.soon("the failed highstate is measured", || {
        fleet.measured().get(last) == Some(&0.0)
    });
    fleet.write("salt/broken.sls", "a:\n  test.nop\n");
    fleet.run(&["salt", "m1", "state.apply"]);
    fleet.soon("the good highstate is measured", || {
        fleet.measured().get(last) == Some(&1.0)
    });
    fleet.accepted(&["m2"]);
    fleet.soon("two minions are too many", || {
        let page = fleet.measured();
        page["pinch_minions_not_shown"] == 2.0 && !page.contains_key(seen)
    });
}
