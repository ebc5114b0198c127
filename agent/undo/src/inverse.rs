//! [`Resource`]: a change that is not a change of a file but can still be undone. A word names its
//! inverse in the notes of a run.

use state::exec::{Exec, Registry};
use state::facts::Inverse;
use state::module::Error;
use value::{Map, Value};

/// A service, user, package or similar thing that a run has changed other than through files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// The word that names the inverse.
    pub word: String,
    /// The name of the thing: of a service, a user, a package.
    pub name: String,
    /// The state of the thing before the run.
    pub was: Value,
    /// The states of the thing that the run has noted, the latest first.
    pub is: Vec<Value>,
    /// The reason why it cannot be restored; `None` if it can.
    pub lost: Option<String>,
    /// The tags of the states that changed it.
    pub by: Vec<String>,
}

impl Resource {
    pub(crate) fn new(word: &str, name: &str) -> Self {
        Self {
            word: word.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a line of the notes. The earliest state before the run counts.
    pub(crate) fn add(&mut self, entry: &Map) {
        if self.is.is_empty() {
            self.was = entry.get("was").cloned().unwrap_or_default();
        }
        let lost = || entry.get("lost").map(Value::to_text);
        self.lost = self.lost.take().or_else(lost);
        self.is
            .insert(0, entry.get("is").cloned().unwrap_or_default());
        self.is.truncate(2);
    }

    fn inverse(&self, registry: &Registry) -> Result<&'static Inverse, Error> {
        let inverse = registry.inverse(&self.word);
        inverse.ok_or_else(|| Error::refused(format!("this version cannot undo: {}", self.word)))
    }

    /// Returns whether files that its states write belong to it.
    pub(crate) fn owns_files(&self, registry: &Registry) -> bool {
        self.inverse(registry)
            .is_ok_and(|inverse| inverse.owns_files)
    }

    /// Returns the current state of the thing.
    pub(crate) fn now(&self, cx: &Exec) -> Result<Value, Error> {
        (self.inverse(cx.shared.registry)?.now)(cx, &self.name)
    }

    /// Checks whether it can be restored, as far as that is known beforehand.
    pub(crate) fn can(&self, cx: &Exec) -> Result<(), Error> {
        (self.inverse(cx.shared.registry)?.can)(cx, &self.name, &self.was)
    }

    /// Returns whether the run may have left it in this state. If the run was interrupted while it
    /// created an account, the exact state is unknown and every existing account counts.
    pub(crate) fn is_left(&self, now: &Value) -> bool {
        let unknown = self.is.first() == Some(&Value::Bool(true));
        self.is.contains(now) || unknown && now.is_true()
    }

    /// Restores the state before the run. This writes a note, so it can be undone as well.
    pub(crate) fn restore(&self, cx: &Exec, now: &Value) -> Result<(), Error> {
        let inverse = self.inverse(cx.shared.registry)?;
        let found = self.now(cx)?;
        if found == self.was {
            // An item that was restored earlier has restored this one too.
            return Ok(());
        }
        if found != *now {
            return Err(Error::refused(format!(
                "{} was changed during the undo",
                self.title()
            )));
        }
        machine::fs::inverse(cx, inverse, &self.name, now.clone(), self.was.clone());
        (inverse.make)(cx, &self.name, &self.was)
    }

    /// Returns the word and the name in one line.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.word, self.name)
    }
}
