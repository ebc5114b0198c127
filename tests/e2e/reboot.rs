//! Tests of a reboot in the middle of a run: the test kills the process group as a shutdown does,
//! changes the kernel's boot id, and runs the command of the boot unit, which continues the run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tests::program::pinch_program;

use crate::resume::Machine;

/// The maximum time to wait for an expected result.
const PATIENCE: Duration = Duration::from_secs(60);

/// The arguments in the unit's command.
pub(crate) fn unit() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/services/pinch-continue");
    let text = fs::read_to_string(folder.join("systemd.service")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/@PROGRAM@ "));
    line.unwrap().split(' ').map(str::to_owned).collect()
}

/// A machine with a boot id that the test can change.
struct Booted {
    machine: Machine,
    boots: u32,
}

impl Booted {
    fn with(files: &[(&str, &str)]) -> Self {
        let machine = Machine::with(files);
        let mut booted = Self { machine, boots: 0 };
        booted.boot();
        booted
    }

    fn boot_id(&self) -> PathBuf {
        self.machine.0.path().join("boot_id")
    }

    /// Changes the boot id.
    fn boot(&mut self) {
        self.boots += 1;
        let id = format!("00000000-0000-4000-8000-{:012}\n", self.boots);
        fs::write(self.boot_id(), id).unwrap();
    }

    /// Returns a command that runs the program in its own process group, in a mount namespace where
    /// the kernel reports the machine's boot id.
    fn command(&self, words: &[String]) -> Command {
        let script = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-euc", script, "sh"]);
        command.arg(self.boot_id()).arg(pinch_program()).args(words);
        let etc = self.machine.0.path().join("etc");
        let path = std::env::var("PATH").unwrap();
        let bin = self.machine.0.tmp().join("bin");
        command
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("SALT_CONFIG_DIR", etc)
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    fn run(&self, words: &str) -> Output {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        self.command(&words).output().unwrap()
    }

    /// Installs a stand-in for `shutdown` that only logs its arguments.
    fn shutdown_says(&self) {
        let scratch = &self.machine.0;
        let program = "#!/bin/sh\necho \"$*\" >> @TMP@/log\n";
        scratch.write("out/bin/shutdown", program);
        let shutdown = scratch.tmp().join("bin/shutdown");
        fs::set_permissions(&shutdown, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the command of the unit, and returns its exit code and output.
    fn goes_on(&self) -> (Option<i32>, String) {
        let output = self.command(&unit()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    /// Starts a run, and kills it as a shutdown would once its log ends with a word.
    fn taken_down(&self, words: &str, at: &str, how: Signal) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let out = fs::File::create(self.machine.0.path().join("first")).unwrap();
        let mut child = self
            .command(&words)
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        self.waits_until(&mut child, at);
        kill_process_group(Pid::from_child(&child), how).unwrap();
        let status = child.wait().unwrap();
        // Without a terminal, the signal ends the program.
        assert_eq!(status.signal(), Some(how.as_raw()), "{status:?}");
    }

    fn waits_until(&self, child: &mut Child, at: &str) {
        let log = self.machine.0.tmp().join("log");
        let start = Instant::now();
        while !fs::read_to_string(&log)
            .unwrap_or_default()
            .ends_with(&format!("{at}\n"))
        {
            let first = || fs::read_to_string(self.machine.0.path().join("first")).unwrap();
            assert!(child.try_wait().unwrap().is_none(), "{}", first());
            assert!(start.elapsed() < PATIENCE, "{}", first());
            sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        self.machine.log()
    }

    /// The record of the only run.
    fn listed(&self) -> Value {
        let output = self.run("runs list --out=json");
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
        all[0].clone()
    }
}

const ORCH: &str = "\
a:
  cmd.run:
    - name: echo a >> @TMP@/log
b:
  cmd.run:
    - name: echo down >> @TMP@/log
    - reboot: True
    - require: [{cmd: a}]
c:
  cmd.run:
    - name: echo {{ pillar.get('word', 'c') }} >> @TMP@/log
    - onchanges: [{cmd: b}]
d:
  salt.function:
    - name: cmd.run
    - tgt: '*'
    - arg: ['echo again >> @TMP@/log']
    - reboot: True
    - require: [{cmd: c}]
e:
  cmd.run:
    - name: echo e >> @TMP@/log
    - require: [{salt: d}]
";

#[test]
fn an_orchestration_goes_on_after_each_of_its_reboots() {
    let mut machine = Booted::with(&[("orch.sls", ORCH)]);
    machine.taken_down(
        "salt-call --local state.orchestrate orch pillar={'word':'red'}",
        "down",
        Signal::TERM,
    );
    assert_eq!(machine.listed()["result"], "waits for a reboot");
    // Starting the unit by hand has no effect.
    let (code, said) = machine.goes_on();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("skipped, still waits for a reboot"), "{said}");
    assert_eq!(machine.log(), "a1 down1");
    // The machine boots, continues the run, and goes down again within the unit's process.
    machine.boot();
    let words = unit().join(" ");
    machine.taken_down(&words, "again", Signal::KILL);
    assert_eq!(machine.log(), "a1 again1 down1 red1");
    machine.boot();
    let (code, said) = machine.goes_on();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("state.orchestrate orch: continuing after the reboot"),
        "{said}"
    );
    assert_eq!(machine.log(), "a1 again1 down1 e1 red1");
    let run = machine.listed();
    assert_eq!(
        (&run["result"], &run["states"]),
        (&"succeeded".into(), &5.into())
    );
    // At the next boot nothing remains to be done.
    machine.boot();
    assert_eq!(machine.goes_on(), (Some(0), String::new()));
    assert_eq!(machine.log(), "a1 again1 down1 e1 red1");
    let shown = machine.run(&format!(
        "runs show {} --out=json",
        run["jid"].as_str().unwrap()
    ));
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(
        shown.contains("The machine has rebooted; the run continued at"),
        "{shown}"
    );
}

#[test]
fn states_and_nested_orchestrations_go_on_too_and_a_failure_is_the_units() {
    let states = "\
a:
  cmd.run:
    - name: echo down >> @TMP@/log
    - reboot: True
b:
  cmd.run:
    - name: echo b >> @TMP@/log; false
";
    let outer = "\
in:
  salt.runner:
    - name: state.orchestrate
    - kwarg: {mods: s}
last:
  cmd.run:
    - name: echo last >> @TMP@/log
    - onfail: [{salt: in}]
";
    for (call, log) in [
        ("state.apply s", "b1 down1"),
        ("state.orchestrate outer", "b1 down1 last1"),
    ] {
        let mut machine = Booted::with(&[("s.sls", states), ("outer.sls", outer)]);
        machine.taken_down(&format!("salt-call --local {call}"), "down", Signal::TERM);
        machine.boot();
        let (code, said) = machine.goes_on();
        assert!(code.is_some_and(|code| code != 0), "{said}");
        assert_eq!(machine.log(), log, "{said}");
        assert_eq!(machine.listed()["result"], "failed");
    }
}

#[test]
fn what_steps_run_goes_on_behind_a_reboot_inside_it() {
    let orch = "\
first:
  salt.state:
    - tgt: '*'
    - sls: s
again:
  salt.function:
    - name: state.apply
    - tgt: '*'
    - arg: [t]
    - resume: never
    - require: [{salt: first}]
last:
  cmd.run:
    - name: echo last >> @TMP@/log
    - require: [{salt: again}]
";
    let inner = |word: &str, reboots: &str| {
        format!(
            "\
{word}a:
  cmd.run:
    - name: echo {word}a >> @TMP@/log
{word}b:
{reboots}    - require: [{{cmd: {word}a}}]
{word}c:
  cmd.run:
    - name: echo {word}c >> @TMP@/log
    - resume: never
    - onchanges: [{word}b]
"
        )
    };
    let marked = "  cmd.run:\n    - name: echo down >> @TMP@/log\n    - reboot: True\n";
    let called = "  module.run:\n    - name: system.reboot\n";
    let mut machine = Booted::with(&[
        ("orch.sls", orch),
        ("s.sls", &inner("s", marked)),
        ("t.sls", &inner("t", called)),
    ]);
    machine.shutdown_says();
    let call = "salt-call --local state.orchestrate orch";
    machine.taken_down(call, "down", Signal::TERM);
    assert_eq!(machine.log(), "down1 sa1");
    machine.boot();
    machine.taken_down(&unit().join(" "), "-r now", Signal::KILL);
    assert_eq!(machine.log(), "-r now1 down1 sa1 sc1 ta1");
    machine.boot();
    let (code, said) = machine.goes_on();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(machine.log(), "-r now1 down1 last1 sa1 sc1 ta1 tc1");
    assert_eq!(machine.listed()["result"], "succeeded");
    // A state run that is not a step of an orchestration has no separate record, so the machine
    // does not go down.
    let within = "m:\n  module.run:\n    - name: state.sls\n    - mods: s\n";
    machine.machine.0.write("srv/salt/within.sls", within);
    let refused = machine.machine.call("state.apply within");
    assert!(
        refused.rc != Some(0)
            && refused
                .out
                .contains("has a record from which it could be resumed"),
        "{}",
        refused.out
    );
    assert_eq!(machine.log(), "-r now1 down1 last1 sa2 sc1 ta1 tc1");
}

#[test]
fn a_run_that_was_given_secrets_says_why_it_does_not_go_on() {
    let mut machine = Booted::with(&[("orch.sls", ORCH)]);
    let etc = "etc/minion.d/secret.conf";
    machine.machine.0.write(etc, "secret_keys: ['*_token']\n");
    let given = "pillar={'api_token':'given-planted-word'}";
    let call = format!("salt-call --local state.orchestrate orch {given}");
    machine.taken_down(&call, "down", Signal::TERM);
    let first = fs::read_to_string(machine.machine.0.path().join("first")).unwrap();
    assert!(
        first.contains("pillar= contains secrets, which are not recorded"),
        "{first}"
    );
    machine.boot();
    let why = "pillar= contained secrets, which are not recorded: continue with salt-call state.orchestrate orch resume=";
    for _ in 0..2 {
        let (code, said) = machine.goes_on();
        assert!(code == Some(1) && said.contains(why), "{code:?} {said}");
    }
    assert_eq!(machine.log(), "a1 down1");
    let run = machine.listed();
    assert_eq!(run["result"], "cut short");
    let jid = run["jid"].as_str().unwrap();
    let shown = machine.run(&format!("runs show {jid}"));
    let shown = String::from_utf8(shown.stdout).unwrap();
    let told = format!("not continued after the reboot: {why}{jid}");
    assert!(
        shown.contains(&told) && !shown.contains("planted"),
        "{shown}"
    );
    // The same run continues when it is resumed by hand.
    let by_hand = format!("salt-call --local state.orchestrate orch resume=True {given}");
    machine.taken_down(&by_hand, "again", Signal::KILL);
    assert_eq!(machine.log(), "a1 again1 c1 down1");
}

#[test]
fn a_reboot_that_does_not_come_fails_the_step() {
    let orch = "\
a:
  cmd.run:
    - name: echo a >> @TMP@/log
    - reboot: 1
b:
  cmd.run:
    - name: echo b >> @TMP@/log
    - require: [{cmd: a}]
quiet:
  cmd.run:
    - name: echo quiet >> @TMP@/log
    - unless: 'true'
    - reboot: True
";
    let machine = Booted::with(&[
        ("orch.sls", orch),
        ("s.sls", "a:\n  test.nop:\n    - reboot: perhaps\n"),
    ]);
    let output = machine.run("salt-call --local --out=json state.orchestrate orch");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the machine has not gone down within 1 s"),
        "{said}"
    );
    assert_eq!(machine.log(), "a1");
    assert_eq!(machine.goes_on(), (Some(0), String::new()));
    let refused = machine.machine.call("state.apply s");
    assert!(
        refused.rc == Some(1) && refused.out.contains("reboot: perhaps is neither"),
        "{}",
        refused.out
    );
    // In test mode nothing goes down, and nothing waits.
    assert_eq!(
        machine.machine.call("state.orchestrate orch test=True").rc,
        Some(0)
    );
}

#[test]
fn a_step_that_calls_system_reboot_is_waited_for_by_itself() {
    let orch = "\
a:
  salt.function:
    - name: system.reboot
    - tgt: '*'
b:
  cmd.run:
    - name: echo b >> @TMP@/log
    - require: [{salt: a}]
";
    let mut machine = Booted::with(&[("orch.sls", orch)]);
    machine.shutdown_says();
    machine.taken_down(
        "salt-call --local state.orchestrate orch",
        "-r now",
        Signal::TERM,
    );
    machine.boot();
    let (code, said) = machine.goes_on();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(machine.log(), "-r now1 b1");
}
