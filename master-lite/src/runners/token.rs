//! The `token` runner: manages enrolment tokens, with which minions prove that they may enrol.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::runs;
use crate::admit::{bound, milliseconds, token};
use crate::store::{Applied, Command, now_ms};

state::exec_module! {
    /// Manage tokens with which minions' keys are accepted.
    mod token;

    /// Create a token. It is shown only once, and stored as a hash.
    ///
    ///     salt-run token.create web1 ttl=1h
    fn create(Create {
        /// The ids that may use it, as a glob.
        id: String,
        /// The number of keys that can be accepted with it.
        uses: i64 = 1,
        /// The time for which it is valid: `90s`, `10m`, `2h`, `1d`.
        ttl: Value = "1h".into(),
        /// The role to bind the keys to.
        role: Value = Value::Null,
        /// The grains to bind the keys to.
        grains: Value = Value::Null,
        /// The pillar to bind the keys to.
        pillar: Value = Value::Null,
        /// The time of the removal of such a key: `after` a time, or `disconnected` for a time.
        expire: Value = Value::Null,
    });

    /// Return all tokens by name, with the number of their uses.
    ///
    ///     salt-run token.list
    fn list(List {});

    /// Remove a token. Keys that were accepted with it stay.
    ///
    ///     salt-run token.revoke 0123456789abcdef
    fn revoke(Revoke {
        /// The token or its name.
        token: String,
    });
}

fn create(cx: &Exec, args: Create) -> Result<Value, Error> {
    let uses = u64::try_from(args.uses).ok().filter(|uses| *uses > 0);
    let uses = uses.ok_or_else(|| Error::argument("uses", "it must be 1 or more".to_owned()))?;
    let ttl = milliseconds(&args.ttl).map_err(|text| Error::argument("ttl", text))?;
    let bind = Map::new()
        .with("role", args.role)
        .with("bind_grains", args.grains)
        .with("pillar", args.pillar)
        .with("expire", args.expire);
    let bound = bound(&bind).map_err(Error::refused)?;
    let until_ms = now_ms().saturating_add(ttl);
    let made = token::create(&args.id, uses, until_ms, bound);
    let (token, keep) = made.map_err(Error::refused)?;
    apply(cx, keep)?;
    let name = token.split('.').next().unwrap_or_default().to_owned();
    Ok(Map::new()
        .with("name", name)
        .with("token", token)
        .with("id", args.id)
        .with("uses", uses)
        .with("until", date(until_ms))
        .into())
}

fn apply(cx: &Exec, command: Command) -> Result<(), Error> {
    let applied = runs(cx)?.store.apply_blocking(command);
    match applied.map_err(super::unreadable)? {
        Applied::Refused(refusal) => Err(Error::refused(refusal.to_string())),
        _ => Ok(()),
    }
}

fn date(at_ms: u64) -> String {
    value::jid::to_time(&value::jid::from_micros(at_ms.saturating_mul(1000)))
}

fn list(cx: &Exec, _args: List) -> Result<Value, Error> {
    let all = token::list(&runs(cx)?.store).map_err(Error::refused)?;
    let shown = all.into_iter().map(|(name, mut row)| {
        let until = row.remove("until_ms").and_then(|until| until.as_int());
        let until = until.and_then(|until| u64::try_from(until).ok());
        let row = row.with("until", date(until.unwrap_or_default()));
        (Value::from(name), Value::Map(row))
    });
    Ok(shown.collect::<Map>().into())
}

fn revoke(cx: &Exec, args: Revoke) -> Result<Value, Error> {
    let (name, take) = token::revoked(&args.token);
    let known = token::list(&runs(cx)?.store).map_err(Error::refused)?;
    if !known.iter().any(|(known, _)| *known == name) {
        return Err(Error::refused(format!("unknown token {name}")));
    }
    apply(cx, take)?;
    Ok(true.into())
}
