//! The contents of an X.509 certificate in OpenSSL's words. Nothing is verified here: the contents
//! are only shown.

use std::net::Ipv4Addr;
use value::PushFmt;

/// The maximum size of a certificate in bytes.
pub const CERTIFICATE_MAX: usize = 1 << 20;

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const OID: u8 = 0x06;

/// A certificate.
#[derive(Debug)]
pub struct Certificate {
    /// The issuer: names and texts.
    pub issuer: Vec<(String, String)>,
    /// The subject: names and texts.
    pub subject: Vec<(String, String)>,
    /// The beginning of the validity: `YYYYMMDDhhmmssZ`.
    pub not_before: String,
    /// The end of the validity, in the same format.
    pub not_after: String,
    /// The serial number in decimal digits.
    pub serial: String,
    /// The name of the signature algorithm.
    pub signature_algorithm: String,
    /// The encoded version, one less than the usual number.
    pub version: i64,
    /// The extensions: names and texts.
    pub extensions: Vec<(String, String)>,
}

/// A reader of consecutive DER elements.
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Der<'a> {
    /// Returns the next element: its tag and contents.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), rest),
            long => {
                let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
                let length = (!bytes.is_empty() && bytes.len() <= 4).then_some(bytes)?;
                let add = |all: usize, byte: &u8| all << 8 | usize::from(*byte);
                (length.iter().fold(0, add), rest)
            }
        };
        let (inside, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, inside))
    }

    /// Returns the contents of the next element if it has this tag.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        (self.0.first() == Some(&tag))
            .then(|| self.next())?
            .map(|(_, inside)| inside)
    }

    /// Returns all elements.
    pub(crate) fn parts(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut der = self;
        std::iter::from_fn(move || der.next())
    }
}

impl Certificate {
    /// Parses a certificate; `None` when it is invalid.
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut whole = Der(Der(der).take(SEQUENCE)?);
        let mut body = Der(whole.take(SEQUENCE)?);
        let version = body.take(0xa0).and_then(|inside| Der(inside).take(0x02));
        let serial = body.take(0x02)?;
        body.take(SEQUENCE)?;
        let issuer = name(body.take(SEQUENCE)?);
        let mut validity = Der(body.take(SEQUENCE)?);
        let not_before = time(validity.next()?)?;
        let not_after = time(validity.next()?)?;
        let subject = name(body.take(SEQUENCE)?);
        body.take(SEQUENCE)?;
        let extensions = body.parts().find(|(tag, _)| *tag == 0xa3);
        let extensions = extensions.and_then(|(_, inside)| Der(inside).take(SEQUENCE));
        let algorithm = Der(whole.take(SEQUENCE)?).take(OID)?;
        Some(Self {
            issuer,
            subject,
            not_before,
            not_after,
            serial: decimal(serial),
            signature_algorithm: self::algorithm(&dotted(algorithm)),
            version: version
                .and_then(<[u8]>::last)
                .map_or(0, |version| i64::from(*version)),
            extensions: Der(extensions.unwrap_or_default())
                .parts()
                .filter_map(|(_, inside)| extension(inside))
                .collect(),
        })
    }
}

/// Returns the name of a signature algorithm.
pub(crate) fn algorithm(oid: &str) -> String {
    named(ALGORITHMS, oid)
}

fn named(names: &[(&str, &str)], oid: &str) -> String {
    let known = names.iter().find(|(known, _)| *known == oid);
    known.map_or(oid, |(_, name)| name).to_owned()
}

/// Returns the attributes of a name, in their order.
fn name(der: &[u8]) -> Vec<(String, String)> {
    let sets = Der(der).parts().filter(|(tag, _)| *tag == SET);
    let attributes = sets.flat_map(|(_, set)| Der(set).parts());
    attributes
        .filter_map(|(_, attribute)| {
            let mut attribute = Der(attribute);
            let oid = dotted(attribute.take(OID)?);
            let (tag, value) = attribute.next()?;
            let known = NAMES.iter().find(|(known, _)| *known == oid);
            let name = known.map_or("UNDEF", |(_, name)| name);
            Some((name.to_owned(), text(tag, value)))
        })
        .collect()
}

pub(crate) fn text(tag: u8, value: &[u8]) -> String {
    match tag {
        // BMPString
        0x1e => {
            let units = value.chunks_exact(2);
            let units =
                units.map(|pair| pair.iter().fold(0, |all, byte| all << 8 | u16::from(*byte)));
            String::from_utf16_lossy(&units.collect::<Vec<u16>>())
        }
        _ => String::from_utf8_lossy(value).into_owned(),
    }
}

/// Formats UTCTime and GeneralizedTime, with a four-digit year.
pub(crate) fn time((tag, value): (u8, &[u8])) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let digits = text.strip_suffix('Z')?;
    let full = match tag {
        0x17 if digits.len() == 12 => {
            let century = if digits < "50" { "20" } else { "19" };
            format!("{century}{text}")
        }
        0x18 if digits.len() == 14 => text.to_owned(),
        _ => return None,
    };
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(full)
}

pub(crate) fn dotted(oid: &[u8]) -> String {
    let (mut text, mut number) = (String::new(), 0_u64);
    for byte in oid {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        match text.is_empty() {
            true => {
                let first = (number / 40).min(2);
                text.push_fmt(format_args!("{first}.{}", number - first * 40));
            }
            false => text.push_fmt(format_args!(".{number}")),
        }
        number = 0;
    }
    text
}

/// Formats an integer of any length in decimal digits.
pub(crate) fn decimal(bytes: &[u8]) -> String {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    // The least significant digit is first.
    let mut digits = vec![0_u8];
    for byte in bytes {
        let byte = if negative { !byte } else { *byte };
        let mut carry = u32::from(byte);
        for digit in &mut digits {
            let value = u32::from(*digit) * 256 + carry;
            *digit = (value % 10) as u8;
            carry = value / 10;
        }
        while carry > 0 {
            digits.push((carry % 10) as u8);
            carry /= 10;
        }
    }
    if negative {
        more_by_one(&mut digits);
    }
    let sign = if negative { "-" } else { "" };
    let shown = digits.iter().rev().map(|digit| char::from(b'0' + digit));
    sign.chars().chain(shown).collect()
}

fn more_by_one(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut() {
        if *digit < 9 {
            *digit += 1;
            return;
        }
        *digit = 0;
    }
    digits.push(1);
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

/// Returns the name and the text of an extension. An unknown one is shown in hexadecimal digits.
fn extension(der: &[u8]) -> Option<(String, String)> {
    let mut der = Der(der);
    let oid = dotted(der.take(OID)?);
    // The critical flag is not shown.
    let _ = der.take(0x01);
    let value = der.take(0x04)?;
    let known = EXTENSIONS.iter().find(|(known, ..)| *known == oid);
    let (name, shown) = known.map_or(("UNDEF", None), |(_, name, show)| (*name, show(value)));
    Some((name.to_owned(), shown.unwrap_or_else(|| hex(value))))
}

type Show = fn(&[u8]) -> Option<String>;

const EXTENSIONS: &[(&str, &str, Show)] = &[
    ("1.3.6.1.5.5.7.1.1", "authorityInfoAccess", access),
    ("1.3.6.1.5.5.7.1.24", "tlsfeature", features),
    ("2.16.840.1.113730.1.13", "nsComment", comment),
    ("2.5.29.14", "subjectKeyIdentifier", key_identifier),
    ("2.5.29.15", "keyUsage", key_usage),
    ("2.5.29.17", "subjectAltName", general_names),
    ("2.5.29.18", "issuerAltName", general_names),
    ("2.5.29.19", "basicConstraints", basic_constraints),
    ("2.5.29.31", "crlDistributionPoints", distribution_points),
    ("2.5.29.32", "certificatePolicies", policies),
    ("2.5.29.35", "authorityKeyIdentifier", authority),
    ("2.5.29.37", "extendedKeyUsage", purposes),
];

fn access(value: &[u8]) -> Option<String> {
    let ways = Der(Der(value).take(SEQUENCE)?).parts();
    let ways = ways.map(|(_, way)| {
        let mut way = Der(way);
        let method = named(METHODS, &dotted(way.take(OID)?));
        Some(format!("{method} - {}", general_name(way.next()?)))
    });
    Some(ways.collect::<Option<Vec<_>>>()?.join("\n"))
}

fn features(value: &[u8]) -> Option<String> {
    let features = Der(Der(value).take(SEQUENCE)?).parts();
    let features = features.map(|(_, number)| named(FEATURES, &decimal(number)));
    Some(features.collect::<Vec<_>>().join(", "))
}

fn comment(value: &[u8]) -> Option<String> {
    let (tag, inside) = Der(value).next()?;
    Some(text(tag, inside))
}

fn key_identifier(value: &[u8]) -> Option<String> {
    Der(value).take(0x04).map(hex)
}

fn authority(value: &[u8]) -> Option<String> {
    Der(Der(value).take(SEQUENCE)?).take(0x80).map(hex)
}

fn key_usage(value: &[u8]) -> Option<String> {
    let (_, bytes) = Der(value).take(0x03)?.split_first()?;
    let is_set = |bit: usize| {
        let byte = bytes.get(bit / 8);
        byte.is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0)
    };
    let set = USAGES.iter().enumerate().filter(|(bit, _)| is_set(*bit));
    Some(set.map(|(_, name)| *name).collect::<Vec<_>>().join(", "))
}

fn purposes(value: &[u8]) -> Option<String> {
    let purposes = Der(Der(value).take(SEQUENCE)?).parts();
    let purposes = purposes.map(|(_, oid)| named(PURPOSES, &dotted(oid)));
    Some(purposes.collect::<Vec<_>>().join(", "))
}

fn basic_constraints(value: &[u8]) -> Option<String> {
    let mut constraints = Der(Der(value).take(SEQUENCE)?);
    let is_ca = constraints.take(0x01).is_some_and(|truth| truth != [0]);
    let ca = if is_ca { "CA:TRUE" } else { "CA:FALSE" };
    Some(match constraints.take(0x02) {
        Some(length) => format!("{ca}, pathlen:{}", decimal(length)),
        None => ca.to_owned(),
    })
}

fn policies(value: &[u8]) -> Option<String> {
    let policies = Der(Der(value).take(SEQUENCE)?).parts();
    let policies = policies.map(|(_, policy)| {
        Some(format!(
            "Policy: {}",
            named(POLICIES, &dotted(Der(policy).take(OID)?))
        ))
    });
    Some(policies.collect::<Option<Vec<_>>>()?.join("\n"))
}

fn distribution_points(value: &[u8]) -> Option<String> {
    let points = Der(Der(value).take(SEQUENCE)?).parts();
    let points = points.map(|(_, point)| {
        let names = Der(Der(point).take(0xa0)?).take(0xa0)?;
        let names = Der(names)
            .parts()
            .map(|name| format!("\n  {}", general_name(name)));
        Some(format!("Full Name:{}", names.collect::<String>()))
    });
    Some(points.collect::<Option<Vec<_>>>()?.join("\n"))
}

fn general_names(value: &[u8]) -> Option<String> {
    let names = Der(Der(value).take(SEQUENCE)?).parts();
    Some(names.map(general_name).collect::<Vec<_>>().join(", "))
}

fn general_name((tag, value): (u8, &[u8])) -> String {
    let text = || String::from_utf8_lossy(value);
    match tag {
        0x81 => format!("email:{}", text()),
        0x82 => format!("DNS:{}", text()),
        0x86 => format!("URI:{}", text()),
        0x87 => format!("IP Address:{}", address(value)),
        0x88 => format!("Registered ID:{}", dotted(value)),
        0xa4 => {
            let parts = Der(value).take(SEQUENCE).map(name).unwrap_or_default();
            let parts = parts
                .iter()
                .map(|(name, value)| format!("{name} = {value}"));
            format!("DirName:{}", parts.collect::<Vec<_>>().join(", "))
        }
        _ => "othername:<unsupported>".to_owned(),
    }
}

fn address(bytes: &[u8]) -> String {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ipv4Addr::from(four).to_string();
    }
    if bytes.len() != 16 {
        return "<invalid>".to_owned();
    }
    let groups = bytes.chunks_exact(2);
    let groups = groups.map(|pair| pair.iter().fold(0, |all, byte| all << 8 | u16::from(*byte)));
    let groups: Vec<String> = groups.map(|group: u16| format!("{group:X}")).collect();
    groups.join(":")
}

const USAGES: [&str; 9] = [
    "Digital Signature",
    "Non Repudiation",
    "Key Encipherment",
    "Data Encipherment",
    "Key Agreement",
    "Certificate Sign",
    "CRL Sign",
    "Encipher Only",
    "Decipher Only",
];

const PURPOSES: &[(&str, &str)] = &[
    ("1.3.6.1.5.5.7.3.1", "TLS Web Server Authentication"),
    ("1.3.6.1.5.5.7.3.2", "TLS Web Client Authentication"),
    ("1.3.6.1.5.5.7.3.3", "Code Signing"),
    ("1.3.6.1.5.5.7.3.4", "E-mail Protection"),
    ("1.3.6.1.5.5.7.3.8", "Time Stamping"),
    ("1.3.6.1.5.5.7.3.9", "OCSP Signing"),
    ("2.5.29.37.0", "Any Extended Key Usage"),
];

const POLICIES: &[(&str, &str)] = &[("2.5.29.32.0", "X509v3 Any Policy")];

const FEATURES: &[(&str, &str)] = &[("5", "status_request"), ("17", "status_request_v2")];

const METHODS: &[(&str, &str)] = &[
    ("1.3.6.1.5.5.7.48.1", "OCSP"),
    ("1.3.6.1.5.5.7.48.2", "CA Issuers"),
];

const NAMES: &[(&str, &str)] = &[
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.97", "organizationIdentifier"),
];

const ALGORITHMS: &[(&str, &str)] = &[
    ("1.2.840.10040.4.3", "dsaWithSHA1"),
    ("1.2.840.10045.4.1", "ecdsa-with-SHA1"),
    ("1.2.840.10045.4.3.1", "ecdsa-with-SHA224"),
    ("1.2.840.10045.4.3.2", "ecdsa-with-SHA256"),
    ("1.2.840.10045.4.3.3", "ecdsa-with-SHA384"),
    ("1.2.840.10045.4.3.4", "ecdsa-with-SHA512"),
    ("1.2.840.113549.1.1.10", "rsassaPss"),
    ("1.2.840.113549.1.1.11", "sha256WithRSAEncryption"),
    ("1.2.840.113549.1.1.12", "sha384WithRSAEncryption"),
    ("1.2.840.113549.1.1.13", "sha512WithRSAEncryption"),
    ("1.2.840.113549.1.1.14", "sha224WithRSAEncryption"),
    ("1.2.840.113549.1.1.4", "md5WithRSAEncryption"),
    ("1.2.840.113549.1.1.5", "sha1WithRSAEncryption"),
    ("1.3.101.112", "ED25519"),
    ("1.3.101.113", "ED448"),
    ("2.16.840.1.101.3.4.3.2", "dsa_with_SHA256"),
];
