//! Records which branches of templates are reached, to check a tree before it runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::Environment;
use value::PushFmt;

/// The function that rewritten templates call when a branch is reached; no function of a template
/// has this name.
const NOTE: &str = "__note";

/// A branch of a template: the part after `if`, `elif`, `else` or `for`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The template.
    pub template: Arc<str>,
    /// The line of the tag that begins it.
    pub line: u32,
    /// The line of the tag that ends it.
    pub last: u32,
    /// True if it was reached.
    pub reached: bool,
}

/// The branches of the templates that were read, each with whether it was reached.
#[derive(Debug, Default)]
pub struct Reached(Mutex<Positions>);

#[derive(Debug, Default)]
struct Positions {
    /// The index of the first branch of each template.
    first: HashMap<Arc<str>, usize>,
    branches: Vec<Branch>,
}

impl Reached {
    fn noted(&self) -> MutexGuard<'_, Positions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all branches of all templates that were read.
    #[must_use]
    pub fn branches(&self) -> Vec<Branch> {
        self.noted().branches.clone()
    }

    fn note(&self, number: usize) {
        if let Some(branch) = self.noted().branches.get_mut(number) {
            branch.reached = true;
        }
    }

    /// Adds the function that records branches to an environment.
    pub(super) fn add(self: &Arc<Self>, environment: &mut Environment<'static>) {
        let reached = Arc::clone(self);
        environment.add_function(NOTE, move |number: usize| reached.note(number));
    }
}

/// The branches of one template, as they are found while it is rewritten.
pub(super) struct Branches<'a> {
    reached: &'a Reached,
    template: Arc<str>,
    first: usize,
    found: Vec<Branch>,
    open: Vec<usize>,
}

impl<'a> Branches<'a> {
    pub(super) fn new(reached: &'a Reached, template: &str) -> Self {
        let noted = reached.noted();
        let first = noted.first.get(template).copied();
        Self {
            reached,
            template: template.into(),
            first: first.unwrap_or(noted.branches.len()),
            found: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Handles a tag, and returns the text to insert after it.
    pub(super) fn tag(&mut self, word: &str, line: usize, text: &str) -> Option<String> {
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        if matches!(word, "elif" | "else" | "endif" | "endfor")
            && let Some(open) = self.open.pop()
            && let Some(branch) = self.found.get_mut(open)
        {
            branch.last = line;
        }
        if !matches!(word, "if" | "elif" | "else" | "for") {
            return None;
        }
        let number = self.found.len();
        self.open.push(number);
        self.found.push(Branch {
            template: Arc::clone(&self.template),
            line,
            last: line,
            reached: false,
        });
        let trim = if text.ends_with("-%}") { "-" } else { "" };
        let mut note = String::new();
        note.push_fmt(format_args!(
            "{{% set __do = {NOTE}({}) {trim}%}}",
            self.first + number
        ));
        Some(note)
    }

    /// Stores the branches, if this is the first time that the template is read.
    pub(super) fn keep(self) {
        let mut noted = self.reached.noted();
        if noted.branches.len() == self.first && !noted.first.contains_key(&self.template) {
            noted.first.insert(self.template, self.first);
            noted.branches.extend(self.found);
        }
    }
}
