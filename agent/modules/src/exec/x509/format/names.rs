//! Distinguished names.

use state::module::Error;
use value::{Map, Value};

use super::der::{Der, IA5, OID, PRINTABLE, SEQUENCE, SET, UTF8, oid, part, parts};
use super::print::{dotted, text};

/// Salt's short names in the order in which they are written, with the longer ones, the
/// identifiers, and whether RFC 4514 uses the name.
pub(crate) const ATTRIBUTES: &[(&str, &[&str], &str, bool)] = &[
    ("C", &[], "2.5.4.6", true),
    ("ST", &["stateOrProvinceName"], "2.5.4.8", true),
    ("L", &["localityName"], "2.5.4.7", true),
    ("STREET", &[], "2.5.4.9", true),
    ("O", &["organizationName"], "2.5.4.10", true),
    (
        "OU",
        &["organizationalUnitName", "organizationUnitName"],
        "2.5.4.11",
        true,
    ),
    ("CN", &["commonName"], "2.5.4.3", true),
    (
        "MAIL",
        &["Email", "emailAddress"],
        "1.2.840.113549.1.9.1",
        false,
    ),
    ("SN", &["surname"], "2.5.4.4", false),
    ("GN", &["givenName"], "2.5.4.42", false),
    ("UID", &[], "0.9.2342.19200300.100.1.1", true),
    ("SERIALNUMBER", &["serialNumber"], "2.5.4.5", false),
    ("DC", &[], "0.9.2342.19200300.100.1.25", true),
];

/// A name: its parts in order, each with one or several attributes by their identifiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Name(Vec<Vec<(String, String)>>);

impl Name {
    /// Reads a name from a user's argument: a text in RFC 4514's form, a list of such parts, or a
    /// dictionary.
    ///
    /// # Errors
    /// When it is none of these.
    pub(crate) fn parse(given: &Value) -> Result<Self, Error> {
        match given {
            Value::Str(text) => {
                let parts: Result<Vec<_>, Error> = split(text, ',')
                    .iter()
                    .rev()
                    .map(|part| relative(part))
                    .collect();
                Ok(Self(parts?))
            }
            Value::List(items) => {
                let parts: Result<Vec<_>, Error> =
                    items.iter().map(|item| relative(&item.to_text())).collect();
                Ok(Self(parts?))
            }
            Value::Map(map) => Ok(Self::from_map(map)),
            _ => Err("Need string, list or dict to parse distinguished names".into()),
        }
    }

    fn from_map(map: &Map) -> Self {
        let attribute = |(short, _, oid, _): &(&str, &[&str], &str, bool)| {
            let value = map.get(short).filter(|value| !value.is_null())?;
            Some(vec![((*oid).to_owned(), value.to_text())])
        };
        Self(ATTRIBUTES.iter().filter_map(attribute).collect())
    }

    /// Parses DER, including the outer element.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let sets = Der(Der(der).take(SEQUENCE)?).parts();
        let attribute = |(_, attribute): (u8, &[u8])| {
            let mut attribute = Der(attribute);
            let oid = dotted(attribute.take(OID)?);
            let (tag, value) = attribute.next()?;
            Some((oid, text(tag, value)))
        };
        Some(Self(
            sets.map(|(_, set)| Der(set).parts().filter_map(attribute).collect())
                .collect(),
        ))
    }

    /// Encodes the name as DER.
    ///
    /// # Errors
    /// When an identifier is invalid.
    pub(crate) fn der(&self) -> Result<Vec<u8>, Error> {
        let mut sets = Vec::new();
        for part_ in &self.0 {
            let mut attributes = Vec::new();
            for (name, value) in part_ {
                let oid =
                    oid(name).ok_or_else(|| Error::refused(format!("Invalid oid: {name}")))?;
                let tag = match name.as_str() {
                    "2.5.4.6" | "2.5.4.5" => PRINTABLE,
                    "1.2.840.113549.1.9.1" | "0.9.2342.19200300.100.1.25" => IA5,
                    _ => UTF8,
                };
                attributes.push(parts(SEQUENCE, &[oid, part(tag, value.as_bytes())]));
            }
            attributes.sort_unstable();
            sets.push(parts(SET, &attributes));
        }
        Ok(parts(SEQUENCE, &sets))
    }

    /// Formats the name as in RFC 4514, with the last part first.
    pub(crate) fn to_rfc4514(&self) -> String {
        let attribute = |(oid, value): &(String, String)| {
            let known = ATTRIBUTES
                .iter()
                .find(|(_, _, known, is_short)| known == oid && *is_short);
            format!(
                "{}={}",
                known.map_or(oid.as_str(), |(short, ..)| short),
                escaped(value)
            )
        };
        let part =
            |part: &Vec<(String, String)>| part.iter().map(attribute).collect::<Vec<_>>().join("+");
        self.0.iter().rev().map(part).collect::<Vec<_>>().join(",")
    }

    /// Returns the attributes by Salt's short names, in Salt's order.
    pub(crate) fn map(&self) -> Map {
        let value = |(short, _, oid, _): &(&str, &[&str], &str, bool)| {
            let mut all = self.0.iter().flatten();
            let (_, value) = all.find(|(known, _)| known == oid)?;
            Some((Value::from(*short), Value::from(value.as_str())))
        };
        ATTRIBUTES
            .iter()
            .filter(|(short, ..)| *short != "DC")
            .filter_map(value)
            .collect()
    }
}

/// Splits at marks that no backslash precedes.
fn split(text: &str, mark: char) -> Vec<String> {
    let (mut all, mut last, mut is_escaped) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        if c == mark && !is_escaped {
            all.push(std::mem::take(&mut last));
            continue;
        }
        is_escaped = c == '\\' && !is_escaped;
        last.push(c);
    }
    all.push(last);
    all
}

/// Parses one part of a name: `CN=one+UID=two`.
fn relative(text: &str) -> Result<Vec<(String, String)>, Error> {
    let attribute = |part: &String| {
        let wrong = || Error::refused(format!("Failed parsing rdn string: {text}"));
        let (name, value) = part.split_once('=').ok_or_else(wrong)?;
        let name = name.trim();
        let known = ATTRIBUTES
            .iter()
            .find(|(short, long, ..)| *short == name || long.contains(&name));
        let oid = match known {
            Some((_, _, oid, _)) => (*oid).to_owned(),
            None if name.contains('.') && oid(name).is_some() => name.to_owned(),
            None => return Err(wrong()),
        };
        Ok((oid, unescaped(value.trim())))
    };
    split(text, '+').iter().map(attribute).collect()
}

fn unescaped(text: &str) -> String {
    let mut is_escaped = false;
    text.chars()
        .filter(|c| {
            is_escaped = *c == '\\' && !is_escaped;
            !is_escaped
        })
        .collect()
}

fn escaped(text: &str) -> String {
    let mut all = String::new();
    let last = text.chars().count().saturating_sub(1);
    for (at, c) in text.chars().enumerate() {
        let is_edge = c == ' ' && (at == 0 || at == last) || c == '#' && at == 0;
        if is_edge || matches!(c, '\\' | '"' | '+' | ',' | ';' | '<' | '>') {
            all.push('\\');
        }
        all.push(c);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_as_it_went() {
        let given = r"CN=a\,b+UID=c,O=Pinch,C=DE";
        let name = Name::parse(&given.into()).unwrap();
        assert_eq!(name.to_rfc4514(), given);
        assert_eq!(Name::read(&name.der().unwrap()).unwrap(), name);
        let map = Map::new().with("CN", "a").with("C", "DE");
        assert_eq!(Name::parse(&map.into()).unwrap().to_rfc4514(), "CN=a,C=DE");
        assert!(Name::parse(&"nothing".into()).is_err());
    }
}
