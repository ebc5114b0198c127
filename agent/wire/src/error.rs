//! What can be wrong with bytes, and with what should become bytes.

/// A value or frame that cannot be written or read. Whoever prints it knows the peer and says it too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More bytes than allowed.
    #[error("{bytes} bytes are more than the {limit} that are allowed here")]
    TooLong {
        /// How many there are.
        bytes: u64,
        /// How many there may be.
        limit: usize,
    },
    /// Nested deeper than allowed.
    #[error("nested deeper than the {limit} levels that are allowed")]
    TooDeep {
        /// How deep it may be.
        limit: usize,
    },
    /// More values than allowed.
    #[error("holds more than the {limit} values that are allowed here")]
    TooMany {
        /// How many there may be.
        limit: usize,
    },
    /// The bytes end in the middle of a value.
    #[error("ends in the middle of a value")]
    Truncated,
    /// Bytes are left after the value.
    #[error("{bytes} bytes follow after the end of the value")]
    Trailing {
        /// How many there are.
        bytes: usize,
    },
    /// A byte that begins no value.
    #[error("no value begins with the byte {byte:#04x}")]
    Marker {
        /// The byte.
        byte: u8,
    },
    /// An extension type that this protocol does not have.
    #[error("the extension type {kind} is not known")]
    Extension {
        /// Its number.
        kind: i8,
    },
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Text,
    /// A number's digits are no whole number.
    #[error("the digits of a number are no whole number")]
    Digits,
    /// What Python would not take as a key.
    #[error("a {type_name} cannot be the key of a dictionary or the item of a set")]
    Key {
        /// Its Python type.
        type_name: &'static str,
    },
    /// The same key twice in one dictionary, or item in one set.
    #[error("the same key stands twice in one dictionary or set")]
    Duplicate,
    /// A frame that is no map with a `kind`.
    #[error("a frame is a map that has its kind under `kind`")]
    NoFrame,
    /// A frame lacks a field, or holds something else in it.
    #[error("`{field}` of the frame `{kind}` must be {wanted}")]
    Field {
        /// The frame's kind.
        kind: &'static str,
        /// The field.
        field: &'static str,
        /// What belongs there.
        wanted: &'static str,
    },
}

impl Error {
    /// True when the place where the next frame begins is lost, so that nothing after it can be read.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::TooLong { .. })
    }
}
