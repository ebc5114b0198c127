//! The encodings of certificates and keys: PEM, DER, and the containers PKCS#7 and PKCS#12.

use std::path::Path;

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::pyre;

use super::der::{Der, INTEGER, OID, SEQUENCE, SET, constant_oid, integer, part, parts};
use super::keys::{self, NEW_PASSPHRASE, PASSPHRASE, Private};
use super::parts::{Parts, certificate};
use super::pem;

/// An encoding of a certificate or key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Pem,
    Der,
    Pkcs7Pem,
    Pkcs7Der,
    Pkcs12,
}

/// The encodings of a certificate.
pub(crate) const OF_CERTIFICATES: &str = "der, pem, pkcs7_der, pkcs7_pem, pkcs12";
/// The encodings of a private key.
pub(crate) const OF_KEYS: &str = "der, pem, pkcs12";
/// The encodings of a request or a certificate revocation list.
pub(crate) const OF_REQUESTS: &str = "der, pem";

impl Encoding {
    /// Returns the encoding with this name.
    ///
    /// # Errors
    /// When it is not one of `allowed`.
    pub(crate) fn parse(name: &str, allowed: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::refused(format!(
                "Invalid value '{name}' for encoding. Valid: {allowed}"
            ))
        };
        if !allowed.split(", ").any(|one| one == name) {
            return Err(wrong());
        }
        Ok(match name {
            "pem" => Self::Pem,
            "pkcs7_pem" => Self::Pkcs7Pem,
            "pkcs7_der" => Self::Pkcs7Der,
            "pkcs12" => Self::Pkcs12,
            _ => Self::Der,
        })
    }

    /// Returns true if it is text.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Pem | Self::Pkcs7Pem)
    }

    /// Returns DER in this encoding, for those that are not containers.
    pub(crate) fn bytes(self, kind: &str, der: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Pem => pem::text(kind, &der).into_bytes(),
            _ => der,
        }
    }
}

/// The options of a PKCS#12 container.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pkcs12 {
    /// The passphrase that it is encrypted with.
    pub(crate) passphrase: Option<String>,
    /// True to use an encryption for older systems.
    pub(crate) is_older: bool,
    /// The friendly name of the certificate.
    pub(crate) friendlyname: Option<String>,
}

/// A certificate from a file, with its encoding.
pub(crate) struct Found {
    pub(crate) certificate: Parts,
    pub(crate) chain: Vec<Parts>,
    pub(crate) encoding: Encoding,
    pub(crate) friendlyname: Option<String>,
}

/// The reason why no certificate is found.
pub(crate) enum Missing {
    /// The container is encrypted with another passphrase.
    WrongPassphrase,
    /// The file contains no certificate.
    NoCertificate,
}

/// Encodes a certificate with its chain.
///
/// # Errors
/// When it cannot be written in this encoding, or openssl fails.
pub(crate) fn encoded(
    cx: &Exec,
    encoding: Encoding,
    certificates: (&Parts, &[Parts]),
    key: Option<&Private>,
    container: &Pkcs12,
) -> Result<Vec<u8>, Error> {
    let (first, chain) = certificates;
    let ders = || [first].into_iter().chain(chain).map(|one| one.der.clone());
    Ok(match encoding {
        Encoding::Der if !chain.is_empty() => {
            return Err("Cannot encode a certificate chain in DER".into());
        }
        Encoding::Der => first.der.clone(),
        Encoding::Pem => {
            let texts: Vec<String> = ders().map(|der| pem::text("CERTIFICATE", &der)).collect();
            texts.join("\n").into_bytes()
        }
        Encoding::Pkcs7Der => pkcs7(&ders().collect::<Vec<_>>()),
        Encoding::Pkcs7Pem => pem::text("PKCS7", &pkcs7(&ders().collect::<Vec<_>>())).into_bytes(),
        Encoding::Pkcs12 => {
            let key = key.ok_or(
                "Creating a PKCS12-encoded certificate without embedded private key is unsupported",
            )?;
            pkcs12(cx, key, Some(certificates), container)?
        }
    })
}

/// Returns a PKCS#7 container with certificates and without signatures.
fn pkcs7(certificates: &[Vec<u8>]) -> Vec<u8> {
    let data = parts(SEQUENCE, &[constant_oid("1.2.840.113549.1.7.1")]);
    let inside = [
        integer(&[1]),
        part(SET, &[]),
        data,
        parts(0xa0, certificates),
        part(SET, &[]),
    ];
    let inside = part(0xa0, &parts(SEQUENCE, &inside));
    parts(SEQUENCE, &[constant_oid("1.2.840.113549.1.7.2"), inside])
}

/// Returns the certificates of a PKCS#7 container.
pub(crate) fn of_pkcs7(der: &[u8]) -> Option<Vec<Parts>> {
    let mut outer = Der(Der(der).take(SEQUENCE)?);
    let kind = part(OID, outer.take(OID)?);
    let mut inside = Der(Der(outer.take(0xa0)?).take(SEQUENCE)?);
    inside.take(INTEGER)?;
    inside.take(SET)?;
    inside.take(SEQUENCE)?;
    let all = Der(inside.take(0xa0)?).parts();
    let all: Option<Vec<Parts>> = all.map(|(tag, one)| Parts::read(&part(tag, one))).collect();
    all.filter(|all| kind == constant_oid("1.2.840.113549.1.7.2") && !all.is_empty())
}

/// Returns a PKCS#12 container with a key, alone or with its certificate.
///
/// # Errors
/// The error of openssl.
pub(crate) fn pkcs12(
    cx: &Exec,
    key: &Private,
    certificates: Option<(&Parts, &[Parts])>,
    container: &Pkcs12,
) -> Result<Vec<u8>, Error> {
    let pass = format!("env:{NEW_PASSPHRASE}");
    let mut words = vec!["pkcs12", "-export", "-passout", &pass];
    match (&container.passphrase, container.is_older) {
        (None, _) => words.extend(["-keypbe", "NONE", "-certpbe", "NONE", "-nomac"]),
        (_, true) => words.extend([
            "-keypbe",
            "PBE-SHA1-3DES",
            "-certpbe",
            "PBE-SHA1-3DES",
            "-macalg",
            "sha1",
        ]),
        _ => {}
    }
    let texts = certificates.map(|(first, chain)| {
        let text = |one: &Parts| pem::text("CERTIFICATE", &one.der);
        (text(first), chain.iter().map(text).collect::<String>())
    });
    let files = match &texts {
        Some((first, chain)) => Some((
            keys::temporary(first.as_bytes())?,
            keys::temporary(chain.as_bytes())?,
        )),
        None => None,
    };
    let places = files.as_ref().map(|(first, chain)| {
        let text = |path: &Path| path.display().to_string();
        (text(first.path()), text(chain.path()))
    });
    match &places {
        Some((first, chain)) => {
            words.extend(["-in", first]);
            if texts.is_some_and(|(_, chain)| !chain.is_empty()) {
                words.extend(["-certfile", chain]);
            }
        }
        None => words.push("-nocerts"),
    }
    if let Some(name) = &container.friendlyname {
        words.extend(["-name", name]);
    }
    let passphrase = container.passphrase.as_deref().unwrap_or_default();
    let process = Process {
        output_encoding: Some("latin-1".to_owned()),
        rstrip: false,
        ..key.process(&words, "-inkey", &[(NEW_PASSPHRASE, passphrase)])
    };
    match process.run(cx)?.into_success() {
        Ok(stdout) => Ok(pyre::unlatin(&stdout)),
        Err(failed) => Err(Error::refused(format!("openssl: {}", failed.stderr.trim()))),
    }
}

/// Returns true if DER is a PKCS#12 container.
pub(crate) fn is_pkcs12(der: &[u8]) -> bool {
    let mut inside = Der(Der(der).take(SEQUENCE).unwrap_or_default());
    inside.take(INTEGER) == Some(&[3]) && inside.take(SEQUENCE).is_some()
}

/// Returns the certificate in a file, in any encoding.
///
/// # Errors
/// When openssl cannot be run.
pub(crate) fn found(
    cx: &Exec,
    path: &Path,
    bytes: &[u8],
    passphrase: Option<&str>,
) -> Result<Result<Found, Missing>, Error> {
    let blocks = pem::blocks(bytes);
    let is_container = blocks.first().is_some_and(|(kind, _)| kind == "PKCS7");
    let (all, encoding) = match blocks.split_first() {
        Some(((_, der), _)) if is_container => (of_pkcs7(der), Encoding::Pkcs7Pem),
        Some((_, rest)) => {
            let chain = rest.iter().filter_map(|(_, der)| Parts::read(der));
            (
                certificate(bytes).map(|first| [first].into_iter().chain(chain).collect()),
                Encoding::Pem,
            )
        }
        None if is_pkcs12(bytes) => return of_pkcs12(cx, path, passphrase),
        None => match of_pkcs7(bytes) {
            Some(all) => (Some(all), Encoding::Pkcs7Der),
            None => (Parts::read(bytes).map(|one| vec![one]), Encoding::Der),
        },
    };
    Ok(split(all.unwrap_or_default(), encoding).ok_or(Missing::NoCertificate))
}

fn split(mut all: Vec<Parts>, encoding: Encoding) -> Option<Found> {
    (!all.is_empty()).then(|| Found {
        certificate: all.remove(0),
        chain: all,
        encoding,
        friendlyname: None,
    })
}

fn of_pkcs12(
    cx: &Exec,
    path: &Path,
    passphrase: Option<&str>,
) -> Result<Result<Found, Missing>, Error> {
    let pass = format!("env:{PASSPHRASE}");
    let place = path.display().to_string();
    let words = ["pkcs12", "-in", &place, "-nokeys", "-passin", &pass];
    let env = [(PASSPHRASE, passphrase.unwrap_or_default())];
    let done = keys::openssl(cx, &words, None, &env)?;
    if !done.success() {
        return Ok(Err(Missing::WrongPassphrase));
    }
    // The attributes precede their block. The mark of the key's certificate is among them.
    let bags: Vec<&str> = done
        .stdout_regardless()
        .split_inclusive("-----END CERTIFICATE-----")
        .collect();
    let own = bags
        .iter()
        .position(|bag| bag.contains("localKeyID"))
        .unwrap_or_default();
    let mut all: Vec<Parts> = bags.iter().filter_map(|bag| certificate_of(bag)).collect();
    if own < all.len() {
        let first = all.remove(own);
        all.insert(0, first);
    }
    let name = bags.get(own).and_then(|bag| {
        let line = bag
            .lines()
            .find_map(|line| line.trim().strip_prefix("friendlyName:"));
        line.map(|name| name.trim().to_owned())
    });
    let found = split(all, Encoding::Pkcs12).map(|found| Found {
        friendlyname: name,
        ..found
    });
    Ok(found.ok_or(Missing::NoCertificate))
}

fn certificate_of(bag: &str) -> Option<Parts> {
    let at = bag.find("-----BEGIN CERTIFICATE")?;
    certificate(bag.get(at..)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_of_certificates_is_none_without_them() {
        assert!(of_pkcs7(&pkcs7(&[])).is_none());
        assert!(!is_pkcs12(&pkcs7(&[])));
        assert!(Encoding::parse("pkcs12", OF_REQUESTS).is_err());
    }
}
