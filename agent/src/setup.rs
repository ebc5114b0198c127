//! What the commands that look at this machine's states have in common: their words, the configuration, the context, the plan.

use std::path::PathBuf;
use std::process::ExitCode;

use cli::binary;
use cli::config::{self, Loaded};
use cli::failure::{Exit, Failure};
use cli::heap;
use cli::log::Logger;
use cli::options::{Parsed, Program};
use render::yaml::SaltYaml;
use state::compile::{self, Fault, Plan};
use state::exec::Exec;
use state::opts::Opts;
use value::Map;

use crate::call;

/// Runs a command with its words, or prints its help.
///
/// # Errors
/// When the words are wrong, and those of the command.
pub(crate) fn run(
    program: &Program,
    words: &[String],
    command: fn(&Parsed) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    heap::claim();
    let parsed = program.parse(words.to_vec());
    let parsed = parsed.map_err(|error| Failure::usage(program, error))?;
    if parsed.has("help") {
        return Ok(binary::put(&program.help()));
    }
    command(&parsed)
}

/// The configuration with what the words put over it.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn loaded(parsed: &Parsed, local: bool) -> Result<Loaded, Failure> {
    let mut over = Map::new();
    if local || parsed.has("local") {
        over.insert("file_client", "local");
    }
    for (word, key) in [("file_root", "file_roots"), ("pillar_root", "pillar_roots")] {
        let folders: Vec<String> = parsed.all(word).map(absolute).collect();
        if !folders.is_empty() {
            over.insert(key, Map::new().with("base", folders));
        }
    }
    let dir = config_dir(parsed);
    let loaded = config::load(&dir, over, &SaltYaml)?;
    config::obeyed(&loaded, &dir)?;
    Ok(loaded)
}

/// The folder of the configuration.
pub(crate) fn config_dir(parsed: &Parsed) -> PathBuf {
    let given = parsed.text("config_dir").map(str::to_owned);
    let given = given.or_else(|| std::env::var("SALT_CONFIG_DIR").ok());
    given.map_or_else(|| config::DEFAULT_DIR.into(), |dir| absolute(&dir).into())
}

/// The path of a folder from the root on.
pub(crate) fn absolute(folder: &str) -> String {
    let path = std::path::absolute(folder);
    path.map_or_else(|_| folder.to_owned(), |path| path.display().to_string())
}

/// The context of a look at states.
///
/// # Errors
/// When the configuration cannot be read, or a master that is asked does not answer.
pub(crate) fn context(parsed: &Parsed) -> Result<Exec, Failure> {
    let loaded = loaded(parsed, false)?;
    let _first = Logger::from_opts(&loaded.opts).install();
    let context = call::context(Opts::new(loaded.opts), true);
    let (cx, _) = context.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(cx)
}

/// How many SLS a title names.
const NAMED: usize = 4;

/// What a command is asked to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// What the top files name.
    Highstate,
    /// SLS.
    Sls(Vec<String>),
}

impl Asked {
    /// Of the words `highstate`, `orchestrate ORCH` or `SLS…`; none where there are none.
    pub(crate) fn of(words: &[String]) -> Option<Self> {
        let named = match words {
            [] => return None,
            [word] if word == "highstate" => return Some(Self::Highstate),
            [word, rest @ ..] if word == "orchestrate" || word == "orch" => rest,
            words => words,
        };
        let names = named.iter().flat_map(|word| word.split(','));
        let names: Vec<String> = names
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty())
            .collect();
        (!names.is_empty()).then_some(Self::Sls(names))
    }

    /// As a title says it.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Highstate => "highstate".to_owned(),
            Self::Sls(names) if names.len() > NAMED => {
                let first = names.get(..NAMED).unwrap_or_default().join(", ");
                format!("{first} and {} more", names.len() - NAMED)
            }
            Self::Sls(names) => names.join(", "),
        }
    }

    /// The plan of a run of it.
    ///
    /// # Errors
    /// When the pillar or the tree is wrong.
    pub(crate) fn plan(&self, cx: &Exec) -> Result<Plan, Failure> {
        let pillar =
            compile::pillar_faults(cx).map_err(|error| Failure::new(Exit::Generic, error))?;
        if !pillar.is_empty() {
            return Err(refused(&pillar));
        }
        let high = match self {
            Self::Highstate => compile::highstate(cx),
            Self::Sls(names) => compile::sls(cx, names, &cx.saltenv),
        };
        let plan = high.and_then(|high| high.plan(cx));
        plan.map_err(|faults| refused(&faults))
    }
}

/// All that is wrong, each with its place.
fn refused(faults: &[Fault]) -> Failure {
    let shown: Vec<String> = faults.iter().map(Fault::shown).collect();
    Failure::new(Exit::Generic, shown.join("\n"))
}
