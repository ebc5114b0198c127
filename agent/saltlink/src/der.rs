//! The few structures of DER and PEM that RSA keys consist of.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The tag of a whole number.
const INTEGER: u8 = 0x02;
/// The tag of bits.
const BITS: u8 = 0x03;
/// The tag of bytes.
const BYTES: u8 = 0x04;
/// The tag of a sequence.
const SEQUENCE: u8 = 0x30;
/// The algorithm `rsaEncryption` with its empty parameters, as a complete element.
const RSA: [u8; 15] = [
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
/// The number of characters in a line of PEM.
const LINE: usize = 64;

/// The elements of a structure that are not read yet.
pub(crate) struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// Reads the contents of the next element, which must have this tag.
    fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_first()?;
        let (short, rest) = rest.split_first()?;
        let (length, rest) = match short {
            0..=0x7f => (usize::from(*short), rest),
            0x81 | 0x82 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
                let length = bytes
                    .iter()
                    .fold(0, |all, byte| all << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (inside, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (*first == tag).then_some(inside)
    }

    fn sequence(&mut self) -> Option<Self> {
        self.next(SEQUENCE).map(Elements)
    }

    /// Reads a whole number that is not negative, without leading zeros.
    pub(crate) fn integer(&mut self) -> Option<&'a [u8]> {
        let bytes = self.next(INTEGER)?;
        let start = bytes.iter().position(|byte| *byte != 0)?;
        match bytes.first() {
            Some(0..=0x7f) => bytes.get(start..),
            _ => None,
        }
    }

    fn rsa(&mut self) -> Option<()> {
        let (algorithm, rest) = self.0.split_at_checked(RSA.len())?;
        self.0 = rest;
        (algorithm == RSA).then_some(())
    }
}

/// Returns the numbers of a private key in PKCS#1 or PKCS#8: modulus, exponents, primes, …
pub(crate) fn private<'a>(label: &str, der: &'a [u8]) -> Option<Elements<'a>> {
    let mut key = Elements(der).sequence()?;
    if label == "PRIVATE KEY" {
        key.next(INTEGER)?;
        key.rsa()?;
        key = Elements(key.next(BYTES)?).sequence()?;
    }
    // The version.
    key.next(INTEGER)?;
    Some(key)
}

/// Returns the numbers of a public key in PKCS#1 or as SubjectPublicKeyInfo: modulus, exponent.
pub(crate) fn public<'a>(label: &str, der: &'a [u8]) -> Option<Elements<'a>> {
    let mut key = Elements(der).sequence()?;
    if label == "PUBLIC KEY" {
        key.rsa()?;
        let bits = key.next(BITS)?.strip_prefix(&[0])?;
        key = Elements(bits).sequence()?;
    }
    Some(key)
}

fn element(tag: u8, inside: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match inside.len() {
        length @ 0..0x80 => out.push(length as u8),
        length @ 0x80..0x100 => out.extend([0x81, length as u8]),
        length => {
            out.push(0x82);
            out.extend((length as u16).to_be_bytes());
        }
    }
    out.extend(inside);
    out
}

fn sequence_of_integers(numbers: &[&[u8]]) -> Vec<u8> {
    let mut inside = Vec::new();
    for number in numbers {
        let start = number.iter().position(|byte| *byte != 0);
        let bare = number
            .get(start.unwrap_or(number.len())..)
            .unwrap_or_default();
        let needs_zero = bare.first().is_none_or(|byte| *byte > 0x7f);
        let zero = if needs_zero { b"\0".as_slice() } else { b"" };
        let signed = [zero, bare].concat();
        inside.extend(element(INTEGER, &signed));
    }
    element(SEQUENCE, &inside)
}

/// Returns a private key in PKCS#1, of its numbers in order, as PEM.
pub(crate) fn write_private(numbers: &[&[u8]]) -> String {
    let all = [&[b"\0".as_slice()], numbers].concat();
    pem("RSA PRIVATE KEY", &sequence_of_integers(&all)) + "\n"
}

/// Returns a public key as SubjectPublicKeyInfo in PEM, without a newline at its end.
pub(crate) fn write_public(modulus: &[u8], exponent: &[u8]) -> String {
    let key = sequence_of_integers(&[modulus, exponent]);
    let bits = element(BITS, &[b"\0".as_slice(), &key].concat());
    pem(
        "PUBLIC KEY",
        &element(SEQUENCE, &[RSA.as_slice(), &bits].concat()),
    )
}

fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for (place, letter) in STANDARD.encode(der).chars().enumerate() {
        if place > 0 && place % LINE == 0 {
            text.push('\n');
        }
        text.push(letter);
    }
    text + &format!("\n-----END {label}-----")
}

/// Returns the label and the contents of a text that is one section of PEM.
pub(crate) fn from_pem(text: &str) -> Option<(&str, Vec<u8>)> {
    let (label, rest) = text
        .trim()
        .strip_prefix("-----BEGIN ")?
        .split_once("-----")?;
    let (body, end) = rest.split_once("-----END ")?;
    if end.strip_suffix("-----")? != label {
        return None;
    }
    let letters: String = body.split_whitespace().collect();
    Some((label, STANDARD.decode(letters).ok()?))
}
