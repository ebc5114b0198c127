//! Options: one table a program, from which the parser, the help and the completions come.

mod common;
mod daemon;
mod daemon_flags;
mod flags;
mod help;
mod key_flags;
mod lint_flags;
mod look_flags;
mod parse;
mod plan_flags;
mod runs_flags;
mod salt;
mod salt_call;
mod salt_flags;
mod salt_key;
mod salt_run;
mod settings;
mod words;

pub(crate) use daemon::STARTED;
pub use daemon::{Daemon, DaemonAsked};
pub use daemon_flags::{SALT_MASTER, SALT_MINION};
pub use flags::SALT_CALL;
pub use key_flags::SALT_KEY;
pub use lint_flags::LINT;
pub use look_flags::{DOCTOR, GRAPH, MIGRATE};
pub use parse::{Parsed, UsageError};
pub use plan_flags::{APPLY, PLAN};
pub use runs_flags::{RUNS, UNDO};
pub use salt::{Job, Salt, SaltAsked, Target};
pub use salt_call::{Asked, SaltCall};
pub use salt_flags::{SALT, SALT_RUN};
pub use salt_key::{KeyAction, KeyAsked, SaltKey};
pub use salt_run::{RunAsked, SaltRun};
pub(crate) use settings::absolute;
pub use settings::{About, Settings, read_saltfile, saltfile_path};
pub use words::{Input, parse_input, yamlify_arg};

/// What follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing: it is a switch.
    Nothing,
    /// Any text; the word is what the help calls it.
    Text(&'static str),
    /// Any text, and the option may be given more than once.
    Many(&'static str),
    /// A whole number.
    Number(&'static str),
    /// Any number.
    Float(&'static str),
    /// One of these words.
    Choice(&'static str, &'static [&'static str]),
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The name of what it sets: the key of the configuration that it overrides.
    pub dest: &'static str,
    /// Its letter.
    pub short: Option<char>,
    /// Its names, the first one being what the help shows first.
    pub long: &'static [&'static str],
    /// What follows it.
    pub takes: Takes,
    /// One line about it.
    pub help: &'static str,
}

/// Options under one heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The heading.
    pub title: &'static str,
    /// The options.
    pub flags: &'static [Flag],
}

/// A program by its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// What it is called.
    pub name: &'static str,
    /// What follows the name: `[options] <function> [arguments]`.
    pub usage: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// All its options.
    pub groups: &'static [Group],
}

impl Program {
    /// Every option, in the order of the help.
    pub fn flags(&self) -> impl Iterator<Item = &'static Flag> + use<> {
        self.groups.iter().flat_map(|group| group.flags)
    }
}
