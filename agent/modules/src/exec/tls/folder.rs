//! Locates and writes the files of certificate authorities.

use std::path::Path;

use machine::fs::{self, Owner};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, random};

use super::{CertBasePath, SetCaPath};
use crate::exec::config;
use crate::exec::x509::format::pem;

/// The key of `__context__` that stores the folder that a call has set.
const NAMED: &str = "ca.contextual_cert_base_path";

/// Returns the folder of the authorities: the one that this call or an earlier call of the run has
/// set, or the option.
pub(super) fn base(cx: &Exec, named: Option<&str>) -> Result<String, Error> {
    if let Some(path) = named.filter(|path| !path.is_empty()) {
        cx.context(|all| all.insert(NAMED, path));
    }
    if let Some(path) = cx.context(|all| all.get(NAMED).cloned()) {
        return Ok(path.to_text());
    }
    for option in [NAMED, "ca.cert_base_path"] {
        let path = config::found(cx, option)?.to_text();
        if !path.is_empty() {
            return Ok(path);
        }
    }
    Err("No directory for certificate authorities is configured: set ca.cert_base_path".into())
}

pub(super) fn cert_base_path(cx: &Exec, args: CertBasePath) -> Result<Value, Error> {
    let given = args.cacert_path.filter(|path| !path.is_empty());
    given.map_or_else(|| base(cx, None), Ok).map(Value::from)
}

pub(super) fn set_ca_path(cx: &Exec, args: SetCaPath) -> Result<Value, Error> {
    base(cx, args.cacert_path.as_deref()).map(Value::from)
}

/// An authority: its folder, and the base name of its files.
pub(super) struct Authority {
    pub(super) folder: String,
    pub(super) file: String,
}

impl Authority {
    /// Returns the authority with this name. `named` overrides the folder, and `file` overrides the
    /// base name of the files.
    pub(super) fn new(
        cx: &Exec,
        name: &str,
        named: Option<&str>,
        file: Option<String>,
    ) -> Result<Self, Error> {
        let file = file.filter(|file| !file.is_empty());
        Ok(Self {
            folder: format!("{}/{name}", base(cx, named)?),
            file: file.unwrap_or_else(|| format!("{name}_ca_cert")),
        })
    }

    pub(super) fn certificate(&self) -> String {
        format!("{}/{}.crt", self.folder, self.file)
    }

    pub(super) fn key(&self) -> String {
        format!("{}/{}.key", self.folder, self.file)
    }

    /// Returns whether both the certificate and the key exist.
    pub(super) fn is_whole(&self) -> bool {
        [self.certificate(), self.key()].iter().all(|path| is(path))
    }

    /// Returns the folder of the certificates that the authority issued.
    pub(super) fn certificates(&self) -> String {
        format!("{}/certs", self.folder)
    }
}

/// Returns whether a path exists.
pub(super) fn is(path: &str) -> bool {
    Path::new(path).exists()
}

/// Returns the name of a file: the given one, or by default the common name of the certificate.
///
/// # Errors
/// When the name would lead to another folder.
pub(super) fn file_name(named: Option<String>, default: &str) -> Result<String, Error> {
    let named = named.filter(|name| !name.is_empty());
    let name = named.unwrap_or_else(|| default.to_owned());
    match name.contains('/') {
        true => Err(Error::refused(format!(
            "invalid file name {name:?}: it contains `/`"
        ))),
        false => Ok(name),
    }
}

/// Creates a folder if it does not exist.
pub(super) fn made(cx: &Exec, path: &str) -> Result<(), Error> {
    let folder = Path::new(path);
    match folder.is_dir() {
        true => Ok(()),
        false => fs::mkdirs(cx, folder).map_err(Error::io(folder)),
    }
}

/// Writes a file that only its owner can read.
pub(super) fn hidden(cx: &Exec, path: &str, bytes: &[u8]) -> Result<(), Error> {
    written(cx, path, bytes, Some(0o600))
}

/// Writes DER data as a PEM file that all users can read.
pub(super) fn public(cx: &Exec, path: &str, kind: &str, der: &[u8]) -> Result<(), Error> {
    written(cx, path, pem::text(kind, der).as_bytes(), Some(0o644))
}

pub(super) fn written(cx: &Exec, path: &str, bytes: &[u8], mode: Option<u32>) -> Result<(), Error> {
    let owner = Owner {
        mode,
        ..Owner::default()
    };
    fs::write(cx, Path::new(path), bytes, owner)
}

/// The parts of a name in a certificate with their maximum lengths, in Salt's order.
const PARTS: [(&str, usize); 7] = [
    ("CN", 64),
    ("C", 2),
    ("ST", 128),
    ("L", 128),
    ("O", 64),
    ("OU", 64),
    ("MAIL", 128),
];

/// Returns the subject of a certificate.
///
/// # Errors
/// When a part is longer than certificates allow.
pub(super) fn subject(parts: [Option<String>; 7]) -> Result<Map, Error> {
    let mut all = Map::new();
    for ((name, most), part) in PARTS.into_iter().zip(parts) {
        let Some(part) = part.filter(|part| !part.is_empty()) else {
            continue;
        };
        let length = part.chars().count();
        if length > most || name == "C" && length != most {
            return Err(Error::refused(format!(
                "{name} is {part:?}: expected {} {most} characters",
                if name == "C" { "exactly" } else { "at most" }
            )));
        }
        all.insert(name, part);
    }
    Ok(all)
}

/// Returns a new serial number, with as many digits as `openssl ca` requires in its index.
pub(super) fn serial() -> Result<String, Error> {
    let mut bytes: [u8; 20] = random::array()?;
    if let Some(first) = bytes.first_mut() {
        *first = *first & 0x7f | 0x40;
    }
    Ok(super::index::digits(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let part = |text: &str| Some(text.to_owned());
        let all = [part("x"), part("DE"), None, part(""), None, None, None];
        let subject_of = |all: [Option<String>; 7]| subject(all);
        assert_eq!(
            subject_of(all).unwrap(),
            Map::new().with("CN", "x").with("C", "DE")
        );
        for wrong in ["Germany", "D"] {
            let all = [None, part(wrong), None, None, None, None, None];
            assert!(subject_of(all).is_err());
        }
        assert!(file_name(part("a/b"), "x").is_err());
        assert_eq!(serial().unwrap().len(), 40);
    }
}
