//! Compares our `salt`, `salt-run` and `salt-key` with recorded output of Salt's. Each case of
//! `tests/corpus/master` has the command line, the requests to the master with its answers, both
//! output streams and the exit code.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use cli::config;
use cli::options::{Salt, SaltKey, SaltRun, Settings};
use render::yaml::SaltYaml;
use value::pyre::{Flags, Regex, Template};
use value::{Map, Value, json};
use wire::Request;

use crate::commands::local_client::{AskError, Each, Master};
use crate::commands::{salt, salt_key, salt_run};
use cli::output::Screen;

/// The time that a request waits for those before it. Several threads send requests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A master that gives recorded answers, in the recorded order of the requests.
struct Recorded {
    asks: Mutex<VecDeque<Value>>,
    asked: Condvar,
    wrong: Mutex<Vec<String>>,
}

type Asks<'a> = MutexGuard<'a, VecDeque<Value>>;

/// Returns whether a request comes before others that were recorded before it.
fn is_early(asks: &VecDeque<Value>, asked: &Map) -> bool {
    let tgt = asked.get("tgt");
    let is_it = |ask: &Value| ask.get("tgt") == tgt;
    !asks.front().is_some_and(is_it) && asks.iter().any(is_it)
}

impl Recorded {
    fn from_case(case: &Value) -> Self {
        let asks = case.get("asks").and_then(Value::as_list).unwrap();
        Self {
            asks: Mutex::new(asks.iter().cloned().collect()),
            asked: Condvar::new(),
            wrong: Mutex::new(Vec::new()),
        }
    }

    /// Returns the next recorded answer, and checks the request against the recorded one. No other
    /// request is answered until the caller drops the returned lock.
    fn next(&self, asked: &Map) -> (Value, Asks<'_>) {
        let asks = self.asks.lock().unwrap();
        let waited = self
            .asked
            .wait_timeout_while(asks, PATIENCE, |asks| is_early(asks, asked));
        let mut asks = waited.unwrap().0;
        let ask = asks.pop_front();
        let ask = ask.unwrap_or_else(|| panic!("not asked in Salt: {asked:?}"));
        for (key, value) in asked.iter() {
            let recorded = ask.as_map().unwrap().get_value(key);
            if recorded.is_some_and(|recorded| recorded != value) {
                let (key, value, recorded) = (key.to_text(), value.to_text(), recorded.unwrap());
                let line = format!("asked {key} {value}, recorded {}", recorded.to_text());
                self.wrong.lock().unwrap().push(line);
            }
        }
        self.asked.notify_all();
        (ask, asks)
    }

    fn wheel(&self, fun: &str, kwargs: Map) -> Result<Value, AskError> {
        let asked = Map::new()
            .with("kind", "wheel")
            .with("fun", fun)
            .with("kwargs", kwargs);
        Ok(self.next(&asked).0.get("done").cloned().unwrap())
    }

    /// Returns how the requests differ from the recorded ones. Every recorded request must have
    /// been sent.
    fn wrong(self) -> Vec<String> {
        let mut wrong = self.wrong.into_inner().unwrap();
        let left = self.asks.into_inner().unwrap();
        wrong.extend(
            left.iter()
                .map(|ask| format!("never asked: {}", ask.to_text())),
        );
        wrong
    }
}

impl Master for Recorded {
    fn ask(&self, request: Request, each: &mut Each<'_>) -> Result<Value, AskError> {
        let asked = match request {
            Request::Publish(job) => Map::new()
                .with("kind", "publish")
                .with("tgt", job.tgt)
                .with("tgt_type", job.tgt_type)
                .with("fun", job.fun)
                .with("arg", job.arg)
                .with("options", job.options),
            Request::Runner(runner) => Map::new()
                .with("kind", "runner")
                .with("fun", runner.fun)
                .with("arg", runner.arg),
            Request::Listen(_) => Map::new().with("kind", "listen"),
            other => panic!("{other:?}"),
        };
        let (answer, _others_wait) = self.next(&asked);
        let parts = answer.get("parts").and_then(Value::as_list);
        for part in parts.unwrap_or_default() {
            if each(part.clone()) == ControlFlow::Break(()) {
                return Ok(Value::Null);
            }
        }
        match answer.get("error") {
            Some(error) => Err(AskError::Failed {
                reason: error.get("reason").unwrap().to_text(),
                text: error.get("text").unwrap().to_text(),
            }),
            None => Ok(answer.get("done").cloned().unwrap_or_default()),
        }
    }
}

fn options(settings: &Settings) -> Map {
    let nowhere = Path::new("/nonexistent");
    let overrides = settings.overrides.clone();
    config::load_master(nowhere, settings.program, overrides, &SaltYaml)
        .unwrap()
        .opts
}

/// Runs a case. Returns both streams, the exit code, and how its requests differ.
fn played(case: &Value) -> (String, String, u8, Vec<String>) {
    let words = case.get("words").and_then(Value::as_list).unwrap();
    let mut words: VecDeque<String> = words.iter().map(Value::to_text).collect();
    let program = words.pop_front().unwrap();
    let words: Vec<String> = words.into();
    let master = Recorded::from_case(case);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut play = |opts: &Map, run: &dyn Fn(&mut Screen<'_>) -> u8| {
        run(&mut Screen::new(&mut out, &mut err, opts, None, &SaltYaml).unwrap())
    };
    let code = match program.as_str() {
        "salt" => {
            let line = Salt::parse(words, || Ok(String::new()), |_| None).unwrap();
            let opts = options(&line.settings);
            play(&opts, &|screen| salt::run(&line, &opts, &master, screen))
        }
        "salt-run" => {
            let line = SaltRun::parse(words, || Ok(String::new()), |_| None).unwrap();
            let opts = options(&line.settings);
            let runners = crate::runners::REGISTRY.runners;
            play(&opts, &|screen| {
                salt_run::run(&line, &opts, runners, &master, screen)
            })
        }
        _ => {
            let line = SaltKey::parse(words, |_| None).unwrap();
            let opts = options(&line.settings);
            let stdin = case.get("stdin").map(Value::to_text).unwrap_or_default();
            let wheel = |fun: &str, kwargs: Map| master.wheel(fun, kwargs);
            play(&opts, &|screen| {
                let mut lines = stdin.lines().map(str::to_owned);
                salt_key::run(&line, &opts, &wheel, &mut || lines.next(), screen)
            })
        }
    };
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(out), text(err), code, master.wrong())
}

/// Replaces the parts that differ between runs.
fn masked(text: &str) -> String {
    const MASKS: [(&str, &str); 5] = [
        (r"\d\d:\d\d:\d\d\.\d{6}", "TIME"),
        (r"(Duration:|Total run time:) +[\d.]+ m?s", r"\1 T"),
        (r"\b20\d{18}\b", "JID"),
        (r#"((?:duration|'duration'|"duration"):\s+)[\d.]+"#, r"\1 T"),
        (r"pid:\s+\d+", "pid: N"),
    ];
    static COMPILED: LazyLock<Vec<(Regex, Template)>> = LazyLock::new(|| {
        let compiled = MASKS.iter().map(|(pattern, by)| {
            let regex = Regex::new(pattern, Flags::default()).unwrap();
            let template = regex.template(by).unwrap();
            (regex, template)
        });
        compiled.collect()
    });
    let text = text.to_owned();
    COMPILED.iter().fold(text, |text, (regex, template)| {
        regex.subn(template, &text, 0).unwrap().0
    })
}

fn first_difference(what: &str, got: &str, want: &str) -> Option<String> {
    let (got, want) = (masked(got), masked(want));
    if got == want {
        return None;
    }
    let line = got
        .lines()
        .zip(want.lines())
        .find(|(got, want)| got != want);
    let line = line.unwrap_or(("(all lines are the same)", ""));
    Some(format!(
        "{what}: got {:?}, Salt has {:?} ({} and {} bytes)",
        line.0,
        line.1,
        got.len(),
        want.len()
    ))
}

fn compared(group: &str) {
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/corpus/master"
    ));
    let text = std::fs::read_to_string(folder.join(format!("{group}.json"))).unwrap();
    let cases = json::read(&text).unwrap();
    let mut bad = Vec::new();
    for (name, case) in cases.as_map().unwrap().iter() {
        let (out, err, code, mut wrong) = played(case);
        let recorded = |key: &str| case.get(key).map(Value::to_text).unwrap_or_default();
        wrong.extend(first_difference("stdout", &out, &recorded("out")));
        wrong.extend(first_difference("stderr", &err, &recorded("err")));
        wrong.extend(first_difference(
            "exit code",
            &code.to_string(),
            &recorded("rc"),
        ));
        bad.extend(
            wrong
                .iter()
                .map(|line| format!("{}: {line}", name.to_text())),
        );
    }
    assert!(
        bad.is_empty(),
        "{} differences:\n{}",
        bad.len(),
        bad.join("\n")
    );
}

#[test]
fn salt_key_prints_as_salts() {
    compared("keys");
}

#[test]
fn salt_prints_as_salts() {
    compared("salt");
}

#[test]
fn states_of_minions_print_as_salts() {
    compared("states");
}

#[test]
fn runners_print_as_salts() {
    compared("run");
}

#[test]
fn orchestrations_print_as_salts() {
    compared("orchestrate");
}

#[test]
fn a_function_that_is_not_available_is_compared_with_the_known_ones() {
    let functions = crate::runners::REGISTRY.functions;
    let near = |text: &str| super::near_function(functions, text);
    let hint = near("'test.pign' is not available.");
    assert_eq!(hint.as_deref(), Some("did you mean 'test.ping'?"));
    assert_eq!(near("'own.function' is not available."), None);
    assert_eq!(near("pong"), None);
    let runners = crate::runners::REGISTRY.runners;
    let hint = super::near_function(runners, "'manage.upp' is not available.");
    assert_eq!(hint.as_deref(), Some("did you mean 'manage.up'?"));
}
