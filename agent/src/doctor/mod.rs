//! `pinch doctor`: checks whether this machine has everything that a run needs. It changes nothing,
//! and every check has a deadline.

mod machine;
mod salt;

use std::path::PathBuf;
use std::process::ExitCode;

use cli::binary;
use cli::config::Loaded;
use cli::failure::{Exit, Failure};
use cli::options::{DOCTOR, Parsed};
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value};

use crate::setup;

/// The version of the format of `--out=json`.
const VERSION: i64 = 1;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Ok,
    Warning,
    Problem,
}

impl Level {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    level: Level,
    topic: &'static str,
    what: String,
    /// The advice on how to fix it.
    todo: Option<String>,
}

/// The results of the checks of one topic.
struct Lines {
    topic: &'static str,
    all: Vec<Line>,
}

impl Lines {
    fn put(&mut self, level: Level, what: impl Into<String>, todo: Option<String>) {
        self.all.push(Line {
            level,
            topic: self.topic,
            what: what.into(),
            todo,
        });
    }

    fn ok(&mut self, what: impl Into<String>) {
        self.put(Level::Ok, what, None);
    }

    fn warning(&mut self, what: impl Into<String>, todo: impl Into<String>) {
        self.put(Level::Warning, what, Some(todo.into()));
    }

    fn problem(&mut self, what: impl Into<String>, todo: impl Into<String>) {
        self.put(Level::Problem, what, Some(todo.into()));
    }
}

/// The input of the checks.
struct Look {
    opts: Opts,
    config_dir: PathBuf,
    loaded: Loaded,
}

/// A function that checks one topic.
type Check = fn(&Look, &mut Lines);

const CHECKS: [(&str, Check); 9] = [
    ("configuration", salt::configuration),
    ("clock", machine::clock),
    ("disk", machine::disk),
    ("permissions", machine::permissions),
    ("states", salt::roots),
    ("master", salt::master),
    ("python", salt::python),
    ("locks", machine::locks),
    ("services", salt::services),
];

/// Runs `pinch doctor` with the arguments `words`.
///
/// # Errors
/// If the command line is wrong.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&DOCTOR, words, report)
}

fn report(parsed: &Parsed) -> Result<ExitCode, Failure> {
    if !parsed.words.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            "doctor takes no arguments, only options",
        ));
    }
    let lines = looked(parsed);
    binary::put(&match parsed.text("format") {
        Some("json") => as_json(&lines),
        _ => as_text(&lines),
    });
    let failed = lines.iter().any(|line| line.level == Level::Problem);
    Ok(if failed { Exit::Generic } else { Exit::Ok }.into())
}

/// Returns the results of all checks. If the configuration cannot be read, that problem is the only
/// result, because all other checks depend on it.
fn looked(parsed: &Parsed) -> Vec<Line> {
    let loaded = match setup::loaded(parsed, false) {
        Ok(loaded) => loaded,
        Err(failure) => {
            let topic = "configuration";
            let mut lines = Lines {
                topic,
                all: Vec::new(),
            };
            let hints = failure.hints.join("; ");
            let todo = match hints.is_empty() {
                true => "fix it: nothing can run until then".to_owned(),
                false => hints,
            };
            lines.problem(failure.error.to_string(), todo);
            return lines.all;
        }
    };
    let look = Look {
        opts: Opts::new(loaded.opts.clone()),
        config_dir: setup::config_dir(parsed),
        loaded,
    };
    let lines = CHECKS.iter().flat_map(|(topic, check)| {
        let mut lines = Lines {
            topic,
            all: Vec::new(),
        };
        check(&look, &mut lines);
        lines.all
    });
    lines.collect()
}

fn count(lines: &[Line], level: Level) -> usize {
    lines.iter().filter(|line| line.level == level).count()
}

fn as_text(lines: &[Line]) -> String {
    let mut out = String::new();
    for line in lines {
        let (level, topic) = (line.level.word(), line.topic);
        let what = line
            .what
            .trim_end()
            .replace('\n', "\n                         ");
        out.push_str(&format!("{level:<9}{topic:<16}{what}\n"));
        if let Some(todo) = &line.todo {
            out.push_str(&format!("{:25}-> {todo}\n", ""));
        }
    }
    let (problems, warnings) = (count(lines, Level::Problem), count(lines, Level::Warning));
    out.push_str(&format!("{problems} problems, {warnings} warnings\n"));
    out
}

fn as_json(lines: &[Line]) -> String {
    let line = |line: &Line| {
        Map::new()
            .with("level", line.level.word())
            .with("topic", line.topic)
            .with("what", line.what.as_str())
            .with("todo", line.todo.clone())
            .into()
    };
    let problems = i64::try_from(count(lines, Level::Problem)).unwrap_or(i64::MAX);
    let warnings = i64::try_from(count(lines, Level::Warning)).unwrap_or(i64::MAX);
    let all = Map::new()
        .with("version", VERSION)
        .with("problems", problems)
        .with("warnings", warnings)
        .with("lines", Value::list(lines.iter().map(line)));
    let layout = Layout {
        indent: Some(4),
        ..Layout::default()
    };
    format!("{}\n", json::write(&all.into(), layout))
}
