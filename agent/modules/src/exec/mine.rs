//! The `mine` execution module. With a master the mine is stored by the master; without one it is
//! stored by this minion and has only its own data.
//!
//! Salt stores what `mine.send` and `mine.update` produce in a cache, and `mine.get` returns only
//! that. Without a master no daemon updates the cache, so a function that is in `mine_functions`
//! and has no stored data is called when it is requested.

use std::path::PathBuf;

use machine::fs::{self, Owner};
use state::ask::Ask;
use state::exec::Exec;
use state::matcher;
use state::module::Error;
use value::json::Layout;
use value::{Map, Value, log, secret};

state::exec_module! {
    /// Exchange data between minions.
    mod mine;

    /// Return data from the mine for the minions that match, by minion id.
    ///
    ///     salt-call mine.get 'web*' network.ip_addrs
    fn get(Get {
        /// The target: the minions whose data is returned.
        tgt: Value,
        /// The function, several functions with commas between them, or a list.
        fun: Value,
        /// The type of the target.
        tgt_type: String = "glob".to_owned(),
        /// Whether to leave out the data of this minion. As in Salt, it has no effect without a
        /// master.
        exclude_minion: bool = false,
    });

    /// Call a function and store its result in the mine.
    ///
    ///     salt-call mine.send network.ip_addrs
    fn send(Send {
        /// The name in the mine. It is also the name of the function, unless mine_function names
        /// another one.
        name: String,
        *rest,
        ..kwargs
    });

    /// Call the functions in mine_functions and store their results in the mine.
    ///
    ///     salt-call mine.update
    fn update(Update {
        /// Whether to remove all other data from the mine.
        clear: bool = false,
        /// The functions to call instead of those in the configuration.
        mine_functions: Value = Value::Null,
    });

    /// Remove the data of one function. Return True.
    ///
    ///     salt-call mine.delete network.ip_addrs
    fn delete(Delete {
        /// The name in the mine.
        fun: String,
    });

    /// Remove all data. Return True.
    ///
    ///     salt-call mine.flush
    fn flush(Flush {});

    /// Return the entries of mine_functions that can be called, or None if the option is not set.
    ///
    ///     salt-call mine.valid
    fn valid(Valid {});
}

/// A function of `mine_functions`.
#[derive(Debug, PartialEq)]
struct Definition {
    function: String,
    args: Vec<Value>,
    kwargs: Map,
    /// The minions that may read the data: `allow_tgt` and `allow_tgt_type`.
    allowed: Map,
}

impl Definition {
    /// Parses an entry of the configuration: a list of arguments, or a dictionary of named ones.
    fn parse(alias: &str, given: &Value) -> Self {
        let (mut args, mut kwargs) = (Vec::new(), Map::new());
        match given {
            Value::Map(named) => kwargs = named.clone(),
            other => {
                for item in other.as_list().unwrap_or_default() {
                    match item {
                        Value::Map(named) => kwargs.update(named.clone()),
                        other => args.push(other.clone()),
                    }
                }
            }
        }
        Self::new(alias, args, kwargs)
    }

    /// Separates the arguments of the mine from the named arguments of the function.
    fn new(alias: &str, args: Vec<Value>, mut kwargs: Map) -> Self {
        // The metadata of the job (`__pub_…`) is not meant for the function that produces the data.
        kwargs.retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with("__pub_")));
        let function = kwargs.remove("mine_function");
        let allowed = ["allow_tgt", "allow_tgt_type"]
            .into_iter()
            .filter_map(|name| Some((Value::from(name), kwargs.remove(name)?)))
            .collect();
        Self {
            function: function.map_or_else(|| alias.to_owned(), |name| name.to_text()),
            args,
            kwargs,
            allowed,
        }
    }

    /// Returns the arguments as one list. Each named argument is a dictionary with one entry.
    fn arguments(self) -> Value {
        let named = self.kwargs.into_iter();
        let named = named.map(|(name, value)| [(name, value)].into_iter().collect());
        Value::list(self.args.into_iter().chain(named))
    }

    /// Calls the function. A failure is logged, and there is no data then.
    fn call(self, cx: &Exec, caller: &str) -> Option<Value> {
        let found = cx.call(&self.function, self.args, self.kwargs);
        found
            .map_err(|error| {
                let function = &self.function;
                log::error(format_args!(
                    "Function {function} in {caller} failed to execute: {error}"
                ));
            })
            .ok()
    }
}

/// Returns the reason why data must not be put into the mine, if there is one: the data contains a
/// secret, other minions could read it there, and it would be stored on a disk.
fn hidden(cx: &Exec, name: &str, data: &Value) -> Option<String> {
    let is_kept_out = !cx.opts().flag("mine_secrets") && secret::holds(data);
    is_kept_out.then(|| {
        format!("refusing to store the data of {name} in the mine: it contains a secret, which other minions could read there; give them the pillar that it comes from, or set mine_secrets: True")
    })
}

/// Returns the data of a function in Salt's form: the value itself, or a dictionary with the
/// minions that may read it.
fn limited(value: Value, allowed: Map) -> Value {
    if !allowed.contains("allow_tgt") {
        return value;
    }
    let mut entry = Map::new()
        .with("__saltmine_acl__", 1)
        .with("__data__", value);
    entry.update(allowed);
    entry.into()
}

/// Returns the requested functions, and whether the result is grouped by function.
fn functions(fun: &Value) -> Option<(Vec<String>, bool)> {
    if let Value::Str(names) = fun {
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        let several = names.len() > 1;
        return Some((names, several));
    }
    let names = fun.as_list()?;
    Some((names.iter().map(Value::to_text).collect(), true))
}

/// Queries the master's mine, if there is a master.
fn of_master(cx: &Exec, args: &Get) -> Result<Option<Value>, Error> {
    let Some((fun, by_function)) = functions(&args.fun) else {
        return Ok(None);
    };
    let asked = cx.ask(Ask::MineGet {
        tgt: args.tgt.clone(),
        tgt_type: args.tgt_type.clone(),
        fun: fun.clone(),
        exclude_minion: args.exclude_minion,
    })?;
    Ok(asked.map(|found| match fun.first() {
        Some(only) if !by_function => {
            let found = found.get(only).cloned();
            found.unwrap_or_else(|| Map::new().into())
        }
        _ => found,
    }))
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    if let Some(found) = of_master(cx, &args)? {
        return Ok(found);
    }
    let mut ret = Map::new();
    if !matcher::matches(cx, &args.tgt, &args.tgt_type)? {
        return Ok(ret.into());
    }
    let Some((functions, by_function)) = functions(&args.fun) else {
        return Ok(ret.into());
    };
    let stored = stored(cx)?;
    let configured = configured(cx)?;
    let id = cx.opts().id();
    for function in functions {
        let known = stored.get(&function).cloned().or_else(|| {
            let given = configured.get(&function)?;
            Definition::parse(&function, given).call(cx, "mine.get")
        });
        let Some(data) = known else { continue };
        if by_function {
            ret.insert(function, Map::new().with(id, data));
        } else {
            ret.insert(id, data);
        }
    }
    Ok(ret.into())
}

fn send(cx: &Exec, args: Send) -> Result<Value, Error> {
    let definition = Definition::new(&args.name, args.rest, args.kwargs);
    let allowed = definition.allowed.clone();
    let Some(data) = definition.call(cx, "mine.send") else {
        return Ok(false.into());
    };
    if let Some(why) = hidden(cx, &args.name, &data) {
        return Err(Error::refused(why));
    }
    let put = Ask::MinePut {
        data: Map::new().with(&args.name, limited(data.clone(), allowed)),
        clear: false,
    };
    match cx.ask(put)? {
        Some(_) => Ok(true.into()),
        None => store(cx, stored(cx)?.with(&args.name, data)),
    }
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let functions = match args.mine_functions {
        Value::Map(functions) if !functions.is_empty() => functions,
        Value::List(names) if !names.is_empty() => names
            .iter()
            .map(|name| (name.clone(), Value::from(Map::new())))
            .collect(),
        _ => configured(cx)?,
    };
    if functions.is_empty() {
        return Ok(Value::Null);
    }
    let (mut data, mut limits) = (Map::new(), Map::new());
    for (alias, given) in &functions {
        let definition = Definition::parse(&alias.to_text(), given);
        let allowed = definition.allowed.clone();
        let found = definition.call(cx, "mine.update");
        let why = found
            .as_ref()
            .and_then(|found| hidden(cx, &alias.to_text(), found));
        if let Some(why) = why {
            log::error(why);
            cx.set_retcode(1);
        } else if let Some(found) = found {
            limits.insert(alias.clone(), limited(found.clone(), allowed));
            data.insert(alias.clone(), found);
        }
    }
    let put = Ask::MinePut {
        data: limits,
        clear: args.clear,
    };
    if cx.ask(put)?.is_some() {
        return Ok(true.into());
    }
    let mut all = if args.clear { Map::new() } else { stored(cx)? };
    all.update(data);
    store(cx, all)
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let forget = Ask::MineDelete {
        fun: Some(args.fun.clone()),
    };
    if cx.ask(forget)?.is_some() {
        return Ok(true.into());
    }
    let mut data = stored(cx)?;
    data.remove(&args.fun);
    store(cx, data)
}

fn flush(cx: &Exec, _args: Flush) -> Result<Value, Error> {
    match cx.ask(Ask::MineDelete { fun: None })? {
        Some(_) => Ok(true.into()),
        None => store(cx, Map::new()),
    }
}

fn valid(cx: &Exec, _args: Valid) -> Result<Value, Error> {
    let configured = configured(cx)?;
    if configured.is_empty() {
        return Ok(Value::Null);
    }
    let mut valid = Map::new();
    for (alias, given) in configured {
        let name = alias.to_text();
        let definition = Definition::parse(&name, &given);
        if !cx.has_function(&definition.function) {
            continue;
        }
        let shown = if definition.function == name {
            given
        } else {
            Map::new()
                .with(&definition.function.clone(), definition.arguments())
                .into()
        };
        valid.insert(alias, shown);
    }
    Ok(valid.into())
}

/// Returns `mine_functions` from the configuration, updated with the pillar's.
fn configured(cx: &Exec) -> Result<Map, Error> {
    let name = "mine_functions";
    let as_map = |value: Option<&Value>| value.and_then(Value::as_map).cloned().unwrap_or_default();
    let mut functions = as_map(cx.opts().get(name));
    functions.update(as_map(cx.pillar()?.get(name)));
    Ok(functions)
}

fn path(cx: &Exec) -> PathBuf {
    cx.opts().cachedir().join("mine.json")
}

/// Returns the data that is stored in the mine.
fn stored(cx: &Exec) -> Result<Map, Error> {
    let path = path(cx);
    let Some(text) = fs::text_or_none(&path)? else {
        return Ok(Map::new());
    };
    match value::json::read(&text) {
        Ok(Value::Map(data)) => Ok(data),
        _ => Err(format!(
            "{} does not contain mine data; mine.flush resets it",
            path.display()
        )
        .into()),
    }
}

fn store(cx: &Exec, data: Map) -> Result<Value, Error> {
    let path = path(cx);
    if let Some(folder) = path.parent() {
        value::trust::folder(folder).map_err(Error::io(folder))?;
    }
    let layout = Layout {
        indent: None,
        sort_keys: false,
        ascii: false,
    };
    let text = value::json::write(&data.into(), layout);
    let owner = Owner {
        mode: Some(0o600),
        ..Owner::default()
    };
    fs::write(cx, &path, text.as_bytes(), owner)?;
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_mine_has_what_was_put_there_and_what_is_configured() {
        let folder = tempfile::tempdir().unwrap();
        let opts = Map::new()
            .with("id", "m1")
            .with("cachedir", folder.path().to_string_lossy().as_ref());
        let word = Map::new()
            .with("mine_function", "test.echo")
            .with("text", "hello");
        let pillar = Map::new().with("mine_functions", Map::new().with("word", word));
        let cx = testing::exec_with(opts, pillar);
        let call = |fun: &str, args: &[&str]| {
            let args = args.iter().map(|arg| Value::from(*arg)).collect();
            value::python::str(&cx.call(fun, args, Map::new()).unwrap())
        };
        assert_eq!(call("mine.get", &["*", "word"]), "{'m1': 'hello'}");
        assert_eq!(call("mine.get", &["other", "word"]), "{}");
        assert_eq!(call("mine.get", &["*", "test.ping"]), "{}");
        assert_eq!(call("mine.send", &["test.ping"]), "True");
        assert_eq!(call("mine.send", &["no.such"]), "False");
        let both = call("mine.get", &["*", "test.ping,word"]);
        assert_eq!(both, "{'test.ping': {'m1': True}, 'word': {'m1': 'hello'}}");
        assert_eq!(call("mine.flush", &[]), "True");
        assert_eq!(call("mine.get", &["*", "test.ping"]), "{}");
    }

    #[test]
    fn a_definition_is_a_list_or_a_dictionary_of_arguments() {
        let named = Map::new()
            .with("mine_function", "network.ip_addrs")
            .with("cidr", "10.0.0.0/8");
        let wanted = |args: Vec<Value>, allowed: Map| Definition {
            function: "network.ip_addrs".to_owned(),
            args,
            kwargs: Map::new().with("cidr", "10.0.0.0/8"),
            allowed,
        };
        let dictionary = Definition::parse("ips", &named.clone().into());
        assert_eq!(dictionary, wanted(Vec::new(), Map::new()));
        let list = Value::list(["eth0".into(), named.with("allow_tgt", "*").into()]);
        let allowed = Map::new().with("allow_tgt", "*");
        assert_eq!(
            Definition::parse("ips", &list),
            wanted(vec!["eth0".into()], allowed)
        );
        assert_eq!(
            Definition::parse("test.ping", &Value::Null).function,
            "test.ping"
        );
    }
}
