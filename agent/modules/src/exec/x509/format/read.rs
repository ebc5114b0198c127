//! The contents of extensions, in the dictionaries that Salt's `read_*` functions return.

use std::net::IpAddr;

use value::{Map, Value};

use super::der::{BIT_STRING, BOOLEAN, Der, INTEGER, OID, SEQUENCE, part};
use super::extensions::{EXTENSIONS, PURPOSES, REASONS, USAGES};
use super::names::Name;
use super::parts::Extension;
use super::print::{self, decimal, dotted, time};

/// Formats bytes as `0A:FF`.
pub(crate) fn colons(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    digits.join(":")
}

/// Formats a number as Salt does, without leading zeros.
pub(crate) fn number(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    match bytes.get(zeros..).unwrap_or_default() {
        [] => "00".to_owned(),
        bytes => colons(bytes),
    }
}

/// Formats a time as Salt does: `2026-01-31 12:00:00`.
pub(crate) fn moment(stamp: &str) -> String {
    let part = |from: usize, to: usize| stamp.get(from..to).unwrap_or_default();
    let (date, clock) = ((part(0, 4), part(4, 6), part(6, 8)), part(8, 14));
    let (hours, rest) = clock.split_at_checked(2).unwrap_or_default();
    let (minutes, seconds) = rest.split_at_checked(2).unwrap_or_default();
    format!(
        "{}-{}-{} {hours}:{minutes}:{seconds}",
        date.0, date.1, date.2
    )
}

/// Returns the name of a signature's algorithm.
pub(crate) fn algorithm(oid: &str) -> String {
    // Only OpenSSL uses capitals here.
    print::algorithm(oid).replace("ED", "ed")
}

type Tell = fn(&[u8]) -> Option<Map>;

/// The functions that read each extension, in Salt's order. Other extensions are not returned.
const TOLD: &[(&str, Tell)] = &[
    ("2.5.29.19", basic),
    ("2.5.29.15", usage),
    ("2.5.29.37", purposes),
    ("2.5.29.14", |value| {
        value_of(colons(Der(value).take(0x04)?))
    }),
    ("2.5.29.35", authority_key),
    ("2.5.29.18", |value| {
        value_of(names(Der(value).take(SEQUENCE)?))
    }),
    ("1.3.6.1.5.5.7.1.1", access),
    ("2.5.29.17", |value| {
        value_of(names(Der(value).take(SEQUENCE)?))
    }),
    ("2.5.29.31", points),
    ("2.5.29.28", issuing_point),
    ("2.5.29.32", policies),
    ("2.5.29.36", policy_constraints),
    ("2.5.29.54", |value| {
        value_of(integer(Der(value).take(INTEGER)?))
    }),
    ("2.5.29.30", name_constraints),
    ("1.3.6.1.5.5.7.48.1.5", |_| value_of(true)),
    ("1.3.6.1.5.5.7.1.24", features),
    ("2.5.29.20", |value| {
        value_of(integer(Der(value).take(INTEGER)?))
    }),
    ("2.5.29.27", |value| {
        value_of(integer(Der(value).take(INTEGER)?))
    }),
    ("2.5.29.46", points),
    // The extensions of an entry of a revocation list.
    ("2.5.29.29", |value| {
        value_of(names(Der(value).take(SEQUENCE)?))
    }),
    ("2.5.29.21", reason),
    ("2.5.29.24", |value| {
        value_of(moment(&time(Der(value).next()?)?))
    }),
];

/// Returns all extensions that Salt returns.
pub(crate) fn all(extensions: &[Extension]) -> Map {
    let one = |(oid, tell): &(&str, Tell)| {
        let found = extensions.iter().find(|one| one.oid == *oid)?;
        let mut told = Map::new().with("critical", found.is_critical);
        told.update(tell(&found.value).unwrap_or_else(|| {
            // An extension that cannot be parsed is shown as its bytes.
            Map::new().with("value", colons(&found.value))
        }));
        let mut known = EXTENSIONS.iter().chain(super::crl::EXTENSIONS);
        let name = known.find(|(_, _, known, _)| known == oid);
        Some((
            Value::from(name.map_or(*oid, |(name, ..)| name)),
            Value::from(told),
        ))
    };
    TOLD.iter().filter_map(one).collect()
}

fn value_of(value: impl Into<Value>) -> Option<Map> {
    Some(Map::new().with("value", value))
}

fn integer(bytes: &[u8]) -> Value {
    let digits = decimal(bytes);
    digits
        .parse::<i64>()
        .map_or_else(|_| Value::Big(digits.into()), Value::Int)
}

fn truth(given: Option<&[u8]>) -> bool {
    given.is_some_and(|truth| truth != [0])
}

fn basic(value: &[u8]) -> Option<Map> {
    let mut inside = Der(Der(value).take(SEQUENCE)?);
    let ca = truth(inside.take(BOOLEAN));
    let length = inside.take(INTEGER).map_or(Value::Null, integer);
    Some(Map::new().with("ca", ca).with("pathlen", length))
}

fn usage(value: &[u8]) -> Option<Map> {
    let (_, bytes) = Der(value).take(BIT_STRING)?.split_first()?;
    let is_set = |bit: usize| {
        bytes
            .get(bit / 8)
            .is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0)
    };
    let mut all: Vec<(&str, bool)> = USAGES
        .iter()
        .enumerate()
        .map(|(bit, name)| (*name, is_set(bit)))
        .collect();
    all.sort_unstable();
    Some(all.into_iter().collect())
}

fn named(dotted: String, names: &[(&str, &str)]) -> Value {
    let known = names.iter().find(|(_, oid)| *oid == dotted);
    known.map_or_else(|| dotted.as_str().into(), |(name, _)| Value::from(*name))
}

fn purposes(value: &[u8]) -> Option<Map> {
    let all = Der(Der(value).take(SEQUENCE)?).parts();
    value_of(Value::list(all.map(|(_, oid)| match dotted(oid) {
        any if any == "2.5.29.37.0" => "anyExtendedKeyUsage".into(),
        oid => named(oid, PURPOSES),
    })))
}

fn authority_key(value: &[u8]) -> Option<Map> {
    let mut inside = Der(Der(value).take(SEQUENCE)?);
    let or_none = |given: Option<Value>| given.unwrap_or_default();
    let keyid = inside.take(0x80).map(|bytes| Value::from(colons(bytes)));
    let issuer = inside.take(0xa1).map(names);
    let serial = inside.take(0x82).map(|bytes| Value::from(number(bytes)));
    let told = Map::new().with("keyid", or_none(keyid));
    Some(
        told.with("issuer", or_none(issuer))
            .with("issuer_sn", or_none(serial)),
    )
}

fn access(value: &[u8]) -> Option<Map> {
    let ways = Der(Der(value).take(SEQUENCE)?)
        .parts()
        .filter_map(|(_, way)| {
            let mut way = Der(way);
            let method = named(dotted(way.take(OID)?), super::extensions::METHODS);
            let name = general(way.next()?);
            let place = name
                .split_once(':')
                .map_or(name.as_str(), |(_, place)| place);
            Some(Value::from(Map::new().with(&method.to_text(), place)))
        });
    value_of(Value::list(ways))
}

/// Returns the reasons of the bits of a BIT STRING, in alphabetical order.
fn reasons(bits: Option<&[u8]>) -> Value {
    let bytes = bits
        .and_then(<[u8]>::split_first)
        .map(|(_, bytes)| bytes)
        .unwrap_or_default();
    let is_set = |bit: usize| {
        bytes
            .get(bit / 8)
            .is_some_and(|byte| byte & (0x80 >> (bit % 8)) != 0)
    };
    let mut all: Vec<&str> = super::extensions::FLAGS
        .iter()
        .enumerate()
        .filter(|(bit, _)| is_set(*bit))
        .map(|(_, name)| *name)
        .collect();
    all.sort_unstable();
    Value::list(all.into_iter().map(Value::from))
}

/// Returns the name of a distribution point: the full name, or the relative one.
fn point_name(der: Option<&[u8]>) -> (Value, Value) {
    match der.and_then(|der| Der(der).next()) {
        Some((0xa0, all)) => (names(all), Value::Null),
        Some((_, relative)) => {
            let name = Name::read(&part(SEQUENCE, &part(super::der::SET, relative)));
            (
                Value::list([]),
                name.unwrap_or_default().to_rfc4514().into(),
            )
        }
        None => (Value::list([]), Value::Null),
    }
}

fn points(value: &[u8]) -> Option<Map> {
    let all = Der(Der(value).take(SEQUENCE)?).parts().map(|(_, point)| {
        let mut point = Der(point);
        let (full, relative) = point_name(point.take(0xa0));
        let flags = reasons(point.take(0x81));
        let issuer = point.take(0xa2).map_or_else(|| Value::list([]), names);
        let told = Map::new().with("crlissuer", issuer).with("fullname", full);
        Value::from(told.with("reasons", flags).with("relativename", relative))
    });
    value_of(Value::list(all))
}

fn issuing_point(value: &[u8]) -> Option<Map> {
    let mut inside = Der(Der(value).take(SEQUENCE)?);
    let (full, relative) = point_name(inside.take(0xa0));
    let (user, ca) = (truth(inside.take(0x81)), truth(inside.take(0x82)));
    let flags = reasons(inside.take(0x83));
    let (indirect, attributes) = (truth(inside.take(0x84)), truth(inside.take(0x85)));
    // Salt's own spelling of the second name.
    let told = Map::new()
        .with("fullname", full)
        .with("onysomereasons", flags);
    let told = told.with("relativename", relative).with("onlyuser", user);
    let told = told.with("onlyCA", ca).with("onlyAA", attributes);
    Some(told.with("indirectCRL", indirect))
}

fn policies(value: &[u8]) -> Option<Map> {
    let all = Der(Der(value).take(SEQUENCE)?)
        .parts()
        .filter_map(|(_, policy)| {
            let mut policy = Der(policy);
            let id = dotted(policy.take(OID)?);
            let qualifiers = Der(policy.take(SEQUENCE).unwrap_or_default()).parts();
            let qualifiers = qualifiers.filter_map(|(_, qualifier)| {
                let mut qualifier = Der(qualifier);
                let is_cps = dotted(qualifier.take(OID)?) == "1.3.6.1.5.5.7.2.1";
                let (tag, text) = qualifier.next()?;
                is_cps.then(|| {
                    Value::from(Map::new().with("practice_statement", print::text(tag, text)))
                })
            });
            let told = Map::new().with(&id, Value::list(qualifiers));
            Some(Value::from(told))
        });
    value_of(Value::list(all))
}

fn policy_constraints(value: &[u8]) -> Option<Map> {
    let mut inside = Der(Der(value).take(SEQUENCE)?);
    let require = inside.take(0x80).map_or(Value::Null, integer);
    let inhibit = inside.take(0x81).map_or(Value::Null, integer);
    Some(
        Map::new()
            .with("inhibitPolicyMapping", inhibit)
            .with("requireExplicitPolicy", require),
    )
}

fn name_constraints(value: &[u8]) -> Option<Map> {
    let mut inside = Der(Der(value).take(SEQUENCE)?);
    let trees = |all: Option<&[u8]>| {
        let trees = Der(all.unwrap_or_default()).parts();
        Value::list(trees.filter_map(|(_, tree)| Some(Value::from(general(Der(tree).next()?)))))
    };
    let permitted = trees(inside.take(0xa0));
    Some(
        Map::new()
            .with("excluded", trees(inside.take(0xa1)))
            .with("permitted", permitted),
    )
}

fn features(value: &[u8]) -> Option<Map> {
    let all = Der(Der(value).take(SEQUENCE)?).parts();
    value_of(Value::list(all.map(|(_, number)| match number {
        [5] => "status_request".into(),
        [17] => "status_request_v2".into(),
        other => integer(other),
    })))
}

fn reason(value: &[u8]) -> Option<Map> {
    let (_, number) = Der(value).next()?;
    let known = REASONS.iter().find(|(_, known)| number == [*known]);
    value_of(known.map_or_else(|| integer(number), |(name, _)| Value::from(*name)))
}

fn names(der: &[u8]) -> Value {
    Value::list(Der(der).parts().map(|name| Value::from(general(name))))
}

/// Formats a general name as Salt does.
fn general((tag, value): (u8, &[u8])) -> String {
    let text = || String::from_utf8_lossy(value);
    match tag {
        0x81 => format!("mail:{}", text()),
        0x82 => format!("DNS:{}", text()),
        0x86 => format!("URI:{}", text()),
        0x87 => format!("IP:{}", address(value)),
        0x88 => format!("RID:{}", dotted(value)),
        0xa4 => format!(
            "dirName:{}",
            Name::read(value).unwrap_or_default().to_rfc4514()
        ),
        _ => colons(value),
    }
}

/// Formats an address with all its digits, or a network as address and prefix length.
fn address(bytes: &[u8]) -> String {
    let one = |bytes: &[u8]| match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(four), _) => Some(IpAddr::from(four).to_string()),
        (_, Ok(six)) => {
            let groups = six.chunks_exact(2).map(colons);
            let groups: Vec<String> = groups
                .map(|group| group.replace(':', "").to_lowercase())
                .collect();
            Some(groups.join(":"))
        }
        _ => None,
    };
    let (front, mask) = bytes.split_at(bytes.len() / 2);
    let bits: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    match bytes.len() {
        8 | 32 => one(front).map(|front| format!("{front}/{bits}")),
        _ => one(bytes),
    }
    .unwrap_or_else(|| colons(bytes))
}
