//! The states that a command examines: their names on the command line, the context and the plan.

use cli::failure::{Exit, Failure};
use cli::log::Logger;
use cli::options::Parsed;
use state::compile::{self, Fault, Plan};
use state::exec::Exec;
use state::opts::Opts;

use crate::call;
use crate::setup::loaded;

/// Returns the context for a command that examines states.
///
/// # Errors
/// If the configuration cannot be read, or a configured master does not answer.
pub(crate) fn context(parsed: &Parsed) -> Result<Exec, Failure> {
    let loaded = loaded(parsed, false)?;
    let _first = Logger::from_opts(&loaded.opts).install();
    let context = call::context(Opts::new(loaded.opts), true);
    let (cx, _) = context.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(cx)
}

/// The maximum number of SLS names in a title.
const NAMED: usize = 4;

/// The states that a command examines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateSelection {
    /// The states of the top files.
    Highstate,
    /// The states of these SLS files.
    Sls(Vec<String>),
}

impl StateSelection {
    /// Reads `highstate`, `orchestrate ORCH` or `SLS…`. Returns `None` if there are no names.
    pub(crate) fn parse(words: &[String]) -> Option<Self> {
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

    /// Returns the title for the states.
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

    /// Returns the plan of a run of these states.
    ///
    /// # Errors
    /// If the pillar or the tree is wrong.
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

/// Returns all faults as one failure, each with its place.
fn refused(faults: &[Fault]) -> Failure {
    let shown: Vec<String> = faults.iter().map(Fault::to_text).collect();
    Failure::new(Exit::Generic, shown.join("\n"))
}
