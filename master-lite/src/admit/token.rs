//! Enrolment tokens `NAME.SECRET`. The store holds the hash of the secret. A use is counted in the
//! same change that accepts the key.

use value::{Map, Value, log};
use wire::{Id, Secret};

use crate::cluster::tokens::{NewToken, OF_MASTERS, OF_MINIONS, hashed, is_equal, is_name};
use crate::store::{self, Command, Store};

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
            name: format!("{OF_MINIONS}{}", self.name),
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
    if !is_name(name) {
        return Err(unknown());
    }
    let row = |prefix: &str| {
        let row = store.token(&format!("{prefix}{name}"));
        row.map_err(|error| {
            log::error(format_args!("cannot read a token: {error}"));
            "the master cannot read its tokens at present".to_owned()
        })
    };
    let hash = hashed(secret)?;
    let is_shown = |row: &Map| {
        let known = row.get("hash").map(Value::to_text).unwrap_or_default();
        is_equal(&known, &hash)
    };
    let Some(row) = row(OF_MINIONS)?.filter(is_shown) else {
        return Err(match row(OF_MASTERS)?.filter(is_shown) {
            Some(_) => format!("the token {name} is for masters, not for minions"),
            None => unknown(),
        });
    };
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

/// Returns a new token, and the change that stores it.
pub(crate) fn create(
    id: &str,
    uses: u64,
    until_ms: u64,
    bound: Map,
) -> Result<(NewToken, Command), String> {
    let new = NewToken::random()?;
    let row = Map::new()
        .with("hash", new.hash.as_str())
        .with("id", id)
        .with("uses", uses)
        .with("used", 0)
        .with("until_ms", until_ms)
        .with("bound", bound);
    let keep = Command::Token {
        name: format!("{OF_MINIONS}{}", new.name),
        data: Some(row),
        expected: None,
    };
    Ok((new, keep))
}

/// Returns all tokens for minions and for masters by name, without the hashes of their secrets.
pub(crate) fn list(store: &Store) -> Result<Vec<(String, Map)>, String> {
    let mut all = Vec::new();
    for token in store.tokens().map_err(|error| error.to_string())? {
        let (name, mut row) = token.map_err(|error| error.to_string())?;
        let of_minions = name.strip_prefix(OF_MINIONS);
        let Some(name) = of_minions.or_else(|| name.strip_prefix(OF_MASTERS)) else {
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

/// Returns the change that removes a token, which may be given whole or by its name; `None` if it is
/// unknown.
///
/// # Errors
/// When the store cannot be read.
pub(crate) fn revoked(store: &Store, token: &str) -> Result<Option<Command>, store::Error> {
    let name = token.split('.').next().unwrap_or_default();
    for prefix in [OF_MINIONS, OF_MASTERS] {
        let name = format!("{prefix}{name}");
        if store.token(&name)?.is_some() {
            return Ok(Some(Command::Token {
                name,
                data: None,
                expected: None,
            }));
        }
    }
    Ok(None)
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
    fn a_token_for_masters_admits_no_minion() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), store::Limits::default()).unwrap();
        let shown = |token: &NewToken| {
            let shown = Secret::new(&format!("{}.{}", token.name, token.secret));
            find_usable(&store, &shown, &"web1".parse().unwrap(), 0).map(|token| token.name)
        };
        let (of_minions, keep) = create("web*", 1, 9, Map::new()).unwrap();
        store.apply_blocking(keep).unwrap();
        assert_eq!(shown(&of_minions), Ok(of_minions.name.clone()));
        let (of_masters, keep) = crate::cluster::tokens::create("*", 1, 9).unwrap();
        store.apply_blocking(keep).unwrap();
        let why = shown(&of_masters).unwrap_err();
        assert!(why.ends_with("is for masters, not for minions"), "{why}");
        let guessed = NewToken {
            secret: of_minions.secret.clone(),
            ..of_masters
        };
        let unknown = Err("the token is unknown, or was revoked".to_owned());
        assert_eq!(shown(&guessed), unknown);
        // Both kinds are listed and revoked by their names.
        for token in [&of_minions, &guessed] {
            let listed = list(&store).unwrap();
            let (_, row) = listed.iter().find(|(name, _)| *name == token.name).unwrap();
            assert!(!row.contains("hash"));
            let revoke = revoked(&store, &token.name).unwrap().unwrap();
            store.apply_blocking(revoke).unwrap();
        }
        assert_eq!(list(&store), Ok(Vec::new()));
        assert!(revoked(&store, &guessed.name).unwrap().is_none());
    }
}
