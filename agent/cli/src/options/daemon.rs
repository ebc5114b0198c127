//! Reads the options of the daemons.

use super::settings::{self, About, Settings};
use super::{Program, UsageError};

/// The request of a daemon's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonOptions {
    /// To print the help or the version.
    About(About),
    /// To run the daemon.
    Run {
        /// True for `-d`: in the background.
        background: bool,
    },
}

/// The first word of a daemon that `-d` has started in the background. The other words are the
/// user's own, and `-d` among them no longer counts.
pub(crate) const STARTED: &str = "--started-in-background";

/// A parsed command line of `salt-master` or `salt-minion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// The request.
    pub request: DaemonOptions,
    /// The settings of the configuration.
    pub settings: Settings,
}

impl Daemon {
    /// Reads a command line without the program's name. Like Salt, it ignores words that are not
    /// options.
    ///
    /// # Errors
    /// If an option is wrong.
    pub fn parse(
        program: &'static Program,
        mut args: Vec<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let is_started = args.first().is_some_and(|word| word == STARTED);
        if is_started {
            args.remove(0);
        }
        let parsed = program.parse(args)?;
        let request = settings::about(&parsed).map_or_else(
            || DaemonOptions::Run {
                background: parsed.has("daemon") && !is_started,
            },
            DaemonOptions::About,
        );
        Ok(Self {
            request,
            settings: Settings::from_parsed(program, &parsed, &[], &env),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SALT_MINION;

    #[test]
    fn what_is_started_in_the_background_stays_however_it_was_told() {
        for words in ["-d", "--daemon", "--daem", "-dc /", "-l info -d"] {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let started = [vec![STARTED.to_owned()], words.clone()].concat();
            for (words, background) in [(words, true), (started, false)] {
                let daemon = Daemon::parse(&SALT_MINION, words.clone(), |_| None).unwrap();
                assert_eq!(
                    daemon.request,
                    DaemonOptions::Run { background },
                    "{words:?}"
                );
            }
        }
    }
}
