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
        &[
            "salt",
            "*",
            "test.ping,state.apply",
            ",",
            "web",
            "tset=True",
        ],
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

#[test]
fn the_program_explains_its_commands() {
    let machine = Machine::new();
    let help = out(&machine.pinch(&["help"]));
    assert_eq!(help, out(&machine.pinch(&["--help"])));
    for command in [
        "init",
        "lint",
        "plan",
        "apply",
        "undo",
        "runs",
        "explain",
        "completion",
    ] {
        let line = help
            .lines()
            .find(|line| line.trim_start().starts_with(command));
        assert!(line.is_some(), "{command} in {help}");
        let own = out(&machine.pinch(&[command, "--help"]));
        assert!(own.starts_with(&format!("Usage: pinch {command}")), "{own}");
        assert_eq!(own, out(&machine.pinch(&["help", command])));
    }
    let applet = out(&machine.pinch(&["help", "salt-call"]));
    assert!(applet.starts_with("Usage: salt-call "), "{applet}");
    let version = out(&machine.pinch(&["version"]));
    assert_eq!(version, out(&machine.pinch(&["--version"])));
    assert!(version.starts_with("pinch "), "{version}");
}

#[test]
fn an_unknown_command_names_the_one_that_was_probably_meant() {
    let machine = Machine::new();
    for words in [&["aply", "plan.json"][..], &["help", "aply"]] {
        let output = machine.pinch(words);
        assert_failed(
            &output,
            64,
            &["unknown command 'aply'", "did you mean `pinch apply`?"],
        );
    }
    assert_failed(
        &machine.pinch(&[]),
        64,
        &["no command given", "`pinch --help`"],
    );
    assert_failed(
        &machine.pinch(&["frobnicate"]),
        64,
        &["unknown command 'frobnicate'"],
    );
    assert_failed(
        &machine.pinch(&["plan", "--pillar-rot=x"]),
        64,
        &["pinch plan: error: no such option"],
    );
}

#[test]
fn each_shell_accepts_the_completion_that_the_program_prints() {
    let machine = Machine::new();
    for (shell, option) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let output = machine.pinch(&["completion", shell]);
        let script = out(&output);
        assert!(
            output.status.success() && script.contains("salt-call"),
            "{script}"
        );
        machine.write("script", &script);
        let checked = Command::new(shell)
            .args([option, &machine.at("script")])
            .output();
        match checked {
            Ok(checked) => assert!(checked.status.success(), "{shell}: {}", err(&checked)),
            Err(error) => eprintln!("skipped: {shell}: {error}"),
        }
    }
    assert_failed(
        &machine.pinch(&["completion", "fsh"]),
        64,
        &["choose from bash, zsh, fish", "did you mean fish?"],
    );
    assert_failed(&machine.pinch(&["completion"]), 64, &["exactly one shell"]);
}

#[test]
fn last_and_the_beginning_of_a_job_id_name_a_run_in_every_command() {
    let machine = Machine::new();
    for _ in 0..2 {
        let output = machine.pinch(&["salt-call", "--local", "state.apply", "web"]);
        assert!(output.status.success(), "{}", err(&output));
    }
    let listed = out(&machine.pinch(&["runs", "list"]));
    let jids: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let [first, last] = jids[..] else {
        panic!("two runs: {listed}");
    };
    let beginning = (1..=first.len())
        .map(|end| &first[..end])
        .find(|beginning| !last.starts_with(beginning))
        .unwrap();
    for (word, jid) in [("last", last), (beginning, first)] {
        let shown = out(&machine.pinch(&["runs", "show", word]));
        assert!(shown.starts_with(jid), "{shown}");
        let made = machine.at("made");
        let explained = machine.pinch(&["explain", "run", word, &made, "-c", &machine.at("etc")]);
        assert!(explained.status.success(), "{}", err(&explained));
        let graph = out(&machine.pinch(&["graph", "--run", word, "--format", "svg"]));
        assert!(graph.contains(&format!("run {jid}")), "{graph}");
        let undo = machine.pinch(&["undo", "--dry-run", word]);
        assert!(
            [Some(0), Some(2)].contains(&undo.status.code()),
            "{}",
            err(&undo)
        );
    }
    let both = machine.pinch(&["runs", "show", &first[..4]]);
    assert_failed(&both, 1, &["2 recorded runs begin with"]);
    let none = machine.pinch(&["undo", "19990101"]);
    assert_failed(
        &none,
        1,
        &["no record of run 19990101", "the last recorded run is"],
    );
}

#[test]
fn lint_checks_one_file_and_refuses_a_tree_without_files() {
    let machine = Machine::new();
    machine.write("srv/top.sls", "base:\n  '*':\n    - one\n    - two\n");
    machine.write("srv/one.sls", "a:\n  file.mangaed: []\n");
    machine.write("srv/two.sls", "b:\n  file.touhc: []\n");
    let output = machine.pinch(&["lint", "srv/one.sls"]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("file.mangaed") && !text.contains("file.touhc"),
        "{text}"
    );
    assert!(
        text.contains("1 error and 0 warnings in 1 SLS file"),
        "{text}"
    );
    assert_failed(&machine.pinch(&["lint", "pillar"]), 1, &["no SLS files in"]);
    assert_failed(
        &machine.pinch(&["lint", "gone"]),
        64,
        &["gone is not a directory or an SLS file"],
    );
    machine.write(
        "srv/two.sls",
        "/tmp/x:\n  file.managed:\n    - mode: 0600\n",
    );
    let text = out(&machine.pinch(&["lint", "srv/two.sls"]));
    assert!(text.contains("put it in quotes: '0600'"), "{text}");
}

#[test]
fn the_doctor_accepts_a_machine_without_a_master() {
    let machine = Machine::new();
    let root = machine.at("");
    let config = format!(
        "id: here\ncachedir: {root}cache\npki_dir: {root}pki\nsock_dir: {root}sock\nfile_roots:\n  base: [{root}srv]\n"
    );
    machine.write("etc/minion", &config);
    let text = out(&machine.pinch(&["doctor"]));
    let line = text.lines().find(|line| line.contains("master"));
    assert!(
        line.is_some_and(|line| line.starts_with("ok") && line.contains("none configured")),
        "{text}"
    );
}

#[test]
fn init_writes_what_a_first_run_needs_and_replaces_nothing() {
    let machine = Machine::new();
    let dir = machine.at("a new one");
    let output = machine.pinch(&["init", &dir]);
    let text = out(&output);
    assert!(output.status.success(), "{}", err(&output));
    let next: Vec<&str> = text
        .lines()
        .skip_while(|line| *line != "Next:")
        .skip(1)
        .collect();
    assert_eq!(next.len(), 3, "{text}");
    let codes = [Some(2), Some(0), Some(1)];
    for (line, code) in next.iter().zip(codes) {
        let line = line.replace("pinch ", &format!("{} ", pinch_program().display()));
        let ran = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(
            ran.status.code(),
            code,
            "{line}: {}{}",
            out(&ran),
            err(&ran)
        );
        assert_eq!(ran.stderr.is_empty(), code != Some(1), "{}", err(&ran));
    }
    let made = fs::read_to_string(machine.at("a new one/hello.txt")).unwrap();
    assert_eq!(made, "Hello, world!\n");
    let lint = machine.pinch(&["lint", "--strict", "-c", &machine.at("a new one/etc")]);
    assert!(lint.status.success(), "{}", out(&lint));

    fs::remove_file(machine.at("a new one/salt/top.sls")).unwrap();
    machine.write("a new one/pillar/hello.sls", "mine: yes\n");
    let again = machine.pinch(&["init", &dir]);
    assert_failed(
        &again,
        73,
        &[
            "nothing was written, because these files exist",
            "pillar/hello.sls",
        ],
    );
    assert!(!machine.exists("a new one/salt/top.sls"));
}

#[test]
fn a_misspelt_outputter_or_mode_is_a_wrong_command_line() {
    let machine = Machine::new();
    for (option, hint) in [
        ("--out=jsn", "did you mean json?"),
        ("--state-output=trse", "did you mean terse?"),
    ] {
        let words = ["salt-call", "--local", option, "state.apply", "web"];
        assert_failed(&machine.pinch(&words), 64, &["invalid choice", hint]);
    }
    assert!(!machine.exists("made"));
    let quiet = machine.pinch(&["salt-call", "--local", "--out=quiet", "test.ping"]);
    // Salt prints it as `nested`, too.
    let printed = "local:\n    True";
    assert_eq!(
        (out(&quiet).trim(), quiet.status.code()),
        (printed, Some(0))
    );
    let words = [
        "salt-call",
        "--local",
        "--state-output=terse_id",
        "test.ping",
    ];
    assert!(machine.pinch(&words).status.success());
}

#[test]
fn a_target_that_is_not_well_formed_is_a_wrong_command_line() {
    let machine = Machine::new();
    let config = format!(
        "sock_dir: {}\nnodegroups:\n  web: 'web*'\n",
        machine.at("sock")
    );
    machine.write("etc/master", &config);
    for (words, parts) in [
        (
            &["-C", "web* adn db*"][..],
            &["did you mean 'and' instead of 'adn'?"][..],
        ),
        (&["-N", "wbe"], &["no group 'wbe'", "did you mean 'web'?"]),
        (&["-E", "web["], &["is not a regular expression"]),
    ] {
        let words = [&["salt"], words, &["test.ping"]].concat();
        assert_failed(&machine.pinch(&words), 64, parts);
    }
    let incomplete = machine.pinch(&["salt", "*"]);
    assert_failed(
        &incomplete,
        42,
        &["Incomplete options passed.", "Hint: name the minions"],
    );
    assert_eq!(out(&incomplete), "");
}

#[test]
fn a_missing_plan_gets_a_hint() {
    let machine = Machine::new();
    assert_failed(
        &machine.pinch(&["apply", "web.json"]),
        1,
        &[
            "web.json: No such file",
            "pinch plan -o FILE SLS writes a plan; pinch apply SLS needs none",
        ],
    );
}

#[test]
fn a_misspelt_lint_code_names_the_nearest_one() {
    let machine = Machine::new();
    assert_failed(
        &machine.pinch(&["explain", "E31"]),
        64,
        &["unknown lint code E31", "did you mean E"],
    );
    assert!(machine.pinch(&["explain", "E301"]).status.success());
}

#[test]
fn the_runs_of_this_machine_are_jobs_of_salt_call() {
    let machine = Machine::new();
    let call = |words: &[&str]| {
        let words = [&["salt-call", "--local", "--out=json"], words].concat();
        let output = machine.pinch(&words);
        assert!(output.status.success(), "{words:?}: {}", err(&output));
        let answer: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
        answer["local"].clone()
    };
    call(&["state.apply", "web"]);
    let jobs = call(&["jobs.list_jobs"]);
    let (jid, job) = jobs.as_object().unwrap().iter().next().unwrap();
    assert_eq!(
        (job["Function"].as_str(), job["Target"].as_str()),
        (Some("state.apply"), Some("here"))
    );
    let looked = call(&["jobs.lookup_jid", jid]);
    let tag = format!("file_|-{0}_|-{0}_|-touch", machine.at("made"));
    assert_eq!(looked["data"]["here"][&tag]["result"], true, "{looked}");
    assert_eq!(
        looked,
        call(&[
            "saltutil.runner",
            "jobs.lookup_jid",
            &format!("arg=['{jid}']")
        ])
    );
    assert!(call(&["jobs.last_run"]).to_string().contains(jid.as_str()));
}

#[test]
fn an_sls_that_is_written_as_a_path_gets_a_hint() {
    let machine = Machine::new();
    for name in ["web.sls", "srv/web.sls", "/srv/salt/web.sls"] {
        let output = machine.pinch(&["salt-call", "--local", "state.apply", name]);
        assert_failed(
            &output,
            1,
            &["write 'web': dots instead of slashes, and no .sls"],
        );
    }
}

#[test]
fn a_user_without_permission_is_pointed_to_root() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let machine = Machine::new();
    assert!(
        machine
            .pinch(&["salt-call", "--local", "state.apply", "web"])
            .status
            .success()
    );
    fs::set_permissions(
        machine.at(""),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let program = machine.at("pinch");
    // Another process copies it. If this one did, the children of its other threads would have the
    // file open for writing until they exec, and the kernel refuses to run such a file.
    let copied = Command::new("cp")
        .arg(pinch_program())
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    for words in ["runs list", "salt-call --local state.apply web"] {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", &program])
            .args(words.split(' '))
            .env("SALT_CONFIG_DIR", machine.at("etc"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_failed(&output, 1, &["ermission denied", "run as root"]);
    }
}
