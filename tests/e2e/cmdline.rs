//! Command lines and configurations with mistakes: nothing runs, and the error says what was
//! probably meant.

use std::fs;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;
use tests::program::pinch_program;

/// A machine with a temporary folder for all its files.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self::with("")
    }

    /// Creates a machine with more lines in its configuration.
    fn with(config: &str) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for folder in ["etc", "srv", "pillar"] {
            fs::create_dir(machine.0.path().join(folder)).unwrap();
        }
        let root = machine.at("");
        let all = format!(
            "file_client: local\nid: here\ncachedir: {root}cache\npki_dir: {root}pki\nsock_dir: {root}sock\nlog_file: {root}log\nfile_roots:\n  base: [{root}srv]\npillar_roots:\n  base: [{root}pillar]\n{config}"
        );
        machine.write("etc/minion", &all);
        machine.write("srv/web.sls", &format!("{root}made:\n  file.touch: []\n"));
        machine
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    fn exists(&self, name: &str) -> bool {
        self.0.path().join(name).exists()
    }

    /// Runs `pinch WORDS…` with the configuration of this machine.
    fn pinch(&self, words: &[&str]) -> Output {
        Command::new(pinch_program())
            .args(words)
            .current_dir(self.0.path())
            .env("SALT_CONFIG_DIR", self.at("etc"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Asserts the exit code and that stderr has these parts.
#[track_caller]
fn assert_failed(output: &Output, code: i32, parts: &[&str]) {
    let text = err(output);
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert_eq!(output.status.code(), Some(code), "{text}{}", out(output));
}

#[test]
fn a_configuration_folder_that_does_not_exist_is_a_wrong_command_line_in_every_program() {
    let machine = Machine::new();
    let gone = machine.at("gone");
    for words in [
        "salt-call -c GONE --local test.ping",
        "salt-minion -c GONE",
        "salt-master -c GONE",
        "salt --config-dir=GONE * test.ping",
        "salt-run -c GONE manage.up",
        "salt-key -c GONE -L",
        "plan -c GONE web",
        "runs -c GONE list",
        "doctor -c GONE",
        "lint -c GONE",
    ] {
        let words = words.replace("GONE", &gone);
        let words: Vec<&str> = words.split(' ').collect();
        let output = machine.pinch(&words);
        assert_failed(&output, 64, &["there is no directory", &gone]);
    }
}

#[test]
fn a_misspelt_option_of_the_configuration_is_a_warning() {
    let machine = Machine::with("hash_typ: sha256\nlog_level: verbose\nrole: web\n");
    let output = machine.pinch(&["salt-call", "--local", "--out=json", "test.ping"]);
    let text = err(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("unknown option `hash_typ`; did you mean `hash_type`?"),
        "{text}"
    );
    assert!(
        text.contains("option `log_level` is not a log level: 'verbose'"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_misspelt_argument_of_a_state_run_stops_it() {
    let machine = Machine::new();
    for words in [
        &["salt-call", "--local", "state.apply", "web", "tset=True"][..],
        &["salt-call", "--local", "state.sls", "web", "tset=True"],
        &[
            "salt-call",
            "--local",
            "state.orchestrate",
            "web",
            "tset=True",
        ],
        &["plan", "web", "tset=True"],
    ] {
        let output = machine.pinch(words);
        let parts = [
            "does not take the argument tset=",
            "Hint: did you mean test=?",
        ];
        assert_failed(&output, 64, &parts);
        assert_eq!(out(&output), "");
    }
    assert!(!machine.exists("made"));
    let output = machine.pinch(&["salt-call", "--local", "state.apply", "web", "TEST=True"]);
    assert!(
        output.status.success() && !machine.exists("made"),
        "{}",
        err(&output)
    );
}

#[test]
fn the_programs_of_a_master_refuse_a_misspelt_argument_before_they_ask_it() {
    let machine = Machine::new();
    machine.write("etc/master", &format!("sock_dir: {}\n", machine.at("sock")));
    for words in [
        &["salt", "*", "state.apply", "web", "tset=True"][..],
        &["salt", "*", "test.ping,state.apply", ",", "web", "tset=True"],
        &["salt-run", "state.orchestrate", "web", "tset=True"],
    ] {
        let output = machine.pinch(words);
        assert_failed(
            &output,
            64,
            &["does not take the argument tset=", "did you mean test=?"],
        );
    }
}

const STEPS: &str = "
first:
  salt.function:
    - name: test.ping
    - tgt: '*'
    - wholly: unknown
second:
  salt.state:
    - targ: '*'
    - sls: web
third:
  salt.function:
    - name: test.ping
    - tgt: '*'
    - reqire:
      - salt: first
";

#[test]
fn an_unknown_argument_is_a_warning_and_with_strict_arguments_an_error() {
    let unknown = "made:\n  file.managed:\n    - name: NAME\n    - wholly: unknown\n";
    let loose = Machine::new();
    loose.write("srv/web.sls", &unknown.replace("NAME", &loose.at("made")));
    let output = loose.pinch(&["salt-call", "--local", "state.apply", "web"]);
    let text = err(&output);
    assert!(
        text.contains("file.managed does not know the argument 'wholly'"),
        "{text}"
    );
    assert!(output.status.success() && loose.exists("made"), "{text}");

    let strict = Machine::with("strict_arguments: True\n");
    strict.write("srv/web.sls", &unknown.replace("NAME", &strict.at("made")));
    let output = strict.pinch(&["salt-call", "--local", "state.apply", "web"]);
    assert_failed(
        &output,
        1,
        &[
            "file.managed does not know the argument 'wholly'",
            "web.sls:4",
        ],
    );
    assert!(!strict.exists("made"));
}

#[test]
fn an_unknown_argument_of_an_orchestration_step_is_reported_before_the_first_step() {
    let reported = [
        "salt.function does not know the argument 'wholly'",
        "salt.state does not know the argument 'targ'",
        "salt.function does not know the argument 'reqire'",
        "did you mean 'require'?",
    ];
    let loose = Machine::new();
    loose.write("srv/orch.sls", STEPS);
    let words = ["salt-call", "--local", "state.orchestrate", "orch"];
    let output = loose.pinch(&words);
    assert_failed(&output, 1, &reported);
    assert_failed(&output, 1, &["did you mean 'tgt' instead of 'targ'?"]);
    assert!(
        out(&output).contains("Missing parameter tgt"),
        "{}",
        out(&output)
    );

    let strict = Machine::with("strict_arguments: True\n");
    strict.write("srv/orch.sls", STEPS);
    let output = strict.pinch(&words);
    assert_failed(&output, 1, &reported);
    assert!(
        !out(&output).contains("Function ran successfully"),
        "{}",
        out(&output)
    );
}
