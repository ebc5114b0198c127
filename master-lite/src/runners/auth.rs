//! The `auth` runner: the tokens of users of `external_auth`.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};
use wire::Secret;

use super::runs;
use crate::access::eauth::sessions::forget;
use crate::access::eauth::{Credentials, Refusal};

state::exec_module! {
    /// Make and remove the tokens of users of external_auth.
    mod auth;

    /// Make a token for a user with a password: username, password, eauth and, for users of
    /// token_expire_user_override, token_expire. A wrong password returns an empty text.
    ///
    /// Others can see a password on a command line: `salt --make-token --eauth pam` asks for it.
    ///
    ///     salt-run auth.mk_token username=joe password=secret eauth=pam
    fn mk_token(MkToken {
        ..load
    });

    /// Remove a token. False if there is none.
    ///
    ///     salt-run auth.del_token 6556760736e4077daa601baec2b67c246556760736e4077daa601baec2b67c24
    fn del_token(DelToken {
        /// The token.
        token: String,
    });
}

/// The origin of passwords of this runner, for the log and the count of failures.
const FROM: &str = "the runner auth.mk_token";

fn mk_token(cx: &Exec, args: MkToken) -> Result<Value, Error> {
    let text = |name: &str| args.load.get(name).map(Value::to_text).unwrap_or_default();
    let shown = Credentials {
        eauth: text("eauth"),
        username: text("username"),
        password: Secret::new(&text("password")),
        expire_s: args.load.get("token_expire").and_then(Value::as_float),
    };
    let issued = match smol::block_on(runs(cx)?.access.login(&shown, FROM)) {
        Ok(issued) => issued,
        Err(Refusal::Authentication) => return Ok("".into()),
        Err(later) => return Err(Error::refused(later.to_string())),
    };
    let mut ret = Map::new()
        .with("start", issued.start)
        .with("expire", issued.expire)
        .with("name", issued.user.name)
        .with("eauth", issued.user.eauth);
    if !issued.user.groups.is_empty() {
        let groups = issued.user.groups.into_iter().map(Value::from);
        ret.insert("groups", Value::list(groups));
    }
    Ok(ret.with("token", issued.token.reveal()).into())
}

fn del_token(cx: &Exec, args: DelToken) -> Result<Value, Error> {
    let removed = smol::block_on(forget(&runs(cx)?.store, &args.token));
    Ok(removed.map_err(Error::refused)?.into())
}
