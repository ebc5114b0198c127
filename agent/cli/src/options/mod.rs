//! Options: one table for each program. The parser, the help and the completions are made from it.

mod backup_flags;
mod cloud_flags;
mod command_flags;
mod common;
mod daemon;
mod daemon_flags;
mod flags;
mod help;
mod key_flags;
mod lint_flags;
mod look_flags;
mod lsp_flags;
mod parse;
mod plan_flags;
mod runs_flags;
mod salt;
mod salt_call;
mod salt_cloud;
mod salt_cp;
mod salt_flags;
mod salt_key;
mod salt_run;
mod salt_ssh;
mod settings;
mod ssh_flags;
mod words;

pub use backup_flags::{BACKUP, RESTORE};
pub use cloud_flags::SALT_CLOUD;
pub use command_flags::{
    ANSWER, COMPLETION, EXPLAIN, HELP_COMMAND, INIT, INSTALL_LINKS, INSTALL_PYTHON, VERSION,
};
pub(crate) use common::{HELP, SHOW_VERSION, SHOW_VERSIONS};
pub(crate) use daemon::STARTED;
pub use daemon::{Daemon, DaemonOptions};
pub use daemon_flags::{SALT_MASTER, SALT_MINION};
pub use flags::SALT_CALL;
pub use key_flags::SALT_KEY;
pub use lint_flags::LINT;
pub use look_flags::{DOCTOR, GRAPH, MIGRATE};
pub use lsp_flags::{LSP, SCHEMA};
pub use parse::{Parsed, UsageError};
pub use plan_flags::{APPLY, PLAN};
pub use runs_flags::{RUNS, UNDO};
pub use salt::{Job, Salt, SaltOptions, Target};
pub use salt_call::{Action, SaltCall};
pub use salt_cloud::{CloudAction, CloudOptions, SaltCloud};
pub use salt_cp::{SaltCp, SaltCpOptions};
pub use salt_flags::{SALT, SALT_CP, SALT_RUN};
pub use salt_key::{KeyAction, KeyOptions, SaltKey};
pub use salt_run::{SaltRun, SaltRunOptions};
pub use salt_ssh::{SaltSsh, SaltSshOptions};
pub(crate) use settings::absolute;
pub use settings::{About, LoginOptions, Settings, read_saltfile, saltfile_path};
pub use ssh_flags::SALT_SSH;
pub use words::{Input, parse_input, yamlify_arg};

/// The kind of value that follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value: the option is a switch.
    Nothing,
    /// Any text. The word is the value's name in the help.
    Text(&'static str),
    /// Any text, and the option can be given more than once.
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
    /// The name of the option's value. It is the configuration option that it overrides.
    pub dest: &'static str,
    /// The option's letter.
    pub short: Option<char>,
    /// The option's long names. The help shows the first one first.
    pub long: &'static [&'static str],
    /// The kind of value that follows it.
    pub takes: Takes,
    /// A one-line description.
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

/// A program or command and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name of the program: `salt-call`, or `pinch plan` for a command.
    pub name: &'static str,
    /// The arguments after the name: `[options] <function> [arguments]`.
    pub usage: &'static str,
    /// A description of the program.
    pub about: &'static str,
    /// All options of the program, in groups.
    pub groups: &'static [Group],
}

impl Program {
    /// Returns the word that selects the program: its name, without that of the binary.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.name.rsplit(' ').next().unwrap_or(self.name)
    }

    /// Returns every option, in the order of the help.
    pub fn flags(&self) -> impl Iterator<Item = &'static Flag> + use<> {
        self.groups.iter().flat_map(|group| group.flags)
    }
}
