//! Reads the options of `salt-call`.

use std::io;
use std::path::PathBuf;

use value::Map;

use super::settings::{self, About, absolute};
use super::{Parsed, Program, SALT_CALL, UsageError};
use crate::output::OutputFile;

/// The request of a command line of `salt-call`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To print the help.
    Help,
    /// To print the version.
    Version,
    /// To print the versions of all parts.
    VersionsReport,
    /// To print the grains.
    Grains,
    /// To print the documentation of the functions whose names begin with the text; empty means
    /// all.
    Doc(String),
    /// To call a function.
    Call {
        /// The function.
        fun: String,
        /// The arguments, not yet parsed.
        words: Vec<String>,
    },
}

/// A parsed command line of `salt-call`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltCall {
    /// The request.
    pub request: Action,
    /// The absolute path of `-c`, else of `$SALT_CONFIG_DIR`, else `/etc/salt`.
    pub config_dir: PathBuf,
    /// The options that override the configuration, by their names in it.
    pub overrides: Map,
    /// The file for the output; `None` is stdout.
    pub output_file: Option<OutputFile>,
    /// The names of arguments whose values are not read as YAML.
    pub no_parse: Vec<String>,
    /// Warnings to print before the call.
    pub warnings: Vec<String>,
    /// True to use the files and the pillar of the last highstate instead of the master.
    pub cached: bool,
}

impl SaltCall {
    /// Parses a command line without the program's name. If it has `--args-stdin`, calls `stdin`
    /// for more words.
    ///
    /// # Errors
    /// If an option is wrong, or the command line requests nothing.
    pub fn parse(
        args: Vec<String>,
        stdin: impl FnOnce() -> io::Result<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        Self::parse_as(&SALT_CALL, args, stdin, env)
    }

    /// Like [`SaltCall::parse`], for a program that accepts the options of `salt-call` and more.
    ///
    /// # Errors
    /// If an option is wrong, or the command line requests nothing.
    pub fn parse_as(
        program: &Program,
        args: Vec<String>,
        stdin: impl FnOnce() -> io::Result<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = program.parse_with_stdin(args, stdin)?;
        Ok(Self {
            request: action(program, &parsed)?,
            config_dir: settings::config_dir(&parsed, &env),
            overrides: overrides(&parsed, &env),
            output_file: settings::output_file(&parsed),
            no_parse: settings::no_parse(&parsed),
            warnings: warnings(&parsed),
            cached: parsed.has("cached"),
        })
    }

    /// Adds the options that a Saltfile has under `salt-call`. The command line takes precedence.
    pub fn merge_saltfile(&mut self, saltfile: &Map) {
        settings::merge_saltfile(&mut self.overrides, SALT_CALL.name, saltfile);
    }
}

fn action(program: &Program, parsed: &Parsed) -> Result<Action, UsageError> {
    if let Some(about) = settings::about(parsed) {
        return Ok(match about {
            About::Help => Action::Help,
            About::Version => Action::Version,
            About::VersionsReport => Action::VersionsReport,
        });
    }
    let doc = parsed.has("doc");
    match (parsed.has("grains_run"), parsed.words.as_slice()) {
        (true, []) => Ok(Action::Grains),
        (true, _) => Err(UsageError::new("-g/--grains does not accept any arguments")),
        (false, []) if doc => Ok(Action::Doc(String::new())),
        (false, [name]) if doc => Ok(Action::Doc(name.clone())),
        (false, _) if doc => Err(UsageError::new(
            "You can only get documentation for one method at one time",
        )),
        (false, []) => Err(UsageError {
            message: match program.name {
                "salt-call" => "Requires function, --grains or --doc".into(),
                _ => format!("Requires arguments: {}", program.usage),
            },
            hint: Some("--help lists the options".into()),
        }),
        (false, [fun, words @ ..]) => Ok(Action::Call {
            fun: fun.clone(),
            words: settings::call_words(parsed, words),
        }),
    }
}

/// Options whose values are not copied into the configuration unchanged.
const NOT_OVERRIDES: [&str; 16] = [
    "cached",
    "help",
    "resume",
    "version",
    "versions_report",
    "config_dir",
    "grains_run",
    "doc",
    "args_stdin",
    "output_file_append",
    "file_root",
    "pillar_root",
    "states_dir",
    "module_dirs",
    "roster",
    "roster_file",
];

fn overrides(parsed: &Parsed, env: &impl Fn(&str) -> Option<String>) -> Map {
    let mut map = Map::new();
    for (flag, value) in &parsed.given {
        if !NOT_OVERRIDES.contains(&flag.dest) {
            map.insert(flag.dest, value.clone());
        }
    }
    settings::state_verbose(parsed, &mut map);
    if parsed.has("local") {
        map.insert("file_client", "local");
    }
    let folders = |dest: &str| -> Vec<String> {
        parsed
            .all(dest)
            .map(|dir| absolute(dir, env).to_string_lossy().into_owned())
            .collect()
    };
    for (dest, key) in [("file_root", "file_roots"), ("pillar_root", "pillar_roots")] {
        if parsed.has(dest) {
            map.insert(key, Map::new().with("base", folders(dest)));
        }
    }
    if parsed.has("states_dir") {
        map.insert("states_dirs", folders("states_dir"));
    }
    if parsed.has("module_dirs") {
        let split = parsed.all("module_dirs").flat_map(|dirs| dirs.split(','));
        map.insert(
            "module_dirs",
            split
                .map(|dir| absolute(dir, env).to_string_lossy().into_owned())
                .collect::<Vec<_>>(),
        );
    }
    rosters(parsed, &mut map, env);
    if let Some(dir) = parsed.text("cachedir") {
        map.insert(
            "cachedir",
            absolute(dir, env).to_string_lossy().into_owned(),
        );
    }
    map
}

/// Adds the options for hosts that the steps of an orchestration reach.
fn rosters(parsed: &Parsed, map: &mut Map, env: &impl Fn(&str) -> Option<String>) {
    if let Some(file) = parsed.text("roster_file") {
        let file = absolute(file, env).to_string_lossy().into_owned();
        map.insert("roster_file", file);
        map.insert("masterless_roster", "flat");
    }
    if let Some(kind) = parsed.text("roster") {
        map.insert("masterless_roster", kind);
    }
}

/// Returns a warning if local roots were given without `--local`. Like Salt, the program ignores
/// them when it uses a master.
fn warnings(parsed: &Parsed) -> Vec<String> {
    let given = [
        ("file_root", "--file-root"),
        ("pillar_root", "--pillar-root"),
        ("states_dir", "--states-dir"),
    ];
    let ignored: Vec<&str> = given
        .into_iter()
        .filter(|(dest, _)| parsed.has(dest))
        .map(|(_, name)| name)
        .collect();
    if parsed.has("local") || ignored.is_empty() {
        return Vec::new();
    }
    let verb = if ignored.len() == 1 { "is" } else { "are" };
    vec![format!(
        "Warning: {} {verb} ignored because --local was not specified; the remote file client retrieves these from the master. Re-run with --local to use the local override.",
        ignored.join(", ")
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::Value;

    fn read(line: &str) -> Result<SaltCall, UsageError> {
        let words = line
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        SaltCall::parse(words, || Ok("--out=json\nfrom stdin\n".into()), |_| None)
    }

    fn call(line: &str) -> (Vec<String>, String) {
        let parsed = read(line).unwrap();
        match parsed.request {
            Action::Call { fun, words } => (
                std::iter::once(fun).chain(words).collect(),
                Value::Map(parsed.overrides).to_text(),
            ),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_stand_anywhere_and_in_every_spelling() {
        let cases = [
            (
                "--local -linfo state.apply a",
                "{'local': True, 'log_level': 'info', 'file_client': 'local'}",
            ),
            (
                "state.apply --local a -l info",
                "{'local': True, 'log_level': 'info', 'file_client': 'local'}",
            ),
            (
                "state.apply a --output json --loc --log-level=info",
                "{'output': 'json', 'local': True, 'log_level': 'info', 'file_client': 'local'}",
            ),
            ("--out=yaml --out=json state.apply a", "{'output': 'json'}"),
            (
                "state.apply a --state_output=terse --no-colour --out-indent=-1",
                "{'state_output': 'terse', 'no_color': True, 'output_indent': -1}",
            ),
            (
                "-t5 state.apply a --state-verbose=False",
                "{'auth_timeout': 5, 'state_verbose': False}",
            ),
            (
                "state.apply --file-root=/srv/a/../b --file-root /c a",
                "{'file_roots': {'base': ['/srv/b', '/c']}}",
            ),
        ];
        for (line, overrides) in cases {
            assert_eq!(
                call(line),
                (
                    vec!["state.apply".to_owned(), "a".into()],
                    overrides.to_owned()
                ),
                "{line}"
            );
        }
    }

    #[test]
    fn words_after_two_dashes_and_negative_numbers_are_arguments() {
        assert_eq!(
            call("test.arg -5 -1.5 -- --x -l").0,
            ["test.arg", "-5", "-1.5", "--x", "-l"]
        );
        assert_eq!(call("--args-stdin test.arg").0, ["test.arg", "from stdin"]);
    }

    #[test]
    fn wrong_options_are_refused_in_optparse_words() {
        let cases = [
            ("--nosuch a", "no such option: --nosuch", None),
            (
                "--pilar-root=x a",
                "no such option: --pilar-root",
                Some("did you mean --pillar-root?"),
            ),
            (
                "-local a",
                "option -l: invalid choice: 'ocal' (choose from 'all', 'debug', 'error', 'critical', 'garbage', 'info', 'profile', 'quiet', 'trace', 'warning')",
                Some("did you mean --local?"),
            ),
            (
                "--state a",
                "ambiguous option: --state (--state-output, --state-verbose, --state_output, --state_verbose, --states-dir?)",
                None,
            ),
            (
                "--out-indent=x a",
                "option --out-indent: invalid integer value: 'x'",
                None,
            ),
            ("--local=1 a", "--local option does not take a value", None),
            ("a --out", "--out option requires 1 argument", None),
            ("-gx", "no such option: -x", None),
            ("-g a", "-g/--grains does not accept any arguments", None),
            (
                "-d a b",
                "You can only get documentation for one method at one time",
                None,
            ),
            (
                "--local",
                "Requires function, --grains or --doc",
                Some("--help lists the options"),
            ),
        ];
        for (line, message, hint) in cases {
            let error = read(line).unwrap_err();
            assert_eq!(
                (error.message.as_str(), error.hint.as_deref()),
                (message, hint),
                "{line}"
            );
        }
    }

    #[test]
    fn the_help_lists_every_option_once() {
        let help = SALT_CALL.help();
        for flag in SALT_CALL.flags() {
            for long in flag.long {
                assert!(help.contains(&format!("--{long}")), "{long}");
            }
        }
        assert!(help.lines().all(|line| line.len() <= 120), "{help}");
        assert!(help.contains("  -c DIR, --config-dir=DIR        read the configuration from DIR (default /etc/salt)\n"), "{help}");
        assert_eq!(
            read("--version nonsense --nosuch").unwrap().request,
            Action::Version
        );
    }
}
