//! Encodings of text, by their names in Python.

use value::pyre;

/// An encoding. UTF-16 and UTF-32 have a fixed byte order, or a byte order mark at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, with or without a byte order mark.
    Utf8 {
        /// True with a mark at the beginning.
        marked: bool,
    },
    /// ASCII: the first 128 characters of Unicode.
    Ascii,
    /// Latin-1: the first 256 characters of Unicode.
    Latin1,
    /// UTF-16.
    Utf16 {
        /// True for little endian; `None` if the mark decides.
        little: Option<bool>,
    },
    /// UTF-32.
    Utf32 {
        /// True for little endian; `None` if the mark decides.
        little: Option<bool>,
    },
}

impl Encoding {
    /// Returns the encoding with this name. Case, `_` and blanks do not matter.
    ///
    /// # Errors
    /// When it does not exist, in Python's words.
    pub fn named(name: &str) -> Result<Self, String> {
        let plain = name.to_ascii_lowercase().replace(['_', ' '], "-");
        Ok(match plain.as_str() {
            "utf-8" | "utf8" | "u8" => Self::Utf8 { marked: false },
            "utf-8-sig" => Self::Utf8 { marked: true },
            "ascii" | "us-ascii" => Self::Ascii,
            "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" | "l1" | "8859" => Self::Latin1,
            "utf-16" | "utf16" | "u16" => Self::Utf16 { little: None },
            "utf-16-le" | "utf-16le" => Self::Utf16 { little: Some(true) },
            "utf-16-be" | "utf-16be" => Self::Utf16 {
                little: Some(false),
            },
            "utf-32" | "utf32" | "u32" => Self::Utf32 { little: None },
            "utf-32-le" | "utf-32le" => Self::Utf32 { little: Some(true) },
            "utf-32-be" | "utf-32be" => Self::Utf32 {
                little: Some(false),
            },
            _ => return Err(format!("unknown encoding: {name}")),
        })
    }

    /// Decodes bytes; `None` when they are not in this encoding.
    pub fn decode(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Utf8 { marked: false } | Self::Ascii => String::from_utf8(bytes.to_vec()).ok(),
            Self::Utf8 { marked: true } => {
                let bytes = bytes.strip_prefix(UTF8_MARK).unwrap_or(bytes);
                String::from_utf8(bytes.to_vec()).ok()
            }
            Self::Latin1 => Some(pyre::latin(bytes)),
            Self::Utf16 { little } => {
                let (little, bytes) = ordered(little, bytes, UTF16_MARKS);
                let (units, rest) = bytes.as_chunks::<2>();
                let unit = |unit: &[u8; 2]| match little {
                    true => u16::from_le_bytes(*unit),
                    false => u16::from_be_bytes(*unit),
                };
                let units: Vec<u16> = units.iter().map(unit).collect();
                String::from_utf16(&units).ok().filter(|_| rest.is_empty())
            }
            Self::Utf32 { little } => {
                let (little, bytes) = ordered(little, bytes, UTF32_MARKS);
                let (units, rest) = bytes.as_chunks::<4>();
                let unit = |unit: &[u8; 4]| match little {
                    true => char::from_u32(u32::from_le_bytes(*unit)),
                    false => char::from_u32(u32::from_be_bytes(*unit)),
                };
                let text: Option<String> = units.iter().map(unit).collect();
                text.filter(|_| rest.is_empty())
            }
        }
    }

    /// Encodes a text. `named` is the user's name of the encoding, for messages. `errors` selects
    /// the treatment of characters that it cannot represent.
    ///
    /// # Errors
    /// When it cannot represent the text and `errors` is `strict`.
    pub fn encode(self, text: &str, named: &str, errors: &str) -> Result<Vec<u8>, String> {
        Ok(match self {
            Self::Utf8 { marked: false } => text.as_bytes().to_vec(),
            Self::Utf8 { marked: true } => [UTF8_MARK, text.as_bytes()].concat(),
            Self::Ascii => narrow(text, named, errors, 0x7f)?,
            Self::Latin1 => narrow(text, named, errors, 0xff)?,
            Self::Utf16 { little } => {
                let unit = |unit: u16| match little {
                    Some(false) => unit.to_be_bytes(),
                    _ => unit.to_le_bytes(),
                };
                let units = text.encode_utf16().flat_map(unit);
                mark(little, UTF16_MARKS)
                    .iter()
                    .copied()
                    .chain(units)
                    .collect()
            }
            Self::Utf32 { little } => {
                let unit = |c: char| match little {
                    Some(false) => u32::from(c).to_be_bytes(),
                    _ => u32::from(c).to_le_bytes(),
                };
                let units = text.chars().flat_map(unit);
                mark(little, UTF32_MARKS)
                    .iter()
                    .copied()
                    .chain(units)
                    .collect()
            }
        })
    }
}

/// Encodes a text in the named encoding. `errors` selects the treatment of characters that it
/// cannot represent, as in Python.
///
/// # Errors
/// When the encoding is unknown, or cannot represent the text and `errors` is `strict`.
pub fn encoded(text: &str, name: &str, errors: &str) -> Result<Vec<u8>, String> {
    Encoding::named(name)?.encode(text, name, errors)
}

const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";
/// The byte order marks: little endian, then big endian.
const UTF16_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];
const UTF32_MARKS: [&[u8]; 2] = [b"\xff\xfe\0\0", b"\0\0\xfe\xff"];

/// Returns true for little endian, and the bytes without their mark. As in Python, bytes without a
/// mark have this machine's byte order.
fn ordered<'a>(little: Option<bool>, bytes: &'a [u8], marks: [&[u8]; 2]) -> (bool, &'a [u8]) {
    let [small, great] = marks.map(|mark| bytes.strip_prefix(mark));
    match (little, small, great) {
        (Some(little), ..) => (little, bytes),
        (None, Some(rest), _) => (true, rest),
        (None, None, Some(rest)) => (false, rest),
        (None, None, None) => (true, bytes),
    }
}

/// Returns the byte order mark to write, which is empty if the encoding's name sets the order.
fn mark(little: Option<bool>, marks: [&'static [u8]; 2]) -> &'static [u8] {
    let [small, _] = marks;
    if little.is_none() { small } else { b"" }
}

fn narrow(text: &str, encoding: &str, errors: &str, most: u32) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    for (at, c) in text.chars().enumerate() {
        let code = u32::from(c);
        match u8::try_from(code) {
            Ok(byte) if code <= most => out.push(byte),
            _ => out.extend(substitute(c, errors).ok_or_else(|| {
                format!(
                    "'{encoding}' codec can't encode character '{}' in position {at}: ordinal not in range({})",
                    c.escape_default(),
                    most + 1
                )
            })?),
        }
    }
    Ok(out)
}

fn substitute(c: char, errors: &str) -> Option<Vec<u8>> {
    let code = u32::from(c);
    Some(match errors {
        "ignore" => Vec::new(),
        "replace" => vec![b'?'],
        "xmlcharrefreplace" => format!("&#{code};").into_bytes(),
        "backslashreplace" if code <= 0xff => format!("\\x{code:02x}").into_bytes(),
        "backslashreplace" if code <= 0xffff => format!("\\u{code:04x}").into_bytes(),
        "backslashreplace" => format!("\\U{code:08x}").into_bytes(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_from_each_encoding() {
        let all = [
            "utf-8",
            "UTF_8_SIG",
            "latin1",
            "utf-16",
            "utf-16-le",
            "utf-16-be",
            "utf-32",
            "utf-32-le",
            "utf-32-be",
        ];
        for name in all {
            let bytes = encoded("aé\r\n", name, "strict").unwrap();
            let back = Encoding::named(name).unwrap().decode(&bytes);
            assert_eq!(back.as_deref(), Some("aé\r\n"), "{name}");
        }
        assert_eq!(encoded("a", "utf-16", "strict").unwrap(), b"\xff\xfea\0");
        assert_eq!(
            encoded("a", "utf-32", "strict").unwrap(),
            b"\xff\xfe\0\0a\0\0\0"
        );
    }

    #[test]
    fn what_an_encoding_cannot_hold_is_refused_or_replaced() {
        assert!(encoded("ü", "ascii", "strict").is_err());
        assert_eq!(encoded("ü", "ascii", "replace").ok(), Some(b"?".to_vec()));
        assert_eq!(encoded("ü", "latin-1", "strict").ok(), Some(vec![0xfc]));
    }

    #[test]
    fn a_mark_says_which_end_comes_first_and_half_a_character_is_none() {
        let utf16 = Encoding::named("utf-16").unwrap();
        assert_eq!(utf16.decode(b"\xfe\xff\0a").as_deref(), Some("a"));
        assert_eq!(utf16.decode(b"a\0").as_deref(), Some("a"));
        assert_eq!(utf16.decode(b"a\0b"), None);
        let utf32 = Encoding::named("utf-32").unwrap();
        assert_eq!(utf32.decode(b"\0\0\xfe\xff\0\0\0a").as_deref(), Some("a"));
        assert_eq!(utf32.decode(b"\0\0\x11\x11"), None);
    }
}
