//! Certificate revocation lists: reading, creation, and comparison with an existing list.

use jiff::Timestamp;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::der::{BIT_STRING, Der, INTEGER, OID, SEQUENCE, integer, part, parts, stamp, time};
use super::extensions::{self, About, REASONS, reason_bits};
use super::general::{conf, contains, sequence};
use super::issue::{algorithm, compared, finished, given, in_days, moment, serial_of};
use super::keys::{self, Private};
use super::names::Name;
use super::parts::{Extension, Parts};
use super::{pem, print, read};

/// The extensions that only a list and its entries have, as in [`extensions::EXTENSIONS`].
pub(crate) const EXTENSIONS: &[(&str, &str, &str, &str)] = &[
    ("cRLNumber", "", "2.5.29.20", "cRLNumber"),
    ("deltaCRLIndicator", "", "2.5.29.27", "deltaCRLIndicator"),
    ("freshestCRL", "", "2.5.29.46", "freshestCRL"),
    (
        "issuingDistributionPoint",
        "",
        "2.5.29.28",
        "issuingDistributionPoint",
    ),
    ("certificateIssuer", "", "2.5.29.29", "certificateIssuer"),
    ("CRLReason", "", "2.5.29.21", "cRLReason"),
    ("invalidityDate", "", "2.5.29.24", "invalidityDate"),
];

/// The further extensions of a list, which certificates have too.
const SHARED: [&str; 3] = [
    "authorityKeyIdentifier",
    "authorityInfoAccess",
    "issuerAltName",
];

/// The number of extensions above that belong to the list. The others belong to its entries.
const OF_LISTS: usize = 4;

/// An entry of a list.
#[derive(Clone, Debug)]
pub(crate) struct Revoked {
    /// The serial number without leading zeros.
    serial: Vec<u8>,
    /// `YYYYMMDDhhmmssZ`.
    date: String,
    extensions: Vec<Extension>,
}

/// A certificate revocation list.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) der: Vec<u8>,
    signed: Vec<u8>,
    pub(crate) algorithm: String,
    signature: Vec<u8>,
    issuer: Vec<u8>,
    last_update: String,
    pub(crate) next_update: String,
    revoked: Vec<Revoked>,
    pub(crate) extensions: Vec<Extension>,
}

/// The contents of a list that is to be created.
pub(crate) struct Draft {
    signer: Private,
    issuer: Vec<u8>,
    next_update: Timestamp,
    revoked: Vec<(Revoked, Timestamp)>,
    extensions: Vec<Extension>,
}

fn bare(serial: &[u8]) -> Vec<u8> {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    serial.get(zeros..).unwrap_or_default().to_vec()
}

impl Revoked {
    fn read(der: &[u8]) -> Option<Self> {
        let mut inside = Der(der);
        Some(Self {
            serial: bare(inside.take(INTEGER)?),
            date: print::time(inside.next()?)?,
            extensions: extensions::read(inside.take(SEQUENCE).unwrap_or_default()),
        })
    }

    fn der(&self, date: Timestamp) -> Vec<u8> {
        let mut inside = vec![integer(&self.serial), time(date)];
        let all: Vec<Vec<u8>> = self.extensions.iter().map(extensions::der).collect();
        if !all.is_empty() {
            inside.push(parts(SEQUENCE, &all));
        }
        parts(SEQUENCE, &inside)
    }
}

impl List {
    fn read(der: &[u8]) -> Option<Self> {
        let whole_inside = Der(der).take(SEQUENCE)?;
        let mut whole = Der(whole_inside);
        let signed = whole.take(SEQUENCE)?;
        let algorithm = print::dotted(Der(whole.take(SEQUENCE)?).take(OID)?);
        let (_, signature) = whole.take(BIT_STRING)?.split_first()?;
        let mut body = Der(signed);
        let _ = body.take(INTEGER);
        body.take(SEQUENCE)?;
        let issuer = part(SEQUENCE, body.take(SEQUENCE)?);
        let last_update = print::time(body.next()?)?;
        let next_update = print::time(body.next()?)?;
        let entries = Der(body.take(SEQUENCE).unwrap_or_default()).parts();
        let revoked: Option<Vec<_>> = entries.map(|(_, entry)| Revoked::read(entry)).collect();
        let list = body
            .take(0xa0)
            .and_then(|inside| Der(inside).take(SEQUENCE));
        Some(Self {
            der: part(SEQUENCE, whole_inside),
            signed: part(SEQUENCE, signed),
            algorithm,
            signature: signature.to_vec(),
            issuer,
            last_update,
            next_update,
            revoked: revoked?,
            extensions: extensions::read(list.unwrap_or_default()),
        })
    }

    /// Parses PEM or DER. The bool is true for PEM.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Self, bool)> {
        let (der, is_pem) = pem::der(bytes, &["X509 CRL"])?;
        Some((Self::read(&der)?, is_pem))
    }

    /// Reads a list from a user's argument: a file, PEM or DER.
    ///
    /// # Errors
    /// When it is not a revocation list.
    pub(crate) fn load(given: &Value) -> Result<Self, Error> {
        let bytes = pem::source(given)?;
        let found = Self::from_bytes(&bytes).map(|(list, _)| list);
        found.ok_or_else(
            || match String::from_utf8_lossy(&bytes).contains("-----BEGIN") {
                true => "Could not load PEM-encoded certificate revocation list.".into(),
                false => "Could not load DER-encoded certificate revocation list.".into(),
            },
        )
    }

    /// Returns true if the list was signed with the key of this public key.
    ///
    /// # Errors
    /// When openssl is missing, or the key is of an unknown kind.
    pub(crate) fn is_signed_by(&self, cx: &Exec, key: &[u8]) -> Result<bool, Error> {
        let digest = super::issue::digest_of(&self.algorithm).unwrap_or("sha256");
        keys::verify(cx, key, &self.signed, &self.signature, digest)
    }

    /// Returns the number of the list.
    pub(crate) fn number(&self) -> Option<Value> {
        let number = self.extensions.iter().find(|one| one.oid == "2.5.29.20")?;
        let digits = print::decimal(Der(&number.value).take(INTEGER)?);
        digits.parse::<i64>().ok().map(Value::Int)
    }

    /// Returns the number after that of the list; 1 where it has none.
    pub(crate) fn next_number(&self) -> Value {
        let number = self.number().and_then(|number| number.as_int());
        number.map_or(1, |number| number.saturating_add(1)).into()
    }

    /// Returns the data of `read_crl`.
    pub(crate) fn to_map(&self) -> Map {
        let entries = self.revoked.iter().map(|entry| {
            let serial = read::number(&entry.serial).replace(':', "");
            let entry = Map::new()
                .with("revocation_date", read::moment(&entry.date))
                .with("extensions", read::all(&entry.extensions));
            (Value::from(serial), Value::from(entry))
        });
        Map::new()
            .with("issuer", Name::read(&self.issuer).unwrap_or_default().map())
            .with("last_update", read::moment(&self.last_update))
            .with("next_update", read::moment(&self.next_update))
            .with("revoked_certificates", entries.collect::<Map>())
            .with("extensions", read::all(&self.extensions))
            .with("signature_algorithm", read::algorithm(&self.algorithm))
    }
}

impl Draft {
    /// Creates a draft from the arguments of `create_crl`.
    ///
    /// # Errors
    /// When an argument is invalid, or something that it names cannot be read.
    pub(crate) fn from_arguments(cx: &Exec, args: &Map) -> Result<Self, Error> {
        let text = |name: &str| given(args, name).map(Value::to_text);
        let authority = given(args, "signing_cert").filter(|given| given.is_true());
        let authority = authority.map(Parts::load).transpose()?;
        let key = given(args, "signing_private_key").unwrap_or(&Value::Null);
        let signer = Private::load(cx, key, text("signing_private_key_passphrase").as_deref())?;
        let authority = authority.ok_or(
            "A CRL must have an issuer name: set signing_cert to the certificate of the authority",
        )?;
        if authority.key != signer.key {
            return Err("Signing private key does not match the certificate's public key".into());
        }
        let keeps = given(args, "include_expired").is_some_and(Value::is_true);
        let mut revoked = Vec::new();
        for entry in given(args, "revoked")
            .and_then(Value::as_list)
            .unwrap_or_default()
        {
            revoked.extend(entered(&flat(entry), keeps)?);
        }
        let about = About {
            key: &[],
            authority: Some(&authority),
            is_own: false,
        };
        let wanted = given(args, "extensions").and_then(Value::as_map).cloned();
        let days = given(args, "days_valid").and_then(Value::as_float);
        Ok(Self {
            signer,
            issuer: authority.subject.clone(),
            next_update: in_days(days.unwrap_or(100.0))?,
            revoked,
            extensions: of_list(&wanted.unwrap_or_default(), &about)?,
        })
    }

    /// Returns the differences to an existing list, in Salt's words.
    ///
    /// # Errors
    /// When the signature cannot be checked.
    pub(crate) fn changes(&self, cx: &Exec, current: &List) -> Result<Map, Error> {
        let mut changes = Map::new();
        if self.issuer != current.issuer {
            let name = Name::read(&self.issuer).unwrap_or_default();
            changes.insert("issuer_name", name.to_rfc4514());
        }
        if !current.is_signed_by(cx, &self.signer.key)? {
            changes.insert("public_key", true);
        }
        let revocations = self.revocations(current);
        if revocations.values().any(Value::is_true) {
            changes.insert("revocations", revocations);
        }
        changes.update(compared(&current.extensions, &self.extensions));
        Ok(changes)
    }

    fn revocations(&self, current: &List) -> Map {
        let find =
            |all: &[Revoked], serial: &[u8]| all.iter().find(|one| one.serial == serial).cloned();
        let mine: Vec<Revoked> = self.revoked.iter().map(|(one, _)| one.clone()).collect();
        let (mut added, mut changed) = (Vec::new(), Vec::new());
        for one in &mine {
            let name = Value::from(read::number(&one.serial));
            let Some(known) = find(&current.revoked, &one.serial) else {
                added.push(name);
                continue;
            };
            let differ = one
                .extensions
                .iter()
                .filter(|new| !known.extensions.contains(new));
            let has = |oid: &str| one.extensions.iter().any(|new| new.oid == oid);
            let gone = known.extensions.iter().filter(|old| !has(&old.oid));
            changed.extend(differ.chain(gone).map(|_| name.clone()));
        }
        let gone = current
            .revoked
            .iter()
            .filter(|one| find(&mine, &one.serial).is_none());
        let removed = gone.map(|one| Value::from(read::number(&one.serial)));
        Map::new()
            .with("added", Value::list(added))
            .with("changed", Value::list(changed))
            .with("removed", Value::list(removed))
    }

    /// Returns the signed list.
    ///
    /// # Errors
    /// The error of openssl.
    pub(crate) fn signed(&self, cx: &Exec, digest: &str) -> Result<Vec<u8>, Error> {
        let digest = digest.to_lowercase();
        let how = algorithm(&self.signer, &digest)?;
        let mut body = vec![
            integer(&[1]),
            how.clone(),
            self.issuer.clone(),
            time(Timestamp::now()),
            time(self.next_update),
        ];
        let entries: Vec<Vec<u8>> = self
            .revoked
            .iter()
            .map(|(one, date)| one.der(*date))
            .collect();
        if !entries.is_empty() {
            body.push(parts(SEQUENCE, &entries));
        }
        let all: Vec<Vec<u8>> = self.extensions.iter().map(extensions::der).collect();
        if !all.is_empty() {
            body.push(part(0xa0, &parts(SEQUENCE, &all)));
        }
        finished(cx, &self.signer, parts(SEQUENCE, &body), how, &digest)
    }
}

/// Converts an entry to the current form. In the older form it is a list, with the reason next to
/// the extensions.
fn flat(entry: &Value) -> Map {
    let mut entry = entry.as_map().cloned().unwrap_or_default();
    let older = entry
        .first()
        .filter(|_| entry.len() == 1)
        .map(|(_, inside)| inside.clone());
    if let Some(Value::List(settings)) = older {
        entry = Map::new();
        settings
            .iter()
            .filter_map(Value::as_map)
            .for_each(|one| entry.update(one.clone()));
    }
    if let Some(reason) = entry.remove("reason") {
        let own = given(&entry, "extensions").and_then(Value::as_map).cloned();
        let all = own.unwrap_or_default().with("CRLReason", reason);
        entry.insert("extensions", all);
    }
    entry
}

/// Returns an entry in its final form; `None` where the certificate has expired and `keeps` is
/// false.
fn entered(entry: &Map, keeps: bool) -> Result<Option<(Revoked, Timestamp)>, Error> {
    let at = |name: &str| {
        given(entry, name)
            .map(|text| moment(&text.to_text()))
            .transpose()
    };
    let mut end = at("not_after")?.map(stamp);
    let mut serial = match given(entry, "serial_number").filter(|serial| serial.is_true()) {
        Some(Value::Int(number @ 0..)) => Some(number.to_be_bytes().to_vec()),
        Some(Value::Big(digits)) => Some(from_decimal(digits)),
        Some(other) => Some(serial_of(other)?),
        None => None,
    };
    if let Some(certificate) = given(entry, "certificate") {
        let certificate = Parts::load(certificate)?;
        (serial, end) = (Some(certificate.serial), Some(certificate.not_after));
    }
    let serial = serial.ok_or("Need serial_number or certificate")?;
    let now = Timestamp::now();
    if !keeps && end.is_some_and(|end| end < stamp(now)) {
        return Ok(None);
    }
    let date = at("revocation_date")?.unwrap_or(now);
    let mut all = Vec::new();
    let wanted = given(entry, "extensions").and_then(Value::as_map);
    for (name, value) in wanted.into_iter().flat_map(Map::iter) {
        let name = name.to_text();
        match of_entry(&name, value)? {
            Some(extension) => all.push(extension),
            None => log::warning(format_args!("Ignoring invalid CRL entry extension: {name}")),
        }
    }
    let entry = Revoked {
        serial: bare(&serial),
        date: stamp(date),
        extensions: all,
    };
    Ok(Some((entry, date)))
}

/// Returns the bytes of a number with more than 64 bits.
fn from_decimal(digits: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for digit in digits.bytes().filter(u8::is_ascii_digit) {
        let mut carry = u32::from(digit - b'0');
        for byte in bytes.iter_mut().rev() {
            let value = u32::from(*byte) * 10 + carry;
            (*byte, carry) = (value as u8, value >> 8);
        }
        if carry > 0 {
            bytes.insert(0, carry as u8);
        }
    }
    bytes
}

fn made(oid: &str, is_critical: bool, value: Vec<u8>) -> Extension {
    Extension {
        oid: oid.to_owned(),
        is_critical,
        value,
    }
}

fn of_entry(name: &str, given: &Value) -> Result<Option<Extension>, Error> {
    Ok(Some(match name {
        "certificateIssuer" => made("2.5.29.29", contains(given, "critical"), sequence(given)?),
        "CRLReason" => {
            let (is_critical, word) = match given {
                Value::Str(text) => {
                    let (is_critical, words) = conf(text);
                    (is_critical, words.into_iter().next().map(|(word, _)| word))
                }
                other => {
                    let words = other.texts();
                    let word = words.iter().find(|word| *word != "critical").cloned();
                    (contains(other, "critical"), word)
                }
            };
            let word = word.unwrap_or_default();
            let known = REASONS.iter().find(|(reason, _)| *reason == word);
            let (_, number) = known
                .ok_or_else(|| Error::refused(format!("'{word}' is not a valid ReasonFlags")))?;
            made("2.5.29.21", is_critical, part(0x0a, &[*number]))
        }
        "invalidityDate" => {
            let text = given.as_str().ok_or("invalidityDate must be a string")?;
            let rest = text.strip_prefix("critical");
            let date = moment(rest.unwrap_or(text).trim_start_matches([',', ' ']))?;
            made(
                "2.5.29.24",
                rest.is_some(),
                part(0x18, stamp(date).as_bytes()),
            )
        }
        _ => return Ok(None),
    }))
}

/// Returns the extensions of a list, in the order of the arguments.
fn of_list(wanted: &Map, about: &About<'_>) -> Result<Vec<Extension>, Error> {
    let mut all = Vec::new();
    for (name, value) in wanted.iter() {
        let name = name.to_text();
        if SHARED.contains(&name.as_str()) {
            let one = Map::new().with(name.as_str(), value.clone());
            all.extend(extensions::given(&one, about)?);
            continue;
        }
        match EXTENSIONS
            .iter()
            .take(OF_LISTS)
            .find(|(known, ..)| *known == name)
        {
            Some((_, _, oid, _)) => {
                let (is_critical, bytes) = own(&name, value)?;
                all.push(made(oid, is_critical, bytes));
            }
            None => log::warning(format_args!("Ignoring invalid CRL extension: {name}")),
        }
    }
    Ok(all)
}

fn own(name: &str, given: &Value) -> Result<(bool, Vec<u8>), Error> {
    let text = given.to_text();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let number: Result<u64, _> = digits.parse();
    Ok(match name {
        "cRLNumber" => {
            let number = number.ok().filter(|_| digits == text.trim());
            let number =
                number.ok_or("cRLNumber must be an integer and must be marked as non-critical")?;
            (false, integer(&number.to_be_bytes()))
        }
        "deltaCRLIndicator" => {
            let number = number.ok().filter(|_| text.contains(&digits));
            let number = number
                .ok_or("deltaCRLIndicator must contain a single integer pointing to a cRLNumber")?;
            (text.contains("critical"), integer(&number.to_be_bytes()))
        }
        "freshestCRL" => (false, extensions::points(given)?),
        _ => issuing_point(given)?,
    })
}

fn issuing_point(given: &Value) -> Result<(bool, Vec<u8>), Error> {
    if given.as_map().is_none() {
        return Err("issuingDistributionPoint must be a dictionary".into());
    }
    let is_set = |name: &str| given.get(name).is_some_and(Value::is_true);
    let only = ["onlyuser", "onlyCA", "onlyAA"]
        .iter()
        .filter(|name| is_set(name));
    if only.count() > 1 {
        return Err("Only one of the following can be set to True: only_contains_user_certs, only_contains_ca_certs, indirect_crl, only_contains_attribute_certs".into());
    }
    let mut inside = vec![extensions::point_name(given)?];
    let flag = |name: &str, tag: u8| is_set(name).then(|| part(tag, &[0xff]));
    inside.extend(flag("onlyuser", 0x81));
    inside.extend(flag("onlyCA", 0x82));
    if let Some(reasons) = given.get("onlysomereasons").filter(|all| all.is_true()) {
        inside.push(part(0x83, &reason_bits(&reasons.texts())?));
    }
    inside.extend(flag("indirectCRL", 0x84));
    inside.extend(flag("onlyAA", 0x85));
    Ok((is_set("critical"), parts(SEQUENCE, &inside)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_64_bits_are_bytes() {
        assert_eq!(
            from_decimal("18446744073709551616"),
            [1, 0, 0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(from_decimal("258"), [1, 2]);
    }

    #[test]
    fn an_older_entry_is_flattened() {
        let settings = Value::list([Map::new().with("reason", "superseded").into()]);
        let entry = flat(&Map::new().with("www", settings).into());
        let reason = Value::from(entry)
            .traverse("extensions:CRLReason", ":")
            .cloned();
        assert_eq!(reason, Some("superseded".into()));
    }
}
