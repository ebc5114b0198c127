//! Formatted text at the end of a `String`.

use std::fmt::{Arguments, Write as _};

/// Appends formatted text. Unlike `write!`, it returns no result, because a `String` can always
/// take more.
pub trait PushFmt {
    /// Appends text: `out.push_fmt(format_args!("{name}: {value}\n"))`.
    fn push_fmt(&mut self, text: Arguments<'_>);
}

impl PushFmt for String {
    #[expect(
        clippy::let_underscore_must_use,
        reason = "writing to a String does not fail"
    )]
    fn push_fmt(&mut self, text: Arguments<'_>) {
        let _ = self.write_fmt(text);
    }
}
