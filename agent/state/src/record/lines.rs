//! The lines of a record: their length, their checksum and JSON.

use value::json::{self, Layout};
use value::{Map, secret};

/// The length in bytes of the text before a line's JSON.
const HEAD: usize = 26;

/// Returns an entry as a line of the file, without secrets.
#[must_use]
pub fn line(entry: &Map) -> String {
    let text = json::write(&secret::map(entry.clone()).into(), Layout::default());
    let mut line = String::with_capacity(text.len() + HEAD + 1);
    put_hex(&mut line, text.len() as u64, 8);
    put_hex(&mut line, hash(text.as_bytes()), 16);
    line.push_str(&text);
    line.push('\n');
    line
}

/// Appends `count` hexadecimal digits and a space.
fn put_hex(line: &mut String, number: u64, count: u32) {
    digits(line, number, count);
    line.push(' ');
}

pub(super) fn digits(line: &mut String, number: u64, count: u32) {
    for place in (0..count).rev() {
        let digit = (number >> (4 * place)) as u8 & 15;
        let letter = if digit < 10 { b'0' } else { b'a' - 10 };
        line.push(char::from(letter + digit));
    }
}

/// Returns the first entry of `bytes` and the bytes after it; `None` if the entry is torn.
pub(super) fn entry(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (length, sum) = std::str::from_utf8(head).ok()?.trim_end().split_once(' ')?;
    let (text, rest) = rest.split_at_checked(usize::from_str_radix(length, 16).ok()?)?;
    let whole = u64::from_str_radix(sum, 16).ok()? == hash(text);
    let rest = rest.strip_prefix(b"\n")?;
    whole.then_some((std::str::from_utf8(text).ok()?, rest))
}

/// Returns the number of bytes of a record that are complete lines.
pub(super) fn complete_length(bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    while let Some((_, after)) = entry(rest) {
        rest = after;
    }
    (bytes.len() - rest.len()) as u64
}

/// Returns a checksum that distinguishes a torn or damaged line from a complete one. It is FNV-1a
/// over words of eight bytes; each step folds the high bits into the low ones, so that they count
/// too.
fn hash(bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: u64| {
        let sum = (sum ^ word).wrapping_mul(0x0100_0000_01b3);
        sum ^ sum >> 32
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(0xcbf2_9ce4_8422_2325, step)
}
