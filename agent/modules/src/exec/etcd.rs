//! The `etcd` execution module: reads and writes keys of etcd, through the API of version 2 or the
//! JSON gateway of version 3.

use machine::net::http::quoted;
use python::base64;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, secret};

use crate::exec::json_api::{self, Question};
use crate::serializers::msgpack;

state::exec_module! {
    /// Read and write keys of etcd.
    mod etcd;

    /// Return the value of a key, or None if the key does not exist.
    ///
    ///     salt-call etcd.get /app/port profile=my_etcd
    fn get(Get {
        /// The name of the key.
        key: String,
        /// True to return all keys below the key.
        recurse: bool = false,
        /// The profile of the configuration that describes the etcd server.
        profile: Option<String> = None,
        ..kwargs
    });

    /// Set a key.
    ///
    ///     salt-call etcd.set /app/port 8080 profile=my_etcd
    fn set(Set {
        /// The name of the key.
        key: String,
        /// The value to set.
        value: Value,
        /// The profile of the configuration that describes the etcd server.
        profile: Option<String> = None,
        /// The time to live of the key, in seconds.
        ttl: Option<i64> = None,
        /// True to create a directory instead of a key.
        directory: bool = false,
        ..kwargs
    });

    /// Set all keys of a dictionary.
    ///
    ///     salt-call etcd.update '{port: 8080}' path=/app profile=my_etcd
    fn update(Update {
        /// The dictionary of keys and values. It may be nested.
        fields: Value,
        /// The path to put in front of the keys.
        path: String = String::new(),
        /// The profile of the configuration that describes the etcd server.
        profile: Option<String> = None,
        ..kwargs
    });

    /// Return the keys and directories in a directory.
    ///
    ///     salt-call etcd.ls /app profile=my_etcd
    fn ls(Ls {
        /// The path of the directory.
        path: String = "/".into(),
        /// The profile of the configuration that describes the etcd server.
        profile: Option<String> = None,
        ..kwargs
    });

    /// Delete a key.
    ///
    ///     salt-call etcd.rm /app/port profile=my_etcd
    fn rm(Rm {
        /// The name of the key.
        key: String,
        /// True to delete all keys below the key.
        recurse: bool = false,
        /// The profile of the configuration that describes the etcd server.
        profile: Option<String> = None,
        ..kwargs
    });

    /// Return all keys below a directory, as a nested dictionary.
    ///
    ///     salt-call etcd.tree /app profile=my_etcd
    fn tree(Tree {
        /// The path of the directory.
        path: String = "/".into(),
        /// The profile of the configuration that describes the etcd server.
        profile: Option<String> = None,
        ..kwargs
    });
}

/// The maximum nesting depth of a value.
const DEPTH_MAX: usize = 64;

/// An etcd server, and the credentials for it.
pub(crate) struct Etcd {
    url: String,
    user: Option<(String, String)>,
    ca: Option<Value>,
    is_v3: bool,
    /// True if values are stored as MessagePack. Only for version 3.
    encodes: bool,
    /// The token that version 3 returns for user and password.
    token: Option<String>,
}

impl Etcd {
    /// Returns the etcd of a profile, or the one of the configuration (`etcd.host`, `etcd.port`,
    /// `etcd.username` and so on).
    ///
    /// # Errors
    /// When there is no such profile, or its settings are not supported.
    pub(crate) fn from_profile(
        cx: &Exec,
        profile: Option<&str>,
        given: &Map,
    ) -> Result<Self, Error> {
        let config = match profile {
            Some(name) => json_api::profile(cx, name)?.ok_or_else(|| {
                Error::refused(format!("The etcd profile {name} is not configured"))
            })?,
            None => all(cx)?,
        };
        Self::with(cx, &config, given)
    }

    /// Returns the etcd that the settings of a profile describe.
    ///
    /// # Errors
    /// When the settings are not supported.
    pub(crate) fn of_settings(cx: &Exec, config: &Map) -> Result<Self, Error> {
        Self::with(cx, config, &Map::new())
    }

    fn with(cx: &Exec, config: &Map, given: &Map) -> Result<Self, Error> {
        let setting = |name: &str| {
            let own = given
                .get(name)
                .or_else(|| config.get(&format!("etcd.{name}")));
            own.filter(|value| !value.is_null()).cloned()
        };
        if setting("client_cert").is_some() || setting("client_key").is_some() {
            return Err(
                "etcd.client_cert and etcd.client_key are not supported: use etcd.username and etcd.password"
                    .into(),
            );
        }
        let text = |name: &str| setting(name).map(|value| value.to_text());
        let ca = setting("ca");
        let scheme = if ca.is_some() { "https" } else { "http" };
        let host = text("host").unwrap_or_else(|| "127.0.0.1".into());
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        let port = text("port").unwrap_or_else(|| "2379".into());
        let password = text("password");
        if let Some(password) = &password {
            secret::keep(&[], &password.as_str().into());
        }
        let mut etcd = Self {
            url: format!("{scheme}://{host}:{port}"),
            user: text("username").zip(password),
            ca,
            is_v3: setting("require_v2").is_some_and(|value| !value.is_true()),
            encodes: setting("encode_values").is_none_or(|value| value.is_true()),
            token: None,
        };
        if let Some((name, password)) = etcd.user.clone().filter(|_| etcd.is_v3) {
            let who = Map::new().with("name", name).with("password", password);
            let told = etcd.v3(cx, "auth/authenticate", who)?;
            etcd.token = told.get("token").map(Value::to_text);
        }
        Ok(etcd)
    }

    fn question<'a>(&self, method: &'a str, url: &'a str) -> Question<'a> {
        let mut question = Question::new(method, url, None);
        question.verify = self.ca.clone();
        let authorization = match (&self.token, &self.user) {
            (Some(token), _) => Some(token.clone()),
            (None, Some((name, password))) if !self.is_v3 => {
                let both = format!("{name}:{password}");
                Some(format!("Basic {}", base64::encode(both.as_bytes())))
            }
            _ => None,
        };
        if let Some(authorization) = authorization {
            question
                .headers
                .push(("Authorization".to_owned(), authorization));
        }
        question
    }

    /// Sends a request to the API of version 3.
    fn v3(&self, cx: &Exec, what: &str, body: Map) -> Result<Value, Error> {
        let url = format!("{}/v3/{what}", self.url);
        let mut question = self.question("POST", &url);
        question.body = Question::new("POST", &url, Some(body.into())).body;
        let answer = question.ask(cx)?;
        if !answer.is_success() {
            let why = answer.json().unwrap_or_default();
            let why = why
                .get("error")
                .or_else(|| why.get("message"))
                .map(Value::to_text);
            return Err(Error::refused(format!(
                "etcd: {}",
                why.unwrap_or(answer.reason)
            )));
        }
        answer.json()
    }

    /// Sends a request to the API of version 2. The inner error contains the error code of etcd and
    /// the reason.
    fn v2(
        &self,
        cx: &Exec,
        method: &str,
        (key, settings): (&str, &str),
        form: Option<String>,
    ) -> Result<Result<Value, (i64, String)>, Error> {
        let path: Vec<String> = key.trim_start_matches('/').split('/').map(quoted).collect();
        let url = format!("{}/v2/keys/{}{settings}", self.url, path.join("/"));
        let mut question = self.question(method, &url);
        if let Some(form) = form {
            question.headers.retain(|(name, _)| name != "Content-Type");
            let kind = "application/x-www-form-urlencoded".to_owned();
            question.headers.push(("Content-Type".to_owned(), kind));
            question.body = Some(form.into_bytes());
        }
        let answer = question.ask(cx)?;
        let told = answer.json();
        if answer.is_success() {
            return told.map(Ok);
        }
        let told = told.unwrap_or_default();
        match told.get("errorCode").and_then(Value::as_int) {
            Some(code) => {
                let why = told.get("message").map_or_else(String::new, Value::to_text);
                Ok(Err((code, why)))
            }
            None => Err(Error::refused(format!(
                "etcd: {}; if the server only supports API version 3, set etcd.require_v2: False",
                answer.reason
            ))),
        }
    }

    /// Returns the node of a key (version 2).
    fn node(&self, cx: &Exec, key: &str) -> Result<Option<Value>, Error> {
        match self.v2(cx, "GET", (key, ""), None)? {
            Ok(told) => Ok(told.get("node").cloned()),
            Err((100, _)) => Ok(None),
            Err((_, why)) => Err(Error::refused(format!("etcd: {why}"))),
        }
    }

    /// Returns keys with their values (version 3): one key, or all keys that begin with it.
    fn range(&self, cx: &Exec, key: &str, begins: bool) -> Result<Vec<(String, Value)>, Error> {
        let told = self.v3(cx, "kv/range", whom(key, begins))?;
        let rows = told.get("kvs").and_then(Value::as_list).unwrap_or_default();
        let bytes = |row: &Value, name: &str| match row.get(name).and_then(Value::as_str) {
            Some(text) => base64::decode(text),
            None => Ok(Vec::new()),
        };
        let pair = |row: &Value| {
            let name = String::from_utf8_lossy(&bytes(row, "key")?).into_owned();
            let value = bytes(row, "value")?;
            let value = match self.encodes {
                true => msgpack::read(&value, DEPTH_MAX).ok_or_else(|| {
                    Error::refused(format!(
                        "etcd: the value of {name} is not MessagePack; if other programs write it, set etcd.encode_values: False"
                    ))
                })?,
                false => String::from_utf8_lossy(&value).into_owned().into(),
            };
            Ok((name, value))
        };
        rows.iter().map(pair).collect()
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// When etcd does not answer, or refuses the request.
    pub(crate) fn get(&self, cx: &Exec, key: &str) -> Result<Value, Error> {
        Ok(match self.is_v3 {
            true => self
                .range(cx, key, false)?
                .pop()
                .map(|(_, value)| value)
                .unwrap_or_default(),
            false => {
                let node = self.node(cx, key)?.unwrap_or_default();
                node.get("value").cloned().unwrap_or_default()
            }
        })
    }

    /// Returns all keys below a directory as a nested dictionary, or null if there are none.
    ///
    /// # Errors
    /// When etcd does not answer, or refuses the request.
    pub(crate) fn tree(&self, cx: &Exec, path: &str) -> Result<Value, Error> {
        let mut tree = Map::new();
        if self.is_v3 {
            let rows = self.range(cx, path, true)?;
            if rows.is_empty() {
                return Ok(Value::Null);
            }
            for (key, value) in rows {
                let below = match key.strip_prefix(path).unwrap_or_default() {
                    "" => key.rsplit('/').next().unwrap_or_default().to_owned(),
                    below => below.to_owned(),
                };
                planted(&mut tree, below.trim_start_matches('/'), value);
            }
            return Ok(tree.into());
        }
        match self.v2(cx, "GET", (path, "?recursive=true&sorted=true"), None)? {
            Ok(told) => Ok(grown(&told.get("node").cloned().unwrap_or_default())),
            Err((100, _)) => Ok(Value::Null),
            Err((_, why)) => Err(Error::refused(format!("etcd: {why}"))),
        }
    }

    /// Returns all keys below a folder, as a nested dictionary, for the external pillar. Version 3 has
    /// no folders: there, keys that only begin with the name of the folder are left out.
    ///
    /// # Errors
    /// When etcd does not answer, or refuses the request.
    pub(crate) fn below(&self, cx: &Exec, folder: &str) -> Result<Map, Error> {
        let folder = folder.trim_end_matches('/');
        let tree = match self.is_v3 {
            true => self.tree(cx, &format!("{folder}/"))?,
            false => self.tree(cx, folder)?,
        };
        match tree {
            Value::Map(tree) => Ok(tree),
            Value::Null => Ok(Map::new()),
            _ => Err("etcd: the answer is not a dictionary".into()),
        }
    }

    /// Sets a key, and returns its value afterwards. Returns null if etcd refuses the request.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub(crate) fn set(
        &self,
        cx: &Exec,
        key: &str,
        value: &Value,
        ttl: Option<i64>,
    ) -> Result<Value, Error> {
        if self.is_v3 {
            let kept = match self.encodes {
                true => msgpack::bytes(value)?,
                false => value.to_text().into_bytes(),
            };
            let mut body = Map::new()
                .with("key", base64::encode(key.as_bytes()))
                .with("value", base64::encode(&kept));
            if let Some(seconds) = ttl.filter(|seconds| *seconds > 0) {
                let lease = self.v3(cx, "lease/grant", Map::new().with("TTL", seconds))?;
                body.insert("lease", lease.get("ID").cloned().unwrap_or_default());
            }
            self.v3(cx, "kv/put", body)?;
            return self.get(cx, key);
        }
        let mut form = format!("value={}", quoted(&value.to_text()));
        if let Some(seconds) = ttl {
            form.push_str(&format!("&ttl={seconds}"));
        }
        let told = refused(self.v2(cx, "PUT", (key, ""), Some(form))?);
        Ok(told
            .traverse("node:value", ":")
            .cloned()
            .unwrap_or_default())
    }

    /// Creates a directory. Returns null if a key of this name exists.
    ///
    /// # Errors
    /// When etcd does not answer, or does not support directories.
    pub(crate) fn directory(&self, cx: &Exec, key: &str, ttl: Option<i64>) -> Result<Value, Error> {
        if self.is_v3 {
            return Err("etcd3 does not have directories".into());
        }
        let mut form = "dir=true".to_owned();
        if let Some(seconds) = ttl {
            form.push_str(&format!("&ttl={seconds}"));
        }
        Ok(match self.v2(cx, "PUT", (key, ""), Some(form))? {
            // Error 102: it is already a directory.
            Err((102, _)) => true.into(),
            answer => refused(answer)
                .traverse("node:dir", ":")
                .cloned()
                .unwrap_or_default(),
        })
    }

    /// Deletes a key. Returns true, or null if the key did not exist or etcd refuses the request.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub(crate) fn rm(&self, cx: &Exec, key: &str, recurse: bool) -> Result<Value, Error> {
        if self.is_v3 {
            let told = self.v3(cx, "kv/deleterange", whom(key, recurse))?;
            let is_any = told.get("deleted").is_some_and(Value::is_true);
            return Ok(if is_any { true.into() } else { Value::Null });
        }
        let settings = format!("?recursive={recurse}");
        Ok(match self.v2(cx, "DELETE", (key, &settings), None)? {
            Ok(_) => true.into(),
            failed => refused(failed),
        })
    }
}

/// Returns the settings outside of profiles, from the configuration and the pillar.
fn all(cx: &Exec) -> Result<Map, Error> {
    const SETTINGS: [&str; 9] = [
        "host",
        "port",
        "username",
        "password",
        "ca",
        "client_key",
        "client_cert",
        "require_v2",
        "encode_values",
    ];
    let pillar = cx.pillar()?;
    let setting = |name: &&str| {
        let option = format!("etcd.{name}");
        let found = cx.opts().get(&option).or_else(|| pillar.get(&option));
        found.cloned().map(|value| (option, value))
    };
    Ok(SETTINGS.iter().filter_map(setting).collect())
}

/// Returns the request body for one key, or for all keys that begin with it.
fn whom(key: &str, begins: bool) -> Map {
    let mut body = Map::new().with("key", base64::encode(key.as_bytes()));
    if begins {
        let mut end = key.as_bytes().to_vec();
        while end.last() == Some(&0xff) {
            end.pop();
        }
        match end.last_mut() {
            Some(last) => *last += 1,
            None => end.push(0),
        }
        body.insert("range_end", base64::encode(&end));
    }
    body
}

/// Returns the answer. If etcd refuses the request, logs the reason and returns null, as Salt does.
fn refused(answer: Result<Value, (i64, String)>) -> Value {
    answer.unwrap_or_else(|(_, why)| {
        log::error(format_args!("etcd: {why}"));
        Value::Null
    })
}

/// Inserts a value at a path of a nested dictionary.
fn planted(tree: &mut Map, path: &str, value: Value) {
    let Some((first, rest)) = path.split_once('/') else {
        tree.insert(path, value);
        return;
    };
    let mut inside = tree
        .get(first)
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    planted(&mut inside, rest, value);
    tree.insert(first, inside);
}

fn name_of(node: &Value) -> String {
    let key = node.get("key").map_or_else(String::new, Value::to_text);
    key.rsplit('/').next().unwrap_or_default().to_owned()
}

fn is_directory(node: &Value) -> bool {
    node.get("dir").is_some_and(Value::is_true)
}

/// Returns the contents of a node of version 2: the value of a leaf, or everything below a
/// directory.
fn grown(node: &Value) -> Value {
    let mut tree = Map::new();
    if !is_directory(node) {
        tree.insert(
            name_of(node),
            node.get("value").cloned().unwrap_or_default(),
        );
    }
    for inside in node
        .get("nodes")
        .and_then(Value::as_list)
        .unwrap_or_default()
    {
        let value = match is_directory(inside) {
            true => grown(inside),
            false => inside.get("value").cloned().unwrap_or_default(),
        };
        tree.insert(name_of(inside), value);
    }
    tree.into()
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let etcd = Etcd::from_profile(cx, args.profile.as_deref(), &args.kwargs)?;
    match args.recurse {
        true => etcd.tree(cx, &args.key),
        false => etcd.get(cx, &args.key),
    }
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    let etcd = Etcd::from_profile(cx, args.profile.as_deref(), &args.kwargs)?;
    match args.directory {
        true => etcd.directory(cx, &args.key, args.ttl),
        false => etcd.set(cx, &args.key, &args.value, args.ttl),
    }
}

/// Returns a nested dictionary as a flat list of paths such as `/path/name/inner`, with their
/// values.
fn flat(fields: &Map, path: &str) -> Vec<(String, Value)> {
    let path = path.trim_matches('/');
    let prefix = if path.is_empty() {
        String::new()
    } else {
        format!("/{path}")
    };
    if fields.is_empty() {
        return vec![(prefix, Map::new().into())];
    }
    let one = |(name, value): (&Value, &Value)| {
        let place = format!("{prefix}/{}", name.to_text().trim_matches('/'));
        match value {
            Value::Map(inside) => flat(inside, &place),
            other => vec![(place, other.clone())],
        }
    };
    fields.iter().flat_map(one).collect()
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let etcd = Etcd::from_profile(cx, args.profile.as_deref(), &args.kwargs)?;
    let Some(fields) = args.fields.as_map() else {
        log::error("etcd.update: fields is not type dict");
        return Ok(Value::Null);
    };
    let mut all = Map::new();
    for (key, value) in flat(fields, &args.path) {
        let done = match value.as_map() {
            Some(_) if etcd.is_v3 => {
                log::warning(format_args!(
                    "etcd3 has no concept of directories, skipping key {key}"
                ));
                continue;
            }
            Some(_) => etcd.directory(cx, &key, None)?,
            None => etcd.set(cx, &key, &value, None)?,
        };
        if done.is_null() {
            return Ok(Value::Null);
        }
        all.insert(key, done);
    }
    Ok(all.into())
}

fn ls(cx: &Exec, args: Ls) -> Result<Value, Error> {
    let etcd = Etcd::from_profile(cx, args.profile.as_deref(), &args.kwargs)?;
    let (path, mut all) = (&args.path, Map::new());
    if etcd.is_v3 {
        let tree = etcd.tree(cx, path)?;
        let Some(tree) = tree.as_map() else {
            return Ok(Map::new().into());
        };
        let joint = if path.ends_with('/') { "" } else { "/" };
        for (name, value) in tree {
            let name = format!("{path}{joint}{}", name.to_text());
            match value {
                Value::Map(_) => drop(all.insert(format!("{name}/"), Map::new())),
                value => drop(all.insert(name, value.clone())),
            }
        }
        return Ok(Map::new().with(path, all).into());
    }
    let Some(node) = etcd.node(cx, path)? else {
        return Ok(Map::new().into());
    };
    let own = [node.clone()];
    let nodes = match node.get("nodes").and_then(Value::as_list) {
        Some(nodes) => nodes,
        None if is_directory(&node) => &[],
        None => own.as_slice(),
    };
    for node in nodes {
        let key = node.get("key").map_or_else(String::new, Value::to_text);
        match is_directory(node) {
            true => drop(all.insert(format!("{key}/"), Map::new())),
            false => drop(all.insert(key, node.get("value").cloned().unwrap_or_default())),
        }
    }
    Ok(Map::new().with(path, all).into())
}

fn rm(cx: &Exec, args: Rm) -> Result<Value, Error> {
    let etcd = Etcd::from_profile(cx, args.profile.as_deref(), &args.kwargs)?;
    etcd.rm(cx, &args.key, args.recurse)
}

fn tree(cx: &Exec, args: Tree) -> Result<Value, Error> {
    Etcd::from_profile(cx, args.profile.as_deref(), &args.kwargs)?.tree(cx, &args.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_become_keys_and_keys_dictionaries() {
        let fields = Map::new().with("a", 1).with("b", Map::new().with("c", "x"));
        let keys = flat(&fields, "/salt/");
        assert_eq!(
            keys,
            [
                ("/salt/a".to_owned(), 1.into()),
                ("/salt/b/c".to_owned(), "x".into())
            ]
        );
        let mut tree = Map::new();
        planted(&mut tree, "b/c", 1.into());
        planted(&mut tree, "b/d", 2.into());
        let inside = tree.get("b").and_then(Value::as_map);
        assert_eq!(inside.map(Map::len), Some(2));
    }
}
