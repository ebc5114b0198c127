//! [`Thing`]: what is no file and can be taken back all the same, by the word under which a run notes it.

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
    /// The tags of the states that changed it.
    pub by: Vec<String>,
}

/// How a kind of thing is looked at, and made what it was.
struct Inverse {
    word: &'static str,
    /// Whether files that its states write are part of it.
    owns_files: bool,
    now: fn(&Exec, &str) -> Result<Value, Error>,
    make: fn(&Exec, &str, &Value) -> Result<(), Error>,
}

const INVERSES: [Inverse; 1] = [Inverse {
    word: "service enabled",
    owns_files: true,
    now: |cx, name| cx.call("service.enabled", vec![name.into()], Map::new()),
    make: |cx, name, wanted| {
        let verb = if wanted.is_true() {
            "enable"
        } else {
            "disable"
        };
        said(cx.call(&format!("service.{verb}"), vec![name.into()], Map::new()))
    },
}];

/// A function that says with `False` that it could not.
fn said(answer: Result<Value, Error>) -> Result<(), Error> {
    match answer? {
        Value::Bool(false) => Err(Error::refused("it could not be done".to_owned())),
        _ => Ok(()),
    }
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
        self.is
            .insert(0, entry.get("is").cloned().unwrap_or_default());
        self.is.truncate(2);
    }

    fn inverse(&self) -> Result<&'static Inverse, Error> {
        let mut all = INVERSES.iter();
        all.find(|one| one.word == self.word)
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

    /// Makes it what it was. The note of that lets it be undone.
    pub(crate) fn restore(&self, cx: &Exec, now: &Value) -> Result<(), Error> {
        let inverse = self.inverse()?;
        modules::fs::inverse(cx, &self.word, &self.name, now.clone(), self.was.clone());
        (inverse.make)(cx, &self.name, &self.was)
    }

    /// In a line.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.word, self.name)
    }
}
