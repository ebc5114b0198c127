//! [`State`]: whether the account of a user of this machine is locked. A token is refused once it is.

use machine::{accounts, fs};
use value::log;

const SHADOW: &str = "/etc/shadow";
const DAY_MS: u64 = 86_400_000;

/// The state of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The account may be used.
    Open,
    /// The account is locked, has expired or does not exist.
    Locked,
    /// This machine does not know: the source is not `pam`, or the account is from a directory.
    None,
}

impl State {
    /// Returns the word in the store.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Locked => "locked",
            Self::None => "none",
        }
    }

    pub(super) fn of_word(word: &str) -> Option<Self> {
        [Self::Open, Self::Locked, Self::None]
            .into_iter()
            .find(|state| state.word() == word)
    }

    /// Returns the present state of a user's account. It reads files.
    pub(super) fn of(eauth: &str, name: &str) -> Self {
        if eauth != "pam" {
            return Self::None;
        }
        if accounts::user(name).is_none() {
            return Self::Locked;
        }
        match fs::read(SHADOW) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let today = crate::store::now_ms() / DAY_MS;
                of_shadow(&text, name, today)
            }
            Err(error) => {
                log::info(format_args!("external_auth: {error}"));
                Self::None
            }
        }
    }

    /// Returns whether a token that was made in this state is good in the present one. A password may
    /// be locked here and be known elsewhere, so only a change counts.
    pub(super) fn permits(self, present: Self) -> bool {
        self != Self::Open || present == Self::Open
    }
}

/// Returns the state of an account in the text of `/etc/shadow`. `today` counts days since 1970.
fn of_shadow(text: &str, name: &str, today: u64) -> State {
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let line = text.lines().map(fields);
    let Some(line) = line
        .into_iter()
        .find(|line| line.first().is_some_and(|own| own == name))
    else {
        return State::None;
    };
    let field = |index: usize| line.get(index).map_or("", String::as_str);
    let is_expired = field(7).parse().is_ok_and(|day: u64| day <= today);
    match field(1).starts_with('!') || is_expired {
        true => State::Locked,
        false => State::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_with_a_mark_and_a_past_day_lock_an_account() {
        let text = "joe:$6$x$y:1:0:9:7:::\nann:!$6$x$y:1:0:9:7:::\nold:$6$x$y:1:0:9:7::100:\nnew:$6$x$y:1:0:9:7::101:\nshort:*\n";
        for (name, state) in [
            ("joe", State::Open),
            ("ann", State::Locked),
            ("old", State::Locked),
            ("new", State::Open),
            ("short", State::Open),
            ("nobody", State::None),
        ] {
            assert_eq!(of_shadow(text, name, 100), state, "{name}");
            assert_eq!(State::of_word(state.word()), Some(state));
        }
    }

    #[test]
    fn a_token_ends_when_its_account_is_locked() {
        for (made, present, permits) in [
            (State::Open, State::Open, true),
            (State::Open, State::Locked, false),
            (State::Open, State::None, false),
            (State::Locked, State::Locked, true),
            (State::None, State::None, true),
        ] {
            assert_eq!(made.permits(present), permits, "{made:?} {present:?}");
        }
    }
}
