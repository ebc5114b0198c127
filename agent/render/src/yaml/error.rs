//! The errors of the YAML loader, with PyYAML's messages.

use std::fmt;

/// A place in a document. Line and column count from 1; 0 means that there is no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The line.
    pub line: u32,
    /// The column in characters.
    pub column: u32,
}

/// The Python exception of an error; Salt treats the classes differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `ReaderError`: a character that YAML does not have.
    Reader,
    /// `ScannerError`: Salt shows the bare problem.
    Scanner,
    /// `ParserError`.
    Parser,
    /// `ComposerError`: anchors and aliases, a second document.
    Composer,
    /// `ConstructorError`: tags, keys, merges.
    Constructor,
    /// `ValueError`, `KeyError` or `IndexError` of a scalar that does not fit its tag.
    Value,
    /// A limit of this loader; Salt has none.
    Limit,
}

/// The reason why a document cannot be loaded. It prints exactly what PyYAML's exception prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The exception.
    pub class: Class,
    /// The construct that was being read, and the place where it begins.
    pub context: Option<(String, Mark)>,
    /// The problem.
    pub problem: String,
    /// The line of the problem, from 1; 0 if Salt does not know it.
    pub line: u32,
    /// The column of the problem in characters, from 1; 0 if Salt does not know it.
    pub column: u32,
}

impl Error {
    pub(super) fn at(class: Class, problem: impl Into<String>, mark: Mark) -> Self {
        let Mark { line, column } = mark;
        Self {
            class,
            context: None,
            problem: problem.into(),
            line,
            column,
        }
    }

    pub(super) fn constructor(problem: impl Into<String>, mark: Mark) -> Self {
        Self::at(Class::Constructor, problem, mark)
    }

    pub(super) fn value(problem: impl Into<String>) -> Self {
        Self::at(Class::Value, problem, Mark::default())
    }

    pub(super) fn within(self, context: impl Into<String>, mark: Mark) -> Self {
        Self {
            context: Some((context.into(), mark)),
            ..self
        }
    }

    pub(super) fn unreadable(problem: String, character: i32, offset: u64) -> Self {
        let text = format!(
            "unacceptable character #x{character:04x}: {problem}\n  in \"<unicode string>\", position {offset}"
        );
        Self::at(Class::Reader, text, Mark::default())
    }

    /// Returns the place of the problem.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            line: self.line,
            column: self.column,
        }
    }

    /// Returns the message of Salt's yaml renderer: only the problem for a scanner error, or else
    /// the whole text.
    #[must_use]
    pub fn salt_message(&self) -> String {
        match self.class {
            Class::Scanner => self.problem.clone(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((context, mark)) = &self.context {
            writeln!(f, "{context}")?;
            if *mark != self.mark() {
                writeln!(f, "{mark}")?;
            }
        }
        f.write_str(&self.problem)?;
        if self.line > 0 {
            write!(f, "\n{}", self.mark())?;
        }
        Ok(())
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  in \"<unicode string>\", line {}, column {}",
            self.line, self.column
        )
    }
}

impl std::error::Error for Error {}
