//! Conversion of the arguments of `cmd.run` and similar functions to a [`Process`].

use state::module::Error;
use state::typed::Typed;
use value::log::{self, Level};
use value::{Map, Value};

use super::{Line, Process};

impl Process {
    /// Creates a command with Salt's options. Unknown names in `options` are ignored.
    ///
    /// # Errors
    /// When an option is invalid.
    pub fn with_options(command: &Value, options: &Map) -> Result<Self, Error> {
        let truth = |name, default| truth(options, name, default);
        let text = |name| given(options, name).map(Value::to_text);
        let bg = truth("bg", false);
        let mut process = Self {
            cwd: text("cwd").filter(|cwd| !cwd.is_empty()),
            stdin: text("stdin").map(|stdin| newlines(stdin, truth("stdin_raw_newlines", false))),
            runas: text("runas").filter(|user| !user.is_empty()),
            group: text("group").filter(|group| !group.is_empty()),
            env: env(options.get("env")),
            clean_env: truth("clean_env", false),
            prepend_path: text("prepend_path").filter(|path| !path.is_empty()),
            reset_system_locale: truth("reset_system_locale", true),
            umask: given(options, "umask").map(umask).transpose()?,
            timeout: given(options, "timeout").cloned(),
            bg,
            // Text that is shown on a terminal is returned unchanged.
            rstrip: truth("rstrip", true) && (bg || !truth("use_vt", false)),
            output_encoding: text("output_encoding"),
            output_loglevel: level(options.get("output_loglevel")),
            ignore_retcode: bg || truth("ignore_retcode", false),
            success_stdout: parts(options, "success_stdout"),
            success_stderr: parts(options, "success_stderr"),
            ..Self::of_line(line(command), truth("python_shell", false))
        };
        if let Some(shell) = text("shell").filter(|shell| !shell.is_empty()) {
            process.shell = shell;
        }
        if given(options, "success_retcodes").is_some() {
            process.success_retcodes = retcodes(options)?;
        }
        Ok(process)
    }
}

fn given<'a>(options: &'a Map, name: &str) -> Option<&'a Value> {
    options.get(name).filter(|value| !value.is_null())
}

fn truth(options: &Map, name: &str, default: bool) -> bool {
    given(options, name).map_or(default, |value| {
        bool::typed(value.clone()).unwrap_or(default)
    })
}

fn line(command: &Value) -> Line {
    match command.as_list() {
        Some(words) => Line::Words(words.iter().map(Value::to_text).collect()),
        None => Line::Text(command.to_text()),
    }
}

/// Replaces the two characters `\n`, the only form of a line break on a command line.
fn newlines(stdin: String, raw: bool) -> String {
    if raw {
        stdin
    } else {
        stdin.replace("\\n", "\n")
    }
}

/// Reads a dictionary, or a list of single-key dictionaries. A variable without a value is empty.
fn env(given: Option<&Value>) -> Map {
    let pairs = match given {
        Some(Value::Map(map)) => map.clone(),
        Some(Value::List(items)) => items.iter().flat_map(pairs).collect(),
        _ => Map::new(),
    };
    let text = |(key, value): (Value, Value)| {
        if value.is_null() {
            log::error(format_args!(
                "Environment variable '{}' passed without a value. Setting value to an empty string",
                key.to_text()
            ));
            return (key.to_text(), String::new());
        }
        (key.to_text(), value.to_text())
    };
    pairs.into_iter().map(text).collect()
}

fn pairs(item: &Value) -> Vec<(Value, Value)> {
    match item {
        Value::Map(map) => map.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        other => vec![(other.clone(), Value::Null)],
    }
}

fn umask(given: &Value) -> Result<u32, Error> {
    let text = given.to_text();
    let digits = text.trim_start_matches('0');
    if digits.is_empty() {
        return Err("Zero umask is not allowed.".into());
    }
    u32::from_str_radix(digits, 8).map_err(|_| Error::refused(format!("Invalid umask: '{text}'")))
}

/// Returns the level of a word; `None` for `quiet`.
pub(super) fn level(given: Option<&Value>) -> Option<Level> {
    let Some(given) = given else {
        return Some(Level::Debug);
    };
    match given.to_text().to_lowercase().as_str() {
        "quiet" => None,
        "all" | "garbage" | "trace" => Some(Level::Trace),
        "profile" | "debug" => Some(Level::Debug),
        "info" => Some(Level::Info),
        "warning" => Some(Level::Warning),
        "error" => Some(Level::Error),
        "critical" => Some(Level::Critical),
        other => {
            log::error(format_args!(
                "Invalid output_loglevel '{other}'. Valid levels are: warning, trace, quiet, profile, info, garbage, error, debug, critical, all. Falling back to 'info'."
            ));
            Some(Level::Info)
        }
    }
}

/// Reads a list, or a comma-separated text.
fn parts(options: &Map, name: &str) -> Vec<String> {
    match given(options, name) {
        None => Vec::new(),
        Some(Value::List(items)) => items.iter().map(Value::to_text).collect(),
        Some(other) => {
            let text = other.to_text();
            text.split(',').map(|part| part.trim().to_owned()).collect()
        }
    }
}

fn retcodes(options: &Map) -> Result<Vec<i64>, Error> {
    let codes = parts(options, "success_retcodes");
    let codes: Result<Vec<i64>, _> = codes.iter().map(|code| code.trim().parse()).collect();
    codes.map_err(|_| "success_retcodes must be a list of integers".into())
}
