//! The order of versions in each package manager.

use std::cmp::Ordering;

/// Compares as dpkg does; `None` when one is not a version that dpkg accepts.
#[must_use]
pub(crate) fn debian(one: &str, other: &str) -> Option<Ordering> {
    let (one, other) = (Debian::parse(one)?, Debian::parse(other)?);
    let upstream = debian_part(one.upstream, other.upstream);
    Some(
        one.epoch
            .cmp(&other.epoch)
            .then(upstream)
            .then_with(|| debian_part(one.revision, other.revision)),
    )
}

/// A version of Debian: `epoch:upstream-revision`.
struct Debian<'a> {
    epoch: u32,
    upstream: &'a str,
    revision: &'a str,
}

impl<'a> Debian<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let (epoch, rest) = match text.split_once(':') {
            Some((epoch, rest)) => (
                epoch.parse().ok().filter(|epoch| *epoch <= 0x7fff_ffff)?,
                rest,
            ),
            None => (0, text),
        };
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        // dpkg accepts characters outside of Debian's policy with a warning, and compares them.
        let is_version =
            !upstream.is_empty() && !rest.ends_with('-') && !rest.contains(char::is_whitespace);
        is_version.then_some(Self {
            epoch,
            upstream,
            revision,
        })
    }
}

/// Compares part by part: characters in Debian's order, then numbers by value.
fn debian_part(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let signs = split_signs(&mut one)
            .map(rank)
            .chain([0])
            .cmp(split_signs(&mut other).map(rank).chain([0]));
        let numbers = number(split_digits(&mut one)).cmp(&number(split_digits(&mut other)));
        let order = signs.then(numbers);
        if order.is_ne() || (one.is_empty() && other.is_empty()) {
            return order;
        }
    }
}

/// Returns a character's rank: `~` sorts before the end, letters before all other characters.
fn rank(sign: char) -> i32 {
    match sign {
        '~' => -1,
        sign if sign.is_ascii_alphabetic() => i32::from(u8::try_from(sign).unwrap_or_default()),
        sign => i32::try_from(u32::from(sign)).unwrap_or(i32::MAX - 256) + 256,
    }
}

fn split_signs<'a>(text: &mut &'a str) -> std::str::Chars<'a> {
    split_while(text, |sign| !sign.is_ascii_digit()).chars()
}

fn split_digits<'a>(text: &mut &'a str) -> &'a str {
    split_while(text, |sign| sign.is_ascii_digit())
}

fn split_while<'a>(text: &mut &'a str, belongs: impl Fn(char) -> bool) -> &'a str {
    let end = text.find(|sign| !belongs(sign)).unwrap_or(text.len());
    let (head, tail) = text.split_at_checked(end).unwrap_or((text, ""));
    *text = tail;
    head
}

/// Returns a sort key for a number of any length: the number of digits and the digits, without
/// leading zeros.
fn number(digits: &str) -> (usize, &str) {
    let digits = digits.trim_start_matches('0');
    (digits.len(), digits)
}

/// Compares as rpm does. A release counts only if both versions have one.
#[must_use]
pub(crate) fn rpm(one: &str, other: &str) -> Ordering {
    let (one, other) = (Rpm::parse(one), Rpm::parse(other));
    let release = if one.release.is_empty() || other.release.is_empty() {
        Ordering::Equal
    } else {
        rpm_part(one.release, other.release)
    };
    let version = rpm_part(one.version, other.version);
    one.epoch.cmp(&other.epoch).then(version).then(release)
}

/// A version of rpm: `epoch:version-release`.
struct Rpm<'a> {
    epoch: i64,
    version: &'a str,
    release: &'a str,
}

impl<'a> Rpm<'a> {
    fn parse(text: &'a str) -> Self {
        let (epoch, rest) = match text.split_once(':') {
            Some((epoch, rest)) => (epoch.trim().parse().unwrap_or(0), rest),
            None => (0, text),
        };
        let (version, release) = rest.split_once('-').unwrap_or((rest, ""));
        Self {
            epoch,
            version,
            release,
        }
    }
}

/// Compares one part with rpm's own algorithm.
fn rpm_part(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let separates = |sign: char| !sign.is_alphanumeric() && sign != '~' && sign != '^';
        one = one.trim_start_matches(separates);
        other = other.trim_start_matches(separates);
        if let Some(order) = marks(&mut one, &mut other, '~', Ordering::Less) {
            match order {
                Ordering::Equal => continue,
                order => return order,
            }
        }
        if let Some(order) = carets(&mut one, &mut other) {
            match order {
                Ordering::Equal => continue,
                order => return order,
            }
        }
        if one.is_empty() || other.is_empty() {
            return one.len().min(1).cmp(&other.len().min(1));
        }
        let order = segment(&mut one, &mut other);
        if order.is_ne() {
            return order;
        }
    }
}

/// Removes a mark from both texts and returns `Equal`. Returns `alone` if only the first has the
/// mark, the reverse if only the second has it, and `None` when neither has it.
fn marks(one: &mut &str, other: &mut &str, mark: char, alone: Ordering) -> Option<Ordering> {
    match (one.strip_prefix(mark), other.strip_prefix(mark)) {
        (None, None) => None,
        (Some(_), None) => Some(alone),
        (None, Some(_)) => Some(alone.reverse()),
        (Some(one_rest), Some(other_rest)) => {
            *one = one_rest;
            *other = other_rest;
            Some(Ordering::Equal)
        }
    }
}

/// Compares a caret. It sorts after the end and before anything else.
fn carets(one: &mut &str, other: &mut &str) -> Option<Ordering> {
    let has_caret = one.starts_with('^') || other.starts_with('^');
    match (one.is_empty(), other.is_empty()) {
        (true, _) if has_caret => Some(Ordering::Less),
        (_, true) if has_caret => Some(Ordering::Greater),
        _ => marks(one, other, '^', Ordering::Less),
    }
}

/// Compares the next run of digits or of letters. The first text determines which.
fn segment(one: &mut &str, other: &mut &str) -> Ordering {
    let is_number = one.starts_with(|sign: char| sign.is_ascii_digit());
    let belongs = |sign: char| {
        if is_number {
            sign.is_ascii_digit()
        } else {
            sign.is_alphabetic()
        }
    };
    let (first, second) = (split_while(one, belongs), split_while(other, belongs));
    match (second.is_empty(), is_number) {
        // Numbers are newer than letters.
        (true, true) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, true) => number(first).cmp(&number(second)),
        (false, false) => first.cmp(second),
    }
}

/// Compares without the rules of a package manager, as Salt does with Python's `LooseVersion`:
/// numbers by value if both versions have nothing else, otherwise parts as texts.
#[must_use]
pub(crate) fn loose(one: &str, other: &str) -> Ordering {
    let (one, other) = (loose_parts(one), loose_parts(other));
    let is_number = |part: &&str| part.starts_with(|sign: char| sign.is_ascii_digit());
    if one.iter().chain(&other).all(is_number) {
        let one = one.into_iter().map(number_of);
        let other = other.into_iter().map(number_of);
        return one.cmp(other);
    }
    let texts = |parts: Vec<&str>| -> Vec<String> {
        let text = |part: &str| match is_number(&part) {
            true => format!("{:0>8}", number_of(part).1),
            false => part.to_owned(),
        };
        parts.into_iter().map(text).collect()
    };
    texts(one).cmp(&texts(other))
}

/// Returns a sort key for a number of any length. As in Python, zero is `0`.
fn number_of(digits: &str) -> (usize, &str) {
    let (length, rest) = number(digits);
    (length, if rest.is_empty() { "0" } else { rest })
}

/// Splits into runs of digits, of lower-case letters, and of other characters. Dots separate runs.
fn loose_parts(text: &str) -> Vec<&str> {
    let class = |sign: char| match sign {
        '.' => 0,
        _ if sign.is_ascii_digit() => 1,
        _ if sign.is_ascii_lowercase() => 2,
        _ => 3,
    };
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let part = split_while(&mut rest, |sign| class(sign) == class(first));
        if first != '.' {
            parts.push(part);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str) -> Vec<(String, String, String)> {
        let path = format!(
            "{}/../../tests/corpus/versions/{name}.txt",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (
                words[0].to_owned(),
                words[1].to_owned(),
                words[2].to_owned(),
            )
        });
        lines.collect()
    }

    fn order_text(order: Option<Ordering>) -> &'static str {
        match order {
            None => "none",
            Some(Ordering::Less) => "-1",
            Some(Ordering::Equal) => "0",
            Some(Ordering::Greater) => "1",
        }
    }

    #[test]
    fn versions_of_debian_stand_in_the_order_of_dpkg() {
        for (one, other, order) in recorded("debian") {
            assert_eq!(order_text(debian(&one, &other)), order, "{one} {other}");
        }
    }

    #[test]
    fn versions_of_rpm_stand_in_the_order_of_salt() {
        for (one, other, order) in recorded("rpm") {
            assert_eq!(order_text(Some(rpm(&one, &other))), order, "{one} {other}");
        }
    }
}
