//! The options of the daemons.

use super::settings::{self, About, Settings};
use super::{Program, UsageError};

/// What a daemon is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonAsked {
    /// Something about itself.
    About(About),
    /// To run; in the background, if told so.
    Run {
        /// `-d`.
        background: bool,
    },
}

/// A command line of `salt-master` or `salt-minion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// What is asked for.
    pub asked: DaemonAsked,
    /// Its configuration.
    pub settings: Settings,
}

impl Daemon {
    /// Reads a command line without the program's name; other words are passed over, as Salt does.
    ///
    /// # Errors
    /// When an option is wrong.
    pub fn parse(
        program: &'static Program,
        args: Vec<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = program.parse(args)?;
        let asked = settings::about(&parsed).map_or_else(
            || DaemonAsked::Run {
                background: parsed.has("daemon"),
            },
            DaemonAsked::About,
        );
        Ok(Self {
            asked,
            settings: Settings::of(program, &parsed, &[], &env),
        })
    }
}
