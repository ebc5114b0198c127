//! Tests of the chores that remove rows from the store.

use super::*;
use crate::keys::Use;
use crate::refusals;
use crate::store::{DELETED, Limits};

/// More rows than one command removes.
const MANY: usize = 2500;

fn admission(folder: &tempfile::TempDir) -> Arc<Admission> {
    let pki_dir = folder.path().join("pki").display().to_string();
    let opts = Map::new().with("refuse_deleted_keys_seconds", 60);
    let opts = Arc::new(Opts::new(opts.with("pki_dir", pki_dir)));
    let store = Store::open(&folder.path().join("store"), Limits::default()).unwrap();
    let minions = Minions::default();
    let keys = Keys::open(&opts, &store, &minions, Use::Both).unwrap();
    let policy = Policy::read(&opts).unwrap();
    Arc::new(Admission::new(
        &opts,
        policy,
        &Events::new(store),
        &Arc::new(Refusals::every(refusals::EVERY)),
        &Arc::default(),
        &minions,
        keys,
    ))
}

fn token(name: String, data: Map) -> Command {
    Command::Token {
        name,
        data: Some(data),
        expected: None,
    }
}

/// Returns the names of all tokens and of the other rows that are stored like tokens.
fn names(admission: &Admission) -> Vec<String> {
    let tokens = admission.store.tokens().unwrap();
    tokens.map(|token| token.unwrap().0).collect()
}

#[test]
fn all_keys_that_were_deleted_long_ago_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let admission = admission(&folder);
    let deleted = |name: String, at_ms: u64| {
        token(format!("{DELETED}{name}"), Map::new().with("at_ms", at_ms))
    };
    let mut commands: Vec<Command> = (0..MANY)
        .map(|number| deleted(format!("old{number}"), 1))
        .collect();
    commands.push(deleted("recent".to_owned(), now_ms()));
    commands.push(token("enroll/a".to_owned(), Map::new()));
    smol::block_on(async {
        admission.store.apply_all(commands).await.unwrap();
        admission.forget_deleted().await;
    });
    assert_eq!(names(&admission), ["deleted/recent", "enroll/a"]);
}

#[test]
fn all_instances_without_a_key_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let admission = admission(&folder);
    let (id, key): (Id, _) = ("web".parse().unwrap(), PublicKey::from_bytes([1; 32]));
    let instance = |name: String, id: &str| {
        let row = Map::new().with("id", id).with("key", key.finger());
        token(format!("identity/{name}"), row)
    };
    let mut commands: Vec<Command> = (0..MANY)
        .map(|number| instance(format!("gone{number}"), "gone"))
        .collect();
    commands.push(instance("used".to_owned(), id.as_str()));
    commands.push(Command::KeyAccepted {
        id,
        key,
        at_ms: 1,
        bound: Map::new(),
        replace: true,
    });
    smol::block_on(async {
        admission.store.apply_all(commands).await.unwrap();
        admission.forget_instances().await;
    });
    assert_eq!(names(&admission), ["identity/used"]);
}
