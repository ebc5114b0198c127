//! General names: the subjects of a certificate, or the places of other data.

use std::net::IpAddr;

use state::module::Error;
use value::{Map, Value};

use super::der::{SEQUENCE, oid, part};
use super::names::Name;

/// Parses settings in OpenSSL's form. Returns true if they begin with `critical`, and the words,
/// each with the text after its colon.
pub(crate) fn conf(text: &str) -> (bool, Vec<(String, Option<String>)>) {
    let rest = text.strip_prefix("critical");
    let is_critical = rest.is_some();
    let rest = rest.map_or(text, |rest| rest.trim_matches(',').trim());
    let word = |word: &str| match word.split_once(':') {
        Some((name, value)) => (name.trim().to_owned(), Some(value.trim().to_owned())),
        None => (word.trim().to_owned(), None),
    };
    (is_critical, rest.split(',').map(word).collect())
}

/// Returns true if a word occurs as the text, an entry of the list or a key of the dictionary.
pub(crate) fn contains(given: &Value, word: &str) -> bool {
    match given {
        Value::Str(text) => text.contains(word),
        Value::List(items) => items.iter().any(|item| item.as_str() == Some(word)),
        Value::Map(map) => map.contains(word),
        _ => false,
    }
}

/// Returns the names from any form that Salt accepts: OpenSSL's text, a list of texts and
/// dictionaries, a dictionary.
pub(crate) fn pairs(given: &Value) -> Vec<(String, Value)> {
    let of_map = |map: &Map| -> Vec<(String, Value)> {
        map.iter()
            .map(|(kind, value)| (kind.to_text(), value.clone()))
            .collect()
    };
    match given {
        Value::Str(text) => {
            let named = |(kind, value): (String, Option<String>)| {
                (kind, value.unwrap_or_else(|| "__present__".into()).into())
            };
            conf(text).1.into_iter().map(named).collect()
        }
        Value::List(items) => items
            .iter()
            .flat_map(|item| match item {
                Value::Map(map) => of_map(map),
                other => other
                    .as_text()
                    .split_once(':')
                    .map_or_else(Vec::new, |(kind, value)| {
                        vec![(kind.trim().to_owned(), value.trim().into())]
                    }),
            })
            .collect(),
        Value::Map(map) => of_map(map),
        _ => Vec::new(),
    }
}

/// Encodes the names as DER, one after the other.
///
/// # Errors
/// When one is of an unknown kind, or invalid for its kind.
pub(crate) fn names(given: &[(String, Value)]) -> Result<Vec<u8>, Error> {
    let all: Result<Vec<Vec<u8>>, Error> = given
        .iter()
        .map(|(kind, value)| name(kind, value))
        .collect();
    Ok(all?.concat())
}

/// Encodes `KIND:VALUE` as DER.
///
/// # Errors
/// When it is of an unknown kind, or invalid for its kind.
pub(crate) fn of_text(text: &str) -> Result<Vec<u8>, Error> {
    let (kind, value) = text.split_once(':').unwrap_or((text, ""));
    name(kind, &value.into())
}

fn name(kind: &str, value: &Value) -> Result<Vec<u8>, Error> {
    let kind = kind.to_lowercase();
    let text = value.to_text();
    Ok(match kind.as_str() {
        "email" => part(0x81, ascii(&text)?.as_bytes()),
        "dns" => part(0x82, domain(&text)?.as_bytes()),
        "uri" => part(0x86, ascii(&text)?.as_bytes()),
        "ip" => part(0x87, &address(&text)?),
        "rid" => {
            let oid = oid(&text).ok_or_else(|| Error::refused(format!("Invalid oid: {text}")))?;
            part(0x88, oid.get(2..).unwrap_or_default())
        }
        "dirname" => part(0xa4, &Name::parse(value)?.der()?),
        "othername" => return Err("otherName is currently not implemented".into()),
        _ => {
            return Err(Error::refused(format!(
                "GeneralName type {kind} is invalid"
            )));
        }
    })
}

fn ascii(text: &str) -> Result<&str, Error> {
    match text.is_ascii() && !text.is_empty() {
        true => Ok(text),
        false => Err(Error::refused(format!(
            "Cannot encode '{text}': write internationalized domain names in their ASCII form (xn--…)"
        ))),
    }
}

fn domain(text: &str) -> Result<&str, Error> {
    let bare = text
        .strip_prefix("*.")
        .or_else(|| text.strip_prefix('.'))
        .unwrap_or(text);
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    match bare.split('.').any(str::is_empty) || !bare.chars().all(is_known) {
        true if bare.is_ascii() => Err(Error::refused(format!(
            "'{text}' is not a valid domain name"
        ))),
        _ => ascii(text),
    }
}

/// Encodes an address, or a network as address and mask.
fn address(text: &str) -> Result<Vec<u8>, Error> {
    let wrong = || {
        Error::refused(format!(
            "Provided value {text} does not seem to be an IP address or network range."
        ))
    };
    let (address, bits) = text
        .split_once('/')
        .map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let mut bytes = match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    if let Some(bits) = bits {
        let bits = length(bits).ok_or_else(wrong)?;
        let mask: Vec<u8> = (0..bytes.len())
            .map(|at| match bits.saturating_sub(at * 8) {
                0 => 0,
                left @ 1..=7 => 0xff << (8 - left),
                _ => 0xff,
            })
            .collect();
        if bits > mask.len() * 8 {
            return Err(wrong());
        }
        bytes.extend(mask);
    }
    Ok(bytes)
}

/// Returns the number of bits of a mask, which is a number or an address.
fn length(mask: &str) -> Option<usize> {
    if let Ok(bits) = mask.parse() {
        return Some(bits);
    }
    let bits = match mask.parse().ok()? {
        IpAddr::V4(four) => u128::from(four.to_bits()) << 96,
        IpAddr::V6(six) => six.to_bits(),
    };
    let ones = bits.leading_ones();
    (ones == bits.count_ones()).then_some(ones as usize)
}

/// Encodes general names as a sequence.
///
/// # Errors
/// When one is of an unknown kind.
pub(crate) fn sequence(given: &Value) -> Result<Vec<u8>, Error> {
    Ok(part(SEQUENCE, &names(&pairs(given))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_forms_are_the_same() {
        let text = sequence(&"DNS:a.b, IP:10.0.0.1".into()).unwrap();
        assert_eq!(text, b"\x30\x0b\x82\x03a.b\x87\x04\x0a\0\0\x01");
        let list = Value::list(["DNS:a.b".into(), Map::new().with("IP", "10.0.0.1").into()]);
        assert_eq!(sequence(&list).unwrap(), text);
        assert_eq!(
            address("10.0.0.0/12").unwrap(),
            [10, 0, 0, 0, 255, 240, 0, 0]
        );
        assert_eq!(length("255.240.0.0"), Some(12));
        assert_eq!(length("255.0.255.0"), None);
        assert!(sequence(&"what:ever".into()).is_err());
        assert_eq!(
            conf("critical, CA:true").1,
            [("CA".to_owned(), Some("true".to_owned()))]
        );
    }
}
