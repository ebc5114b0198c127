//! PEM, and the forms in which Salt's functions accept certificates and keys.

use std::io::Read;
use std::path::Path;

use python::base64;
use state::module::Error;
use value::Value;

use super::print::CERTIFICATE_MAX;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// Returns the bytes of a certificate or key from an argument: the path of a file, or the text
/// itself.
///
/// # Errors
/// When it is neither a file, nor PEM, hexadecimal digits or base64.
pub(crate) fn source(given: &Value) -> Result<Vec<u8>, Error> {
    let text = match given {
        Value::Bytes(bytes) => return Ok(bytes.to_vec()),
        Value::Str(text) => &**text,
        _ => return Err(unknown()),
    };
    if Path::new(text).is_file() {
        return file(Path::new(text));
    }
    if text.contains(BEGIN.trim_end()) {
        return Ok(text.as_bytes().to_vec());
    }
    let bare = text.strip_prefix("b64:").unwrap_or(text).trim();
    let is_base64 =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=') || c.is_whitespace();
    match unhexed(bare) {
        Some(bytes) => Ok(bytes),
        None if bare.len() % 4 == 0 && !bare.is_empty() && bare.chars().all(is_base64) => {
            Ok(base64::decode(bare)?)
        }
        None => Err(unknown()),
    }
}

fn unknown() -> Error {
    "Could not load provided source. You need to pass an existing file, (PEM|hex|base64)-encoded string or raw bytes.".into()
}

/// Reads a file that may contain a certificate or a key.
///
/// # Errors
/// When it cannot be read, or is too large.
pub(crate) fn file(path: &Path) -> Result<Vec<u8>, Error> {
    let file = machine::fs::open(path)?;
    let mut bytes = Vec::new();
    let read = file
        .take(CERTIFICATE_MAX as u64 + 1)
        .read_to_end(&mut bytes);
    read.map_err(Error::io(path))?;
    match bytes.len() > CERTIFICATE_MAX {
        true => Err(Error::refused(format!(
            "{} is larger than {CERTIFICATE_MAX} bytes: it is neither a certificate nor a key",
            path.display()
        ))),
        false => Ok(bytes),
    }
}

/// Decodes hexadecimal digits, with or without colons.
pub(crate) fn unhexed(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<char> = text.chars().filter(|c| *c != ':').collect();
    let pair = |pair: &[char]| {
        let digits: String = pair.iter().collect();
        (digits.len() == 2 && digits.chars().all(|c| c.is_ascii_hexdigit()))
            .then(|| u8::from_str_radix(&digits, 16).ok())?
    };
    (!digits.is_empty()).then(|| digits.chunks(2).map(pair).collect())?
}

/// Returns the blocks of a text: the label and the bytes of each.
pub(crate) fn blocks(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(bytes);
    let (mut all, mut open): (Vec<_>, Option<(String, String)>) = (Vec::new(), None);
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix(BEGIN) {
            open = Some((rest.trim_end_matches('-').to_owned(), String::new()));
        } else if line.starts_with(END) {
            let block = open
                .take()
                .and_then(|(kind, body)| Some((kind, base64::decode(&body).ok()?)));
            all.extend(block);
        } else if let Some((_, body)) = &mut open {
            body.push_str(line);
        }
    }
    all
}

/// Returns the DER from PEM of one of these kinds, or from DER. The bool is true for PEM.
pub(crate) fn der(bytes: &[u8], kinds: &[&str]) -> Option<(Vec<u8>, bool)> {
    if !String::from_utf8_lossy(bytes).contains(BEGIN) {
        return Some((bytes.to_vec(), false));
    }
    let mut all = blocks(bytes).into_iter();
    let (_, der) = all.find(|(kind, _)| kinds.contains(&kind.as_str()))?;
    Some((der, true))
}

/// Formats DER as PEM.
pub(crate) fn text(kind: &str, der: &[u8]) -> String {
    let lines = der.chunks(48).map(|chunk| base64::encode(chunk) + "\n");
    format!(
        "{BEGIN}{kind}-----\n{}{END}{kind}-----\n",
        lines.collect::<String>()
    )
}

/// Returns the first block of a text in normal form: lines of 64 characters, and no other text.
///
/// # Errors
/// When there is no block.
pub(crate) fn entry(given: &Value, kind: Option<&str>) -> Result<String, Error> {
    let bytes = source(given)?;
    let text = String::from_utf8_lossy(&bytes).replace("\\n", "\n");
    let wrong = || {
        Error::refused(match kind {
            Some(kind) => format!("PEM does not contain a single entry of type {kind}:\n{text}"),
            None => format!("PEM text not valid:\n{text}"),
        })
    };
    let found = found(&text, kind).ok_or_else(wrong)?;
    Ok(found)
}

fn found(text: &str, wanted: Option<&str>) -> Option<String> {
    let mut rest = text;
    loop {
        let (_, after) = rest.split_once(BEGIN)?;
        let (kind, after) = after.split_once("-----")?;
        let end = format!("{END}{kind}-----");
        let (body, behind) = after.split_once(&end)?;
        rest = behind;
        if wanted.is_some_and(|wanted| wanted != kind) {
            continue;
        }
        let is_header =
            |line: &&str| line.starts_with("Proc-Type: ") || line.starts_with("DEK-Info: ");
        let (headers, body): (Vec<&str>, Vec<&str>) = body
            .lines()
            .map(str::trim)
            .partition(|line| is_header(line));
        let body: Vec<char> = body
            .concat()
            .chars()
            .filter(|c| !c.is_whitespace())
            .collect();
        let lines = body
            .chunks(64)
            .map(|line| line.iter().chain(['\n'].iter()).collect::<String>());
        let mut headers: String = headers.iter().map(|line| format!("{line}\n")).collect();
        if headers.contains("DEK-Info") {
            headers.push('\n');
        }
        let lines: String = lines.collect();
        return (!lines.is_empty()).then(|| format!("{BEGIN}{kind}-----\n{headers}{lines}{end}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_found_and_put_right() {
        let text = "words\n-----BEGIN X-----\n QUJD\nQUJD \n-----END X-----\nmore";
        let entry = entry(&text.into(), None).unwrap();
        assert_eq!(entry, "-----BEGIN X-----\nQUJDQUJD\n-----END X-----\n");
        assert_eq!(
            blocks(entry.as_bytes()),
            [("X".to_owned(), b"ABCABC".to_vec())]
        );
        assert!(source(&"no such thing!".into()).is_err());
        assert_eq!(unhexed("0a:FF"), Some(vec![10, 255]));
    }
}
