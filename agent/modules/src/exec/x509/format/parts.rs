//! The parts of certificates and of certificate requests, in DER.

use state::module::Error;
use value::Value;

use super::der::{BIT_STRING, Der, INTEGER, OID, SEQUENCE, SET, part};
use super::names::Name;
use super::{extensions, keys, pem, print};

/// An extension of a certificate or request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extension {
    /// The identifier.
    pub(crate) oid: String,
    pub(crate) is_critical: bool,
    /// The value in DER.
    pub(crate) value: Vec<u8>,
}

/// A certificate. Names, key and the signed part are DER including the outer element.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// The whole certificate.
    pub(crate) der: Vec<u8>,
    /// The signed part.
    pub(crate) signed: Vec<u8>,
    /// The identifier of the signature algorithm.
    pub(crate) algorithm: String,
    /// The version, starting at 1.
    pub(crate) version: i64,
    pub(crate) signature: Vec<u8>,
    pub(crate) serial: Vec<u8>,
    pub(crate) issuer: Vec<u8>,
    pub(crate) subject: Vec<u8>,
    /// `YYYYMMDDhhmmssZ`.
    pub(crate) not_before: String,
    pub(crate) not_after: String,
    pub(crate) key: Vec<u8>,
    pub(crate) extensions: Vec<Extension>,
}

/// A request for a certificate.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) algorithm: String,
    pub(crate) subject: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) extensions: Vec<Extension>,
}

impl Parts {
    /// Parses DER.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let whole_inside = Der(der).take(SEQUENCE)?;
        let mut whole = Der(whole_inside);
        let signed = whole.take(SEQUENCE)?;
        let algorithm = print::dotted(Der(whole.take(SEQUENCE)?).take(OID)?);
        let (_, signature) = whole.take(BIT_STRING)?.split_first()?;
        let mut body = Der(signed);
        let version = body.take(0xa0).and_then(|inside| Der(inside).take(INTEGER));
        let version = version
            .and_then(<[u8]>::last)
            .map_or(0, |last| i64::from(*last));
        let serial = body.take(INTEGER)?;
        body.take(SEQUENCE)?;
        let issuer = part(SEQUENCE, body.take(SEQUENCE)?);
        let mut validity = Der(body.take(SEQUENCE)?);
        let not_before = print::time(validity.next()?)?;
        let not_after = print::time(validity.next()?)?;
        let subject = part(SEQUENCE, body.take(SEQUENCE)?);
        let key = part(SEQUENCE, body.take(SEQUENCE)?);
        let list = body.parts().find(|(tag, _)| *tag == 0xa3);
        let list = list.and_then(|(_, inside)| Der(inside).take(SEQUENCE));
        let zeros = serial.iter().take_while(|byte| **byte == 0).count();
        Some(Self {
            der: part(SEQUENCE, whole_inside),
            signed: part(SEQUENCE, signed),
            algorithm,
            version: version + 1,
            signature: signature.to_vec(),
            serial: serial.get(zeros..).unwrap_or_default().to_vec(),
            issuer,
            subject,
            not_before,
            not_after,
            key,
            extensions: extensions::read(list.unwrap_or_default()),
        })
    }

    /// Reads a certificate from a user's argument: a file, PEM or DER.
    ///
    /// # Errors
    /// When it is not a certificate.
    pub(crate) fn load(given: &Value) -> Result<Self, Error> {
        let bytes = pem::source(given)?;
        let is_pem = String::from_utf8_lossy(&bytes).contains("-----BEGIN");
        let found = certificate(&bytes);
        found.ok_or_else(|| match is_pem {
            true => "Could not load PEM-encoded certificate.".into(),
            false => {
                "Could not deserialize binary data, neither as DER nor PKCS#7, PKCS#12.".into()
            }
        })
    }

    /// Returns the identifier of the certificate's key: from the extension, or else the key's hash.
    ///
    /// # Errors
    /// When the key cannot be read.
    pub(crate) fn key_identifier(&self) -> Result<Vec<u8>, Error> {
        let own = self.extensions.iter().find(|one| one.oid == "2.5.29.14");
        match own.and_then(|own| Der(&own.value).take(0x04)) {
            Some(identifier) => Ok(identifier.to_vec()),
            None => keys::identifier(&self.key),
        }
    }

    pub(crate) fn subject_name(&self) -> Name {
        Name::read(&self.subject).unwrap_or_default()
    }

    pub(crate) fn issuer_name(&self) -> Name {
        Name::read(&self.issuer).unwrap_or_default()
    }
}

/// Returns the first certificate in PEM, DER or PKCS#7.
pub(crate) fn certificate(bytes: &[u8]) -> Option<Parts> {
    const KINDS: [&str; 4] = [
        "CERTIFICATE",
        "X509 CERTIFICATE",
        "TRUSTED CERTIFICATE",
        "PKCS7",
    ];
    let (der, _) = pem::der(bytes, &KINDS)?;
    let of_container = || super::containers::of_pkcs7(&der)?.into_iter().next();
    Parts::read(&der).or_else(of_container)
}

/// The labels of a request in PEM.
const KINDS: [&str; 2] = ["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"];

const NO_REQUEST: &str = "Could not load PEM-encoded certificate signing request.";

impl Request {
    fn read(der: &[u8]) -> Option<Self> {
        let mut whole = Der(Der(der).take(SEQUENCE)?);
        let signed = whole.take(SEQUENCE)?;
        let algorithm = print::dotted(Der(whole.take(SEQUENCE)?).take(OID)?);
        let mut body = Der(signed);
        body.take(INTEGER)?;
        let subject = part(SEQUENCE, body.take(SEQUENCE)?);
        let key = part(SEQUENCE, body.take(SEQUENCE)?);
        let attributes = Der(body.take(0xa0).unwrap_or_default()).parts();
        let mut asked = attributes.filter_map(|(_, attribute)| {
            let mut attribute = Der(attribute);
            let oid = part(OID, attribute.take(OID)?);
            (oid == extensions::request()).then(|| Der(attribute.take(SET)?).take(SEQUENCE))?
        });
        Some(Self {
            algorithm,
            subject,
            key,
            extensions: extensions::read(asked.next().unwrap_or_default()),
        })
    }

    /// Parses PEM or DER. The bool is true for PEM.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Self, bool)> {
        let (der, is_pem) = pem::der(bytes, &KINDS)?;
        Some((Self::read(&der)?, is_pem))
    }

    /// Reads a request from a user's argument: a file, PEM or DER.
    ///
    /// # Errors
    /// When it is not a request.
    pub(crate) fn load(given: &Value) -> Result<Self, Error> {
        let read = Self::read(&Self::der(given)?);
        read.ok_or_else(|| NO_REQUEST.into())
    }

    /// Returns the DER of a request in a user's argument.
    ///
    /// # Errors
    /// When it is not a request.
    pub(crate) fn der(given: &Value) -> Result<Vec<u8>, Error> {
        let der = pem::der(&pem::source(given)?, &KINDS).map(|(der, _)| der);
        let der = der.filter(|der| Self::read(der).is_some());
        der.ok_or_else(|| NO_REQUEST.into())
    }
}
