//! The `token` runner: enrolment tokens, by which minions prove that they may come.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::master;
use crate::admit::{bound, milliseconds, token};
use crate::daemon::now_ms;
use crate::store::{Applied, Command};

state::exec_module! {
    /// Tokens that let minions' keys in.
    mod token;

    /// Make a token: it is shown this once, and kept as a hash.
    fn create(Create {
        /// Which ids may use it, as a glob.
        id: String,
        /// How many keys it lets in.
        uses: i64 = 1,
        /// How long it is good: `90s`, `10m`, `2h`, `1d`.
        ttl: Value = "1h".into(),
        /// The role that the keys are bound to.
        role: Value = Value::Null,
        /// Grains that they are bound to.
        grains: Value = Value::Null,
        /// Pillar that they are bound to.
        pillar: Value = Value::Null,
        /// When such a key goes again: `after` a time, or `disconnected` for a time.
        expire: Value = Value::Null,
    });

    /// The tokens that there are, by their names, with how often each was used.
    fn list(List {});

    /// Take a token away; keys that it has let in stay.
    fn revoke(Revoke {
        /// The token, or its name.
        token: String,
    });
}

fn create(cx: &Exec, args: Create) -> Result<Value, Error> {
    let uses = u64::try_from(args.uses).ok().filter(|uses| *uses > 0);
    let uses = uses.ok_or_else(|| Error::argument("uses", "it is 1 or more".to_owned()))?;
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
    let applied = master(cx)?.store().apply_blocking(command);
    match applied.map_err(super::unreadable)? {
        Applied::Refused(refusal) => Err(Error::refused(refusal.to_string())),
        _ => Ok(()),
    }
}

fn date(at_ms: u64) -> String {
    value::jid::to_time(&value::jid::of_micros(at_ms.saturating_mul(1000)))
}

fn list(cx: &Exec, _args: List) -> Result<Value, Error> {
    let all = token::list(master(cx)?.store()).map_err(Error::refused)?;
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
    let known = token::list(master(cx)?.store()).map_err(Error::refused)?;
    if !known.iter().any(|(known, _)| *known == name) {
        return Err(Error::refused(format!("there is no token {name}")));
    }
    apply(cx, take)?;
    Ok(true.into())
}
