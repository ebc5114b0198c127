//! Orchestrations with `reboot: True`, `compensate:` and `finally: True` steps that are killed at
//! any moment and resumed, by hand or by the command that the unit runs at boot. In the end, each
//! step that succeeded has happened, no step that must never be repeated happened twice, each step
//! that succeeded before a failure was undone, and the steps that run at the end have run.
//!
//! `PINCH_REBOOT_SEEDS=FROM..TO` runs other seeds than the default ones.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tests::chance::{Chance, each, seeds};
use tests::program::pinch_program;
use tests::scratch::Scratch;

/// A step of the ordinary phase.
struct Step {
    id: String,
    never: bool,
    /// `None` if no step compensates this one, otherwise true if that step must never be repeated.
    undone: Option<bool>,
}

/// An orchestration, and how often the machine goes down in it.
struct Orchestration {
    sls: String,
    others: Vec<(String, String)>,
    steps: Vec<Step>,
    /// The words that a step logs in its last moment before the machine goes down.
    down: Vec<String>,
}

impl Orchestration {
    fn random(chance: &mut Chance) -> Self {
        let mut orch = Self {
            sls: String::new(),
            others: Vec::new(),
            steps: Vec::new(),
            down: Vec::new(),
        };
        let count = 4 + chance.below(5);
        let bad = chance.below(2 * count);
        for n in 0..count {
            orch.add(&format!("s{n}"), chance);
            if n == bad {
                orch.sls += "bad:\n  cmd.run:\n    - name: 'false'\n";
            }
        }
        orch.sls += "end:\n  cmd.run:\n    - name: echo end >> @TMP@/log\n    - finally: True\n";
        orch
    }

    fn add(&mut self, id: &str, chance: &mut Chance) {
        let counted = format!("echo {id} >> @TMP@/log");
        let never = chance.comes(30);
        let mut body = match chance.below(6) {
            0 => self.goes_down(id),
            1 => format!(
                "salt.function:\n    - name: cmd.run\n    - tgt: '*'\n    - arg: ['{counted}']\n    - resume: redo\n"
            ),
            kind @ (2 | 3) => {
                let inner = self.goes_down(&format!("{id}down"));
                let text = format!(
                    "before:\n  cmd.run:\n    - name: echo {id}before >> @TMP@/log\ndown:\n  {inner}after:\n  cmd.run:\n    - name: {counted}\n    - require: [{{cmd: down}}]\n"
                );
                self.others.push((format!("srv/salt/{id}.sls"), text));
                match kind {
                    2 => format!("salt.state:\n    - tgt: '*'\n    - sls: {id}\n"),
                    _ => format!(
                        "salt.runner:\n    - name: state.orchestrate\n    - kwarg: {{mods: {id}}}\n"
                    ),
                }
            }
            _ => format!("cmd.run:\n    - name: {counted}\n"),
        };
        // A step that runs other steps is resumed inside, so it gets no `resume: never`.
        let never = never && body.starts_with("cmd") && !body.contains("reboot");
        if never {
            body += "    - resume: never\n";
        }
        let undone = chance.comes(50).then(|| chance.comes(50));
        self.sls += &format!("{id}:\n  {body}");
        if let Some(never) = undone {
            self.sls += &format!("    - compensate: un{id}\n");
            let undo = format!("un{id}:\n  cmd.run:\n    - name: echo un{id} >> @TMP@/log\n");
            self.sls += &undo;
            self.sls += if never { "    - resume: never\n" } else { "" };
        }
        self.steps.push(Step {
            id: id.to_owned(),
            never,
            undone,
        });
    }

    /// A state that logs a word and takes the machine down: this program is gone at once.
    fn goes_down(&mut self, word: &str) -> String {
        self.down.push(word.to_owned());
        format!(
            "cmd.run:\n    - name: echo {word} >> @TMP@/log; kill -9 $PPID; sleep 1\n    - reboot: 60\n"
        )
    }
}

/// A machine on which an orchestration runs.
struct Machine {
    scratch: Scratch,
    down: Vec<String>,
}

impl Machine {
    fn counts(&self) -> HashMap<String, u64> {
        let log = fs::read_to_string(self.scratch.tmp().join("log")).unwrap_or_default();
        let mut counts = HashMap::new();
        for word in log.lines() {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Runs the program once. Returns its exit code and output; no code if it was killed. The boot id is
    /// the number of times that the machine has gone down.
    fn ran(&self, words: &[&str], killed_after: Option<Duration>) -> (Option<i32>, String) {
        let counts = self.counts();
        let boots: u64 = self.down.iter().filter_map(|word| counts.get(word)).sum();
        let boot = self.scratch.path().join("boot_id");
        fs::write(&boot, format!("00000000-0000-4000-8000-{boots:012}\n")).unwrap();
        let out = self.scratch.path().join("stdout");
        let script = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\"";
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-euc", script, "sh"])
            .arg(boot)
            .arg(pinch_program())
            .args(words)
            .env("SALT_CONFIG_DIR", self.scratch.path().join("etc"))
            .stdin(Stdio::null())
            .stdout(fs::File::create(&out).unwrap())
            .stderr(fs::File::create(self.scratch.path().join("stderr")).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        if let Some(after) = killed_after {
            sleep(after);
            // It may have finished.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        }
        let status = child.wait().unwrap();
        (status.code(), fs::read_to_string(out).unwrap())
    }

    fn json(&self, words: &[&str]) -> Result<Value, String> {
        let (_, said) = self.ran(words, None);
        serde_json::from_str(&said).map_err(|error| format!("{words:?}: {error}: {said}"))
    }

    /// Returns the last run as `runs list` shows it, or `None` before there is one.
    fn listed(&self) -> Result<Option<Value>, String> {
        let all = self.json(&["runs", "list", "--out=json"])?;
        match all.as_array().map(Vec::as_slice) {
            Some([]) | None => Ok(None),
            Some([one]) => Ok(Some(one.clone())),
            Some(several) => Err(format!("expected one run, found {}", several.len())),
        }
    }

    /// Runs it until it finishes, and kills it a few times. Returns its returns and the number of
    /// interruptions.
    fn survived(&self, chance: &mut Chance, steps: u64) -> Result<(Value, u64), String> {
        let call = [
            "salt-call",
            "--local",
            "--out=json",
            "state.orchestrate",
            "orch",
        ];
        let mut said = String::new();
        for cuts in 0..60 {
            let listed = self.listed()?;
            let result = listed.as_ref().and_then(|run| run["result"].as_str());
            let resumed = [&call[..], &["resume=True"]].concat();
            let words = match result {
                None => call.to_vec(),
                Some("succeeded" | "failed") => {
                    let jid = listed.as_ref().and_then(|run| run["jid"].as_str()).unwrap();
                    let shown = self.json(&["runs", "show", jid, "--out=json"])?;
                    return Ok((shown, cuts));
                }
                Some("waits for a reboot") if chance.comes(70) => vec!["runs", "continue"],
                Some(_) => resumed,
            };
            let most = 40 * steps + 100;
            let after = (cuts < 4 && chance.comes(60)).then(|| chance.below(most));
            (_, said) = self.ran(&words, after.map(Duration::from_millis));
        }
        Err(format!("the run does not finish: {said}"))
    }
}

/// Returns a message if something happened less than `least` or more than `most` times.
fn wrong(word: &str, count: u64, least: u64, most: u64) -> Option<String> {
    (count < least || count > most)
        .then(|| format!("{word} happened {count} times, expected {least} to {most}"))
}

fn holds(seed: u64) -> Result<(), String> {
    let mut chance = Chance(seed);
    let orch = Orchestration::random(&mut chance);
    let machine = Machine {
        scratch: Scratch::new(),
        down: orch.down.clone(),
    };
    machine.scratch.write("srv/salt/orch.sls", &orch.sls);
    for (name, text) in &orch.others {
        machine.scratch.write(name, text);
    }
    let (shown, cuts) = machine.survived(&mut chance, orch.steps.len() as u64)?;
    let returns = returns(&shown).ok_or_else(|| shown.to_string())?;
    let counts = machine.counts();
    let count = |word: &str| counts.get(word).copied().unwrap_or(0);
    let ret = |id: &str| {
        returns
            .get(id)
            .ok_or_else(|| format!("{id} has no return: {shown}"))
    };
    let mut failed = returns.get("bad").is_some_and(|ret| ret["result"] == false);
    for step in &orch.steps {
        failed |= ret(&step.id)?["result"] == false;
    }
    let mut faults = vec![wrong("end", count("end"), 1, cuts + 1)];
    for step in &orch.steps {
        let own = ret(&step.id)?;
        let done = own["result"] == true;
        let most = if step.never { 1 } else { cuts + 1 };
        faults.push(wrong(&step.id, count(&step.id), u64::from(done), most));
        if !done && !step.never {
            faults.push(Some(format!("{} has failed: {own}", step.id)));
        }
        if let Some(never) = step.undone {
            let word = format!("un{}", step.id);
            // A step that was cut short and must never be repeated may have been killed at its start.
            let undone = failed && done;
            let (least, most) = match (undone, never) {
                (false, _) => (0, 0),
                (true, true) => (u64::from(ret(&word)?["result"] == true), 1),
                (true, false) => (1, cuts + 1),
            };
            faults.push(wrong(&word, count(&word), least, most));
        }
    }
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(format!("{}; {cuts} cuts", faults.join("; "))),
    }
}

/// The returns of a run by the ids of its steps.
fn returns(shown: &Value) -> Option<HashMap<String, Value>> {
    let shown = shown.get("local").unwrap_or(shown);
    let running = shown
        .get("data")?
        .as_object()?
        .values()
        .next()?
        .as_object()?;
    let by_id = |(tag, ret): (&String, &Value)| {
        let id = tag.split("_|-").nth(1)?;
        Some((id.to_owned(), ret.clone()))
    };
    running.iter().map(by_id).collect()
}

#[test]
fn reboots_and_compensations_survive_every_kill() {
    each(seeds("PINCH_REBOOT_SEEDS", 6), holds);
}
