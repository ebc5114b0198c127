//! The commands that change nothing: `pinch graph`, `pinch doctor` and `pinch migrate`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;
use tempfile::TempDir;
use tests::program::{assert_in_order, pinch_program};

const SLS: &str = "
nginx:
  pkg.installed: []
  service.running:
    - watch:
      - file: /etc/nginx/nginx.conf
/etc/nginx/nginx.conf:
  file.managed:
    - require:
      - pkg: nginx
";

const RUNS: &str = "
one:
  test.succeed_with_changes: []
two:
  test.fail_without_changes:
    - require:
      - test: one
three:
  test.nop:
    - require:
      - test: two
";

/// A machine with a temporary folder for all its files.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for folder in ["etc", "srv", "pki", "cache"] {
            fs::create_dir(machine.0.path().join(folder)).unwrap();
        }
        let at = |name: &str| machine.at(name);
        let config = format!(
            "file_client: local\nid: looked-at\ncachedir: {}\npki_dir: {}\nextension_modules: {}\nfile_roots:\n  base:\n    - {}\n",
            at("cache"),
            at("pki"),
            at("ext"),
            at("srv")
        );
        machine.write("etc/minion", &config);
        machine.write("srv/web.sls", SLS);
        machine.write("srv/runs.sls", RUNS);
        machine
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    /// Runs `pinch WORD -c etc WORDS…` in its folder.
    fn pinch(&self, word: &str, words: &[&str]) -> Output {
        Command::new(pinch_program())
            .args([word, "-c", &self.at("etc")])
            .args(words)
            .current_dir(self.0.path())
            .env_remove("SALT_CONFIG_DIR")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_name_of_a_module_shows_what_is_in_it_and_fails() {
    let machine = Machine::new();
    for name in ["sysfs", "sysfs.re"] {
        let shown = machine.pinch("salt-call", &["--local", "--out=json", name]);
        let docs: Json = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!(docs["local"][name], format!("'{name}' is not available."));
        assert!(docs["local"]["sysfs.read"].is_string(), "{docs}");
        assert_eq!(shown.status.code(), Some(1));
    }
}

#[test]
fn the_graph_of_an_sls_is_drawn_in_each_format() {
    let machine = Machine::new();
    let dot = machine.pinch("graph", &["web"]);
    assert!(dot.status.success(), "{}", text(&dot.stderr));
    assert_in_order(
        &text(&dot.stdout),
        &[
            "subgraph cluster_0 {\n    label=\"web\";",
            "n0 [label=\"nginx\\npkg.installed\"",
            "n0 -> n1 [label=\"require\"];",
            "n1 -> n2 [label=\"watch\"];",
        ],
    );
    let mermaid = text(&machine.pinch("graph", &["web", "--format", "mmd"]).stdout);
    assert_in_order(
        &mermaid,
        &["flowchart LR\n", "subgraph g0[\"web\"]", "n1 -->|watch| n2"],
    );
    let svg = machine.pinch("graph", &["web", "-o", "web.svg"]);
    assert_eq!(
        (svg.status.code(), text(&svg.stdout)),
        (Some(0), String::new())
    );
    let svg = fs::read_to_string(machine.at("web.svg")).unwrap();
    assert_in_order(
        &svg,
        &[
            "<svg ",
            ">/etc/nginx/nginx.conf</text>",
            "marker-end=\"url(#watch)\"",
            "</svg>\n",
        ],
    );
    let png = machine.pinch("graph", &["web", "-o", "web.png"]);
    assert_eq!(png.status.code(), Some(0), "{}", text(&png.stderr));
    let png = fs::read(machine.at("web.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n") && png.len() > 1000);
    let gif = machine.pinch("graph", &["web", "-o", "web.gif"]);
    assert_eq!(gif.status.code(), Some(64));
    assert!(text(&gif.stderr).contains("use a file name that ends in .svg, .png, .dot or .mmd"));
    let none = machine.pinch("graph", &["nosuch"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(
        text(&none.stderr).contains("No matching sls found for 'nosuch'"),
        "{}",
        text(&none.stderr)
    );
}

#[test]
fn a_recorded_run_is_drawn_with_its_results() {
    let machine = Machine::new();
    let ran = machine.pinch(
        "salt-call",
        &["--local", "state.apply", "runs", "--out=ndjson"],
    );
    let first = text(&ran.stdout).lines().next().unwrap().to_owned();
    let jid = serde_json::from_str::<Json>(&first).unwrap()["jid"]
        .as_str()
        .unwrap()
        .to_owned();
    let drawn = machine.pinch("graph", &["--run", &jid, "--format", "svg"]);
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    let svg = text(&drawn.stdout);
    let parts = [
        format!("run {jid}: runs"),
        ">changed</text>".into(),
        ">failed</text>".into(),
        ">failed</text>".into(),
    ];
    assert_in_order(&svg, &parts.each_ref().map(String::as_str));
    let other = machine.pinch("graph", &["--run", "20200101000000000000"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(
        text(&other.stderr).contains(&format!("the last recorded run is {jid}")),
        "{}",
        text(&other.stderr)
    );
}

/// Returns the lines of `doctor` about a topic.
fn topic<'a>(report: &'a Json, topic: &str) -> Vec<&'a Json> {
    let lines = report["lines"].as_array().unwrap().iter();
    lines.filter(|line| line["topic"] == topic).collect()
}

fn doctor(machine: &Machine) -> (Option<i32>, Json) {
    let output = machine.pinch("doctor", &["--out=json"]);
    let report = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), report)
}

#[test]
fn doctor_names_what_is_wrong_and_what_to_do() {
    let machine = Machine::new();
    machine.write("pki/minion.pem", "secret");
    fs::set_permissions(
        machine.at("pki/minion.pem"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    let (code, report) = doctor(&machine);
    assert_eq!((code, &report["version"]), (Some(1), &1.into()));
    let key = topic(&report, "permissions")[0];
    assert_eq!(key["level"], "problem");
    assert!(key["todo"].as_str().unwrap().starts_with("chmod 600 "));
    fs::set_permissions(
        machine.at("pki/minion.pem"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    let (_, report) = doctor(&machine);
    assert_eq!(topic(&report, "permissions")[0]["level"], "ok", "{report}");
    assert_eq!(topic(&report, "states")[0]["level"], "ok");
    assert_eq!(
        topic(&report, "locks")[0]["what"],
        "no state run is in progress"
    );
    assert!(
        topic(&report, "python")[0]["what"]
            .as_str()
            .unwrap()
            .starts_with("not needed")
    );
    fs::set_permissions(machine.at("cache"), fs::Permissions::from_mode(0o777)).unwrap();
    let (code, report) = doctor(&machine);
    assert_eq!(code, Some(1));
    assert!(
        topic(&report, "permissions")[0]["what"]
            .as_str()
            .unwrap()
            .ends_with("is writable by all users")
    );
}

#[test]
fn doctor_tells_of_a_configuration_that_is_wrong() {
    let machine = Machine::new();
    machine.write("etc/minion", "file_client: local\nfile_roots: [\n");
    let output = machine.pinch("doctor", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_in_order(
        &text(&output.stdout),
        &[
            "problem  configuration   ",
            "minion",
            "-> ",
            "1 problems, 0 warnings\n",
        ],
    );
    let wrong = machine.pinch("doctor", &["everything"]);
    assert_eq!(wrong.status.code(), Some(64));
}

#[test]
fn doctor_names_the_run_that_holds_the_lock() {
    let machine = Machine::new();
    machine.write("srv/slow.sls", "sleep 60:\n  cmd.run: []\n");
    let mut run = Command::new(pinch_program());
    let run = run.args([
        "salt-call",
        "--local",
        "-c",
        &machine.at("etc"),
        "state.apply",
        "slow",
    ]);
    let mut run = run
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    let told = loop {
        let (_, report) = doctor(&machine);
        let line = topic(&report, "locks")[0].clone();
        if line["level"] == "warning" || start.elapsed().as_secs() > 50 {
            break line;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    run.kill().unwrap();
    run.wait().unwrap();
    let expected = format!(
        "The function \"state.apply\" is running as PID {}",
        run.id()
    );
    assert!(
        told["what"].as_str().unwrap().starts_with(&expected),
        "{told}"
    );
}

#[test]
fn a_report_says_of_each_sls_whether_it_runs() {
    let machine = Machine::new();
    fs::create_dir(machine.at("srv/_states")).unwrap();
    machine.write("srv/_states/mine.py", "def made(name):\n    return {}\n");
    machine.write("srv/own.sls", "a:\n  mine.made: []\n");
    machine.write("srv/wrong.sls", "a:\n  file.manged: []\n");
    machine.write(
        "srv/code.sls",
        "https://example.org/a.git:\n  git.latest:\n    - target: /srv/a\n",
    );
    machine.write("srv/python.sls", "#!py\ndef run():\n    return {}\n");
    machine.write("srv/mako.sls", "#!mako|yaml\na:\n  test.nop: []\n");
    machine.write("srv/wempy.sls", "#!wempy|yaml\na:\n  test.nop: []\n");
    machine.write("srv/one.sls", "same:\n  test.nop: []\n");
    machine.write("srv/two.sls", "same:\n  test.nop: []\n");
    machine.write("srv/both.sls", "include: [one, two]\n");
    let report = machine.pinch("migrate", &["report", "srv", "--format", "json"]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let report: Json = serde_json::from_slice(&report.stdout).unwrap();
    let verdict = |name: &str| {
        let mut all = report["sls"].as_array().unwrap().iter();
        let one = all
            .find(|one| one["sls"] == name)
            .unwrap_or_else(|| panic!("{name}: {report}"));
        (
            one["verdict"].as_str().unwrap(),
            one["why"].as_array().unwrap(),
        )
    };
    assert_eq!(verdict("web"), ("runs", &Vec::new()));
    assert_eq!(verdict("own"), ("python", &vec!["mine.made".into()]));
    assert_eq!(verdict("wrong").0, "fails");
    assert!(
        verdict("wrong").1[0]
            .as_str()
            .unwrap()
            .starts_with("srv/wrong.sls:2:3: unknown state function file.manged"),
        "{report}"
    );
    assert_eq!(verdict("code").0, "differs");
    assert!(
        verdict("code").1[0]
            .as_str()
            .unwrap()
            .starts_with("git never asks for a password")
    );
    assert_eq!(verdict("python"), ("python", &vec!["#!py".into()]));
    assert_eq!(verdict("mako"), ("python", &vec!["#!mako".into()]));
    assert_eq!(verdict("wempy").0, "fails");
    // Each SLS runs alone, but not the one that includes both.
    assert_eq!(verdict("one").0, "runs");
    assert_eq!(verdict("two").0, "runs");
    assert_eq!(verdict("both").0, "fails");
    assert_eq!(report["totals"]["runs"], 4);
    let page = text(&machine.pinch("migrate", &["report", "srv"]).stdout);
    assert_in_order(
        &page,
        &[
            "| runs as is | 4 |",
            "| will not run | 3 |",
            "| all | 11 |",
            "## Will not run\n",
            "- `wrong` (srv/wrong.sls)\n",
        ],
    );
}

/// Creates a stand-in for Salt's program that prints the output of this one, edited with `edit`,
/// and returns the option that selects it.
fn stand_in(machine: &Machine, name: &str, edit: &str) -> String {
    let program = machine.at(name);
    let text = format!(
        "#!/bin/sh\n{} salt-call \"$@\" | {edit}\n",
        pinch_program().display()
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("--salt={program}")
}

#[test]
fn two_programs_are_compared_state_by_state() {
    let machine = Machine::new();
    let compare = |salt: &str| machine.pinch("migrate", &["compare", "runs", salt]);
    let same = compare(&stand_in(&machine, "same", "cat"));
    assert_eq!(
        (same.status.code(), text(&same.stdout)),
        (
            Some(0),
            "3 states compared with test=True, 0 differ\n".into()
        ),
        "{}",
        text(&same.stderr)
    );
    let other = compare(&stand_in(
        &machine,
        "other",
        "sed 's/One or more requisite/Two of the requisites/'",
    ));
    assert_eq!(other.status.code(), Some(1));
    assert_in_order(
        &text(&other.stdout),
        &[
            "3 states compared with test=True, ",
            " differ\n",
            "## test.nop `three`",
            "comment:\n    Salt   Two of the requisites failed: runs.two\n    Pinch  One or more requisite failed: runs.two\n",
        ],
    );
    let broken = compare(&stand_in(&machine, "broken", "head -c 9"));
    assert_eq!(broken.status.code(), Some(1));
    assert!(
        text(&broken.stderr).contains("printed no JSON result"),
        "{}",
        text(&broken.stderr)
    );
    let slow = stand_in(&machine, "slow", "sleep 50");
    let slow = machine.pinch("migrate", &["compare", "runs", "--timeout", "1", &slow]);
    assert!(
        text(&slow.stderr).contains("timed out after 1 s"),
        "{}",
        text(&slow.stderr)
    );
}

#[test]
fn without_a_salt_there_is_nothing_to_compare_with() {
    let machine = Machine::new();
    let none = Command::new(pinch_program())
        .args(["migrate", "compare", "runs", "-c", &machine.at("etc")])
        .env("PATH", machine.at("srv"))
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(69));
    assert_in_order(
        &text(&none.stderr),
        &["no salt-call of Salt found in PATH", "--salt=PROGRAM"],
    );
}
