//! [`Finding`]: a problem in a tree, with its place.

use render::Place;
use state::compile::Fault;

use crate::codes::{self, Code, Severity};
use value::PushFmt;

/// A problem in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind.
    pub code: &'static Code,
    /// The file, as the user knows it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// The text of that line.
    pub source: String,
    /// The problem, in one line.
    pub message: String,
    /// A specific remedy; `None` to use the help of the code.
    pub hint: Option<String>,
    /// The SLS whose application led to the finding, if its file is not the one of the finding.
    pub when: Option<String>,
}

impl Finding {
    /// Creates a finding at a place.
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

    /// Creates the finding of a compiler fault. A fault without a place is reported at the start of
    /// `file`.
    pub(crate) fn from_fault(fault: Fault, file: &str) -> Self {
        let sentence = render::sentence(&fault.text);
        let code = codes::of_sentence(&sentence);
        let place = fault.place.unwrap_or_else(|| Place {
            file: file.into(),
            line: 1,
            column: 1,
            source: String::new(),
        });
        let hint = fault.hint.map(|hint| match code.code {
            // The sample may lack the data, and not the tree.
            "W203" => format!("{hint}, or provide the data with -c and --grains"),
            _ => hint,
        });
        Self {
            hint,
            ..Self::at(code, place, fault.cause.map_or(sentence, String::from))
        }
    }

    /// Returns the finding with another code.
    pub(crate) fn code(self, number: &str) -> Self {
        Self {
            code: codes::code(number),
            ..self
        }
    }

    /// Returns the severity.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }

    /// Returns the remedy.
    #[must_use]
    pub fn help(&self) -> &str {
        self.hint.as_deref().unwrap_or(self.code.help)
    }

    /// Returns the key by which findings are compared and sorted.
    pub(crate) fn key(&self) -> (&str, u32, u32, &str, &str) {
        let (file, message) = (self.file.as_str(), self.message.as_str());
        (file, self.line, self.column, self.code.code, message)
    }

    /// True when a comment in the finding's line allows it.
    pub(crate) fn is_allowed(&self) -> bool {
        let Some((_, allowed)) = self.source.split_once("pinch: allow ") else {
            return false;
        };
        let mut words = allowed.split([',', ' ', '#', '}']);
        words.any(|word| word == self.code.code || word == self.code.name)
    }

    /// Appends the finding for people: the message, the line with a caret, and the remedy.
    pub(crate) fn text(&self, out: &mut String) {
        let (severity, code) = (self.severity().word(), self.code.code);
        let (file, line, column) = (&self.file, self.line, self.column);
        out.push_fmt(format_args!("{severity}[{code}]: {}\n", self.message));
        let number = line.to_string();
        let gutter = " ".repeat(number.len());
        out.push_fmt(format_args!("{gutter}--> {file}:{number}:{column}\n"));
        if !self.source.trim().is_empty() {
            let ahead = (column as usize).saturating_sub(1);
            // Tabs are kept, so that the caret is below the right character.
            let indent = self.source.chars().take(ahead);
            let indent: String = indent.map(|c| if c == '\t' { c } else { ' ' }).collect();
            let source = self.source.trim_end();
            out.push_fmt(format_args!(
                "{gutter} |\n{number} | {source}\n{gutter} | {indent}^\n"
            ));
        }
        if let Some(sls) = &self.when {
            out.push_fmt(format_args!(
                "{gutter} = note: found while checking {sls}, which includes this file\n"
            ));
        }
        out.push_fmt(format_args!("{gutter} = help: {}\n\n", self.help()));
    }
}
