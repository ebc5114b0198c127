//! Enrolment tokens `NAME.SECRET`. The store holds the hash of the secret. A use is counted in the
//! same change that accepts the key.

use link::key::secret;
use machine::hashes;
use value::python::hex;
use value::{Map, Value, log};
use wire::{Id, Secret};

use crate::store::{Command, Store};

/// The prefix of a token's name in the store, whose table also holds the counts of rules.
const PREFIX: &str = "enroll/";
/// The maximum number of tokens.
const TOKENS_MAX: usize = 10_000;

/// A token that is good for an id and not used yet.
#[derive(Clone, Debug)]
pub(super) struct UsableToken {
    name: String,
    row: Map,
}

impl UsableToken {
    /// Returns the change that counts a use. The store refuses it if the token was changed since it
    /// was read.
    pub(super) fn used(&self) -> Command {
        let used = number(&self.row, "used").saturating_add(1);
        Command::Token {
            name: format!("{PREFIX}{}", self.name),
            data: Some(self.row.clone().with("used", used)),
            expected: Some(self.row.clone()),
        }
    }

    /// Returns the properties that the key is bound to.
    pub(super) fn bound(&self) -> Map {
        let bound = self.row.get("bound").and_then(Value::as_map);
        bound.cloned().unwrap_or_default()
    }
}

fn number(row: &Map, name: &str) -> u64 {
    let number = row.get(name).and_then(Value::as_int);
    number.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

fn hashed(secret: &str) -> Result<String, String> {
    hashes::of_bytes(secret.as_bytes(), "sha256").map_err(|error| error.to_string())
}

/// Compares two texts in a time that does not depend on where they differ.
fn is_equal(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    let different = pairs.fold(0, |different, (one, other)| different | (one ^ other));
    std::hint::black_box(different) == 0 && one.len() == other.len()
}

/// Returns the token that a peer shows, if it is good for an id now. The peer gets to know the reason
/// of a refusal. It says nothing of the token unless the peer has shown the right secret.
pub(super) fn find_usable(
    store: &Store,
    shown: &Secret,
    id: &Id,
    now_ms: u64,
) -> Result<UsableToken, String> {
    let (name, secret) = shown.reveal().split_once('.').unwrap_or_default();
    let unknown = || "the token is unknown, or was revoked".to_owned();
    let is_name = name.len() == NAME_BYTES * 2 && name.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_name {
        return Err(unknown());
    }
    let row = store.token(&format!("{PREFIX}{name}"));
    let row = row.map_err(|error| {
        log::error(format_args!("cannot read a token: {error}"));
        "the master cannot read its tokens at present".to_owned()
    })?;
    let row = row.ok_or_else(unknown)?;
    let known = row.get("hash").map(Value::to_text).unwrap_or_default();
    if !is_equal(&known, &hashed(secret)?) {
        return Err(unknown());
    }
    let glob = row.get("id").map(Value::to_text).unwrap_or_default();
    if !value::glob::fnmatch(&glob, id.as_str()) {
        return Err(format!("the token {name} is for ids that match {glob}"));
    }
    if now_ms >= number(&row, "until_ms") {
        return Err(format!("the token {name} has expired"));
    }
    if number(&row, "used") >= number(&row, "uses") {
        return Err(format!("the token {name} is used up"));
    }
    let name = name.to_owned();
    Ok(UsableToken { name, row })
}

const NAME_BYTES: usize = 4;

/// Returns a new token, and the change that stores it.
pub(crate) fn create(
    id: &str,
    uses: u64,
    until_ms: u64,
    bound: Map,
) -> Result<(String, Command), String> {
    let random = || secret().map_err(|error| error.to_string());
    let name = hex(random()?.get(..NAME_BYTES).unwrap_or_default());
    let secret = hex(&random()?);
    let row = Map::new()
        .with("hash", hashed(&secret)?)
        .with("id", id)
        .with("uses", uses)
        .with("used", 0)
        .with("until_ms", until_ms)
        .with("bound", bound);
    let keep = Command::Token {
        name: format!("{PREFIX}{name}"),
        data: Some(row),
        expected: None,
    };
    Ok((format!("{name}.{secret}"), keep))
}

/// Returns all tokens by name, without the hashes of their secrets.
pub(crate) fn list(store: &Store) -> Result<Vec<(String, Map)>, String> {
    let mut all = Vec::new();
    for token in store.tokens().map_err(|error| error.to_string())? {
        let (name, mut row) = token.map_err(|error| error.to_string())?;
        let Some(name) = name.strip_prefix(PREFIX) else {
            continue;
        };
        row.remove("hash");
        all.push((name.to_owned(), row));
        if all.len() > TOKENS_MAX {
            return Err(format!("there are more than {TOKENS_MAX} tokens"));
        }
    }
    Ok(all)
}

/// Returns a token's name and the change that removes it. The token may be given whole or by its
/// name.
pub(crate) fn revoked(token: &str) -> (String, Command) {
    let name = token.split('.').next().unwrap_or_default();
    let take = Command::Token {
        name: format!("{PREFIX}{name}"),
        data: None,
        expected: None,
    };
    (name.to_owned(), take)
}

/// Returns the change that counts a key for a rule with a `max`, or `None` if the rule has accepted
/// its maximum in this period.
pub(super) fn counted(
    store: &Store,
    rule: &str,
    (max, period_ms): (u64, u64),
    now_ms: u64,
) -> Result<Option<Command>, String> {
    let name = format!("policy/{rule}");
    let known = store.token(&name).map_err(|error| error.to_string())?;
    let row = known.clone().unwrap_or_default();
    let (from, count) = (number(&row, "from_ms"), number(&row, "count"));
    let (from, count) = match now_ms.saturating_sub(from) < period_ms && from <= now_ms {
        true => (from, count),
        false => (now_ms, 0),
    };
    if count >= max {
        return Ok(None);
    }
    let data = Map::new().with("from_ms", from).with("count", count + 1);
    Ok(Some(Command::Token {
        name,
        data: Some(data),
        expected: known,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_whole() {
        assert!(is_equal("abc", "abc"));
        for other in ["abd", "ab", "abcd", ""] {
            assert!(!is_equal("abc", other), "{other}");
        }
    }
}
