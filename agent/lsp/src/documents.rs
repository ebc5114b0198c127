//! The open documents of the editor.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use lint::Buffers;
use lsp_types::{Position, Uri};

use crate::paths;

/// The maximum size of a document, in bytes. A larger one is read from its file.
const DOCUMENT_MAX: usize = 4 << 20;

/// The maximum number of open documents. Others are read from their files.
const DOCUMENTS_MAX: usize = 1000;

/// An open document.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) uri: Uri,
    pub(crate) version: i32,
    pub(crate) text: Arc<str>,
}

/// The open documents by their paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents(HashMap<PathBuf, Document>);

impl Documents {
    /// Replaces the text of a document.
    ///
    /// # Errors
    /// When it has no path, or exceeds a limit.
    pub(crate) fn set(&mut self, uri: &Uri, version: i32, text: String) -> Result<(), String> {
        let shown = uri.as_str();
        let path =
            paths::of_uri(uri).ok_or_else(|| format!("{shown} is not the address of a file"))?;
        let size = text.len();
        if size > DOCUMENT_MAX {
            self.0.remove(&path);
            return Err(format!(
                "{shown} has {size} bytes, more than the maximum of {DOCUMENT_MAX}: only its saved text is checked"
            ));
        }
        if self.0.len() >= DOCUMENTS_MAX && !self.0.contains_key(&path) {
            return Err(format!(
                "more than {DOCUMENTS_MAX} documents are open: only the saved text of {shown} is checked"
            ));
        }
        let document = Document {
            uri: uri.clone(),
            version,
            text: text.into(),
        };
        self.0.insert(path, document);
        Ok(())
    }

    /// Forgets a document that was closed.
    pub(crate) fn close(&mut self, uri: &Uri) {
        if let Some(path) = paths::of_uri(uri) {
            self.0.remove(&path);
        }
    }

    /// Returns a document with its path.
    pub(crate) fn get(&self, uri: &Uri) -> Option<(PathBuf, Document)> {
        let path = paths::of_uri(uri)?;
        let document = self.0.get(&path)?.clone();
        Some((path, document))
    }

    /// Returns all documents with their paths.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&PathBuf, &Document)> {
        self.0.iter()
    }

    /// Returns the texts, which replace those of the files.
    pub(crate) fn buffers(&self) -> Buffers {
        let all = self.0.iter();
        Buffers::new(all.map(|(path, document)| (path.clone(), Arc::clone(&document.text))))
    }
}

/// Returns the byte index of a column in a line, which the protocol counts in UTF-16 units. A column
/// after the end is the end.
pub(crate) fn byte_of(line: &str, position: Position) -> usize {
    let mut left = usize::try_from(position.character).unwrap_or(usize::MAX);
    for (at, sign) in line.char_indices() {
        if left < sign.len_utf16() {
            return at;
        }
        left -= sign.len_utf16();
    }
    line.len()
}

/// Returns the UTF-16 column of a byte index in a line.
pub(crate) fn column_of(line: &str, byte: usize) -> u32 {
    let before = line.get(..byte).unwrap_or(line);
    u32::try_from(before.encode_utf16().count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_in_utf16() {
        let line = "a😀ü: x";
        for (column, byte) in [(0, 0), (1, 1), (3, 5), (4, 7), (99, 10)] {
            assert_eq!(byte_of(line, Position::new(0, column)), byte);
        }
        assert_eq!(column_of(line, 7), 4);
        assert_eq!(column_of(line, 99), 7);
    }
}
