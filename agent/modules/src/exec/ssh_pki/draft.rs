//! A certificate that is to be created: the arguments, and the comparison with an existing one.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, random};

use super::certificate::{Certificate, Contents, Options, Use};
use super::private::Private;
use super::public::Public;
use crate::exec::x509::format::issue::{given, moment};
use crate::exec::x509::format::pem;

/// The names of all arguments.
const ARGUMENTS: [&str; 15] = [
    "signing_private_key",
    "cert_type",
    "valid_principals",
    "all_principals",
    "signing_private_key_passphrase",
    "public_key",
    "private_key",
    "private_key_passphrase",
    "serial_number",
    "key_id",
    "not_before",
    "not_after",
    "ttl",
    "critical_options",
    "extensions",
];

const HOUR_S: f64 = 3600.0;
const DAY_S: f64 = 24.0 * HOUR_S;

/// The maximum number of principals of a certificate, as in OpenSSH.
const PRINCIPALS_MAX: usize = 256;

/// A certificate that is to be created.
pub(crate) struct Draft {
    pub(crate) contents: Contents,
    has_serial: bool,
    has_key_id: bool,
}

/// Returns a period in seconds: a number, or a text such as `30d` or `1.5h`. Returns `None` for
/// null.
///
/// # Errors
/// When it is neither.
pub(crate) fn seconds(period: &Value) -> Result<Option<f64>, Error> {
    let text = match period {
        Value::Null => return Ok(None),
        Value::Str(text) => text.trim(),
        other => {
            let number = other.as_float();
            return number
                .map(Some)
                .ok_or_else(|| "Expected integer, float or time string".into());
        }
    };
    if let Ok(number) = text.parse() {
        return Ok(Some(number));
    }
    let wrong = || Error::refused(format!("Invalid time string format: {text}"));
    let units = [('s', 1.0), ('m', 60.0), ('h', HOUR_S), ('d', DAY_S)];
    let mut units = units
        .iter()
        .filter_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, factor)));
    let (number, factor) = units.next().ok_or_else(wrong)?;
    let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number = number.parse::<f64>().ok().filter(|_| is_plain);
    Ok(Some(number.ok_or_else(wrong)? * factor))
}

/// Returns the current time in seconds since 1970.
pub(crate) fn now() -> f64 {
    value::clock::since_epoch().as_secs_f64()
}

/// Returns an argument that is given and not empty.
pub(super) fn named<'a>(args: &'a Map, name: &str) -> Option<&'a Value> {
    given(args, name).filter(|value| value.is_true())
}

fn text(args: &Map, name: &str) -> Option<String> {
    given(args, name).map(Value::to_text)
}

/// Returns a time in seconds since 1970 from an argument in UTC: `2026-01-31 12:00:00`.
fn time(args: &Map, name: &str) -> Result<Option<u64>, Error> {
    let Some(given) = named(args, name) else {
        return Ok(None);
    };
    let seconds = moment(&given.to_text())?.as_second();
    u64::try_from(seconds)
        .map(Some)
        .map_err(|_| Error::refused(format!("{name} is before 1970")))
}

fn serial(args: &Map) -> Result<u64, Error> {
    const RANGE: &str = "serial must be between 0 and 2**64";
    let Some(given) = given(args, "serial_number") else {
        let bytes: [u8; 8] = random::array()?;
        return Ok(u64::from_be_bytes(bytes) >> 1);
    };
    match given {
        Value::Int(number) => u64::try_from(*number).map_err(|_| RANGE.into()),
        Value::Big(digits) => digits.parse().map_err(|_| RANGE.into()),
        other => {
            let text = other.to_text();
            let bytes = pem::unhexed(&text);
            let bytes = bytes
                .ok_or_else(|| Error::refused(format!("Could not parse serial number {text}")))?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let digits = bytes.get(zeros..).unwrap_or_default();
            match digits.len() {
                0..=8 => Ok(digits
                    .iter()
                    .fold(0, |all, byte| all << 8 | u64::from(*byte))),
                _ => Err(RANGE.into()),
            }
        }
    }
}

/// Returns the dictionary of an argument or a setting with options.
fn dictionary(value: Value, name: &str) -> Result<Map, Error> {
    match value {
        Value::Map(map) => Ok(map),
        other => Err(Error::refused(format!(
            "{name} must be a dictionary of options, not a {}",
            other.type_name()
        ))),
    }
}

/// Returns critical options or extensions. `True` is the value of those that need none; those with
/// a false value are left out.
fn options(args: &Map, name: &str) -> Result<Options, Error> {
    let Some(all) = named(args, name) else {
        return Ok(Options::new());
    };
    let all = dictionary(all.clone(), name)?.into_iter();
    let all = all.filter(|(_, value)| value.is_true());
    Ok(all
        .map(|(name, value)| {
            let value = match value {
                Value::Bool(_) => String::new(),
                other => other.to_text(),
            };
            (name.to_text().into_bytes(), value.into_bytes())
        })
        .collect())
}

fn principals(args: &Map) -> Result<Vec<Vec<u8>>, Error> {
    let names = named(args, "valid_principals").map(Value::texts);
    match names {
        Some(names) if names.len() > PRINCIPALS_MAX => {
            Err("Reached or exceeded the maximum number of valid_principals".into())
        }
        Some(names) => Ok(names.into_iter().map(String::into_bytes).collect()),
        None if named(args, "all_principals").is_some() => Ok(Vec::new()),
        None => Err("Must either set all_principals to true or specify principals to allow".into()),
    }
}

/// Returns the key that the certificate is for.
fn key(cx: &Exec, args: &Map) -> Result<Public, Error> {
    if let Some(private) = named(args, "private_key") {
        let passphrase = text(args, "private_key_passphrase");
        return Ok(Private::load(cx, private, passphrase.as_deref())?.public);
    }
    let public = named(args, "public_key");
    Public::load(public.ok_or("Need public_key or private_key to derive public key to sign")?)
}

/// Reads the private key of the authority.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn signer(cx: &Exec, args: &Map) -> Result<Private, Error> {
    let key = given(args, "signing_private_key").unwrap_or(&Value::Null);
    let passphrase = text(args, "signing_private_key_passphrase");
    Private::load(cx, key, passphrase.as_deref())
}

impl Draft {
    /// Creates a draft from the arguments of `create_certificate`, to which the signing policy was
    /// applied.
    ///
    /// # Errors
    /// When an argument is invalid, or something that it names cannot be read.
    pub(crate) fn from_arguments(cx: &Exec, args: &Map) -> Result<Self, Error> {
        let mut names = args.keys().map(Value::to_text);
        if let Some(other) = names.find(|name| !ARGUMENTS.contains(&name.as_str())) {
            return Err(Error::refused(format!(
                "build_crt() got an unexpected keyword argument '{other}'"
            )));
        }
        let (cert_type, default) = match text(args, "cert_type").as_deref() {
            Some("user") => (Use::User, DAY_S),
            Some("host") => (Use::Host, 30.0 * DAY_S),
            other => {
                let other = other.unwrap_or("None");
                return Err(Error::refused(format!(
                    "Cert type needs to be either `user` or `host`, got '{other}'"
                )));
            }
        };
        let serial = serial(args)?;
        let key = key(cx, args)?;
        let key_id = text(args, "key_id");
        let principals = principals(args)?;
        let ttl = seconds(args.get("ttl").unwrap_or(&Value::Null))?.unwrap_or(default);
        let valid_after = time(args, "not_before")?.unwrap_or_else(|| now() as u64);
        let valid_before = time(args, "not_after")?.unwrap_or_else(|| (now() + ttl) as u64);
        Ok(Self {
            has_serial: given(args, "serial_number").is_some(),
            has_key_id: key_id.is_some(),
            contents: Contents {
                key,
                serial,
                cert_type,
                key_id: key_id.unwrap_or_default().into_bytes(),
                principals,
                valid_after,
                valid_before,
                critical_options: options(args, "critical_options")?,
                extensions: options(args, "extensions")?,
            },
        })
    }

    /// Returns how an existing certificate differs. `authority` is the key that it should be signed
    /// with; `serial` is the number as the user gave it.
    ///
    /// # Errors
    /// When openssl is missing.
    pub(crate) fn changes(
        &self,
        cx: &Exec,
        current: &Certificate,
        authority: &Public,
        serial: &Value,
    ) -> Result<Map, Error> {
        let (old, new) = (&current.contents, &self.contents);
        let mut changes = Map::new();
        if self.has_serial && old.serial != new.serial {
            changes.insert("serial_number", serial.clone());
        }
        if old.key != new.key {
            changes.insert("private_key", true);
        }
        if !current.is_signed(cx)? || current.authority != *authority {
            changes.insert("signing_private_key", true);
        }
        if self.has_key_id && old.key_id != new.key_id {
            let key_id = Map::new()
                .with("old", lossy(&old.key_id))
                .with("new", lossy(&new.key_id));
            changes.insert("key_id", key_id);
        }
        if old.cert_type != new.cert_type {
            changes.insert("cert_type", new.cert_type.name());
        }
        let parts = [
            ("extensions", compared(&old.extensions, &new.extensions)),
            (
                "critical_options",
                compared(&old.critical_options, &new.critical_options),
            ),
            (
                "principals",
                compared_principals(&old.principals, &new.principals),
            ),
        ];
        for (name, part) in parts {
            if let Some(part) = part {
                changes.insert(name, part);
            }
        }
        Ok(changes)
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn list<'a>(names: impl Iterator<Item = &'a Vec<u8>>) -> Value {
    Value::list(names.map(|name| lossy(name).into()))
}

/// Returns the names that were added, changed and removed; `None` if there are none.
fn compared(old: &Options, new: &Options) -> Option<Map> {
    let added = new.keys().filter(|name| !old.contains_key(*name));
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    let changed = new
        .iter()
        .filter(|(name, value)| old.get(*name).is_some_and(|known| known != *value))
        .map(|(name, _)| name);
    let all = Map::new()
        .with("added", list(added))
        .with("changed", list(changed))
        .with("removed", list(removed));
    let differs = all.values().any(Value::is_true);
    differs.then_some(all)
}

fn compared_principals(old: &[Vec<u8>], new: &[Vec<u8>]) -> Option<Map> {
    const ALL: &str = "*ALL*";
    let missing = |from: &[Vec<u8>], other: &[Vec<u8>]| {
        list(from.iter().filter(|name| !other.contains(name)))
    };
    let (added, removed) = match (old.is_empty(), new.is_empty()) {
        (true, true) => return None,
        (false, true) => (ALL.into(), Value::list([])),
        (true, false) => (missing(new, old), ALL.into()),
        (false, false) => (missing(new, old), missing(old, new)),
    };
    let all = Map::new().with("added", added).with("removed", removed);
    let differs = all.values().any(Value::is_true);
    differs.then_some(all)
}

/// Applies a signing policy, which overrides the arguments.
///
/// # Errors
/// When options, a time or a period of either are invalid.
pub(crate) fn merge(args: &mut Map, mut policy: Map) -> Result<(), Error> {
    policy.remove("minions");
    if policy.is_empty() {
        return Ok(());
    }
    for (name, default, allowed) in [
        (
            "critical_options",
            "default_critical_options",
            "allowed_critical_options",
        ),
        ("extensions", "default_extensions", "allowed_extensions"),
    ] {
        let merged = merged_options(args.get(name), &mut policy, (name, default, allowed))?;
        args.insert(name, merged);
    }
    merge_principals(args, &mut policy);
    merge_period(args, &mut policy)?;
    args.update(policy);
    Ok(())
}

/// Returns the default options of a policy, then the given ones that it allows, then those that it
/// sets.
fn merged_options(
    given: Option<&Value>,
    policy: &mut Map,
    (forced, default, allowed): (&str, &str, &str),
) -> Result<Value, Error> {
    let map = |value: Option<Value>, name: &str| match value.filter(Value::is_true) {
        Some(value) => dictionary(value, name),
        None => Ok(Map::new()),
    };
    let given = map(given.cloned(), forced)?;
    let mut all = map(policy.remove(default), default)?;
    let forced = map(policy.remove(forced), forced)?;
    let allowed = policy.remove(allowed).map(|names| names.texts());
    let allowed = allowed.unwrap_or_else(|| vec!["*".to_owned()]);
    let allows = |name: &Value| {
        let name = name.to_text();
        allowed.iter().any(|known| *known == "*" || *known == name)
    };
    all.update(given.into_iter().filter(|(name, _)| allows(name)).collect());
    all.update(forced);
    Ok(match all.is_empty() {
        true => Value::Null,
        false => all.into(),
    })
}

fn merge_principals(args: &mut Map, policy: &mut Map) {
    let own = policy.remove("valid_principals");
    let allowed = policy.remove("allowed_valid_principals").or(own);
    let default = policy.remove("default_valid_principals");
    let Some(allowed) = allowed.filter(|allowed| !allowed.is_null()) else {
        return;
    };
    let default = default.unwrap_or_else(|| allowed.clone());
    let wants_all = args
        .remove("all_principals")
        .is_some_and(|all| all.is_true());
    let names = named(args, "valid_principals").map(Value::texts);
    let principals = match names {
        Some(names) => {
            let allowed = allowed.texts();
            let names = names.into_iter().filter(|name| allowed.contains(name));
            let names = Value::from(names.collect::<Vec<String>>());
            if names.is_true() { names } else { default }
        }
        None if wants_all => allowed,
        None => default,
    };
    args.insert("valid_principals", principals);
}

/// Restricts the validity to that of the policy.
fn merge_period(args: &mut Map, policy: &mut Map) -> Result<(), Error> {
    let of = |value: Option<Value>| seconds(&value.unwrap_or_default());
    let default = of(policy.remove("ttl"))?;
    let most = match policy.remove("max_ttl") {
        Some(most) => seconds(&most)?,
        None => default,
    };
    let mut wanted = of(args.remove("ttl"))?;
    let start = time(args, "not_before")?.unwrap_or_else(|| now() as u64) as f64;
    if let Some(end) = time(args, "not_after")? {
        // It overrides the period.
        wanted = Some(end as f64 - start);
    }
    args.remove("not_before");
    args.remove("not_after");
    let period = match (wanted, most) {
        (None, most) => default.or(most),
        (Some(wanted), Some(most)) => Some(wanted.min(most)),
        (wanted, None) => wanted,
    };
    if let Some(period) = period {
        args.insert("not_before", moment_text(start as u64));
        args.insert("not_after", moment_text((start + period) as u64));
    }
    args.insert("ttl", period);
    Ok(())
}

/// The last second that Python can print.
const LAST_S: i64 = 253_402_300_799;

/// Returns a time in UTC from seconds since 1970: `2026-01-31 12:00:00`.
pub(super) fn moment_text(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(LAST_S).min(LAST_S);
    let moment = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    let moment = moment.to_zoned(jiff::tz::TimeZone::UTC);
    moment.strftime("%Y-%m-%d %H:%M:%S").to_string()
}
