//! Results of reads in which only a missing path may count as none.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::log;

/// Returns true if an error says that the path does not exist.
#[must_use]
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns the result of a read; `None` where the path does not exist.
///
/// # Errors
/// When the path exists and cannot be read.
pub fn or_none<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the result of a read; `None` where the path does not exist or cannot be read. Logs the
/// reason in the second case. This is for callers that can do without the data and write nothing
/// back.
pub fn or_log<T>(path: impl AsRef<Path>, read: io::Result<T>) -> Option<T> {
    or_none(read).unwrap_or_else(|error| {
        let path = path.as_ref().display();
        log::error(format_args!("cannot read {path}: {error}"));
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_path_is_none() {
        let read = |kind: ErrorKind| or_none::<()>(Err(kind.into()));
        assert!(matches!(or_none(Ok(1)), Ok(Some(1))));
        assert!(matches!(read(ErrorKind::NotFound), Ok(None)));
        assert!(matches!(read(ErrorKind::NotADirectory), Ok(None)));
        assert!(read(ErrorKind::PermissionDenied).is_err());
        assert_eq!(or_log::<()>("x", Err(ErrorKind::Other.into())), None);
    }
}
