//! The notations for a version: `1.2-3`, `1.*`, `>=1.2`, `>=1.2, <2`.

use std::cmp::Ordering;

use value::glob::fnmatch;
use value::log;

use super::Provider;

/// The comparison signs, longest first.
const SIGNS: [&str; 10] = ["<=>", "!=", ">=", "<=", ">>", "<<", "<>", ">", "<", "="];

/// Splits `>=1.0` into the sign, empty if there is none, and the version.
pub(crate) fn split(version: &str) -> (&str, &str) {
    let sign = SIGNS.into_iter().find(|sign| version.starts_with(sign));
    let rest = version.get(sign.unwrap_or_default().len()..);
    let rest = rest.unwrap_or_default();
    let number = match rest.strip_prefix(char::is_whitespace) {
        Some(number) if !number.is_empty() => number,
        _ => rest,
    };
    match number.is_empty() || number.contains(['<', '>', '=']) {
        true => ("", version),
        false => (sign.unwrap_or_default(), number),
    }
}

/// Returns true for a condition that only the versions in the repositories can answer.
pub(crate) fn is_comparison(version: &str) -> bool {
    version.starts_with(['<', '>'])
}

/// Returns the sign of a condition as the comparison uses it.
fn sign(written: &str) -> &str {
    match written {
        "" | "=" => "==",
        sign => sign,
    }
}

/// Returns true if `one SIGN other` holds. Returns false for an invalid version or sign.
pub(crate) fn holds(
    provider: &dyn Provider,
    one: &str,
    sign: &str,
    other: &str,
    ignore_epoch: bool,
) -> bool {
    compare(provider, one, other, ignore_epoch).is_some_and(|order| is(order, sign))
}

/// Returns true if an order agrees with a sign. Returns false for an invalid sign.
pub(crate) fn is(order: Ordering, sign: &str) -> bool {
    match sign {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        _ => {
            log::error(format_args!(
                "Invalid operator '{sign}' for version comparison"
            ));
            false
        }
    }
}

/// Compares two versions. With `ignore_epoch`, compares without the epochs, which precede the
/// colon.
pub(crate) fn compare(
    provider: &dyn Provider,
    one: &str,
    other: &str,
    ignore_epoch: bool,
) -> Option<Ordering> {
    match ignore_epoch {
        true => provider.compare(without_epoch(one), without_epoch(other)),
        false => provider.compare(one, other),
    }
}

/// Returns a version without its epoch, which precedes the colon.
pub(crate) fn without_epoch(version: &str) -> &str {
    version.split_once(':').map_or(version, |(_, rest)| rest)
}

/// Returns true if one of the installed versions meets all conditions, which commas separate. If
/// `ignore_epoch` is `None`, `=` ignores the epoch when the wanted version has none.
pub(crate) fn is_met(
    provider: &dyn Provider,
    installed: &[String],
    conditions: &str,
    ignore_epoch: Option<bool>,
    allow_updates: bool,
) -> bool {
    let conditions: Vec<(&str, &str)> = parsed(conditions);
    let alone = conditions.len() == 1;
    let meets = |version: &String, (sign, wanted): (&str, &str)| {
        let sign = match allow_updates && alone && sign == "==" {
            true => ">=",
            false => sign,
        };
        let ignore =
            ignore_epoch.unwrap_or_else(|| !sign.contains(['<', '>']) && !wanted.contains(':'));
        sign == "==" && fnmatch(wanted, version) || holds(provider, version, sign, wanted, ignore)
    };
    installed
        .iter()
        .any(|version| conditions.iter().all(|one| meets(version, *one)))
}

fn parsed(conditions: &str) -> Vec<(&str, &str)> {
    let conditions = conditions.trim();
    if conditions.is_empty() {
        return Vec::new();
    }
    conditions
        .split(',')
        .map(|condition| split(condition.trim()))
        .map(|(written, version)| (sign(written), version))
        .collect()
}

/// Returns true if one of the conditions is an exact version.
pub(crate) fn is_exact(conditions: &str) -> bool {
    parsed(conditions).iter().any(|(sign, _)| *sign == "==")
}

/// Returns the first of these versions that meets the condition.
pub(crate) fn first_match<'a>(
    provider: &dyn Provider,
    condition: &str,
    available: &'a [String],
    ignore_epoch: bool,
) -> Option<&'a String> {
    let ignore_epoch = ignore_epoch.then_some(true);
    let fits = |version: &&String| {
        let version = std::slice::from_ref(*version);
        is_met(provider, version, condition, ignore_epoch, false)
    };
    available.iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::pkg::providers::apt::Apt;

    #[test]
    fn a_version_is_taken_apart_as_salt_does() {
        let cases = [
            ("1.0-1", ("", "1.0-1")),
            (">=1.0", (">=", "1.0")),
            (">= 1.0", (">=", "1.0")),
            ("=1.0", ("=", "1.0")),
            ("==1.0", ("", "==1.0")),
            ("!=2", ("!=", "2")),
            ("<<2", ("<<", "2")),
        ];
        for (written, parts) in cases {
            assert_eq!(split(written), parts, "{written}");
        }
    }

    #[test]
    fn all_conditions_must_hold_for_one_version() {
        let installed = ["1:1.5-2".to_owned()];
        let cases = [
            ("1.5-2", true),
            ("1:1.5-2", true),
            ("2:1.5-2", false),
            ("1:1.*", true),
            (">=1:1.0, <1:2", true),
            (">=1:1.0,<1:1.5", false),
            ("!=1.5-2", false),
            (">=1.6", true),
            ("", true),
        ];
        for (conditions, met) in cases {
            assert_eq!(
                is_met(&Apt, &installed, conditions, None, false),
                met,
                "{conditions}"
            );
        }
        assert!(is_met(&Apt, &installed, "1:1.2", None, true));
    }
}
