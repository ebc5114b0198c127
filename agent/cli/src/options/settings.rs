//! What the options of every program say of its configuration and its output.

use std::path::{Component, Path, PathBuf};

use value::{Map, Value};

use super::{Flag, Parsed, Program, UsageError};
use crate::output::OutputFile;
use value::yaml::Yaml;

/// What a program of the master is told about its configuration and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The program: the Saltfile's options stand under its name.
    pub program: &'static str,
    /// `-c`, else `$SALT_CONFIG_DIR`, else `/etc/salt`; absolute.
    pub config_dir: PathBuf,
    /// Options that stand over the configuration, by the names they have there: also `batch`, `static`, `verbose` and all the
    /// others, which Salt reads from the configuration where the command line does not say them.
    pub overrides: Map,
    /// Where the output goes, if not to stdout.
    pub output_file: Option<OutputFile>,
}

impl Settings {
    /// Takes over what was given, without the groups of options that are the program's own business.
    pub(super) fn of(
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
        }
    }

    /// Takes in the options that a Saltfile has for the program; the command line stands over them.
    pub fn merge_saltfile(&mut self, saltfile: &Map) {
        merge_saltfile(&mut self.overrides, self.program, saltfile);
    }
}

/// The words of a call, with `--resume` as the argument that it stands for.
pub(super) fn call_words(parsed: &Parsed, words: &[String]) -> Vec<String> {
    let resume = parsed.has("resume").then(|| "resume=True".to_owned());
    words.iter().cloned().chain(resume).collect()
}

/// Options that say what to do, and not how.
const NOT_OVERRIDES: [&str; 11] = [
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
];

/// What every program can say of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The help.
    Help,
    /// The version.
    Version,
    /// The versions of all parts.
    VersionsReport,
}

/// Whether the program is to speak of itself.
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

/// What asks for a login is refused: the kernel says who is at the other end of the master's socket.
pub(super) fn no_login(parsed: &Parsed) -> Result<(), UsageError> {
    let asked = [("eauth", "--eauth"), ("mktoken", "--make-token")];
    match asked.into_iter().find(|(dest, _)| parsed.has(dest)) {
        Some((_, name)) => Err(UsageError {
            message: format!("{name}: there is no external authentication here"),
            hint: Some("run it as the user that the master runs as, or through sudo".into()),
        }),
        None => Ok(()),
    }
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

/// Names whose values are not read as YAML.
pub(super) fn no_parse(parsed: &Parsed) -> Vec<String> {
    parsed
        .text("no_parse")
        .map(|names| names.split(',').map(str::to_owned).collect())
        .unwrap_or_default()
}

/// `--state-verbose` takes a word and means a truth.
pub(super) fn state_verbose(parsed: &Parsed, overrides: &mut Map) {
    if let Some(truth) = parsed.text("state_verbose").and_then(truth) {
        overrides.insert("state_verbose", truth);
    }
}

/// `True` or `False`, in small letters too.
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

/// Where the Saltfile is: `--saltfile`, `$SALT_SALTFILE`, `./Saltfile` or `~/.salt/Saltfile`.
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

/// `os.path.abspath(os.path.expanduser(path))`.
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

/// Reads a Saltfile; what is no mapping has no options.
///
/// # Errors
/// When it cannot be read or is not YAML.
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
