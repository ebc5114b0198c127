//! The facts that a declaration states about a module and its functions: what the module needs,
//! what a call changes, how a change is undone.

use value::{Map, Value};

use crate::exec::Exec;
use crate::module::Error;

/// A program or folder without which a module is not available.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// A program in the `PATH`, or several separated by `|`, one of which suffices; or a folder.
    pub program: &'static str,
    /// The reason that Salt's `__virtual__` gives if it is missing.
    pub sentence: &'static str,
    /// Debian's package of the program: `None` if it has the name of the program, empty if Debian
    /// has none.
    pub package: Option<&'static str>,
}

impl Need {
    /// Returns Debian's package of the program, if Debian has one.
    #[must_use]
    pub fn package(&self) -> Option<&'static str> {
        let same = || (!self.program.contains(['|', '/'])).then_some(self.program);
        let package = self.package.or_else(same);
        package.filter(|package| !package.is_empty())
    }

    /// Names the program and its package: `the program crontab (Debian: cron)`.
    #[must_use]
    pub fn describe(&self) -> String {
        if self.program.starts_with('/') {
            return format!("the folder {}", self.program);
        }
        let program = self.program.replace('|', " or ");
        match self.package() {
            Some(package) => format!("the program {program} (Debian: {package})"),
            None => format!("the program {program}"),
        }
    }
}

/// The answer of a module's `virtual_` if this machine lacks the module, or one of its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The module, for this reason.
    Module(String),
    /// Only the function.
    Function,
}

/// Returns what is missing for a function of the module; `None` if nothing is.
pub type Virtual = fn(&Exec, &str) -> Option<Missing>;

/// Combines chunks of one module (Salt's `mod_aggregate`). Its arguments are the low data of the
/// chunk that runs, and of others that could run now. It returns the new low data of the chunk, and
/// a flag for each other chunk: true if the new low data includes it.
pub type Aggregate = fn(&Map, &[Map]) -> (Map, Vec<bool>);

/// The functions that read and restore one kind of resource that is not a file.
#[derive(Debug)]
pub struct Inverse {
    /// The name of the kind, in records and messages.
    pub word: &'static str,
    /// True if files that its states write are part of it.
    pub owns_files: bool,
    /// Returns the present state of a resource.
    pub now: fn(&Exec, &str) -> Result<Value, Error>,
    /// Checks that the given state can be restored, as far as that is known before.
    pub can: fn(&Exec, &str, &Value) -> Result<(), Error>,
    /// Restores the given state.
    pub make: fn(&Exec, &str, &Value) -> Result<(), Error>,
}

impl Inverse {
    /// Accepts every state, for [`Inverse::can`].
    ///
    /// # Errors
    /// Never.
    pub fn always(_: &Exec, _: &str, _: &Value) -> Result<(), Error> {
        Ok(())
    }
}

/// The facts about one function.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The part of the machine that a state changes.
    pub effects: Effects,
    /// True if an execution function only uses its arguments, the tree and the configuration, so
    /// that `pinch lint` calls it.
    pub pure: bool,
    /// The outputter that the return needs.
    pub outputter: Option<&'static str>,
    /// True if a runner is an orchestration: the record of a run contains its steps.
    pub orchestrates: bool,
    /// True if a call of a runner that was cut short is finished by the same call, so that a resumed
    /// run makes it without a question.
    pub continues: bool,
    /// The kind of orchestration step that a state function is.
    pub step: Option<StepKind>,
    /// True if a state function passes on any other keyword argument, so that an unknown one is not
    /// a mistake.
    pub free_arguments: bool,
    /// Keyword arguments that a state function accepts and that no function declares.
    pub also_takes: &'static [&'static str],
}

impl Facts {
    /// The facts about a function that declares none.
    pub const UNKNOWN: Self = Self {
        effects: Effects::Unknown,
        pure: false,
        outputter: None,
        orchestrates: false,
        continues: false,
        step: None,
        free_arguments: false,
        also_takes: &[],
    };
}

/// The part of the machine that a state changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// Nothing.
    None,
    /// Only files. These arguments name them; if there are none, the state chooses the files.
    Files(&'static [&'static str]),
    /// Only folders with everything below them, which these arguments name.
    Trees(&'static [&'static str]),
    /// The folder `name`, with everything below it if one of these arguments is true.
    TreeIf(&'static [&'static str]),
    /// Files and more. `files_suffice` is true if restoring the files and the noted resources
    /// restores the rest too.
    MoreThanFiles {
        /// Whether nothing else needs to be restored.
        files_suffice: bool,
    },
    /// Unknown, because the state runs something that its arguments name.
    Command,
    /// The changes of the states of an inner run.
    Runs,
    /// Unknown, or a part of the machine that paths do not describe.
    Unknown,
}

impl Effects {
    /// Returns whether the state changes only files.
    #[must_use]
    pub const fn is_files(self) -> bool {
        matches!(self, Self::Files(_) | Self::Trees(_) | Self::TreeIf(_))
    }

    /// Returns whether an undo restores the files that the state has changed.
    #[must_use]
    pub const fn has_files(self) -> bool {
        self.is_files() || matches!(self, Self::MoreThanFiles { .. })
    }
}

/// The kind of an orchestration step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Runs states on minions.
    State,
    /// Calls an execution function on minions.
    Function,
    /// Calls a runner.
    Runner,
    /// Calls several runners.
    ParallelRunners,
    /// Calls a wheel function.
    Wheel,
    /// Waits for events.
    WaitForEvent,
}
