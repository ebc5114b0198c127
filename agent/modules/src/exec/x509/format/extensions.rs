//! The extensions of certificates: conversion from a user's arguments to DER.

use state::module::Error;
use value::{Map, Value};

use super::der::{
    BIT_STRING, BOOLEAN, Der, OCTET_STRING, OID, SEQUENCE, boolean, constant_oid, integer, oid,
    part, parts,
};
use super::general::{conf, contains, names, of_text, pairs, sequence};
use super::parts::{Extension, Parts};
use super::{keys, pem};

/// The extensions' names in Salt, in the order in which they are written, with an older name, the
/// identifier, and the name in reports of changes.
pub(crate) const EXTENSIONS: &[(&str, &str, &str, &str)] = &[
    (
        "basicConstraints",
        "X509v3 Basic Constraints",
        "2.5.29.19",
        "basicConstraints",
    ),
    ("keyUsage", "X509v3 Key Usage", "2.5.29.15", "keyUsage"),
    (
        "extendedKeyUsage",
        "X509v3 Extended Key Usage",
        "2.5.29.37",
        "extendedKeyUsage",
    ),
    (
        "subjectKeyIdentifier",
        "X509v3 Subject Key Identifier",
        "2.5.29.14",
        "subjectKeyIdentifier",
    ),
    (
        "authorityKeyIdentifier",
        "X509v3 Authority Key Identifier",
        "2.5.29.35",
        "authorityKeyIdentifier",
    ),
    (
        "issuerAltName",
        "X509v3 Issuer Alternative Name",
        "2.5.29.18",
        "issuerAltName",
    ),
    (
        "authorityInfoAccess",
        "Authority Information Access",
        "1.3.6.1.5.5.7.1.1",
        "authorityInfoAccess",
    ),
    (
        "subjectAltName",
        "X509v3 Subject Alternative Name",
        "2.5.29.17",
        "subjectAltName",
    ),
    (
        "crlDistributionPoints",
        "X509v3 CRL Distribution Points",
        "2.5.29.31",
        "cRLDistributionPoints",
    ),
    (
        "certificatePolicies",
        "X509v3 Certificate Policies",
        "2.5.29.32",
        "certificatePolicies",
    ),
    (
        "policyConstraints",
        "X509v3 Policy Constraints",
        "2.5.29.36",
        "policyConstraints",
    ),
    (
        "inhibitAnyPolicy",
        "X509v3 Inhibit Any Policy",
        "2.5.29.54",
        "inhibitAnyPolicy",
    ),
    (
        "nameConstraints",
        "X509v3 Name Constraints",
        "2.5.29.30",
        "nameConstraints",
    ),
    (
        "noCheck",
        "OCSP No Check",
        "1.3.6.1.5.5.7.48.1.5",
        "OCSPNoCheck",
    ),
    (
        "tlsfeature",
        "TLS Feature",
        "1.3.6.1.5.5.7.1.24",
        "TLSFeature",
    ),
    (
        "nsComment",
        "Netscape Comment",
        "2.16.840.1.113730.1.13",
        "nsComment",
    ),
    (
        "nsCertType",
        "Netscape Certificate Type",
        "2.16.840.1.113730.1.1",
        "nsCertType",
    ),
];

/// The extensions that a certificate request must not contain.
pub(crate) const NOT_ASKED: [&str; 4] = [
    "authorityInfoAccess",
    "authorityKeyIdentifier",
    "issuerAltName",
    "crlDistributionPoints",
];

pub(crate) const USAGES: [&str; 9] = [
    "digitalSignature",
    "nonRepudiation",
    "keyEncipherment",
    "dataEncipherment",
    "keyAgreement",
    "keyCertSign",
    "cRLSign",
    "encipherOnly",
    "decipherOnly",
];

pub(crate) const PURPOSES: &[(&str, &str)] = &[
    ("OCSPSigning", "1.3.6.1.5.5.7.3.9"),
    ("clientAuth", "1.3.6.1.5.5.7.3.2"),
    ("codeSigning", "1.3.6.1.5.5.7.3.3"),
    ("emailProtection", "1.3.6.1.5.5.7.3.4"),
    ("ipsecIKE", "1.3.6.1.5.5.7.3.17"),
    ("msCTLSign", "1.3.6.1.4.1.311.10.3.1"),
    ("msCodeCom", "1.3.6.1.4.1.311.2.1.22"),
    ("msCodeInd", "1.3.6.1.4.1.311.2.1.21"),
    ("msEFS", "1.3.6.1.4.1.311.10.3.4"),
    ("msSmartcardLogin", "1.3.6.1.4.1.311.20.2.2"),
    ("pkInitKDC", "1.3.6.1.5.2.3.5"),
    ("serverAuth", "1.3.6.1.5.5.7.3.1"),
    ("timeStamping", "1.3.6.1.5.5.7.3.8"),
];

/// The access methods of an authority.
pub(crate) const METHODS: &[(&str, &str)] = &[
    ("OCSP", "1.3.6.1.5.5.7.48.1"),
    ("caIssuers", "1.3.6.1.5.5.7.48.2"),
    ("caRepository", "1.3.6.1.5.5.7.48.5"),
];

/// The reasons for a revocation, with their numbers.
pub(crate) const REASONS: &[(&str, u8)] = &[
    ("unspecified", 0),
    ("keyCompromise", 1),
    ("cACompromise", 2),
    // Salt's documentation uses this spelling.
    ("CACompromise", 2),
    ("affiliationChanged", 3),
    ("superseded", 4),
    ("cessationOfOperation", 5),
    ("certificateHold", 6),
    ("removeFromCRL", 8),
    ("privilegeWithdrawn", 9),
    ("aACompromise", 10),
];

/// The reasons in the order of their bits in distribution points.
pub(crate) const FLAGS: [&str; 9] = [
    "unused",
    "keyCompromise",
    "cACompromise",
    "affiliationChanged",
    "superseded",
    "cessationOfOperation",
    "certificateHold",
    "privilegeWithdrawn",
    "aACompromise",
];

/// The certificate that an extension is for.
pub(crate) struct About<'a> {
    /// The subject's public key.
    pub(crate) key: &'a [u8],
    /// The authority's certificate; `None` for a self-signed certificate and for a request.
    pub(crate) authority: Option<&'a Parts>,
    /// True for a self-signed certificate.
    pub(crate) is_own: bool,
}

/// Returns the name of an extension in reports of changes.
pub(crate) fn name_of(dotted: &str) -> &str {
    let mut all = EXTENSIONS.iter().chain(super::crl::EXTENSIONS);
    all.find(|(_, _, oid, _)| *oid == dotted)
        .map_or(dotted, |(.., name)| name)
}

/// Returns all given extensions, in their order.
///
/// # Errors
/// When one is invalid.
pub(crate) fn given(args: &Map, about: &About<'_>) -> Result<Vec<Extension>, Error> {
    let wanted = EXTENSIONS.iter().filter_map(|(name, _, oid, _)| {
        let value = args.get(name).filter(|value| !value.is_null())?;
        Some((*name, *oid, value))
    });
    let made = wanted.map(|(name, oid, value)| {
        let (is_critical, value) = made(name, value, about)?;
        Ok(Extension {
            oid: oid.to_owned(),
            is_critical,
            value,
        })
    });
    made.collect()
}

fn made(name: &str, given: &Value, about: &About<'_>) -> Result<(bool, Vec<u8>), Error> {
    let critical = |value: Vec<u8>| (is_critical(given), value);
    let plain = |value: Vec<u8>| (false, value);
    Ok(match name {
        "basicConstraints" => critical(basic(given)?),
        "keyUsage" => (contains(given, "critical"), usage(given)),
        "extendedKeyUsage" => (contains(given, "critical"), purposes(given)?),
        "subjectKeyIdentifier" => plain(subject_key(given, about)?),
        "authorityKeyIdentifier" => plain(authority_key(given, about)?),
        "issuerAltName" | "subjectAltName" => critical(sequence(given)?),
        "authorityInfoAccess" => plain(access(given)?),
        "crlDistributionPoints" => critical(points(given)?),
        "certificatePolicies" => critical(policies(given)?),
        "noCheck" => (contains(given, "critical"), vec![0x05, 0x00]),
        "tlsfeature" => (contains(given, "critical"), features(given)?),
        "policyConstraints" => critical(policy_constraints(given)?),
        "inhibitAnyPolicy" => (contains(given, "critical"), inhibit(given)?),
        "nameConstraints" => critical(name_constraints(given)?),
        _ => {
            return Err(Error::refused(format!(
                "{name} is currently not implemented."
            )));
        }
    })
}

/// Returns true if a text begins with `critical`, a list has that entry, or a dictionary that key.
fn is_critical(given: &Value) -> bool {
    match given {
        Value::Str(text) => text.starts_with("critical"),
        Value::Map(map) => map.get("critical").is_some_and(Value::is_true),
        other => contains(other, "critical"),
    }
}

fn basic(given: &Value) -> Result<Vec<u8>, Error> {
    let lower = given.as_str().map(str::to_lowercase);
    let settings = match lower {
        Some(text) => pairs(&text.into()),
        None => pairs(given),
    };
    let setting = |name: &str| {
        settings
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    };
    let ca = setting("ca").ok_or("Undefined required key for basicConstraints: 'ca'")?;
    let is_ca = ca
        .as_str()
        .map_or_else(|| ca.is_true(), |text| text == "true");
    let length = setting("pathlen")
        .filter(|length| !length.is_null())
        .map(|length| {
            let number: Result<u64, _> = length.to_text().parse();
            number.map_err(|_| {
                Error::refused(format!(
                    "Invalid configuration for basicContraints: pathlen {}",
                    length.to_text()
                ))
            })
        });
    let mut inside = Vec::new();
    inside.extend(is_ca.then(|| boolean(true)));
    if let Some(length) = length.transpose()? {
        if !is_ca {
            return Err("path_length must be None when ca is False".into());
        }
        inside.push(integer(&length.to_be_bytes()));
    }
    Ok(parts(SEQUENCE, &inside))
}

fn usage(given: &Value) -> Vec<u8> {
    let set = USAGES.iter().enumerate();
    let set = set.filter(|(_, name)| contains(given, name));
    part(BIT_STRING, &bits(set.map(|(bit, _)| bit)))
}

/// Encodes the contents of a BIT STRING: the number of unused bits at its end, and the bytes.
fn bits(set: impl Iterator<Item = usize>) -> Vec<u8> {
    let mut bytes = vec![0_u8];
    let mut last = 0;
    for bit in set {
        bytes.resize(bytes.len().max(bit / 8 + 2), 0);
        if let Some(byte) = bytes.get_mut(bit / 8 + 1) {
            *byte |= 0x80 >> (bit % 8);
        }
        last = last.max(bit + 1);
    }
    if let Some(first) = bytes.first_mut() {
        *first = (last.div_ceil(8) * 8 - last) as u8;
    }
    bytes
}

/// Encodes reasons as the bits of a distribution point.
///
/// # Errors
/// When a reason is unknown.
pub(crate) fn reason_bits(reasons: &[String]) -> Result<Vec<u8>, Error> {
    let bit = |reason: &String| {
        let known = FLAGS.iter().skip(1).position(|flag| flag == reason);
        let known = known.map(|at| at + 1);
        known.ok_or_else(|| Error::refused(format!("'{reason}' is not a valid ReasonFlags")))
    };
    let all: Result<Vec<usize>, Error> = reasons.iter().map(bit).collect();
    Ok(bits(all?.into_iter()))
}

fn purposes(given: &Value) -> Result<Vec<u8>, Error> {
    let words = match given {
        Value::Str(text) => conf(text).1.into_iter().map(|(word, _)| word).collect(),
        other => other.texts(),
    };
    let one = |word: String| {
        let known = PURPOSES.iter().find(|(name, _)| *name == word);
        let dotted = known.map_or(word.as_str(), |(_, oid)| oid);
        oid(dotted).ok_or_else(|| Error::refused(format!("Invalid oid: {word}")))
    };
    let words = words.into_iter().filter(|word| word != "critical");
    let all: Result<Vec<Vec<u8>>, Error> = words.map(one).collect();
    Ok(parts(SEQUENCE, &all?))
}

fn subject_key(given: &Value, about: &About<'_>) -> Result<Vec<u8>, Error> {
    if contains(given, "critical") {
        return Err("subjectKeyIdentifier must be marked as non-critical".into());
    }
    let text = given.to_text();
    let hash = match text.as_str() {
        "hash" => keys::identifier(about.key)?,
        text => pem::unhexed(text).ok_or("Value must be precomputed hash")?,
    };
    Ok(part(OCTET_STRING, &hash))
}

fn authority_key(given: &Value, about: &About<'_>) -> Result<Vec<u8>, Error> {
    if contains(given, "critical") {
        return Err("authorityKeyIdentifier must be marked as non-critical".into());
    }
    let settings = pairs(given);
    let setting = |name: &str| {
        let found = settings.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.to_text())
    };
    let mut inside = Vec::new();
    if setting("keyid").is_some() {
        let identifier = match about.authority {
            Some(authority) => Some(authority.key_identifier()?),
            None if about.is_own => Some(keys::identifier(about.key)?),
            None => None,
        };
        inside.extend(identifier.map(|identifier| part(0x80, &identifier)));
    }
    let issuer = setting("issuer");
    if issuer.as_deref() == Some("always") || issuer.is_some() && inside.is_empty() {
        match about.authority {
            Some(authority) => {
                inside.push(part(0xa1, &part(0xa4, &authority.issuer)));
                let serial = integer(&authority.serial);
                inside.push(part(0x82, serial.get(2..).unwrap_or_default()));
            }
            None if issuer.as_deref() == Some("always") => {
                return Err("Could not add authority_cert_issuer and authority_cert_serial_number, but was set to always.".into());
            }
            None => {}
        }
    }
    Ok(parts(SEQUENCE, &inside))
}

fn access(given: &Value) -> Result<Vec<u8>, Error> {
    let pairs: Vec<(String, String)> = match given {
        Value::Str(text) => {
            let words = text
                .split(',')
                .map(str::trim)
                .filter(|word| *word != "critical");
            words
                .filter_map(|word| word.split_once(';'))
                .map(|(how, place)| (how.to_owned(), place.to_owned()))
                .collect()
        }
        other => pairs(other)
            .into_iter()
            .map(|(how, place)| (how, place.to_text()))
            .collect(),
    };
    let one = |(how, place): (String, String)| {
        let known = METHODS.iter().find(|(name, _)| *name == how);
        let method = known.map_or(how.as_str(), |(_, oid)| oid);
        let method =
            oid(method).ok_or_else(|| Error::refused(format!("Unknown access OID: {how}")))?;
        Ok(parts(SEQUENCE, &[method, of_text(&place)?]))
    };
    let pairs = pairs.into_iter().filter(|(how, _)| how != "critical");
    let all: Result<Vec<Vec<u8>>, Error> = pairs.map(one).collect();
    Ok(parts(SEQUENCE, &all?))
}

/// Encodes names in OpenSSL's form: one, or a list.
fn texts_of(given: &Value) -> Result<Vec<u8>, Error> {
    let all: Result<Vec<Vec<u8>>, Error> = match given {
        Value::Str(text) => vec![of_text(text)],
        other => other.texts().iter().map(|text| of_text(text)).collect(),
    }
    .into_iter()
    .collect();
    Ok(all?.concat())
}

/// Encodes the name of a distribution point.
///
/// # Errors
/// When a name is of an unknown or unsupported kind.
pub(crate) fn point_name(given: &Value) -> Result<Vec<u8>, Error> {
    if given.get("relativename").is_some_and(Value::is_true) {
        return Err("relativename is not supported: use fullname".into());
    }
    let names = given.get("fullname").filter(|names| names.is_true());
    Ok(match names {
        Some(names) => part(0xa0, &part(0xa0, &texts_of(names)?)),
        None => Vec::new(),
    })
}

/// Encodes distribution points.
///
/// # Errors
/// When a name is of an unknown kind, or a reason is unknown.
pub(crate) fn points(given: &Value) -> Result<Vec<u8>, Error> {
    const KEYS: [&str; 4] = ["fullname", "relativename", "crlissuer", "reasons"];
    let full = |names: Vec<u8>| part(SEQUENCE, &part(0xa0, &part(0xa0, &names)));
    let mut all = Vec::new();
    let items: Vec<Value> = match given {
        Value::List(items) => items.to_vec(),
        Value::Str(_) => pairs(given)
            .into_iter()
            .map(|(kind, value)| Map::new().with(&kind, value).into())
            .collect(),
        other => vec![other.clone()],
    };
    for item in items {
        match &item {
            Value::Map(point) if KEYS.iter().any(|key| point.contains(key)) => {
                let mut inside = point_name(&item)?;
                if let Some(reasons) = item.get("reasons").filter(|all| all.is_true()) {
                    inside.extend(part(0x81, &reason_bits(&reasons.texts())?));
                }
                if let Some(names) = item.get("crlissuer").filter(|all| all.is_true()) {
                    inside.extend(part(0xa2, &texts_of(names)?));
                }
                all.push(part(SEQUENCE, &inside));
            }
            Value::Str(word) if &**word == "critical" => {}
            other => {
                for pair in pairs(&Value::list([other.clone()])) {
                    all.push(full(names(&[pair])?));
                }
            }
        }
    }
    Ok(parts(SEQUENCE, &all))
}

/// Returns the value of a setting.
fn setting(settings: &[(String, Value)], name: &str) -> Option<Value> {
    let found = settings.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.clone())
}

fn count(given: &Value, name: &str) -> Result<Vec<u8>, Error> {
    let number: Result<u64, _> = given.to_text().parse();
    let number =
        number.map_err(|_| Error::refused(format!("{name} must be a number of certificates")))?;
    Ok(integer(&number.to_be_bytes()))
}

fn policy_constraints(given: &Value) -> Result<Vec<u8>, Error> {
    let settings = pairs(given);
    let mut inside = Vec::new();
    for (tag, name) in [
        (0x80, "requireExplicitPolicy"),
        (0x81, "inhibitPolicyMapping"),
    ] {
        if let Some(given) = setting(&settings, name) {
            let number = count(&given, name)?;
            inside.push(part(tag, number.get(2..).unwrap_or_default()));
        }
    }
    match inside.is_empty() {
        true => Err(
            "At least one of require_explicit_policy and inhibit_policy_mapping must not be None"
                .into(),
        ),
        false => Ok(parts(SEQUENCE, &inside)),
    }
}

fn inhibit(given: &Value) -> Result<Vec<u8>, Error> {
    let number = match given {
        Value::Str(text) => conf(text).1.into_iter().next().map(|(word, _)| word.into()),
        Value::Map(map) => map.get("value").cloned(),
        other => Some(other.clone()),
    };
    let number = number.ok_or("Undefined required key for inhibitAnyPolicy: 'value'")?;
    count(&number, "inhibitAnyPolicy")
}

fn name_constraints(given: &Value) -> Result<Vec<u8>, Error> {
    let mut inside = Vec::new();
    for (tag, scope) in [(0xa0, "permitted"), (0xa1, "excluded")] {
        let wanted: Vec<(String, Value)> = match given {
            Value::Str(text) => text
                .split(',')
                .filter_map(|word| word.trim().split_once(';'))
                .filter(|(known, _)| *known == scope)
                .filter_map(|(_, name)| name.split_once(':'))
                .map(|(kind, value)| (kind.to_owned(), value.into()))
                .collect(),
            other => other.get(scope).map(pairs).unwrap_or_default(),
        };
        let trees: Result<Vec<Vec<u8>>, Error> = wanted
            .into_iter()
            .map(|pair| Ok(part(SEQUENCE, &names(&[pair])?)))
            .collect();
        let trees = trees?;
        if !trees.is_empty() {
            inside.push(parts(tag, &trees));
        }
    }
    match inside.is_empty() {
        true => Err("nameConstraints needs at least one definition".into()),
        false => Ok(parts(SEQUENCE, &inside)),
    }
}

fn policies(given: &Value) -> Result<Vec<u8>, Error> {
    let words: Vec<String> = match given {
        Value::Map(map) => {
            if let Some((policy, _)) = map
                .iter()
                .find(|(policy, value)| policy.as_str() != Some("critical") && value.is_true())
            {
                return Err(Error::refused(format!(
                    "certificatePolicies: the qualifiers of {} are not supported",
                    policy.to_text()
                )));
            }
            map.keys().map(Value::to_text).collect()
        }
        other => other
            .to_text()
            .split(',')
            .map(|word| word.trim().to_owned())
            .collect(),
    };
    let one = |word: String| {
        let policy = oid(&word).ok_or(
            "certificatePolicies defined as string must be a comma-separated list of OID.",
        )?;
        Ok(part(SEQUENCE, &policy))
    };
    let words = words.into_iter().filter(|word| word != "critical");
    let all: Result<Vec<Vec<u8>>, Error> = words.map(one).collect();
    Ok(parts(SEQUENCE, &all?))
}

fn features(given: &Value) -> Result<Vec<u8>, Error> {
    let words = match given {
        Value::Str(text) => text.split(',').map(|word| word.trim().to_owned()).collect(),
        other => other.texts(),
    };
    let one = |word: String| match word.as_str() {
        "status_request" => Ok(integer(&[5])),
        "status_request_v2" => Ok(integer(&[17])),
        _ => Err(Error::refused(format!(
            "tlsfeature: unknown feature {word}"
        ))),
    };
    let words = words.into_iter().filter(|word| word != "critical");
    let all: Result<Vec<Vec<u8>>, Error> = words.map(one).collect();
    Ok(parts(SEQUENCE, &all?))
}

/// Encodes an extension as DER.
pub(crate) fn der(extension: &Extension) -> Vec<u8> {
    let mut inside = vec![oid(&extension.oid).unwrap_or_default()];
    inside.extend(extension.is_critical.then(|| boolean(true)));
    inside.push(part(OCTET_STRING, &extension.value));
    parts(SEQUENCE, &inside)
}

/// Parses the extensions of a list in DER.
pub(crate) fn read(list: &[u8]) -> Vec<Extension> {
    let one = |(_, der): (u8, &[u8])| {
        let mut der = Der(der);
        let oid = super::print::dotted(der.take(OID)?);
        let is_critical = der.take(BOOLEAN).is_some_and(|truth| truth != [0]);
        let value = der.take(OCTET_STRING)?.to_vec();
        Some(Extension {
            oid,
            is_critical,
            value,
        })
    };
    Der(list).parts().filter_map(one).collect()
}

/// Returns the identifier of requested extensions.
pub(crate) fn request() -> Vec<u8> {
    constant_oid("1.2.840.113549.1.9.14")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usages_are_bits_and_constraints_may_be_critical() {
        assert_eq!(
            usage(&"critical cRLSign, keyCertSign".into()),
            [3, 2, 1, 0x06]
        );
        assert_eq!(
            usage(&Value::list(["decipherOnly".into()])),
            [3, 3, 7, 0, 0x80]
        );
        assert_eq!(
            basic(&"critical CA:true, pathlen:0".into()).unwrap(),
            [0x30, 6, 1, 1, 0xff, 2, 1, 0]
        );
        assert!(basic(&"CA:false, pathlen:1".into()).is_err());
        assert_eq!(
            basic(&Map::new().with("ca", false).into()).unwrap(),
            [0x30, 0]
        );
    }
}
