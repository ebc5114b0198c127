//! The `token` runner: manages tokens, with which minions prove that they may enrol, and masters that
//! they may join the cluster.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::runs;
use crate::admit::{bound, milliseconds, token};
use crate::cluster::tokens::{self, NewToken};
use crate::store::{Applied, Command, now_ms};

state::exec_module! {
    /// Manage tokens with which minions' keys are accepted and masters join the cluster.
    mod token;

    /// Create a token. It is shown only once, and stored as a hash.
    ///
    ///     salt-run token.create web1 ttl=1h
    fn create(Create {
        /// The ids of minions that may use it, as a glob; with `kind=master` the names of masters, which
        /// are their addresses, by default any.
        id: Option<String> = None,
        /// The number of keys that can be accepted with it. A token for masters has at most 9 uses.
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
        /// The machines that can use it: `minion`, or `master` for masters that join the cluster of this
        /// one (options `cluster_token` and `cluster_token_file`).
        kind: String = "minion".into(),
    });

    /// Return all tokens by name, with the number of their uses.
    ///
    ///     salt-run token.list
    fn list(List {});

    /// Remove a token. Keys that were accepted with it, and masters that joined with it, stay.
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
    let until_ms = now_ms().saturating_add(ttl);
    match args.kind.as_str() {
        "minion" => create_for_minions(cx, args, uses, until_ms),
        "master" => create_for_masters(cx, args, uses, until_ms),
        kind => {
            let problem = format!("{kind:?} is unknown: use minion or master");
            Err(Error::argument("kind", problem))
        }
    }
}

fn create_for_minions(cx: &Exec, args: Create, uses: u64, until_ms: u64) -> Result<Value, Error> {
    let missing = || Error::argument("id", "a token for minions needs it".to_owned());
    let id = args.id.ok_or_else(missing)?;
    let bind = Map::new()
        .with("role", args.role)
        .with("bind_grains", args.grains)
        .with("pillar", args.pillar)
        .with("expire", args.expire);
    let bound = bound(&bind).map_err(Error::refused)?;
    let made = token::create(&id, uses, until_ms, bound);
    created(cx, made, &id, (uses, until_ms))
}

fn create_for_masters(cx: &Exec, args: Create, uses: u64, until_ms: u64) -> Result<Value, Error> {
    let of_minions = [
        ("role", &args.role),
        ("grains", &args.grains),
        ("pillar", &args.pillar),
        ("expire", &args.expire),
    ];
    if let Some((name, _)) = of_minions.into_iter().find(|(_, value)| !value.is_null()) {
        let problem = "a token for masters binds no key".to_owned();
        return Err(Error::argument(name, problem));
    }
    if uses > tokens::USES_MAX {
        let problem = format!("a token for masters has at most {}", tokens::USES_MAX);
        return Err(Error::argument("uses", problem));
    }
    if runs(cx)?.cluster.is_none() {
        let problem = "this master belongs to no cluster (`cluster_id`) that another could join";
        return Err(Error::refused(problem.to_owned()));
    }
    let id = args.id.unwrap_or_else(|| "*".to_owned());
    let made = tokens::create(&id, uses, until_ms);
    created(cx, made, &id, (uses, until_ms))
}

/// Stores a new token, and returns it.
fn created(
    cx: &Exec,
    made: Result<(NewToken, Command), String>,
    id: &str,
    (uses, until_ms): (u64, u64),
) -> Result<Value, Error> {
    let (new, keep) = made.map_err(Error::refused)?;
    apply(cx, keep)?;
    Ok(Map::new()
        .with("name", new.name.as_str())
        .with("token", format!("{}.{}", new.name, new.secret))
        .with("id", id)
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
    let take = token::revoked(&runs(cx)?.store, &args.token).map_err(super::unreadable)?;
    let name = args.token.split('.').next().unwrap_or_default();
    let take = take.ok_or_else(|| Error::refused(format!("unknown token {name}")))?;
    apply(cx, take)?;
    Ok(true.into())
}
