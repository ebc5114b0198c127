//! The `redis` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::redis::{master, run, sentinel};

state::state_module! {
    /// Manage keys and values of Redis. The other keywords are `host`, `port`, `db` and `password`.
    #[facts(free_arguments = true)]
    mod redis;

    /// Make sure that a key has a value.
    ///
    ///     app/port:
    ///       redis.string:
    ///         - value: '8080'
    fn string(Text {
        /// The key.
        name: String,
        /// The value of the key.
        value: Value,
        /// The number of seconds after which the key expires.
        expire: Option<i64> = None,
        /// The time at which the key expires, in seconds since 1970.
        expireat: Option<i64> = None,
        ..kwargs
    });

    /// Make sure that keys do not exist.
    ///
    ///     app/port:
    ///       redis.absent
    fn absent(Absent {
        /// The key.
        name: String,
        /// A list of keys, instead of `name`.
        keys: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that the server is a replica of the master that a Sentinel knows.
    ///
    ///     '10.0.0.7':
    ///       redis.slaveof:
    ///         - sentinel_host: 10.0.0.8
    fn slaveof(Slaveof {
        /// The name of the master.
        name: String,
        /// The host of the Sentinel.
        sentinel_host: Option<String> = None,
        /// The port of the Sentinel.
        sentinel_port: Option<i64> = None,
        /// The password of the Sentinel.
        sentinel_password: Option<String> = None,
        ..kwargs
    });
}

fn string(cx: &Exec, args: Text) -> Result<Ret, Error> {
    let (name, given) = (&args.name, &args.kwargs);
    let wanted = args.value.to_text();
    let is_same = run(cx, given, &["GET", name])?.as_str() == Some(wanted.as_str());
    let mut changes = Map::new();
    let mut comment = "Key already set to defined value";
    if !is_same {
        changes.insert(name.as_str(), "Value updated");
        comment = "Key updated to new value";
    }
    let ends = match (
        args.expireat.filter(|at| *at != 0),
        args.expire.filter(|seconds| *seconds != 0),
    ) {
        (Some(at), _) => {
            changes.insert("expireat", format!("Key expires at {at}"));
            Some(("EXPIREAT", at.to_string()))
        }
        (None, Some(seconds)) => {
            changes.insert("expire", format!("TTL set to {seconds} seconds"));
            Some(("EXPIRE", seconds.to_string()))
        }
        _ => None,
    };
    if changes.is_empty() {
        return Ok(Ret::ok(comment));
    }
    let would = match is_same {
        true => Ret::would("Key would expire"),
        false => Ret::would("Key would be updated to new value"),
    };
    cx.apply(would.changes(changes.clone()), || {
        if !is_same {
            run(cx, given, &["SET", name, &wanted])?;
        }
        if let Some((command, when)) = ends {
            run(cx, given, &[command, name, &when])?;
        }
        Ok(Ret::ok(comment).changes(changes))
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let given = &args.kwargs;
    let (keys, done) = match &args.keys {
        Value::List(keys) if !keys.is_empty() => (args.keys.texts(), "Keys deleted"),
        keys if keys.is_true() => return Ok(Ret::failed("`keys` not formed as a list type")),
        _ => (vec![args.name.clone()], "Key deleted"),
    };
    let mut there = Vec::new();
    for key in keys {
        if run(cx, given, &["EXISTS", &key])?.is_true() {
            there.push(key);
        }
    }
    if there.is_empty() {
        return Ok(Ret::ok("Key(s) specified already absent"));
    }
    let names = Value::list(there.iter().map(|key| key.as_str().into()));
    let changes = Map::new().with("deleted", names);
    let would = Ret::would("Keys would be deleted").changes(changes.clone());
    cx.apply(would, || {
        let words: Vec<&str> = ["DEL"]
            .into_iter()
            .chain(there.iter().map(String::as_str))
            .collect();
        run(cx, given, &words)?;
        Ok(Ret::ok(done).changes(changes))
    })
}

fn slaveof(cx: &Exec, args: Slaveof) -> Result<Ret, Error> {
    let (name, given) = (&args.name, &args.kwargs);
    let place = Map::new()
        .with("host", args.sentinel_host)
        .with("port", args.sentinel_port)
        .with("password", args.sentinel_password);
    let wanted = sentinel(cx, name, &place)?;
    let host = wanted
        .get("master_host")
        .map_or_else(String::new, Value::to_text);
    let own = cx.call_internal("network.ip_addrs", Vec::new(), Map::new())?;
    if own.texts().contains(&host) {
        return Ok(Ret::ok(format!("Minion is the master: {name}")));
    }
    let first = master(cx, given)?;
    if first == wanted {
        return Ok(Ret::ok(format!("Minion already slave of master: {name}")));
    }
    let would = format!("Minion will be made a slave of {name}: {host}");
    cx.apply(Ret::would(would), || {
        let port = wanted
            .get("master_port")
            .map_or_else(String::new, Value::to_text);
        run(cx, given, &["SLAVEOF", &host, &port])?;
        let current = master(cx, given)?;
        if current != wanted {
            return Ok(Ret::failed("Failed to setup slave"));
        }
        let changes = Map::new().with("old", first).with("new", current);
        Ok(Ret::ok(format!("Minion successfully connected to master: {name}")).changes(changes))
    })
}
