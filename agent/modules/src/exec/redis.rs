//! The `redis` execution module: keys and values of Redis. The module speaks the protocol of Redis,
//! so no value appears in the arguments of a program. Salt 3008 no longer has this module; the
//! answers are those of the last version that had it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, secret};

use super::config;

/// The maximum time that a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of a value in bytes, which is the limit of Redis.
const VALUE_MAX: usize = 512 << 20;
/// The maximum length of a line of the protocol in bytes.
const LINE_MAX: u64 = 64 << 10;
/// The number of commands that are sent before their answers are read.
const PIPELINE: usize = 256;
/// The maximum nesting of an answer.
const DEPTH_MAX: usize = 8;

state::exec_module! {
    /// Read and change keys of Redis. All functions accept the keywords `host`, `port`, `db` and
    /// `password`, which override the options `redis.host` and so on.
    mod redis;

    /// Return the value of a key, or None if it does not exist.
    ///
    ///     salt-call redis.get_key app:port
    fn get_key(GetKey {
        /// The key.
        key: String,
        ..kwargs
    });

    /// Set a key.
    ///
    ///     salt-call redis.set_key app:port 8080
    fn set_key(SetKey {
        /// The key.
        key: String,
        /// The value.
        value: Value,
        ..kwargs
    });

    /// Delete keys and return how many of them existed.
    ///
    ///     salt-call redis.delete app:port
    fn delete(Delete {
        *keys,
        ..kwargs
    });

    /// Return True when a key exists.
    ///
    ///     salt-call redis.exists app:port
    fn exists(Exists {
        /// The key.
        key: String,
        ..kwargs
    });

    /// Set the time after which a key expires.
    ///
    ///     salt-call redis.expire app:port 300
    fn expire(Expire {
        /// The key.
        key: String,
        /// The time in seconds.
        seconds: i64,
        ..kwargs
    });

    /// Set the point in time at which a key expires.
    ///
    ///     salt-call redis.expireat app:port 1893456000
    fn expireat(Expireat {
        /// The key.
        key: String,
        /// The time in seconds since 1970.
        timestamp: i64,
        ..kwargs
    });

    /// Return the keys that match a pattern.
    ///
    ///     salt-call redis.keys 'app:*'
    fn keys(Keys {
        /// The glob pattern.
        pattern: String = "*".into(),
        ..kwargs
    });

    /// Return the type of a key.
    ///
    ///     salt-call redis.key_type app:port
    fn key_type(KeyType {
        /// The key.
        key: String,
        ..kwargs
    });

    /// Return the fields and values of a hash.
    ///
    ///     salt-call redis.hgetall app
    fn hgetall(Hgetall {
        /// The key.
        key: String,
        ..kwargs
    });

    /// Return the value of a field of a hash.
    ///
    ///     salt-call redis.hget app port
    fn hget(Hget {
        /// The key.
        key: String,
        /// The field.
        field: String,
        ..kwargs
    });

    /// Set a field of a hash.
    ///
    ///     salt-call redis.hset app port 8080
    fn hset(Hset {
        /// The key.
        key: String,
        /// The field.
        field: String,
        /// The value.
        value: Value,
        ..kwargs
    });

    /// Delete fields of a hash and return how many of them existed.
    ///
    ///     salt-call redis.hdel app port
    fn hdel(Hdel {
        /// The key.
        key: String,
        *fields,
        ..kwargs
    });

    /// Return the length of a list.
    ///
    ///     salt-call redis.llen queue
    fn llen(Llen {
        /// The key.
        key: String,
        ..kwargs
    });

    /// Return items of a list.
    ///
    ///     salt-call redis.lrange queue 0 -1
    fn lrange(Lrange {
        /// The key.
        key: String,
        /// The index of the first item.
        start: i64,
        /// The index of the last item.
        stop: i64,
        ..kwargs
    });

    /// Return the members of a set.
    ///
    ///     salt-call redis.smembers tags
    fn smembers(Smembers {
        /// The key.
        key: String,
        ..kwargs
    });

    /// Return the number of keys in the database.
    ///
    ///     salt-call redis.dbsize
    fn dbsize(Dbsize {
        ..kwargs
    });

    /// Return settings of the server.
    ///
    ///     salt-call redis.config_get maxmemory
    fn config_get(ConfigGet {
        /// The glob pattern of the settings' names.
        pattern: String = "*".into(),
        ..kwargs
    });

    /// Change a setting of the server.
    ///
    ///     salt-call redis.config_set maxmemory 100mb
    fn config_set(ConfigSet {
        /// The name of the setting.
        name: String,
        /// The new value.
        value: Value,
        ..kwargs
    });

    /// Delete all keys of all databases.
    ///
    ///     salt-call redis.flushall
    fn flushall(Flushall {
        ..kwargs
    });

    /// Delete all keys of a database.
    ///
    ///     salt-call redis.flushdb
    fn flushdb(Flushdb {
        ..kwargs
    });

    /// Return information about the server.
    ///
    ///     salt-call redis.info
    fn info(Info {
        ..kwargs
    });

    /// Return the time of the last save, in seconds since 1970.
    ///
    ///     salt-call redis.lastsave
    fn lastsave(Lastsave {
        ..kwargs
    });

    /// Return True when the server answers.
    ///
    ///     salt-call redis.ping
    fn ping(Ping {
        ..kwargs
    });

    /// Save the data and wait until it is saved.
    ///
    ///     salt-call redis.save
    fn save(Save {
        ..kwargs
    });

    /// Save the data in the background.
    ///
    ///     salt-call redis.bgsave
    fn bgsave(Bgsave {
        ..kwargs
    });

    /// Make the server a replica of another server, or of none.
    ///
    ///     salt-call redis.slaveof 10.0.0.7 6379
    fn slaveof(Slaveof {
        /// The host of the other server.
        master_host: Option<String> = None,
        /// The port of the other server.
        master_port: Option<String> = None,
        ..kwargs
    });

    /// Return the address of the server whose replica this server is.
    ///
    ///     salt-call redis.get_master_ip
    fn get_master_ip(GetMasterIp {
        ..kwargs
    });

    /// Return the address of the current master according to a Sentinel.
    ///
    ///     salt-call redis.sentinel_get_master_ip mymaster
    fn sentinel_get_master_ip(SentinelGetMasterIp {
        /// The name of the master.
        master: String,
        /// The host of the Sentinel.
        host: Option<String> = None,
        /// The port of the Sentinel.
        port: Option<i64> = None,
        /// The password of the Sentinel.
        password: Option<String> = None,
    });
}

/// A connection to a server.
struct Redis {
    stream: BufReader<TcpStream>,
    place: String,
}

/// The address of a server and the credentials for it.
struct Place {
    host: String,
    port: u16,
    db: String,
    password: String,
}

impl Place {
    fn from_config(cx: &Exec, given: &Map) -> Result<Self, Error> {
        let setting = |name: &str, default: &str| -> Result<String, Error> {
            let own = given.get(name).filter(|value| value.is_true()).cloned();
            let found = match own {
                Some(own) => own,
                None => config::found(cx, &format!("redis.{name}"))?,
            };
            Ok(Some(found.to_text())
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| default.to_owned()))
        };
        let port = setting("port", "6379")?;
        Ok(Self {
            // These are Salt's defaults.
            host: setting("host", "salt")?,
            port: port
                .parse()
                .map_err(|_| Error::refused(format!("redis.port: invalid port {port:?}")))?,
            db: setting("db", "0")?,
            password: setting("password", "")?,
        })
    }
}

/// Returns a command in the protocol.
fn encoded<S: AsRef<str>>(words: &[S]) -> String {
    let mut sent = format!("*{}\r\n", words.len());
    for word in words.iter().map(AsRef::as_ref) {
        sent.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    sent
}

impl Redis {
    fn open(place: &Place) -> Result<Self, Error> {
        let shown = format!("{}:{}", place.host, place.port);
        let failed = |error: std::io::Error| Error::refused(format!("redis at {shown}: {error}"));
        let all = (place.host.as_str(), place.port)
            .to_socket_addrs()
            .map_err(failed)?;
        let mut last = std::io::Error::other("the host name has no address");
        for address in all {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
                    stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
                    let stream = BufReader::new(stream);
                    return Self {
                        stream,
                        place: shown.clone(),
                    }
                    .let_in(place);
                }
                Err(error) => last = error,
            }
        }
        Err(failed(last))
    }

    fn let_in(mut self, place: &Place) -> Result<Self, Error> {
        if !place.password.is_empty() {
            secret::keep(&[], &place.password.as_str().into());
            self.ask(&["AUTH", &place.password])?;
        }
        if !matches!(place.db.as_str(), "" | "0") {
            self.ask(&["SELECT", &place.db])?;
        }
        Ok(self)
    }

    fn failed(&self, why: impl std::fmt::Display) -> Error {
        Error::refused(format!("redis at {}: {why}", self.place))
    }

    /// Sends a command and returns the answer.
    fn ask(&mut self, words: &[&str]) -> Result<Value, Error> {
        self.send(&encoded(words))?;
        self.answer(DEPTH_MAX)
    }

    fn send(&mut self, commands: &str) -> Result<(), Error> {
        let written = self.stream.get_mut().write_all(commands.as_bytes());
        written.map_err(|error| self.failed(error))
    }

    fn line(&mut self) -> Result<String, Error> {
        let mut line = Vec::new();
        let read = (&mut self.stream)
            .take(LINE_MAX)
            .read_until(b'\n', &mut line);
        read.map_err(|error| self.failed(error))?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(self.failed("the reply is incomplete")),
        }
    }

    fn answer(&mut self, depth: usize) -> Result<Value, Error> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
        let count = || rest.parse::<i64>().ok();
        match (kind, count()) {
            ("+", _) => Ok(rest.into()),
            ("-", _) => Err(self.failed(rest)),
            (":", Some(number)) => Ok(number.into()),
            ("$" | "*", Some(-1)) => Ok(Value::Null),
            ("$", Some(length)) => self.bulk(length),
            ("*", Some(count @ 0..)) if depth > 0 => {
                let all: Result<Vec<Value>, Error> =
                    (0..count).map(|_| self.answer(depth - 1)).collect();
                Ok(Value::list(all?))
            }
            _ => Err(self.failed("the reply is not in the Redis protocol")),
        }
    }

    fn bulk(&mut self, length: i64) -> Result<Value, Error> {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= VALUE_MAX);
        let length = length.ok_or_else(|| self.failed("the value is too large"))?;
        let mut bytes = Vec::new();
        let read = (&mut self.stream)
            .take(length as u64 + 2)
            .read_to_end(&mut bytes);
        read.map_err(|error| self.failed(error))?;
        if bytes.len() != length + 2 {
            return Err(self.failed("the reply is incomplete"));
        }
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned().into())
    }
}

/// Sends one command to the server that the keywords or the configuration name.
///
/// # Errors
/// When it does not answer, or refuses.
pub(crate) fn run(cx: &Exec, given: &Map, words: &[&str]) -> Result<Value, Error> {
    Redis::open(&Place::from_config(cx, given)?)?.ask(words)
}

/// Runs commands over one connection, without waiting for an answer before the next command.
///
/// # Errors
/// When the server cannot be reached or refuses a command.
pub(crate) fn run_all(cx: &Exec, given: &Map, commands: &[Vec<String>]) -> Result<(), Error> {
    let mut redis = Redis::open(&Place::from_config(cx, given)?)?;
    for some in commands.chunks(PIPELINE) {
        let sent: String = some.iter().map(|words| encoded(words)).collect();
        redis.send(&sent)?;
        for _ in some {
            redis.answer(DEPTH_MAX)?;
        }
    }
    Ok(())
}

/// Like [`run`], but returns a Boolean for a command that answers `OK` or a number.
fn done(cx: &Exec, given: &Map, words: &[&str]) -> Result<Value, Error> {
    let said = run(cx, given, words)?;
    Ok(match said.as_int() {
        Some(number) => (number != 0).into(),
        None => true.into(),
    })
}

/// Returns the dictionary of names and values that follow each other.
pub(crate) fn pairs(flat: &Value) -> Map {
    let all = flat.as_list().unwrap_or_default().chunks_exact(2);
    all.filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone())))
        .collect()
}

fn get_key(cx: &Exec, args: GetKey) -> Result<Value, Error> {
    run(cx, &args.kwargs, &["GET", &args.key])
}

fn set_key(cx: &Exec, args: SetKey) -> Result<Value, Error> {
    done(cx, &args.kwargs, &["SET", &args.key, &args.value.to_text()])
}

fn with_rest(cx: &Exec, given: &Map, words: &[&str], rest: &[Value]) -> Result<Value, Error> {
    let rest: Vec<String> = rest.iter().map(Value::to_text).collect();
    let all: Vec<&str> = words
        .iter()
        .copied()
        .chain(rest.iter().map(String::as_str))
        .collect();
    run(cx, given, &all)
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    with_rest(cx, &args.kwargs, &["DEL"], &args.keys)
}

fn exists(cx: &Exec, args: Exists) -> Result<Value, Error> {
    run(cx, &args.kwargs, &["EXISTS", &args.key])
}

fn expire(cx: &Exec, args: Expire) -> Result<Value, Error> {
    done(
        cx,
        &args.kwargs,
        &["EXPIRE", &args.key, &args.seconds.to_string()],
    )
}

fn expireat(cx: &Exec, args: Expireat) -> Result<Value, Error> {
    done(
        cx,
        &args.kwargs,
        &["EXPIREAT", &args.key, &args.timestamp.to_string()],
    )
}

fn keys(cx: &Exec, args: Keys) -> Result<Value, Error> {
    run(cx, &args.kwargs, &["KEYS", &args.pattern])
}

fn key_type(cx: &Exec, args: KeyType) -> Result<Value, Error> {
    run(cx, &args.kwargs, &["TYPE", &args.key])
}

fn hgetall(cx: &Exec, args: Hgetall) -> Result<Value, Error> {
    Ok(pairs(&run(cx, &args.kwargs, &["HGETALL", &args.key])?).into())
}

fn hget(cx: &Exec, args: Hget) -> Result<Value, Error> {
    run(cx, &args.kwargs, &["HGET", &args.key, &args.field])
}

fn hset(cx: &Exec, args: Hset) -> Result<Value, Error> {
    run(
        cx,
        &args.kwargs,
        &["HSET", &args.key, &args.field, &args.value.to_text()],
    )
}

fn hdel(cx: &Exec, args: Hdel) -> Result<Value, Error> {
    with_rest(cx, &args.kwargs, &["HDEL", &args.key], &args.fields)
}

fn llen(cx: &Exec, args: Llen) -> Result<Value, Error> {
    run(cx, &args.kwargs, &["LLEN", &args.key])
}

fn lrange(cx: &Exec, args: Lrange) -> Result<Value, Error> {
    let (start, stop) = (args.start.to_string(), args.stop.to_string());
    run(cx, &args.kwargs, &["LRANGE", &args.key, &start, &stop])
}

fn smembers(cx: &Exec, args: Smembers) -> Result<Value, Error> {
    run(cx, &args.kwargs, &["SMEMBERS", &args.key])
}

fn dbsize(cx: &Exec, args: Dbsize) -> Result<Value, Error> {
    run(cx, &args.kwargs, &["DBSIZE"])
}

fn config_get(cx: &Exec, args: ConfigGet) -> Result<Value, Error> {
    Ok(pairs(&run(cx, &args.kwargs, &["CONFIG", "GET", &args.pattern])?).into())
}

fn config_set(cx: &Exec, args: ConfigSet) -> Result<Value, Error> {
    done(
        cx,
        &args.kwargs,
        &["CONFIG", "SET", &args.name, &args.value.to_text()],
    )
}

fn flushall(cx: &Exec, args: Flushall) -> Result<Value, Error> {
    done(cx, &args.kwargs, &["FLUSHALL"])
}

fn flushdb(cx: &Exec, args: Flushdb) -> Result<Value, Error> {
    done(cx, &args.kwargs, &["FLUSHDB"])
}

/// Parses a value as Python's client does: a number, or a dictionary of pairs that commas separate.
fn parse_value(text: &str) -> Value {
    if text.contains(',') && text.contains('=') {
        let all = text.split(',').filter_map(|pair| pair.rsplit_once('='));
        return all
            .map(|(name, value)| (name, parse_value(value)))
            .collect::<Map>()
            .into();
    }
    let float = || {
        text.parse()
            .ok()
            .filter(|_| text.contains('.'))
            .map(Value::Float)
    };
    text.parse()
        .ok()
        .map(Value::Int)
        .or_else(float)
        .unwrap_or_else(|| text.into())
}

fn about(cx: &Exec, given: &Map) -> Result<Map, Error> {
    let said = run(cx, given, &["INFO"])?.to_text();
    let lines = said.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(':'));
    Ok(pairs
        .map(|(name, value)| (name, parse_value(value)))
        .collect())
}

fn info(cx: &Exec, args: Info) -> Result<Value, Error> {
    Ok(about(cx, &args.kwargs)?.into())
}

fn lastsave(cx: &Exec, args: Lastsave) -> Result<Value, Error> {
    run(cx, &args.kwargs, &["LASTSAVE"])
}

fn ping(cx: &Exec, args: Ping) -> Result<Value, Error> {
    Ok(run(cx, &args.kwargs, &["PING"]).is_ok().into())
}

fn save(cx: &Exec, args: Save) -> Result<Value, Error> {
    done(cx, &args.kwargs, &["SAVE"])
}

fn bgsave(cx: &Exec, args: Bgsave) -> Result<Value, Error> {
    done(cx, &args.kwargs, &["BGSAVE"])
}

fn slaveof(cx: &Exec, args: Slaveof) -> Result<Value, Error> {
    let host = args.master_host.filter(|host| !host.is_empty());
    let words = match &host {
        Some(host) => [host.as_str(), args.master_port.as_deref().unwrap_or("6379")],
        None => ["NO", "ONE"],
    };
    done(cx, &args.kwargs, &[["SLAVEOF"].as_slice(), &words].concat())
}

/// Returns `master_host` and `master_port` of the server whose replica this server is; both are
/// empty if it is no replica.
///
/// # Errors
/// When the server does not answer.
pub(crate) fn master(cx: &Exec, given: &Map) -> Result<Map, Error> {
    let about = about(cx, given)?;
    let text = |name: &str| about.get(name).map_or_else(String::new, Value::to_text);
    Ok(Map::new()
        .with("master_host", text("master_host"))
        .with("master_port", text("master_port")))
}

fn get_master_ip(cx: &Exec, args: GetMasterIp) -> Result<Value, Error> {
    Ok(master(cx, &args.kwargs)?.into())
}

fn sentinel_get_master_ip(cx: &Exec, args: SentinelGetMasterIp) -> Result<Value, Error> {
    let given = Map::new()
        .with("host", args.host)
        .with("port", args.port)
        .with("password", args.password);
    Ok(sentinel(cx, &args.master, &given)?.into())
}

/// Returns `master_host` and `master_port` of the current master according to a Sentinel.
///
/// # Errors
/// When the Sentinel does not answer, or knows no such master.
pub(crate) fn sentinel(cx: &Exec, name: &str, given: &Map) -> Result<Map, Error> {
    let setting = |key: &str, default: &str| {
        let own = given.get(key).filter(|value| value.is_true());
        let option = || {
            cx.opts()
                .text(&format!("redis_sentinel.{key}"))
                .map(str::to_owned)
        };
        own.map(Value::to_text)
            .or_else(option)
            .unwrap_or_else(|| default.to_owned())
    };
    let port = setting("port", "26379");
    let place = Place {
        host: setting("host", "localhost"),
        port: port
            .parse()
            .map_err(|_| Error::refused(format!("invalid port {port:?}")))?,
        db: String::new(),
        password: setting("password", ""),
    };
    let told = Redis::open(&place)?.ask(&["SENTINEL", "get-master-addr-by-name", name])?;
    let all = told.as_list().unwrap_or_default();
    match (all.first(), all.get(1)) {
        (Some(host), Some(port)) => Ok(Map::new()
            .with("master_host", host.clone())
            .with("master_port", port.clone())),
        _ => Err(Error::refused(format!(
            "The Sentinel at {}:{} has no master {name}",
            place.host, place.port
        ))),
    }
}
