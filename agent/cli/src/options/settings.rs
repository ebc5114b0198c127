//! Reads the options that every program has for its configuration and its output.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use value::{Map, Value};

use super::{Flag, Parsed, Program, UsageError};
use crate::output::OutputFile;
use value::yaml::Yaml;

/// The settings of a program of the master for its configuration and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name of the program. In a Saltfile, its options are under this name.
    pub program: &'static str,
    /// The absolute path of `-c`, else of `$SALT_CONFIG_DIR`, else `/etc/salt`.
    pub config_dir: PathBuf,
    /// The options that override the configuration, by their names in it. They include `batch`,
    /// `static`, `verbose` and all others that Salt reads from the configuration if the command
    /// line does not set them.
    pub overrides: Map,
    /// The file for the output; `None` is stdout.
    pub output_file: Option<OutputFile>,
    /// The login.
    pub login: LoginOptions,
}

/// The options of a login with external authentication.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LoginOptions {
    /// The source that knows the user; `None` without a login.
    pub eauth: Option<String>,
    /// True to make a token and store it in a file.
    pub make_token: bool,
    /// The user's name.
    pub username: Option<String>,
    /// The password.
    pub password: Option<String>,
}

/// Shows the source only, because the rest is a secret.
impl fmt::Debug for LoginOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.eauth)
    }
}

impl LoginOptions {
    fn from_parsed(parsed: &Parsed) -> Self {
        let text = |dest: &str| parsed.text(dest).map(str::to_owned);
        Self {
            eauth: text("eauth").filter(|eauth| !eauth.is_empty()),
            make_token: parsed.has("mktoken"),
            username: text("username"),
            password: text("password"),
        }
    }
}

impl Settings {
    /// Reads the settings from a parsed command line, without the groups of options that the
    /// program handles itself.
    pub(super) fn from_parsed(
        program: &Program,
        parsed: &Parsed,
        own: &[&[Flag]],
        env: &impl Fn(&str) -> Option<String>,
    ) -> Self {
        let is_own = |dest: &str| own.iter().copied().flatten().any(|flag| flag.dest == dest);
        let mut overrides: Map = parsed
            .given
            .iter()
            .filter(|(flag, _)| !NOT_OVERRIDES.contains(&flag.dest) && !is_own(flag.dest))
            .map(|(flag, value)| (flag.dest, value.clone()))
            .collect();
        state_verbose(parsed, &mut overrides);
        Self {
            program: program.name,
            config_dir: config_dir(parsed, env),
            overrides,
            output_file: output_file(parsed),
            login: LoginOptions::from_parsed(parsed),
        }
    }

    /// Adds the options that a Saltfile has for the program. The command line takes precedence.
    pub fn merge_saltfile(&mut self, saltfile: &Map) {
        merge_saltfile(&mut self.overrides, self.program, saltfile);
    }
}

/// Returns the words of a call, with `--resume` replaced by the argument `resume=True`.
pub(super) fn call_words(parsed: &Parsed, words: &[String]) -> Vec<String> {
    let resume = parsed.has("resume").then(|| "resume=True".to_owned());
    words.iter().cloned().chain(resume).collect()
}

/// Options that say what to do and not how, so they do not override the configuration.
const NOT_OVERRIDES: [&str; 15] = [
    "help",
    "resume",
    "version",
    "versions_report",
    "config_dir",
    "doc",
    "args_stdin",
    "no_parse",
    "output_file_append",
    "jid",
    "hard_crash",
    "eauth",
    "mktoken",
    "username",
    "password",
];

/// The information about itself that every program can print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The help.
    Help,
    /// The version.
    Version,
    /// The versions of all parts.
    VersionsReport,
}

/// Returns the information that the command line requests, if any.
pub(super) fn about(parsed: &Parsed) -> Option<About> {
    [
        ("help", About::Help),
        ("version", About::Version),
        ("versions_report", About::VersionsReport),
    ]
    .into_iter()
    .find(|(dest, _)| parsed.has(dest))
    .map(|(_, about)| about)
}

pub(super) fn config_dir(parsed: &Parsed, env: &impl Fn(&str) -> Option<String>) -> PathBuf {
    let given = parsed.text("config_dir").map(str::to_owned);
    let named = given
        .or_else(|| env("SALT_CONFIG_DIR"))
        .filter(|dir| !dir.is_empty());
    absolute(&named.unwrap_or_else(|| "/etc/salt".into()), env)
}

pub(super) fn output_file(parsed: &Parsed) -> Option<OutputFile> {
    parsed.text("output_file").map(|path| OutputFile {
        path: path.into(),
        append: parsed.has("output_file_append"),
    })
}

/// Returns the names of arguments whose values are not read as YAML.
pub(super) fn no_parse(parsed: &Parsed) -> Vec<String> {
    parsed
        .text("no_parse")
        .map(|names| names.split(',').map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Converts the text of `--state-verbose` to a Boolean.
pub(super) fn state_verbose(parsed: &Parsed, overrides: &mut Map) {
    if let Some(truth) = parsed.text("state_verbose").and_then(truth) {
        overrides.insert("state_verbose", truth);
    }
}

/// Parses `True` or `False`, in any case.
pub(super) fn truth(word: &str) -> Option<bool> {
    word.to_lowercase().parse().ok()
}

pub(super) fn merge_saltfile(overrides: &mut Map, program: &str, saltfile: &Map) {
    let Some(options) = saltfile.get(program).and_then(Value::as_map) else {
        return;
    };
    for (key, value) in options.iter() {
        overrides.entry(key.clone(), || value.clone());
    }
}

/// Returns the path of the Saltfile: `--saltfile`, `$SALT_SALTFILE`, `./Saltfile` or
/// `~/.salt/Saltfile`.
#[must_use]
pub fn saltfile_path(overrides: &Map, env: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = overrides
        .get("saltfile")
        .and_then(Value::as_str)
        .map(str::to_owned)
        .or_else(|| env("SALT_SALTFILE"));
    let home = env("HOME").map(|home| Path::new(&home).join(".salt/Saltfile"));
    match named {
        Some(path) => Some(path.into()),
        None => std::iter::once(PathBuf::from("Saltfile"))
            .chain(home)
            .find(|path| path.is_file()),
    }
}

/// Returns `os.path.abspath(os.path.expanduser(path))`.
pub(crate) fn absolute(path: &str, env: &impl Fn(&str) -> Option<String>) -> PathBuf {
    let expanded = match (path.strip_prefix('~'), env("HOME")) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => home + rest,
        _ => path.to_owned(),
    };
    let mut out = PathBuf::new();
    for part in std::path::absolute(&expanded)
        .unwrap_or_else(|_| expanded.into())
        .components()
    {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Reads a Saltfile. One that is not a mapping has no options.
///
/// # Errors
/// If the file cannot be read or is not YAML.
pub fn read_saltfile(path: &Path, yaml: &dyn Yaml) -> Result<Map, UsageError> {
    let wrong = |why: String| UsageError::new(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|_| UsageError::new(format!("'{}' file does not exist.", path.display())))?;
    let value = yaml.load(&text).map_err(|fault| {
        wrong(format!(
            "line {}, column {}: {}",
            fault.line, fault.column, fault.message
        ))
    })?;
    Ok(value.as_map().cloned().unwrap_or_default())
}
