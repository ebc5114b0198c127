//! The tokens of users of `external_auth`. The store has a row for the hash of each, which ends at its
//! expiry.

use std::sync::Arc;

use value::python::hex;
use value::{Map, Value, log};
use wire::Secret;

use super::account::State;
use super::{Access, Credentials, Eauth, Known, Refusal, User, rules};
use crate::cluster::tokens::hashed;
use crate::store::{self, Command, Store, now_s};

/// The beginning of the names of tokens in the store.
const OF_USERS: &str = "session/";
/// The length of a token: 32 random bytes in hexadecimal digits.
const TOKEN_LEN: usize = 64;
/// The maximum number of tokens, in all and of one user. A user's oldest tokens make room for the new
/// one.
const TOKENS_MAX: usize = 10_000;
const TOKENS_EACH: usize = 500;
/// The default lifetime of a token in seconds, as in Salt.
const LIFETIME_S: f64 = 43_200.0;
/// The longest lifetime of a token in seconds: ten years.
const LIFETIME_MAX_S: f64 = 315_360_000.0;
/// The time in seconds after which to try again when there are too many tokens.
const FULL_S: u64 = 60;

/// A new token.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) token: Secret,
    pub(crate) user: User,
    /// The times, in seconds since 1970.
    pub(crate) start: f64,
    pub(crate) expire: f64,
}

/// A token as the store has it.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    eauth: String,
    groups: Vec<String>,
    acl: Option<Vec<Value>>,
    start: f64,
    expire: f64,
    /// The state of the account of this machine when the token was made.
    account: State,
}

impl Row {
    fn to_map(&self) -> Map {
        let groups = self.groups.iter().map(|group| group.as_str().into());
        let row = Map::new()
            .with("name", self.name.as_str())
            .with("eauth", self.eauth.as_str())
            .with("groups", Value::list(groups))
            .with("start", self.start)
            .with("expire", self.expire)
            .with("account", self.account.word());
        match &self.acl {
            Some(acl) => row.with("auth_list", Value::list(acl.iter().cloned())),
            None => row,
        }
    }

    fn read(row: &Map) -> Option<Self> {
        let text = |name: &str| row.get(name)?.as_str().map(str::to_owned);
        let number = |name: &str| row.get(name)?.as_float();
        Some(Self {
            name: text("name")?,
            eauth: text("eauth")?,
            groups: row.get("groups")?.texts(),
            acl: match row.get("auth_list") {
                Some(acl) => Some(acl.as_list()?.to_vec()),
                None => None,
            },
            start: number("start")?,
            expire: number("expire")?,
            account: State::of_word(&text("account")?)?,
        })
    }
}

/// Returns the name in the store of a token, if the text has the form of one.
pub(crate) fn name_of(token: &str) -> Option<String> {
    let is_token = token.len() == TOKEN_LEN && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hash = is_token.then(|| hashed(&token.to_ascii_lowercase()))?;
    match hash {
        Ok(hash) => Some(format!("{OF_USERS}{hash}")),
        Err(error) => {
            log::error(format_args!("cannot compute the hash of a token: {error}"));
            None
        }
    }
}

fn removal(name: String) -> Command {
    Command::Token {
        name,
        data: None,
        expected: None,
    }
}

/// Returns all tokens of users: the names in the store, and the rows. A row that cannot be read has
/// expired.
fn all(store: &Store) -> Result<Vec<(String, Option<Row>)>, store::Error> {
    let mut found = Vec::new();
    for token in store.tokens()? {
        let (name, row) = token?;
        if name.starts_with(OF_USERS) {
            found.push((name, Row::read(&row)));
        }
    }
    Ok(found)
}

/// Returns the tokens to remove before a user gets another one, or `None` if there are too many of
/// others.
fn room(mut tokens: Vec<(String, Option<Row>)>, user: &str, eauth: &str) -> Option<Vec<String>> {
    let now = now_s();
    let is_good = |row: &Option<Row>| row.as_ref().is_some_and(|row| now < row.expire);
    let expired = tokens.extract_if(.., |(_, row)| !is_good(row));
    let mut gone: Vec<String> = expired.map(|(name, _)| name).collect();
    let left = tokens.len();
    let mut own: Vec<(f64, String)> = tokens
        .into_iter()
        .filter_map(|(name, row)| Some((row?, name)))
        .filter(|(row, _)| row.name == user && row.eauth == eauth)
        .map(|(row, name)| (row.start, name))
        .collect();
    own.sort_by(|one, other| one.0.total_cmp(&other.0));
    let over = (own.len() + 1).saturating_sub(TOKENS_EACH);
    let full = (left + 1).saturating_sub(TOKENS_MAX);
    if full > own.len() {
        return None;
    }
    gone.extend(own.into_iter().take(over.max(full)).map(|(_, name)| name));
    Some(gone)
}

impl Eauth {
    /// Returns the lifetime in seconds of a new token (`token_expire`,
    /// `token_expire_user_override`).
    fn lifetime_s(&self, shown: &Credentials) -> f64 {
        let configured = self.opts.get("token_expire").and_then(Value::as_float);
        let may_choose = match self.opts.get("token_expire_user_override") {
            Some(Value::Map(users)) => users
                .get(&shown.eauth)
                .is_some_and(|users| users.texts().contains(&shown.username)),
            Some(value) => value.as_bool() == Some(true),
            None => false,
        };
        let chosen = shown.expire_s.filter(|_| may_choose).or(configured);
        let seconds = chosen.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        seconds.unwrap_or(LIFETIME_S).min(LIFETIME_MAX_S)
    }

    fn new_row(&self, shown: &Credentials, known: Known, account: State) -> Row {
        let start = now_s();
        let keeps_acl = self.opts.flag("keep_acl_in_token");
        Row {
            name: shown.username.clone(),
            eauth: shown.eauth.clone(),
            groups: known.groups,
            acl: known.acl.filter(|_| keeps_acl),
            start,
            expire: start + self.lifetime_s(shown),
            account,
        }
    }
}

impl Access {
    /// Checks a password, and returns a new token for its user.
    pub(crate) async fn login(&self, shown: &Credentials, from: &str) -> Result<Issued, Refusal> {
        let known = self.known(shown, from).await?;
        let user = self.user(shown, known.clone());
        let (eauth, name) = (shown.eauth.clone(), shown.username.clone());
        let account = smol::unblock(move || State::of(&eauth, &name)).await;
        let row = self.eauth.new_row(shown, known, account);
        let user = match &row.acl {
            Some(_) => user,
            // A request with the token has only the rules of the configuration.
            None => self.user_of_row(&row),
        };
        let (start, expire) = (row.start, row.expire);
        match self.keep(row).await {
            Ok(Some(token)) => Ok(Issued {
                token,
                user,
                start,
                expire,
            }),
            Ok(None) => Err(Refusal::Later(FULL_S)),
            Err(error) => {
                log::error(format_args!("cannot store a token: {error}"));
                Err(Refusal::Authentication)
            }
        }
    }

    /// Stores a new token. Returns `None` if there are too many.
    async fn keep(&self, row: Row) -> Result<Option<Secret>, String> {
        let random = link::key::secret().map_err(|error| error.to_string())?;
        let token = hex(&random);
        let name = name_of(&token).ok_or("it cannot be hashed")?;
        let store = self.store.clone();
        let (user, eauth) = (row.name.clone(), row.eauth.clone());
        let found = smol::unblock(move || Ok(room(all(&store)?, &user, &eauth)));
        let found: Result<_, store::Error> = found.await;
        let Some(gone) = found.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let gone = gone.into_iter().map(removal).collect();
        self.store.apply_in_batches(gone).await?;
        self.store.note_removed_token();
        let command = Command::Token {
            name,
            data: Some(row.to_map()),
            expected: None,
        };
        self.store.apply_all(vec![command]).await?;
        Ok(Some(Secret::new(&token)))
    }

    /// Returns the user of a token that has not expired, with the present rules. A user whose account
    /// of this machine has been locked since is refused.
    pub(crate) async fn user_of(&self, token: &Secret, from: &str) -> Result<User, Refusal> {
        let refused = |why: &str| {
            let line = format!("Authentication failure of type \"token\" occurred: {why}");
            self.refusals.log(from, line);
            Refusal::Authentication
        };
        let name = name_of(token.reveal()).ok_or_else(|| refused("it is no token"))?;
        let store = self.store.clone();
        let read = smol::unblock(move || store.token(&name)).await;
        let row = read.map_err(|error| refused(&format!("cannot read the token: {error}")))?;
        let row = row.ok_or_else(|| refused("it is unknown, or has expired"))?;
        let row = Row::read(&row).ok_or_else(|| refused("its row is damaged"))?;
        if now_s() >= row.expire {
            return Err(refused("it has expired"));
        }
        if self.eauth.table(&row.eauth).is_none() {
            return Err(refused("its source is not in external_auth any more"));
        }
        let checked = row.clone();
        let is_open = move || {
            checked
                .account
                .permits(State::of(&checked.eauth, &checked.name))
        };
        if !smol::unblock(is_open).await {
            return Err(refused(&format!("the account of {:?} is locked", row.name)));
        }
        Ok(self.user_of_row(&row))
    }

    fn user_of_row(&self, row: &Row) -> User {
        let acl = row
            .acl
            .clone()
            .filter(|_| self.opts.flag("keep_acl_in_token"));
        let of_options = || rules::of_user(&self.opts, &row.eauth, &row.name, &row.groups);
        User {
            name: row.name.clone(),
            eauth: row.eauth.clone(),
            groups: row.groups.clone(),
            rules: Arc::new(acl.unwrap_or_else(of_options)),
            shown: "token",
        }
    }

    /// Removes the tokens that have expired.
    pub(crate) async fn forget_expired(&self) {
        let (store, now) = (self.store.clone(), now_s());
        let found = smol::unblock(move || all(&store)).await;
        let removed = match found {
            Ok(tokens) => {
                let is_good = |row: &Row| now < row.expire;
                let old = tokens
                    .into_iter()
                    .filter(|(_, row)| !row.as_ref().is_some_and(is_good));
                let old = old.map(|(name, _)| removal(name)).collect();
                self.store.apply_in_batches(old).await
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = removed {
            log::error(format_args!("cannot remove expired tokens: {error}"));
        }
    }
}

/// Removes a token. Returns false if there is none.
///
/// # Errors
/// When the store cannot be read, or the change is refused.
pub(crate) async fn forget(store: &Store, token: &str) -> Result<bool, String> {
    let Some(name) = name_of(token) else {
        return Ok(false);
    };
    let (reader, own) = (store.clone(), name.clone());
    let row = smol::unblock(move || reader.token(&own)).await;
    if row.map_err(|error| error.to_string())?.is_none() {
        return Ok(false);
    }
    store.apply_all(vec![removal(name)]).await?;
    store.note_removed_token();
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, start: f64, expire: f64) -> Row {
        Row {
            name: name.into(),
            eauth: "file".into(),
            groups: vec!["ops".into()],
            acl: Some(vec!["test.*".into()]),
            start,
            expire,
            account: State::None,
        }
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let row = row("joe", 1.5, 9.0);
        assert_eq!(Row::read(&row.to_map()), Some(row.clone()));
        let mut damaged = row.to_map();
        damaged.insert("auth_list", "all");
        assert_eq!(Row::read(&damaged), None);
    }

    #[test]
    fn only_a_text_of_the_right_form_is_looked_up() {
        assert!(name_of(&"0a".repeat(32)).is_some());
        assert_eq!(name_of(&"0A".repeat(32)), name_of(&"0a".repeat(32)));
        for wrong in [
            "",
            "abc",
            &"0g".repeat(32),
            &"0a".repeat(33),
            &"ä".repeat(32),
        ] {
            assert_eq!(name_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_oldest_tokens_of_a_user_make_room() {
        let later = now_s() + 1000.0;
        let mut tokens = vec![
            ("damaged".to_owned(), None),
            ("old".to_owned(), Some(row("joe", 0.0, 1.0))),
            ("ann".to_owned(), Some(row("ann", 0.0, later))),
        ];
        for number in 0..TOKENS_EACH {
            let token = row("joe", number as f64, later);
            tokens.push((number.to_string(), Some(token)));
        }
        let gone = room(tokens.clone(), "joe", "file").unwrap();
        assert_eq!(gone, ["damaged", "old", "0"]);
        assert_eq!(room(tokens, "ann", "file").unwrap(), ["damaged", "old"]);
    }

    #[test]
    fn too_many_tokens_of_others_leave_no_room() {
        let later = now_s() + 1000.0;
        let of = |number: usize| (number.to_string(), Some(row("joe", 0.0, later)));
        let full: Vec<_> = (0..TOKENS_MAX).map(of).collect();
        assert_eq!(room(full.clone(), "ann", "file"), None);
        let gone = room(full, "joe", "file").unwrap();
        assert_eq!(gone.len(), TOKENS_MAX + 1 - TOKENS_EACH);
    }
}
