//! Reads certificates: issuer, subject, key and host names.

use crate::ber::{BIT_STRING, Ber, INTEGER, OCTETS, OID, SEQUENCE};
use crate::keys::Key;

/// The object identifier of RSA keys.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// The object identifier of the extension with alternative names (`subjectAltName`).
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Certificate<'a> {
    issuer: &'a [u8],
    subject: &'a [u8],
    spki: &'a [u8],
    extensions: Option<Ber<'a>>,
}

impl<'a> Certificate<'a> {
    /// Reads a certificate. Returns `None` if the bytes are not a certificate.
    pub(crate) fn read(der: &'a [u8]) -> Option<Self> {
        let mut body = Ber(der).take(SEQUENCE)?.ber().take(SEQUENCE)?.ber();
        let _version = body.take(0xa0);
        let _serial = body.take(INTEGER)?;
        let _algorithm = body.take(SEQUENCE)?;
        let issuer = body.take(SEQUENCE)?.whole;
        let _validity = body.take(SEQUENCE)?;
        let subject = body.take(SEQUENCE)?.whole;
        let spki = body.take(SEQUENCE)?.whole;
        let extensions = body.parts().find(|part| part.tag == 0xa3);
        let extensions = extensions.and_then(|part| Some(part.ber().take(SEQUENCE)?.ber()));
        Some(Self {
            issuer,
            subject,
            spki,
            extensions,
        })
    }

    /// Returns its key, if it is an RSA key.
    pub(crate) fn key(&self) -> Option<Key> {
        of_spki(self.spki)
    }

    /// Returns whether it names itself as its issuer, as roots do.
    pub(crate) fn is_root(&self) -> bool {
        self.issuer == self.subject
    }

    /// Returns the host names that it is for.
    pub(crate) fn hosts(&self) -> Vec<&'a str> {
        let extensions = self.extensions.into_iter().flat_map(Ber::parts);
        let names = extensions.filter_map(|part| {
            let mut extension = part.ber();
            let is_it = extension.take(OID)?.inside == SUBJECT_ALT_NAME;
            let value = extension.parts().find(|part| part.tag == OCTETS)?;
            is_it.then(|| value.ber().take(SEQUENCE))?
        });
        let names = names.flat_map(|names| names.ber().parts());
        let hosts = names.filter(|name| name.tag == 0x82);
        hosts
            .filter_map(|name| std::str::from_utf8(name.inside).ok())
            .collect()
    }
}

/// Returns the key of a SubjectPublicKeyInfo, if it is an RSA key.
pub(crate) fn of_spki(spki: &[u8]) -> Option<Key> {
    let mut spki = Ber(spki).take(SEQUENCE)?.ber();
    let algorithm = spki.take(SEQUENCE)?.ber().take(OID)?;
    let (unused, key) = spki.take(BIT_STRING)?.inside.split_first()?;
    if algorithm.inside != RSA || *unused != 0 {
        return None;
    }
    let mut key = Ber(key).take(SEQUENCE)?.ber();
    let modulus = key.take(INTEGER)?.inside;
    Key::from_components(modulus, key.take(INTEGER)?.inside)
}
