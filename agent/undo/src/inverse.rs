//! [`Thing`]: what is no file and can be taken back all the same, by the word under which a run notes it.

use modules::inverses::{self, Inverse};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

/// A change that no file tells of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thing {
    /// The word of its inverse.
    pub word: String,
    /// What it is about: a service, a user, a package.
    pub name: String,
    /// How it was before the run.
    pub was: Value,
    /// What the run made of it, the last first.
    pub is: Vec<Value>,
    /// Why it cannot be made what it was, if it cannot.
    pub lost: Option<String>,
    /// The tags of the states that changed it.
    pub by: Vec<String>,
}

impl Thing {
    pub(crate) fn of(word: &str, name: &str) -> Self {
        Self {
            word: word.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a line: what was noted first of what it was counts.
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

    fn inverse(&self) -> Result<&'static Inverse, Error> {
        inverses::of(&self.word)
            .ok_or_else(|| Error::refused(format!("this version cannot take back: {}", self.word)))
    }

    /// Whether files that its states write are part of it.
    pub(crate) fn owns_files(&self) -> bool {
        self.inverse().is_ok_and(|inverse| inverse.owns_files)
    }

    /// How it is now.
    pub(crate) fn now(&self, cx: &Exec) -> Result<Value, Error> {
        (self.inverse()?.now)(cx, &self.name)
    }

    /// Whether it can be made what it was, as far as can be told before.
    pub(crate) fn can(&self, cx: &Exec) -> Result<(), Error> {
        (self.inverse()?.can)(cx, &self.name, &self.was)
    }

    /// Whether it may be so after the run: of an account that was being made nothing more is known.
    pub(crate) fn is_left(&self, now: &Value) -> bool {
        let unknown = self.is.first() == Some(&Value::Bool(true));
        self.is.contains(now) || unknown && now.is_true()
    }

    /// Makes it what it was. The note of that lets it be undone.
    pub(crate) fn restore(&self, cx: &Exec, now: &Value) -> Result<(), Error> {
        let inverse = self.inverse()?;
        let found = self.now(cx)?;
        if found == self.was {
            // What was taken back before it has taken it along.
            return Ok(());
        }
        if found != *now {
            return Err(Error::refused(format!(
                "{} has just been changed",
                self.title()
            )));
        }
        modules::fs::inverse(cx, &self.word, &self.name, now.clone(), self.was.clone());
        (inverse.make)(cx, &self.name, &self.was)
    }

    /// In a line.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.word, self.name)
    }
}
