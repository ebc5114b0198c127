//! The errors of encoding and decoding.

/// A value or frame that cannot be encoded or decoded. It does not name the peer; the code that
/// logs it does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More bytes than allowed.
    #[error("{bytes} bytes exceed the limit of {limit} bytes")]
    TooLong {
        /// The number of bytes.
        bytes: u64,
        /// The maximum number of bytes.
        limit: usize,
    },
    /// Nesting that is deeper than allowed.
    #[error("nested deeper than the limit of {limit} levels")]
    TooDeep {
        /// The maximum number of levels.
        limit: usize,
    },
    /// More values than allowed.
    #[error("contains more than the limit of {limit} values")]
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
    #[error("invalid first byte of a value: {byte:#04x}")]
    Marker {
        /// The byte.
        byte: u8,
    },
    /// An extension type that this protocol does not have.
    #[error("unknown extension type {kind}")]
    Extension {
        /// The number of the extension type.
        kind: i8,
    },
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Text,
    /// A number whose digits are no whole number.
    #[error("the digits of an integer are invalid")]
    Digits,
    /// A value that Python would not accept as a key.
    #[error("a {type_name} cannot be the key of a dictionary or the item of a set")]
    Key {
        /// The Python type of the value.
        type_name: &'static str,
    },
    /// A dictionary that contains a key twice, or a set that contains an item twice.
    #[error("duplicate key in a dictionary, or duplicate item in a set")]
    Duplicate,
    /// A frame that is no map with a `kind`.
    #[error("a frame must be a map with the key `kind`")]
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
