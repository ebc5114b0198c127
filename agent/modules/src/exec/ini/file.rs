//! INI files: read, parsed, printed, and written if something changed.

use std::path::Path;

use machine::fs;
use machine::process;
use python::encoding::encoded;
use python::text;
use state::exec::Exec;
use state::module::{Error, Problem};

use super::document::Section;

/// The format of a file, for reading and writing.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The separator between an option and its value.
    pub(crate) separator: String,
    /// Python's name of the encoding; `None` means UTF-8.
    pub(crate) encoding: Option<String>,
    /// True to write the separator without spaces around it.
    pub(crate) no_spaces: bool,
}

/// A file and its layout.
#[derive(Debug)]
pub(crate) struct File<'a> {
    path: &'a str,
    layout: &'a Layout,
    /// The bytes that were read; `None` where there is no file.
    old: Option<Vec<u8>>,
    /// The parsed contents.
    pub(crate) contents: Section,
}

impl<'a> File<'a> {
    /// Reads a file. A missing file counts as empty.
    ///
    /// # Errors
    /// When it cannot be read or is not in its encoding.
    pub(crate) fn read(path: &'a str, layout: &'a Layout) -> Result<Self, Error> {
        if layout.separator.is_empty() {
            return Err("The separator must not be empty".into());
        }
        let old = fs::read_or_none(path).map_err(|error| match error.problem() {
            Problem::Read { source, .. } => failed("open", path, source),
            _ => error,
        })?;
        let encoding = layout.encoding.as_deref();
        let text = text::decoded_as(old.as_deref().unwrap_or_default(), encoding)?;
        Ok(Self {
            path,
            layout,
            old,
            contents: Section::parse(&text, &layout.separator),
        })
    }

    /// Returns true if the file existed.
    pub(crate) fn existed(&self) -> bool {
        self.old.is_some()
    }

    /// Parses the text that would be written. In Salt, each call writes the file and the next one
    /// reads it again.
    pub(crate) fn reread(&mut self) {
        let text = self.contents.text(self.layout.no_spaces);
        self.contents = Section::parse(&text, &self.layout.separator);
    }

    /// Writes the file if its text has changed.
    ///
    /// # Errors
    /// When it cannot be written or its encoding cannot represent it.
    pub(crate) fn write(&self, cx: &Exec) -> Result<(), Error> {
        let text = self.contents.text(self.layout.no_spaces);
        let encoding = self.layout.encoding.as_deref().unwrap_or("utf-8");
        let new = encoded(&text, encoding, "strict")?;
        if self.old.as_ref() == Some(&new) {
            return Ok(());
        }
        let written = fs::write(cx, Path::new(self.path), &new, fs::Owner::default());
        written.map_err(|error| match error.problem() {
            Problem::Io { source, .. } => failed("write", self.path, source),
            _ => error,
        })
    }
}

fn failed(what: &str, path: &str, error: &std::io::Error) -> Error {
    let error = process::python_errno(error, path);
    Error::refused(format!(
        "Unable to {what} file '{path}'. Exception: {error}"
    ))
}
