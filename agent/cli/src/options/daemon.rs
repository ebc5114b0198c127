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

/// The first word of a daemon that `-d` has started already: the others are what its user wrote, however `-d` stands among them.
pub(crate) const STARTED: &str = "--started-in-background";

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
        mut args: Vec<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let is_started = args.first().is_some_and(|word| word == STARTED);
        if is_started {
            args.remove(0);
        }
        let parsed = program.parse(args)?;
        let asked = settings::about(&parsed).map_or_else(
            || DaemonAsked::Run {
                background: parsed.has("daemon") && !is_started,
            },
            DaemonAsked::About,
        );
        Ok(Self {
            asked,
            settings: Settings::of(program, &parsed, &[], &env),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::SALT_MINION;

    #[test]
    fn what_is_started_in_the_background_stays_however_it_was_told() {
        for words in ["-d", "--daemon", "--daem", "-dc /etc/salt", "-l info -d"] {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let started = [vec![STARTED.to_owned()], words.clone()].concat();
            for (words, background) in [(words, true), (started, false)] {
                let daemon = Daemon::parse(&SALT_MINION, words.clone(), |_| None).unwrap();
                assert_eq!(daemon.asked, DaemonAsked::Run { background }, "{words:?}");
            }
        }
    }
}
