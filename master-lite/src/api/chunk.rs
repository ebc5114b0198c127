//! [`Chunk`]: one call of a request, with typed parts.
//!
//! A chunk has only keys of a list for its client. Others could name files, hide a job, or set the
//! user in whose name it runs, so they are refused and not ignored.

use cli::options::parse_input;
use modules::loader::call::{joined, split};
use render::yaml::SaltYaml;
use value::{Map, Value};
use wire::Secret;

use super::failure::Failure;
use super::session;
use crate::access::eauth::Credentials;
use crate::jobs::batches::BATCH;

/// The maximum number of chunks of a request.
pub(super) const CHUNKS_MAX: usize = 256;
/// The maximum number of functions of a job.
const FUNCTIONS_MAX: usize = 64;
/// The maximum length of the name of a function, a user or a source, in bytes.
const NAME_MAX: usize = 256;
/// The maximum length of a password in bytes.
const PASSWORD_MAX: usize = 4096;
/// The maximum time in seconds that a client may wait for returns.
const TIMEOUT_MAX_S: f64 = 3600.0;

/// The clients, in Salt's order, and Salt's functions that are no clients here.
pub(super) const CLIENTS: [(&str, Client); 9] = [
    ("local", Client::Local),
    ("local_async", Client::LocalAsync),
    ("local_batch", Client::LocalBatch),
    ("local_subset", Client::LocalSubset),
    ("runner", Client::Runner),
    ("runner_async", Client::RunnerAsync),
    ("ssh", Client::Ssh),
    ("wheel", Client::Wheel),
    ("wheel_async", Client::WheelAsync),
];

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    Local,
    LocalAsync,
    LocalBatch,
    LocalSubset,
    Runner,
    RunnerAsync,
    Ssh,
    Wheel,
    WheelAsync,
}

impl Client {
    /// Returns the client with this name.
    pub(super) fn find(name: &str) -> Option<Self> {
        let mut all = CLIENTS.into_iter();
        all.find_map(|(known, client)| (known == name).then_some(client))
    }

    /// Returns true if the functions of a client run on the master.
    pub(super) fn is_of_master(self) -> bool {
        matches!(
            self,
            Self::Runner | Self::RunnerAsync | Self::Wheel | Self::WheelAsync
        )
    }

    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        let mut all = CLIENTS.into_iter();
        let found = all.find_map(|(name, client)| (client == self).then_some(name));
        found.unwrap_or_default()
    }
}

/// The keys that name the user of a chunk.
const CREDENTIALS: [&str; 5] = ["token", "username", "password", "eauth", "sharedsecret"];
/// The keys of a call that starts a job.
const JOB: [&str; 7] = [
    "client", "fun", "arg", "kwarg", "tgt", "tgt_type", "metadata",
];
/// Further keys of these, with the clients that they mean something for. The others ignore them,
/// as Salt does.
const JOB_MORE: [&str; 8] = [
    "timeout",
    "full_return",
    "batch",
    "batch_wait",
    "failhard",
    "subset",
    "sub",
    "delimiter",
];
/// The keys that are refused in every client, and those that are in a job, because only the master
/// sets them.
const REFUSED: [&str; 1] = ["user"];
const REFUSED_IN_JOBS: [&str; 3] = ["user", "jid", "ret"];

/// The user that a chunk names.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    Token(Secret),
    Password(Box<Credentials>),
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) client: Client,
    /// The function; names of several are separated by commas.
    pub(super) fun: String,
    /// The arguments. A map with `__kwarg__` has the named ones.
    pub(super) arg: Vec<Value>,
    pub(super) tgt: Value,
    pub(super) tgt_type: String,
    pub(super) timeout_s: Option<f64>,
    pub(super) full_return: bool,
    /// `metadata`, and how a batch is done.
    pub(super) options: Map,
    /// The number of minions of `local_subset`.
    pub(super) subset: usize,
}

/// Reads the credentials of a login or a chunk.
pub(super) fn credentials(map: &Map) -> Result<Credentials, Failure> {
    let text = |key: &str, most: usize| {
        let text = map.get(key).and_then(Value::as_str).unwrap_or_default();
        match text.len() <= most {
            true => Ok(text),
            false => Err(Failure::no_login()),
        }
    };
    let password = match text("password", PASSWORD_MAX)? {
        "" => text("sharedsecret", PASSWORD_MAX)?,
        given => given,
    };
    Ok(Credentials {
        eauth: text("eauth", NAME_MAX)?.to_owned(),
        username: text("username", NAME_MAX)?.to_owned(),
        password: Secret::new(password),
        expire_s: map.get("token_expire").and_then(Value::as_float),
    })
}

/// Returns the user that a chunk names.
pub(super) fn shown(map: &Map) -> Result<Shown, Failure> {
    if let Some(token) = map.get("token") {
        let token = token.as_str().and_then(session::checked);
        let token = token.ok_or_else(|| Failure::new(401, "Invalid token"))?;
        return Ok(Shown::Token(token));
    }
    match map.contains("eauth") {
        true => Ok(Shown::Password(Box::new(credentials(map)?))),
        false => Err(Failure::no_credentials()),
    }
}

/// Returns the chunks of a request.
pub(super) fn several(data: Value) -> Result<Vec<Map>, Failure> {
    let list = match data {
        Value::Map(map) if !map.is_empty() => vec![map.into()],
        Value::List(list) => list.to_vec(),
        _ => return Err(Failure::bad("Lowstates must be a list")),
    };
    if list.len() > CHUNKS_MAX {
        let text = format!("A request may have at most {CHUNKS_MAX} lowstates");
        return Err(Failure::bad(text));
    }
    let map = |item: Value| match item {
        Value::Map(map) => Ok(map),
        _ => Err(Failure::bad("A lowstate must be a dictionary")),
    };
    list.into_iter().map(map).collect()
}

/// Returns the client that a chunk names, if it is enabled.
pub(super) fn client(map: &Map, enabled: &[Client]) -> Result<Client, Failure> {
    let name = match map.get("client") {
        None => "None".to_owned(),
        Some(name) => name.to_text().chars().take(NAME_MAX).collect(),
    };
    let client = Client::find(&name);
    let client =
        client.ok_or_else(|| Failure::bad(format!("Invalid client specified: '{name}'")))?;
    match enabled.contains(&client) {
        true => Ok(client),
        false => Err(Failure::bad(format!(
            "Client disabled: '{name}'. Add to 'netapi_enable_clients' master config option to enable."
        ))),
    }
}

impl Chunk {
    /// Reads a chunk for a client.
    pub(super) fn read(client: Client, map: &Map) -> Result<Self, Failure> {
        let is_set = |key: &&&str| map.get(key).is_some_and(Value::is_true);
        let list: &[&str] = match client.is_of_master() {
            true => &REFUSED,
            false => &REFUSED_IN_JOBS,
        };
        if let Some(key) = list.iter().find(is_set) {
            return Err(refused(key));
        }
        let chunk = Self {
            client,
            fun: functions(map.get("fun"))?,
            arg: Vec::new(),
            tgt: Value::Null,
            tgt_type: String::new(),
            timeout_s: timeout(map)?,
            full_return: map.get("full_return").is_some_and(Value::is_true),
            options: Map::new(),
            subset: 0,
        };
        match client.is_of_master() {
            true => chunk.of_master(map),
            false => chunk.of_job(map),
        }
    }

    /// Adds the arguments of a function of the master: each other key is one, as in Salt.
    fn of_master(mut self, map: &Map) -> Result<Self, Failure> {
        let (args, mut kwargs) = parsed(map);
        let own = ["client", "fun", "arg", "kwarg", "timeout", "full_return"];
        for (name, value) in map {
            let name = name.to_text();
            let is_known = |keys: &[&str]| keys.contains(&&*name);
            if !is_known(&own) && !is_known(&CREDENTIALS) && !is_known(&REFUSED) {
                kwargs.insert(name.as_str(), value.clone());
            }
        }
        // Salt's own programs send such names to the master.
        let is_own = |name: &String| name.starts_with("__");
        if let Some(name) = kwargs.keys().map(Value::to_text).find(is_own) {
            return Err(refused(&name));
        }
        self.arg = joined(args, kwargs);
        Ok(self)
    }

    /// Adds the target, the arguments and the options of a job.
    fn of_job(mut self, map: &Map) -> Result<Self, Failure> {
        let known = |key: &String| {
            let lists: [&[&str]; 4] = [&CREDENTIALS, &JOB, &JOB_MORE, &REFUSED_IN_JOBS];
            lists.iter().any(|list| list.contains(&&**key))
        };
        if let Some(key) = map.keys().map(Value::to_text).find(|key| !known(key)) {
            return Err(refused(&key));
        }
        self.tgt = map.get("tgt").cloned().unwrap_or_default();
        if !matches!(self.tgt, Value::Str(_) | Value::List(_)) {
            return Err(Failure::bad("`tgt` must be a text or a list"));
        }
        let text = |key: &str| map.get(key).filter(|value| !value.is_null());
        self.tgt_type = text("tgt_type").map_or_else(|| "glob".to_owned(), Value::to_text);
        self.arg = match self.fun.contains(',') {
            true => arguments_of_each(map),
            false => {
                let (args, kwargs) = parsed(map);
                joined(args, kwargs)
            }
        };
        for key in ["metadata", "delimiter"] {
            if let Some(value) = text(key) {
                self.options.insert(key, value.clone());
            }
        }
        if self.client == Client::LocalBatch {
            self.options.insert(BATCH, shape(map));
        }
        let subset = ["subset", "sub"].iter().find_map(|key| map.get(key));
        self.subset = subset.map_or(Ok(3), |given| {
            let number = given.as_int().or_else(|| given.as_str()?.parse().ok());
            let number = number.and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| Failure::bad("`subset` must be a number"))
        })?;
        Ok(self)
    }
}

fn refused(key: &str) -> Failure {
    let key: String = key.chars().take(64).collect();
    Failure::bad(format!("`{key}` is not allowed in a lowstate"))
}

/// Returns the name of the function, or the names of several with commas between them.
fn functions(given: Option<&Value>) -> Result<String, Failure> {
    let names = match given {
        Some(list @ Value::List(_)) => list.texts(),
        Some(Value::Str(name)) => name.split(',').map(|name| name.trim().to_owned()).collect(),
        _ => return Err(Failure::bad("`fun` must be the name of a function")),
    };
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let is_name =
        |name: &String| !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(letter);
    match !names.is_empty() && names.len() <= FUNCTIONS_MAX && names.iter().all(is_name) {
        true => Ok(names.join(",")),
        false => Err(Failure::bad("`fun` is not the name of a function")),
    }
}

fn timeout(map: &Map) -> Result<Option<f64>, Failure> {
    let given = map.get("timeout").filter(|given| !given.is_null());
    let seconds = given.map(|given| {
        let seconds = given.as_float().or_else(|| given.as_str()?.parse().ok());
        let seconds = seconds.filter(|seconds| seconds.is_finite());
        seconds.ok_or_else(|| Failure::bad("`timeout` must be a number of seconds"))
    });
    let seconds = seconds.transpose()?;
    Ok(seconds.map(|seconds| seconds.clamp(0.0, TIMEOUT_MAX_S)))
}

/// Returns the positional and the named arguments of `arg` and `kwarg`. As in Salt, a text
/// `name=value` among them is a named one.
fn parsed(map: &Map) -> (Vec<Value>, Map) {
    let given = match map.get("arg") {
        None => Vec::new(),
        Some(Value::List(list)) => list.to_vec(),
        Some(one) => vec![one.clone()],
    };
    let (places, mut names) = named(given);
    if let Some(more) = map.get("kwarg").and_then(Value::as_map) {
        names.update(more.clone());
    }
    names.remove("__kwarg__");
    (places, names)
}

fn named(given: Vec<Value>) -> (Vec<Value>, Map) {
    let (places, mut names) = split(&given);
    let mut left = Vec::new();
    for place in places {
        let word = place.as_str().filter(|text| text.contains('='));
        let word = word.filter(|text| text.starts_with(|c: char| c.is_alphabetic() || c == '_'));
        let found = word.map(|text| parse_input(&[text.to_owned()], &[], &SaltYaml).kwargs);
        match found.filter(|found| !found.is_empty()) {
            Some(found) => names.update(found),
            None => left.push(place),
        }
    }
    (left, names)
}

/// Returns the list of arguments of each function of a job with several.
fn arguments_of_each(map: &Map) -> Vec<Value> {
    let lists = map.get("arg").and_then(Value::as_list).unwrap_or_default();
    let each = lists.iter().map(|list| {
        let list = list.as_list().unwrap_or_default().to_vec();
        let (places, names) = named(list);
        Value::list(joined(places, names))
    });
    each.collect()
}

/// Returns the form of a batch.
fn shape(map: &Map) -> Map {
    let of = |key: &str, default: Value| map.get(key).cloned().unwrap_or(default);
    Map::new()
        .with("size", of("batch", "10%".into()).to_text())
        .with("wait", of("batch_wait", 0.into()))
        .with("failhard", of("failhard", false.into()).is_true())
}

#[cfg(test)]
mod tests {
    use value::json;

    use super::*;

    fn map(text: &str) -> Map {
        json::read(text).unwrap().as_map().cloned().unwrap()
    }

    fn read(text: &str) -> Result<Chunk, String> {
        let map = map(text);
        let all = CLIENTS.map(|(_, client)| client);
        let client = client(&map, &all).map_err(|failure| failure.text)?;
        Chunk::read(client, &map).map_err(|failure| failure.text)
    }

    #[test]
    fn a_chunk_has_no_key_that_is_not_of_its_client() {
        let job = |more: &str| {
            let text = format!(r#"{{"client": "local", "tgt": "*", "fun": "test.ping"{more}}}"#);
            read(&text).map(|_| ())
        };
        assert_eq!(job(""), Ok(()));
        assert_eq!(
            job(r#", "timeout": "5", "full_return": true, "ret": "", "jid": null"#),
            Ok(())
        );
        for key in [
            "user",
            "jid",
            "ret",
            "ssh_options",
            "roster_file",
            "ssh_priv",
            "ret_config",
            "ret_kwargs",
            "module_executors",
            "executor_opts",
            "__user__",
            "raw_shell",
            "key",
            "listen",
        ] {
            let error = job(&format!(r#", "{key}": "x""#)).unwrap_err();
            assert_eq!(error, format!("`{key}` is not allowed in a lowstate"));
        }
        for client in ["runner", "wheel"] {
            let text = format!(r#"{{"client": "{client}", "fun": "a.b", "user": "root"}}"#);
            assert!(read(&text).unwrap_err().contains("`user`"));
        }
    }

    #[test]
    fn a_text_with_a_name_is_a_named_argument() {
        let text = r#"{"client": "local", "tgt": "*", "fun": "a.b", "arg": ["x", "n=1", "a b=c", 5, "==", "k==v"], "kwarg": {"m": [2]}}"#;
        let (places, names) = split(&read(text).unwrap().arg);
        assert_eq!(
            places,
            [
                "x".into(),
                "a b=c".into(),
                5.into(),
                "==".into(),
                "k==v".into()
            ]
        );
        assert_eq!(
            names,
            Map::new().with("n", 1).with("m", Value::list([2.into()]))
        );
    }

    #[test]
    fn other_keys_of_a_runner_are_its_arguments() {
        let text = r#"{"client": "runner", "fun": "jobs.list_job", "token": "ab", "jid": "1", "eauth": "pam", "match": "a", "timeout": 3}"#;
        let chunk = read(text).unwrap();
        assert_eq!(
            split(&chunk.arg),
            (Vec::new(), Map::new().with("jid", "1").with("match", "a"))
        );
        let text = r#"{"client": "wheel", "fun": "key.list_all", "__user__": "root"}"#;
        assert!(read(text).unwrap_err().contains("`__user__`"));
        assert_eq!(chunk.timeout_s, Some(3.0));
    }

    #[test]
    fn a_function_has_the_letters_of_a_name() {
        let fun = |fun: &str| {
            let text = format!(r#"{{"client": "local", "tgt": "*", "fun": {fun}}}"#);
            read(&text).map(|chunk| chunk.fun)
        };
        assert_eq!(fun(r#""test.ping""#).unwrap(), "test.ping");
        assert_eq!(
            fun(r#""test.ping, test.version""#).unwrap(),
            "test.ping,test.version"
        );
        assert_eq!(
            fun(r#"["test.ping", "test.version"]"#).unwrap(),
            "test.ping,test.version"
        );
        for bad in [
            r#""cmd.run id""#,
            r#""""#,
            "[]",
            "null",
            "5",
            r#""a\nb""#,
            r#""test.ping,""#,
        ] {
            assert!(fun(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn clients_that_are_unknown_or_off_have_salts_texts() {
        let text = |name: &str| {
            let map = Map::new().with("client", name);
            client(&map, &[Client::Local]).map_err(|failure| failure.text)
        };
        assert_eq!(text("local"), Ok(Client::Local));
        assert_eq!(
            text("nonsense"),
            Err("Invalid client specified: 'nonsense'".to_owned())
        );
        assert!(
            text("ssh")
                .unwrap_err()
                .starts_with("Client disabled: 'ssh'. Add")
        );
    }

    #[test]
    fn a_request_has_a_list_of_few_dictionaries() {
        let tried = |text: &str| several(json::read(text).unwrap());
        assert_eq!(tried("[]").unwrap().len(), 0);
        assert_eq!(tried(r#"{"a": 1}"#).unwrap().len(), 1);
        for bad in ["null", "{}", "5", r#""x""#, "[5]"] {
            assert_eq!(tried(bad).unwrap_err().status, 400, "{bad}");
        }
        let many = format!("[{}{{}}]", "{},".repeat(CHUNKS_MAX));
        assert!(tried(&many).is_err());
    }
}
