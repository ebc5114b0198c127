#![expect(clippy::disallowed_methods, reason = "a test's own files")]

use link::pki::Pki;
use value::json;

use super::*;
use crate::jobs::minions::Minions;
use crate::keys::Use;
use crate::store::{Claim, Limits};

struct World {
    folder: tempfile::TempDir,
    store: Store,
    files: KeyFiles,
    rotation: Rotation,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pki = folder.path().join("pki");
        let store = Store::open(&folder.path().join("store"), Limits::default()).unwrap();
        let own = Pki::open(&pki).unwrap();
        Self {
            rotation: Rotation::open(own, store.clone(), Minions::default(), false).unwrap(),
            store,
            files: KeyFiles::open(&pki, Use::Both).unwrap(),
            folder,
        }
    }

    fn keys(&self) -> Keys<'_> {
        Keys {
            store: &self.store,
            files: &self.files,
            rotation: &self.rotation,
            hash_type: "sha256",
            at_ms: 1,
        }
    }

    fn call(&self, fun: &str, arg: Vec<Value>) -> Result<Outcome, Error> {
        call(self.keys(), fun, arg)
    }

    /// Returns the result of a function as JSON.
    fn says(&self, fun: &str, arg: Vec<Value>) -> String {
        let ret = self.call(fun, arg).unwrap().ret;
        compact(&ret)
    }

    fn offer(&self, name: &str) -> PublicKey {
        let key = KeyPair::generate().unwrap().public();
        let offered = Command::KeyOffered {
            id: name.parse().unwrap(),
            key,
            at_ms: 1,
            pending_max: 100,
            pending_per_address: u64::MAX,
            from: None,
            claim: Claim::Nothing,
        };
        self.files.apply(&self.store, vec![offered], 1).unwrap();
        key
    }
}

fn compact(value: &Value) -> String {
    let layout = json::Layout {
        indent: None,
        sort_keys: false,
        ascii: false,
    };
    json::write(value, layout)
        .replace(": ", ":")
        .replace(", ", ",")
}

fn kwargs(map: Map) -> Value {
    map.with("__kwarg__", true).into()
}

const EMPTY: &str = r#"{"minions_pre":[],"minions_rejected":[],"minions":[],"minions_denied":[],"local":["master.pem","master.pub"]}"#;

#[test]
fn keys_are_listed_as_salt_lists_them() {
    let world = World::new();
    assert_eq!(world.says("key.list_all", vec![]), EMPTY);
    for name in ["m2", "M1", "a3"] {
        world.offer(name);
    }
    assert_eq!(
        world.says("key.list", vec!["un".into()]),
        r#"{"minions_pre":["a3","M1","m2"]}"#
    );
    assert_eq!(
        world.says("key.list", vec!["acc".into()]),
        r#"{"minions":[]}"#
    );
    assert_eq!(world.says("key.list", vec!["nothing".into()]), "{}");
    let all = EMPTY.replace(r#""minions_pre":[]"#, r#""minions_pre":["a3","M1","m2"]"#);
    assert_eq!(world.says("key.list", vec!["all".into()]), all);
    let matched = r#"{"minions_pre":["a3","m2"]}"#;
    assert_eq!(world.says("key.name_match", vec!["a*,m?".into()]), matched);
    assert_eq!(world.says("key.glob_match", vec!["zzz".into()]), "{}");
    assert_eq!(
        world.says("key.list_match", vec!["a3,m*".into()]),
        r#"{"minions_pre":["a3"]}"#
    );
}

#[test]
fn a_key_is_accepted_rejected_and_deleted() {
    let world = World::new();
    let key = world.offer("m1");
    world.offer("m2");
    let accepted = world.call("key.accept", vec!["m1".into()]).unwrap();
    assert_eq!(compact(&accepted.ret), r#"{"minions":["m1"]}"#);
    let event = Map::new()
        .with("result", true)
        .with("act", "accepted")
        .with("id", "m1")
        .with("pub", key.pem());
    assert_eq!(accepted.events, [event]);
    let changed = Changed {
        id: "m1".parse().unwrap(),
        key,
        state: Some(KeyState::Accepted),
    };
    assert_eq!(accepted.changed, [changed]);
    let again = world.call("key.accept", vec!["m1".into()]).unwrap();
    assert_eq!(
        (compact(&again.ret), again.events),
        (r#"{"minions":["m1"]}"#.into(), vec![])
    );
    // Only keys in the requested states change: an accepted key is not rejected as well.
    let all = r#"{"minions_rejected":["m2"],"minions":["m1"]}"#;
    assert_eq!(world.says("key.reject", vec!["*".into()]), all);
    let include = kwargs(Map::new().with("include_accepted", true));
    let rejected = world.says("key.reject", vec!["m1".into(), include]);
    assert_eq!(rejected, r#"{"minions_rejected":["m1"]}"#);
    let include = kwargs(
        Map::new()
            .with("match", "m*")
            .with("include_rejected", true),
    );
    assert_eq!(
        world.says("key.accept", vec![include]),
        r#"{"minions":["m1","m2"]}"#
    );
    let deleted = world.call("key.delete", vec!["*".into()]).unwrap();
    assert_eq!(compact(&deleted.ret), "{}");
    let acts: Vec<String> = deleted
        .events
        .iter()
        .map(|event| {
            format!(
                "{} {}",
                event.get("act").unwrap().to_text(),
                event.get("id").unwrap().to_text()
            )
        })
        .collect();
    assert_eq!(acts, ["delete m1", "delete m2"]);
    assert_eq!(deleted.changed.len(), 2);
    assert_eq!(world.says("key.list_all", vec![]), EMPTY);
}

#[test]
fn dictionaries_name_ids_by_status() {
    let world = World::new();
    for name in ["jerry", "stuart", "bob"] {
        world.offer(name);
    }
    let ids = |status: &str, ids: &[&str]| {
        let ids = Value::list(ids.iter().map(|id| Value::from(*id)));
        Value::Map(Map::new().with(status, ids))
    };
    let accepted = world.call(
        "key.accept_dict",
        vec![ids("minions_pre", &["jerry", "bob", "no"])],
    );
    let accepted = accepted.unwrap();
    assert_eq!(compact(&accepted.ret), r#"{"minions":["bob","jerry"]}"#);
    assert_eq!(accepted.events.len(), 2);
    // A key that does not have the given status is not changed.
    let left = world.says("key.delete_dict", vec![ids("minions_pre", &["jerry"])]);
    assert_eq!(left, r#"{"minions":["jerry"]}"#);
    assert_eq!(
        world.says("key.delete_dict", vec![ids("minions", &["jerry"])]),
        "{}"
    );
    let rejected = world.says("key.reject_dict", vec![ids("minions_pre", &["stuart"])]);
    assert_eq!(rejected, r#"{"minions_rejected":["stuart"]}"#);
    let error = world
        .call("key.accept_dict", vec!["*".into()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("a dictionary"), "{error}");
}

#[test]
fn a_denied_key_takes_the_place_when_that_is_asked_for() {
    let world = World::new();
    let old = world.offer("m1");
    world.call("key.accept", vec!["m1".into()]).unwrap();
    let new = world.offer("m1");
    let both = EMPTY
        .replace(r#""minions":[]"#, r#""minions":["m1"]"#)
        .replace(r#""minions_denied":[]"#, r#""minions_denied":["m1"]"#);
    assert_eq!(world.says("key.list_all", vec![]), both);
    let texts = world.call("key.print", vec!["m1".into()]).unwrap().ret;
    assert_eq!(texts.traverse("minions:m1", ":"), Some(&old.pem().into()));
    assert_eq!(
        texts.traverse("minions_denied:m1", ":"),
        Some(&new.pem().into())
    );
    let include = kwargs(Map::new().with("include_denied", true));
    // The rejection of a denied key does not remove the minion's accepted key.
    let reject = world
        .call("key.reject", vec!["m1".into(), include.clone()])
        .unwrap();
    assert_eq!((reject.events, reject.changed), (vec![], vec![]));
    let accepted = world
        .call("key.accept", vec!["m1".into(), include])
        .unwrap();
    assert_eq!(compact(&accepted.ret), r#"{"minions":["m1"]}"#);
    assert_eq!(accepted.changed.len(), 2);
    let known = world.store.key(&"m1".parse().unwrap()).unwrap().unwrap();
    assert_eq!(known.key, new);
}

#[test]
fn fingerprints_are_those_of_the_files() {
    let world = World::new();
    let key = world.offer("m1");
    let found = world.call("key.finger", vec!["m1".into()]).unwrap().ret;
    assert_eq!(
        found.traverse("minions_pre:m1", ":"),
        Some(&key.finger().into())
    );
    let md5 = world
        .call("key.finger", vec!["*".into(), "md5".into()])
        .unwrap()
        .ret;
    let finger = md5.traverse("minions_pre:m1", ":").unwrap().to_text();
    assert_eq!(finger.len(), 16 * 3 - 1);
    let own = world.rotation.own().pair.public();
    let found = world.call("key.finger", vec!["*".into()]).unwrap().ret;
    assert_eq!(
        found.get("local").unwrap().get("master.pub"),
        Some(&own.finger().into())
    );
    assert!(found.get("local").unwrap().get("master.pem").is_some());
    let master = world.call("key.finger_master", vec![]).unwrap().ret;
    assert_eq!(
        master.get("local").unwrap().get("master.pub"),
        Some(&own.finger().into())
    );
    let text = world.call("key.master_key_str", vec![]).unwrap().ret;
    assert_eq!(
        text.get("local").unwrap().get("master.pub"),
        Some(&own.pem().into())
    );
    let error = world
        .call("key.finger", vec!["*".into(), "crc".into()])
        .unwrap_err();
    assert_eq!(error.to_string(), "Invalid hash type: crc");
}

#[test]
fn keys_are_made_and_accepted_before_the_minion_comes() {
    let world = World::new();
    let made = world.call("key.gen", vec![]).unwrap().ret;
    let pair = KeyPair::from_pem(made.get("priv").unwrap().as_str().unwrap().as_bytes()).unwrap();
    assert_eq!(made.get("pub"), Some(&pair.public().pem().into()));
    assert_eq!(world.says("key.list_all", vec![]), EMPTY);
    let made = world.call("key.gen_accept", vec!["foo".into()]).unwrap();
    assert_eq!(made.changed.len(), 1);
    let file = world.folder.path().join("pki/minions/foo");
    let text = std::fs::read_to_string(file).unwrap();
    assert_eq!(made.ret.get("pub"), Some(&text.into()));
    assert_eq!(world.says("key.gen_accept", vec!["foo".into()]), "{}");
    let force = kwargs(Map::new().with("force", true));
    let again = world
        .call("key.gen_accept", vec!["foo".into(), force])
        .unwrap();
    assert_ne!(again.ret, made.ret);
    assert_eq!(again.changed.len(), 2);
    let error = world
        .call("key.gen_accept", vec!["../x".into()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("is not a valid minion id"), "{error}");
}

#[test]
fn a_pair_of_files_is_made_once_and_found_again() {
    let world = World::new();
    let given = |map: Map| world.call("key.gen_keys", vec![kwargs(map)]);
    let pki = world.folder.path().join("pki");
    let made = given(Map::new()).unwrap().ret;
    let text = std::fs::read(pki.join("minion.pem")).unwrap();
    let pair = KeyPair::from_pem(&text).unwrap();
    assert_eq!(made, pair.public().finger().into());
    assert_eq!(given(Map::new()).unwrap().ret, made);
    let elsewhere = Map::new().with("keydir", "new").with("keyname", "web1");
    let other = given(elsewhere).unwrap().ret;
    assert_ne!(other, made);
    let public = std::fs::read(pki.join("new/web1.pub")).unwrap();
    let public = PublicKey::from_pem(&public).unwrap();
    assert_eq!(other, public.finger().into());
    assert_eq!(world.says("key.list_all", vec![]), EMPTY);
}

#[test]
fn a_pair_of_files_is_never_made_where_the_master_or_another_program_would_use_it() {
    let world = World::new();
    let pki = world.folder.path().join("pki");
    let accepted = pki.join("minions").to_string_lossy().into_owned();
    let folders = [
        "minions",
        "minions_pre",
        "minions_autosign",
        "..",
        "new/../minions",
        "a/b",
        "/etc",
        &accepted,
    ];
    for folder in folders {
        let arg = kwargs(Map::new().with("keydir", folder).with("keyname", "web1"));
        let error = world.call("key.gen_keys", vec![arg]).unwrap_err();
        assert!(error.to_string().contains("keydir"), "{folder}: {error}");
    }
    for name in ["master", "master.next", "../x", "a/b", ""] {
        let arg = kwargs(Map::new().with("keyname", name));
        let refused = world.call("key.gen_keys", vec![arg]);
        assert!(refused.is_err(), "{name}");
    }
    let arg = kwargs(Map::new().with("user", "nobody"));
    assert!(world.call("key.gen_keys", vec![arg]).is_err());
    let files = std::fs::read_dir(&pki).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(
        !files
            .into_iter()
            .any(|name| name.starts_with("master.next"))
    );
    assert_eq!(world.says("key.list_all", vec![]), EMPTY);
}

#[test]
fn what_an_administrator_did_is_seen_before_anything_is_answered() {
    let world = World::new();
    world.offer("m1");
    let pki = world.folder.path().join("pki");
    std::fs::rename(pki.join("minions_pre/m1"), pki.join("minions/m1")).unwrap();
    let listed = world.call("key.list", vec!["acc".into()]).unwrap();
    assert_eq!(compact(&listed.ret), r#"{"minions":["m1"]}"#);
    assert_eq!(listed.changed.len(), 1);
}

#[test]
fn wrong_arguments_are_named() {
    let world = World::new();
    let cases = [
        (
            "key.accept",
            vec![],
            "key.accept: missing a required argument: 'match'",
        ),
        ("key.nothing", vec![], "'key.nothing' is not available."),
        (
            "key.list_all",
            vec!["x".into()],
            "key.list_all: it takes at most 0 positional arguments (1 given)",
        ),
        (
            "key.accept",
            vec!["x".into(), kwargs(Map::new().with("bogus", 1))],
            "key.accept: 'bogus' is an invalid keyword argument",
        ),
        (
            "key.accept",
            vec!["x".into(), kwargs(Map::new().with("match", "y"))],
            "key.accept: got multiple values for argument 'match'",
        ),
    ];
    for (fun, arg, text) in cases {
        assert_eq!(world.call(fun, arg).unwrap_err().to_string(), text);
    }
}
