//! External authentication (`external_auth`): the users whom a program, a file or a server knows, their
//! tokens, and their rules.

mod account;
mod attempts;
mod custom;
mod file;
mod ldap;
mod pam;
mod rest;
pub(crate) mod rules;
pub(crate) mod sessions;
mod source;

use std::sync::Arc;
use std::time::{Duration, Instant};

use link::wait::{pause, within};
use smol::lock::Semaphore;
use state::exec::Registry;
use state::opts::Opts;
use value::{Map, Value, log, secret};
use wire::Secret;

use super::Access;
use crate::events::Events;
use attempts::Attempts;
use source::Source;

/// A user's name and password, and the source that knows them.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    /// The source: a key of `external_auth`, such as `pam`.
    pub(crate) eauth: String,
    pub(crate) username: String,
    pub(crate) password: Secret,
    /// The lifetime in seconds that the user wants for a token. It counts only for users of
    /// `token_expire_user_override`.
    pub(crate) expire_s: Option<f64>,
}

/// A user with a password or a token that is right.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct User {
    pub(crate) name: String,
    /// The source that knows the user: a key of `external_auth`.
    pub(crate) eauth: String,
    pub(crate) groups: Vec<String>,
    /// The user's rules, as `external_auth` has them: the `perms` of a login.
    pub(crate) rules: Arc<Vec<Value>>,
    /// The proof that the user has shown: `eauth` for a password, or `token`.
    pub(crate) shown: &'static str,
}

/// The reason for the refusal of a login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The password or token is wrong, or the source is not configured. The sentence is the same for
    /// all reasons.
    #[error("Authentication error occurred.")]
    Authentication,
    /// There were too many failures, or too many users log in at the same time.
    #[error("Too many logins: try again in {0} s")]
    Later(u64),
}

impl Refusal {
    /// Returns the word for programs.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Later(_) => "later",
        }
    }
}

/// The maximum length in bytes of a password. Those of `rest` and `_auth` may be long tokens.
pub(crate) const PASSWORD_MAX: usize = 4096;
/// The maximum length in bytes of the name of a user or source.
const NAME_MAX: usize = 256;
/// The maximum number of passwords that are checked at a time. Each may be a program.
const AT_ONCE: usize = 8;
/// The maximum time to wait for one of these places.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The minimum time until a failure is answered. It hides which part was wrong.
const FAILURE_MIN: Duration = Duration::from_secs(1);

/// The options that are passwords. `config.values` returns all options.
const SECRETS: [&str; 2] = ["auth.ldap.bindpw", "sharedsecret"];

/// The sources of `external_auth`, and the limits on their use.
pub(crate) struct Eauth {
    opts: Arc<Opts>,
    registry: &'static Registry,
    events: Events,
    places: Semaphore,
    attempts: Attempts,
}

/// The facts about a user that a source has confirmed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Known {
    groups: Vec<String>,
    /// The rules that the source itself has for the user.
    acl: Option<Vec<Value>>,
}

impl Eauth {
    pub(crate) fn new(opts: &Arc<Opts>, registry: &'static Registry, events: &Events) -> Arc<Self> {
        for option in SECRETS {
            if let Some(value) = opts.get(option) {
                secret::keep(&[option], value);
            }
        }
        Arc::new(Self {
            opts: opts.clone(),
            registry,
            events: events.clone(),
            places: Semaphore::new(AT_ONCE),
            attempts: Attempts::default(),
        })
    }

    /// Returns the rules of a source, if it is configured.
    fn table(&self, eauth: &str) -> Option<&Map> {
        self.opts.get("external_auth")?.get(eauth)?.as_map()
    }

    /// Checks a password, at most [`AT_ONCE`] at a time. A source that fails is logged, and counts as
    /// a wrong password.
    async fn check(&self, shown: &Credentials) -> Result<Option<Known>, Refusal> {
        let place = within(WAIT_MAX, self.places.acquire()).await;
        let _place = place.ok_or(Refusal::Later(1))?;
        let source = Source::new(self, &shown.eauth);
        let (username, password) = (shown.username.clone(), shown.password.clone());
        // No deadline: each source has one.
        let checked = smol::unblock(move || source.check(&username, password.reveal())).await;
        Ok(checked.unwrap_or_else(|error| {
            let eauth: String = shown.eauth.chars().take(NAME_MAX).collect();
            log::error(format_args!(
                "external_auth: {eauth}: cannot check a password: {error}"
            ));
            None
        }))
    }
}

/// Returns whether a name and a password may be given to a source. A name is also an argument of a
/// program.
fn is_well_formed(shown: &Credentials) -> bool {
    let name = shown.username.as_str();
    let is_printable = |text: &str| !text.chars().any(char::is_control);
    let password = shown.password.reveal();
    !name.is_empty()
        && name.len() <= NAME_MAX
        && shown.eauth.len() <= NAME_MAX
        && !name.starts_with('-')
        && is_printable(name)
        && !password.is_empty()
        && password.len() <= PASSWORD_MAX
        && !password.contains('\0')
}

impl Access {
    /// Returns whether `external_auth` is configured.
    pub(crate) fn has_eauth(&self) -> bool {
        self.opts.get("external_auth").is_some_and(Value::is_true)
    }

    /// Checks a password, and returns its user. `from` is the origin of the request in the log and in
    /// the count of failures: an address, or a user of this machine.
    pub(crate) async fn authenticate(
        &self,
        shown: &Credentials,
        from: &str,
    ) -> Result<User, Refusal> {
        let known = self.known(shown, from).await?;
        Ok(self.user(shown, known))
    }

    fn user(&self, shown: &Credentials, known: Known) -> User {
        let Credentials {
            eauth, username, ..
        } = shown;
        let rules = match known.acl {
            Some(acl) => acl,
            None => rules::of_user(&self.opts, eauth, username, &known.groups),
        };
        User {
            name: username.clone(),
            eauth: eauth.clone(),
            groups: known.groups,
            rules: Arc::new(rules),
            shown: "eauth",
        }
    }

    /// Checks a password with its source.
    async fn known(&self, shown: &Credentials, from: &str) -> Result<Known, Refusal> {
        let began = Instant::now();
        if !is_well_formed(shown) || self.eauth.table(&shown.eauth).is_none() {
            return Err(self.failed(shown, from, began).await);
        }
        let attempt = self.eauth.attempts.begin(shown, from, began);
        let attempt = attempt.map_err(Refusal::Later)?;
        match self.eauth.check(shown).await? {
            Some(known) => {
                attempt.succeeded();
                Ok(known)
            }
            None => {
                attempt.failed(Instant::now());
                Err(self.failed(shown, from, began).await)
            }
        }
    }

    /// Logs a failure, and returns it no sooner than any other.
    async fn failed(&self, shown: &Credentials, from: &str, began: Instant) -> Refusal {
        let short = |text: &str| text.chars().take(NAME_MAX).collect::<String>();
        let why = format!(
            "Authentication failure of type \"eauth\" occurred for user {:?} of {:?}",
            short(&shown.username),
            short(&shown.eauth)
        );
        self.refusals.log(from, why);
        pause(FAILURE_MIN.saturating_sub(began.elapsed())).await;
        Refusal::Authentication
    }
}
