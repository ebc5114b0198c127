//! Why a document cannot be loaded, in PyYAML's words.

use std::fmt;

/// A place in a document; both numbers count from 1, and 0 says that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The line.
    pub line: u32,
    /// The column in characters.
    pub column: u32,
}

/// Which exception it is in Python: Salt treats them differently.
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

/// Why a document cannot be loaded. Prints exactly what PyYAML's exception prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Which exception it is.
    pub class: Class,
    /// What was being read, and where that begins.
    pub context: Option<(String, Mark)>,
    /// What is wrong.
    pub problem: String,
    /// The line of the problem, from 1; 0 when Salt knows none.
    pub line: u32,
    /// The column of the problem in characters, from 1; 0 when Salt knows none.
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

    /// Where the problem is.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            line: self.line,
            column: self.column,
        }
    }

    /// What Salt's yaml renderer makes of it: a scanner's bare problem, else the whole text.
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
