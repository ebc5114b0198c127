//! `--summary`: prints how many minions returned, failed or did not answer.

use super::answer::{Answer, NoReturn};
use cli::output::Screen;

/// The counts of a job's returns.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    returned: usize,
    failed: Vec<String>,
    not_connected: Vec<String>,
    no_response: Vec<String>,
    hint: Option<String>,
}

const LINE: &str = "-------------------------------------------";

impl Summary {
    /// Counts a return.
    pub(super) fn add(&mut self, answer: &Answer) {
        let id = answer.id.clone();
        match answer.given_up {
            Some(NoReturn::NotConnected) => self.not_connected.push(id),
            Some(NoReturn::NoResponse) => self.no_response.push(id),
            None => {
                self.returned += 1;
                if answer.retcode != 0 {
                    self.failed.push(id);
                }
            }
        }
    }

    /// Keeps a hint for the user. The first one counts: all minions have the same mistake.
    pub(super) fn hint(&mut self, hint: String) {
        self.hint.get_or_insert(hint);
    }

    /// Returns the hint for the user.
    pub(super) fn hinted(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    fn silent(&self) -> usize {
        self.not_connected.len() + self.no_response.len()
    }

    /// Returns whether a minion failed or did not return.
    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty() || self.silent() > 0
    }

    /// Prints the summary, with the names of the minions if `verbose`.
    pub(super) fn print(&self, verbose: bool, screen: &mut Screen<'_>) {
        let counts = [
            ("targeted", self.returned + self.silent()),
            ("returned", self.returned),
            ("that did not return", self.silent()),
            ("with errors", self.failed.len()),
        ];
        screen.say(&format!("\n\n{LINE}\nSummary\n{LINE}"));
        for (what, count) in counts {
            screen.say(&format!("# of minions {what}: {count}"));
        }
        let names = [
            ("Minions not connected", &self.not_connected),
            ("Minions not responding", &self.no_response),
            ("Minions with failures", &self.failed),
        ];
        for (what, ids) in names.iter().filter(|(_, ids)| verbose && !ids.is_empty()) {
            screen.say(&format!("{what}: {}", ids.join(" ")));
        }
        screen.say(LINE);
    }
}
