//! Where an authority's files are, and how they are written.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, random};

use super::{CertBasePath, SetCaPath};
use crate::exec::config;
use crate::fs::{self, Owner};
use crate::x509::pem;

/// The key of `__context__` under which a folder is kept that was named once.
const NAMED: &str = "ca.contextual_cert_base_path";

/// The folder of authorities: one that is named, now or before in this run, or the option's.
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
    Err("No folder of authorities is known: set ca.cert_base_path".into())
}

pub(super) fn cert_base_path(cx: &Exec, args: CertBasePath) -> Result<Value, Error> {
    let given = args.cacert_path.filter(|path| !path.is_empty());
    given.map_or_else(|| base(cx, None), Ok).map(Value::from)
}

pub(super) fn set_ca_path(cx: &Exec, args: SetCaPath) -> Result<Value, Error> {
    base(cx, args.cacert_path.as_deref()).map(Value::from)
}

/// An authority: its folder, and the name of its files.
pub(super) struct Authority {
    pub(super) folder: String,
    pub(super) file: String,
}

impl Authority {
    /// By its name, in a folder that may be named, with files that may have another name.
    pub(super) fn of(
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

    /// Whether it has both.
    pub(super) fn is_whole(&self) -> bool {
        [self.certificate(), self.key()].iter().all(|path| is(path))
    }

    /// The folder of its certificates.
    pub(super) fn certificates(&self) -> String {
        format!("{}/certs", self.folder)
    }
}

/// Whether something is there.
pub(super) fn is(path: &str) -> bool {
    Path::new(path).exists()
}

/// The name of a file: one that is named, or whom the certificate is for.
///
/// # Errors
/// When it would lead to another folder.
pub(super) fn file_name(named: Option<String>, default: &str) -> Result<String, Error> {
    let named = named.filter(|name| !name.is_empty());
    let name = named.unwrap_or_else(|| default.to_owned());
    match name.contains('/') {
        true => Err(Error::refused(format!("{name:?} is no name of a file"))),
        false => Ok(name),
    }
}

/// Makes a folder where there is none.
pub(super) fn made(cx: &Exec, path: &str) -> Result<(), Error> {
    let folder = Path::new(path);
    match folder.is_dir() {
        true => Ok(()),
        false => fs::mkdirs(cx, folder).map_err(Error::io(folder)),
    }
}

/// Writes what its owner alone may read.
pub(super) fn hidden(cx: &Exec, path: &str, bytes: &[u8]) -> Result<(), Error> {
    written(cx, path, bytes, Some(0o600))
}

/// Writes DER as PEM that all may read.
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

/// The parts of a name that certificates have, with how long each may be: in Salt's order.
const PARTS: [(&str, usize); 7] = [
    ("CN", 64),
    ("C", 2),
    ("ST", 128),
    ("L", 128),
    ("O", 64),
    ("OU", 64),
    ("MAIL", 128),
];

/// A certificate's subject.
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
                "{name} is {part:?}: it may have {most} characters{}",
                if name == "C" {
                    ", no more and no less"
                } else {
                    ""
                }
            )));
        }
        all.insert(name, part);
    }
    Ok(all)
}

/// A new serial number, in as many digits as `openssl ca` wants in its index.
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
