//! Tests of returns whose data only other masters have.

use std::collections::BTreeSet;

use super::super::backup::Import;
use super::super::elsewhere::{Elsewhere, keep_in};
use super::super::rows::{Returned, Table};
use super::*;

const JID: &str = "20261126203503123456";

/// Other masters that have the returns of some minions.
struct Others(Vec<&'static str>);

fn returned(name: &str) -> Returned {
    Returned {
        id: id(name),
        at_ms: 7,
        data: Map::new().with("return", name),
    }
}

impl Elsewhere for Others {
    fn fetch(&self, _jid: &str, ids: &BTreeSet<Id>) -> Result<Vec<Returned>, String> {
        let known = self.0.iter().map(|name| returned(name));
        Ok(known
            .filter(|returned| ids.contains(&returned.id))
            .collect())
    }
}

fn ids(names: &[&str]) -> BTreeSet<Id> {
    names.iter().map(|name| id(name)).collect()
}

/// Returns a store with a job of three minions.
fn with_returns() -> World {
    let world = World::new();
    world.apply(Command::Job {
        jid: JID.to_owned(),
        load: Map::new().with("fun", "test.ping"),
        minions: vec![id("a"), id("b"), id("c")],
        at_ms: 6,
    });
    for name in ["a", "b", "c"] {
        let returned = returned(name);
        world.apply(Command::Return {
            jid: JID.to_owned(),
            id: returned.id,
            data: returned.data,
            at_ms: returned.at_ms,
            origin: None,
        });
    }
    world
}

fn read(store: &Store) -> Result<Vec<Returned>, Error> {
    store.returns(JID)?.collect()
}

#[test]
fn data_that_was_removed_is_read_from_other_masters_and_can_be_restored() {
    let world = with_returns();
    let store = &world.store;
    let all = read(store).unwrap();
    let removed = smol::block_on(store.remove_data(JID, ids(&["a", "b", "x"])));
    assert_eq!(removed.unwrap(), 2);
    assert_eq!(store.jobs_elsewhere().unwrap(), [JID]);
    let of = store.returns_of(JID).unwrap();
    assert_eq!((of.here, of.elsewhere), (ids(&["c"]), ids(&["a", "b"])));
    assert!(store.has_returned(JID, &id("a")).unwrap());

    // Without other masters it is an error, and not an empty return.
    let error = read(store).unwrap_err().to_string();
    assert!(error.contains(JID), "{error}");
    store.read_elsewhere(Arc::new(Others(vec!["a", "b"])));
    assert_eq!(read(store).unwrap(), all);
    assert_eq!(store.returned(JID, &id("b")).unwrap(), Some(returned("b")));

    let restored = vec![returned("a"), returned("c")];
    let restored = smol::block_on(store.restore_data(JID, restored));
    assert_eq!(restored.unwrap(), 1);
    assert_eq!(store.jobs_elsewhere().unwrap(), [JID]);
    let here = store.returns_here(JID, Some(&id("a"))).unwrap();
    let here: Vec<_> = here.map(Result::unwrap).collect();
    assert_eq!(here, [returned("c")]);
    smol::block_on(store.restore_data(JID, vec![returned("b")])).unwrap();
    assert!(store.jobs_elsewhere().unwrap().is_empty());
    assert_eq!(read(store).unwrap(), all);
}

#[test]
fn a_return_that_no_master_gives_is_an_error() {
    let world = with_returns();
    world.store.read_elsewhere(Arc::new(Others(vec!["a"])));
    smol::block_on(world.store.remove_data(JID, ids(&["a", "b"]))).unwrap();
    let error = read(&world.store).unwrap_err().to_string();
    assert!(error.contains("no master has the return of b"), "{error}");
    let returned = world.store.returned(JID, &id("b"));
    assert!(returned.is_err());
}

#[test]
fn a_second_return_stays_a_duplicate_after_the_data_was_removed() {
    let world = with_returns();
    smol::block_on(world.store.remove_data(JID, ids(&["a"]))).unwrap();
    let again = world.apply(Command::Return {
        jid: JID.to_owned(),
        id: id("a"),
        data: Map::new().with("return", "other"),
        at_ms: 9,
        origin: None,
    });
    assert!(again.is_void());
}

#[test]
fn a_job_that_is_removed_leaves_no_mark() {
    let world = with_returns();
    smol::block_on(world.store.remove_data(JID, ids(&["a"]))).unwrap();
    world.apply(Command::JobsDropped {
        before_ms: 100,
        limit: 100,
    });
    assert!(world.store.jobs_elsewhere().unwrap().is_empty());
    assert!(read(&world.store).unwrap().is_empty());
    // Restored data of a return that was removed in the meantime brings nothing back.
    let restored = smol::block_on(world.store.restore_data(JID, vec![returned("a")]));
    assert_eq!(restored.unwrap(), 0);
    assert!(read(&world.store).unwrap().is_empty());
}

#[test]
fn a_received_state_does_not_lose_data_that_only_this_master_has() {
    let (own, other) = (with_returns(), with_returns());
    smol::block_on(own.store.remove_data(JID, ids(&["c"]))).unwrap();
    smol::block_on(other.store.remove_data(JID, ids(&["a", "b", "c"]))).unwrap();
    let folder = own.folder.path().join("import");
    let mut import = Import::create(&folder).unwrap();
    let disk = other.store.disk().unwrap();
    for (number, table) in (0..).zip(Table::ALL) {
        for row in disk.table(table).iter() {
            let (key, value) = row.into_inner().unwrap();
            import.add((number, key.to_vec(), value.to_vec())).unwrap();
        }
    }
    keep_in(&own.store, &mut import).unwrap();
    import.finish().unwrap();
    let received = Store::open(&folder, Limits::default()).unwrap();
    let of = received.returns_of(JID).unwrap();
    assert_eq!((of.here, of.elsewhere), (ids(&["a", "b"]), ids(&["c"])));
    assert_eq!(received.jobs_elsewhere().unwrap(), [JID]);
}

#[test]
fn rings_are_changed_by_commands_and_refused_with_the_reason() {
    let world = World::new();
    let create = || Command::RingCreated {
        name: "jobs".to_owned(),
        voters: vec!["m1".to_owned(), "m2".to_owned()],
    };
    assert!(!world.apply(create()).is_void());
    let refused = world.apply(create());
    let why = refused.rejection().unwrap().to_string();
    assert_eq!(why, "The ring jobs exists already");
    let route = Command::RouteSet {
        data_type: "jobs".to_owned(),
        ring: Some("jobs".to_owned()),
        at_ms: 5,
    };
    assert!(!world.apply(route).is_void());
    let rings = world.store.rings().unwrap();
    let (name, ring, since_ms) = rings.routed("jobs").unwrap();
    assert_eq!((name, ring.replicas(), since_ms), ("jobs", 2, 5));
}
