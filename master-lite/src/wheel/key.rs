//! The `key` wheel functions. They are called by `salt-key`, and by reactors and orchestrations, as
//! `wheel.key.accept` for example.

use std::path::{Component, Path, PathBuf};

use link::key::{KeyPair, NotAKey, PublicKey};
use link::pki::{self, Pki};
use machine::hashes;
use modules::loader::call;
use state::module::Error as Argument;
use value::glob::fnmatch;
use value::{Map, Value};
use wire::{Id, NotAnId};

use crate::keys::{self, Changed, KeyFiles, Progress, Rotation, RotationError};
use crate::store::{self, Applied, Command, Key, KeyState, Store};

/// An error of a function.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The function does not exist.
    #[error("'{0}' is not available.")]
    Missing(String),
    /// An argument cannot be used.
    #[error("{fun}: {problem}")]
    Argument {
        /// The function.
        fun: String,
        /// The problem.
        problem: String,
    },
    /// The text is not an id.
    #[error(transparent)]
    Id(#[from] NotAnId),
    /// No key can be generated.
    #[error(transparent)]
    Key(#[from] NotAKey),
    /// A folder or file of a key pair cannot be used.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// The key files cannot be used.
    #[error(transparent)]
    Files(#[from] keys::Error),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The master's own key cannot be changed.
    #[error(transparent)]
    Rotation(#[from] RotationError),
    /// A file of the master's own key cannot be read.
    #[error("{path}: {source}")]
    Identity {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// An unknown hash type.
    #[error(transparent)]
    Hash(#[from] Argument),
}

/// The data that the functions work on.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    /// The store.
    pub(crate) store: &'a Store,
    /// The files that show the keys of the store.
    pub(crate) files: &'a KeyFiles,
    /// The master's own key.
    pub(crate) rotation: &'a Rotation,
    /// The option `hash_type`.
    pub(crate) hash_type: &'a str,
    /// The current time, in milliseconds since 1970.
    pub(crate) at_ms: u64,
}

/// The result of a function, and its effects.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The return of Salt's function.
    pub(crate) ret: Value,
    /// The data of the `salt/key` events, in order.
    pub(crate) events: Vec<Map>,
    /// The keys that have changed. Sessions depend on them.
    pub(crate) changed: Vec<Changed>,
    /// True if the master has a next key, which the minions must know.
    pub(crate) has_next_key: bool,
}

/// A function of this module.
struct Function {
    name: &'static str,
    /// Its arguments in Salt's order. The first `required` ones must be given.
    args: &'static [&'static str],
    required: usize,
    call: fn(Keys<'_>, &Args<'_>) -> Result<Outcome, Error>,
}

const fn function(
    name: &'static str,
    args: &'static [&'static str],
    required: usize,
    call: fn(Keys<'_>, &Args<'_>) -> Result<Outcome, Error>,
) -> Function {
    Function {
        name,
        args,
        required,
        call,
    }
}

const FUNCTIONS: &[Function] = &[
    function(
        "accept",
        &["match", "include_rejected", "include_denied"],
        1,
        accept,
    ),
    function(
        "accept_dict",
        &["match", "include_rejected", "include_denied"],
        1,
        accept,
    ),
    function("delete", &["match"], 1, delete),
    function("delete_dict", &["match"], 1, delete),
    function("finger", &["match", "hash_type"], 1, finger),
    function("finger_master", &["hash_type"], 0, finger_master),
    function("gen", &["id_", "keysize"], 0, generate),
    function("gen_accept", &["id_", "keysize", "force"], 1, gen_accept),
    function(
        "gen_keys",
        &["keydir", "keyname", "keysize", "user"],
        0,
        gen_keys,
    ),
    function("glob_match", &["match"], 1, glob_match),
    function("key_str", &["match"], 1, print),
    function("list", &["match"], 1, list),
    function("list_all", &[], 0, list_all),
    function("list_match", &["match"], 1, list_match),
    function("master_key_str", &[], 0, master_key_str),
    function("name_match", &["match"], 1, glob_match),
    function("print", &["match"], 1, print),
    function(
        "reject",
        &["match", "include_accepted", "include_denied"],
        1,
        reject,
    ),
    function(
        "reject_dict",
        &["match", "include_accepted", "include_denied"],
        1,
        reject,
    ),
    function("rotate_master", &["action"], 0, rotate_master),
];

/// Returns the name of each function, its arguments, and how many of them must be given.
pub(crate) fn functions() -> impl Iterator<Item = (&'static str, &'static [&'static str], usize)> {
    let all = FUNCTIONS.iter();
    all.map(|function| (function.name, function.args, function.required))
}

/// Calls a function by its full name. Positional arguments are values; keyword arguments are in a
/// map that is marked as such.
///
/// This blocks on files: async code calls it inside `smol::unblock`.
///
/// # Errors
/// Returns an error if the function does not exist, an argument is wrong, or the store or a file
/// cannot be used.
pub(crate) fn call(keys: Keys<'_>, fun: &str, arg: Vec<Value>) -> Result<Outcome, Error> {
    let named = |function: &&Function| fun.strip_prefix("key.") == Some(function.name);
    let function = FUNCTIONS.iter().find(named);
    let function = function.ok_or_else(|| Error::Missing(fun.to_owned()))?;
    let args = Args {
        fun,
        given: function.bind(fun, arg)?,
    };
    let before = keys.files.refresh(keys.store, keys.at_ms)?;
    let mut outcome = (function.call)(keys, &args)?;
    outcome.changed.splice(0..0, before);
    Ok(outcome)
}

impl Function {
    /// Returns the arguments by name.
    fn bind(&self, fun: &str, arg: Vec<Value>) -> Result<Map, Error> {
        let wrong = |problem| Err(wrong(fun, problem));
        let (places, names) = call::split(&arg);
        if places.len() > self.args.len() {
            let (most, got) = (self.args.len(), places.len());
            return wrong(format!(
                "it takes at most {most} positional arguments ({got} given)"
            ));
        }
        let mut given = Map::new();
        for (name, value) in self.args.iter().zip(places) {
            given.insert(*name, value);
        }
        for (name, value) in &names {
            let name = name.to_text();
            // Salt's clients add such arguments to every call.
            if name.starts_with("__") {
                continue;
            }
            if !self.args.contains(&name.as_str()) {
                return wrong(format!("'{name}' is an invalid keyword argument"));
            }
            if given.insert(name.as_str(), value.clone()).is_some() {
                return wrong(format!("got multiple values for argument '{name}'"));
            }
        }
        let required = self.args.iter().take(self.required);
        if let Some(name) = required.into_iter().find(|name| !given.contains(name)) {
            return wrong(format!("missing a required argument: '{name}'"));
        }
        Ok(given)
    }
}

fn wrong(fun: &str, problem: String) -> Error {
    Error::Argument {
        fun: fun.to_owned(),
        problem,
    }
}

/// The arguments of a call.
struct Args<'a> {
    fun: &'a str,
    given: Map,
}

impl Args<'_> {
    fn flag(&self, name: &str) -> bool {
        self.given.get(name).is_some_and(Value::is_true)
    }

    fn text(&self, name: &str) -> Option<String> {
        let given = self.given.get(name).filter(|given| !given.is_null());
        given.map(Value::to_text)
    }

    /// Returns the globs of `match`, which is a text with commas or a list.
    fn globs(&self) -> Result<Vec<String>, Error> {
        match self.given.get("match") {
            Some(Value::Map(_)) => Err(wrong(self.fun, "match: expected a glob".to_owned())),
            Some(Value::Str(text)) => Ok(text.split(',').map(str::to_owned).collect()),
            Some(given @ (Value::List(_) | Value::Tuple(_))) => Ok(given.texts()),
            Some(given) => Ok(vec![given.to_text()]),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the keys that `match` selects: a glob, or a dictionary of ids by status.
    fn matching(&self, keys: Keys<'_>) -> Result<Groups, Error> {
        match self.given.get("match") {
            Some(Value::Map(by_status)) => named(keys, by_status),
            _ if self.fun.ends_with("_dict") => {
                let problem = "match: expected a dictionary of lists of ids by status";
                Err(wrong(self.fun, problem.to_owned()))
            }
            _ => matched(keys, &self.globs()?),
        }
    }
}

/// Keys by status, in Salt's order. A status without keys is left out.
type Groups = Vec<(KeyState, Vec<Key>)>;

/// The order in which Salt lists the statuses.
const SHOWN: [KeyState; 4] = [
    KeyState::Pending,
    KeyState::Rejected,
    KeyState::Accepted,
    KeyState::Denied,
];

/// Returns the keys of a status in Salt's order.
fn of_state(keys: Keys<'_>, state: KeyState) -> Result<Vec<Key>, Error> {
    let found = keys.store.keys(state)?;
    let mut found = found.collect::<Result<Vec<Key>, store::Error>>()?;
    value::sorted::sort_by_key(&mut found, |key| key.id.as_str().to_lowercase());
    Ok(found)
}

fn matched(keys: Keys<'_>, globs: &[String]) -> Result<Groups, Error> {
    let mut groups = Groups::new();
    for state in SHOWN {
        let mut found = of_state(keys, state)?;
        found.retain(|key| globs.iter().any(|glob| fnmatch(glob, key.id.as_str())));
        if !found.is_empty() {
            groups.push((state, found));
        }
    }
    Ok(groups)
}

/// Returns the keys that a dictionary names. A key whose status differs from the one in the
/// dictionary is left out.
fn named(keys: Keys<'_>, by_status: &Map) -> Result<Groups, Error> {
    let mut groups = Groups::new();
    for (status, ids) in by_status {
        let Some(state) = KeyState::of_folder(&status.to_text()) else {
            continue;
        };
        let mut found = Vec::new();
        for id in ids.texts() {
            let Ok(id) = id.parse::<Id>() else {
                continue;
            };
            match state {
                KeyState::Denied => found.extend(keys.store.denied(&id)?),
                _ => found.extend(keys.store.key(&id)?.filter(|key| key.state == state)),
            }
        }
        groups.push((state, found));
    }
    Ok(groups)
}

/// Returns the ids of each group, without duplicates.
fn ids(groups: &Groups) -> Map {
    let mut map = Map::new();
    for (state, found) in groups {
        let mut ids: Vec<&str> = found.iter().map(|key| key.id.as_str()).collect();
        ids.dedup();
        map.insert(
            state.folder(),
            Value::list(ids.into_iter().map(Value::from)),
        );
    }
    map
}

fn gives(ret: impl Into<Value>) -> Result<Outcome, Error> {
    Ok(Outcome {
        ret: ret.into(),
        ..Outcome::default()
    })
}

fn list(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let word = args.text("match").unwrap_or_default();
    let state = match word.as_str() {
        _ if word.starts_with("acc") => KeyState::Accepted,
        _ if word.starts_with("pre") || word.starts_with("un") => KeyState::Pending,
        _ if word.starts_with("rej") => KeyState::Rejected,
        _ if word.starts_with("den") => KeyState::Denied,
        _ if word.starts_with("all") => return list_all(keys, args),
        _ => return gives(Map::new()),
    };
    gives(ids(&vec![(state, of_state(keys, state)?)]))
}

fn list_all(keys: Keys<'_>, _args: &Args<'_>) -> Result<Outcome, Error> {
    let mut groups = Groups::new();
    for state in SHOWN {
        groups.push((state, of_state(keys, state)?));
    }
    let local = Value::list(local(keys).into_iter().map(|(name, _)| name.into()));
    gives(ids(&groups).with("local", local))
}

/// Returns the files of the master's own key: the private key and the public key.
fn local(keys: Keys<'_>) -> [(String, PathBuf); 2] {
    let private = keys.rotation.own().path;
    let public = private.with_extension("pub");
    [private, public].map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (name.into_owned(), path)
    })
}

fn glob_match(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    gives(ids(&matched(keys, &args.globs()?)?))
}

/// Matches exact names, without globs.
fn list_match(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let mut groups = Groups::new();
    let names = args.globs()?;
    for state in SHOWN {
        let mut found = of_state(keys, state)?;
        found.retain(|key| names.iter().any(|name| name == key.id.as_str()));
        if !found.is_empty() {
            groups.push((state, found));
        }
    }
    gives(ids(&groups))
}

fn accept(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let from = [
        (true, KeyState::Pending),
        (args.flag("include_rejected"), KeyState::Rejected),
        (args.flag("include_denied"), KeyState::Denied),
    ];
    change(keys, args, KeyState::Accepted, &from)
}

fn reject(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let from = [
        (true, KeyState::Pending),
        (args.flag("include_denied"), KeyState::Denied),
        (args.flag("include_accepted"), KeyState::Accepted),
    ];
    change(keys, args, KeyState::Rejected, &from)
}

/// Changes the status of keys, and returns all keys that match afterwards, as Salt does.
fn change(
    keys: Keys<'_>,
    args: &Args<'_>,
    to: KeyState,
    from: &[(bool, KeyState)],
) -> Result<Outcome, Error> {
    let groups = args.matching(keys)?;
    let mut wanted = Vec::new();
    for (_, state) in from.iter().filter(|(is_wanted, _)| *is_wanted) {
        let of_state = groups.iter().filter(|(found, _)| found == state);
        let found = of_state.flat_map(|(_, found)| found.iter());
        // If an id has several denied keys, only the first one is changed.
        for key in found {
            if !wanted.iter().any(|known: &Key| known.id == key.id) {
                wanted.push(key.clone());
            }
        }
    }
    let commands = wanted.iter().map(|key| changing(keys, key, to)).collect();
    let mut outcome = done(keys, wanted, commands, to.as_str())?;
    outcome.ret = after(keys, args)?;
    Ok(outcome)
}

fn changing(keys: Keys<'_>, key: &Key, to: KeyState) -> Command {
    let (id, at_ms) = (key.id.clone(), keys.at_ms);
    match to {
        KeyState::Accepted => Command::KeyAccepted {
            id,
            key: key.key,
            at_ms,
            bound: key.bound.clone(),
            replace: key.state == KeyState::Denied,
        },
        _ => Command::KeyRejected {
            id,
            key: key.key,
            at_ms,
        },
    }
}

fn delete(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let groups = args.matching(keys)?;
    let wanted: Vec<Key> = groups.iter().flat_map(|(_, found)| found.clone()).collect();
    let commands = wanted.iter().map(|key| Command::KeyDeleted {
        id: key.id.clone(),
        key: key.key,
        at_ms: keys.at_ms,
    });
    let mut outcome = done(keys, wanted.clone(), commands.collect(), "delete")?;
    outcome.events = Vec::new();
    for (_, found) in &groups {
        let mut told: Vec<&Id> = found.iter().map(|key| &key.id).collect();
        told.dedup();
        let events = told.into_iter().map(|id| event("delete", id, None));
        outcome.events.extend(events);
    }
    outcome.ret = after(keys, args)?;
    Ok(outcome)
}

/// Applies a command for each key, and returns an event for each command that was applied.
fn done(
    keys: Keys<'_>,
    wanted: Vec<Key>,
    commands: Vec<Command>,
    act: &str,
) -> Result<Outcome, Error> {
    let done = keys.files.apply(keys.store, commands, keys.at_ms)?;
    let applied = wanted.iter().zip(&done.applied);
    let applied = applied.filter(|(_, applied)| matches!(applied, Applied::Key { .. }));
    Ok(Outcome {
        ret: Value::Null,
        events: applied
            .map(|(key, _)| event(act, &key.id, Some(&key.key)))
            .collect(),
        changed: done.changed,
        ..Outcome::default()
    })
}

fn event(act: &str, id: &Id, key: Option<&PublicKey>) -> Map {
    let event = Map::new()
        .with("result", true)
        .with("act", act)
        .with("id", id.as_str());
    match key {
        Some(key) => event.with("pub", key.pem()),
        None => event,
    }
}

/// Returns the keys that match after a change: by the same globs, or by the ids in the dictionary.
fn after(keys: Keys<'_>, args: &Args<'_>) -> Result<Value, Error> {
    let globs = match args.given.get("match") {
        Some(Value::Map(by_status)) => by_status.values().flat_map(Value::texts).collect(),
        _ => args.globs()?,
    };
    Ok(ids(&matched(keys, &globs)?).into())
}

/// Returns a value for each key by id. An id with several keys has a list.
fn by_id(found: &[Key], each: impl Fn(&Key) -> Result<String, Error>) -> Result<Map, Error> {
    let mut map = Map::new();
    for key in found {
        let new = Value::from(each(key)?);
        let id = key.id.as_str();
        let value = match map.remove(id) {
            None => new,
            Some(Value::List(several)) => Value::list(several.iter().cloned().chain([new])),
            Some(one) => Value::list([one, new]),
        };
        map.insert(id, value);
    }
    Ok(map)
}

fn print(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let mut map = Map::new();
    for (state, found) in matched(keys, &args.globs()?)? {
        map.insert(state.folder(), by_id(&found, |key| Ok(key.key.pem()))?);
    }
    gives(map)
}

fn finger(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let kind = args.text("hash_type");
    let kind = kind.as_deref().unwrap_or(keys.hash_type);
    let globs = args.globs()?;
    let mut map = Map::new();
    for (state, found) in matched(keys, &globs)? {
        let fingers = by_id(&found, |key| Ok(hashes::pem_finger(&key.key.pem(), kind)?))?;
        map.insert(state.folder(), fingers);
    }
    let mut own = Map::new();
    for (name, path) in local(keys) {
        if globs.iter().any(|glob| fnmatch(glob, &name)) {
            own.insert(name, hashes::pem_finger(&text(path)?, kind)?);
        }
    }
    if !own.is_empty() {
        map.insert("local", own);
    }
    gives(map)
}

fn text(path: PathBuf) -> Result<String, Error> {
    std::fs::read_to_string(&path).map_err(|source| Error::Identity { path, source })
}

fn finger_master(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let kind = args.text("hash_type");
    let kind = kind.as_deref().unwrap_or(keys.hash_type);
    let finger = hashes::pem_finger(&keys.rotation.own().pair.public().pem(), kind)?;
    let [_, (name, _)] = local(keys);
    gives(Map::new().with("local", Map::new().with(&name, finger)))
}

fn master_key_str(keys: Keys<'_>, _args: &Args<'_>) -> Result<Outcome, Error> {
    let [_, (name, _)] = local(keys);
    let text = keys.rotation.own().pair.public().pem();
    gives(Map::new().with("local", Map::new().with(&name, text)))
}

/// Begins a rotation of the master's key, or continues one. The action `look` only returns its state,
/// `finish` makes the next key the master's key now, and `cancel` deletes the next key. Salt has no
/// such function.
fn rotate_master(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let rotation = keys.rotation;
    let action = args.text("action");
    let progress = match action.as_deref().unwrap_or("begin") {
        "begin" => rotation.begin()?,
        "look" => rotation.progress()?,
        "finish" => rotation.finish()?,
        "cancel" => rotation.cancel()?,
        other => {
            let problem = format!("unknown action {other:?}: use begin, look, finish or cancel");
            return Err(wrong(args.fun, problem));
        }
    };
    let Progress {
        own,
        next,
        ready,
        waiting,
    } = progress;
    let ids = |ids: Vec<Id>| Value::list(ids.iter().map(|id| id.as_str().into()));
    let next = next.map(|next| next.finger());
    let has_next_key = next.is_some() && action.as_deref() != Some("look");
    let ret = Map::new()
        .with("key", own.finger())
        .with("next", next.map_or(Value::Null, Value::from))
        .with("ready", ids(ready))
        .with("waiting", ids(waiting));
    Ok(Outcome {
        ret: ret.into(),
        has_next_key,
        ..Outcome::default()
    })
}

/// Generates a key pair, which is not stored. `keysize` is for RSA: Pinch's keys have a fixed size.
fn generate(_keys: Keys<'_>, _args: &Args<'_>) -> Result<Outcome, Error> {
    gives(pair_map(&KeyPair::generate()?))
}

fn pair_map(pair: &KeyPair) -> Map {
    Map::new()
        .with("priv", pair.pem())
        .with("pub", pair.public().pem())
}

fn gen_accept(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    let id: Id = args.text("id_").unwrap_or_default().parse()?;
    if !args.flag("force") && keys.store.key(&id)?.is_some() {
        return gives(Map::new());
    }
    let pair = KeyPair::generate()?;
    let accepted = Command::KeyAccepted {
        id,
        key: pair.public(),
        at_ms: keys.at_ms,
        bound: Map::new(),
        replace: true,
    };
    let done = keys.files.apply(keys.store, vec![accepted], keys.at_ms)?;
    Ok(Outcome {
        ret: pair_map(&pair).into(),
        events: Vec::new(),
        changed: done.changed,
        ..Outcome::default()
    })
}

/// Generates a key pair in files of `pki_dir`, or finds the pair of this name, and returns the
/// fingerprint of its public key.
fn gen_keys(keys: Keys<'_>, args: &Args<'_>) -> Result<Outcome, Error> {
    if let Some(user) = args.text("user") {
        let problem =
            format!("user: cannot give the key to {user}: it belongs to the master's user");
        return Err(wrong(args.fun, problem));
    }
    let own = keys.rotation.own().path;
    let root = own.parent().unwrap_or_else(|| Path::new("/"));
    let name = args.text("keyname").unwrap_or_else(|| "minion".to_owned());
    let name: Id = name.parse()?;
    if name.as_str().starts_with("master") {
        let problem = format!("keyname: {name} is a name of the master's own keys");
        return Err(wrong(args.fun, problem));
    }
    let folder = key_folder(args, root)?;
    let made = Pki::open(&folder)?.own(name.as_str())?;
    gives(made.pair.public().finger())
}

/// Returns the folder of `keydir`: `pki_dir`, or a folder in it. A caller may have no other access to
/// this machine, so other folders are refused, as are those in which the master looks for keys.
fn key_folder(args: &Args<'_>, root: &Path) -> Result<PathBuf, Error> {
    let Some(given) = args.text("keydir") else {
        return Ok(root.to_owned());
    };
    let folder = root.join(&given);
    let inside: Option<Vec<Component<'_>>> = folder
        .strip_prefix(root)
        .ok()
        .map(|inside| inside.components().collect());
    match inside.as_deref() {
        Some([]) => Ok(folder),
        Some([Component::Normal(name)]) if !name.as_encoded_bytes().starts_with(b"minions") => {
            Ok(folder)
        }
        _ => {
            let problem = format!(
                "keydir: {given} is not a folder directly in {} apart from the folders of accepted, pending, rejected and denied keys: `salt-key --gen-keys` writes to other folders",
                root.display()
            );
            Err(wrong(args.fun, problem))
        }
    }
}

#[cfg(test)]
mod tests;
