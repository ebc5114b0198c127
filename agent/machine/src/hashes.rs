//! Hashes of files and of fetched data.

use std::io::Read;
use std::path::Path;

use sha2::Digest;
use state::module::Error;
use value::python::hex;

/// The hash types that Salt accepts for sources, each with its number of hexadecimal digits, in
/// Salt's order.
pub const TYPES: [(&str, usize); 6] = [
    ("sha512", 128),
    ("sha384", 96),
    ("sha256", 64),
    ("sha224", 56),
    ("sha1", 40),
    ("md5", 32),
];

/// Returns the type whose hashes have this number of digits.
pub fn of_length(length: usize) -> Option<&'static str> {
    TYPES
        .iter()
        .find(|known| known.1 == length)
        .map(|known| known.0)
}

/// Returns the number of hexadecimal digits of a hash type.
pub fn length(kind: &str) -> Option<usize> {
    TYPES
        .iter()
        .find(|known| known.0 == kind)
        .map(|known| known.1)
}

fn digest<D: Digest>(mut from: impl Read) -> std::io::Result<String> {
    let mut hasher = D::new();
    let mut buffer = vec![0; 65536];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(buffer.get(..count).unwrap_or_default());
    }
    Ok(hex(&hasher.finalize()))
}

fn hash(from: impl Read, kind: &str) -> Option<std::io::Result<String>> {
    Some(match kind {
        "md5" => digest::<md5::Md5>(from),
        "sha1" => digest::<sha1::Sha1>(from),
        "sha224" => digest::<sha2::Sha224>(from),
        "sha256" => digest::<sha2::Sha256>(from),
        "sha384" => digest::<sha2::Sha384>(from),
        "sha512" => digest::<sha2::Sha512>(from),
        _ => return None,
    })
}

fn unknown(kind: &str) -> Error {
    format!("Invalid hash type: {kind}").into()
}

/// Returns the hash of a file's contents, in hexadecimal digits.
///
/// # Errors
/// When it cannot be read, or the type is unknown.
pub fn of_file(path: &str, kind: &str) -> Result<String, Error> {
    let file = crate::fs::open(Path::new(path))?;
    of_open(file, path, kind)
}

/// Returns the hash of the data read from an open file. Error messages name it by `path`.
///
/// # Errors
/// When it cannot be read, or the type is unknown.
pub fn of_open(file: impl Read, path: &str, kind: &str) -> Result<String, Error> {
    hash(file, kind)
        .ok_or_else(|| unknown(kind))?
        .map_err(Error::io(path))
}

/// Returns the hash of bytes, in hexadecimal digits.
///
/// # Errors
/// When the type is unknown.
pub fn of_bytes(data: &[u8], kind: &str) -> Result<String, Error> {
    hash(data, kind)
        .ok_or_else(|| unknown(kind))?
        .map_err(Error::io("memory"))
}

/// Returns a fingerprint as Salt's `pem_finger` does: of the lines between the first and the last,
/// with colons.
///
/// # Errors
/// When the type of hash is unknown.
pub fn pem_finger(pem: &str, kind: &str) -> Result<String, Error> {
    let mut lines: Vec<&str> = pem.split_inclusive('\n').skip(1).collect();
    lines.pop();
    finger(lines.concat().as_bytes(), kind)
}

/// Returns the hash of bytes, with colons between its bytes.
///
/// # Errors
/// When the type of hash is unknown.
pub fn finger(data: &[u8], kind: &str) -> Result<String, Error> {
    let hash = of_bytes(data, kind)?;
    let mut finger = String::new();
    for (place, digit) in hash.chars().enumerate() {
        if place > 0 && place % 2 == 0 {
            finger.push(':');
        }
        finger.push(digit);
    }
    Ok(finger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_gives_a_hash_of_its_length() -> Result<(), Error> {
        for (kind, length) in TYPES {
            assert_eq!(of_bytes(b"x", kind)?.len(), length);
        }
        assert_eq!(of_bytes(b"", "md5")?, "d41d8cd98f00b204e9800998ecf8427e");
        assert!(of_bytes(b"", "crc").is_err());
        Ok(())
    }
}
