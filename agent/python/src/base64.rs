//! base64 as in Python's module: when decoding, characters outside of the alphabet are skipped.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Encodes on one line.
pub fn encode(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// Encodes in lines of 76 characters, each with a newline.
pub fn encode_lines(data: &[u8]) -> String {
    data.chunks(57)
        .map(|chunk| STANDARD.encode(chunk) + "\n")
        .collect()
}

/// Decodes up to the padding.
///
/// # Errors
/// Python's message about a truncated text.
pub fn decode(text: &str) -> Result<Vec<u8>, String> {
    let known = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let mut data = String::new();
    let mut pads = 0;
    for c in text.chars() {
        if c == '=' {
            pads += 1;
            if data.len() % 4 >= 2 && data.len() % 4 + pads >= 4 {
                break;
            }
        } else if known(&c) {
            data.push(c);
            pads = 0;
        }
    }
    match data.len() % 4 {
        0 => {}
        1 => {
            let count = data.len();
            return Err(format!(
                "Invalid base64-encoded string: number of data characters ({count}) cannot be 1 more than a multiple of 4"
            ));
        }
        rest if rest + pads >= 4 => {
            while !data.len().is_multiple_of(4) {
                data.push('=');
            }
        }
        _ => return Err("Incorrect padding".into()),
    }
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&base64::alphabet::STANDARD, lenient)
        .decode(data)
        .map_err(|error| error.to_string())
}

/// Decodes each line separately, as for a file.
///
/// # Errors
/// The same as those of [`decode`].
pub fn decode_lines(text: &str) -> Result<Vec<u8>, String> {
    let lines: Result<Vec<Vec<u8>>, String> = text.split('\n').map(decode).collect();
    Ok(lines?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_python_reads_it() {
        assert_eq!(decode("aGVs\nbG8=\nzzzz").unwrap(), b"hello");
        assert_eq!(decode("a b").unwrap_err(), "Incorrect padding");
        assert!(decode("a").unwrap_err().contains("cannot be 1 more"));
        assert_eq!(decode_lines("aGVs\nbG8=\n").unwrap(), b"hello");
        assert_eq!(encode_lines(&[b'x'; 58]).lines().count(), 2);
    }
}
