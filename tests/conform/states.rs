//! Small state trees: `states/MODULE.FUNCTION/CASE.toml` defines what to run, and `CASE.json` next
//! to it records what Salt did.
//!
//! The SLS is applied in one scratch folder with each of the `runs` in turn, by default `test=True`
//! and twice without. The test compares the exit code, the return, and everything below `@TMP@`
//! after each run. A case that `differences.toml` lists is also compared with `CASE.ours.json`, the
//! answer that Pinch intends to give. `PINCH_RECORD=1` writes this file, and a developer reads it
//! before committing it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tests::answer::{same_value, settled, without_times};
use tests::corpus::{Case, Outcome, check_all};
use tests::folder::{Entry, contents, watched};
use tests::program::{boot, prepare, salt_call, salt_call_in_throwaway};
use tests::scratch::{Scratch, corpus};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tree {
    sls: String,
    /// An SLS for every minion.
    pillar: Option<String>,
    /// Needs root: other users' files.
    #[serde(default)]
    root: bool,
    /// Runs in a throw-away copy of this machine's root; needs root.
    #[serde(default)]
    throwaway: bool,
    /// The init system that runs there.
    boot: Option<String>,
    /// The paths in the throw-away root that are compared if a run has changed them.
    #[serde(default)]
    watch: Vec<String>,
    /// Lines for the minion's configuration.
    #[serde(default)]
    config: String,
    /// Files below `salt://`.
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    setup: Vec<Entry>,
    /// A shell script that runs in the scratch folder before the first run.
    prepare: Option<String>,
    #[serde(default = "three_runs")]
    runs: Vec<String>,
}

fn three_runs() -> Vec<String> {
    ["test=True", "", ""].map(str::to_owned).into()
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Run {
    rc: i32,
    ret: Value,
    /// The folder afterwards; absent when the run left it as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Value>,
}

/// A callback that receives the number, the words and the outcome of each run.
type Look<'a> = &'a mut dyn FnMut(usize, &str, Run) -> Result<(), String>;

struct State {
    name: String,
    path: PathBuf,
}

#[test]
fn states() {
    check_all("states", &cases());
}

fn cases() -> Vec<State> {
    let folders = paths(&corpus().join("states"));
    let folders = folders.iter().filter(|folder| folder.is_dir());
    let mut cases: Vec<State> = folders.flat_map(|f| paths(f)).filter_map(case).collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn case(path: PathBuf) -> Option<State> {
    let name = path
        .strip_prefix(corpus())
        .unwrap()
        .with_extension("")
        .display()
        .to_string();
    path.extension()
        .is_some_and(|e| e == "toml")
        .then_some(State { name, path })
}

impl Case for State {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn check(&self) -> Result<Outcome, String> {
        self.is_as("json")
    }

    fn check_ours(&self) -> Result<(), String> {
        if std::env::var_os("PINCH_RECORD").is_some() {
            self.record()?;
        }
        self.is_as("ours.json").map(drop)
    }
}

impl State {
    fn read(&self, extension: &str) -> String {
        std::fs::read_to_string(self.path.with_extension(extension)).unwrap_or_default()
    }

    /// Compares each run with the one in the case's file that has this extension.
    fn is_as(&self, extension: &str) -> Result<Outcome, String> {
        let recorded: Vec<Run> = serde_json::from_str(&self.read(extension))
            .map_err(|e| format!("CASE.{extension}: {e}"))?;
        let mut before = &Value::Null;
        self.each_run(&mut |number, words, run| {
            let at = |why: String| format!("run {} ({words}): {why}", number + 1);
            let want = recorded
                .get(number)
                .ok_or_else(|| at("this run is not recorded".to_owned()))?;
            before = want.tree.as_ref().unwrap_or(before);
            run.is_as(want, before).map_err(at)
        })
    }

    fn record(&self) -> Result<(), String> {
        let (mut runs, mut before) = (Vec::new(), None);
        let outcome = self.each_run(&mut |_, _, mut run| {
            if run.tree == before {
                run.tree = None;
            } else {
                before = run.tree.clone();
            }
            runs.push(run);
            Ok(())
        })?;
        if let Outcome::NotRun(reason) = outcome {
            return Err(format!("cannot record: {reason}"));
        }
        let mut text = Vec::new();
        let pretty = serde_json::ser::PrettyFormatter::with_indent(b" ");
        runs.serialize(&mut serde_json::Serializer::with_formatter(
            &mut text, pretty,
        ))
        .unwrap();
        text.push(b'\n');
        std::fs::write(self.path.with_extension("ours.json"), text).map_err(|e| e.to_string())
    }

    fn each_run(&self, look: Look<'_>) -> Result<Outcome, String> {
        let mut tree: Tree = toml::from_str(&self.read("toml")).map_err(|e| e.to_string())?;
        tree.throwaway |= tree.boot.is_some();
        if (tree.root || tree.throwaway) && !rustix::process::geteuid().is_root() {
            return Ok(Outcome::NotRun("no root"));
        }
        let scratch = tree.scratch();
        if let Some(init) = &tree.boot
            && !boot(scratch.path(), init)?
        {
            return Ok(Outcome::NotRun("no cgroups"));
        }
        if let Some(script) = &tree.prepare {
            prepare(scratch.path(), &scratch.filled(script), tree.throwaway)?;
        }
        for (number, words) in tree.runs.iter().enumerate() {
            look(number, words, tree.run(&scratch, words)?)?;
        }
        Ok(Outcome::Agrees)
    }
}

impl Tree {
    fn scratch(&self) -> Scratch {
        let scratch = Scratch::new();
        scratch.write("srv/salt/case.sls", &self.sls);
        scratch.write("etc/minion.d/case.conf", &self.config);
        if let Some(pillar) = &self.pillar {
            scratch.write("srv/pillar/top.sls", "base:\n  '*':\n    - data\n");
            scratch.write("srv/pillar/data.sls", pillar);
        }
        for (path, text) in &self.files {
            scratch.write(format!("srv/salt/{path}"), text);
        }
        self.setup.iter().for_each(|entry| entry.make(&scratch));
        scratch
    }
}

impl Tree {
    fn run(&self, scratch: &Scratch, words: &str) -> Result<Run, String> {
        let mut all = vec![
            "--out=json".to_owned(),
            "state.apply".to_owned(),
            "case".to_owned(),
        ];
        all.extend(words.split_whitespace().map(str::to_owned));
        let answer = if self.throwaway {
            salt_call_in_throwaway(scratch.path(), &all)?
        } else {
            salt_call(scratch.path(), &all)?
        };
        let got: Value =
            serde_json::from_str(&answer.out).map_err(|_| format!("not JSON: {:?}", answer.out))?;
        let mut found = contents(scratch, &scratch.tmp());
        if let (Some(found), Value::Object(watched)) =
            (found.as_object_mut(), watched(scratch, &self.watch))
        {
            found.extend(watched);
        }
        Ok(Run {
            rc: answer.rc.ok_or("a signal ended the program")?,
            ret: settled(&got["local"], &|text| without_times(&scratch.masked(text))),
            tree: Some(found),
        })
    }
}

impl Run {
    fn is_as(&self, want: &Self, tree: &Value) -> Result<(), String> {
        same_value(&settled(&want.ret, &without_times), &self.ret, "ret")?;
        same_value(tree, self.tree.as_ref().unwrap_or(&Value::Null), "tree")?;
        if self.rc == want.rc {
            return Ok(());
        }
        Err(format!("exit code {} / {}", want.rc, self.rc))
    }
}
