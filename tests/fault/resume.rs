//! Orchestrations that are killed at any moment and resumed. In the end every step has happened, no
//! step that must never be repeated happened twice, and no file is torn.
//!
//! `PINCH_RESUME_SEEDS=FROM..TO` runs other seeds than the default ones.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tests::chance::{Chance, each, seeds};
use tests::program::program;
use tests::scratch::Scratch;

/// A step: the word that it adds to the log, and whether it must never be repeated.
struct Step {
    word: String,
    never: bool,
}

/// An orchestration of steps of every kind.
struct Orchestration {
    sls: String,
    others: Vec<(String, String)>,
    steps: Vec<Step>,
    files: usize,
}

impl Orchestration {
    fn random(chance: &mut Chance) -> Self {
        let mut orch = Self {
            sls: String::new(),
            others: Vec::new(),
            steps: Vec::new(),
            files: 0,
        };
        for n in 0..4 + chance.below(6) {
            let kind = chance.below(9);
            orch.add(&format!("s{n}"), kind);
        }
        orch
    }

    fn add(&mut self, id: &str, kind: u64) {
        let counted = format!("echo {id} >> @TMP@/log");
        let body = match kind {
            0 => format!("cmd.run:\n    - name: {counted}\n"),
            1 => format!("cmd.run:\n    - name: {counted}\n    - resume: never\n"),
            2 => format!("cmd.run:\n    - name: {counted}\n    - parallel: True\n"),
            3 => self.file(),
            4 => format!(
                "salt.function:\n    - name: cmd.run\n    - tgt: '*'\n    - arg: ['{counted}']\n"
            ),
            5 => format!(
                "salt.function:\n    - name: cmd.run\n    - tgt: '*'\n    - arg: ['{counted}']\n    - resume: never\n"
            ),
            6 => format!(
                "salt.runner:\n    - name: salt.cmd\n    - arg: [cmd.run, '{counted}']\n    - kwarg: {{python_shell: True}}\n"
            ),
            7 => {
                let file = self.file();
                self.other(
                    id,
                    &format!("f:\n  {file}c:\n  cmd.run:\n    - name: {counted}\n"),
                );
                format!("salt.state:\n    - tgt: '*'\n    - sls: {id}\n")
            }
            _ => {
                let inner = format!(
                    "i:\n  cmd.run:\n    - name: {counted}\n    - resume: never\nj:\n  salt.function:\n    - name: cmd.run\n    - tgt: '*'\n    - arg: ['echo {id}j >> @TMP@/log']\n"
                );
                self.other(id, &inner);
                self.steps.push(Step {
                    word: format!("{id}j"),
                    never: false,
                });
                format!(
                    "salt.runner:\n    - name: state.orchestrate\n    - kwarg: {{mods: {id}}}\n"
                )
            }
        };
        if kind != 3 {
            let never = matches!(kind, 1 | 5 | 8);
            self.steps.push(Step {
                word: id.to_owned(),
                never,
            });
        }
        self.sls += &format!("{id}:\n  {body}");
    }

    fn other(&mut self, id: &str, text: &str) {
        self.others
            .push((format!("srv/salt/{id}.sls"), text.to_owned()));
    }

    fn file(&mut self) -> String {
        let n = self.files;
        self.files += 1;
        format!(
            "file.managed:\n    - name: @TMP@/f{n}\n    - contents: {}\n",
            contents(n)
        )
    }
}

fn contents(n: usize) -> String {
    format!("new {n} ").repeat(3000).trim_end().to_owned()
}

/// Runs the program once. Returns its exit code and output; no code if it was killed.
fn ran(scratch: &Scratch, words: &[&str], killed_after: Option<Duration>) -> (Option<i32>, String) {
    let out = scratch.path().join("stdout");
    let mut child = Command::new(&program()[0])
        .args(&program()[1..])
        .arg("-c")
        .arg(scratch.path().join("etc"))
        .args(["--local", "--out=json", "state.orchestrate", "orch"])
        .args(words)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(fs::File::create(scratch.path().join("stderr")).unwrap())
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

/// Returns the words that follow `order=` in the output.
fn redo_words(said: &str) -> Vec<String> {
    let parts = said.split("redo=").skip(1);
    let words = parts.map(|part| part.split_whitespace().next().unwrap().to_owned());
    words.collect()
}

/// Kills and resumes a run a few times, and lets it finish. Returns the skipped steps and the number
/// of kills.
fn survived(
    scratch: &Scratch,
    chance: &mut Chance,
    steps: usize,
) -> Result<(Vec<String>, u64), String> {
    let mut moment = |kills: u64| {
        let most = 30 * steps as u64 + 60;
        (kills < 3).then(|| Duration::from_millis(chance.below(most)))
    };
    let mut kills = 1;
    let (mut code, mut said) = ran(scratch, &[], moment(0));
    let mut skipped = Vec::new();
    for _ in 0..60 {
        if code.is_some() && said.contains("\"retcode\"") && said.contains("_|-") {
            return Ok((skipped, kills));
        }
        let fresh = said.contains("There is no run of");
        let steps = redo_words(&said);
        let mut words = vec![if fresh {
            "queue=False".to_owned()
        } else {
            "resume=True".to_owned()
        }];
        if said.contains("Nothing to resume") {
            return Ok((skipped, kills));
        }
        if !steps.is_empty() {
            let (redo, skip): (Vec<String>, Vec<String>) = steps.into_iter().enumerate().fold(
                (Vec::new(), Vec::new()),
                |(mut redo, mut skip), (n, step)| {
                    match n % 2 == usize::from(kills.is_multiple_of(2)) {
                        true => redo.push(step),
                        false => skip.push(step),
                    }
                    (redo, skip)
                },
            );
            for (order, steps) in [("redo", &redo), ("skip", &skip)] {
                if !steps.is_empty() {
                    words.push(format!("{order}={}", steps.join(",")));
                }
            }
            skipped.extend(skip);
        }
        let after = moment(kills);
        kills += u64::from(after.is_some());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        (code, said) = ran(scratch, &words, after);
    }
    Err(format!("the run does not finish: {said}"))
}

fn holds(seed: u64) -> Result<(), String> {
    let mut chance = Chance(seed);
    let orch = Orchestration::random(&mut chance);
    let scratch = Scratch::new();
    scratch.write("srv/salt/orch.sls", &orch.sls);
    for (name, text) in &orch.others {
        scratch.write(name, text);
    }
    let (skipped, kills) = survived(&scratch, &mut chance, orch.steps.len() + orch.files)?;
    let log = fs::read_to_string(scratch.tmp().join("log")).unwrap_or_default();
    let mut counts = HashMap::<&str, u64>::new();
    log.lines()
        .for_each(|word| *counts.entry(word).or_default() += 1);
    for step in &orch.steps {
        let count = counts.get(step.word.as_str()).copied().unwrap_or(0);
        // `j` is the id of the nested step that writes `s0j`.
        let skip = skipped
            .iter()
            .any(|id| *id == step.word || step.word.ends_with('j') && id == "j");
        if step.never && count > 1 {
            return Err(format!("{} happened {count} times", step.word));
        }
        if !step.never && !skip && count == 0 {
            return Err(format!("{} did not happen", step.word));
        }
        if count > kills + 1 {
            return Err(format!(
                "{} happened {count} times in {kills} kills",
                step.word
            ));
        }
    }
    for n in 0..orch.files {
        let text = fs::read_to_string(scratch.tmp().join(format!("f{n}")))
            .map_err(|error| format!("f{n}: {error}"))?;
        if text.trim_end() != contents(n) {
            return Err(format!("f{n} is torn: {} bytes", text.len()));
        }
    }
    Ok(())
}

#[test]
fn every_step_happens_although_the_orchestration_is_killed() {
    each(seeds("PINCH_RESUME_SEEDS", 8), holds);
}
