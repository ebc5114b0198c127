//! [`Finding`]: one thing that is wrong, and where.

use std::fmt::Write as _;

use render::Place;
use state::compile::Fault;

use crate::codes::{self, Code, Severity};

/// One thing that is wrong in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind it is.
    pub code: &'static Code,
    /// The file as the user knows it.
    pub file: String,
    /// Its line, from 1.
    pub line: u32,
    /// Its column in characters, from 1.
    pub column: u32,
    /// The text of that line.
    pub source: String,
    /// What is wrong, in one line.
    pub message: String,
    /// What is meant perhaps; else the help of the code counts.
    pub hint: Option<String>,
    /// The SLS by which it was found, where that is another than the one that it stands in.
    pub when: Option<String>,
}

impl Finding {
    /// A finding at a place.
    pub(crate) fn at(code: &'static Code, place: Place, message: impl Into<String>) -> Self {
        Self {
            code,
            file: place.file.trim_start_matches("./").to_owned(),
            line: place.line,
            column: place.column,
            source: place.source,
            message: message.into(),
            hint: None,
            when: None,
        }
    }

    /// A fault of the compiler. What has no place stands in `file`.
    pub(crate) fn of(fault: Fault, file: &str) -> Self {
        let sentence = render::sentence(&fault.text);
        let code = codes::of_sentence(&sentence);
        let place = fault.place.unwrap_or_else(|| Place {
            file: file.into(),
            line: 1,
            column: 1,
            source: String::new(),
        });
        Self {
            hint: fault.hint,
            ..Self::at(code, place, sentence)
        }
    }

    /// The same with another code.
    pub(crate) fn code(self, number: &str) -> Self {
        Self {
            code: codes::code(number),
            ..self
        }
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> &str {
        self.hint.as_deref().unwrap_or(self.code.help)
    }

    /// What decides whether two are the same, and their order.
    pub(crate) fn key(&self) -> (&str, u32, u32, &str, &str) {
        let (file, message) = (self.file.as_str(), self.message.as_str());
        (file, self.line, self.column, self.code.code, message)
    }

    /// Whether its line says that it is meant so.
    pub(crate) fn is_allowed(&self) -> bool {
        let Some((_, allowed)) = self.source.split_once("pinch: allow ") else {
            return false;
        };
        let mut words = allowed.split([',', ' ', '#', '}']);
        words.any(|word| word == self.code.code || word == self.code.name)
    }

    /// As a person reads it: the sentence, the line with a caret, what to do.
    pub(crate) fn text(&self, out: &mut String) {
        let (severity, code) = (self.severity().word(), self.code.code);
        let (file, line, column) = (&self.file, self.line, self.column);
        let _ = writeln!(out, "{severity}[{code}]: {}", self.message);
        let number = line.to_string();
        let gutter = " ".repeat(number.len());
        let _ = writeln!(out, "{gutter}--> {file}:{number}:{column}");
        if !self.source.trim().is_empty() {
            let ahead = (column as usize).saturating_sub(1);
            // A tab stays one, so that the caret stands below what it means.
            let indent = self.source.chars().take(ahead);
            let indent: String = indent.map(|c| if c == '\t' { c } else { ' ' }).collect();
            let source = self.source.trim_end();
            let _ = writeln!(out, "{gutter} |\n{number} | {source}\n{gutter} | {indent}^");
        }
        if let Some(sls) = &self.when {
            let _ = writeln!(
                out,
                "{gutter} = note: found where {sls} is applied, which includes this file"
            );
        }
        let _ = writeln!(out, "{gutter} = help: {}\n", self.help());
    }
}
