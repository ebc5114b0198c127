//! Plants secrets of every kind, and searches all output of the program for them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tests::program::{in_recorded_environment, pinch_program};
use tests::scratch::Scratch;

use crate::bus::Ear;
use crate::resume::Machine;

/// Parts of the planted secrets; finding any one of them reveals a leak.
const PLANTED: [&str; 12] = [
    "plain-token-planted",
    "qu\"oted",
    "\\\\ed-plänt",
    "plänted",
    "pl\\u00e4nted",
    "crypted-planted",
    "whole-planted",
    "MIIEplantedLineA",
    "plantedLineBBBB5",
    "env-sdb-planted",
    "file-sdb-planted",
    "silent-planted",
];

/// A value that is too short to be masked inside texts.
const PIN: &str = "40711";

const MINION: &str = "\
file_client: local
sock_dir: /sock
gpg_keydir: @ENV@/keys
log_file: /log/minion
log_level_logfile: all
secret_keys: [api_token, 'db:pin', '*_pass']
myenv: {driver: env}
myfile: {driver: yaml, files: [@ENV@/srv/sdb.yaml]}
";

const PILLAR: &str = "\
api_token: plain-token-planted
db: {pin: 40711, host: dbhost}
root_pass: 'it''s qu\"oted \\ed-plänted'
url: 'postgres://u:plain-token-planted@dbhost/x'
";

const STATES: &str = "\
f:
  file.managed:
    - name: @TMP@/file
    - contents: |
        {{ pillar.api_token }} {{ pillar.url }} {{ pillar.db.pin }}
        {{ pillar.root_pass }}
        {{ pillar.get('key', '') | indent(8) }}
        {{ salt['sdb.get']('sdb://myenv/SDB_PLANTED') }} {{ salt['sdb.get']('sdb://myfile/word') }}
        {{ pillar.get('crypted', '') }} {{ pillar.get('whole', {}).word }}
show:
  cmd.run:
    - name: cat @TMP@/file; echo {{ pillar.api_token }}
fails:
  cmd.run:
    - name: 'cat @TMP@/file >&2; echo {{ pillar.api_token }}; false'
    - require: [{file: f}]
quiet:
  cmd.run:
    - name: echo silent-planted-word
    - no_log: True
beside:
  cmd.run:
    - name: echo silent-planted-word again
    - no_log: True
    - parallel: True
named:
  cmd.run:
    - names: [echo {{ pillar.api_token }}, echo {{ pillar.get('crypted', 'xxxxxx') }}]
    - fire_event: True
note:
  test.configurable_test_state:
    - comment: {{ pillar | json | yaml_dquote }}
    - changes: True
    - result: True
    - warnings: {{ pillar.root_pass | yaml_dquote }}
";

const ORCH: &str = "\
step:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: [echo {{ pillar.api_token }} plain]
hushed:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - no_log: True
    - arg: [echo silent-planted-word]
states:
  salt.state:
    - tgt: '*'
    - sls: s
    - pillar: {given_pass: 'given {{ pillar.api_token }}'}
";

/// The output of each command, with the command line that produced it.
struct Outputs(Vec<(String, String)>);

impl Outputs {
    /// Runs an applet of the program, and returns its stdout.
    fn by(&mut self, scratch: &Scratch, words: &[&str]) -> String {
        let (out, err) = run(scratch, words);
        let shown = words.join(" ");
        self.0.push((format!("{shown} (stdout)"), out.clone()));
        self.0.push((format!("{shown} (stderr)"), err));
        out
    }

    fn call(&mut self, scratch: &Scratch, words: &str) -> String {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.by(
            scratch,
            &[&["salt-call", "--local"], words.as_slice()].concat(),
        )
    }

    fn pinch(&mut self, scratch: &Scratch, words: &str) -> String {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.by(scratch, &words)
    }

    /// Adds every file below a folder.
    fn files(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.files(&path);
            } else if path.is_file() {
                let bytes = fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.0.push((path.display().to_string(), text));
            }
        }
    }

    fn has_file(&self, end: &str) {
        let is_it = |(what, text): &(String, String)| what.ends_with(end) && !text.is_empty();
        assert!(self.0.iter().any(is_it), "{end}");
    }

    fn has_no_secret(&self) {
        for (what, text) in &self.0 {
            for planted in PLANTED {
                assert!(!text.contains(planted), "{planted} in {what}:\n{text}");
            }
        }
    }
}

fn run(scratch: &Scratch, words: &[&str]) -> (String, String) {
    let mut command = Command::new(pinch_program());
    let output = in_recorded_environment(&mut command)
        .args(words)
        .env("SALT_CONFIG_DIR", scratch.path().join("etc"))
        .env("SDB_PLANTED", "env-sdb-planted-word")
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A GnuPG home with its own keys; it ends with its agent when dropped. `None` if this machine has
/// no gpg.
pub(crate) struct Gpg(std::path::PathBuf);

impl Gpg {
    pub(crate) fn new(home: &Path) -> Option<Self> {
        fs::create_dir(home).unwrap();
        fs::set_permissions(home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let words = [
            "--passphrase",
            "",
            "--quick-gen-key",
            "t <t@x>",
            "default",
            "default",
            "never",
        ];
        let made = Command::new("gpg")
            .arg("--homedir")
            .arg(home)
            .arg("--batch")
            .args(words)
            .output();
        made.is_ok_and(|made| made.status.success())
            .then(|| Self(home.to_owned()))
    }

    /// Returns a text encrypted, with each line indented by this number of spaces.
    pub(crate) fn crypted(&self, text: &str, indent: usize) -> String {
        let plain = self.0.join("plain");
        fs::write(&plain, text).unwrap();
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(&self.0);
        command.args([
            "--batch",
            "--trust-model",
            "always",
            "--armor",
            "-r",
            "t@x",
            "-o",
            "-",
            "-e",
        ]);
        let output = command.arg(&plain).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let lines = String::from_utf8(output.stdout).unwrap();
        lines
            .lines()
            .map(|line| format!("{}{line}\n", " ".repeat(indent)))
            .collect()
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf")
            .arg("--homedir")
            .arg(&self.0)
            .args(["--kill", "all"])
            .output();
    }
}

const KEY: &str =
    "-----BEGIN KEY-----\nMIIEplantedLineA\nplantedLineBBBB5\nzQ==\n-----END KEY-----";

fn planted() -> (Scratch, Option<Gpg>) {
    let scratch = Scratch::new();
    scratch.write("etc/minion.d/own.conf", MINION);
    scratch.write("srv/sdb.yaml", "word: file-sdb-planted-word\n");
    scratch.write("srv/pillar/plain.sls", PILLAR);
    for (name, text) in [("s", STATES), ("orch", ORCH)] {
        scratch.write(format!("srv/salt/{name}.sls"), text);
    }
    scratch.write("srv/salt/top.sls", "base: {'*': [s]}\n");
    scratch.write(
        "srv/salt/bad.sls",
        "x:\n  test.nop:\n    - name: {{ pillar.api_token }} {{ nothing.at.all }}\n",
    );
    scratch.write(
        "srv/salt/broken.sls",
        "x:\n  test.nop:\n    - name: plain {{ pillar.api_token }}: {{ pillar.url }}: x\n",
    );
    let gpg = Gpg::new(&scratch.path().join("keys"));
    let mut top = "plain".to_owned();
    if let Some(gpg) = &gpg {
        let (word, key) = (gpg.crypted("crypted-planted-word", 2), gpg.crypted(KEY, 2));
        scratch.write(
            "srv/pillar/crypted.sls",
            &format!("#!yaml|gpg\ncrypted: |\n{word}key: |\n{key}"),
        );
        let whole = gpg.crypted("whole:\n  word: whole-planted-word\n  n: 12\n", 0);
        scratch.write(
            "srv/pillar/whole.sls",
            &format!("#!gpg|jinja|yaml\n{whole}"),
        );
        top.push_str(", crypted, whole");
    }
    scratch.write("srv/pillar/top.sls", &format!("base: {{'*': [{top}]}}\n"));
    (scratch, gpg)
}

fn jid(out: &str) -> String {
    out.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn no_output_log_record_or_event_of_a_run_has_a_secret_in_it() {
    let (scratch, _gpg) = planted();
    let mut told = Outputs(Vec::new());
    let ear = Ear::on(&scratch.path().join("root/sock"));
    let test = told.call(&scratch, "state.apply s test=True -l all");
    assert!(test.contains("‹secret›"), "{test}");
    let first = told.call(&scratch, "state.highstate -l all --out=json");
    let held = fs::read_to_string(scratch.tmp().join("file")).unwrap();
    for secret in [
        "plain-token-planted",
        "it's qu\"oted \\ed-plänted",
        PIN,
        "env-sdb-planted-word",
        "file-sdb-planted-word",
    ] {
        assert!(held.contains(secret), "{held}");
    }
    let runs: serde_json::Value = serde_json::from_str(&first).unwrap();
    let rets = runs["local"].as_object().unwrap();
    assert_eq!(rets.len(), 8, "{first}");
    for name in ["echo ‹secret›", "echo ‹secret 2›"] {
        assert!(
            rets.contains_key(&format!("cmd_|-named_|-{name}_|-run")),
            "{first}"
        );
    }
    assert!(first.contains("postgres://u:‹secret›@dbhost/x"), "{first}");
    // A diff of the previous contents.
    scratch.write("out/file", "before\n");
    let diff = told.call(&scratch, "state.apply s");
    assert!(
        diff.contains("+‹secret› postgres://u:‹secret›@dbhost/x"),
        "{diff}"
    );
    assert!(!diff.contains("zQ=="), "{diff}");
    for out in [
        "json", "yaml", "raw", "pprint", "txt", "nested", "ndjson", "table",
    ] {
        told.call(
            &scratch,
            &format!("state.apply s --out={out} -l info --progress=plain"),
        );
    }
    for words in [
        "state.apply bad -l all",
        "state.apply broken -l all",
        "state.show_low_sls s",
        "state.show_sls s",
        "state.orchestrate orch -l all",
    ] {
        told.call(&scratch, words);
    }
    let events = ear.heard();
    assert!(
        events
            .iter()
            .any(|(tag, _)| tag.starts_with("salt/state_result/")),
        "{events:?}"
    );
    told.0.push(("events".into(), format!("{events:?}")));
    told.files(&scratch.path().join("root"));
    told.has_file("root/log/minion");
    told.has_no_secret();
}

#[test]
fn a_pillar_and_what_sdb_has_is_shown_to_who_asks_for_it_and_nowhere_else() {
    let (scratch, _gpg) = planted();
    let mut told = Outputs(Vec::new());
    for words in [
        "pillar.items unmask=True",
        "pillar.get db unmask=True",
        "pillar.get db:pin unmask=True",
        "pillar.item db:pin unmask=True",
        "config.get root_pass",
    ] {
        let out = told.call(&scratch, words);
        assert!(
            out.contains("‹secret›") && !out.contains(PIN),
            "{words}: {out}"
        );
    }
    let file = scratch.path().join("shown");
    told.call(
        &scratch,
        &format!("pillar.items --show-secrets --out-file={}", file.display()),
    );
    told.0
        .push(("--out-file".into(), fs::read_to_string(&file).unwrap()));
    assert!(told.0.last().unwrap().1.contains("dbhost"));
    told.has_no_secret();
    let shown = |words: &[&str]| {
        run(
            &scratch,
            &[&["salt-call", "--local", "-l", "all"], words].concat(),
        )
        .0
    };
    let out = shown(&["pillar.items", "--show-secrets"]);
    for secret in ["plain-token-planted", PIN, "qu\"oted \\ed-plänted"] {
        assert!(out.contains(secret), "{out}");
    }
    assert!(shown(&["sdb.get", "sdb://myfile/word"]).contains("file-sdb-planted-word"));
    let mut kept = Outputs(Vec::new());
    kept.files(&scratch.path().join("root"));
    kept.has_no_secret();
}

#[test]
fn plans_have_no_secret_in_them_and_hold_all_the_same() {
    let (scratch, _gpg) = planted();
    let mut told = Outputs(Vec::new());
    let sls = STATES.replace("; false", "");
    scratch.write("srv/salt/s.sls", &sls);
    scratch.write("out/file", "before\n");
    let plan = scratch.path().join("plan.json");
    let plan = plan.display();
    told.pinch(&scratch, &format!("plan s -o {plan} --out=text"));
    told.pinch(&scratch, "plan s --out=json -l all");
    told.0.push((
        "the plan".into(),
        fs::read_to_string(scratch.path().join("plan.json")).unwrap(),
    ));
    let applied = told.pinch(&scratch, &format!("apply {plan}"));
    assert!(
        applied.contains("Failed:    0"),
        "{applied}{}",
        told.0.last().unwrap().1
    );
    let held = fs::read_to_string(scratch.tmp().join("file")).unwrap();
    assert!(held.contains("plain-token-planted"), "{held}");
    // The hashes are those of the real values, so a change is detected.
    scratch.write("out/file", "before\n");
    told.pinch(&scratch, &format!("plan s -o {plan} --out=text"));
    let (old, new) = ("pin: 40711", "pin: 40712");
    scratch.write("srv/pillar/plain.sls", &PILLAR.replace(old, new));
    told.pinch(&scratch, &format!("apply {plan}"));
    let refusal = &told.0.last().unwrap().1;
    assert!(refusal.contains("the pillar: db has changed"), "{refusal}");
    assert_eq!(
        fs::read_to_string(scratch.tmp().join("file")).unwrap(),
        "before\n"
    );
    scratch.write("srv/pillar/plain.sls", PILLAR);
    let given = "pillar={'given_pass':'plain-token-planted'}";
    told.pinch(&scratch, &format!("plan s {given} -o {plan}"));
    let refusal = &told.0.last().unwrap().1;
    assert!(refusal.contains("plan files store none"), "{refusal}");
    told.0.retain(|(what, _)| !what.contains("given_pass"));
    told.files(&scratch.path().join("root"));
    told.has_file("root/log/minion");
    told.has_no_secret();
}

#[test]
fn what_looks_at_runs_has_no_secret_in_it() {
    let (scratch, _gpg) = planted();
    let mut told = Outputs(Vec::new());
    told.call(&scratch, "state.apply s test=True");
    told.call(&scratch, "state.apply s");
    let listed = told.pinch(&scratch, "runs list");
    let jids: Vec<String> = listed.lines().map(jid).collect();
    let last = jids.last().unwrap();
    for words in [
        format!("runs show {last}"),
        format!("runs show {last} --out=json"),
        format!("runs diff {} {last}", jids[0]),
        format!("explain run {last} f"),
        format!("explain run {last} named"),
        format!("graph s --run {last} --format svg"),
        "graph s --format dot".into(),
        "graph s --format mmd".into(),
        format!("lint {}", scratch.path().join("srv/salt/s.sls").display()),
    ] {
        let out = told.pinch(&scratch, &words);
        assert!(
            !out.is_empty() || words.starts_with("runs diff"),
            "{words}: {}",
            told.0.last().unwrap().1
        );
    }
    let explained = told.pinch(&scratch, &format!("explain run {last} named"));
    assert!(
        explained.contains("named (cmd.run): changed"),
        "{explained}"
    );
    told.files(&scratch.path().join("root"));
    told.has_file("root/log/minion");
    told.has_no_secret();
}

#[test]
fn a_run_goes_on_from_a_record_that_holds_no_secrets() {
    let states = "\
x:
  cmd.run:
    - names: ['echo {{ pillar.a_pass }} >> @TMP@/log', 'echo {{ pillar.b_pass }} >> @TMP@/log']
y:
  cmd.run:
    - name: '@CUT@'
    - require: [{cmd: x}]
";
    let machine = Machine::with(&[("s.sls", states)]);
    machine
        .0
        .write("etc/minion.d/own.conf", "secret_keys: ['*_pass']\n");
    let given = "pillar={'a_pass':'first-planted','b_pass':'second-planted'}";
    machine.cut(&format!("state.apply s {given}"));
    assert_eq!(machine.log(), "cut1 first-planted1 second-planted1");
    let asked = machine.call("state.apply s resume=True");
    assert!(asked.out.contains("pass pillar= again"), "{}", asked.out);
    let done = machine.call(&format!("state.apply s resume=True {given}"));
    assert_eq!(done.rc, Some(0), "{}", done.out);
    let mut told = Outputs(Vec::new());
    told.files(&machine.0.path().join("root"));
    for (what, text) in &told.0 {
        assert!(!text.contains("-planted"), "{what}: {text}");
    }
    assert_eq!(machine.log(), "cut2 first-planted1 second-planted1");
}
