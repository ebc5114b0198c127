//! The errors of encoding and decoding.

/// A value or frame that cannot be encoded or decoded. It does not name the peer; the code that
/// logs it does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More bytes than allowed.
    #[error("{bytes} bytes are more than the {limit} that are allowed here")]
    TooLong {
        /// The number of bytes.
        bytes: u64,
        /// The maximum number of bytes.
        limit: usize,
    },
    /// Nesting that is deeper than allowed.
    #[error("nested deeper than the {limit} levels that are allowed")]
    TooDeep {
        /// The maximum number of levels.
        limit: usize,
    },
    /// More values than allowed.
    #[error("holds more than the {limit} values that are allowed here")]
    TooMany {
        /// The maximum number of values.
        limit: usize,
    },
    /// Bytes that end in the middle of a value.
    #[error("ends in the middle of a value")]
    Truncated,
    /// Bytes that are left after the value.
    #[error("{bytes} bytes follow after the end of the value")]
    Trailing {
        /// The number of bytes.
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
        /// The number of the extension type.
        kind: i8,
    },
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Text,
    /// A number whose digits are no whole number.
    #[error("the digits of a number are no whole number")]
    Digits,
    /// A value that Python would not accept as a key.
    #[error("a {type_name} cannot be the key of a dictionary or the item of a set")]
    Key {
        /// The Python type of the value.
        type_name: &'static str,
    },
    /// A dictionary that contains a key twice, or a set that contains an item twice.
    #[error("the same key stands twice in one dictionary or set")]
    Duplicate,
    /// A frame that is no map with a `kind`.
    #[error("a frame is a map that has its kind under `kind`")]
    NoFrame,
    /// A frame in which a field is missing or has a value of another type.
    #[error("`{field}` of the frame `{kind}` must be {wanted}")]
    Field {
        /// The frame's kind.
        kind: &'static str,
        /// The field.
        field: &'static str,
        /// The expected type.
        wanted: &'static str,
    },
}

impl Error {
    /// Returns true when the beginning of the next frame cannot be found, so that nothing after
    /// this error can be read.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::TooLong { .. })
    }
}
